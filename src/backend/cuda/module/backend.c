/* backend.c - the GPU behind the backend's table: one arena in device memory, one stream for all
 * programs, and each of them captured as a CUDA graph when it is prepared, so that a run is one launch. */
#include "backend/cuda/module/backend_int.h"
#include "backend/cuda/module/conv.h"
#include "backend/cuda/module/gemm.h"
#include "backend/cuda/module/loading.h"
#include "backend/cuda/module/nccl.h"
#include "backend/ranks/ranks.h"
#include "base/os.h"
#include <cublasLt.h>
#include <sched.h>
#include <string.h>

enum { UNWRITTEN = 0xFF };         /* a NaN in every float type: what was never written shows */
enum { TUNING_RESERVE = 1 << 24 }; /* address space only */
enum { TRIES_DEFAULT = 8, TRIES_MAX = 64 }; /* of algorithms, a matrix product */
_Static_assert(BACKEND_PART_BYTES <= 1 << 22, "a part fits in a stage");
enum {
    PIN_BYTES = 1 << 28
}; /* at once: the driver's locks are held meanwhile, and launches wait */

static struct cuda *cuda_of(struct backend *b) { return (struct cuda *)b; }

/* --- waiting, for other ranks too --- */

/* NCCL ends a link only when no graph with a call over it is left; one that runs is destroyed once it is done. */
static void drop_graphs(struct cuda *cuda)
{
    for (struct prepared *p = cuda->linked; p; p = p->next) {
        if (p->graph) cudaGraphExecDestroy(p->graph);
        p->graph = NULL;
    }
    cuda->linked = NULL;
}

/* A kernel that waits for a rank which is gone would wait for ever: it is ended, and the ranks have failed. */
static void look_at_ranks(struct cuda *cuda, i64 since_ns)
{
    struct ranks *r   = cuda->base.ranks;
    struct err    err = { 0 };
    enum status   st  = nccl_status(&err);
    if (!st && r->table->look) st = r->table->look(r, since_ns, &err);
    if (!st) return;
    if (!r->failed.status) r->failed = err;
    r->failed.status = st;
    drop_graphs(cuda);
    nccl_abort();
}

static cudaError_t query(struct cuda *cuda, cudaEvent_t event)
{
    return event ? cudaEventQuery(event) : cudaStreamQuery(cuda->gpu.stream);
}

/* Until the event has happened; NULL: all that is on the stream. */
static void await(struct cuda *cuda, cudaEvent_t event)
{
    static const i64 spin_ns = 1000000, nap_ns = 20000, look_ns = 50000000;
    struct os       *os = os_real();
    if (!nccl_linked()) {
        must(event ? cudaEventSynchronize(event) : cudaStreamSynchronize(cuda->gpu.stream));
        return;
    }
    i64         begin_ns = os->now_ns(os), now_ns = begin_ns, looked_ns = begin_ns;
    cudaError_t e;
    while ((e = query(cuda, event)) == cudaErrorNotReady) {
        cudaGetLastError(); /* that is not an error, and is kept as one */
        if (now_ns - begin_ns < spin_ns) sched_yield();
        else os->sleep_ns(os, nap_ns);
        now_ns = os->now_ns(os);
        if (now_ns - looked_ns < look_ns) continue;
        looked_ns = now_ns;
        if (nccl_linked()) look_at_ranks(cuda, begin_ns);
    }
    must(e);
}

/* --- nodes as calls --- */

struct operands {
    struct tensor in[OP_IN_MAX], out[OP_OUT_MAX];
};

static struct tensor tensor_of(const struct cuda *cuda, const struct graph *g,
                               const struct program *p, i32 value)
{
    struct tensor t = { NULL, g->values[value].type, shape_count(g->values[value].type.shape) };
    if (p) t.data = cuda->arena + p->offset[value];
    return t;
}

static struct gpu_call call_of(struct cuda *cuda, const struct graph *g, const struct program *p,
                               const struct node *n, struct tensor *in, struct tensor *out)
{
    for (i32 i = 0; i < n->in_count; i++) in[i] = tensor_of(cuda, g, p, n->in[i]);
    for (i32 i = 0; i < node_results(n); i++) out[i] = tensor_of(cuda, g, p, n->out + i);
    return (struct gpu_call){ .op       = n->op,
                              .at       = &n->at,
                              .in       = in,
                              .in_count = node_inputs(n),
                              .out      = out,
                              .gpu      = &cuda->gpu };
}

static const struct gpu_kernel *choose(const struct gpu_call *c)
{
    return c->op < OP_COUNT ? gpu_kernel_choose(c) : NULL;
}

#ifdef FRUGAL_HAVE_CUDNN
static bool is_convolution(i32 op)
{
    return op == OP_CONV2D || op == OP_CONV2D_GRAD_X || op == OP_CONV2D_GRAD_W;
}

