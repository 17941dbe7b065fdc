/* train.h - a run from its settings to its result, and what it tells on the way.
 *
 * The trainer prints nothing: whoever starts it (the command line, a test, a live page) passes
 * subscribers (run/events.h). The figures are plain numbers with their unit in the name; NaN means "not known",
 * and what is not known is never shown as 0. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H
#include "base/os.h"
#include "run/bill.h"
#include "run/events.h"
#include "run/quantiles.h"
#include "run/stop.h"
#include "run/verdict.h"
#include "store/upload.h"
#include "train/lint.h"
#include "train/settings.h"
#include <pthread.h>

/* Of fp16, whose loss is multiplied by a scale that finds itself. */
struct train_scaling {
    f64 scale;   /* NaN: not scaled */
    i64 skipped; /* steps whose gradients were not finite, and which were left out */
};

struct train_loaded {
    i64 bytes; /* as they are kept */
    f64 seconds;
};

/* After an evaluation. */
struct train_eval {
    i64                 step, epoch;
    f64                 elapsed_s, eval_s;
    i64                 samples;
    f64                 loss;
    struct event_metric metrics[EVENT_METRICS_MAX];
    i64                 metric_count;
    bool                target_reached;
    struct forecast     forecast; /* of the target's metric; NaN: none was made */
    f64                 dollars;
};

/* Why a figure of it is none, as a sentence; NULL: there is nothing to explain. */
const char *eval_explains(const struct train_eval *e);

/* Of all checkpoints of this start of the run. */
struct train_saving {
    i64 count, failed, late; /* written; not; that had to wait for the one before */
    i64 resumed_step;        /* -1: the run began anew */
    i64 step;                /* of the newest on the disk; -1: none */
    i64 bytes;               /* of it */
    f64 blocked_s;           /* the steps stood still */
    f64 total_s;     /* all that saving took from the run, slower steps included; NaN: too few
                                steps to tell */
    f64 persist_s;   /* of the last: from the snapshot to the disk */
    i64 remote_step; /* of the newest in the object store; -1: none */
    i64 remote_puts, remote_gets;      /* requests to it, by what they cost */
    i64 remote_bytes, remote_bytes_in; /* sent to it; read from it */
    f64 requests_usd, storage_usd;     /* NaN: a store's price is not known */
};

/* Where the time before the first step goes, in seconds. */
struct train_startup {
    f64 data, device, compile, kernels, weights;
};

/* What the GPU's driver tells of the time spent training; NaN: there is none, or it does not tell. */
struct train_power {
    f64 energy_wh;
    f64 watts;       /* mean */
    f64 sm_activity; /* part of the time that multiprocessors had work: 0 to 1 */
};

struct train_result {
    i64 steps, epochs; /* done */
    f64 seconds;       /* the whole run, all its starts: data, compile, steps, evaluation, saving */
    f64 first_step_ms; /* from the start of the run to the end of the first step */
    struct train_startup startup;
    f64                  samples_per_s, tokens_per_s; /* over the time spent in steps */
    f64                  steps_per_s;                 /* of this process, as are the next three */
    f64                  step_p50_s, step_p95_s, step_p99_s; /* run/quantiles.h */
    f64                  input_share;       /* part of the steps' time that they waited for data */
    struct step_split    split;             /* of this process, from its first step to its end */
    f64                  flops_per_s;       /* in them, what is recomputed included */
    f64                  model_flops_per_s; /* in them, what is recomputed left out: for MFU */
    f64                  mfu;               /* NaN: not known, or the run was too short */
    bool                 mfu_measured;      /* of a peak that was measured, not a catalogue's */
    struct train_power   power;
    struct evidence      evidence; /* of what binds it, for verdict_of; texts are constants */
    f64                  loss;     /* of the last evaluation; of the last step without one */
    struct event_metric  metrics[EVENT_METRICS_MAX]; /* of the same evaluation */
    i64                  metric_count;
    bool                 target_set, target_reached;
    struct train_scaling scaling;
    i64              weights_step; /* after which the weights were these: the last or the best */
    i64              rollbacks;
    i64              samples_skipped; /* that could not be had (data.on_error=skip) */
    enum stop_reason stopped;
    char             why[STOP_TEXT_MAX];     /* the same in words */
    f64              saved_s, saved_dollars; /* of the planned run, by ending early; NaN: nothing */
    struct train_saving saving;
    f64                 noise_scale;  /* of gradients, in samples (train/noise.h); NaN: not known */
    struct str          noise_absent; /* why it is not, though it was asked for; else empty */
    i64                 step_samples; /* of a whole step */
    struct waited {
        i32 ranks, machines; /* that trained together */
        i32 slowest;         /* rank that the others waited for; -1: there is no other */
        i64 waited_ns;       /* by each of the others, on average */
        i64 sent_bytes;      /* by this rank to the others, by programs of steps */
    } together;
    f64        dollars; /* of them, by the billing rule; NaN: the price is not known */
    i64        arena_bytes_planned, arena_bytes_used, peak_rss_bytes;
    i64        device_bytes; /* by the GPU's driver, its context apart; -1: no GPU */
    struct str out;          /* where the weights lie; empty: not saved. Lives as long
                                           as the settings */
};

