/* best_fit.h - pieces of tokens put into sequences of one length, whole and with little room left over: best fit
 * decreasing (Johnson 1973). A piece of n tokens takes n - 1 places: its last token is predicted, and never read.
 *
 *     pieces    aaaaa bbb cc ddd            context 6
 *     sequence  0 [aaaaa.]  1 [bbbddd]  2 [cc....]
 *
 * Pure; who reads the tokens is the caller (chat.c, tokens.c). */
#ifndef DATA_BEST_FIT_H
#define DATA_BEST_FIT_H
#include "base/arena.h"

struct fit_piece {
    i64 begin; /* of its tokens */
    i64 count; /* at most context + 1 */
};

struct best_fit {             /* the sequences of a split */
    struct fit_piece *pieces; /* as they lie in the sequences, one after the other */
    i64              *first;  /* of each sequence, and one more: the number of pieces */
};

static inline i64 fit_inputs(const struct fit_piece *p) { return p->count - 1; }

/* How many sequences of `context` places there are. Pieces keep their order within a sequence. */
i64 best_fit_pack(const struct fit_piece *s, i64 count, i64 context, struct arena *perm,
                  struct arena scratch, struct best_fit *out);

#endif
