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

static enum status open_beside(struct cuda *cuda, struct err *err)
{
    cudaStream_t stream = cuda->beside.stream;
    cudaError_t  e      = cudaSuccess;
    int          low = 0, high = 0; /* sums first: everybody waits for the last of them */
    if (!stream) {
        e = cudaDeviceGetStreamPriorityRange(&low, &high);
        if (e == cudaSuccess)
            e = cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, high);
        if (e == cudaSuccess) e = cudaEventCreateWithFlags(&cuda->forked, cudaEventDisableTiming);
        if (e == cudaSuccess) e = cudaEventCreateWithFlags(&cuda->rejoined, cudaEventDisableTiming);
    }
    cuda->beside        = cuda->gpu;
    cuda->beside.stream = stream;
    return e == cudaSuccess
               ? STATUS_OK
               : err_set(err, STATUS_WORLD, "the GPU refuses a stream: %s", cudaGetErrorString(e));
}

/* Queue 1 has what a program says; queue 0 waits for it where it touches the same bytes, and at the end. */
enum status queues_prepare(struct cuda *cuda, const struct program *p, struct prepared *to,
                           struct err *err)
{
    i32         first = -1; /* of those that nobody has waited for */
    enum status st    = STATUS_OK;
    for (i32 i = 0; !st && i < to->count; i++) {
        struct ready *r = &to->list[i];
        if (p->instrs[r->instr].queue) {
            st          = open_beside(cuda, err);
            r->call.gpu = &cuda->beside;
            if (first < 0) first = i;
            continue;
        }
        for (i32 k = first; k >= 0 && k < i && !r->waits; k++)
            r->waits = is_beside(cuda, &to->list[k]) && collide(cuda, p, r, to->list[k].instr);
        if (r->waits) first = -1;
    }
    to->ends_together = first >= 0;
    return st;
}

static void rejoin(struct cuda *cuda)
{
    must(cudaEventRecord(cuda->rejoined, cuda->beside.stream));
    must(cudaStreamWaitEvent(cuda->gpu.stream, cuda->rejoined, 0));
}

void queues_run(struct cuda *cuda, const struct prepared *p)
{
    for (i32 i = 0; i < p->count; i++) {
        const struct ready *r = &p->list[i];
        if (r->waits) rejoin(cuda);
        if (is_beside(cuda, r)) { /* after all that was launched before it */
            must(cudaEventRecord(cuda->forked, cuda->gpu.stream));
            must(cudaStreamWaitEvent(cuda->beside.stream, cuda->forked, 0));
        }
        r->kernel->run(&r->call);
    }
    if (p->ends_together) rejoin(cuda);
}
