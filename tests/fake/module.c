/* module.c - a CUDA module of another build, for test_cuda_load.c: its entry point must not be called. With MODULE_OLD
 * it is from before modules said what they were built from. */
#include <stdlib.h>

#ifndef MODULE_OLD
extern const char frugal_cuda_build[];
const char        frugal_cuda_build[] = "of other headers";
#endif

int frugal_cuda_open(void *perm, int nth, void *out, void *err);
int frugal_cuda_open(void *perm, int nth, void *out, void *err)
{
    (void)perm, (void)nth, (void)out, (void)err;
    abort();
}
