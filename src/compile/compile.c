/* compile.c - the list of passes, and the set of programs they yield. */
#include "compile/compile.h"
#include "compile/compile_int.h"

struct pass {
    const char *name;
    bool        train_only;
    enum status (*run)(struct graph *g, const struct compile_config *c, struct arena scratch,
                       struct err *err);
};

/* Marks parameters whose name matches the glob as frozen; a glob that matches none is an error. */
static enum status pass_freeze(struct graph *g, const struct compile_config *c,
                               struct arena scratch, struct err *err)
{
    bool any = false;
    (void)scratch;
    if (!c->freeze.len) return STATUS_OK;
    for (i32 i = 0; i < g->value_count; i++) {
        struct value *v = &g->values[i];
        if (v->kind == VALUE_PARAM && str_glob(c->freeze, v->name)) any = v->frozen = true;
    }
    if (any) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "train.freeze=%.*s matches no parameter", STR_ARG(c->freeze));
}

static enum status pass_differentiate(struct graph *g, const struct compile_config *c,
                                      struct arena scratch, struct err *err)
{
    (void)c;
    return differentiate(g, scratch, err);
}

static enum status pass_remove_dead(struct graph *g, const struct compile_config *c,
                                    struct arena scratch, struct err *err)
{
    (void)c;
    (void)err;
    remove_dead(g, scratch);
    return STATUS_OK;
}

static enum status pass_hidden(struct graph *g, const struct compile_config *c,
                               struct arena scratch, struct err *err)
{
    (void)err;
    if (c->optimiser == OPTIMISER_MUON) mark_hidden(g, scratch);
    return STATUS_OK;
}

/* In order. Sharding will follow differentiation; recomputation and fusion follow precision. */
static const struct pass passes[] = {
    { "freeze", false, pass_freeze },
    { "hidden", true, pass_hidden },
    { "differentiate", true, pass_differentiate },
    { "remove_dead", false, pass_remove_dead },
    { "precision", false, assign_precision },
};

static enum status run_passes(struct graph *g, enum graph_mode mode, const struct compile_config *c,
                              struct arena scratch, struct err *err)
{
    enum status st = graph_verify(g, scratch, err);
    for (i64 i = 0; !st && i < COUNT_OF(passes); i++) {
        if (passes[i].train_only && mode != MODE_TRAIN) continue;
        struct err why;
        st = passes[i].run(g, c, scratch, err);
        if (!st && graph_verify(g, scratch, &why)) /* our own fault, so it says whose */
            st = err_set(err, STATUS_WORLD, "after %s: %s", passes[i].name, why.text);
    }
    return st;
}

static const struct {
    const char     *name;
    enum graph_mode mode;
} kinds[PROGRAM_COUNT] = {
    [PROGRAM_TRAIN]      = { "train", MODE_TRAIN },
    [PROGRAM_TRAIN_LAST] = { "train_last", MODE_TRAIN },
    [PROGRAM_ADD]        = { "train_add", MODE_TRAIN },
    [PROGRAM_ADD_LAST]   = { "train_add_last", MODE_TRAIN },
    [PROGRAM_UPDATE]     = { "update", MODE_TRAIN },
    [PROGRAM_SQUARE]     = { "square", MODE_TRAIN },
    [PROGRAM_EVAL]       = { "eval", MODE_EVAL },
    [PROGRAM_EVAL_LAST]  = { "eval_last", MODE_EVAL },
};

static i64 batch_of(const struct compile_config *c, enum program_id id)
{
    switch (id) {
    case PROGRAM_TRAIN: return c->batch;
    case PROGRAM_TRAIN_LAST: return c->batch_last;
    case PROGRAM_ADD: return c->accumulate > 1 ? c->batch : 0;
    case PROGRAM_ADD_LAST: return c->accumulate > 1 ? c->batch_last : 0;
    case PROGRAM_EVAL: return c->eval_batch;
    case PROGRAM_EVAL_LAST: return c->eval_batch_last;
    default: return 0;
    }
}

enum status compile(struct arena *perm, const struct target *target,
                    const struct compile_config *config, graph_builder *build, void *context,
                    struct program_set **out, struct arena scratch, struct err *err)
{
    struct graph       *graphs[PROGRAM_COUNT] = { 0 };
    struct program_set *set                   = NEW(perm, struct program_set, 1);
    enum status         st                    = STATUS_OK;
    for (i32 id = 0; !st && id < PROGRAM_COUNT; id++) {
        i64 batch = batch_of(config, (enum program_id)id);
        if (batch <= 0) continue;
        graphs[id] = graph_new(perm, str_of(kinds[id].name));
        st         = build(context, graphs[id], batch, kinds[id].mode, err);
        if (!st) st = run_passes(graphs[id], kinds[id].mode, config, scratch, err);
        if (!st && config->fp8 && kinds[id].mode == MODE_TRAIN)
            st = narrow_products(graphs[id], config->fp8, target, scratch, err);
        if (!st && (id == PROGRAM_ADD || id == PROGRAM_ADD_LAST))
            st = add_gradients(graphs[id], err);
    }
    struct graph *train =
        graphs[PROGRAM_TRAIN] ? graphs[PROGRAM_TRAIN] : graphs[PROGRAM_TRAIN_LAST];
    if (!st && train) {
        graphs[PROGRAM_UPDATE] = graph_new(perm, str_of(kinds[PROGRAM_UPDATE].name));
        st = build_update(graphs[PROGRAM_UPDATE], config, train, target->align_bytes, err);
        if (!st) st = graph_verify(graphs[PROGRAM_UPDATE], scratch, err);
    }
    if (!st && train && config->square) {
        graphs[PROGRAM_SQUARE] = graph_new(perm, str_of(kinds[PROGRAM_SQUARE].name));
        st = build_square(graphs[PROGRAM_SQUARE], train, target->align_bytes, err);
    }
    struct plan *plan = NULL;
    if (!st) st = lay_out_persistents(perm, target, graphs, set, &plan, err);
    for (i32 id = PROGRAM_TRAIN; !st && id <= PROGRAM_ADD_LAST; id++) {
        if (!graphs[id]) continue;
        st = recompute(graphs[id], config, target, plan, scratch, err);
        if (!st) st = graph_verify(graphs[id], scratch, err);
    }
    for (i32 id = 0; !st && id < PROGRAM_COUNT; id++) {
        if (graphs[id]) fuse(graphs[id], config->fuse, target, scratch);
        if (graphs[id]) st = graph_verify(graphs[id], scratch, err);
    }
    if (!st) st = lay_out_programs(perm, target, graphs, plan, scratch, err);
    *out = set;
    return st;
}