/* The first convolution that is met without a plan has those of the whole graph made. */
static void plan_convolutions(struct cuda *cuda, const struct graph *g, const struct gpu_call *met)
{
    if (!is_convolution(met->op) || !conv_wants_plans(met)) return;
    for (i32 i = 0; i < g->node_count; i++) {
        struct operands o;
        struct gpu_call c = call_of(cuda, g, NULL, &g->nodes[i], o.in, o.out);
        if (is_convolution(c.op)) (void)conv_wants_plans(&c);
    }
    conv_make_plans(&cuda->gpu);
}
#else
static void plan_convolutions(struct cuda *cuda, const struct graph *g, const struct gpu_call *met)
{
    (void)cuda, (void)g, (void)met; /* there is no library to ask */
}
#endif

static i64 target_work_bytes(const struct target *t, const struct graph *g, const struct node *n)
{
    struct operands o;
    struct gpu_call c = call_of(t->backend, g, NULL, n, o.in, o.out);
    plan_convolutions(t->backend, g, &c);
    const struct gpu_kernel *k = choose(&c);
    return k && k->work ? k->work(&c) : 0;
}

/* Of a product with its algorithm, once that is chosen. */
static const char *name_of(const struct gpu_kernel *k, const struct gpu_call *c)
{
    const char *choice =
        k->plan && (c->op == OP_MATMUL || c->op == OP_MATMUL_FP8) ? gemm_choice(c) : NULL;
    return choice ? choice : k->name;
}

static const char *target_kernel_name(const struct target *t, const struct graph *g,
                                      const struct node *n)
{
    struct operands          o;
    struct gpu_call          c = call_of(t->backend, g, NULL, n, o.in, o.out);
    const struct gpu_kernel *k = choose(&c);
    return k ? name_of(k, &c) : "none";
}

/* Of products and casts to fp8, which compile chooses between; others go by rates. */
static f64 target_seconds_tried(const struct target *t, const struct graph *g, const struct node *n)
{
    struct cuda    *cuda = t->backend;
    struct operands o;
    struct gpu_call c = call_of(cuda, g, NULL, n, o.in, o.out);
    if (n->op != OP_MATMUL_FP8 && n->op != OP_QUANTISE && n->op != OP_MATMUL) return 0;
    f64 known = n->op == OP_QUANTISE ? 0 : gemm_known_s(&c);
    return known > 0 ? known
                     : gpu_trial_s(c, o.in, n->in_count, o.out, node_results(n), cuda->perm);
}

/* --- copies, the measure of what moves bytes --- */

struct timed_copy {
    u8          *memory;
    i64          bytes; /* that it moves */
    cudaStream_t stream;
};

static bool launch_copy(void *context)
{
    const struct timed_copy *c    = context;
    size_t                   half = (size_t)c->bytes / 2;
    return cudaMemcpyAsync(c->memory, c->memory + half, half, cudaMemcpyDeviceToDevice,
                           c->stream) == cudaSuccess;
}

static void time_copies(struct cuda *cuda)
{
    struct timed_copy c = { NULL, (i64)COPY_BYTES_MIN << (COPIES - 1), cuda->gpu.stream };
    if (cudaMalloc((void **)&c.memory, (size_t)c.bytes) != cudaSuccess) {
        (void)cudaGetLastError(); /* memory is short: the clocks' rate must do */
        return;
    }
    cudaMemsetAsync(c.memory, 0x30, (size_t)c.bytes, c.stream);
    for (i32 i = COPIES - 1; i >= 0; i--, c.bytes /= 2)
        cuda->copy_s[i] = MAX(0, (f64)gpu_time_ms(&cuda->gpu, launch_copy, &c) * 1e-3);
    cudaFree(c.memory);
}

/* By a line through the two sizes around it. */
static f64 target_copy_s(const struct target *t, f64 bytes)
{
    struct cuda *cuda = t->backend;
    f64          size = COPY_BYTES_MIN;
    i32          i    = 0;
    if (!cuda->arena) return 0; /* it is closed */
    if (cuda->copy_s[COPIES - 1] <= 0) time_copies(cuda);
    while (i < COPIES - 2 && 2 * size < bytes) i++, size *= 2;
    f64 low = cuda->copy_s[i], high = cuda->copy_s[i + 1];
    return bytes <= COPY_BYTES_MIN ? low : low + (high - low) * (bytes - size) / size;
}

/* --- the table --- */

