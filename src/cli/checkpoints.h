/* checkpoints.h - what frugal checkpoints does with folders and with object stores alike. */
#ifndef CLI_CHECKPOINTS_H
#define CLI_CHECKPOINTS_H
#include "cli/commands.h"
#include "job/checkpoint_cost.h"

enum { CHECKPOINTS_KEEP = 3 }; /* of prune, where --keep does not say */

/* The number given with that flag, at least 1; *value stays where none was. */
enum status checkpoints_number(struct cli *c, i64 flag, i64 *value, struct err *err);

/* The one of that name or step; of a step saved twice, the newer. An empty word: the newest believed. */
enum status checkpoints_find(const struct ckpt_list *l, struct str word, struct str where,
                             struct ckpt **out, struct err *err);
/* One line or object: what it is if nothing is wrong (`right`), or why not. */
void checkpoints_tell(struct cli *c, const struct ckpt_list *l, i64 i, const char *right,
                      const struct err *why);
/* What is in it, for people: its run, shards and state. */
void checkpoints_tell_inside(struct cli *c, const struct ckpt_manifest *m);
/* Of --rate, in bytes a second; 0: not given. */
enum status checkpoints_rate(struct cli *c, f64 *rate, struct err *err);
/* What a restore takes at that rate; `measured`: how that is known, where --rate did not say. */
void checkpoints_tell_restore(struct cli *c, const struct ckpt *k, f64 rate, const char *measured);
void checkpoints_tell_pruned(struct cli *c, const struct ckpt_list *before,
                             const struct ckpt_list *after);
void checkpoints_tell_copied(struct cli *c, const struct ckpt *k, struct str to);

enum status checkpoints_remote(struct cli *c, struct str verb, const struct str *arguments,
                               i64 count, struct err *err);

#endif