/* What may be asked of a run from another thread while it runs. Signals ask the same: INT and TERM
 * to exit, USR1 to save (checkpoint.on_usr1). */
enum train_order { ORDER_NONE, ORDER_SAVE, ORDER_EXIT }; /* the later outranks the earlier */
struct train_orders {
    bool             fresh; /* begin anew: the checkpoints that are there are removed */
    pthread_mutex_t  lock;  /* of the rest */
    enum train_order pending;
    i64 deadline_ns; /* the earliest of ORDER_EXIT and SIGTERM, on the clock of os->now_ns; 0: none */
    f64  notice_s;   /* that a provider gave, from its word to then; 0: none did */
    char why[256];
};
#define TRAIN_ORDERS_NONE                                                                          \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }
/* Save, and go on or exit with STATUS_INTERRUPTED. Returns at once. */
void train_order(struct train_orders *o, enum train_order what, i64 deadline_ns, const char *why);

struct ranks;
struct session;

/* What a text model writes: UTF-8, the text without the prompt; empty where there is none. */
enum { TRAIN_TEXT_TOKENS = 200 }; /* at most */
struct train_text {
    struct str prompt, text;
};
/* With the weights that a run has now, in so many seconds at most; texts in perm. infer/specimen.h has one. */
typedef struct train_text train_writer(struct session *now, f64 seconds, struct arena *perm);

/* Who hears of the run, and what it is given. */
struct train_with {
    const struct subscriber *to; /* of its events; NULL: nobody */
    struct bill         *bill; /* of the run, whose clock the trainer keeps; NULL: it has its own */
    struct train_orders *orders; /* NULL: nobody gives any */
    struct ranks *ranks; /* that train this run together (backend/ranks/ranks.h); NULL: one */
    /* What the device can do by a catalogue, for MFU; NULL, or NaN: what is measured. */
    f64 (*peak_flops_s)(struct str device, struct str precision);
    /* Asked now and then, with an evaluation, for at most this part of the time; NULL: nobody wants to read it. */
    train_writer *write;
    f64           write_part;
};

/* Restores the run, before anything else of it is opened: its folder is taken, the newest valid checkpoint found, here
 * or in the object store, and what that decided (batch, precision, optimiser) is set in `settings`. *out is NULL only
 * where there is no memory; else it goes to train_restored, whatever is returned. `settings` and `with` must stay. */
struct restore;
enum status train_restore(struct os *os, struct settings *settings, const struct train_with *with,
                          struct restore **out, struct err *err);
/* Opens the rest, trains and closes everything; where st is not OK it only closes. As train_run. */
enum status train_restored(struct restore *r, enum status st, struct train_result *result,
                           struct err *err);
/* Both. STATUS_OK: the run came to its end, and `result` says whether the target was reached.
 * STATUS_INTERRUPTED: stopped by a signal; STATUS_NO: diverged; `result` holds what was done. */
enum status train_run(struct os *os, const struct settings *settings, const struct train_with *with,
                      struct train_result *result, struct err *err);

/* The folder of the run's checkpoints; empty: it keeps none. */
struct str train_checkpoint_dir(const struct settings *settings);
/* Where checkpoint.to is, and who may be asked for credentials. */
struct upload_settings train_upload_settings(struct os *os, const struct settings *settings);

/* Opens the data, builds the model and compiles it for this machine, and runs nothing: what
 * `frugal show` prints. */
struct train_compiled {
    struct program_set *set;
    struct str          optimiser, optimiser_reason; /* as in train_start */
};
enum status train_compile(struct os *os, const struct settings *settings, struct arena *perm,
                          struct train_compiled *out, struct err *err);

/* What a word of train.optimiser means; auto: the one that is compiled until training has chosen. */
enum optimiser_kind optimiser_of(struct str name);
enum shard_kind     shard_of(struct str word); /* of train.shard */

/* What a plan must know of a run: its data is opened and its model built, for no machine. */
/* The file that the weights are written to: train.out; in a folder, FOLDER/, one that infer/out_folder.h makes a folder
 * of Hugging Face's from. */
struct str train_out_file(struct arena *perm, struct str out);

struct train_outline {
    struct compile_config config;      /* for model_build with `model` */
    struct model         *model;       /* lives in perm */
    i64                   batch_total; /* samples of a step; 0: train.batch=auto */
    i64                   steps;       /* at most; 0: open-ended */
    i64                   epoch_steps;
    i64                   train_samples, eval_samples;
    i64                   tokens; /* of a sample; 0: samples are not sequences */
};
enum status train_outline(struct os *os, const struct settings *settings, struct arena *perm,
                          struct train_outline *out, struct err *err);

/* The batches that go with c->batch: the last of an epoch, those of evaluation. */
void train_batches(const struct train_config *t, i64 train_samples, i64 eval_samples,
                   struct compile_config *c);

/* The same, and all that a run would find out before its first step; loading and kernels are tried
 * out for a moment. */
struct train_checked {
    i64            arena_bytes, batch, accumulate;
    struct str     batch_reason;
    f64            load_s, compute_s; /* of a batch */
    struct finding findings[LINT_COUNT];
    i64            finding_count;
};
enum status train_check(struct os *os, const struct settings *settings, struct arena *perm,
                        struct train_checked *out, struct err *err);

#endif
