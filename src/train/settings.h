/* settings.h - everything a run file can say, as plain structs. train/options.def has one row for
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
#include "run/supervised_config.h"

struct train_config {
    struct str recipe;        /* none | plain | modern: what cli fills in where nobody spoke */
    i64        epochs, steps; /* whichever ends first; 0: not limited by it */
    i64        batch;         /* samples a step; 0: what fits and pays */
    i64        micro_batch;   /* of them at once; 0: all, or as many as fit */
    i64        eval_batch;
    bool       drop_last;
    struct str shuffle; /* true | false | by_length: lines of similar length share a step */
    u64        seed;
    struct str optimiser; /* sgd | adam | adamw | muon | auto */
    f64        lr, beta1, beta2, eps, decay, momentum, clip;
    bool       nesterov;
    struct str tables;   /* auto | dense | sgd | adagrad | adam: how a ranker's table is trained */
    f64        muon_lr;  /* of hidden matrices; with optimiser auto of all that muon trains */
    struct str schedule; /* constant | linear | cosine | step | wsd | one_cycle */
    f64        decay_part;      /* wsd: fraction of the steps, at the end, in which it falls */
    i64        lr_batch;        /* samples a step that lr was chosen for; 0: these */
    f64        lr_end;          /* as a fraction of lr */
    struct str warmup;          /* 100 | 5% | 2 epochs | 1e6 tokens */
    struct str target_metric;   /* auto (the model's own) | accuracy | auc | loss | perplexity */
    f64        target;          /* NaN: none */
    i64        patience;        /* evaluations without a better one; 0: endless */
    f64        min_improvement; /* what counts as better, in the metric's unit */
    f64        max_seconds, max_dollars; /* of the whole run; NaN: none */
    f64        forecast; /* stop when the target is missed with this confidence; 0: never */
    struct str
        keep_best; /* auto | true | false: the weights of the best evaluation, not of the last step */
    i64                rollbacks;   /* at most; 0: a diverged run ends */
    bool               noise_scale; /* measure how many samples a step are worth having */
    i64                eval_every;  /* steps; 0: at the end of each epoch */
    i64                log_every;   /* steps between two told; 0: by the clock */
    struct str         freeze;
    struct lora_config lora;      /* adapters are trained, everything else is frozen */
    struct str         init, out; /* safetensors; empty: none */
    struct str         gradients; /* safetensors: gradients of the last step; empty: none */
    struct str rename[32]; /* "theirs=ours"; "any": init need not hold all parameters and no more */
    i64        rename_count;
    struct str device;              /* auto | cpu | cuda */
    i64        threads;             /* 0: what the machine has */
    f64        usd_hour;            /* price of the machine; NaN: unknown, and said so */
    struct str precision;           /* fp32 | bf16 | fp16 | auto: of activations and products */
    struct str fp8;                 /* off | auto | on: hidden layers' products on 8-bit operands */
    bool       wide_sums;           /* a residual stream stays f32 */
    bool       stochastic_rounding; /* of weights to that */
    f64        loss_scale;          /* fp16: at the beginning */
    struct str fuse[8]; /* all | none | patterns of compile.h: done in one pass over memory */
    i64        fuse_count;
    struct str shard;         /* of several ranks: none | state | all */
    struct str shard_over;    /* all | machine: among whom */
    f64        join_s;        /* that they wait for one another */
    bool       deterministic; /* the same bits each time; false: GPUs may add as it comes */
    struct str compile; /* default | reduce-overhead | max-autotune: how hard kernels are chosen */
    struct str recompute;  /* none | all | auto | N: one block in so many */
    f64        memory_gib; /* for the arena; NaN: what the machine has */
    struct str allow[16];  /* rules of lint.def that shall not be told */
    i64        allow_count;
};

/* What is kept of a run while it runs, so that it can go on after an interruption. */
struct checkpoint_config {
    struct str dir;        /* empty: nothing is */
    struct str every;      /* train/cadence.h */
    i64        keep;       /* the newest so many, and the best; in the object store too */
    struct str on_usr1;    /* save | exit: what SIGUSR1 asks for */
    f64        mtti_hours; /* how long machines last on average; NaN: not known */
    struct str to; /* an object store they are carried to as well, s3:// or gs://; empty: none */
    f64        upload_wait_s; /* at the end of a run; NaN: by what is left (store/upload.h) */
    struct str storage_class; /* of what is carried; empty: the bucket's */
};

/* Several runs from one file: `frugal sweep`. */
struct sweep_config {
    struct yaml *over;    /* what varies: a list of {key: values}, docs/formats/sweep.md */
    i64          count;   /* trials; 0: every combination */
    bool         halving; /* the worse half ends at each rung */
    i64          at_once; /* trials side by side */
    struct str   results; /* JSON lines, read back by the next sweep; empty: none */
};

struct settings {
    struct data_config       data;
    struct loader_options    loader;
    struct model_config      model;
    struct train_config      train;
    struct checkpoint_config checkpoint;
    struct sweep_config      sweep;
    struct spot_config       spot;
    struct run_config        run;
    struct program_config    program;
    struct profile_config    profile;
    struct log_config        log;
    bool                     profile_only; /* the run ends with the last profiled step; no option */
    bool
        timed; /* its steps are compared: the machine's peak is not measured among them; no option */
    bool eval_only; /* programs for evaluation and no others; no option */
    i64  replay; /* batches that come again and again, an experiment (train/replay.h); no option */
    bool keep_passes;    /* compile keeps each graph after each pass, to be shown; no option */
    i32  queues;         /* as on a device that has so many, to test it on others; no option */
    i32  shown_ranks;    /* train_compile: as for one of so many, which has most to do; no option */
    i32  shown_machines; /* that these are on, for train.shard_over; 0: one */
    bool resumed;        /* the weights come from a checkpoint; no option */
    struct str choices;  /* of kernels, from the checkpoint that is resumed; no option */
    struct str optimiser_chosen; /* by train.optimiser=auto, from the same; no option */
    bool       precision_kept;   /* train.precision=auto is what that says; no option */
    bool       lr_given;         /* train.lr, by more than a recipe; no option */
    f64        hazard_shape; /* that the ledger has found for such machines (run/hazard.h); 0: as most; no option */
};

#endif
