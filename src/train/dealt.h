/* dealt.h - optimiser state that is dealt out to the ranks (train.shard=state): its parts on their way to rank 0, which
 * saves it whole, and back; inside this room only.
 *
 *     a rank's      | its part of decay | its part of rest |
 *     whole         | decay: part 0, 1, … | rest: part 0, 1, … |    as the parameters lie, and as one rank has it */
#ifndef TRAIN_DEALT_H
#define TRAIN_DEALT_H
#include "train/train_int.h"

struct dealt {
    const struct persistent *state;
    i64                      begin;    /* of the parameters that it belongs to, in the arena */
    i64                      bytes[2]; /* whole, of those with and without decay */
};
bool dealt_is(const struct session *s, const struct persistent *t, struct dealt *out);
i64  dealt_bytes(const struct dealt *d); /* whole */

/* All ranks call these in the same order; `whole` is rank 0's, NULL on the others. */
enum status dealt_collect(struct session *s, const struct dealt *d, u8 *whole, struct err *err);
enum status dealt_hand_out(struct session *s, const struct dealt *d, const u8 *whole,
                           struct err *err);

/* Rank 0 saves when it sees fit; the others give their parts whenever it does, until it goes on. */
enum dealt_word { DEALT_GO_ON, DEALT_COLLECT };
enum status dealt_say(struct session *s, enum dealt_word word, struct err *err); /* rank 0 */
enum status dealt_follow(struct session *s, struct err *err);                    /* the others */

#endif
