/* test_nccl.c - what the CUDA module knows of NCCL's interface without its header, against that header. */
#include "backend/cuda/module/nccl.h"
#include "harness.h"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>

TEST(numbers_are_those_of_the_header)
{
    CHECK_EQ((int)NCCL_OK, (int)ncclSuccess);
    CHECK_EQ((int)NCCL_UNDER_WAY, (int)ncclInProgress);
    CHECK_EQ((int)NCCL_U8, (int)ncclUint8);
    CHECK_EQ((int)NCCL_I32, (int)ncclInt32);
    CHECK_EQ((int)NCCL_F16, (int)ncclFloat16);
    CHECK_EQ((int)NCCL_F32, (int)ncclFloat32);
    CHECK_EQ((int)NCCL_BF16, (int)ncclBfloat16);
    CHECK_EQ((int)NCCL_ADD, (int)ncclSum);
    CHECK_EQ((int)NCCL_LARGEST, (int)ncclMax);
    CHECK_EQ(sizeof(struct backend_key), sizeof(ncclUniqueId));
}

#define IS(name, ...)                                                                              \
    CHECK(__builtin_types_compatible_p(__typeof__(name), ncclResult_t(__VA_ARGS__)))

/* These are written in nccl.h with int for the enumerations and void * for the handles, in the same order. */
TEST(calls_have_the_arguments_of_the_header)
{
    IS(ncclGetVersion, int *);
    IS(ncclGetUniqueId, ncclUniqueId *);
    IS(ncclCommInitRank, ncclComm_t *, int, ncclUniqueId, int);
    IS(ncclCommDestroy, ncclComm_t);
    IS(ncclCommAbort, ncclComm_t);
    IS(ncclGroupStart, void);
    IS(ncclGroupEnd, void);
    IS(ncclCommGetAsyncError, ncclComm_t, ncclResult_t *);
    IS(ncclAllReduce, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
       cudaStream_t);
    IS(ncclReduceScatter, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
       cudaStream_t);
    IS(ncclAllGather, const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
    IS(ncclBroadcast, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0)
    IS(ncclCommSplit, ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
#endif
    CHECK_EQ(sizeof(ncclDataType_t), sizeof(int));
    CHECK_EQ(sizeof(ncclRedOp_t), sizeof(int));
    CHECK_EQ(sizeof(ncclResult_t), sizeof(int));
    CHECK_EQ(sizeof(ncclComm_t), sizeof(void *));
}
#else
TEST(numbers_are_those_of_the_header) { SKIP("nccl.h or cuda_runtime.h is not installed"); }
#endif
