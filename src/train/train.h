/* train.h - a run from its settings to its result, and what it tells on the way.
 *
 * The trainer prints nothing: whoever starts it (the command line, a test, a live page) passes a
 * listener. The figures are plain numbers with their unit in the name; NaN means "not known",
 * and what is not known is never shown as 0. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H
#include "store/upload.h"
#include "base/os.h"
#include "run/account.h"
#include "run/quantiles.h"
#include "run/split.h"
#include "run/verdict.h"
#include "train/lint.h"
#include "train/settings.h"
#include "run/stop.h"
#include <pthread.h>

#define TRAIN_METRICS_MAX 4

struct train_metric {
    struct str name; /* "accuracy", "auc", "best_auc" (of made-up data), "perplexity": in [0, 1] but
                        for the last */
    f64        value;
};

/* Before the first step: what is about to run. */
struct train_start {
    struct str run;        /* its name for all its starts; empty: it keeps no checkpoints */
    i64        step;       /* that it goes on from */
    struct str device;     /* in words: the processor's name */
    i64        gpus;       /* that it holds */
    i64        parameters, parameters_trained;
    i64        train_samples, eval_samples;
    i64        sample_tokens;        /* 0: samples are not sequences */
    i64        batch, accumulate;    /* samples at once; so many times a step */
    struct str batch_reason;         /* why so many; empty: as given */
    bool       batch_norm;           /* its statistics are those of `batch` samples, not of a step */
    i64        steps, epochs;        /* as they will end at the latest; 0: not limited by it */
    i64        arena_bytes_planned;  /* by compile; nothing is allocated beyond it */
    struct str metric;               /* that the target, patience and sweeps are measured in */
    i64        checkpoint_bytes;     /* of the copy that checkpoints are made from; 0: none are */
    i64        copy_bytes;           /* of the state to go back to (train.rollbacks, keep_best); 0: none */
    f64        flops_step;           /* forward, backward and update of a full step */
    struct str precision;            /* fp32, bf16, fp16 or f64 */
    struct str precision_reason;     /* why; empty: by default */
    struct str optimiser;            /* sgd, adam, adamw or muon */
    struct str optimiser_reason;     /* with train.optimiser auto or muon; else empty */
    f64        muon_share;           /* its part of a step's work, used or not; 0: not asked for */
    f64        usd_hour;
    f64        lr, lr_given;         /* after and before it followed the batch (train.lr_batch) */
    const struct program_set *set;   /* what will run, and for which machine it was compiled */
    const struct target      *target;
};

/* Of fp16, whose loss is multiplied by a scale that finds itself. */
struct train_scaling {
    f64 scale;   /* NaN: not scaled */
    i64 skipped; /* steps whose gradients were not finite, and which were left out */
};

/* After a step. Rates are means over all steps so far, loading included, evaluation not. */
struct train_progress {
    i64                 step, steps;   /* done; of how many, 0: open */
    i64                 epoch, epochs; /* counted from 1 */
    i64                 samples;       /* trained by this process */
    f64                 elapsed_s;     /* since the run began, earlier starts included */
    f64                 eta_s;         /* NaN: open or too early */
    f64                 lr;
    f64                 loss;          /* mean over the rows of the newest batch known */
    struct train_metric metric;        /* of the same batch; empty name: none */
    struct train_scaling scaling;
    f64                 samples_per_s, tokens_per_s; /* tokens NaN where samples are not sequences */
    f64                 input_share;       /* part of the steps' time that they waited for data */
    f64                 model_flops_per_s; /* what is recomputed left out; NaN in the first seconds */
    f64                 peak_flops_s;      /* measured; NaN: not, or not yet */
    const struct quantiles *times;         /* of this process's steps; valid until the call returns, as is */
    const struct step_split *split;        /* where its time went */
    f64                 dollars;
    f64                 remote_age_s; /* of the newest checkpoint in the object store; 0: none */
};

