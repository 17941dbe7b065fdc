/* check_shapes.c - a run's instructions at their real shapes, against the naive kernels:
 *
 *     check_shapes [--spoil] [--parts=BYTES] RUN.YAML [key=value…]
 *
 * Opens the run as `frugal train` does and goes through one batch's gradients and the update an instruction
 * at a time, on the device that the run has. The first of each kind (op, attributes, types) is checked on what it was
 * given there: where results are many, a random sample of rows, samples or, of a weight's gradient, columns is
 * computed naively. Compared as support/near.h says; exit 1 if any was wrong. --spoil changes a number in each
 * result: all must be found. --parts takes the loss over so many bytes of logits at a time, as GPUs do.
 * CHECK_SEED repeats a printed seed. */
#include "backend/cpu/kernel.h"
#include "support/near.h"
#include "support/op_case.h"
#include "train/config.h"
#include "train/train_int.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8, KINDS_MAX = 1024 };
static const f64 flops_max = 4e10; /* beyond it the naive kernel is not waited for */

/* How results are cut: by rows (all axes but the last), by samples (the first axis), by columns of a
 * transposed first operand (rows of the result), or not at all. */
enum cut { CUT_ROWS, CUT_SAMPLES, CUT_COLUMNS, CUT_NONE };
static const char *const cut_names[] = { "rows", "samples", "columns", "whole" };

struct check {
    struct session *s;
    struct arena    scratch;
    struct draw     draw;
    bool            spoil;
    struct str      kinds[KINDS_MAX];
    i32             kind_count, wrong, left_out;
};

/* One use of an op on the host: operands and the naive kernel's results, both cut. */
struct trial {
    const struct program *p;
    const struct node    *n;
    enum cut              cut;
    i64                   parts;      /* of the whole, along what is cut */
    i64                   pick[ROWS]; /* which of them */
    i64                   picked;
    f64                   terms; /* added up in an element of the result, about */
    f64                   muon; /* what is allowed of the parameter that it writes; 0: another op */
    struct tensor         in[OP_IN_MAX], out[OP_OUT_MAX];
};

static void must(enum status st, const struct err *err)
{
    if (!st) return;
    fprintf(stderr, "check_shapes: %s\n", err->text);
    exit((int)st);
}

static struct type type_at(const struct program *p, i32 value)
{
    return p->graph->values[value].type;
}

/* Without those of the maps that follow. */
static i32 own_inputs(const struct node *n) { return n->in_count - op_then_inputs(&n->at); }

/* Axes from the front that make `count` together; 0: there are none. */
static i32 prefix(struct shape s, i64 count)
{
    for (i32 axes = 1; axes <= s.rank; axes++)
        if (shape_span(s, 0, axes) == count) return axes;
    return 0;
}

/* Row by row whatever the other rows are; a second operand that stretches over rows forbids it. */
static bool is_by_row(const struct program *p, const struct node *n)
{
    static const i32 ops[] = { OP_MATMUL,        OP_MATMUL_FP8, OP_LAYERNORM,
                               OP_ADD_LAYERNORM, OP_RMSNORM,    OP_ADD_RMSNORM,
                               OP_XENT,          OP_XENT_BOTH,  OP_EMBEDDING };
    struct shape     out   = type_at(p, n->out).shape;
    for (i32 i = 0; i < COUNT_OF(ops); i++)
        if (ops[i] == n->op) return true;
    for (i32 i = 0; i < n->in_count && op_is_map(n->op); i++) {
        struct shape s = type_at(p, n->in[i]).shape;
        if (shape_count(s) != shape_count(out) && s.rank > 1) return false;
    }
    return op_is_map(n->op);
}