static void cuda_describe(struct backend *b, struct target *t)
{
    struct cuda *cuda    = cuda_of(b);
    *t                   = (struct target){ 0 };
    t->name              = cuda->name;
    t->bus_id            = cuda->bus_id;
    t->memory_bytes      = cuda->memory_bytes - cuda->link_bytes;
    t->threads           = 1;
    t->gpus              = 1;
    t->queues            = gpu_is_off(STR("queues")) ? 1 : 2;
    t->bandwidth_bytes_s = cuda->bandwidth_bytes_s;
    t->flops_s[DT_F32]   = cuda->flops_s;
    t->flops_s[DT_BF16]  = t->flops_s[DT_F16] =
        cuda->flops_s * (cuda->gpu.capability >= 90 ? 16 : 8);
    t->low             = cuda->gpu.capability >= 80 ? DT_BF16 : DT_F16;
    t->low_conv        = true;
    t->low_by          = "this GPU has tensor cores";
    t->align_bytes     = TARGET_GPU_ALIGN_BYTES;
    t->loss_part_bytes = TARGET_GPU_LOSS_PART_BYTES;
    t->copies          = true;
    t->work_bytes      = target_work_bytes;
    t->kernel_name     = target_kernel_name;
    t->seconds         = target_seconds_tried;
    t->copy_s          = target_copy_s;
    t->fp8             = cuda->gpu.capability >= 89;
    if (t->fp8) t->flops_s[DT_U8] = 2 * t->flops_s[DT_BF16];
    t->backend = cuda;
}

static enum status cuda_tune(struct backend *b, const struct backend_tuning *how, struct err *err)
{
    struct cuda   *cuda = cuda_of(b);
    struct tuning *t    = cuda->gpu.tuning;
    struct arena   room = arena_open(TUNING_RESERVE);
    if (!room.begin) return err_set(err, STATUS_WORLD, "the system refuses address space");
    cuda->gpu.tries      = how->effort == EFFORT_MAX ? TRIES_MAX : TRIES_DEFAULT;
    cuda->gpu.under_load = how->effort == EFFORT_MAX;
    cuda->gpu.any_order  = how->any_order;
    cuda->keeps_choices  = true;
    enum status st       = tuning_load(t, os_real(), room, err);
    t->changed           = false;
    struct err why       = { 0 };
    t->exact             = true;
    if (how->choices.len && tuning_parse(t, how->choices, room, &why))
        st = err_set(err, STATUS_WORLD, "the checkpoint's choices of kernels are not used: %s",
                     why.text);
    t->exact = false;
    arena_close(&room);
    return st;
}

static struct str cuda_choices(struct backend *b, struct arena *perm)
{
    return tuning_print_used(cuda_of(b)->gpu.tuning, perm);
}

static enum status cuda_alloc(struct backend *b, i64 arena_bytes, struct err *err)
{
    struct cuda *cuda = cuda_of(b);
    void        *p;
    ASSERT(!cuda->arena);
    cudaError_t e = cudaMalloc(&p, (size_t)arena_bytes);
    if (e != cudaSuccess)
        return err_set(err, STATUS_WORLD, "the GPU refused %lld bytes of memory: %s",
                       (long long)arena_bytes, cudaGetErrorString(e));
    cuda->arena       = p;
    cuda->arena_bytes = arena_bytes;
    must(cudaMemsetAsync(p, UNWRITTEN, (size_t)arena_bytes, cuda->gpu.stream));
    return STATUS_OK;
}

/* May the kernel run, with the workspace the program has? Plans it, where there is something to plan. */
static bool ready(struct cuda *cuda, const struct instr *instr, struct ready *r, struct arena *perm)
{
    struct gpu_call *c = &r->call;
    c->work_bytes      = r->kernel->work ? r->kernel->work(c) : 0;
    if (c->work_bytes > instr->work_bytes) return false;
    if (c->work_bytes) c->work = cuda->arena + instr->work_offset;
    if (r->kernel->plan) c->plan = r->kernel->plan(c, perm);
    return !r->kernel->plan || c->plan;
}

/* The best kernel that takes the call; the next one where that finds no way after all. */
static enum status prepare_call(struct cuda *cuda, const struct node *n, struct instr *instr,
                                struct ready *r, struct arena *perm, struct err *err)
{
    r->kernel = choose(&r->call);
    while (r->kernel && !ready(cuda, instr, r, perm))
        r->kernel = gpu_kernel_after(&r->call, r->kernel);
    if (r->kernel) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "%.*s (%s) of these types has no kernel on the GPU; train.device=cpu has one",
                   STR_ARG(n->name), op_info(r->call.op)->name);
}

/* The maps of a chain in one more launch, which reads what the op stored. */
static void prepare_chain(const struct node *n, struct prepared *to, struct arena *perm)
{
    struct ready       *host = &to->list[to->count - 1], *maps = &to->list[to->count++];
    struct gpu_call     whole = host->call;
    const struct chain *then  = &n->at.then;
    struct tensor      *own   = NEW(perm, struct tensor, OP_OUT_MAX);
    struct tensor      *in    = NEW(perm, struct tensor, 1 + THEN_MAX);
    i32                 count = n->in_count - whole.in_count;
    for (i32 i = 0; i < op_info(n->op)->out_count; i++) own[i] = whole.out[i];
    own[0]         = whole.out[then->keep ? op_info(n->op)->out_count : 0];
    host->call.out = own;
    in[0]          = own[0];
    for (i32 i = 0; i < count; i++) in[1 + i] = whole.in[whole.in_count + i];
    *maps = (struct ready){ .kernel = &gpu_kernel_chain, .call = whole, .instr = host->instr };
    maps->call.in       = in;
    maps->call.in_count = 1 + count;
}

