/* split.c - time by part: one owner, no locks. */
#include "run/split.h"

static const char *const names[][2] = {
#define PART(name, help) { #name, help },
    PARTS(PART)
#undef PART
};

const char *split_name(enum part p) { return names[p][0]; }

const char *split_help(enum part p) { return names[p][1]; }

void split_begin(struct step_split *s, i64 now_ns)
{
    *s = (struct step_split){ .since_ns = now_ns, .now = PART_other };
}

enum part split_enter(struct step_split *s, enum part next, i64 now_ns)
{
    enum part before = s->now;
    ASSERT(now_ns >= s->since_ns);
    s->ns[before] += now_ns - s->since_ns;
    s->since_ns = now_ns;
    s->now      = next;
    return before;
}

void split_move(struct step_split *s, enum part from, enum part to, i64 ns)
{
    ASSERT(ns >= 0);
    ns = MIN(ns, s->ns[from]);
    s->ns[from] -= ns;
    s->ns[to] += ns;
}

i64 split_sum(const struct step_split *s)
{
    i64 sum = 0;
    for (i64 i = 0; i < PART_COUNT; i++) sum += s->ns[i];
    return sum;
}

struct step_split split_since(const struct step_split *now, const struct step_split *before)
{
    struct step_split d = *now;
    for (i64 i = 0; i < PART_COUNT; i++) d.ns[i] -= before->ns[i];
    return d;
}
