/* queues.c - a program on two streams: its instructions in turn, and beside them those of queue 1, the collectives.
 *
 * One of these begins after all that stands before it. Who comes after it goes on at once, unless it touches bytes that
 * the collective reads or writes: so whatever the layout of memory, the numbers are those of one stream. */
#include "backend/cuda/module/backend_int.h"

bool instr_touches(const struct program *p, i32 index, i64 begin, i64 end)
{
    const struct instr *instr = &p->instrs[index];
    const struct node  *n     = &p->graph->nodes[instr->node];
    bool                any   = instr->work_bytes && instr->work_offset < end &&
               instr->work_offset + instr->work_bytes > begin;
    for (i32 k = 0; k < n->in_count + node_results(n); k++) {
        i32 value = k < n->in_count ? n->in[k] : n->out + k - n->in_count;
        i64 at    = p->offset[value];
        any |= at < end && at + type_bytes(p->graph->values[value].type) > begin;
    }
    return any;
}

static bool is_beside(const struct cuda *cuda, const struct ready *r)
{
    return r->call.gpu == &cuda->beside;
}

/* Does the launch read or write any of these bytes of the arena? */
static bool reaches(const struct cuda *cuda, const struct program *p, const struct ready *r,
                    i64 begin, i64 end)
{
    const struct tensor *sum = r->call.sum;
    i64                  at  = sum ? (u8 *)sum->data - cuda->arena : 0;
    return (sum && at < end && at + type_bytes(sum->type) > begin) ||
           instr_touches(p, r->instr, begin, end);
}

/* Bytes of an instruction that runs beside. */
static bool collide(const struct cuda *cuda, const struct program *p, const struct ready *r,
                    i32 index)
{
    const struct instr *i = &p->instrs[index];
    const struct node  *n = &p->graph->nodes[i->node];
    bool any = i->work_bytes && reaches(cuda, p, r, i->work_offset, i->work_offset + i->work_bytes);
    for (i32 k = 0; !any && k < n->in_count + node_results(n); k++) {
        i32 value = k < n->in_count ? n->in[k] : n->out + k - n->in_count;
        i64 at    = p->offset[value];
        any       = reaches(cuda, p, r, at, at + type_bytes(p->graph->values[value].type));
    }
    return any;
}

static cudaError_t open_beside(struct cuda *cuda)
{
    cudaStream_t stream = cuda->beside.stream;
    cudaError_t  e      = cudaSuccess;
    int          low = 0, high = 0; /* sums first: everybody waits for the last of them */
    if (!stream) {
        e = cudaDeviceGetStreamPriorityRange(&low, &high);
        if (e == cudaSuccess)
            e = cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, high);
        if (e == cudaSuccess) e = cudaEventCreateWithFlags(&cuda->forked, cudaEventDisableTiming);
    }
    cuda->beside        = cuda->gpu;
    cuda->beside.stream = stream;
    return e;
}

/* The last of list[from..to) that runs beside and touches bytes of `r`; -1: none does. */
static i32 find_collision(const struct cuda *cuda, const struct program *p,
                          const struct ready *list, i32 from, i32 to, const struct ready *r)
{
    for (i32 k = to - 1; k >= from; k--)
        if (is_beside(cuda, &list[k]) && collide(cuda, p, r, list[k].instr)) return k;
    return -1;
}

enum status queues_prepare(struct cuda *cuda, const struct program *p, struct prepared *to,
                           struct err *err)
{
    i32         open = 0, last = -1; /* before `open` all have been waited for */
    cudaError_t e = cudaSuccess;
    for (i32 i = 0; e == cudaSuccess && i < to->count; i++) {
        struct ready *r = &to->list[i];
        if (p->instrs[r->instr].queue) {
            e = open_beside(cuda);
            if (e == cudaSuccess) e = cudaEventCreateWithFlags(&r->done, cudaEventDisableTiming);
            r->call.gpu = &cuda->beside;
            last        = i;
            continue;
        }
        i32 k = last < open ? -1 : find_collision(cuda, p, to->list, open, last + 1, r);
        if (k < 0) continue;
        r->waits = &to->list[k];
        open     = k + 1;
    }
    to->last = last >= open ? &to->list[last] : NULL;
    return e == cudaSuccess
               ? STATUS_OK
               : err_set(err, STATUS_WORLD, "the GPU refuses a stream: %s", cudaGetErrorString(e));
}

static void run_beside(struct cuda *cuda, const struct ready *r)
{
    must(cudaEventRecord(cuda->forked, cuda->gpu.stream)); /* after all that was launched so far */
    must(cudaStreamWaitEvent(cuda->beside.stream, cuda->forked, 0));
    r->kernel->run(&r->call);
    must(cudaEventRecord(r->done, cuda->beside.stream));
}

void queues_run(struct cuda *cuda, const struct prepared *p)
{
    for (i32 i = 0; i < p->count; i++) {
        const struct ready *r = &p->list[i];
        if (r->waits) must(cudaStreamWaitEvent(cuda->gpu.stream, r->waits->done, 0));
        if (is_beside(cuda, r)) run_beside(cuda, r);
        else r->kernel->run(&r->call);
    }
    if (p->last) must(cudaStreamWaitEvent(cuda->gpu.stream, p->last->done, 0));
}
