/* api.c - the library's public face (include/frugal.h) on the rooms below. */
#include "backend/cpu/kernel.h"
#include "frugal.h"
#include "ir/graph.h"
#include "train/train_int.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define API_RESERVE_BYTES ((i64)64 << 30) /* address space only */

struct frugal_graph { /* never defined for real: a struct graph by its public name */
    struct graph g;
};

struct frugal_run {
    struct session   s;
    struct settings  settings;
    struct arena     perm;
    frugal_build_fn *build;
    void            *context;
    i64              step;
    f64              lr;
};

static struct frugal_op user_ops[OP_USER_MAX]; /* by op - OP_COUNT */

static struct graph *graph_of(struct frugal_graph *g) { return &g->g; }

static struct str kept(struct graph *g, const char *text)
{
    return str_copy(g->perm, str_of(text));
}

const char *frugal_version(void) { return FRUGAL_VERSION; }

/* A caller's mistake becomes the graph's first error, like those of the graph itself. */
static bool type_given(struct graph *g, const char *name, enum frugal_dtype dtype, int rank,
                       const int64_t *dims, struct type *out)
{
    if (g->err.status) return false;
    if (rank < 0 || rank > RANK_MAX || (u32)dtype >= DT_COUNT) {
        err_set(&g->err, STATUS_USAGE, "%s: there is no tensor of type %d with %d axes", name,
                (int)dtype, rank);
        return false;
    }
    *out = type_of((enum dtype)dtype, shape_of(rank, dims));
    return true;
}

int frugal_input(struct frugal_graph *g, const char *name, enum frugal_dtype dtype, int rank,
                 const int64_t *dims)
{
    struct type t;
    if (!type_given(graph_of(g), name, dtype, rank, dims, &t)) return -1;
    return graph_value(graph_of(g), VALUE_INPUT, kept(graph_of(g), name), t);
}

/* Matrices decay, vectors (biases, norms) do not. */
int frugal_param(struct frugal_graph *g, const char *name, int rank, const int64_t *dims,
                 enum frugal_init init, double scale)
{
    struct type t;
    if (!type_given(graph_of(g), name, FRUGAL_F32, rank, dims, &t)) return -1;
    return graph_param(graph_of(g), kept(graph_of(g), name), t,
                       (struct init){ (enum init_kind)init, scale }, rank > 1);
}

int frugal_apply(struct frugal_graph *g, const char *op, const char *name, const int *inputs,
                 int count, const char *attributes)
{
    struct graph *to = graph_of(g);
    struct attrs  at = { 0 };
    i32           id;
    if (to->err.status) return -1;
    if (!op_find(str_of(op), &id))
        return err_set(&to->err, STATUS_USAGE, "no op is called %s", op), -1;
    const struct op_info *row = op_info(id);
    if (count < row->in_min || count > row->in_max)
        return err_set(&to->err, STATUS_USAGE, "%s (%s) takes %d to %d inputs, not %d", name, op,
                       row->in_min, row->in_max, count),
               -1;
    for (int i = 0; i < count; i++) {
        if (inputs[i] < 0 || inputs[i] >= to->value_count)
            return err_set(&to->err, STATUS_USAGE, "%s (%s): input %d is not a value", name, op, i),
                   -1;
    }
    if (attributes && attrs_parse(to->perm, kept(to, attributes), row->attrs, &at, &to->err))
        return -1;
    return graph_op(to, id, kept(to, name), inputs, count, &at);
}

void frugal_output(struct frugal_graph *g, int value, const char *name)
{
    struct graph *to = graph_of(g);
    if (to->err.status) return;
    if (value < 0 || value >= to->value_count)
        err_set(&to->err, STATUS_USAGE, "output %s: %d is not a value", name, value);
    else graph_output(to, value, kept(to, name));
}

static struct shape shape_given(struct frugal_graph *g, int value)
{
    bool known = value >= 0 && value < graph_of(g)->value_count;
    return known ? graph_type(graph_of(g), value).shape : (struct shape){ 0 };
}

int frugal_rank(struct frugal_graph *g, int value) { return shape_given(g, value).rank; }

int64_t frugal_dim(struct frugal_graph *g, int value, int axis)
{
    struct shape s = shape_given(g, value);
    return axis >= 0 && axis < s.rank ? s.dim[axis] : 0;
}

/* --- ops of your own ------------------------------------------------------------------------ */

static struct frugal_tensor public_tensor(struct type t, void *data)
{
    struct frugal_tensor p = { .dtype = (enum frugal_dtype)t.dtype,
                               .rank  = t.shape.rank,
                               .count = shape_count(t.shape),
                               .data  = data };
    memcpy(p.dim, t.shape.dim, sizeof p.dim);
    return p;
}

static struct frugal_attributes public_attributes(const struct attrs *at)
{
    return (struct frugal_attributes){ at->i0, at->f0 };
}