static enum cut cut_of(const struct program *p, const struct node *n)
{
    const struct op_info *op   = op_info(n->op);
    bool                  flat = n->op == OP_MATMUL && type_at(p, n->in[1]).shape.rank == 2;
    if (n->op == OP_MATMUL && n->at.ta) return flat ? CUT_COLUMNS : CUT_SAMPLES;
    if (n->op == OP_MATMUL && !flat) return CUT_SAMPLES;
    bool random = op->effect == EFFECT_RANDOM && n->at.key; /* by the index of the sample */
    if (op->effect == EFFECT_STATE || random || op->batch != BATCH_ROWS || op->attrs & A_dims)
        return CUT_NONE;
    if (op->attrs & A_axis && !n->at.axis) return CUT_NONE; /* samples are what it moves */
    for (i32 i = 1; i < node_results(n); i++) /* sums over the samples beside results of each */
        if (type_at(p, n->out + i).shape.dim[0] != type_at(p, n->out).shape.dim[0]) return CUT_NONE;
    return is_by_row(p, n) ? CUT_ROWS : CUT_SAMPLES;
}

/* Its bytes [from, from + bytes) as the device has them. */
static void fetch(struct check *c, const struct program *p, i32 value, i64 from, void *to,
                  i64 bytes)
{
    const struct backend_table *b = c->s->backend->table;
    b->wait(c->s->backend, b->get(c->s->backend, p->offset[value] + from, to, bytes));
}

static struct tensor tensor_new(struct check *c, enum dtype t, struct shape s)
{
    struct type type = type_of(t, s);
    return (struct tensor){ arena_take(&c->scratch, MAX(1, type_bytes(type)), 1, 64), type,
                            shape_count(s) };
}

/* A value, or the picked parts of it where its first axes are what is cut. */
static struct tensor fetch_parts(struct check *c, const struct trial *t, i32 value)
{
    struct type  whole = type_at(t->p, value);
    i32          axes  = t->cut == CUT_NONE ? 0 : prefix(whole.shape, t->parts);
    struct shape s     = whole.shape;
    if (!axes) {
        struct tensor all = tensor_new(c, whole.dtype, s);
        fetch(c, t->p, value, 0, all.data, type_bytes(whole));
        return all;
    }
    s.rank          = 0;
    s.dim[s.rank++] = t->picked;
    for (i32 i = axes; i < whole.shape.rank; i++) s.dim[s.rank++] = whole.shape.dim[i];
    struct tensor cut  = tensor_new(c, whole.dtype, s);
    i64           size = type_bytes(whole) / t->parts;
    for (i64 i = 0; i < t->picked; i++)
        fetch(c, t->p, value, t->pick[i] * size, (u8 *)cut.data + i * size, size);
    return cut;
}

/* The picked columns of a matrix. */
static struct tensor fetch_columns(struct check *c, const struct trial *t, i32 value)
{
    struct type   whole = type_at(t->p, value);
    i64           rows = whole.shape.dim[0], size = dtype_bytes(whole.dtype);
    struct tensor cut = tensor_new(c, whole.dtype, shape_2(rows, t->picked));
    struct arena  own = c->scratch;
    u8           *all = arena_take(&own, type_bytes(whole), 1, 64);
    fetch(c, t->p, value, 0, all, type_bytes(whole));
    for (i64 r = 0; r < rows; r++)
        for (i64 i = 0; i < t->picked; i++)
            memcpy((u8 *)cut.data + (r * t->picked + i) * size,
                   all + (r * t->parts + t->pick[i]) * size, (size_t)size);
    return cut;
}

static void pick_parts(struct check *c, struct trial *t)
{
    struct shape out = type_at(t->p, t->n->out).shape;
    t->parts         = t->cut == CUT_ROWS ? shape_rows(out) : t->cut == CUT_NONE ? 1 : out.dim[0];
    t->picked        = MIN(t->parts, t->cut == CUT_SAMPLES ? 1 : ROWS);
    for (i64 i = 0; i < t->picked; i++) t->pick[i] = draw_to(&c->draw, t->parts);
}

/* What goes in, before the device may overwrite it, and room for the naive results. False: its cut form is no use
 * of the op, or too long. */
