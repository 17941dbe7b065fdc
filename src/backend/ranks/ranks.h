/* ranks.h - the processes that train one model together, and all that they say to one another.
 *
 * A rank computes its part of every batch; gradients are summed over the ranks by the collective ops of a program
 * (all_reduce and its kin), and what the hosts must agree on (losses, errors, when to stop) goes through the few
 * functions below. Whoever carries the bytes is behind a table: MPI, found at run time (mpi.h), or memory, where the
 * ranks are threads of one process (threads.h: tests). The sums are ours, in the order of the ranks, so that every
 * carrier gives the same bits. docs/decisions/ranks.md says why.
 *
 * Every rank makes the same calls in the same order. A rank that fails or dies ends them all: `failed` is sticky, and
 * every later call returns it at once. */
#ifndef BACKEND_RANKS_RANKS_H
#define BACKEND_RANKS_RANKS_H
#include "base/err.h"
#include "base/pool.h"
#include "base/types.h"
#include "ir/collective.h"
#include "ir/type.h"

struct ranks;

/* begin[0..count]: in bytes; part i, which is rank i's, is [begin[i], begin[i + 1]). */
struct ranks_table {
    const char *name;
    /* Part i of `from` goes to rank i; `to` gets this rank's part of every rank's, one behind the other. */
    enum status (*exchange)(struct ranks *, const u8 *from, const i64 *begin, u8 *to, struct err *);
    /* Each rank's part of `data` goes to all. */
    enum status (*gather)(struct ranks *, u8 *data, const i64 *begin, struct err *);
    enum status (*spread)(struct ranks *, i32 root, void *data, i64 bytes, struct err *);
    /* For whoever waits for the others without these calls, since then: are they still there? NULL: unknown. */
    enum status (*look)(struct ranks *, i64 since_ns, struct err *);
    /* Those that call it with the same `group` become ranks of their own, in the order of `place`, of `count`. All
     * ranks call it, once for each `over`. */
    enum status (*split)(struct ranks *, enum ranks_over over, i32 group, i32 place, i32 count,
                         struct err *);
    void (*close)(struct ranks *); /* after `failed` without waiting for anybody */
};

struct ranks {
    const struct ranks_table *table;
    i32                       rank, count;
    i32                       local, locals; /* among those on this machine */
    i32                       machines;
    i64 cores;     /* this rank's share of its machine's: one that n ranks may use counts 1 / n */
    i64 cores_any; /* of its machine that any rank may use */
    const u64 *
        machine_of; /* by rank: equal where ranks share a machine, as train.shard_over=machine has it */
    struct ranks           *
        whole; /* of whom these are some; NULL: these are all. It has `failed`, `busy_ns` and `sent_bytes` */
    i32           group;            /* of several of its kind: which */
    struct ranks *over[OVER_COUNT]; /* by enum ranks_over; NULL: there is no such group */
    struct err    failed;
    bool          speaks; /* for all of them: rank 0, or who is left */
    bool          shown;  /* nobody is there: alike.h */
    i64 busy_ns;    /* spent in these calls, waiting included: communication that nothing hides */
    i64 sent_bytes; /* in them, by this rank to the others */
};

/* The ranks that an op's `over` names. */
struct ranks *ranks_over(struct ranks *r, i64 over); /* r NULL: NULL */
/* Makes the groups of enum ranks_over by machine, and says which of how many places of its machine this rank has. All
 * ranks call it. USAGE: machines have different numbers of ranks. */
enum status ranks_by_machine(struct ranks *r, i32 *place, i32 *places, struct err *err);
/* Sets r->cores and r->cores_any from the affinity masks of the ranks of this machine, of[r->locals]. */
void ranks_share_cores(struct ranks *r, const struct pool_cores *of);
/* How many threads this rank computes with, at least 1. quota: cores that the ranks of its machine may keep busy. */
i32 ranks_threads(const struct ranks *r, i64 quota);
/* The rank of rank 0's machine that has a place. */
i32 ranks_holder(const struct ranks *r, i32 place);

enum ranks_join { RANKS_SUM, RANKS_LARGEST };
/* Of `count` numbers, which lie in the same order in each rank: joined in all of them, in place. `work` has
 * ranks_work_bytes; the scatter's is ops.def's. */
enum status ranks_reduce(struct ranks *r, enum ranks_join how, enum dtype dtype, void *data,
                         i64 count, void *work);
/* The same, of which this rank gets only its part (ranks_part) into `to`; what of that lies behind the last is 0. */
enum status ranks_reduce_scatter(struct ranks *r, enum dtype dtype, const void *data, i64 count,
                                 void *to, void *work);
/* Each rank's part (ranks_begin) of `count` elements goes to all. */
enum status ranks_gather(struct ranks *r, void *data, i64 count, i64 item_bytes);
/* Each rank's part, as ranks_reduce_scatter cuts them, to all: `to` has `count` elements. */
enum status ranks_gather_equal(struct ranks *r, const void *own, void *to, i64 count,
                               i64 item_bytes);
/* Parts of any size: begin[0..count] in bytes. */
enum status ranks_gather_parts(struct ranks *r, void *data, const i64 *begin);
enum status ranks_spread(struct ranks *r, i32 root, void *data, i64 bytes);

/* A few numbers of the host: summed in f64. */
enum status ranks_sum(struct ranks *r, f64 *numbers, i32 count);
/* Not OK where any rank's is not: all get the status and the sentence of the first such rank, which ends with the
 * rank's number where it is not 0. r NULL: as it is. */
enum status ranks_agree(struct ranks *r, enum status st, struct err *err);
/* The first rank whose hash is another than rank 0's; 0: there is none. */
i32  ranks_differs(struct ranks *r, u64 hash);
void ranks_close(struct ranks *r); /* NULL too */

#endif
