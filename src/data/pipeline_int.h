/* pipeline_int.h - what the pipeline's files share: pipeline.c hands samples from stage to stage,
 * conductor.c measures and decides how many threads do it. */
#ifndef DATA_PIPELINE_INT_H
#define DATA_PIPELINE_INT_H
#include "base/thread.h"
#include "data/kept.h"
#include "data/pipeline.h"
#include "data/tuner.h"

enum { PIPELINE_LINES_MAX = 16 };

/* A sample on its way. */
struct item {
    struct sample sample;
    struct buffer own;          /* where sample.decoded points into what is kept: the item's own */
    bool          borrows;      /* it does */
    i64           batch, place; /* number of its batch, place in it */
    i64           skipped;      /* samples that could not be had for this place */
    enum status   status;
    struct err    err; /* of the first of them */
    struct item  *next;
};

/* Memory for a batch. */
struct room {
    void        *data[FEEDS_MAX];
    struct room *next; /* free one */
};

/* A batch being made, made, or with the caller. */
struct slot {
    struct batch batch;
    struct room *room;
    i64          left; /* samples not yet in place */
    bool         ready;
    i64          skipped;
    enum status  status;
    struct err   err; /* of the first sample in the batch that failed: the same for any threads */
    i64          err_place;
};

typedef enum status stage_fn(const struct dataset *d, struct sample *s, struct err *err);

/* What samples took of a stage. */
struct lane_sums {
    i64 samples, busy_ns, cpu_ns;
    i64 own_ns; /* busy, less what was spent ready and without a core */
};

/* A stage, and what waits before it. */
struct lane {
    enum stage   stage;
    stage_fn    *run;
    struct item *first, *last; /* the queue; the first lane's is the order of the data itself */
    i64          queued, queue_max;
    i64          running, workers;   /* threads in it; that may be */
    bool         computes;           /* and does not wait; false until it is known */
    i64          seen, seen_waiting; /* samples since then; of those, that waited for something */
    struct lane_sums sums;
};

struct worker {
    struct pipeline *pipeline;
    struct buffer    spare;
    int              delay_fd; /* base/thread.h */
    pthread_t        thread;
};

/* Of the caller and the samples, since the pipeline was opened. */
struct tally {
    i64 waited_ns, away_ns,
        paused_ns;                 /* for a batch; between two; for long, as an evaluation does */
    i64 batches, samples, skipped; /* given */
    i64 decoded_bytes;             /* of all samples decoded */
    i64 sample_bytes_max;          /* memory of one on its way */
};

struct pipeline {
    struct course course;
    struct os    *os;
    struct arena  arena; /* holds all of this */

    pthread_mutex_t lock;                  /* of all below, but for what is said to be another's */
    pthread_cond_t  go, made, ended, tick; /* something to do; a batch is there; a thread has ended;
                                              the conductor's */
    i64             idle, called; /* threads that wait for `go`; that it was sent to since */
    struct slot    *slots;
    i64             slot_count;
    struct room    *rooms, *room_free;
    i64             room_count; /* that were ever in use, of slot_count */
    struct room    *held;       /* the caller's; NULL: it has none */
    i64          begun, given;  /* batches; begun <= given + prefetch, but after that was lowered */
    i64          prefetch;
    i64          epoch, index; /* of the next batch to begin */
    i64          issued;       /* samples of the newest batch that are on their way */
    bool         all_begun;    /* there is no further batch */
    struct item *items, *free;
    i64          item_count, item_max; /* that there are; that may be */
    i64          flying, flying_max;   /* on their way */
    i64          cores;                /* for threads in stages that only compute */
    struct lane  lanes[STAGE_COUNT];
    i64          lane_count;
    struct tally tally;
    i64          next_since_ns; /* the caller waits since; 0: it does not */
    i64          left_ns;       /* the caller took its last batch; 0: none yet */
    enum status  failed;
    struct err   err;
    char         lines[PIPELINE_LINES_MAX][LOADER_LINE_MAX];
    i64          said, heard; /* lines */
    i64          alive;       /* threads */
    atomic_bool  stop;
    _Atomic(struct kept *) kept; /* NULL: none are, or not yet */
    i64                    memory_bytes, kept_bytes_max;

    struct worker *workers; /* the conductor's once it runs */
    i64            started; /* threads */
    pthread_t      conductor;
    bool           conducted;
    struct tuner   tuner; /* the conductor's */
};

/* As many threads in each lane as chosen; more are started where there are too few. Not under the lock. */
enum status pipeline_apply(struct pipeline *p, const struct tuner_choice *c, struct err *err);
void        pipeline_say(struct pipeline *p, const char *line); /* under the lock */

enum status conductor_start(struct pipeline *p, struct err *err);

#endif