/* --- sums over rows, by the kernel that makes the rows --- */

/* The sum over rows of what this instruction stores (the gradient of the bias that was added there), if it may as well
 * be written now: nothing until then touches its bytes. -1: there is none. */
static i32 find_sum(const struct program *p, i32 index)
{
    const struct graph *g = p->graph;
    const struct node  *n = &g->nodes[p->instrs[index].node];
    for (i32 i = index + 1; i < p->instr_count; i++) {
        const struct node *sum  = &g->nodes[p->instrs[i].node];
        struct type        type = g->values[sum->out].type;
        if (sum->op != OP_SUM || sum->at.axis || graph_viewed(g, sum->in[0]) != n->out ||
            !type_eq(type, g->values[n->out + 1].type))
            continue;
        for (i32 k = index; k < i; k++)
            if (instr_touches(p, k, p->offset[sum->out], p->offset[sum->out] + type_bytes(type)))
                return -1;
        return i;
    }
    return -1;
}

static void join_sum(struct cuda *cuda, const struct program *p, struct ready *r,
                     struct prepared *to, struct arena *perm)
{
    i32 at = find_sum(p, r->instr);
    if (at < 0) return;
    struct tensor *sum   = NEW(perm, struct tensor, 1);
    *sum                 = tensor_of(cuda, p->graph, p, p->graph->nodes[p->instrs[at].node].out);
    r->call.sum          = sum;
    to->joined[at]       = true;
    p->instrs[at].kernel = STR(KERNEL_JOINED);
}

static enum status prepare_one(struct cuda *cuda, const struct program *p, i32 index,
                               struct prepared *to, struct arena *perm, struct err *err)
{
    struct instr      *instr = &p->instrs[index];
    const struct node *n     = &p->graph->nodes[instr->node];
    struct tensor     *in    = NEW(perm, struct tensor, MAX(1, n->in_count));
    struct tensor     *out   = NEW(perm, struct tensor, OP_OUT_MAX);
    struct ready      *r     = &to->list[to->count++];
    r->instr                 = index;
    r->call                  = call_of(cuda, p->graph, p, n, in, out);
    enum status st           = prepare_call(cuda, n, instr, r, perm, err);
    if (st) return st;
    instr->kernel = str_of(name_of(r->kernel, &r->call));
    if (r->kernel->does & DOES_SUM) join_sum(cuda, p, r, to, perm);
    if (!n->at.then.count || r->kernel->does & DOES_CHAIN) return STATUS_OK;
    prepare_chain(n, to, perm);
    return STATUS_OK;
}

