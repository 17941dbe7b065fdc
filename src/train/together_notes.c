/* together_notes.c - what several ranks do otherwise than one would expect, for whoever starts them. */
#include "train/train_int.h"

/* Which weights train.shard=all does not shard, and why; empty: there are none. */
static struct str whole_text(const struct session *s, struct arena *perm)
{
    static const char *const why[] = {
        "frozen", "in tables updated row by row (train.tables=dense shards them)",
        "in matrices of muon (train.optimiser=adamw shards them)"
    };
    i64            count[COUNT_OF(why)] = { 0 };
    struct textbuf b                    = textbuf_new(perm);
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t = &s->set->persistents[i];
        if (t->kind != VALUE_PARAM || t->dealt) continue;
        count[t->frozen ? 0 : t->sparse_rows ? 1 : 2] += shape_count(t->type.shape);
    }
    for (i64 i = 0; i < COUNT_OF(why); i++)
        if (count[i]) textbuf_fmt(&b, "%s%lld %s", b.len ? ", " : "", (long long)count[i], why[i]);
    return textbuf_str(&b);
}

static void note(struct session *s, struct str text)
{
    s->note =
        str_fmt(s->perm, "%.*s%s%.*s", STR_ARG(s->note), s->note.len ? "; " : "", STR_ARG(text));
}

void together_notes(struct session *s)
{
    struct str whole = session_deals(s) ? whole_text(s, s->perm) : STR("");
    bool       norms = false;
    for (i32 i = 0; i < s->set->persistent_count; i++)
        norms |= s->set->persistents[i].kind == VALUE_BUFFER;
    if (whole.len)
        note(s, str_fmt(s->perm,
                        "train.shard=all keeps some of %lld weights whole on every rank: %.*s",
                        (long long)weights_count(s, false), STR_ARG(whole)));
    if (s->ranks && s->config.shard && s->config.places == 1 && s->ranks->count > 1)
        note(s,
             str_fmt(s->perm,
                     "train.shard_over=machine shards nothing: every machine has one rank, which "
                     "holds a copy"));
    if (s->ranks && norms)
        note(s, str_fmt(s->perm,
                        "batch norms use the statistics of each rank's part of a batch (%lld of "
                        "%lld samples), and evaluation those of the last rank",
                        (long long)s->config.batch, (long long)s->batch_all));
}
