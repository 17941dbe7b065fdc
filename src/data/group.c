/* group.c - samples of similar length in one step, as a pure function of (seed, epoch, index).
 *
 *     shuffled   5 2 9 7 | 1 8 8 3 | 4 6 2 9 | ...     lengths of the samples, in windows of WINDOW steps
 *     sorted     1 2 2 3 | 4 5 6 7 | 8 8 9 9           within a window, cut into steps
 *     given      8 8 9 9 | 1 2 2 3 | 4 5 6 7           steps permuted; one that is not whole stays the last
 *
 * A step, not a batch, so that the order does not change with the number of micro-batches. */
#include "base/rng.h"
#include "data/loader_int.h"
#include <stdlib.h>

enum {
    WINDOW = 64
}; /* steps: enough that the samples of one differ little, few enough to stay shuffled */

struct member {
    i64 length, place, number; /* place: in the shuffled order */
};

struct window {                  /* the one that was asked for last */
    i64            epoch, first; /* index of its first sample; -1: none yet */
    struct member *member;
};

struct window *window_new(struct arena *perm, const struct course *c)
{
    struct window *w = NEW(perm, struct window, 1);
    w->first         = -1;
    w->member        = NEW(perm, struct member, MIN(c->count, WINDOW * c->config.group));
    return w;
}

static int shorter_first(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static void fill(const struct course *c, i64 epoch, i64 first, i64 count)
{
    struct window *w = c->window;
    w->epoch         = epoch;
    w->first         = first;
    for (i64 i = 0; i < count; i++) {
        i64 number          = course_shuffled(c, epoch, first + i);
        w->member[i]        = (struct member){ .place = i, .number = number };
        w->member[i].length = c->dataset->format->length(c->dataset, c->config.split, number);
    }
    /* what makes no whole step stays as it was drawn: sorted, it would be the same longest samples each epoch */
    i64 whole = count / c->config.group * c->config.group;
    qsort(w->member, (size_t)whole, sizeof *w->member, shorter_first);
}

i64 window_number(const struct course *c, i64 epoch, i64 index)
{
    i64 group = c->config.group, all = WINDOW * group, first = index / all * all;
    i64 count = MIN(all, c->count - first), whole = count / group;
    i64 step = (index - first) / group, at = (index - first) % group;
    if (c->window->first != first || c->window->epoch != epoch) fill(c, epoch, first, count);
    u64 own =
        rng_mix(c->config.seed ^ rng_mix((u64)first + 1)); /* each window is permuted differently */
    if (step < whole) step = rng_permute(own, (u64)epoch, step, whole);
    return c->window->member[step * group + at].number;
}
