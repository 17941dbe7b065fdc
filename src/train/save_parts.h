/* save_parts.h - a checkpoint that all ranks write, each the ranges that it has of what is dealt out; inside this room
 * only. It needs a folder that all of them see: where one does not, rank 0 collects everything and writes alone.
 *
 *     rank 0      take ─ TAKE ─ copy … name ─ WRITE ─ own part …  ASK … ASK ─ manifest, prune, upload
 *     the others        take ─ copy ………………………………… own part, synced ── its size and hash
 *
 * The words go from rank 0 to all between two steps (dealt.h), so that nobody waits for a disk. */
#ifndef TRAIN_SAVE_PARTS_H
#define TRAIN_SAVE_PARTS_H
#include "train/checkpoint_schedule.h"

/* All ranks, before anything is opened: r->shared, and r->folder of those without a store. */
enum status parts_meet(struct restore *r, struct err *err);
/* The writer of a rank without a store. */
enum status parts_start(struct saving *v, struct err *err);
/* Rank 0, while its writer is at work: tells the others what it asks for, and it what they have answered. */
void parts_poll(struct saving *v);
/* The others do what rank 0 says, until it goes on. */
enum status parts_follow(struct saving *v, struct err *err);
/* … and behind the last step also where nothing is dealt out: rank 0 may still write or upload for longer than
 * train.join_s, and says DEALT_WAIT meanwhile. */
enum status parts_follow_last(struct saving *v, struct err *err);

#endif
