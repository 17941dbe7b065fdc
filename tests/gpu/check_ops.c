/* check_ops.c - every op of the table on the GPU against the naive kernels, on fresh random cases:
 *
 *     check_ops [--cpu] [CASES [OP]]     so many for each op and type, of all ops or of those with OP in their name;
 *                                        CHECK_SEED repeats a printed seed
 *
 * --cpu checks the processor's kernels instead, so that a machine without a GPU can test this program.
 * Every second case of an op that maps may follow carries a chain of them. One line an op with the
 * kernels that were chosen; exit 1 if any was wrong, or if there is no kernel for a case that a program on a GPU can
 * have (no_program says which cannot). Compared as support/near.h says. */
#include "backend/backend.h"
#include "backend/cpu/kernel.h"
#include "backend/cuda/cuda.h"
#include "base/os.h"
#include "compile/compile.h"
#include "ir/build.h"
#include "support/near.h"
#include "support/op_case.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench {
    struct arena    perm, scratch;
    struct backend *gpu; /* or the processor */
    struct target   target;
    bool            on_cpu;
    struct op_case  c;
    u64             seed;
    i32             failed, ran;
    u64             kernels; /* set of names in `kernel_names` */
};

static const char *kernel_names[64];

static u64 kernel_bit(const char *name)
{
    for (i32 i = 0; i < COUNT_OF(kernel_names); i++) {
        if (!kernel_names[i]) kernel_names[i] = name;
        if (!strcmp(kernel_names[i], name)) return (u64)1 << i;
    }
    return 0;
}

static void must(enum status st, const struct err *err)
{
    if (!st) return;
    fprintf(stderr, "check_ops: %s\n", err->text);
    exit(3);
}

static struct str name_of(struct arena *perm, const char *kind, i32 i)
{
    return str_fmt(perm, "%s%d", kind, i);
}

static bool writes(const struct op_case *c, i32 input)
{
    return input < c->in_count && op_writes(op_info(c->op), input);
}

static i32 inputs_of(const struct op_case *c) { return c->in_count + op_then_inputs(&c->at); }
static i32 results_of(const struct op_case *c) { return op_result_count(c->op, &c->at); }

/* Up to three maps that stay tame, with operands for them behind the op's own. */
static void add_chain(struct bench *b, struct draw *d)
{
    static const i32 maps[] = { OP_ADD,           OP_SUB,  OP_MUL,       OP_RELU,
                                OP_RELU_GRAD,     OP_GELU, OP_GELU_GRAD, OP_GELU_ERF,
                                OP_GELU_ERF_GRAD, OP_SILU, OP_TANH,      OP_SIGMOID };
    struct op_case  *c      = &b->c;
    struct chain    *then   = &c->at.then;
    i64              count  = shape_count(c->out[0].shape);
    then->count             = 1 + (i32)draw_to(d, 3);
    then->keep              = draw_to(d, 2) && op_info(c->op)->out_count < OP_OUT_MAX;
    for (i32 i = 0; i < then->count; i++) then->op[i] = maps[draw_to(d, COUNT_OF(maps))];
    if (draw_to(d, 2))
        *then =
            (struct chain){ .count = 1, .op = { OP_ADD } }; /* a residual's, which kernels know */
    for (i32 i = c->in_count; i < inputs_of(c); i++) {
        c->in[i]   = c->out[0];
        c->data[i] = arena_take(&b->perm, MAX(1, type_bytes(c->in[i])), 1, 64);
        for (i64 k = 0; k < count; k++)
            element_set(c->data[i], c->in[i].dtype, k, 1 + draw_normal(d) / 4);
    }
    if (then->keep) c->out[op_info(c->op)->out_count] = c->out[0];
}

/* One more operand: what a table's gradient is added to, or where AdamW leaves a copy in bf16. */
static void add_operand(struct bench *b, struct draw *d, struct type t)
{
    struct op_case *c    = &b->c;
    void           *data = arena_take(&b->perm, MAX(1, type_bytes(t)), 1, 64);
    for (i64 k = 0; k < shape_count(t.shape); k++) element_set(data, t.dtype, k, draw_normal(d));
    c->in[c->in_count]     = t;
    c->data[c->in_count++] = data;
}

/* The gradient of a norm is followed by a sum over its rows, a bias's gradient, which its kernel may take as well. */
static bool has_sum(const struct op_case *c)
{
    return c->op == OP_LAYERNORM_GRAD || c->op == OP_RMSNORM_GRAD;
}

