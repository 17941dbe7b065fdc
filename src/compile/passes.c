/* passes.c - the list of passes: all that is done to a graph on its way to a program, in order.
 *
 * Each row says which programs it is for, when it applies, and what must hold afterwards (rules.c),
 * which is checked beside graph_verify in every build. */
#include "compile/compile_int.h"

enum {
#define OF(id) (1u << PROGRAM_##id)
    GRADIENTS = OF(TRAIN) | OF(TRAIN_LAST) | OF(ADD) | OF(ADD_LAST),
    BATCHES   = GRADIENTS | OF(EVAL) | OF(EVAL_LAST),
    LATER     = OF(ADD) | OF(ADD_LAST), /* micro-batches */
    UPDATE    = OF(UPDATE),
    SQUARE    = OF(SQUARE),
    ALL       = BATCHES | UPDATE | SQUARE,
#undef OF
};

static enum status pass_build(struct graph *g, const struct pass_input *in, struct arena scratch,
                              struct err *err)
{
    bool        trains = GRADIENTS >> in->id & 1;
    enum status st     = in->build(in->context, g, in->batch, trains ? MODE_TRAIN : MODE_EVAL, err);
    (void)scratch;
    return st ? st : graph_status(g, err);
}

static bool freezes(const struct pass_input *in) { return in->config->freeze.len > 0; }

/* Parameters whose name matches the glob; one that matches none is an error. */
static enum status pass_freeze(struct graph *g, const struct pass_input *in, struct arena scratch,
                               struct err *err)
{
    struct str glob = in->config->freeze;
    bool       any  = false;
    (void)scratch;
    for (i32 i = 0; i < g->value_count; i++) {
        struct value *v = &g->values[i];
        if (v->kind == VALUE_PARAM && str_glob(glob, v->name)) any = v->frozen = true;
    }
    if (any) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "train.freeze=%.*s matches no parameter; `frugal show RUN.YAML train.freeze= "
                   "--text` lists them",
                   STR_ARG(glob));
}

static bool has_muon(const struct pass_input *in)
{
    return in->config->optimiser == OPTIMISER_MUON;
}

static enum status pass_hidden(struct graph *g, const struct pass_input *in, struct arena scratch,
                               struct err *err)
{
    (void)in, (void)err;
    mark_hidden(g, scratch);
    return STATUS_OK;
}

static bool has_rows(const struct pass_input *in) { return in->config->tables != TABLES_DENSE; }

static enum status pass_tables(struct graph *g, const struct pass_input *in, struct arena scratch,
                               struct err *err)
{
    (void)scratch, (void)err;
    mark_tables(g, in->config);
    return STATUS_OK;
}

static enum status pass_differentiate(struct graph *g, const struct pass_input *in,
                                      struct arena scratch, struct err *err)
{
    (void)in;
    return differentiate(g, scratch, err);
}

static enum status pass_remove_dead(struct graph *g, const struct pass_input *in,
                                    struct arena scratch, struct err *err)
{
    (void)in, (void)err;
    remove_dead(g, scratch);
    return STATUS_OK;
}

static bool is_low(const struct pass_input *in) { return in->config->precision != DT_F32; }

static enum status pass_precision(struct graph *g, const struct pass_input *in,
                                  struct arena scratch, struct err *err)
{
    return assign_precision(g, in->config, scratch, err);
}

static bool has_fp8(const struct pass_input *in) { return in->config->fp8 != FP8_OFF; }

static enum status pass_fp8(struct graph *g, const struct pass_input *in, struct arena scratch,
                            struct err *err)
{
    return narrow_products(g, in, scratch, err);
}

static bool has_copies(const struct pass_input *in) { return in->copies; }

static enum status pass_copies(struct graph *g, const struct pass_input *in, struct arena scratch,
                               struct err *err)
{
    (void)in;
    return read_copies(g, scratch, err);
}

static enum status pass_accumulate(struct graph *g, const struct pass_input *in,
                                   struct arena scratch, struct err *err)
{
    (void)in, (void)scratch;
    return add_gradients(g, err);
}

static bool is_dealt(const struct pass_input *in) { return deals(in->config); }

static enum status pass_deal(struct graph *g, const struct pass_input *in, struct arena scratch,
                             struct err *err)
{
    return deal_out(g, in, scratch, err);
}

static bool has_queue(const struct pass_input *in)
{
    return in->config->ranks > 0 && in->target->queues > 1;
}

static enum status pass_early(struct graph *g, const struct pass_input *in, struct arena scratch,
                              struct err *err)
{
    return sums_early(in, g) ? sum_early(g, in, scratch, err) : STATUS_OK;
}

static bool has_ranks(const struct pass_input *in) { return in->config->ranks > 0; }

static enum status pass_shard(struct graph *g, const struct pass_input *in, struct arena scratch,
                              struct err *err)
{
    (void)scratch;
    return shard_gradients(g, in, err);
}

