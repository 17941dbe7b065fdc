/* load.c - finds the module frugal_cuda.so: where FRUGAL_CUDA says, beside the program (as built),
 * or in the library folder beside the program's (as installed). */
#include "backend/cuda/cuda.h"
#include "base/os.h"
#include <dlfcn.h>
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

static void *open_module(struct arena *scratch)
{
    struct os *os    = os_real();
    struct str given = os->env(os, "FRUGAL_CUDA");
    char       buffer[PATH_BYTES];
    if (given.len) return dlopen(str_z(scratch, given), RTLD_NOW | RTLD_LOCAL);
    static const char *const places[] = { "frugal_cuda.so", FRUGAL_MODULES "/frugal_cuda.so" };
    struct str               folder   = program_folder(buffer);
    for (i64 i = 0; i < COUNT_OF(places); i++) {
        struct str path   = str_cat(scratch, folder, str_of(places[i]));
        void      *module = dlopen(str_z(scratch, path), RTLD_NOW | RTLD_LOCAL);
        if (module) return module;
    }
    return NULL;
}

/* Under WSL the GPU is behind Windows' own device, whoever made it. */
bool backend_cuda_likely(struct os *os)
{
    struct os_stat stat;
    return !os->stat(os, STR("/dev/nvidiactl"), &stat, NULL) ||
           !os->stat(os, STR("/dev/dxg"), &stat, NULL);
}

enum status backend_cuda_open(struct arena *perm, struct backend **out, struct err *err)
{
    struct arena scratch = *perm;
    void        *module  = open_module(&scratch);
    cuda_door   *door    = NULL;
    if (!module) {
        const char *why = dlerror();
        return err_set(err, STATUS_WORLD, "the CUDA module does not load: %s",
                       why ? why : "it was not found");
    }
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
    return door(perm, out, err);
}