static struct attrs sum_attrs(const struct op_case *c)
{
    return (struct attrs){ .count = c->out[0].shape.rank - 1, .wide = c->out[1].dtype == DT_F32 };
}

static enum status build(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                         struct err *err)
{
    const struct op_case *c = context;
    i32                   in[OP_IN_MAX];
    (void)batch;
    (void)mode;
    for (i32 i = 0; i < inputs_of(c); i++) {
        enum value_kind kind = writes(c, i) ? VALUE_BUFFER : VALUE_INPUT;
        in[i]                = graph_value(g, kind, name_of(g->perm, "in", i), c->in[i]);
    }
    if (c->op == OP_EMBEDDING_GRAD && c->in_count > 2 && c->in[2].shape.dim[0] % 2)
        in[2] = build_scale(g, STR("there"), in[2], 1, 0); /* whose place the result takes over */
    i32 out = graph_op(g, c->op, STR("op"), in, inputs_of(c), &c->at);
    for (i32 i = 0; out >= 0 && i < results_of(c); i++)
        graph_output(g, out + i, name_of(g->perm, "out", i));
    struct attrs over_rows = sum_attrs(c);
    if (has_sum(c) && out >= 0)
        graph_output(g, graph_op(g, OP_SUM, STR("sum"), &out, 1, &over_rows), STR("sum"));
    return graph_status(g, err);
}

/* Of the result or the written input of that name. Muon's products are bf16 here, whatever the naive kernel's are. */
static f64 allowed(const struct bench *b, struct str name, const struct tensor *in, struct type t)
{
    const struct op_case *c = &b->c;
    if (c->nearness == NEAR_EXACT && !c->at.then.count) return 0;
    if (c->op == OP_MUON && str_eq(name, STR("in0")))
        return near_allowed_muon(&c->at, in, DT_BF16, b->scratch);
    return near_allowed(c->op, &c->at, c->in, c->in_count, t, c->terms);
}

static void *fetched(struct bench *b, const struct persistent *p, struct type t)
{
    void *got = arena_take(&b->scratch, MAX(1, type_bytes(t)), 1, 64);
    b->gpu->table->wait(b->gpu, b->gpu->table->get(b->gpu, p->offset, got, type_bytes(t)));
    return got;
}

static void wrong(struct bench *b, struct str name, f64 distance, f64 limit)
{
    struct str text  = op_case_text(&b->c, &b->scratch),
               chain = op_text(&b->scratch, b->c.op, &b->c.at);
    printf("  WRONG %.*s of %.*s [%.*s%s]: off by %.3g, allowed %.3g (CHECK_SEED=%llu)\n",
           STR_ARG(name), STR_ARG(text), STR_ARG(chain), b->c.at.then.keep ? " kept" : "", distance,
           limit, (unsigned long long)b->seed);
    b->failed++;
}

/* By the naive sum of the rows that the GPU stored. */
static void compare_sum(struct bench *b, const struct program_set *set)
{
    struct type   x = b->c.out[0], y = type_of(b->c.out[1].dtype, shape_1(shape_last(x.shape)));
    struct attrs  at   = sum_attrs(&b->c);
    struct tensor in   = { fetched(b, program_set_find(set, STR("out0")), x), x,
                           shape_count(x.shape) };
    struct tensor want = { arena_take(&b->scratch, MAX(1, type_bytes(y)), 1, 64), y,
                           shape_count(y.shape) };
    struct call   call = { OP_SUM, &at, &in, 1, &want, NULL, 0, NULL, NULL };
    kernel_run(kernel_choose(&call, true), &call);
    f64 d     = near_distance(fetched(b, program_set_find(set, STR("sum")), y), want.data, y,
                              near_sum_terms(OP_SUM, 0, &in, want.count));
    f64 limit = near_allowed(OP_SUM, &at, &x, 1, y, (f64)shape_rows(x.shape));
    if (!(d <= limit)) wrong(b, STR("sum"), d, limit);
}