static enum status pass_update(struct graph *g, const struct pass_input *in, struct arena scratch,
                               struct err *err)
{
    (void)scratch;
    return build_update(g, in->config, in->train, in->target->align_bytes, err);
}

static enum status pass_square(struct graph *g, const struct pass_input *in, struct arena scratch,
                               struct err *err)
{
    (void)scratch;
    return build_square(g, in->train, in->target->align_bytes, err);
}

static bool recomputes(const struct pass_input *in)
{
    return in->config->recompute.kind != RECOMPUTE_NONE || in->config->frozen_low ||
           deals(in->config);
}

static enum status pass_recompute(struct graph *g, const struct pass_input *in,
                                  struct arena scratch, struct err *err)
{
    struct parts own = { { g }, 1 };
    enum status  st  = in->decided ? STATUS_OK : choose_dropped(&own, in, in->drop, scratch, err);
    if (!st) drop_values(g, in->drop, scratch);
    return st;
}

static enum status pass_ahead(struct graph *g, const struct pass_input *in, struct arena scratch,
                              struct err *err)
{
    (void)in, (void)err;
    gather_ahead(g, scratch);
    return STATUS_OK;
}

static enum status pass_fuse(struct graph *g, const struct pass_input *in, struct arena scratch,
                             struct err *err)
{
    (void)err;
    fuse(g, in->config->fuse, in->target, scratch);
    return STATUS_OK;
}

static const struct pass passes[] = {
    { "build", BATCHES, STAGE_GRAPH, NULL, pass_build, rule_build },
    { "freeze", BATCHES, STAGE_GRAPH, freezes, pass_freeze, rule_freeze },
    { "hidden", GRADIENTS, STAGE_GRAPH, has_muon, pass_hidden, rule_hidden },
    { "tables", GRADIENTS, STAGE_GRAPH, has_rows, pass_tables, rule_tables },
    { "differentiate", GRADIENTS, STAGE_GRAPH, NULL, pass_differentiate, rule_differentiate },
    { "remove_dead", BATCHES, STAGE_GRAPH, NULL, pass_remove_dead, rule_remove_dead },
    { "precision", BATCHES, STAGE_GRAPH, is_low, pass_precision, rule_precision },
    { "fp8", GRADIENTS, STAGE_GRAPH, has_fp8, pass_fp8, rule_fp8 },
    { "copies", GRADIENTS, STAGE_GRAPH, has_copies, pass_copies, rule_copies },
    { "deal", BATCHES, STAGE_GRAPH, is_dealt, pass_deal, rule_deal },
    { "early", GRADIENTS, STAGE_GRAPH, has_queue, pass_early, rule_early },
    { "accumulate", LATER, STAGE_GRAPH, NULL, pass_accumulate, rule_accumulate },
    { "shard", UPDATE, STAGE_GRAPH, has_ranks, pass_shard, rule_shard },
    { "update", UPDATE, STAGE_GRAPH, NULL, pass_update, rule_update },
    { "square", SQUARE, STAGE_GRAPH, NULL, pass_square, rule_square },
    { "recompute", GRADIENTS, STAGE_PLACED, recomputes, pass_recompute, rule_recompute },
    { "ahead", BATCHES, STAGE_PLACED, gathers_ahead, pass_ahead, rule_ahead },
    { "fuse", ALL, STAGE_PLACED, NULL, pass_fuse, rule_fuse },
};
_Static_assert(sizeof passes / sizeof *passes <= PASSES_MAX, "PASSES_MAX is too small");

const struct pass *pass_at(i32 index)
{
    return index < (i32)COUNT_OF(passes) ? &passes[index] : NULL;
}

bool pass_applies(const struct pass *p, const struct pass_input *in)
{
    return (p->programs >> in->id & 1) && (!p->applies || p->applies(in));
}

static void keep_text(struct pass_list *texts, const struct graph *g, const struct pass *p,
                      const struct pass_input *in)
{
    ASSERT(texts->count < PROGRAM_COUNT * PASSES_MAX);
    texts->items[texts->count++] = (struct pass_text){ .program = in->id,
                                                       .pass    = str_of(p->name),
                                                       .nodes   = g->node_count,
                                                       .text    = graph_print(g, g->perm) };
}

enum status run_passes(struct graph *g, enum pass_stage stage, const struct pass_input *in,
                       struct pass_list *texts, struct arena scratch, struct err *err)
{
    enum status st = STATUS_OK;
    for (i32 i = 0; !st && i < (i32)COUNT_OF(passes); i++) {
        const struct pass *p = &passes[i];
        struct err         why;
        if (p->stage != stage || !pass_applies(p, in)) continue;
        st = p->run(g, in, scratch, err);
        if (st) break;
        if (graph_verify(g, scratch, &why) || p->holds(g, in, scratch, &why))
            st = err_set(err, STATUS_WORLD, "after %s: %s", p->name, why.text); /* our own fault */
        else if (texts) keep_text(texts, g, p, in);
    }
    return st;
}
