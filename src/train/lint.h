/* lint.h - finds settings that would run and are likely a mistake, and says the remedy.
 *
 * Pure: facts in, findings out. A run tells them before its first step, `frugal doctor run.yaml`
 * exits with 1 for them, train.allow silences by name what is meant. Rules are rows of lint.def. */
#ifndef TRAIN_LINT_H
#define TRAIN_LINT_H
#include "train/settings.h"

struct lint_facts { /* settings, and what data, plan and machine make of them */
    const struct settings *settings;
    i64                    train_samples, eval_samples;
    bool                   binary;             /* data.kind=text of a file that is none */
    i64                    epoch_steps, steps; /* steps 0: the run has no end of its own */
    i64                    warmup;             /* in steps */
    f64                    lr;                 /* after it followed the batch */
    struct str             optimiser;          /* in force */
    enum dtype             precision, low;     /* in force; fastest on this machine */
    bool                   loss_scaled;
    i64                    memory_bytes;
    i64        train_bytes, plain_bytes; /* of the training program; without recomputing, 0:
                                                        not known */
    f64        flops, plain_flops;       /* of a micro-batch; the same without recomputing */
    f64        step_flops, eval_flops;   /* of a step; of an evaluation */
    i32        naive_count;              /* instructions of training by a kernel `…_naive` */
    struct str naive_op;                 /* the op of the first */
    i32        cores;
    bool       gpu;         /* computes, not the cores */
    f64        low_speedup; /* of a step in `low`, by the rates of this machine; NaN: not known */
    bool       disk_remote; /* checkpoint.dir outlives the machine */
    f64        save_every_s, mtti_s; /* NaN: by itself, or not known; how long the machine lasts */
    f64        load_s, compute_s;    /* of a batch, measured; NaN: not known */
};

enum {
    LINT_COUNT = 0
#define RULE(name, about) +1
#include "train/lint.def"
};

struct finding {
    i32        rule; /* of lint_rules */
    struct str text; /* what is wrong, and the remedy */
};

struct lint_rule {
    const char *name, *about;
};
extern const struct lint_rule lint_rules[LINT_COUNT];

/* How many of out[0..LINT_COUNT) it wrote, those of train.allow left out. */
i64         lint(const struct lint_facts *f, struct finding *out, struct arena *perm);
enum status lint_check_allowed(const struct train_config *t, struct err *err); /* rules all? */

#endif