static enum status user_shape(struct sig *s, struct err *err)
{
    const struct frugal_op  *op = &user_ops[s->op - OP_COUNT];
    struct frugal_tensor     in[OP_IN_MAX], out[OP_OUT_MAX] = { 0 };
    struct frugal_attributes at = public_attributes(s->at);
    for (i32 i = 0; i < s->in_count; i++) in[i] = public_tensor(s->in[i], NULL);
    if (op->shape(in, out, &at)) return err_set(err, STATUS_USAGE, "the inputs do not fit");
    for (i32 i = 0; i < op->results; i++) {
        if (out[i].rank < 0 || out[i].rank > RANK_MAX || (u32)out[i].dtype >= DT_COUNT)
            return err_set(err, STATUS_USAGE, "its shape rule gave result %d no type", i);
        s->out[i] = type_of((enum dtype)out[i].dtype, shape_of(out[i].rank, out[i].dim));
    }
    return STATUS_OK;
}

static void user_run(const struct call *c)
{
    const struct frugal_op  *op = &user_ops[c->op - OP_COUNT];
    struct frugal_tensor     in[OP_IN_MAX], out[OP_OUT_MAX];
    struct frugal_attributes at = public_attributes(c->at);
    for (i32 i = 0; i < c->in_count; i++) in[i] = public_tensor(c->in[i].type, c->in[i].data);
    for (i32 i = 0; i < op->results; i++) out[i] = public_tensor(c->out[i].type, c->out[i].data);
    op->run(in, out, &at);
}

static void user_grad(struct graph *g, const struct node *n, const i32 *dout, const bool *want,
                      i32 *din)
{
    const struct frugal_op  *op = &user_ops[n->op - OP_COUNT];
    struct frugal_attributes at = public_attributes(&n->at);
    i32                      out[OP_OUT_MAX];
    (void)want;
    for (i32 i = 0; i < op->results; i++) out[i] = n->out + i;
    op->grad((struct frugal_graph *)(void *)g, n->in, out, dout, din, &at);
}

static void tell(char *why, const struct err *err)
{
    if (why) snprintf(why, FRUGAL_TEXT_MAX, "%s", err->text);
}

/* The caller's struct, whose header may be older and lack the last fields, or newer: then what is not known here must
 * be 0. */
static enum status take(void *ours, size_t our_bytes, const void *given, size_t bytes,
                        struct err *err)
{
    const char *more = given;
    for (size_t i = our_bytes; i < bytes; i++)
        if (more[i])
            return err_set(err, STATUS_USAGE,
                           "the program was compiled for a newer libfrugal and uses what %s lacks",
                           FRUGAL_VERSION);
    memcpy(ours, given, MIN(bytes, our_bytes));
    return STATUS_OK;
}

int frugal_op_register_sized(const struct frugal_op *given, size_t bytes, char *why)
{
    struct err       err = { 0 };
    struct frugal_op own = { 0 }, *op = &own;
    i32              id  = -1;
    enum status      st  = take(op, sizeof *op, given, bytes, &err);
    struct op_info   row = { .name        = op->name,
                             .in_min      = op->inputs,
                             .in_max      = op->inputs,
                             .out_count   = op->results,
                             .attrs       = A_i0 | A_f0,
                             .shape       = op->shape ? user_shape : NULL,
                             .dtype_class = CLASS_FP32,
                             .grad        = op->grad ? user_grad : NULL,
                             .batch       = BATCH_ROWS,
                             .run         = op->run ? user_run : NULL };
    if (!st) st = op_register(&row, &id, &err);
    if (!st) user_ops[id - OP_COUNT] = *op;
    tell(why, &err);
    return st ? -1 : 0;
}

/* --- running --------------------------------------------------------------------------------- */

static enum status build_once(struct frugal_run *run, struct graph *g, i64 batch,
                              enum graph_mode mode, struct err *err)
{
    int no = run->build(run->context, (struct frugal_graph *)(void *)g, batch, mode == MODE_TRAIN);
    enum status st = graph_status(g, err);
    if (!st && no) st = err_set(err, STATUS_USAGE, "the build function returned %d", no);
    return st;
}

/* The factor that the loss was multiplied by last, times the batch: 1 for a mean. */
static f64 loss_times_batch(const struct graph *g, i64 batch)
{
    i32 loss = graph_find(g, STR("loss")), node = loss < 0 ? -1 : g->values[loss].node;
    return node >= 0 && g->nodes[node].op == OP_SCALE ? g->nodes[node].at.mul * (f64)batch : NAN;
}

/* A mean would be divided again, by the rows of the step: gradients too small by a batch, and no
 * longer those of the large batch when several make a step. Half a sum may be meant, so that a mean
 * is one only if its factor follows the batch. */
static enum status build_public(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                                struct err *err)
{
    enum status st = build_once(context, g, batch, mode, err);
    if (st || batch < 2 || !(fabs(loss_times_batch(g, batch) - 1) < 1e-6)) return st;
    struct graph *twice = graph_new(g->perm, g->name);
    st                  = build_once(context, twice, 2 * batch, mode, err);
    if (st || !(fabs(loss_times_batch(twice, 2 * batch) - 1) < 1e-6)) return st;
    return err_set(err, STATUS_USAGE,
                   "the loss is a mean over the batch: give the sum of the rows' losses, which "
                   "frugal_step divides by the rows");
}

