/* measure.h - a run in a process of its own until its pace is known. */
#ifndef JOB_MEASURE_H
#define JOB_MEASURE_H
#include "job/job.h"
#include "run/verdict.h"

/* What a measurement's process tells, in one message. */
struct measured {
    enum status     status;
    char            text[512]; /* why there is none */
    char            device[64];
    f64             seconds;       /* of a sample, warm */
    i64             sample_tokens; /* 0: samples are not sequences */
    i64             gpus, batch, accumulate;
    i64             train_samples;
    bool            batch_norm, low;
    struct evidence evidence; /* MEASURE_WHOLE: what binds it */
};

/* The one message of a child that then ends. INTERRUPTED: a signal came first; NO: it ended without one. */
enum status child_word(struct os *os, struct os_child *child, void *out, i64 bytes,
                       struct err *err);

/* What of the run is measured. */
enum measure_of {
    MEASURE_STEPS, /* nothing is evaluated or saved */
    MEASURE_WHOLE, /* evaluations and checkpoints too; these go to a folder beside checkpoint.dir that is removed */
};

/* The run with these settings for some steps: at least so many seconds of them, warm-up apart. STATUS_NO: it cannot
 * run, `out` says why; INTERRUPTED: a signal came. */
enum status measure_run(struct os *os, const struct settings *s, f64 seconds, enum measure_of of,
                        struct measured *out, struct err *err);

#endif