/* result: which of the op's it is; -1: an input that it writes. */
static void compare(struct bench *b, struct str name, i32 result, const void *want, struct type t,
                    const struct program_set *set)
{
    const struct persistent *p = program_set_find(set, name);
    if (!p) return;
    struct tensor in[OP_IN_MAX];
    for (i32 i = 0; i < b->c.in_count; i++)
        in[i] = (struct tensor){ b->c.data[i], b->c.in[i], shape_count(b->c.in[i].shape) };
    i64 count = shape_count(t.shape);
    f64 terms = fmax(near_terms(b->c.op, &b->c.at, in, b->c.in_count, count),
                     near_sum_terms(b->c.op, result, in, count));
    f64 d     = near_distance(fetched(b, p, t), want, t, terms);
    f64 limit = allowed(b, name, in, t);
    if (!(d <= limit)) wrong(b, name, d, limit);
    if (result >= 0 || !str_eq(name, STR("in0")) ||
        !near_is_rounded(b->c.op, b->c.in, b->c.in_count))
        return;
    f64 share = near_differing(fetched(b, p, t), want, t);
    if (!(share <= near_differing_allowed(t)))
        wrong(b, STR("roundings of in0"), share, near_differing_allowed(t));
}

/* What the naive kernel leaves in results and in inputs that it writes. */
static void reference(struct bench *b, struct tensor *in, struct tensor *out)
{
    const struct op_case *c = &b->c;
    for (i32 i = 0; i < inputs_of(c); i++) {
        in[i] = (struct tensor){ arena_take(&b->scratch, MAX(1, type_bytes(c->in[i])), 1, 64),
                                 c->in[i], shape_count(c->in[i].shape) };
        memcpy(in[i].data, c->data[i], (size_t)type_bytes(c->in[i]));
    }
    for (i32 i = 0; i < results_of(c); i++)
        out[i] = (struct tensor){ arena_take(&b->scratch, MAX(1, type_bytes(c->out[i])), 1, 64),
                                  c->out[i], shape_count(c->out[i].shape) };
    struct call          call = { c->op, &c->at, in, c->in_count, out, NULL, 0, NULL, NULL };
    const struct kernel *k    = kernel_choose(&call, true);
    call.work_bytes           = ref_work(&call);
    call.work                 = arena_take(&b->scratch, MAX(1, call.work_bytes), 1, 64);
    kernel_run(k, &call);
}

static bool run_case(struct bench *b)
{
    struct err            err    = { 0 };
    struct compile_config config = { .eval_batch = 1, .fuse = FUSE_ALL };
    struct program_set   *set;
    struct tensor         in[OP_IN_MAX], out[OP_OUT_MAX];
    const struct op_case *c = &b->c;
    must(b->on_cpu ? backend_cpu_open(&b->perm, 2, BACKEND_FAST, &b->gpu, &err)
                   : backend_cuda_open(&b->perm, 0, &b->gpu, &err),
         &err);
    if (c->op == OP_ATTENTION_GRAD && !b->on_cpu) { /* the only one that has two ways */
        struct backend_tuning how = { .any_order = b->seed % 2 };
        must(b->gpu->table->tune(b->gpu, &how, &err), &err);
    }
    b->gpu->table->describe(b->gpu, &b->target);
    b->target.fusions_off = 0; /* a case is fused already, whatever compile would choose here */
    must(compile(&b->perm, &b->target, &config, build, &b->c, &set, b->scratch, &err), &err);
    must(b->gpu->table->alloc(b->gpu, MAX(1, set->arena_bytes), &err), &err);
    enum status st = b->gpu->table->prepare(b->gpu, set->programs[PROGRAM_EVAL], &b->perm, &err);
    if (!st) {
        for (i32 i = 0; i < inputs_of(c); i++) {
            const struct persistent *p = program_set_find(set, name_of(&b->scratch, "in", i));
            if (p) b->gpu->table->put(b->gpu, p->offset, c->data[i], type_bytes(c->in[i]));
        }
        b->gpu->table->run(b->gpu, set->programs[PROGRAM_EVAL]);
        reference(b, in, out);
        for (i32 i = 0; i < results_of(c); i++)
            compare(b, name_of(&b->scratch, "out", i), i, out[i].data, c->out[i], set);
        for (i32 i = 0; i < c->in_count; i++) {
            if (writes(c, i))
                compare(b, name_of(&b->scratch, "in", i), -1, in[i].data, c->in[i], set);
        }
        if (has_sum(c)) compare_sum(b, set);
        b->ran++;
        for (i32 i = 0; i < set->programs[PROGRAM_EVAL]->instr_count; i++) {
            struct str name = set->programs[PROGRAM_EVAL]->instrs[i].kernel;
            if (name.len) b->kernels |= kernel_bit(name.data);
        }
    }
    b->gpu->table->close(b->gpu);
    return !st;
}

