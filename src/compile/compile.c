/* compile.c - the set of programs that the passes (passes.c) yield. */
#include "base/hash.h"
#include "compile/compile_int.h"
#include <string.h>

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
    i32   values[PROGRAM_COUNT];   /* that drop is about */
    u64   form[PROGRAM_COUNT];     /* form_of that graph */
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

/* --- what several ranks recompute --- */

/* Ranks that gather each other's weights run the same programs, in which other values that run again would be other
 * gathers in another order. So one of them chooses for all, for the largest and the smallest part of a batch, and its
 * choice is by value: which node makes a value, and what that reads, is the same for any number of samples. */

/* Which op makes what of what, sizes aside. */
static u64 form_of(const struct graph *g)
{
    struct xxh64 h;
    xxh64_init(&h);
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n      = &g->nodes[i];
        i32                own[3] = { n->op, n->out, n->block };
        xxh64_add(&h, (struct str){ (const char *)own, sizeof own });
        xxh64_add(&h, (struct str){ (const char *)n->in, n->in_count * (i64)sizeof *n->in });
    }
    return xxh64_end(&h);
}

static bool ranks_choose(const struct compile_config *c, enum program_id id)
{
    return deals(c) && c->recompute.kind == RECOMPUTE_AUTO && id <= PROGRAM_ADD_LAST;
}

i64 part_samples(const struct compile_config *c, enum program_id id, bool largest)
{
    bool last = id == PROGRAM_TRAIN_LAST || id == PROGRAM_ADD_LAST;
    i64  all  = last ? c->batch_last_all : c->batch_all;
    return all ? MAX((all + (largest ? c->ranks - 1 : 0)) / c->ranks, 1) : batch_of(c, id);
}

static enum status choose_for_ranks(const struct maker *m, enum program_id id,
                                    const struct graph *own, struct arena scratch, struct err *err)
{
    const struct compile_config *c     = &m->config;
    struct parts                 parts = { .count = 0 };
    struct arena                 room  = arena_part(&scratch, (scratch.end - scratch.begin) / 4);
    enum status                  st    = STATUS_OK;
    for (i32 i = 0; !st && i < 2; i++) {
        struct pass_input in = input_of(m, id);
        struct graph     *g;
        in.batch = part_samples(c, id, i == 0);
        if (i && in.batch == part_samples(c, id, true)) break;
        parts.graphs[parts.count++] = own;
        if (in.batch == batch_of(c, id)) continue;
        parts.graphs[parts.count - 1] = g = graph_new(&room, own->name);
        st                                = run_passes(g, STAGE_GRAPH, &in, NULL, scratch, err);
        if (!st && form_of(g) != form_of(own))
            st = err_set(err, STATUS_WORLD, "parts of %lld and %lld samples are other programs",
                         (long long)in.batch, (long long)batch_of(c, id)); /* our own fault */
    }
    struct pass_input in = input_of(m, id);
    return st ? st : choose_dropped(&parts, &in, m->drop[id], scratch, err);
}

struct chosen { /* of a program, in bytes that another rank takes; then comes one byte a value */
    i64 values;
    u64 form;
};

struct str compile_chosen(const struct program_set *set, struct arena *perm)
{
    const struct maker *m     = set->maker;
    i64                 bytes = 0;
    for (i32 id = 0; id < PROGRAM_COUNT; id++) bytes += (i64)sizeof(struct chosen) + m->values[id];
    char *text = NEW(perm, char, bytes), *to = text;
    for (i32 id = 0; id < PROGRAM_COUNT; id++) {
        struct chosen head = { m->values[id], m->form[id] };
        memcpy(to, &head, sizeof head);
        to += sizeof head;
        for (i32 v = 0; v < head.values; v++) *to++ = (char)m->drop[id][v];
    }
    return (struct str){ text, bytes };
}

static enum status take_chosen(struct maker *m, enum program_id id, struct err *err)
{
    struct str    given = m->config.recompute_chosen;
    struct chosen head  = { 0, 0 };
    for (i32 i = 0; i <= (i32)id; i++) {
        given = str_sub(given, i ? head.values : 0, given.len);
        if (given.len < (i64)sizeof head) break;
        memcpy(&head, given.data, sizeof head);
        given = str_sub(given, sizeof head, given.len);
    }
    if (head.values != m->values[id] || head.form != m->form[id] || given.len < head.values)
        return err_set(err, STATUS_USAGE, "rank 0 has another program to recompute values of");
    for (i32 v = 0; v < m->values[id]; v++) m->drop[id][v] = given.data[v] != 0;
    return STATUS_OK;
}

static enum status decide(struct maker *m, enum program_id id, const struct graph *g,
                          struct arena scratch, struct err *err)
{
    m->values[id] = g->value_count;
    m->form[id]   = form_of(g);
    return m->config.recompute_chosen.len ? take_chosen(m, id, err)
                                          : choose_for_ranks(m, id, g, scratch, err);
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
        in.decided           = ranks_choose(&m->config, id);
        if (in.decided) st = decide(m, id, graphs[id], scratch, err);
        if (!st) st = run_passes(graphs[id], STAGE_PLACED, &in, texts, scratch, err);
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
    *m = (struct maker){ .target = *target, .config = *config, .build = build, .context = context };
    m->copies      = copies;
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
