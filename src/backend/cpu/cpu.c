/* cpu.c - the backend of the processor itself: an arena in memory, a pool of threads, and a list
 * of ready calls for each program. Whatever is asked for is done when the call returns. */
#include "backend/backend.h"
#include "backend/cpu/flush.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/timing.h"
#include "base/os.h"
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { COPY_BLOCK_BYTES = 1 << 20, STREAM_BYTES_MIN = 1 << 16, PAGE_BYTES = 4096 };

/* What the arena holds before anything is written: all ones, which is a NaN in every float type,
 * so that a value read before it was written shows, and is told apart from what was written. */
enum { UNWRITTEN = 0xFF };

struct cpu {
    struct backend      base;
    struct pool        *pool;
    enum backend_choice choice;
    struct str          name;
    u8                 *arena;
    i64                 arena_bytes;
    struct timings      timings;
};

struct ready { /* one instruction, nothing left to decide */
    const struct kernel *kernel;
    struct call          call;
};

static struct cpu *cpu_of(struct backend *b) { return (struct cpu *)b; }

/* --- nodes as calls --- */

struct operands {
    struct tensor in[OP_IN_MAX], out[OP_OUT_MAX];
};

/* With data only where there is a program. */
static struct tensor tensor_of(const struct cpu *cpu, const struct graph *g,
                               const struct program *p, i32 value)
{
    struct tensor t = { NULL, g->values[value].type, shape_count(g->values[value].type.shape) };
    if (p) {
        ASSERT(p->offset[value] >= 0);
        ASSERT(p->offset[value] + type_bytes(t.type) <= cpu->arena_bytes);
        t.data = cpu->arena + p->offset[value];
    }
    return t;
}

static struct call call_of(const struct cpu *cpu, const struct graph *g, const struct program *p,
                           const struct node *n, struct tensor *in, struct tensor *out)
{
    ASSERT(n->in_count <= OP_IN_MAX);
    for (i32 i = 0; i < n->in_count; i++) in[i] = tensor_of(cpu, g, p, n->in[i]);
    for (i32 i = 0; i < node_results(n); i++) out[i] = tensor_of(cpu, g, p, n->out + i);
    return (struct call){ n->op, &n->at, in,        node_inputs(n), out,
                          NULL,  0,      cpu->pool, cpu->base.ranks };
}

static const struct kernel *choose(const struct cpu *cpu, const struct call *c)
{
    return kernel_choose(c, cpu->choice == BACKEND_REFERENCE);
}

static i64 target_work_bytes(const struct target *t, const struct graph *g, const struct node *n)
{
    struct operands      o;
    struct call          c = call_of(t->backend, g, NULL, n, o.in, o.out);
    const struct kernel *k = choose(t->backend, &c);
    return k->work ? k->work(&c) : 0;
}

static const char *target_kernel_name(const struct target *t, const struct graph *g,
                                      const struct node *n)
{
    struct operands o;
    struct call     c = call_of(t->backend, g, NULL, n, o.in, o.out);
    return choose(t->backend, &c)->name;
}

static f64 target_kernel_seconds(const struct target *t, const struct graph *g,
                                 const struct node *n)
{
    struct cpu     *cpu = t->backend;
    struct operands o;
    struct call     c = call_of(cpu, g, NULL, n, o.in, o.out);
    return timing_of(&cpu->timings, &c, choose(cpu, &c));
}

/* --- the table --- */

/* Products of f16 run nowhere faster than those of f32: no kernel of ours has instructions for them. */
static void describe_low(const struct cpu *cpu, struct target *t)
{
    enum isa isa = cpu->choice == BACKEND_FAST ? kernel_isa() : ISA_ANY;
    t->low       = isa >= ISA_AVX512BF16 ? DT_BF16 : DT_F32;
    t->low_conv =
        isa == ISA_AMX; /* else no faster than Winograd's in f32: docs/decisions/precision.md */
    t->low_by = isa == ISA_AMX          ? "this processor has AMX, which multiplies bf16"
                : isa == ISA_AVX512BF16 ? "this processor has AVX512-BF16"
                                        : "this processor has no bf16 instructions";
}

static void cpu_describe(struct backend *b, struct target *t)
{
    struct cpu *cpu = cpu_of(b);
    *t              = (struct target){ 0 };
    t->name         = cpu->name;
    t->memory_bytes = os_memory_free_bytes();
    describe_low(cpu, t);
    t->threads     = pool_threads(cpu->pool);
    t->align_bytes = TARGET_CPU_ALIGN_BYTES;
    t->work_bytes  = target_work_bytes;
    t->kernel_name = target_kernel_name;
    t->seconds     = target_kernel_seconds;
    t->backend     = cpu;
}

static void cpu_rate(struct backend *b, struct target *t) { timing_rates(t, cpu_of(b)->pool); }

static const i64 fill_block_bytes = (i64)1 << 22;

