/* compile.h - graphs in, a set of programs over one arena out; nothing is allocated after this.
 *
 * passes.c has the list of passes over a graph, each followed by the verifier and a rule of its own.
 * Optimiser and clipping are a program of their own. */
#ifndef COMPILE_COMPILE_H
#define COMPILE_COMPILE_H
#include "ir/program.h"

enum graph_mode { MODE_TRAIN, MODE_EVAL };

/* Builds the forward graph for `batch` samples. It must end with an output "loss" [1], the SUM of the
 * rows' losses: dividing by their number is the host's, through the scalar "loss_seed". */
typedef enum status graph_builder(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                                  struct err *err);

enum optimiser_kind { OPTIMISER_SGD, OPTIMISER_ADAM, OPTIMISER_ADAMW, OPTIMISER_MUON };

/* How Muon's rate follows a matrix of A by B: sqrt(max(1, A/B)), or 0.2 sqrt(max(A, B)), which makes
 * its steps as large as AdamW's (Liu et al. 2025, arXiv 2502.16982). */
enum muon_scale { MUON_ORIGINAL, MUON_MATCH_RMS_ADAMW };

/* How tables of rows (struct value.table) are trained: as every other parameter, or only the rows that a step
 * reads. AUTO: these, where they are few, by the kin of the optimiser. */
enum tables_kind { TABLES_AUTO, TABLES_DENSE, TABLES_SGD, TABLES_ADAGRAD, TABLES_ADAM };

/* AUTO: where the target measures that it is faster. */
enum fp8_kind { FP8_OFF, FP8_ON, FP8_AUTO };

enum recompute_kind { RECOMPUTE_NONE, RECOMPUTE_ALL, RECOMPUTE_EVERY, RECOMPUTE_AUTO };

struct recompute_config {
    enum recompute_kind kind;
    i64                 every;        /* EVERY: blocks 1, 1 + every, … are recomputed */
    i64                 memory_bytes; /* AUTO: of the whole arena; 0: what the target has */
};

/* How the state of a run is dealt out to the ranks that train together. NONE: each has all of it; STATE: the
 * optimiser's state is dealt out (shard.c); ALL: parameters and gradients too (deal.c). */
enum shard_kind { SHARD_NONE, SHARD_STATE, SHARD_ALL };

struct scaling_config { /* of the loss, where precision is F16: torch.amp.GradScaler's */
    f64 initial, growth, backoff;
    i64 every; /* good steps until it grows */
};

bool fusion_find(struct str name, u32 *bits); /* adds the pattern of that name */

struct compile_config {
    enum optimiser_kind   optimiser;
    enum tables_kind      tables;
    f64                   eps, decay; /* decay applies to parameters marked so */
    bool                  nesterov;
    enum muon_scale       muon_scale;
    f64                   clip;       /* largest gradient norm; 0: no clipping */
    struct str            freeze;     /* glob over parameter names; empty: none */
    enum dtype            precision;  /* of activations and products: F32, BF16 or F16 */
    bool                  frozen_low; /* frozen matrices are kept in bf16 where precision is that */
    bool                  wide_sums;  /* a residual stream, and its gradient, stay f32 */
    bool                  stochastic; /* parameters are rounded to it at random, while training */
    enum fp8_kind         fp8; /* hidden layers' products on 8-bit operands, while training */
    struct scaling_config scaling;
    struct recompute_config recompute;
    struct str recompute_chosen; /* AUTO: compile_chosen of another rank; empty: here */
    u32        fuse;             /* set of enum fusion */
    bool       square;           /* a program for the squared norm of the gradients, too */
    i64        accumulate;       /* micro-batches of `batch` samples a step; 0 or 1: one */
    i64        batch, batch_last, eval_batch, eval_batch_last; /* 0: no such program. Of
                                       several ranks: this one's part */
    i64        batch_all,
        batch_last_all;          /* of all ranks together, who cut them into parts that differ by at
                                      most one sample; 0: nobody says */
    i32             rank, ranks; /* that train together; ranks 0 or 1: it is alone */
    enum shard_kind shard;
    i32             place,
        places; /* of the ranks that share one sharded state, those of a machine; places 0: all
                                      ranks do. Each machine has as many, and holds a copy */
    i64  step_samples; /* of all ranks, a whole step; 0: batch and accumulate say it */
    bool keep_passes;  /* set->passes is filled, for people to read */
    f64  row_share;    /* of the rows that a batch may have, the data's average; 0: all */
};

/* Persistents made by compile: gradients "NAME.grad", optimiser state "adam.m", "adam.v" or
 * "sgd.momentum" (one range each over all trained parameters), "muon.momentum" (over the hidden
 * matrices; then Adam's is over the rest), scalars "hyper" and "hyper.muon" f32[4] = {lr, beta1 or
 * momentum, beta2, step}, "loss_seed" [1] = 1 / rows of the batch, outputs "grad_norm" and
 * "grad_square". Of a table whose rows are updated alone "NAME.grad" (rows), "NAME.grad.index" and
 * "NAME.adam.m", "NAME.adam.v" or "NAME.adagrad.sum". In F16 also
 * state "loss_scale" [1], "loss_scale.counts" f32[3] = {good steps since it grew, bad steps, good
 * steps}, and output "grad_unscale" [1], which makes the true gradients of the last step. */
enum status compile(struct arena *perm, const struct target *target,
                    const struct compile_config *config, graph_builder *build, void *context,
                    struct program_set **out, struct arena scratch, struct err *err);

/* What a set recomputes, as bytes, for another rank's config.recompute_chosen. */
struct str compile_chosen(const struct program_set *set, struct arena *perm);
/* For just so many rows, of average length or any other, to look at: no part of the set. */
enum status compile_rows(struct arena *perm, const struct program_set *set, enum program_id id,
                         i64 rows, struct program **out, struct arena scratch, struct err *err);
/* The program that packs into the smallest capacity that holds `rows`, made over the same arena when it is
 * first asked for; the config's, the builder's and the target's memory must still be there. Where such a
 * program would need more of the arena than there is (its kernels want other workspaces), and with 8-bit
 * products, whose choice the capacity would change, it is the largest. */
enum status compile_holding(struct arena *perm, struct program_set *set, enum program_id id,
                            i64 rows, struct program **out, struct arena scratch, struct err *err);

#endif
