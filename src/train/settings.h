/* settings.h - everything a run file can say, as plain structs. cli/options.def has one row for
 * each field; nothing below cli parses text. */
#ifndef TRAIN_SETTINGS_H
#define TRAIN_SETTINGS_H
#include "compile/compile.h"
#include "data/data.h"
#include "model/model.h"
#include "run/figures.h"
#include "run/ledger.h"
#include "run/notice.h"
#include "run/profile.h"
#include "run/program.h"

struct train_config {
    struct str recipe;           /* none | plain | modern: what cli fills in where nobody spoke */
    i64        epochs, steps;    /* whichever ends first; 0: not limited by it */
    i64        batch, eval_batch; /* batch 0: what fits and pays */
    i64        accumulate;       /* micro-batches of `batch` samples a step */
    i64        batch_total;      /* samples a step, from which accumulate follows; 0: it does not */
    bool       drop_last, shuffle;
    u64        seed;
    struct str optimiser;        /* sgd | adam | adamw | muon | auto */
    f64        lr, beta1, beta2, eps, decay, momentum, clip;
    bool       nesterov;
    f64        muon_lr, muon_momentum; /* of hidden matrices */
    f64        muon_rest_lr;     /* AdamW's beside Muon; NaN: lr */
    f64        muon_share;       /* auto: largest part of a step's work that muon may take */
    struct str muon_scale;       /* original | match_rms_adamw: how the rate follows the shape */
    struct str schedule;         /* constant | linear | cosine | step | wsd | one_cycle */
    f64        peak_part;        /* one_cycle: fraction of the steps in which it climbs */
    f64        decay_part;       /* wsd: fraction of the steps, at the end, in which it falls */
    i64        step_every;       /* step: steps between two drops */
    f64        step_factor;      /* step: what is left after a drop */
    struct str lr_scaling;       /* auto | none | linear | sqrt: from lr_batch to the real batch */
    i64        lr_batch;         /* samples a step that lr was chosen for; 0: these */
    f64        lr_end;           /* as a fraction of lr */
    i64        warmup;
    struct str warmup_unit;      /* steps | tokens | epochs | percent */
    struct str target_metric;    /* auto (the model's own) | accuracy | auc | loss | perplexity */
    f64        target;           /* NaN: none */
    i64        patience;         /* evaluations without a better one; 0: endless */
    f64        min_improvement;  /* what counts as better, in the metric's unit */
    f64        max_seconds, max_dollars; /* of the whole run; NaN: none */
    f64        forecast;         /* stop when the target is missed with this confidence; 0: never */
    bool       keep_best;        /* the weights of the best evaluation, not of the last step */
    i64        rollbacks;        /* at most; 0: a diverged run ends */
    f64        spike;            /* standard deviations of the loss */
    bool       noise_scale;      /* measure how many samples a step are worth having */
    i64        eval_every;       /* steps; 0: at the end of each epoch */
    i64        log_every;        /* steps between two told; 0: by the clock */
    struct str freeze;
    struct str init, out;        /* safetensors; empty: none */
    struct str gradients;        /* safetensors: gradients of the last step; empty: none */
    struct str rename[32];       /* "theirs=ours" */
    i64        rename_count;
    bool       init_missing_ok, init_extra_ok;
    struct str device;           /* auto | cpu | cuda */
    i64        threads;          /* 0: what the machine has */
    f64        usd_hour;         /* price of the machine; NaN: unknown, and said so */
    struct str precision;        /* fp32 | bf16 | fp16 | auto: of activations and products */
    struct str fp8;              /* off | auto | on: hidden layers' products on 8-bit operands */
    bool       wide_sums;           /* a residual stream stays f32 */
    bool       stochastic_rounding; /* of weights to that */
    f64        loss_scale, loss_scale_growth, loss_scale_backoff; /* fp16 */
    i64        loss_scale_every; /* good steps until it grows */
    struct str fuse[8];          /* all | none | patterns of compile.h: done in one pass over memory */
    i64        fuse_count;
    bool       deterministic;    /* the same bits each time; false: GPUs may add as it comes */
    struct str compile;          /* default | reduce-overhead | max-autotune: how hard kernels are chosen */
    struct str recompute;        /* none | all | every | auto */
    i64        recompute_every;  /* every: one block in so many */
    f64        memory_gib;       /* for the arena; NaN: what the machine has */
    struct str allow[16];        /* rules of lint.def that shall not be told */
    i64        allow_count;
};

/* What is kept of a run while it runs, so that it can go on after an interruption. */
struct checkpoint_config {
    struct str dir;        /* empty: nothing is */
    struct str every;      /* train/cadence.h */
    i64        keep;       /* the newest so many, and the best */
    struct str on_usr1;    /* save | exit: what SIGUSR1 asks for */
    f64        mtti_hours; /* how long machines last on average; NaN: not known */
    f64        mtti_shape; /* of the law by which they go (run/hazard.h); NaN: as most do */
    struct str to;         /* an object store they are carried to as well, s3:// or gs://; empty: none */
    i64        keep_remote;   /* as keep, there; 0: all */
    struct str storage_class; /* of what is carried; empty: the bucket's */
    struct str endpoint, region, style; /* store/s3.h */
};

/* Several runs from one file: `frugal sweep`. */
struct sweep_config {
    struct yaml *over;    /* what varies: a list of {key: values}, docs/formats/sweep.md */
    i64          count;   /* trials; 0: every combination */
    u64          seed;    /* of the draws */
    i64          eta;     /* of the trials at a rung one in so many goes on */
    f64          first;   /* part of a run before the first rung */
    i64          at_once; /* trials side by side */
    struct str   results; /* JSON lines, read back by the next sweep; empty: none */
};

struct settings {
    struct data_config  data;
    struct loader_options loader;
    struct model_config model;
    struct train_config train;
    struct checkpoint_config checkpoint;
    struct sweep_config sweep;
    struct spot_config  spot;
    struct run_config   run;
    struct program_config program;
    struct profile_config profile;
    struct log_config   log;
    bool       profile_only; /* the run ends with the last profiled step; no option */
    bool       timed;   /* its steps are compared: the machine's peak is not measured among them; no option */
    i64        replay;  /* batches that come again and again, an experiment (train/replay.h); no option */
    struct str choices; /* of kernels, from the checkpoint that is gone on from; no option */
};

#endif
