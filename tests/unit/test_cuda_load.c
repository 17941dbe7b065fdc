/* test_cuda_load.c - a CUDA module of another build is refused with a remedy, and its entry point is not called. */
#include "backend/cuda/cuda.h"
#include "harness.h"
#include <stdlib.h>

TEST(a_module_of_another_build_is_refused)
{
    static const char *const modules[] = { FAKE_MODULE, FAKE_MODULE_OLD };
    for (i64 i = 0; i < COUNT_OF(modules); i++) {
        struct backend *b   = NULL;
        struct err      err = { 0 };
        CHECK_EQ(setenv("FRUGAL_CUDA", modules[i], 1), 0);
        CHECK_EQ(backend_cuda_open(perm, &b, &err), STATUS_WORLD);
        CHECK(strstr(err.text, modules[i]));
        CHECK(strstr(err.text, "is not of the same build as this program: "
                               "build both again (cmake --build build) or install both"));
    }
}
