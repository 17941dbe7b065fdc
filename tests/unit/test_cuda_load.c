/* test_cuda_load.c - a CUDA module of another build is refused with a remedy, and its entry point is not called. */
#include "backend/cuda/cuda.h"
#include "harness.h"
#include "support/folder.h"
#include "support/small_run.h"
#include "train/train.h"
#include <stdio.h>
#include <stdlib.h>

TEST(a_module_of_another_build_is_refused)
{
    static const char *const modules[] = { FAKE_MODULE, FAKE_MODULE_OLD };
    for (i64 i = 0; i < COUNT_OF(modules); i++) {
        struct backend *b   = NULL;
        struct err      err = { 0 };
        CHECK_EQ(setenv("FRUGAL_CUDA", modules[i], 1), 0);
        CHECK_EQ(backend_cuda_open(perm, 0, &b, &err), STATUS_WORLD);
        CHECK(strstr(err.text, modules[i]));
        CHECK(strstr(err.text, "is not of the same build as this program: "
                               "build both again (cmake --build build) or install both"));
    }
}

TEST(a_module_that_does_not_load_is_an_error_with_a_remedy)
{
    struct backend *b   = NULL;
    struct err      err = { 0 };
    CHECK_EQ(setenv("FRUGAL_CUDA", "/nowhere/frugal_cuda.so", 1), 0);
    CHECK_EQ(backend_cuda_open(perm, 0, &b, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "the CUDA module cannot be loaded: /nowhere/frugal_cuda.so: "));
    CHECK(strstr(err.text,
                 "install that library of CUDA 13, or build the module again (docs/install.md)"));
    CHECK_EQ(unsetenv("FRUGAL_CUDA"), 0); /* none beside this test in a build without CUDA */
    if (backend_cuda_open(perm, 0, &b, &err) && strstr(err.text, "not found"))
        CHECK_STR(err.text, "frugal_cuda.so was not found: install frugal with CUDA, or nvcc and "
                            "cuBLASLt and build it "
                            "again (docs/install.md)");
}

static enum status stat_with_gpu(struct os *os, struct str path, struct os_stat *out,
                                 struct err *err)
{
    *out = (struct os_stat){ 0 };
    return str_eq(path, STR("/dev/nvidiactl")) ? STATUS_OK : os_real()->stat(os, path, out, err);
}

static void on_note(void *context, const struct event_note *e)
{
    snprintf(context, 1000, "%.*s", STR_ARG(e->text));
}

/* Else the hours of a GPU would be paid for, and nobody would know why the run is slow. */
TEST(a_gpu_that_cannot_be_used_is_said)
{
    char                note[1000] = "";
    struct subscriber   to         = { .context = note, .on_note = on_note };
    struct settings     s  = small_run(perm, folder_new(perm).data, "- flatten\n- dense: 4\n");
    struct os           os = *os_real();
    struct train_result r;
    struct err          err = { 0 };
    CHECK_EQ(setenv("FRUGAL_CUDA", FAKE_MODULE, 1), 0);
    os.stat        = stat_with_gpu;
    s.train.epochs = 1;
    s.train.device = STR("auto");
    CHECK_EQ(train_run(&os, &s, &(struct train_with){ .to = &to }, &r, &err), STATUS_OK);
    CHECK(strstr(note, "this machine has a GPU and the run does not use it: the CUDA module"));
    CHECK(strstr(note, "train.device=cpu if that is what you want"));
}
