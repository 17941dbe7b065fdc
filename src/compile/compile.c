/* compile.c - the set of programs that the passes (passes.c) yield. */
#include "compile/compile_int.h"

static const char *const names[PROGRAM_COUNT] = {
    [PROGRAM_TRAIN] = "train",   [PROGRAM_TRAIN_LAST] = "train_last",
    [PROGRAM_ADD] = "train_add", [PROGRAM_ADD_LAST] = "train_add_last",
    [PROGRAM_UPDATE] = "update", [PROGRAM_SQUARE] = "square",
    [PROGRAM_EVAL] = "eval",     [PROGRAM_EVAL_LAST] = "eval_last",
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

struct maker { /* what later programs of fewer rows are made of */
    struct target         target;
    struct compile_config config;
    graph_builder        *build;
    void                 *context;
    struct plan          *plan;
    bool                  copies;  /* of weights */
    bool                  dropped; /* something is recomputed */
    bool *drop[PROGRAM_COUNT];     /* by value: recomputed in the largest; NULL: no such program */
};

static struct pass_input input_of(const struct maker *m, enum program_id id)
{
    return (struct pass_input){ .config  = &m->config,
                                .target  = &m->target,
                                .id      = id,
                                .build   = m->build,
                                .context = m->context,
                                .batch   = batch_of(&m->config, id),
                                .plan    = m->plan,
                                .copies  = m->copies,
                                .drop    = m->drop[id] };
}

static bool is_wanted(const struct compile_config *c, enum program_id id, const struct graph *train)
{
    if (id == PROGRAM_UPDATE) return train;
    if (id == PROGRAM_SQUARE) return train && c->square;
    return batch_of(c, id) > 0;
}

/* As far as persistents can be seen in it. */
static enum status make_graph(struct arena *perm, const struct maker *m, enum program_id id,
                              i64 rows, const struct graph *train, struct pass_list *texts,
                              struct graph **out, struct arena scratch, struct err *err)
{
    struct pass_input in = input_of(m, id);
    *out                 = graph_new(perm, str_of(names[id]));
    (*out)->rows         = rows;
    in.train             = train;
    return run_passes(*out, STAGE_GRAPH, &in, texts, scratch, err);
}

static enum status make_graphs(struct arena *perm, struct maker *m, struct graph **graphs,
                               struct pass_list *texts, struct arena scratch, struct err *err)
{
    const struct graph *train = NULL;
    enum status         st    = STATUS_OK;
    for (enum program_id id = 0; !st && id < PROGRAM_COUNT; id++) {
        if (!is_wanted(&m->config, id, train)) continue;
        st = make_graph(perm, m, id, 0, train, texts, &graphs[id], scratch, err);
        if (!train && id <= PROGRAM_TRAIN_LAST) train = graphs[id];
    }
    return st;
}

/* With a place for what persists; `drop` keeps what the passes decide to recompute. */
static enum status finish_graphs(struct arena *perm, struct maker *m, struct graph **graphs,
                                 struct pass_list *texts, struct arena scratch, struct err *err)
{
    enum status st = STATUS_OK;
    for (enum program_id id = 0; !st && id < PROGRAM_COUNT; id++) {
        if (!graphs[id]) continue;
        i32 count            = graphs[id]->value_count;
        m->drop[id]          = NEW(perm, bool, count + 1);
        struct pass_input in = input_of(m, id);
        st                   = run_passes(graphs[id], STAGE_PLACED, &in, texts, scratch, err);
        for (i32 v = 0; v < count; v++) m->dropped |= m->drop[id][v];
    }
    return st;
}

static enum status compile_with(struct arena *perm, const struct target *target,
                                const struct compile_config *config, graph_builder *build,
                                void *context, bool copies, struct program_set **out,
                                struct arena scratch, struct err *err)
{
    struct graph       *graphs[PROGRAM_COUNT] = { 0 };
    struct program_set *set                   = NEW(perm, struct program_set, 1);
    struct maker       *m                     = NEW(perm, struct maker, 1);
    struct pass_list   *texts                 = config->keep_passes ? &set->passes : NULL;
    *m             = (struct maker){ *target, *config, build, context, NULL, copies, false, { 0 } };
    set->maker     = m;
    set->row_share = config->row_share;
    if (texts) texts->items = NEW(perm, struct pass_text, PROGRAM_COUNT * PASSES_MAX);
    enum status st = make_graphs(perm, m, graphs, texts, scratch, err);
    if (!st) st = lay_out_persistents(perm, target, config, graphs, set, &m->plan, err);
    if (!st) st = finish_graphs(perm, m, graphs, texts, scratch, err);
    if (!st) st = lay_out_programs(perm, target, graphs, m->plan, scratch, err);
    *out = set;
    return st;
}

/* Without copies of weights where memory is short: a cast can be made again. */
enum status compile(struct arena *perm, const struct target *target,
                    const struct compile_config *config, graph_builder *build, void *context,
                    struct program_set **out, struct arena scratch, struct err *err)
{
    if (may_keep_copies(config, target)) {
        struct err  why;
        enum status st =
            compile_with(perm, target, config, build, context, true, out, scratch, &why);
        if (!st && !(*out)->maker->dropped) return STATUS_OK;
    }
    return compile_with(perm, target, config, build, context, false, out, scratch, err);
}

/* --- fewer rows --- */

/* As the largest was made: what it computes again, this one does too, so that a profile may add them up. */
enum status compile_rows(struct arena *perm, const struct program_set *set, enum program_id id,
                         i64 rows, struct program **out, struct arena scratch, struct err *err)
{
    const struct maker *m = set->maker;
    struct graph       *g;
    enum status         st = make_graph(perm, m, id, rows, NULL, NULL, &g, scratch, err);
    struct pass_input   in = input_of(m, id);
    in.decided             = true;
    if (!st) st = run_passes(g, STAGE_PLACED, &in, NULL, scratch, err);
    return st ? st : lay_out_program(perm, &m->target, g, m->plan, out, scratch, err);
}

enum status compile_holding(struct arena *perm, struct program_set *set, enum program_id id,
                            i64 rows, struct program **out, struct arena scratch, struct err *err)
{
    struct program *all = set->programs[id], *p = NULL;
    struct program *made = all->rows ? program_holding(all, rows) : all;
    *out                 = made ? made : all;
    if (made || set->maker->config.fp8) return STATUS_OK;
    i64         capacity = program_capacity(all, rows);
    enum status st       = compile_rows(perm, set, id, capacity, &p, scratch, err);
    if (st) return st;
    if (p->bytes > set->arena_bytes || p->instr_count != all->instr_count) {
        *p      = *all;
        p->rows = capacity;
    }
    struct program *before = all; /* the list falls */
    while (before->smaller && before->smaller->rows > capacity) before = before->smaller;
    p->smaller      = before->smaller;
    before->smaller = p;
    *out            = p;
    return STATUS_OK;
}
