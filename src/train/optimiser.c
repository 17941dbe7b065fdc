/* optimiser.c - train.optimiser as it is meant for the model at hand: auto takes Muon where the
 * products of Newton and Schulz are a small part of a step.
 *
 * They cost the same whatever the batch, so a step of few tokens pays dearly for them and a step of
 * many hardly at all. The part is that of FLOPs by the cost rules, not of seconds measured: the same
 * run file then makes the same run on every machine. */
#include "train/dealt.h"

static const struct {
    const char         *name;
    enum optimiser_kind kind;
} kinds[] = { { "sgd", OPTIMISER_SGD },
              { "adam", OPTIMISER_ADAM },
              { "adamw", OPTIMISER_ADAMW },
              { "muon", OPTIMISER_MUON } };

enum optimiser_kind optimiser_of(struct str name)
{
    if (str_eq(name, STR("auto"))) return OPTIMISER_MUON; /* until optimiser_resolve */
    for (i32 i = 0; i < COUNT_OF(kinds); i++)
        if (str_eq(name, str_of(kinds[i].name))) return kinds[i].kind;
    return OPTIMISER_ADAMW;
}

enum tables_kind tables_of(struct str word)
{
    static const char *const words[] = { [TABLES_AUTO]    = "auto",
                                         [TABLES_DENSE]   = "dense",
                                         [TABLES_SGD]     = "sgd",
                                         [TABLES_ADAGRAD] = "adagrad",
                                         [TABLES_ADAM]    = "adam" };
    for (i64 i = 0; i < COUNT_OF(words); i++)
        if (str_eq(word, str_of(words[i]))) return (enum tables_kind)i;
    return TABLES_AUTO;
}

struct str optimiser_name(enum optimiser_kind kind)
{
    for (i32 i = 0; i < COUNT_OF(kinds); i++)
        if (kinds[i].kind == kind) return str_of(kinds[i].name);
    return STR("");
}

static const f64 share_max =
    0.4; /* of a step's work that auto lets muon be: docs/decisions/recipes.md */

/* Of all hidden matrices. */
static f64 muon_flops(const struct session *s)
{
    struct type  out[OP_OUT_MAX] = { 0 };
    struct attrs at              = { 0 };
    f64          flops           = 0;
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *p = &s->set->persistents[i];
        if (p->kind == VALUE_PARAM && p->hidden && !p->frozen)
            flops += op_cost(&(struct sig){ &p->type, 1, out, &at, OP_MUON }).flops;
    }
    return flops;
}

f64 muon_share(f64 update_flops, f64 batch_flops, i64 accumulate)
{
    return update_flops / (update_flops + batch_flops * (f64)accumulate);
}

/* The least power of two of batches a step that brings it below the limit. */
static i64 accumulate_for(f64 update_flops, f64 batch_flops, f64 limit)
{
    i64 count = 1;
    while (count < 1 << 20 && muon_share(update_flops, batch_flops, count) > limit) count *= 2;
    return count;
}

enum status optimiser_resolve(struct session *s, struct err *err)
{
    const struct train_config *t     = &s->settings->train;
    const struct program      *u     = s->set->programs[PROGRAM_UPDATE];
    bool                       asked = str_eq(t->optimiser, STR("muon"));
    s->muon_share                    = 0;
    if (s->config.optimiser != OPTIMISER_MUON || !u || s->settings->optimiser_chosen.len)
        return STATUS_OK;
    f64 whole = muon_flops(s);
    if (whole <= 0) {
        s->optimiser_reason = STR("the model has no hidden matrix for muon");
        if (!asked) return s->config.optimiser = OPTIMISER_ADAMW, STATUS_OK;
        return err_set(err, STATUS_USAGE,
                       "train.optimiser=muon needs hidden matrices, and this model "
                       "trains none: use train.optimiser=adamw");
    }
    f64 update = session_flops(s, PROGRAM_UPDATE);
    f64 batch  = MAX(session_flops(s, PROGRAM_TRAIN), session_flops(s, PROGRAM_TRAIN_LAST));
    if (session_shards(s)) update = whole / s->config.places;
    if (s->ranks) /* the same on all ranks, whichever matrices and samples are theirs */
        batch = session_flops(s, PROGRAM_TRAIN) * (f64)s->batch_all /
                (f64)(s->config.batch * s->ranks->count);
    i64 count = MAX(s->config.accumulate, 1), more = accumulate_for(update, batch, share_max);
    s->muon_share = muon_share(update, batch, count);
    if (asked || s->muon_share <= share_max) {
        s->optimiser_reason =
            str_fmt(s->perm, "Newton-Schulz is %.1f %% of a step's work", 100 * s->muon_share);
        return STATUS_OK;
    }
    s->optimiser_reason =
        str_fmt(s->perm,
                "muon would be %.1f %% of a step's work, more than %.0f %%; with train.batch=%lld "
                "it is %.1f %%",
                100 * s->muon_share, 100 * share_max, (long long)(more * session_batch_all(s)),
                100 * muon_share(update, batch, more));
    s->config.optimiser = OPTIMISER_ADAMW;
    return STATUS_OK;
}