static void fill_block(void *context, i64 block, i32 worker)
{
    struct cpu *cpu   = context;
    i64         first = block * fill_block_bytes;
    (void)worker;
    memset(cpu->arena + first, UNWRITTEN, (size_t)MIN(fill_block_bytes, cpu->arena_bytes - first));
}

static enum status cpu_alloc(struct backend *b, i64 arena_bytes, struct err *err)
{
    struct cpu *cpu = cpu_of(b);
    ASSERT(!cpu->arena);
    ASSERT(arena_bytes > 0);
    cpu->arena = pages_open(arena_bytes);
    if (!cpu->arena)
        return err_set(err, STATUS_WORLD, "the system refused %lld bytes of memory",
                       (long long)arena_bytes);
    cpu->arena_bytes = arena_bytes;
    pool_run(cpu->pool, (arena_bytes + fill_block_bytes - 1) / fill_block_bytes, fill_block, cpu);
    return STATUS_OK;
}

static enum status prepare_one(const struct cpu *cpu, const struct program *p, struct instr *instr,
                               struct arena *perm, struct ready *r, struct err *err)
{
    const struct graph *g   = p->graph;
    const struct node  *n   = &g->nodes[instr->node];
    struct tensor      *in  = NEW(perm, struct tensor, MAX(1, n->in_count));
    struct tensor      *out = NEW(perm, struct tensor, OP_OUT_MAX);
    r->call                 = call_of(cpu, g, p, n, in, out);
    r->kernel               = choose(cpu, &r->call);
    i64 needed              = r->kernel->work ? r->kernel->work(&r->call) : 0;
    if (needed > instr->work_bytes)
        return err_set(err, STATUS_WORLD,
                       "kernel %s of %s needs %lld bytes of workspace and the program gives it "
                       "%lld: it was compiled for other kernels",
                       r->kernel->name, op_info(n->op)->name, (long long)needed,
                       (long long)instr->work_bytes);
    ASSERT(!needed || instr->work_offset >= 0);
    ASSERT(!needed || instr->work_offset + needed <= cpu->arena_bytes);
    r->call.work       = needed ? cpu->arena + instr->work_offset : NULL;
    r->call.work_bytes = needed;
    instr->kernel      = str_of(r->kernel->name);
    return STATUS_OK;
}

static enum status cpu_prepare(struct backend *b, struct program *p, struct arena *perm,
                               struct err *err)
{
    struct cpu   *cpu   = cpu_of(b);
    struct ready *ready = NEW(perm, struct ready, MAX(1, p->instr_count));
    enum status   st    = STATUS_OK;
    ASSERT(cpu->arena);
    for (i32 i = 0; !st && i < p->instr_count; i++)
        st = prepare_one(cpu, p, &p->instrs[i], perm, &ready[i], err);
    p->prepared = st ? NULL : ready;
    return st;
}

static ticket cpu_put(struct backend *b, i64 offset, const void *from, i64 bytes)
{
    struct cpu *cpu = cpu_of(b);
    ASSERT(offset >= 0);
    ASSERT(offset + bytes <= cpu->arena_bytes);
    backend_changes(b, offset);
    if (from) memcpy(cpu->arena + offset, from, (size_t)bytes);
    else memset(cpu->arena + offset, 0, (size_t)bytes);
    return 0;
}

/* Large copies (snapshots) go past the caches: a line that is written whole need not be read first,
 * which halves the time on two cores of a Zen 4 (0.10 s a GiB instead of 0.20), and what the next
 * step needs stays in them. */
static void copy_past_caches(u8 *to, const u8 *from, i64 bytes)
{
#ifdef __SSE2__
    i64 head = (i64)(-(uintptr_t)to & 15);
    if (bytes >= STREAM_BYTES_MIN) {
        memcpy(to, from, (size_t)head);
        i64 at = head;
        for (; at + 16 <= bytes; at += 16)
            _mm_stream_si128((__m128i *)(void *)(to + at),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + at)));
        _mm_sfence();
        memcpy(to + at, from + at, (size_t)(bytes - at));
        return;
    }
#endif
    memcpy(to, from, (size_t)bytes);
}

struct copy {
    u8       *to;
    const u8 *from;
    i64       bytes;
};

static void copy_block(void *context, i64 block, i32 worker)
{
    const struct copy *c  = context;
    i64                at = block * COPY_BLOCK_BYTES;
    (void)worker;
    copy_past_caches(c->to + at, c->from + at, MIN(c->bytes - at, COPY_BLOCK_BYTES));
}

struct loading {
    u8                        *arena;
    const struct backend_part *parts;
    backend_fill              *fill;
    void                      *context;
};

static void load_part(void *context, i64 part, i32 worker)
{
    const struct loading *l = context;
    l->fill(l->context, part, l->arena + l->parts[part].offset, worker);
}

