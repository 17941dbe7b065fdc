/* best_fit.c - the longest pieces first, each where the least room is left that holds it. */
#include "data/best_fit.h"

/* How many sequences have each number of free places, in a tree of sums. */
struct room {
    i32 *tree;
    i64  leaves;
    i32 *head, *next; /* sequences by their free places */
};

static void room_add(struct room *r, i64 free, i32 sequence)
{
    r->next[sequence] = r->head[free];
    r->head[free]     = sequence;
    for (i64 i = free + r->leaves; i; i /= 2) r->tree[i]++;
}

/* The sequence with the fewest free places that are enough, taken out; -1: none. */
static i32 room_take(struct room *r, i64 need, i64 *free)
{
    i64 i = need + r->leaves;
    if (!r->tree[i]) { /* up, until something lies to the right */
        while (i > 1 && (i % 2 || !r->tree[i + 1])) i /= 2;
        if (i == 1) return -1;
        i++;
    }
    while (i < r->leaves) i = r->tree[2 * i] ? 2 * i : 2 * i + 1;
    *free          = i - r->leaves;
    i32 sequence   = r->head[*free];
    r->head[*free] = r->next[sequence];
    for (i64 k = i; k; k /= 2) r->tree[k]--;
    return sequence;
}

/* By length, the longest first; equal ones in their order. */
static i32 *by_length(const struct fit_piece *s, i64 count, i64 context, struct arena *perm)
{
    i64 *at    = NEW(perm, i64, context + 2);
    i32 *order = NEW(perm, i32, count + 1);
    for (i64 i = 0; i < count; i++) at[context - fit_inputs(&s[i]) + 1]++;
    for (i64 i = 0; i <= context; i++) at[i + 1] += at[i];
    for (i64 i = 0; i < count; i++) order[at[context - fit_inputs(&s[i])]++] = (i32)i;
    return order;
}

i64 best_fit_pack(const struct fit_piece *s, i64 count, i64 context, struct arena *perm,
                  struct arena scratch, struct best_fit *out)
{
    struct room r = { .leaves = 1 };
    while (r.leaves < context + 1) r.leaves *= 2;
    r.tree         = NEW(&scratch, i32, 2 * r.leaves);
    r.head         = NEW(&scratch, i32, context + 1);
    r.next         = NEW(&scratch, i32, count + 1);
    i32 *order     = by_length(s, count, context, &scratch);
    i32 *of        = NEW(&scratch, i32, count + 1); /* the sequence of each piece */
    i64  sequences = 0, free;
    for (i64 i = 0; i <= context; i++) r.head[i] = -1;
    for (i64 i = 0; i < count; i++) {
        i64 need     = fit_inputs(&s[order[i]]);
        i32 sequence = room_take(&r, need, &free);
        if (sequence < 0) sequence = (i32)sequences++, free = context;
        of[order[i]] = sequence;
        room_add(&r, free - need, sequence);
    }
    out->pieces = NEW(perm, struct fit_piece, count + 1);
    out->first  = NEW(perm, i64, sequences + 2);
    for (i64 i = 0; i < count; i++) out->first[of[i] + 2]++;
    for (i64 i = 0; i < sequences; i++) out->first[i + 2] += out->first[i + 1];
    for (i64 i = 0; i < count; i++) out->pieces[out->first[of[i] + 1]++] = s[i];
    return sequences;
}
