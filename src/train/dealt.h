/* dealt.h - what is dealt out to the ranks on its way to rank 0, which saves it whole, and back; inside this room only.
 *
 * train.shard=state: the optimiser's state, by group.
 *
 *     a rank's      | its part of decay | its part of rest |
 *     whole         | decay: part 0, 1, … | rest: part 0, 1, … |    as the parameters lie, and as one rank has it
 *
 * train.shard=all: every trained tensor by itself, its gradient and state with it: part r of it is rank r's. */
#ifndef TRAIN_DEALT_H
#define TRAIN_DEALT_H
#include "train/train_int.h"

struct dealt {
    const struct persistent *state;
    i64                      begin;    /* of the parameters that it belongs to, in the arena */
    i64                      bytes[2]; /* whole, of those with and without decay */
};
/* Does rank 0 need the others to save? */
bool session_shards(const struct session *s);
/* Tensor by tensor: with train.shard=all, and Muon's momentum, of which each rank has some tensors whole. */
bool dealt_by_tensor(const struct session *s, const struct persistent *t);
bool dealt_by_owner(const struct session *s, const struct persistent *t);
bool dealt_is(const struct session *s, const struct persistent *t, struct dealt *out);
i64  dealt_bytes(const struct dealt *d); /* whole */

/* All ranks call these in the same order; `whole` is rank 0's, NULL on the others. */
enum status dealt_collect(struct session *s, const struct dealt *d, u8 *whole, struct err *err);
enum status dealt_hand_out(struct session *s, const struct dealt *d, const u8 *whole,
                           struct err *err);

/* train.shard=all: the parameter, or the parameter of a gradient, of which this rank has a part; NULL: it has all. */
const struct persistent *dealt_param(const struct session *s, const struct persistent *t);
/* All ranks' parts of one tensor like `param`, which lie at `offset` of their arenas, to or from `whole` of rank 0. */
enum dealt_way { DEALT_TO_RANK_0, DEALT_FROM_RANK_0 };
enum status dealt_tensor(struct session *s, enum dealt_way way, i64 offset,
                         const struct persistent *param, u8 *whole, struct err *err);
/* All of them that a checkpoint has, in the order that all ranks know; `at` says where rank 0 has one; on the
 * other ranks it is NULL. state NULL: the parameter itself. */
typedef u8 *dealt_place(void *context, const struct persistent *state,
                        const struct persistent *param);
enum status dealt_tensors(struct session *s, enum dealt_way way, dealt_place *at, void *context,
                          struct err *err);

/* Rank 0 saves when it sees fit; the others give their parts whenever it does, until it goes on. */
enum dealt_word { DEALT_GO_ON, DEALT_COLLECT, DEALT_TENSOR };
enum status dealt_say(struct session *s, enum dealt_word word, struct err *err); /* rank 0 */
/* Rank 0: asks for the parts of one parameter or gradient (dealt_param), in any order, or no more of them. */
enum status dealt_fetch(struct session *s, const struct persistent *t, u8 *whole, struct err *err);
enum status dealt_follow(struct session *s, struct err *err); /* the others */

#endif
