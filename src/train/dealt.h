/* dealt.h - what is dealt out to the ranks: which ranges of which tensors each of them has, and how they go to rank 0
 * and back where that saves or reads for all; inside this room only.
 *
 * train.shard=state: the optimiser's state, by group.
 *
 *     a rank's      | its part of decay | its part of rest |
 *     whole         | decay: part 0, 1, … | rest: part 0, 1, … |    as the parameters lie, and as one rank has it
 *
 * train.shard=all: every trained tensor by itself, its gradient and state with it: part r of it is rank r's. Muon's
 * momentum, with both: each rank has that of the matrices that it updates. */
#ifndef TRAIN_DEALT_H
#define TRAIN_DEALT_H
#include "store/checkpoint.h"
#include "train/train_int.h"

/* Is anything dealt out, so that nobody has all that a checkpoint holds? */
bool session_shards(const struct session *s);
bool dealt_is(const struct session *s, const struct persistent *t); /* do ranks have parts of it? */

/* Whose part is whose: the only place that knows. With train.shard inside each machine, one rank of every machine has
 * the same part, and the one of rank 0's machine is its writer. */
i32 dealt_parts(const struct session *s);            /* how many there are */
i32 dealt_part(const struct session *s);             /* that this rank has, from 0 */
i32 dealt_writer(const struct session *s, i32 part); /* the rank that saves it; part 0: rank 0 */

struct dealt_range {
    const struct persistent *state; /* of `param`; NULL: its own numbers */
    const struct persistent *param;
    i64                      from, bytes; /* of the whole tensor */
    i64                      offset;      /* in the arena of whoever has the part */
};
i64 dealt_ranges_max(const struct session *s);
/* Of one part, in an order that all ranks know; returns how many. */
i64 dealt_ranges(const struct session *s, i32 part, struct dealt_range *to);

/* All ranges to or from rank 0, some megabytes at a time: all ranks call it. `copy`, of rank 0, takes or gives bytes
 * [from, from + bytes) of the whole tensor; NULL on the others. */
enum dealt_way { DEALT_TO_RANK_0, DEALT_FROM_RANK_0 };
typedef void dealt_copy(void *context, const struct dealt_range *r, i64 from, u8 *piece, i64 bytes);
enum status  dealt_carry(struct session *s, enum dealt_way way, dealt_copy *copy, void *context,
                         struct err *err);

/* train.shard=all: the parameter, or the parameter of a gradient, of which this rank has a part; NULL: it has all. */
const struct persistent *dealt_param(const struct session *s, const struct persistent *t);

/* Rank 0 saves when it sees fit; the others do what it says, until it goes on. */
enum dealt_word {
    DEALT_GO_ON,
    DEALT_COLLECT, /* all ranges go to rank 0 */
    DEALT_TENSOR,  /* the parts of one parameter or gradient do */
    DEALT_TAKE,    /* each copies its own part (save_parts.h) */
    DEALT_WRITE,   /* … and writes it, under the name of that checkpoint */
    DEALT_ASK,     /* has each written it? */
    DEALT_WAIT,    /* nothing: rank 0 is still at work */
};
struct dealt_order {
    i32            word, tensor; /* which persistent */
    struct ckpt_id id;
};
/* From rank 0 to all, where anything is dealt out. */
enum status dealt_spread(struct session *s, struct dealt_order *o, struct err *err);
enum status dealt_say(struct session *s, enum dealt_word word, struct err *err); /* rank 0 */
/* Rank 0, behind the last step: to all ranks, also where nothing is dealt out (parts_follow_last). */
enum status dealt_say_last(struct session *s, enum dealt_word word, struct err *err);
/* The others: what concerns tensors on their way to rank 0. */
enum status dealt_give(struct session *s, const struct dealt_order *o, struct err *err);
/* Rank 0: asks for the parts of one parameter or gradient (dealt_param), in any order, or no more of them. */
enum status dealt_fetch(struct session *s, const struct persistent *t, u8 *whole, struct err *err);

#endif
