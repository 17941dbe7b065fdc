/* workload.h - what is to be trained, compiled in every way that a plan may choose. */
#ifndef PLAN_WORKLOAD_H
#define PLAN_WORKLOAD_H
#include "plan/work.h"

struct plan_workload {
    struct str name;
    struct compile_config
                   config; /* its precision, recomputing and batch are the plan's to choose */
    graph_builder *build;
    void          *context;
    void          *deeper;   /* NULL, or the same model with depth[1] blocks instead of depth[0]: */
    i64            depth[3]; /* the one meant has depth[2] and follows from the two */
    /* What the compiled model stands for, where it is another program's (plan/known.h); 0: itself. */
    f64 parameters;     /* all: of experts a token uses few, and memory holds every one */
    f64 attention_part; /* of the compiled model's work in attention itself */
    i64 batch_total;    /* samples of a step, which no plan changes */
    i64 steps;
    i64 eval_samples, evals; /* of an evaluation; how many */
    i64 tokens;              /* of a sample; 0: samples are not sequences */
    f64 load_sample_s;       /* that a core needs to load one */
    /* What else is compiled for that batch: the short last one, evaluation's. NULL: nothing. */
    void (*others)(const void *context, struct compile_config *config);
    const void *others_context;
};

enum { PLAN_VARIANTS = 5 };

/* Rules of compiling differ by the kind of machine: what is fused, how a loss is cut up. */
enum plan_kind { PLAN_CPU, PLAN_GPU, PLAN_KINDS };
enum plan_kind plan_kind_of(const struct target *t);

struct plan_variant {
    bool                    low; /* activations and products of two bytes */
    struct recompute_config recompute;
    struct step_work        work;
};

struct plan_variants {
    struct plan_variant of[PLAN_KINDS][PLAN_VARIANTS];
    f64                 parameters;
    f64                 model_flops; /* of a sample, forward and backward, nothing twice */
    i64                 compiles;    /* that it took */
};

enum status plan_compile(struct arena *perm, const struct plan_workload *job,
                         struct plan_variants *out, struct arena scratch, struct err *err);

/* Memory as compile lays it out, to the byte, for micro-batches of that size on that machine; what
 * was asked before is remembered. -1: it cannot be compiled. */
enum { EXACT_MAX = 128 };
struct plan_ranks { /* of whom this is the first; ranks 1: it is alone */
    i64             ranks, places;
    enum shard_kind shard;
};
struct plan_exact {
    struct plan_asked {
        const struct plan_variant *variant;
        i64 (*work_bytes)(const struct target *, const struct graph *, const struct node *);
        struct plan_ranks of;
        i64               micro, bytes;
        bool              adds;
    } asked[EXACT_MAX];
    i64 count, compiles;
};
i64 plan_exact_bytes(struct plan_exact *e, const struct plan_workload *job,
                     const struct plan_variant *v, const struct target *t, struct plan_ranks of,
                     i64 micro, i64 accumulate, struct arena scratch);

const char *recompute_text(const struct plan_variant *v); /* the word of train.recompute */
const char *precision_text(enum dtype t);                 /* and of train.precision */

#endif
