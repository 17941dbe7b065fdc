/* backend_int.h - what the two files of the GPU's backend share. */
#ifndef BACKEND_CUDA_MODULE_BACKEND_INT_H
#define BACKEND_CUDA_MODULE_BACKEND_INT_H
#include "backend/cuda/cuda.h"
#include "backend/cuda/module/gpu.h"

enum { STAGE_BYTES = 1 << 22, STAGES_FIRST = 2, STAGES_MAX = 64, STAGED_MIN = 1 << 16 };

/* What host data passes through, so that `put` need not wait and the next batch crosses the link beside
 * the programs: pinned memory, then as much of the device's, on a stream of its own; from there to its place in turn
 * with the programs, at the device's own speed. */
struct stage {
    u8         *pinned, *device;
    cudaEvent_t arrived, done; /* on the device; in its place */
    bool        busy;
};

/* A few bytes on their way to the host: `to` gets them when somebody waits for them. */
enum { ANSWERS = 8, ANSWER_BYTES = 64, TAKEN_BYTES = 1 << 20 };
struct answer {
    u8         *pinned;
    cudaEvent_t done;
    void       *to; /* NULL: nothing is on its way */
    i64         bytes;
    ticket      ticket;
};

enum { COPIES = 16, COPY_BYTES_MIN = 1 << 15 }; /* timed: each twice the one before, up to 1 GiB */

struct cuda {
    struct backend   base;
    struct gpu       gpu;
    struct gpu       beside; /* the same with the stream of queue 1, where a program has that */
    cudaEvent_t      forked;
    struct str       name, bus_id;
    i32              device;                     /* its number in this process */
    i64              memory_bytes;               /* that was free once the context stood */
    i64              link_bytes;                 /* of those, what NCCL has taken */
    f64              flops_s, bandwidth_bytes_s; /* of plain f32; by the clocks the driver tells */
    u8              *arena;
    i64              arena_bytes;
    struct stage     stages[STAGES_MAX];
    i32              stage_count, stage_next;
    cudaStream_t     inputs; /* to the stages */
    bool             begun;  /* a program has run: what is put from now on is mostly batches */
    struct answer    answers[ANSWERS];
    ticket           asked;          /* answers so far */
    u8              *taken;          /* TAKEN_BYTES, pinned, of larger ones; NULL: not needed yet */
    cudaStream_t     copies;         /* of state, beside the programs */
    cudaEvent_t      marked, copied; /* the state is there; all copies of it are */
    u8              *pinned;         /* memory that copies go to */
    i64              pinned_bytes;   /* of it, from the beginning */
    bool             keeps_choices;  /* on disk */
    f64              copy_s[COPIES]; /* of COPY_BYTES_MIN << i; 0: not timed */
    struct arena    *perm;           /* of whoever opened it */
    struct prepared *linked;         /* those prepared while NCCL links ranks */
};

struct
    ready { /* one launch, nothing left to decide; an instruction with a chain may have several */
    const struct gpu_kernel *kernel;
    struct gpu_call          call;
    i32                      instr;
    const struct ready
               *waits; /* for this, which runs beside and whose bytes it touches; NULL: for none */
    cudaEvent_t done;  /* of what runs beside */
};

struct prepared {
    struct ready       *list;
    i32                 count;
    bool               *joined; /* by instruction: a kernel of one before it does its work */
    const struct ready *last;   /* that runs beside until the end; NULL: none does */
    cudaGraphExec_t     graph;  /* NULL: it could not be captured */
    struct prepared    *next;   /* of cuda->linked */
};

/* A driver that fails in the middle of a run leaves nothing to go on with. */
static inline void must(cudaError_t e)
{
    if (e != cudaSuccess) assert_failed(cudaGetErrorString(e), __FILE__, __LINE__);
}

/* Does the instruction read or write any of these bytes of the arena? */
bool instr_touches(const struct program *p, i32 index, i64 begin, i64 end);
/* Which launches go beside the others, and who waits for them; before any of them is launched. */
enum status queues_prepare(struct cuda *cuda, const struct program *p, struct prepared *to,
                           struct err *err);
void        queues_run(struct cuda *cuda, const struct prepared *p); /* all, in their order */

#endif