static f64 or_usual(f64 value, f64 usual) { return value != 0 ? value : usual; }

static void settings_of(struct frugal_run *run, const struct frugal_config *c)
{
    struct train_config *t = &run->settings.train;
    t->seed                = c->seed;
    t->optimiser           = str_copy(&run->perm, str_of(c->optimiser ? c->optimiser : "adamw"));
    t->beta1               = or_usual(c->beta1, 0.9);
    t->beta2               = or_usual(c->beta2, 0.999);
    t->eps                 = or_usual(c->eps, 1e-8);
    t->momentum            = c->momentum;
    t->decay               = c->decay;
    t->clip                = c->clip;
    t->lr                  = c->lr;
    t->muon_lr             = or_usual(c->muon_lr, 0.02);
    if (c->init) t->init = str_copy(&run->perm, str_of(c->init));
    if (c->freeze) t->freeze = str_copy(&run->perm, str_of(c->freeze));
    t->batch      = c->batch;
    t->eval_batch = c->eval_batch;
    t->threads    = c->threads;
    run->lr       = c->lr;
}

struct frugal_run *frugal_start_sized(const struct frugal_config *given, size_t bytes,
                                      frugal_build_fn *build, void *context, char *why)
{
    struct err           err = { 0 };
    struct frugal_config own = { 0 }, *config = &own;
    enum status          st   = take(config, sizeof *config, given, bytes, &err);
    struct arena         perm = st ? (struct arena){ 0 } : arena_open(API_RESERVE_BYTES);
    if (!st && !perm.begin)
        st = err_set(&err, STATUS_WORLD, "the system refuses to reserve address space");
    if (st) {
        tell(why, &err);
        return NULL;
    }
    struct frugal_run *run = NEW(&perm, struct frugal_run, 1);
    run->perm              = perm;
    run->build             = build;
    run->context           = context;
    settings_of(run, config);
    if (config->batch < 1 || config->eval_batch < 0 || config->threads < 0)
        st = err_set(&err, STATUS_USAGE,
                     "batch must be at least 1, eval_batch and threads at least 0");
    if (!st)
        st = session_build(&run->s, os_real(), &run->settings, &run->perm, build_public, run, &err);
    if (!st) st = session_start(&run->s, &err);
    if (!st) return run;
    tell(why, &err);
    frugal_stop(run);
    return NULL;
}

static const struct persistent *named(const struct frugal_run *run, const char *name, size_t bytes)
{
    const struct persistent *t = program_set_find(run->s.set, str_of(name));
    return t && bytes <= (size_t)type_bytes(t->type) ? t : NULL;
}

int frugal_put(struct frugal_run *run, const char *name, const void *from, size_t bytes)
{
    const struct persistent *t = named(run, name, bytes);
    if (t) session_put(&run->s, t->name, from, (i64)bytes);
    return t ? 0 : -1;
}

int frugal_get(struct frugal_run *run, const char *name, void *to, size_t bytes)
{
    const struct persistent *t = named(run, name, bytes);
    if (t) session_get(&run->s, t->name, to, (i64)bytes);
    return t ? 0 : -1;
}

static f64 mean_loss(struct frugal_run *run, i64 rows)
{
    f64 sum;
    session_get_numbers(&run->s, STR("loss"), &sum, 1);
    return sum / (f64)rows;
}

double frugal_step(struct frugal_run *run, int64_t rows)
{
    struct session *s = &run->s;
    session_renew_copies(s);
    session_put_scalars(s, run->step++, rows, 0, run->lr);
    s->backend->table->run(s->backend, s->set->programs[PROGRAM_TRAIN]);
    s->backend->table->run(s->backend, s->set->programs[PROGRAM_UPDATE]);
    return mean_loss(run, rows);
}

double frugal_evaluate(struct frugal_run *run, int64_t rows)
{
    struct session *s = &run->s;
    if (!s->set->programs[PROGRAM_EVAL]) return NAN;
    s->backend->table->run(s->backend, s->set->programs[PROGRAM_EVAL]);
    return mean_loss(run, rows);
}

void frugal_set_lr(struct frugal_run *run, double lr) { run->lr = lr; }

int frugal_save(struct frugal_run *run, const char *path, char *why)
{
    struct err  err = { 0 };
    enum status st  = weights_save(&run->s, WEIGHTS_VALUES, str_of(path), &err);
    tell(why, &err);
    return st ? -1 : 0;
}

int64_t frugal_memory_bytes(const struct frugal_run *run) { return run->s.set->arena_bytes; }

void frugal_stop(struct frugal_run *run)
{
    struct arena perm = run->perm; /* holds `run` itself */
    if (session_close(&run->s)) arena_close(&perm);
}
