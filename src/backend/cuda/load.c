/* load.c - finds the module frugal_cuda.so: where FRUGAL_CUDA says, beside the program (as built),
 * in the library folder beside the program's (as installed), or in the Python package whose wheel brought both. */
#include "backend/cuda/cuda.h"
#include "base/os.h"
#include <dlfcn.h>
#include <glob.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static struct str program_folder(char *buffer)
{
    ssize_t    bytes = readlink("/proc/self/exe", buffer, PATH_BYTES);
    struct str path  = { buffer, MAX(bytes, 0) };
    while (path.len && path.data[path.len - 1] != '/') path.len--;
    return path;
}

/* The first that matches; empty: none does. */
static struct str first_of(struct str folder, const char *pattern, struct arena *scratch)
{
    glob_t     found = { 0 };
    struct str path  = { 0 };
    if (!glob(str_z(scratch, str_cat(scratch, folder, str_of(pattern))), 0, NULL, &found))
        path = str_copy(scratch, str_of(found.gl_pathv[0]));
    globfree(&found);
    return path;
}

/* The path of the module; empty: there is none. */
static struct str find_module(struct arena *scratch)
{
    static const char *const wheel[]  = { "../lib/python3*/site-packages/frugal/frugal_cuda.so",
                                          "../lib64/python3*/site-packages/frugal/frugal_cuda.so",
                                          "../lib/python3*/dist-packages/frugal/frugal_cuda.so",
                                          "../frugal/frugal_cuda.so" }; /* pip install --target */
    static const char *const places[] = { "frugal_cuda.so", FRUGAL_MODULES "/frugal_cuda.so" };
    struct os               *os       = os_real();
    struct str               given = os->env(os, "FRUGAL_CUDA"), path = { 0 };
    char                     buffer[PATH_BYTES];
    struct os_stat           there;
    if (given.len) return given;
    struct str folder = program_folder(buffer);
    for (i64 i = 0; i < COUNT_OF(places); i++) {
        path = str_cat(scratch, folder, str_of(places[i]));
        if (!os->stat(os, path, &there, NULL)) return path;
    }
    path = (struct str){ 0 };
    for (i64 i = 0; i < COUNT_OF(wheel) && !path.len; i++)
        path = first_of(folder, wheel[i], scratch);
    return path;
}

/* Under WSL the GPU is behind Windows' own device, whoever made it. */
bool backend_cuda_likely(struct os *os)
{
    struct os_stat stat;
    return !os->stat(os, STR("/dev/nvidiactl"), &stat, NULL) ||
           !os->stat(os, STR("/dev/dxg"), &stat, NULL);
}

enum status backend_cuda_open(struct arena *perm, i32 nth, struct backend **out, struct err *err)
{
    struct arena scratch = *perm;
    struct str   path    = find_module(&scratch);
    void        *module  = path.len ? dlopen(str_z(&scratch, path), RTLD_NOW | RTLD_LOCAL) : NULL;
    cuda_door   *door    = NULL;
    if (!path.len)
        return err_set(
            err, STATUS_WORLD,
            "frugal_cuda.so was not found: install frugal with CUDA, or nvcc and cuBLASLt "
            "and build it again (docs/install.md)");
    if (!module)
        return err_set(err, STATUS_WORLD,
                       "the CUDA module cannot be loaded: %.300s; install that library of CUDA 13, "
                       "or build the module again (docs/install.md)",
                       dlerror());
    void *symbol = dlsym(module, CUDA_DOOR);
    memcpy(&door, &symbol, sizeof symbol); /* ISO C has no cast from data to functions */
    if (!door) return err_set(err, STATUS_WORLD, "the CUDA module has no %s", CUDA_DOOR);
    const char *build = dlsym(module, CUDA_BUILD);
    Dl_info     where = { 0 };
    if (!build || strcmp(build, frugal_cuda_build))
        return err_set(
            err, STATUS_WORLD,
            "the CUDA module %s is not of the same build as this program: build both again "
            "(cmake --build build) or install both",
            dladdr(symbol, &where) ? where.dli_fname : "");
    return door(perm, nth, out, err);
}
