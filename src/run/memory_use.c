/* memory_use.c - claims that live at an instruction, as a union of bytes: where a result takes over its
 * input's memory both live at that node, and are counted once. */
#include "run/memory_use.h"
#include <stdlib.h>

static int by_begin(const void *a, const void *b)
{
    const struct claim *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static int larger_first(const void *a, const void *b)
{
    const struct memory_holder *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static bool lives(const struct claim *c, i32 node) { return c->first <= node && node <= c->last; }

/* Of claims by rising begin, the bytes of those that live then. */
static i64 union_bytes(const struct claim *claims, i64 count, i32 node)
{
    i64 end = 0, sum = 0;
    for (i64 i = 0; i < count; i++) {
        const struct claim *c = &claims[i];
        if (!lives(c, node) || c->end <= end) continue;
        sum += c->end - MAX(c->begin, end);
        end = c->end;
    }
    return sum;
}

/* Its bytes are a result's from this node on: that one is named. */
static bool is_taken_over(const struct claim *claims, i64 count, const struct claim *c, i32 node)
{
    for (i64 i = 0; i < count; i++)
        if (claims[i].first == node && claims[i].begin == c->begin && c->first < node)
            return c->last == node;
    return false;
}

static struct str holder_name(const struct program *p, const struct claim *c, struct arena *perm)
{
    const struct graph *g = p->graph;
    if (c->value < 0) return str_fmt(perm, "workspace of %.*s", STR_ARG(g->nodes[c->first].name));
    return g->nodes[g->values[c->value].node].name;
}

struct memory_use memory_use_of(const struct program_set *set, const struct program *p,
                                struct arena *perm, struct arena scratch)
{
    struct memory_use m    = { .persistent_bytes = set->persistent_bytes };
    i64               room = p->graph->value_count + p->instr_count + 1, count = 0;
    struct claim     *claims = NEW(&scratch, struct claim, room);
    i64               all    = program_claims(p, claims, scratch);
    for (i64 i = 0; i < all; i++) /* persistents lie below all others */
        if (claims[i].begin >= set->persistent_bytes) claims[count++] = claims[i];
    qsort(claims, (size_t)count, sizeof *claims, by_begin);
    m.bytes = NEW(perm, i64, MAX(p->instr_count, 1));
    for (i32 i = 0; i < p->instr_count; i++) {
        m.bytes[i] = m.persistent_bytes + union_bytes(claims, count, p->instrs[i].node);
        if (m.bytes[i] > m.peak_bytes) m.peak = i, m.peak_bytes = m.bytes[i];
    }
    m.holders = NEW(perm, struct memory_holder, MAX(count, 1));
    for (i64 i = 0; i < count && p->instr_count; i++)
        if (lives(&claims[i], p->instrs[m.peak].node) &&
            !is_taken_over(claims, count, &claims[i], p->instrs[m.peak].node))
            m.holders[m.holder_count++] = (struct memory_holder){ holder_name(p, &claims[i], perm),
                                                                  claims[i].end - claims[i].begin };
    qsort(m.holders, (size_t)m.holder_count, sizeof *m.holders, larger_first);
    return m;
}
