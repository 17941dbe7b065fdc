/* backend.h - the engine that turns programs into numbers, behind one small table.
 *
 * put, get and run return at once with a ticket and happen in the order they were asked for;
 * wait blocks until a ticket and all before it are done (0: everything), and only then `to` of a get
 * holds its bytes. A CPU does the work inside the call. `prepare` is where
 * kernels are chosen (and, on a GPU, timed and captured). The only memory is the arena that
 * `alloc` makes once, of the size compile planned. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H
#include "base/err.h"
#include "base/pool.h"
#include "ir/collective.h"
#include "ir/program.h"

typedef i64 ticket;

struct backend;
struct ranks; /* backend/ranks/ranks.h */

/* How hard `prepare` looks for the fastest kernels. */
enum effort { EFFORT_DEFAULT, EFFORT_MAX };

struct backend_tuning {
    enum effort effort;
    bool any_order; /* sums may be taken as they come, where that is faster: other bits each time */
    struct str choices; /* what `choices` gave on such a device earlier; empty: nothing */
};

struct backend_copy { /* bytes of the arena that are copied out */
    i64 offset;
    u8 *to;
    i64 bytes;
};

/* Bytes of the arena that are loaded at once, and who makes them: called by any thread of a pool, each part once. */
enum { BACKEND_PART_BYTES = 2 << 20 };
struct backend_part {
    i64 offset, bytes; /* at most BACKEND_PART_BYTES */
};
typedef void backend_fill(void *context, i64 part, void *to, i32 worker);
struct backend_key {
    char bytes[128]; /* as many as NCCL's */
};

struct backend_table {
    const char *name;
    bool        behind; /* run returns before the work is done: the host may look ahead meanwhile */
    /* Before anything else; NULL: there is nothing to tune. Choices are kept from run to run from now on.
     * STATUS_WORLD: what was kept or given cannot be used, a sentence says why; it goes on without. */
    enum status (*tune)(struct backend *, const struct backend_tuning *, struct err *);
    struct str (*choices)(struct backend *,
                          struct arena *perm);           /* as text, to travel; NULL: none */
    void (*describe)(struct backend *, struct target *); /* all but the rates: at once */
    void (*rate)(struct backend *, struct target *);     /* measures them: some 50 ms. NULL:
                                                             `describe` knows all it can */
    enum status (*alloc)(struct backend *, i64 arena_bytes, struct err *);
    enum status (*prepare)(struct backend *, struct program *, struct arena *perm, struct err *);
    ticket (*put)(struct backend *, i64 offset, const void *from, i64 bytes); /* from NULL: zeros */
    /* Weights from files: parts that do not overlap become what `fill` leaves in `to`, straight in the arena or on
     * the way to it, by all threads of the pool. When it returns, all is there. */
    void (*load)(struct backend *, const struct backend_part *parts, i64 count, struct pool *,
                 backend_fill *, void *context);
    ticket (*get)(struct backend *, i64 offset, void *to, i64 bytes);
    ticket (*run)(struct backend *, const struct program *);
    void (*wait)(struct backend *, ticket);
    /* For checkpoints: `copy` is called by another thread, while programs run that leave these
     * bytes alone, and returns when `to` holds them as they were after all that had been asked for
     * when `mark` was called last. `pin` has memory ready for that, and takes its time; what lies
     * there stays. WORLD: it will be slower, a sentence says why. One piece of memory at a time,
     * until `unpin`. */
    void (*mark)(struct backend *);
    void (*copy)(struct backend *, const struct backend_copy *list, i64 count);
    enum status (*pin)(struct backend *, void *memory, i64 bytes, struct err *);
    void (*unpin)(struct backend *);
    /* Runs the program once, seconds of each instruction into `seconds`. */
    void (*time)(struct backend *, const struct program *, f64 *seconds);
    /* End of the highest byte of the arena written since alloc: measured, not planned. */
    i64 (*used_bytes)(struct backend *);
    /* Of the device's memory, by its driver, since open: arena, libraries and graphs. NULL: it is the host's. */
    i64 (*device_bytes)(struct backend *);
    /* Of devices with an engine of their own for collectives (NCCL); NULL: backend->ranks carries them. `engine` finds
     * it, and fills the key of a new link where `key` is not NULL, as one rank does for all; `link` returns when all
     * `ranks` have called it with that key. Both before `prepare`, and a rank that goes away later sets
     * backend->ranks->failed in whoever waits: what its programs write is worth nothing from then on. */
    enum status (*engine)(struct backend *, struct backend_key *key, struct err *);
    enum status (*link)(struct backend *, const struct backend_key *, i32 rank, i32 ranks,
                        struct err *);
    /* After `link`: those with the same `group` are linked beside it, in the order of `place`, of `count`. */
    enum status (*split)(struct backend *, enum ranks_over, i32 group, i32 place, i32 count,
                         struct err *);
    void (*close)(struct backend *);
};

struct backend {
    const struct backend_table *table;
    /* Where the work is done inside the call: asked before each instruction of `run`; true: it leaves off there,
     * and what the program was to write is worth nothing. NULL: it never does. */
    bool (*leaves_off)(void *context);
    void *context;
    struct ranks
        *ranks; /* that its programs' collectives reach; NULL: it is alone. Set before `prepare` */
    i64  weights_end;     /* in the arena, the caller's to set */
    bool weights_changed; /* by a put or a load below it */
};
static inline void backend_changes(struct backend *b, i64 offset)
{
    b->weights_changed |= offset < b->weights_end;
}

/* Kernels that may be used: ALL, or only the naive reference (the truth, for tests). */
enum backend_choice { BACKEND_FAST, BACKEND_REFERENCE };

/* threads 0: as many as the cores this process may use. */
enum status backend_cpu_open(struct arena *perm, i32 threads, enum backend_choice choice,
                             struct backend **out, struct err *err);

#endif