static bool trial_begin(struct check *c, struct trial *t)
{
    struct type in[OP_IN_MAX], out[OP_OUT_MAX] = { 0 }; /* an optimiser has no result */
    struct sig  sig = { in, own_inputs(t->n), out, &t->n->at, t->n->op };
    struct err  err;
    pick_parts(c, t);
    for (i32 i = 0; i < t->n->in_count; i++) {
        bool columns = t->cut == CUT_COLUMNS && i == 0, rest = t->cut == CUT_COLUMNS && i == 1;
        struct trial whole = *t;
        if (rest) whole.cut = CUT_NONE;
        t->in[i] = columns ? fetch_columns(c, t, t->n->in[i]) : fetch_parts(c, &whole, t->n->in[i]);
        in[i]    = t->in[i].type;
    }
    if (op_types(&sig, &err) || op_cost(&sig).flops > flops_max) return false;
    t->terms = node_results(t->n) ? op_cost(&sig).flops / 2 / (f64)shape_count(out[0].shape) : 1;
    for (i32 i = 0; i < node_results(t->n); i++)
        t->out[i] = tensor_new(c, out[i].dtype, out[i].shape);
    return true;
}

static void run_naively(struct check *c, struct trial *t)
{
    struct call call = {
        t->n->op, &t->n->at, t->in, own_inputs(t->n), t->out, NULL, 0, NULL, NULL
    };
    call.work_bytes = ref_work(&call);
    call.work       = arena_take(&c->scratch, MAX(1, call.work_bytes), 1, 64);
    kernel_run(kernel_choose(&call, true), &call);
}

/* Farthest of a result, or of an input written in place, as a part of what is allowed. */
static f64 compare(struct check *c, struct trial *t, i32 value, const struct tensor *want,
                   f64 terms)
{
    struct type   in[OP_IN_MAX];
    struct tensor got = fetch_parts(c, t, value);
    for (i32 i = 0; i < t->n->in_count; i++) in[i] = t->in[i].type;
    if (!type_eq(got.type, want->type)) return INFINITY;
    if (c->spoil) {
        f64 x = element_get(got.data, got.type.dtype, 0);
        element_set(got.data, got.type.dtype, 0, x + 1 + x * x * (f64)got.count);
    }
    f64 off = near_distance(got.data, want->data, want->type, terms);
    f64 may = near_allowed(t->n->op, &t->n->at, in, t->n->in_count, want->type, t->terms);
    if (t->muon > 0 && value == t->n->in[0]) may = t->muon;
    return off == 0 ? 0 : may > 0 ? off / may : INFINITY;
}

static f64 trial_end(struct check *c, struct trial *t)
{
    u32 writes = op_info(t->n->op)->writes;
    f64 worst  = 0, terms[OP_OUT_MAX];
    for (i32 i = 0; i < node_results(t->n); i++) /* of operands as they were */
        terms[i] = near_terms(t->n->op, &t->n->at, t->in, own_inputs(t->n), t->out[i].count);
    if (t->n->op == OP_MUON) { /* on the processor its products are as wide as the run's */
        enum dtype kind = c->s->target.gpus ? DT_BF16 : t->n->at.dtype;
        t->muon         = near_allowed_muon(&t->n->at, t->in, kind, c->scratch);
    }
    run_naively(c, t);
    for (i32 i = 0; i < node_results(t->n); i++)
        worst = MAX(worst, compare(c, t, t->n->out + i, &t->out[i], terms[i]));
    for (i32 i = 0; i < t->n->in_count; i++)
        if (writes >> i & 1) worst = MAX(worst, compare(c, t, t->n->in[i], &t->in[i], 0));
    return worst;
}

/* "matmul tb then add bf16[64,1024,768] … -> bf16[64,1024,3072]" */
static struct str kind_of(const struct program *p, const struct node *n, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_add(&b, op_text(perm, n->op, &n->at));
    for (i32 i = 0; i < n->in_count + node_results(n); i++) {
        i32 value = i < n->in_count ? n->in[i] : n->out + i - n->in_count;
        textbuf_fmt(&b, "%s", i == n->in_count ? " -> " : " ");
        textbuf_add(&b, type_text(perm, type_at(p, value)));
    }
    return textbuf_str(&b);
}

static bool is_new(struct check *c, struct str kind)
{
    for (i32 i = 0; i < c->kind_count; i++)
        if (str_eq(c->kinds[i], kind)) return false;
    ASSERT(c->kind_count < KINDS_MAX);
    c->kinds[c->kind_count++] = str_copy(c->s->perm, kind);
    return true;
}