/* After an evaluation. */
struct train_eval {
    i64                 step, epoch;
    f64                 elapsed_s, eval_s;
    i64                 samples;
    f64                 loss;
    struct train_metric metrics[TRAIN_METRICS_MAX];
    i64                 metric_count;
    bool                target_reached;
    struct forecast     forecast; /* of the target's metric; NaN: none was made */
    f64                 dollars;
};

/* The run diverged and goes back to sound weights. */
struct train_rollback {
    i64         step, to_step;
    i64         count, count_max; /* of roll-backs, with this one */
    f64         lr_factor;        /* that the schedule is multiplied by from now on */
    const char *why;
};

/* Something happened to the run's checkpoints. */
enum train_checkpoint_kind {
    CHECKPOINT_DAMAGED,  /* one is passed over, and the one before it tried */
    CHECKPOINT_RESUMED,  /* the run goes on from it; `text` empty: to the bit, else why not */
    CHECKPOINT_CHANGED,  /* a setting is another than when the run began */
    CHECKPOINT_INTERVAL, /* when they are taken from now on, and why */
    CHECKPOINT_SAVED,
    CHECKPOINT_FAILED, /* to be written; the run goes on */
    CHECKPOINT_UPLOADED,     /* it is in the object store */
    CHECKPOINT_NOT_UPLOADED, /* and is tried again */
    CHECKPOINT_BEHIND,       /* the newest there is old */
    CHECKPOINT_SHARED,       /* the store cannot keep a second writer out */
    CHECKPOINT_KIND_COUNT
};
struct str train_checkpoint_name(enum train_checkpoint_kind k); /* "saved": as events have it */
struct train_checkpoint {
    enum train_checkpoint_kind kind;
    i64                        step; /* that it holds */
    struct str                 text;
    f64                        blocked_s, persist_s; /* saved: the steps stood still; until it was safe */
    i64                        bytes;
    struct s3_sums             asked; /* uploaded: all that was asked of the object store so far */
};

/* Of all checkpoints of this start of the run. */
struct train_saving {
    i64 count, failed, late; /* written; not; that had to wait for the one before */
    i64 resumed_step;        /* -1: the run began anew */
    i64 step;                /* of the newest on the disk; -1: none */
    i64 bytes;               /* of it */
    f64 blocked_s;           /* the steps stood still */
    f64 total_s;             /* all that saving took from the run, slower steps included; NaN: too few
                                steps to tell */
    f64 persist_s;           /* of the last: from the snapshot to the disk */
    i64 remote_step;         /* of the newest in the object store; -1: none */
    i64 remote_puts, remote_gets; /* requests to it, by what they cost */
    i64 remote_bytes, remote_bytes_in; /* sent to it; read from it */
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
    i64                 steps, epochs;  /* done */
    f64                 seconds;        /* the whole run: data, compile, steps, evaluation, saving */
    f64                 first_step_ms;  /* from process start to the end of the first step */
    struct train_startup startup;
    f64                 samples_per_s, tokens_per_s; /* over the time spent in steps */
    f64                 steps_per_s;    /* of this process, as are the next three */
    f64                 step_p50_s, step_p95_s, step_p99_s; /* run/quantiles.h */
    f64                 input_share;    /* part of the steps' time that they waited for data */
    struct step_split   split;          /* of this process, from its first step to its end */
    f64                 flops_per_s;    /* in them, what is recomputed included */
    f64                 model_flops_per_s; /* in them, what is recomputed left out: for MFU */
    f64                 peak_flops_s;   /* measured; NaN: not, or the run was too short */
    struct train_power  power;
    struct evidence     evidence;       /* of what binds it, for verdict_of; texts are constants */
    f64                 loss;           /* of the last evaluation; of the last step without one */
    struct train_metric metrics[TRAIN_METRICS_MAX]; /* of the same evaluation */
    i64                 metric_count;
    bool                target_set, target_reached;
    struct train_scaling scaling;
    i64                 weights_step;   /* after which the weights were these: the last or the best */
    i64                 rollbacks;
    i64                 samples_skipped; /* that could not be had (data.on_error=skip) */
    enum stop_reason    stopped;
    char                why[STOP_TEXT_MAX]; /* the same in words */
    f64                 saved_s, saved_dollars; /* of the planned run, by ending early; NaN: nothing */
    struct train_saving saving;
    f64                 noise_scale;    /* of gradients, in samples (train/noise.h); NaN: not known */
    i64                 step_samples;   /* of a whole step */
    f64                 dollars;        /* seconds x usd_hour */
    i64                 arena_bytes_planned, arena_bytes_used, peak_rss_bytes;
    i64                 device_bytes; /* by the GPU's driver, its context apart; -1: no GPU */
    struct str          out;            /* where the weights lie; empty: not saved. Lives as long
                                           as the settings */
};

