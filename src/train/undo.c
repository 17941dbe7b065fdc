/* undo.c - the copy behind undo.h, and the judgement. */
#include "train/undo.h"
#include "base/digits.h"

static const f64 long_step_s = 0.25; /* one that takes longer may be left */

/* What the next step may take: an epoch's last is short, and a promise rests on the long ones. NaN: none yet. */
static f64 expected_s(const struct undo *u) { return quantiles_at(u->times, 0.95); }

static i64 now_ns(const struct undo *u) { return clock_now(u->s->clock); }

void undo_open(struct undo *u, struct session *s, struct saving *v, const struct quantiles *times)
{
    const struct program_set *set = s->set;
    *u                            = (struct undo){ .s = s, .saving = v, .times = times };
    u->list = NEW(s->perm, struct backend_copy, MAX(set->persistent_count, 1));
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t     = &set->persistents[i];
        i64                      bytes = type_bytes(t->type);
        bool state = t->kind == VALUE_PARAM || t->kind == VALUE_BUFFER || t->kind == VALUE_STATE;
        if (!state || !gradients_change(s, t->offset, t->offset + bytes)) continue;
        u->list[u->count++] = (struct backend_copy){ t->offset, NEW(s->perm, u8, bytes), bytes };
    }
}

void undo_begin(struct undo *u, const struct run_state *at, i64 begin_ns, bool ahead)
{
    struct backend *b    = u->s->backend;
    ticket          last = 0;
    u->begin_ns          = begin_ns;
    u->is_long           = !(expected_s(u) <= long_step_s) && !ahead;
    u->watched           = u->is_long || (!ahead && (!u->count || !b->table->behind));
    if (!u->watched) return;
    u->at = *at;
    for (i64 i = 0; i < u->count; i++)
        last = b->table->get(b, u->list[i].offset, u->list[i].to, u->list[i].bytes);
    if (u->count) b->table->wait(b, last);
}

/* Will the step be done in time for a save behind it? Nobody knows how long the first one takes. */
static bool fits(const struct undo *u, i64 until_ns)
{
    static const f64 overdue = 0.1; /* of a step: what a slow one is taken to need still */
    f64              step_s = expected_s(u), spent_s = (f64)(now_ns(u) - u->begin_ns) * 1e-9;
    return saving_fits(u->saving, MAX(step_s - spent_s, overdue * step_s), until_ns);
}

bool undo_leaves(void *undo)
{
    struct undo *u = undo;
    i64          deadline_ns;
    if (u->left_off || !u->watched) return u->left_off;
    if (!session_must_exit(u->s, &deadline_ns) || !deadline_ns) return false;
    u->left_off = !fits(u, saving_until_ns(u->saving, deadline_ns));
    return u->left_off;
}

bool undo_leaves_wait(struct undo *u)
{
    i64 deadline_ns;
    if (undo_leaves(u) || !u->watched || !session_must_exit(u->s, &deadline_ns) || deadline_ns)
        return u->left_off;
    u->starved = u->left_off = true;
    return true;
}

bool undo_leaves_evaluation(void *undo)
{
    i64 deadline_ns;
    return session_must_exit(((struct undo *)undo)->s, &deadline_ns);
}

void undo_put_back(struct undo *u, struct run_state *at)
{
    struct backend *b = u->s->backend;
    for (i64 i = 0; i < u->count; i++)
        b->table->put(b, u->list[i].offset, u->list[i].to, u->list[i].bytes);
    *at = u->at;
}

struct str undo_warning(const struct undo *u, struct arena *perm)
{
    f64 grace_s = u->s->settings->spot.grace_s, save_s = saving_needs_s(u->saving);
    f64 part_s  = expected_s(u) / (f64)MAX(u->s->config.accumulate, 1);
    f64 until_s = (f64)saving_usable_ns(u->saving, (i64)(grace_s * 1e9)) * 1e-9;
    if (!(grace_s > 0) || !u->s->backend->table->behind || !(part_s + save_s > until_s))
        return STR("");
    return str_fmt(perm,
                   "a micro-batch takes %s s and a save %s s, and spot.grace_s=%g: a SIGTERM "
                   "in the middle of one loses "
                   "the work since the last checkpoint; a smaller train.micro_batch avoids that",
                   DIGITS(part_s), DIGITS(save_s), grace_s);
}