static void cpu_load(struct backend *b, const struct backend_part *parts, i64 count,
                     struct pool *pool, backend_fill *fill, void *context)
{
    struct cpu    *cpu = cpu_of(b);
    struct loading l   = { cpu->arena, parts, fill, context };
    for (i64 i = 0; i < count; i++) {
        ASSERT(parts[i].offset >= 0 && parts[i].offset + parts[i].bytes <= cpu->arena_bytes);
        backend_changes(b, parts[i].offset);
    }
    pool_run(pool, count, load_part, &l);
}

static ticket cpu_get(struct backend *b, i64 offset, void *to, i64 bytes)
{
    struct cpu *cpu = cpu_of(b);
    struct copy c   = { to, cpu->arena + offset, bytes };
    ASSERT(offset >= 0);
    ASSERT(offset + bytes <= cpu->arena_bytes);
    if (bytes < COPY_BLOCK_BYTES) memcpy(to, c.from, (size_t)bytes);
    else pool_run(cpu->pool, (bytes + COPY_BLOCK_BYTES - 1) / COPY_BLOCK_BYTES, copy_block, &c);
    return 0;
}

static void cpu_mark(struct backend *b) { (void)b; }

static void cpu_copy(struct backend *b, const struct backend_copy *list, i64 count)
{
    const u8 *arena = cpu_of(b)->arena;
    for (i64 i = 0; i < count; i++)
        copy_past_caches(list[i].to, arena + list[i].offset, list[i].bytes);
}

/* Touched here, so that the first copy does not wait for the system's pages. */
static enum status cpu_pin(struct backend *b, void *memory, i64 bytes, struct err *err)
{
    volatile u8 *at = memory;
    (void)b;
    (void)err;
    for (i64 i = 0; i < bytes; i += PAGE_BYTES) at[i] = at[i]; /* what is there stays */
    return STATUS_OK;
}

static void cpu_unpin(struct backend *b) { (void)b; }

static ticket cpu_run(struct backend *b, const struct program *p)
{
    const struct ready *ready = p->prepared;
    ASSERT(ready);
    u64 mode = flush_begin();
    for (i32 i = 0; i < p->instr_count; i++) {
        if (b->leaves_off && b->leaves_off(b->context)) break;
        kernel_run(ready[i].kernel, &ready[i].call);
    }
    flush_end(mode);
    return 0;
}

static void cpu_wait(struct backend *b, ticket t)
{
    (void)b;
    (void)t;
}

static void cpu_time(struct backend *b, const struct program *p, f64 *seconds)
{
    const struct ready *ready = p->prepared;
    struct os          *os    = os_real();
    (void)b;
    ASSERT(ready);
    u64 mode     = flush_begin();
    i64 begin_ns = os->now_ns(os);
    for (i32 i = 0; i < p->instr_count; i++) {
        kernel_run(ready[i].kernel, &ready[i].call);
        i64 end_ns = os->now_ns(os); /* where the next begins: no time lies between them */
        seconds[i] = (f64)(end_ns - begin_ns) * 1e-9;
        begin_ns   = end_ns;
    }
    flush_end(mode);
}

static i64 cpu_used_bytes(struct backend *b)
{
    struct cpu *cpu = cpu_of(b);
    i64         end = cpu->arena_bytes;
    while (end > 0 && cpu->arena[end - 1] == UNWRITTEN) end--;
    return end;
}

static void cpu_close(struct backend *b)
{
    struct cpu *cpu = cpu_of(b);
    if (cpu->arena) pages_close(cpu->arena, cpu->arena_bytes);
    cpu->arena = NULL;
    pool_close(cpu->pool);
}

static const struct backend_table cpu_table = {
    .name       = "cpu",
    .describe   = cpu_describe,
    .rate       = cpu_rate,
    .alloc      = cpu_alloc,
    .prepare    = cpu_prepare,
    .put        = cpu_put,
    .load       = cpu_load,
    .get        = cpu_get,
    .run        = cpu_run,
    .wait       = cpu_wait,
    .mark       = cpu_mark,
    .copy       = cpu_copy,
    .pin        = cpu_pin,
    .unpin      = cpu_unpin,
    .time       = cpu_time,
    .used_bytes = cpu_used_bytes,
    .close      = cpu_close,
};

enum status backend_cpu_open(struct arena *perm, i32 threads, enum backend_choice choice,
                             struct backend **out, struct err *err)
{
    char        text[4096];
    struct str  info = os_proc_text(STR("/proc/cpuinfo"), text, sizeof text);
    struct str  name = os_proc_value(info, STR("model name"));
    struct cpu *cpu  = NEW(perm, struct cpu, 1);
    enum isa    cap;
    enum status st = kernel_isa_cap(&cap, err);
    if (st) return st;
    cpu->base.table = &cpu_table;
    u64 mode        = flush_begin(); /* for the pool's threads to inherit */
    cpu->pool       = pool_open(perm, threads > 0 ? threads : pool_machine_threads());
    flush_end(mode);
    cpu->choice = choice;
    cpu->name   = str_copy(perm, name.len ? name : STR("cpu"));
    *out        = &cpu->base;
    return STATUS_OK;
}
