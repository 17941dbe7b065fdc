/* nccl.h - NCCL behind a few plain functions: the link between the GPU of this rank and those of the others.
 *
 * The library is found when a run of several ranks asks for it, and the module neither needs nor includes anything of
 * it: what its interface (nccl.h of NCCL 2) fixes is written down here, and tests/unit/test_nccl.c compares it with
 * that header where it is installed. One link a process, as there is one GPU a rank. */
#ifndef BACKEND_CUDA_MODULE_NCCL_H
#define BACKEND_CUDA_MODULE_NCCL_H
#include "backend/backend.h"
#ifdef __CUDACC__
#error "C only"
#endif

enum { NCCL_OK = 0, NCCL_UNDER_WAY = 7 };                                      /* ncclResult_t */
enum { NCCL_U8 = 1, NCCL_I32 = 2, NCCL_F16 = 6, NCCL_F32 = 7, NCCL_BF16 = 9 }; /* ncclDataType_t */
enum { NCCL_ADD = 0, NCCL_LARGEST = 2 };                                       /* ncclRedOp_t */

struct CUstream_st;

/* Every function returns an ncclResult_t; ncclUniqueId goes by value, and is as large as a backend_key. */
#define NCCL_FUNCTIONS(F)                                                                          \
    F(version, "ncclGetVersion", (int *))                                                          \
    F(unique_id, "ncclGetUniqueId", (struct backend_key *))                                        \
    F(init, "ncclCommInitRank", (void **, int ranks, struct backend_key, int rank))                \
    F(destroy, "ncclCommDestroy", (void *))                                                        \
    F(abort, "ncclCommAbort", (void *))                                                            \
    F(async_error, "ncclCommGetAsyncError", (void *, int *))                                       \
    F(all_reduce, "ncclAllReduce",                                                                 \
      (const void *, void *, size_t, int type, int op, void *comm, struct CUstream_st *))          \
    F(reduce_scatter, "ncclReduceScatter",                                                         \
      (const void *, void *, size_t, int type, int op, void *comm, struct CUstream_st *))          \
    F(all_gather, "ncclAllGather",                                                                 \
      (const void *, void *, size_t, int type, void *comm, struct CUstream_st *))                  \
    F(broadcast, "ncclBroadcast",                                                                  \
      (const void *, void *, size_t, int type, int root, void *comm, struct CUstream_st *))

struct nccl {
#define F(field, symbol, arguments) int(*field) arguments;
    NCCL_FUNCTIONS(F)
#undef F
    const char *(*error_text)(int);
    bool  loaded;
    void *comm; /* NULL: there is no link */
    i32   rank, ranks;
    int   failed; /* of a collective that could not be begun */
};

enum status nccl_load(struct err *err); /* once a process */
enum status nccl_key(struct backend_key *key, struct err *err);
enum status nccl_link(const struct backend_key *key, i32 rank, i32 ranks, struct err *err);
bool        nccl_linked(void);
/* Of what was begun so far, or of the link itself. */
enum status nccl_status(struct err *err);
void        nccl_abort(void); /* ends kernels that wait for a rank that never comes */
void        nccl_close(void);

#endif
