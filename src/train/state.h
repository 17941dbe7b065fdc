/* state.h - all that the next step depends on, as tensors of files and back; inside this room only.
 *
 * A run is its tensors (parameters, buffers, optimiser state: persistents of the programs), the copy
 * that guard.c holds, and the numbers of state.def. The order of samples, dropout and the schedule are
 * functions of these. Two functions collect and put back everything there is; a test compares a run
 * that went through them with one that did not. */
#ifndef TRAIN_STATE_H
#define TRAIN_STATE_H
#include "store/checkpoint.h"
#include "train/train_int.h"

/* state.c: the numbers. */
i64 state_count(void); /* tensors of state_describe */
i64 state_bytes(void);
/* Tensors whose bytes lie in `bytes`, where state_collect puts them. */
void state_describe(struct st_tensor *tensors, u8 *bytes);
void state_collect(const struct run_state *r, const struct guard *g, u8 *bytes);
/* What the file lacks (it was not known yet when it was written) stays as it is. */
enum status state_put_back(struct run_state *r, struct guard *g, const struct st_file *file,
                           struct err *err);
/* A step begins at a multiple of its samples, or the epoch is over: no run stands at another sample. */
enum status state_check_place(const struct run_state *r, i64 step_samples, i64 epoch_samples,
                              struct err *err);

/* snapshot.c: everything. Memory of its own, planned before the run begins, in which weights and
 * optimiser lie as in the checkpoint's files. */
enum { SNAPSHOT_PARTS = 4, SNAPSHOT_TENSOR_PARTS = 2 };
struct snapshot_part {
    struct ckpt_part file;
    i64             *offsets; /* of its tensors in the arena; -1: ranks have parts of it */
    i64              parts;   /* as of an st_file */
    bool             absent;  /* another rank writes all of it */
};
struct snapshot {
    struct session      *s;
    struct guard        *guard;
    bool                 shared;     /* of what is dealt out, each rank writes its own ranges */
    i64                  bytes;      /* of its memory */
    i64                  file_bytes; /* of a whole checkpoint, whoever writes it */
    u8                  *memory;
    struct snapshot_part all[SNAPSHOT_TENSOR_PARTS];   /* weights and optimiser of all ranks */
    struct snapshot_part files[SNAPSHOT_TENSOR_PARTS]; /* as this rank writes them */
    struct ckpt_part     parts[SNAPSHOT_PARTS];        /* those, run; kept where guard has a copy */
    i64                  part_count;
    struct st_parts      from[SNAPSHOT_TENSOR_PARTS]; /* the checkpoint of snapshot_fits */
    struct backend_copy *copies; /* of those; first the ones that the next gradients change */
    i64                  copy_count, early_count;
    u8                  *numbers; /* of state.c */
    struct err           slower;  /* why copies are, where they are */
};
/* Do the gradients of a step change these bytes of the arena, before its update does? */
bool       gradients_change(const struct session *s, i64 begin, i64 end);
struct str snapshot_name(struct arena *perm, const struct persistent *state,
                         const struct persistent *param); /* of a tensor; state NULL: a weight */
/* shared: each rank opens one and writes a part; else only rank 0 does, and it gets those of the others. */
enum status snapshot_open(struct snapshot *n, struct session *s, struct guard *g, bool shared,
                          struct err *err);
void        snapshot_add_kept(struct snapshot *n); /* once guard has started */
void        snapshot_close(struct snapshot *n);    /* a zeroed one too */
/* A snapshot: `take` what the next step begins to change, then, in another thread, `copy` the rest,
 * which only its update does. */
enum status snapshot_take(struct snapshot        *n,
                          const struct run_state *r); /* WORLD: a rank is gone */
void snapshot_prepare(void *snapshot); /* its memory: takes its time, in another thread too */
void snapshot_copy(void *snapshot);
/* Has the checkpoint the tensors of this run, all of them and no others? USAGE, "it has no …". */
enum status snapshot_fits(struct snapshot *n, const struct ckpt_loaded *from, struct err *err);
void        snapshot_put_back(struct snapshot *n); /* that one, while it is loaded */
/* Then, of all ranks: each gets its part of what is dealt out. Of the others than rank 0 only `s` is looked at. */
enum status snapshot_hand_out(struct snapshot *n, struct session *s, struct err *err);
bool        snapshot_put_back_kept(struct snapshot *n, const struct ckpt_loaded *from); /* false: it
                                                                            has none for this run */

#endif
