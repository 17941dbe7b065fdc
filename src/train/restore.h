/* restore.h - resuming: the newest valid checkpoint of a run, and what was as it is; inside this room only.
 *
 *     restore           before anything else is opened: takes the folder, finds it, here or in the object store,
 *                       refuses what is another run by its settings, keeps what was chosen when the run began
 *                       (batch, precision, optimiser), and says where the run stands
 *     restore_clear     the run starts over (--fresh): what is there is deleted
 *     restore_confirm   the run is compiled: the same data, model and tensors? Says "resumed", and whether the bits
 *                       are the same, or why not
 *     restore_tensors   memory is there: weights and optimiser state */
#ifndef TRAIN_RESTORE_H
#define TRAIN_RESTORE_H
#include "train/identity.h"
#include "train/remote_save.h"

struct restore {
    struct os               *os;
    struct arena             perm; /* the run's; this lies in it */
    const struct train_with *with;
    struct settings         *settings; /* the run's, with what the checkpoint decided */
    struct bill             *bill;     /* the caller's, or the run's own */
    struct run_state         at;       /* where it stands: at its beginning, or at the checkpoint */
    struct ckpt_store       *store;    /* NULL: no checkpoints */
    struct ckpt_list         list;
    struct ckpt_loaded       loaded;
    bool                     found;   /* `loaded` is, and is not put back yet */
    bool                     resumed; /* it was put back: its size */
    i64                      bytes;
    struct remote_save       remote;
    struct ranks            *ranks;   /* that train together; NULL: one. Rank 0 alone has a store */
    bool                     shared;  /* and all see its folder, and write their parts there */
    struct str               folder;  /* of that store, where ranks share it or were to */
    i64                      attempt; /* this start's */
    struct str               run;     /* name of the run, for all its starts */
    struct json             *before;  /* what identity_text was then; NULL: not found */
    struct identity          identity;
    struct identity_changes  changes; /* of settings, since */
    bool                     ended;   /* the run is done: nobody resumes its checkpoints */
};
/* Takes the folder's lock. `r` has os, perm, with and settings; of a run without checkpoints only `at` is filled.
 * USAGE: the folder is another run's; WORLD: a checkpoint is there and cannot be read. Nothing is lost either way. */
enum status restore(struct restore *r, struct err *err);
enum status restore_clear(struct restore *r, struct err *err);
enum status restore_confirm(struct restore *r, struct session *s, struct snapshot *n,
                            struct guard *g, struct err *err);
/* What rank 0 found goes to all: what the checkpoint decided, and once there is a guard the numbers of both. */
enum status restore_share_choices(struct restore *r, struct err *err);
enum status restore_share_numbers(struct restore *r, struct guard *g, struct err *err);
enum status restore_tensors(struct restore *r, struct snapshot *n, struct guard *g,
                            struct err *err); /* of a new run too */
void        restore_close(struct restore *r); /* a zeroed one too */
void        checkpoint_tell(const struct train_with *to, const struct event_checkpoint *e);

#endif