static void capture(struct cuda *cuda, struct prepared *prepared)
{
    cudaGraph_t graph = NULL;
    if (cudaStreamBeginCapture(cuda->gpu.stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return;
    queues_run(cuda, prepared);
    if (cudaStreamEndCapture(cuda->gpu.stream, &graph) != cudaSuccess ||
        cudaGraphInstantiate(&prepared->graph, graph, 0) != cudaSuccess)
        prepared->graph = NULL;
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError(); /* what failed here does not matter: the program runs without */
}

static enum status cuda_prepare(struct backend *b, struct program *p, struct arena *perm,
                                struct err *err)
{
    struct cuda     *cuda     = cuda_of(b);
    struct prepared *prepared = NEW(perm, struct prepared, 1);
    struct ranks    *ranks    = b->ranks;
    enum status      st       = STATUS_OK;
    if (ranks && ranks->failed.status) /* the link is cut */
        return err_set(err, ranks->failed.status, "%s", ranks->failed.text);
    prepared->list   = NEW(perm, struct ready, MAX(1, p->instr_count * 2));
    prepared->joined = NEW(perm, bool, MAX(1, p->instr_count));
    ASSERT(cuda->arena);
    for (i32 i = 0; !st && i < p->instr_count; i++)
        if (!prepared->joined[i]) st = prepare_one(cuda, p, i, prepared, perm, err);
    if (!st) st = queues_prepare(cuda, p, prepared, err);
    if (!st) capture(cuda, prepared);
    if (nccl_linked()) {
        prepared->next = cuda->linked;
        cuda->linked   = prepared;
    }
    if (!st) st = nccl_status(err);
    if (!st && cuda->keeps_choices) /* a disk that refuses costs the next run its tries, no more */
        (void)tuning_save(cuda->gpu.tuning, os_real(), *perm, NULL);
    p->prepared = st ? NULL : prepared;
    return st;
}

static cudaError_t open_pinned(u8 **to, i64 bytes, cudaEvent_t *done)
{
    void       *pinned = NULL;
    cudaError_t e      = cudaHostAlloc(&pinned, (size_t)bytes, cudaHostAllocDefault);
    *to                = pinned;
    return e == cudaSuccess ? cudaEventCreateWithFlags(done, cudaEventDisableTiming) : e;
}

/* One more, or not: then the others are waited for. */
static cudaError_t open_stage(struct cuda *cuda)
{
    struct stage *s      = &cuda->stages[cuda->stage_count];
    void         *device = NULL;
    cudaError_t   e      = open_pinned(&s->pinned, STAGE_BYTES, &s->done);
    if (e == cudaSuccess) e = cudaEventCreateWithFlags(&s->arrived, cudaEventDisableTiming);
    if (e == cudaSuccess) e = cudaMalloc(&device, STAGE_BYTES);
    s->device = device;
    if (e == cudaSuccess) cuda->stage_count++;
    return e;
}

static void close_stage(struct stage *s)
{
    if (s->pinned) cudaFreeHost(s->pinned);
    if (s->device) cudaFree(s->device);
    if (s->done) cudaEventDestroy(s->done);
    if (s->arrived) cudaEventDestroy(s->arrived);
    *s = (struct stage){ 0 };
}

/* The next that is free. Where batches are put faster than programs take them, there are as many as the batches
 * need; weights at the start of a run are waited for instead. */
static struct stage *next_stage(struct cuda *cuda)
{
    struct stage *s = &cuda->stages[cuda->stage_next];
    if (s->busy && cudaEventQuery(s->done) == cudaErrorNotReady) {
        cudaGetLastError(); /* that is not an error, and is kept as one */
        if (cuda->begun && cuda->stage_count < STAGES_MAX) {
            struct stage *more = &cuda->stages[cuda->stage_count];
            if (open_stage(cuda) == cudaSuccess) {
                more->busy = true;
                return more;
            }
            cudaGetLastError();
            close_stage(more);
        }
        await(cuda, s->done);
    }
    cuda->stage_next = (cuda->stage_next + 1) % cuda->stage_count;
    s->busy          = true;
    return s;
}

static ticket cuda_put(struct backend *b, i64 offset, const void *from, i64 bytes)
{
    struct cuda *cuda = cuda_of(b);
    cudaStream_t turn = cuda->gpu.stream;
    ASSERT(offset >= 0);
    ASSERT(offset + bytes <= cuda->arena_bytes);
    backend_changes(b, offset);
    if (!from) must(cudaMemsetAsync(cuda->arena + offset, 0, (size_t)bytes, turn));
    for (i64 at = 0; from && at < bytes; at += STAGE_BYTES) {
        size_t        part = (size_t)MIN(STAGE_BYTES, bytes - at);
        struct stage *s    = next_stage(cuda);
        u8           *to   = cuda->arena + offset + at;
        memcpy(s->pinned, (const u8 *)from + at, part);
        if (part < STAGED_MIN) {
            must(cudaMemcpyAsync(to, s->pinned, part, cudaMemcpyHostToDevice, turn));
        } else {
            must(cudaMemcpyAsync(s->device, s->pinned, part, cudaMemcpyHostToDevice, cuda->inputs));
            must(cudaEventRecord(s->arrived, cuda->inputs));
            must(cudaStreamWaitEvent(turn, s->arrived, 0));
            must(cudaMemcpyAsync(to, s->device, part, cudaMemcpyDeviceToDevice, turn));
        }
        must(cudaEventRecord(s->done, turn));
    }
    return 0;
}

static void cuda_load(struct backend *b, const struct backend_part *parts, i64 count,
                      struct pool *pool, backend_fill *fill, void *context)
{
    struct cuda *cuda = cuda_of(b);
    for (i64 i = 0; i < count; i++) {
        ASSERT(parts[i].bytes <= BACKEND_PART_BYTES && parts[i].offset >= 0);
        ASSERT(parts[i].offset + parts[i].bytes <= cuda->arena_bytes);
        backend_changes(b, parts[i].offset);
    }
    must(cudaStreamSynchronize(cuda->gpu.stream));
    cudaError_t e = loading_run(cuda->arena, parts, count, pool, fill, context);
    if (e != cudaErrorMemoryAllocation) {
        must(e);
        return;
    }
    (void)cudaGetLastError(); /* no more memory can be pinned: one by one, through what is */
    for (i64 i = 0; i < count; i++) {
        fill(context, i, cuda->stages[0].pinned, 0);
        must(cudaMemcpy(cuda->arena + parts[i].offset, cuda->stages[0].pinned,
                        (size_t)parts[i].bytes, cudaMemcpyHostToDevice));
    }
}

static void deliver(struct cuda *cuda, struct answer *a)
{
    if (!a->to) return;
    await(cuda, a->done);
    memcpy(a->to, a->pinned, (size_t)a->bytes);
    a->to = NULL;
}

static ticket ask(struct cuda *cuda, i64 offset, void *to, i64 bytes)
{
    struct answer *a = &cuda->answers[cuda->asked % ANSWERS];
    deliver(cuda, a);
    a->to     = to;
    a->bytes  = bytes;
    a->ticket = ++cuda->asked;
    must(cudaMemcpyAsync(a->pinned, cuda->arena + offset, (size_t)bytes, cudaMemcpyDeviceToHost,
                         cuda->gpu.stream));
    must(cudaEventRecord(a->done, cuda->gpu.stream));
    return a->ticket;
}

/* Through pinned memory: as far as that goes it is faster than the driver's own way to memory that is not. */
static void take(struct cuda *cuda, i64 offset, void *to, i64 bytes)
{
    must(cudaMemcpyAsync(cuda->taken, cuda->arena + offset, (size_t)bytes, cudaMemcpyDeviceToHost,
                         cuda->gpu.stream));
    await(cuda, NULL);
    memcpy(to, cuda->taken, (size_t)bytes);
}

/* More than an answer has room for is there when it returns. */
static ticket cuda_get(struct backend *b, i64 offset, void *to, i64 bytes)
{
    struct cuda *cuda = cuda_of(b);
    ASSERT(offset >= 0);
    ASSERT(offset + bytes <= cuda->arena_bytes);
    if (bytes <= ANSWER_BYTES) return ask(cuda, offset, to, bytes);
    if (!cuda->taken && bytes <= TAKEN_BYTES) {
        void *pinned = NULL;
        if (cudaHostAlloc(&pinned, TAKEN_BYTES, cudaHostAllocDefault) != cudaSuccess)
            (void)cudaGetLastError(); /* the driver's own way, then */
        cuda->taken = pinned;
    }
    if (cuda->taken && bytes <= TAKEN_BYTES) {
        take(cuda, offset, to, bytes);
        return 0;
    }
    must(cudaMemcpyAsync(to, cuda->arena + offset, (size_t)bytes, cudaMemcpyDeviceToHost,
                         cuda->gpu.stream));
    return 0;
}

static ticket cuda_run(struct backend *b, const struct program *p)
{
    struct cuda           *cuda     = cuda_of(b);
    const struct prepared *prepared = p->prepared;
    ASSERT(prepared);
    cuda->begun = true;
    if (cuda->base.ranks && cuda->base.ranks->failed.status) return 0; /* the link is cut */
    if (prepared->graph) must(cudaGraphLaunch(prepared->graph, cuda->gpu.stream));
    else queues_run(cuda, prepared);
    must(cudaGetLastError());
    if (!prepared->graph && nccl_linked()) look_at_ranks(cuda, os_real()->now_ns(os_real()));
    return 0;
}

static void cuda_wait(struct backend *b, ticket t)
{
    struct cuda *cuda = cuda_of(b);
    if (!t) await(cuda, NULL);
    for (i32 i = 0; i < ANSWERS; i++)
        if (!t || cuda->answers[i].ticket <= t) deliver(cuda, &cuda->answers[i]);
}

static void cuda_mark(struct backend *b)
{
    must(cudaEventRecord(cuda_of(b)->marked, cuda_of(b)->gpu.stream));
}

/* The thread sleeps meanwhile: it has a core of the host's, which others can use. */
static void cuda_copy(struct backend *b, const struct backend_copy *list, i64 count)
{
    struct cuda *cuda = cuda_of(b);
    must(cudaSetDevice(cuda->device)); /* a thread begins at device 0 */
    must(cudaStreamWaitEvent(cuda->copies, cuda->marked, 0));
    for (i64 i = 0, part; i < count; i++) {
        const struct backend_copy *c = &list[i];
        for (i64 at = 0; at < c->bytes; at += part) { /* none may cross what was pinned at once */
            i64 place = (i64)((uintptr_t)c->to - (uintptr_t)cuda->pinned) + at;
            part      = MIN(c->bytes - at, PIN_BYTES - place % PIN_BYTES);
            must(cudaMemcpyAsync(c->to + at, cuda->arena + c->offset + at, (size_t)part,
                                 cudaMemcpyDeviceToHost, cuda->copies));
        }
    }
    must(cudaEventRecord(cuda->copied, cuda->copies));
    must(cudaEventSynchronize(cuda->copied));
}

static enum status cuda_pin(struct backend *b, void *memory, i64 bytes, struct err *err)
{
    struct cuda *cuda = cuda_of(b);
    ASSERT(!cuda->pinned_bytes);
    must(cudaSetDevice(cuda->device)); /* a thread begins at device 0 */
    cuda->pinned = memory;
    while (cuda->pinned_bytes < bytes) {
        i64         part = MIN(PIN_BYTES, bytes - cuda->pinned_bytes);
        cudaError_t e    = cudaHostRegister(cuda->pinned + cuda->pinned_bytes, (size_t)part,
                                            cudaHostRegisterDefault);
        if (e != cudaSuccess) {
            cudaGetLastError();
            return err_set(
                err, STATUS_WORLD,
                "the system pins %.2f GiB of the %.2f that checkpoints are copied to (%s): "
                "the copy will be slower",
                (f64)cuda->pinned_bytes * 0x1p-30, (f64)bytes * 0x1p-30, cudaGetErrorString(e));
        }
        cuda->pinned_bytes += part;
    }
    return STATUS_OK;
}

static void cuda_unpin(struct backend *b)
{
    struct cuda *cuda = cuda_of(b);
    for (i64 at = 0; at < cuda->pinned_bytes; at += PIN_BYTES)
        cudaHostUnregister(cuda->pinned + at);
    cuda->pinned_bytes = 0;
}

static void cuda_time(struct backend *b, const struct program *p, f64 *seconds)
{
    const struct prepared *prepared = p->prepared;
    cudaEvent_t            from, to;
    (void)b;
    must(cudaEventCreate(&from));
    must(cudaEventCreate(&to));
    for (i32 i = 0; i < p->instr_count; i++) seconds[i] = 0;
    for (i32 i = 0; i < prepared->count; i++) {
        const struct gpu_call *call = &prepared->list[i].call;
        f32                    ms   = 0;
        must(cudaEventRecord(from, call->gpu->stream));
        prepared->list[i].kernel->run(call);
        must(cudaEventRecord(to, call->gpu->stream));
        must(cudaEventSynchronize(to));
        must(cudaEventElapsedTime(&ms, from, to));
        seconds[prepared->list[i].instr] += (f64)ms * 1e-3;
    }
    must(cudaEventDestroy(from));
    must(cudaEventDestroy(to));
}

/* From the end, in parts: the highest byte that is not as alloc left it. */
static i64 cuda_used_bytes(struct backend *b)
{
    struct cuda *cuda = cuda_of(b);
    u8          *part = cuda->stages[0].pinned;
    await(cuda, NULL);
    for (i64 end = cuda->arena_bytes; end > 0;) {
        i64 bytes = MIN(STAGE_BYTES, end);
        must(cudaMemcpy(part, cuda->arena + end - bytes, (size_t)bytes, cudaMemcpyDeviceToHost));
        for (i64 i = bytes; i > 0; i--) {
            if (part[i - 1] != UNWRITTEN) return end - bytes + i;
        }
        end -= bytes;
    }
    return 0;
}

static i64 cuda_device_bytes(struct backend *b)
{
    size_t free_bytes = 0, all_bytes = 0;
    must(cudaMemGetInfo(&free_bytes, &all_bytes));
    return cuda_of(b)->memory_bytes - (i64)free_bytes;
}

static enum status cuda_engine(struct backend *b, struct backend_key *key, struct err *err)
{
    (void)b;
    enum status st = nccl_load(err);
    return st || !key ? st : nccl_key(key, err);
}

static enum status cuda_link(struct backend *b, const struct backend_key *key, i32 rank, i32 ranks,
                             struct err *err)
{
    size_t      before = 0, after = 0, all_bytes = 0;
    enum status st;
    must(cudaMemGetInfo(&before, &all_bytes));
    st = nccl_link(key, rank, ranks, err);
    must(cudaMemGetInfo(&after, &all_bytes));
    cuda_of(b)->link_bytes = before > after ? (i64)(before - after) : 0;
    return st;
}

static enum status cuda_split(struct backend *b, enum ranks_over over, i32 group, i32 place,
                              i32 count, struct err *err)
{
    size_t      before = 0, after = 0, all_bytes = 0;
    enum status st;
    must(cudaMemGetInfo(&before, &all_bytes));
    st = nccl_split(over, group, place, count, err);
    must(cudaMemGetInfo(&after, &all_bytes));
    cuda_of(b)->link_bytes += before > after ? (i64)(before - after) : 0;
    return st;
}

static void cuda_close(struct backend *b)
{
    struct cuda *cuda = cuda_of(b);
    drop_graphs(cuda);
    nccl_close();
    if (cuda->arena) cudaFree(cuda->arena);
    for (i32 i = 0; i < STAGES_MAX; i++) close_stage(&cuda->stages[i]);
    for (i32 i = 0; i < ANSWERS; i++) {
        if (cuda->answers[i].pinned) cudaFreeHost(cuda->answers[i].pinned);
        if (cuda->answers[i].done) cudaEventDestroy(cuda->answers[i].done);
    }
    if (cuda->taken) cudaFreeHost(cuda->taken);
    if (cuda->marked) cudaEventDestroy(cuda->marked);
    if (cuda->copied) cudaEventDestroy(cuda->copied);
    if (cuda->copies) cudaStreamDestroy(cuda->copies);
    if (cuda->inputs) cudaStreamDestroy(cuda->inputs);
    if (cuda->beside.stream) cudaStreamDestroy(cuda->beside.stream);
    if (cuda->forked) cudaEventDestroy(cuda->forked);
    if (cuda->gpu.stream) cudaStreamDestroy(cuda->gpu.stream);
    cuda->arena = NULL;
}

static const struct backend_table cuda_table = {
    .name         = "cuda",
    .behind       = true,
    .tune         = cuda_tune,
    .choices      = cuda_choices,
    .describe     = cuda_describe,
    .alloc        = cuda_alloc,
    .prepare      = cuda_prepare,
    .put          = cuda_put,
    .load         = cuda_load,
    .get          = cuda_get,
    .run          = cuda_run,
    .wait         = cuda_wait,
    .mark         = cuda_mark,
    .copy         = cuda_copy,
    .pin          = cuda_pin,
    .unpin        = cuda_unpin,
    .time         = cuda_time,
    .used_bytes   = cuda_used_bytes,
    .device_bytes = cuda_device_bytes,
    .engine       = cuda_engine,
    .link         = cuda_link,
    .split        = cuda_split,
    .close        = cuda_close,
};

/* Where there is no driver at all, the runtime speaks of its version. */
static enum status no_gpu(cudaError_t e, struct err *err)
{
    const char *why = cudaGetErrorString(e);
    if (e == cudaErrorInsufficientDriver)
        why = "this machine has no NVIDIA driver, or one that is too old; install a newer one";
    if (e == cudaErrorNoDevice || e == cudaSuccess) why = "the NVIDIA driver sees none";
    return err_set(err, STATUS_WORLD, "no GPU can be used: %s", why);
}

static enum status open_device(struct cuda *cuda, i32 nth, struct arena *perm, struct err *err)
{
    struct cudaDeviceProp p;
    int                   count = 0;
    cudaError_t           e     = cudaGetDeviceCount(&count);
    if (e != cudaSuccess || !count) return no_gpu(e, err);
    size_t free_bytes = 0, all_bytes = 0;
    cuda->device = nth % count;
    e            = cudaSetDevice(cuda->device);
    if (e == cudaSuccess) e = cudaGetDeviceProperties(&p, cuda->device);
    if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&cuda->gpu.stream, cudaStreamNonBlocking);
    if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&cuda->copies, cudaStreamNonBlocking);
    if (e == cudaSuccess) e = cudaEventCreateWithFlags(&cuda->marked, cudaEventDisableTiming);
    if (e == cudaSuccess)
        e = cudaEventCreateWithFlags(&cuda->copied, cudaEventDisableTiming | cudaEventBlockingSync);
    if (e == cudaSuccess) e = cudaStreamCreateWithFlags(&cuda->inputs, cudaStreamNonBlocking);
    while (e == cudaSuccess && cuda->stage_count < STAGES_FIRST) e = open_stage(cuda);
    if (e == cudaSuccess) e = cudaMemGetInfo(&free_bytes, &all_bytes);
    for (i32 i = 0; e == cudaSuccess && i < ANSWERS; i++)
        e = open_pinned(&cuda->answers[i].pinned, ANSWER_BYTES, &cuda->answers[i].done);
    if (e != cudaSuccess)
        return err_set(err, STATUS_WORLD, "the GPU does not answer: %s", cudaGetErrorString(e));
    cuda->name                = str_copy(perm, str_of(p.name));
    cuda->gpu.processors      = p.multiProcessorCount;
    cuda->gpu.capability      = p.major * 10 + p.minor;
    cuda->gpu.code            = gpu_code();
    cuda->gpu.shared_bytes    = (i64)p.sharedMemPerBlockOptin;
    cuda->gpu.total_bytes     = (i64)p.totalGlobalMem;
    cuda->gpu.tries           = TRIES_DEFAULT;
    cuda->gpu.tuning          = NEW(perm, struct tuning, 1);
    cuda->gpu.tuning->gpu     = cuda->name;
    cuda->gpu.tuning->library = (i64)cublasLtGetVersion();
    cuda->memory_bytes        = (i64)free_bytes;
    char bus_id[32]           = "";
    if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, cuda->device) == cudaSuccess)
        cuda->bus_id = str_copy(perm, str_of(bus_id));
    int clock_khz = 0, memory_khz = 0, bus_bits = 0;
    cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, cuda->device);
    cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, cuda->device);
    cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, cuda->device);
    cuda->flops_s = 2.0 * 128 * p.multiProcessorCount * clock_khz * 1e3; /* 128 lanes each */
    cuda->bandwidth_bytes_s = 2.0 * memory_khz * 1e3 * bus_bits / 8;
    return STATUS_OK;
}

cuda_door frugal_cuda_open;

__attribute__((visibility("default"))) enum status
frugal_cuda_open(struct arena *perm, i32 nth, struct backend **out, struct err *err)
{
    struct cuda *cuda = NEW(perm, struct cuda, 1);
    cuda->base.table  = &cuda_table;
    cuda->perm        = perm;
    enum status st    = open_device(cuda, nth, perm, err);
    if (st) cuda_close(&cuda->base);
    else *out = &cuda->base;
    return st;
}
