/* profiling.c - runs programs, and times those of the steps that settings.profile asks for. */
#include "run/profile_events.h"
#include "train/loop.h"

enum { TABLES_GIB = 4 }; /* address space only */

/* For the profile, which adds up what programs of several capacities take: they have the same instructions. */
static const struct program_set *typical_set(struct session *s)
{
    struct program_set *set = NEW(s->perm, struct program_set, 1);
    *set                    = *s->set;
    for (i32 id = 0; id < PROGRAM_COUNT; id++)
        set->programs[id] = program_typical(s->set, (enum program_id)id);
    return set;
}

void profiling_open(struct loop *l)
{
    struct session *s = &l->s;
    if (!s->settings->profile.active) return;
    l->profile = profile_new(s->perm, &s->settings->profile, typical_set(s), l->at.step,
                             MAX(s->config.accumulate, 1));
    profile_watch(l->profile, l->clock);
}

void profiling_tell(struct loop *l)
{
    struct session *s = &l->s;
    struct target   t = s->target;
    if (!l->profile || l->told_profile) return;
    l->told_profile     = true;
    struct arena memory = arena_open((i64)TABLES_GIB << 30);
    if (!memory.begin) return;
    if (s->backend->table->rate) s->backend->table->rate(s->backend, &t);
    profile_emit(l->with->to, l->profile, &t, memory);
    arena_close(&memory);
}

i64 profiling_step(struct loop *l)
{
    i64 begin = clock_step_begin(l->clock, l->at.step);
    profile_step(l->profile, l->at.step, begin);
    if (l->told_profile || !profile_over(l->profile, l->at.step)) return begin;
    profiling_tell(l);
    return clock_step_begin(l->clock, l->at.step);
}

void profiling_run(struct loop *l, enum program_id id, const struct program *p)
{
    struct backend *b    = l->s.backend;
    enum part       part = id == PROGRAM_UPDATE ? PART_update : PART_compute;
    if (!profile_on(l->profile, l->at.step)) {
        clock_enter(l->clock, b->table->behind ? PART_launch : part);
        loop_listen(l, l->undo.is_long && id != PROGRAM_UPDATE ? undo_leaves : NULL);
        b->table->run(b, p);
        loop_listen(l, NULL);
        clock_enter(l->clock, PART_other);
        return;
    }
    i64 begin = clock_enter(l->clock, part);
    b->table->time(b, p, profile_seconds(l->profile));
    i64 end = clock_enter(l->clock, PART_other);
    profile_ran(l->profile, id, begin, end, part);
}