static bool has_type(const struct op_case *c, enum dtype t)
{
    bool has = false;
    for (i32 i = 0; i < c->in_count; i++) has |= c->in[i].dtype == t;
    for (i32 i = 0; i < results_of(c); i++) has |= c->out[i].dtype == t;
    return has;
}

/* Why no program on a GPU has this case; NULL: some has. */
static const char *no_program(const struct op_case *c)
{
    bool dense = c->op == OP_SGD || c->op == OP_ADAM || c->op == OP_ADAMW || c->op == OP_MUON;
    if (has_type(c, DT_F64)) return "f64 is the processor's";
    if (c->op >= OP_ALL_REDUCE && c->op <= OP_ROWS_REDUCE) return "no ranks share it on GPUs";
    if (dense && c->in[0].dtype != DT_F32) return "parameters are f32";
    if (near_is_rounded(c->op, c->in, c->in_count) && c->in[0].dtype == DT_F16)
        return "tables are f32 or bf16";
    return NULL;
}

static void draw_case(struct bench *b, i32 op, enum dtype t, struct draw *d)
{
    i32 forward = op_case_forward(op);
    b->c        = (struct op_case){ 0 };
    if (forward < 0) {
        op_case_draw(&b->c, op, t, d, &b->perm);
        return;
    }
    struct op_case *f = NEW(&b->perm, struct op_case, 1);
    op_case_draw(f, forward, t, d, &b->perm);
    op_case_gradient(&b->c, op, f, d, &b->perm);
}

int main(int argc, char **argv)
{
    static const enum dtype types[] = { DT_F32, DT_BF16, DT_F16 };
    struct bench            all     = { .on_cpu = argc > 1 && !strcmp(argv[1], "--cpu") };
    char                  **arg     = argv + all.on_cpu;
    struct os              *os      = os_real();
    i64                     cases = arg[1] ? atoll(arg[1]) : 4, missing = 0, seed = 0;
    struct str              given = os->env(os, "CHECK_SEED");
    if (!str_i64(given, &seed)) seed = os->now_ns(os);
    all.perm    = arena_open(1ll << 36);
    all.scratch = arena_open(1ll << 36);
    printf("seed %lld\n", (long long)seed);
    for (i32 op = 0; op < OP_COUNT; op++) {
        struct bench b    = { 0 };
        bool         none = false;
        const char  *why  = NULL;
        if (op_is_view(op) || (arg[1] && arg[2] && !strstr(op_info(op)->name, arg[2]))) continue;
        for (i64 i = 0; i < cases * COUNT_OF(types); i++) {
            struct bench one = { .perm = all.perm, .scratch = all.scratch, .on_cpu = all.on_cpu };
            one.seed         = (u64)seed + (u64)op * 1000003 + (u64)i;
            struct draw d    = { .state = one.seed, .large = i % 4 == 3, .odd = i % 4 == 2 };
            draw_case(&one, op, types[i % COUNT_OF(types)], &d);
            if (i / COUNT_OF(types) % 2 && op == OP_EMBEDDING_GRAD)
                add_operand(&one, &d, one.c.out[0]);
            if (i / COUNT_OF(types) % 2 && op == OP_ADAMW && types[i % COUNT_OF(types)] == DT_F32)
                add_operand(&one, &d, type_of(DT_BF16, one.c.in[0].shape));
            if (op_info(op)->attrs & A_then && i / COUNT_OF(types) % 2) add_chain(&one, &d);
            if (!run_case(&one) && no_program(&one.c)) why = no_program(&one.c);
            else none |= !one.ran;
            b.failed += one.failed;
            b.ran += one.ran;
            b.kernels |= one.kernels;
        }
        printf("%-18s %3d cases%s%s ", op_info(op)->name, b.ran, b.failed ? "  WRONG" : "",
               none ? "  NO KERNEL for some" : "");
        if (why) printf(" (none for some: %s)", why);
        for (i32 i = 0; i < COUNT_OF(kernel_names); i++)
            if (b.kernels >> i & 1) printf(" %s", kernel_names[i]);
        printf("\n");
        fflush(stdout);
        missing += none;
        all.failed += b.failed;
    }
    printf("%d wrong, %lld ops without a kernel for what a program may have\n", all.failed,
           (long long)missing);
    return all.failed || missing;
}