/* The steps that settings.profile asked for, and the machine's rates to hold them against. */
struct train_profile {
    const struct profile *profile; /* these are valid until the call returns */
    const struct target  *target;
};

/* What may be asked of a run from another thread while it runs. Signals ask the same: INT and TERM
 * to exit, USR1 to save (checkpoint.on_usr1). */
enum train_order { ORDER_NONE, ORDER_SAVE, ORDER_EXIT }; /* the later outranks the earlier */
struct train_orders {
    bool             fresh; /* begin anew: the checkpoints that are there are removed */
    pthread_mutex_t  lock;  /* of the rest */
    enum train_order pending;
    i64              deadline_ns; /* of ORDER_EXIT or SIGTERM, on the clock of os->now_ns; 0: none */
    f64              notice_s;    /* that a provider gave, from its word to then; 0: none did */
    char             why[256];
};
#define TRAIN_ORDERS_NONE { .lock = PTHREAD_MUTEX_INITIALIZER }
/* Save, and go on or exit with STATUS_INTERRUPTED. Returns at once. */
void train_order(struct train_orders *o, enum train_order what, i64 deadline_ns, const char *why);

/* Any of them may be NULL. They are called from the thread of train_run and should be quick:
 * on_step comes after every step, and the listener decides what it shows; on_done when the run came
 * to its end, diverged or was interrupted, even if its weights could not be written then. */
struct train_listener {
    void *context;
    const struct train_listener *next; /* is told after this one; NULL: nobody */
    struct account *account;           /* of the run's time, kept by the trainer; NULL: none */
    void (*on_start)(void *context, const struct train_start *);
    void (*on_note)(void *context, struct str text); /* no mistake, and worth knowing */
    void (*on_finding)(void *context, const struct finding *); /* most before the first step */
    void (*on_step)(void *context, const struct train_progress *);
    void (*on_eval)(void *context, const struct train_eval *);
    void (*on_rollback)(void *context, const struct train_rollback *);
    void (*on_done)(void *context, const struct train_result *);
    void (*on_checkpoint)(void *context, const struct train_checkpoint *);
    void (*on_profile)(void *context, const struct train_profile *); /* once, behind the last profiled step */
    struct train_orders *orders;
};

/* STATUS_OK: the run came to its end, and `result` says whether the target was reached.
 * STATUS_INTERRUPTED: stopped by a signal; STATUS_NO: diverged; `result` holds what was done. */
enum status train_run(struct os *os, const struct settings *settings,
                      const struct train_listener *listener, struct train_result *result,
                      struct err *err);

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

/* What a plan must know of a run: its data is opened and its model built, for no machine. */
struct train_outline {
    struct compile_config config;     /* for model_build with `model` */
    struct model         *model;      /* lives in perm */
    i64                   batch_total; /* samples of a step; 0: train.batch=auto and no total is given */
    i64                   steps;      /* at most; 0: open-ended */
    i64                   epoch_steps;
    i64                   train_samples, eval_samples;
    i64                   tokens;     /* of a sample; 0: samples are not sequences */
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
