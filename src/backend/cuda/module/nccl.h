/* nccl.h - NCCL behind a few plain functions: the link between the GPU of this rank and those of the others.
 *
 * The library is found when a run of several ranks asks for it, and the module neither needs nor includes anything of
 * it: what its interface (nccl.h of NCCL 2) fixes is written down here, and tests/unit/test_nccl.c compares it with
 * that header where it is installed. One link of all ranks a process, as there is one GPU a rank, and
 * links of groups beside it. */
#ifndef BACKEND_CUDA_MODULE_NCCL_H
#define BACKEND_CUDA_MODULE_NCCL_H
#include "backend/backend.h"
#include "ir/collective.h"
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
    F(group_start, "ncclGroupStart", (void))                                                       \
    F(group_end, "ncclGroupEnd", (void))                                                           \
    F(async_error, "ncclCommGetAsyncError", (void *, int *))                                       \
    F(all_reduce, "ncclAllReduce",                                                                 \
      (const void *, void *, size_t, int type, int op, void *comm, struct CUstream_st *))          \
    F(reduce_scatter, "ncclReduceScatter",                                                         \
      (const void *, void *, size_t, int type, int op, void *comm, struct CUstream_st *))          \
    F(all_gather, "ncclAllGather",                                                                 \
      (const void *, void *, size_t, int type, void *comm, struct CUstream_st *))                  \
    F(broadcast, "ncclBroadcast",                                                                  \
      (const void *, void *, size_t, int type, int root, void *comm, struct CUstream_st *))

/* Those that share a link: all ranks, or those of one group (enum ranks_over). */
struct nccl_link {
    void *comm; /* NULL: there is none */
    i32   rank, ranks;
};

struct nccl {
#define F(field, symbol, arguments) int(*field) arguments;
    NCCL_FUNCTIONS(F)
#undef F
    const char *(*error_text)(int);
    /* ncclCommSplit, of NCCL 2.18 and later; NULL: it is older */
    int (*split)(void *comm, int group, int place, void **to, void *config);
    bool             loaded;
    struct nccl_link links[OVER_COUNT];
    int              failed; /* of a collective that could not be begun */
};

enum status nccl_load(struct err *err); /* once a process */
enum status nccl_key(struct backend_key *key, struct err *err);
enum status nccl_link(const struct backend_key *key, i32 rank, i32 ranks, struct err *err);
/* A link of those that call it with the same `group`, beside that of all. Each waits for all. */
enum status nccl_split(enum ranks_over over, i32 group, i32 place, i32 count, struct err *err);
bool        nccl_linked(void);
/* Of what was begun so far, or of the link itself. */
enum status nccl_status(struct err *err);
void        nccl_abort(void); /* ends kernels that wait for a rank that never comes */
void        nccl_close(void);

#endif
