/* job.h - what is to be trained, compiled in every way that a plan may choose. */
#ifndef PLAN_JOB_H
#define PLAN_JOB_H
#include "plan/work.h"

struct plan_job {
    struct str name;
    struct compile_config
                   config; /* its precision, recomputing and batch are the plan's to choose */
    graph_builder *build;
    void          *context;
    void          *deeper;   /* NULL, or the same model with depth[1] blocks instead of depth[0]: */
    i64            depth[3]; /* the one meant has depth[2] and follows from the two */
    i64            batch_total; /* samples of a step, which no plan changes */
    i64            steps;
    i64            eval_samples, evals; /* of an evaluation; how many */
    i64            tokens;              /* of a sample; 0: samples are not sequences */
    f64            load_sample_s;       /* that a core needs to load one */
};

enum { PLAN_VARIANTS = 5 };

struct plan_variant {
    bool                    low; /* activations and products of two bytes */
    struct recompute_config recompute;
    struct step_work        work;
};

struct plan_variants {
    struct plan_variant all[PLAN_VARIANTS];
    f64                 model_flops; /* of a sample, forward and backward, nothing twice */
};

enum status plan_compile(struct arena *perm, const struct plan_job *job, struct plan_variants *out,
                         struct arena scratch, struct err *err);

const char *recompute_text(const struct plan_variant *v); /* the word of train.recompute */

#endif
