/* together_notes.c - what several ranks do otherwise than one would expect, for whoever starts them. */
#include "base/pool.h"
#include "train/train_int.h"
#include <unistd.h>

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

/* Open MPI binds each rank to one core where there are one or two ranks, and else to a NUMA node. Its launcher is the
 * process above this one, and is not bound. */
static void note_bound(struct session *s)
{
    struct pool_cores own, launcher;
    if (!s->os->env(s->os, "OMPI_COMM_WORLD_SIZE").len) return;
    pool_cores_of(0, &own);
    pool_cores_of(getppid(), &launcher);
    i64 ranks = s->ranks ? s->ranks->locals : 1, asked = s->settings->train.threads;
    i64 bound = s->ranks ? s->ranks->cores_any : pool_cores_count(&own);
    i64 all   = MIN(pool_cores_count(&launcher), pool_machine_quota());
    if (bound >= all || (asked && bound >= asked * ranks)) return;
    note(s, str_fmt(s->perm,
                    "mpirun binds the ranks of this machine (%lld) to %lld of its %lld cores: "
                    "mpirun --bind-to none lets them use all",
                    (long long)ranks, (long long)bound, (long long)all));
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
    if (!s->ranks || !s->ranks->shown) note_bound(s);
    if (s->ranks && norms)
        note(s, str_fmt(s->perm,
                        "batch norms use the statistics of each rank's part of a batch (%lld of "
                        "%lld samples), and evaluation those of the last rank",
                        (long long)s->config.batch, (long long)s->batch_all));
}