static void check_instr(struct check *c, const struct program *p, i32 i)
{
    struct arena   before = c->scratch;
    struct program one    = *p;
    struct trial   t      = { .p = p, .n = &p->graph->nodes[p->instrs[i].node] };
    struct str     kind   = kind_of(p, t.n, &c->scratch);
    struct err     err;
    one.instrs      = &p->instrs[i];
    one.instr_count = 1;
    must(c->s->backend->table->prepare(c->s->backend, &one, c->s->perm, &err), &err);
    bool fresh = is_new(c, kind), tried = false;
    t.cut = cut_of(p, t.n);
    if (fresh) tried = trial_begin(c, &t);
    c->s->backend->table->run(c->s->backend, &one);
    f64 worst = tried ? trial_end(c, &t) : 0;
    if (fresh)
        printf("%-8s %-7s %6.3f  %-24.*s %.*s\n",
               !tried      ? "left out"
               : worst > 1 ? "WRONG"
                           : "ok",
               cut_names[t.cut], worst, STR_ARG(one.instrs->kernel), STR_ARG(kind));
    fflush(stdout);
    c->wrong += worst > 1;
    c->left_out += fresh && !tried;
    c->scratch = before;
}

/* One batch and the scalars of a first step. */
static void feed(struct session *s)
{
    const struct feeds  *feeds = dataset_feeds(s->data);
    struct loader_config c = { .split = SPLIT_TRAIN, .shuffle = true, .batch = s->config.batch };
    struct loader       *loader;
    struct err           err;
    must(loader_open(s->perm, s->data, &c, &loader, &err), &err);
    const struct batch *b = loader_next(loader);
    session_put_scalars(s, 0, b->count * model_rows(s->model), 0, s->settings->train.lr);
    for (i32 f = 0; f < feeds->count; f++)
        session_put(s, feeds->feed[f].name, b->data[f], b->count * type_bytes(feeds->feed[f].type));
    loader_close(loader);
}

/* The program anew, with the loss in parts. */
static void compile_in_parts(struct session *s, i64 part_bytes)
{
    struct err err;
    s->target.loss_part_bytes = part_bytes;
    must(compile(s->perm, &s->target, &s->config, model_build, s->model, &s->set, s->scratch, &err),
         &err);
}

int main(int argc, char **argv)
{
    static const struct str parts      = STR_INIT("--parts=");
    struct check            c          = { 0 };
    i64                     part_bytes = 0;
    for (; argc > 1 && argv[1][0] == '-'; argv++, argc--) {
        struct str word = str_of(argv[1]);
        c.spoil |= str_eq(word, STR("--spoil"));
        if (str_starts(word, parts)) str_i64(str_of(argv[1] + parts.len), &part_bytes);
    }
    if (argc < 2) {
        fprintf(stderr, "check_shapes [--spoil] [--parts=BYTES] RUN.YAML [key=value...]\n");
        return STATUS_USAGE;
    }
    struct os     *os        = os_real();
    struct arena   perm      = arena_open((i64)1 << 36);
    struct str    *overrides = NEW(&perm, struct str, argc);
    struct config *config;
    struct session s;
    struct err     err;
    i64            seed;
    if (!str_i64(os->env(os, "CHECK_SEED"), &seed)) seed = os->now_ns(os);
    printf("seed %lld\n", (long long)seed);
    for (int i = 2; i < argc; i++) overrides[i - 2] = str_of(argv[i]);
    must(config_read(os, &perm, STR("train"), str_of(argv[1]), overrides, argc - 2, &config, &err),
         &err);
    must(session_open(&s, os, &config->settings, &perm, &err), &err);
    if (part_bytes) compile_in_parts(&s, part_bytes);
    must(session_start(&s, &err), &err);
    feed(&s);
    c.s                                = &s;
    c.scratch                          = arena_open((i64)1 << 37);
    c.draw.state                       = (u64)seed;
    static const enum program_id ids[] = { PROGRAM_TRAIN, PROGRAM_UPDATE };
    for (i32 k = 0; k < COUNT_OF(ids); k++)
        for (i32 i = 0; i < s.set->programs[ids[k]]->instr_count; i++)
            check_instr(&c, s.set->programs[ids[k]], i);
    printf("%d kinds of instruction, %d wrong, %d left out\n", c.kind_count, c.wrong, c.left_out);
    session_close(&s);
    return c.wrong != 0;
}
