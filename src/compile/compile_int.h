/* compile_int.h - the passes, shared inside this room only. */
#ifndef COMPILE_COMPILE_INT_H
#define COMPILE_COMPILE_INT_H
#include "compile/compile.h"

struct plan; /* where everything lies: layout.c */

/* What a pass is given besides the graph. */
struct pass_input {
    const struct compile_config *config;
    const struct target         *target;
    enum program_id              id;
    graph_builder               *build; /* of the model */
    void                        *context;
    i64                          batch; /* samples that it reads */
    const struct graph          *train; /* UPDATE, SQUARE: whose gradients they are about */
    struct plan                 *plan;  /* STAGE_PLACED */
    bool                        *drop; /* STAGE_PLACED, by value: what is not kept. Recomputation */
    bool                         decided; /* fills it, unless that was done: for more rows, or for
                                              the parts of all ranks */
    bool                         copies;  /* products read copies of weights: copies.c */
};

/* Between the two, what persists in all programs gets its place. */
enum pass_stage { STAGE_GRAPH, STAGE_PLACED };

typedef enum status pass_fn(struct graph *g, const struct pass_input *in, struct arena scratch,
                            struct err *err);
typedef enum status rule_fn(const struct graph *g, const struct pass_input *in,
                            struct arena scratch, struct err *err);

enum { PASSES_MAX = 20 };

struct pass {
    const char     *name;
    u32             programs; /* bits of enum program_id: those it is for */
    enum pass_stage stage;
    bool (*applies)(const struct pass_input *in); /* by the configuration; NULL: always */
    pass_fn *run;
    rule_fn *holds; /* afterwards: rules.c */
};

/* The list: passes.c. NULL: there is no more. */
const struct pass *pass_at(i32 index);
bool               pass_applies(const struct pass *p, const struct pass_input *in);
/* Those of a stage in order, each followed by graph_verify and its rule; WORLD: one of these failed.
 * `texts`, which may be NULL, gets the graph after each. */
enum status run_passes(struct graph *g, enum pass_stage stage, const struct pass_input *in,
                       struct pass_list *texts, struct arena scratch, struct err *err);

rule_fn rule_deal, rule_early, rule_ahead, rule_shard, rule_build, rule_freeze, rule_hidden,
    rule_tables, rule_differentiate, rule_remove_dead, rule_precision, rule_fp8, rule_accumulate,
    rule_update, rule_square, rule_recompute, rule_fuse, rule_copies;

/* Appends the gradients of every trained parameter with respect to output "loss". */
enum status differentiate(struct graph *g, struct arena scratch, struct err *err);

/* Turns the program of a micro-batch into one whose gradients are added to the persistent ones. */
enum status add_gradients(struct graph *g, struct err *err);

/* Keeps activations and what products read in the low type of the configuration: precision.c. */
enum status assign_precision(struct graph *g, const struct compile_config *c, struct arena scratch,
                             struct err *err);

/* Copies of weights in the low type, which stay from update to update: copies.c. */
bool may_keep_copies(const struct compile_config *c, const struct target *target);
/* Casts of weights give way to copies. */
enum status read_copies(struct graph *g, struct arena scratch, struct err *err);
struct str  copy_source(const struct value *v); /* the weight whose copy it is; empty: it is none */
/* In the update: all of them, of so many numbers; -1: the programs read none. */
i32 copies_range(struct graph *g, const struct graph *train, i64 count);

/* Loss scaling, for fp16: loss_scale.c. The seed times the scale, for the way back. */
i32 scaled_seed(struct graph *g, const struct compile_config *c, i32 seed);
/* In the update: the sum of squares of true gradients, 1/scale to multiply them by, and the number of
 * this step among those that count, 0 where it does not. */
struct unscaled {
    i32 step, factor, sumsq;
};
struct unscaled unscale(struct graph *g, const struct compile_config *c, i32 sumsq);
i32 hyper_with_step(struct graph *g, i32 hyper, i32 step); /* hyper f32[4], its last replaced */

/* Has nodes take over the maps that follow them: fuse.c. `patterns`: bits of enum fusion, less those
 * the target lacks. */
void fuse(struct graph *g, u32 patterns, const struct target *target, struct arena scratch);

u32 fusion_of(i32 op); /* the pattern when a map follows this op; 0: none may */

/* Has the loss over a vocabulary and its gradient taken in parts: loss.c. */
void join_loss(struct graph *g, i64 part_bytes, struct arena scratch);

/* Drops nodes whose results nobody reads. */
void remove_dead(struct graph *g, struct arena scratch);

/* The program that clips and updates, over whole ranges of parameters. */
enum status build_update(struct graph *g, const struct compile_config *c, const struct graph *train,
                         i64 align_bytes, struct err *err);

/* What a group's size is rounded up to: each tensor to align_bytes; a group that is dealt out to ranks, so that it has
 * `parts` equal parts of so aligned bytes. */
struct room {
    i64 align_bytes, parts;
};

/* Has each rank keep its part of every parameter and gradient: deal.c. */
bool        deals(const struct compile_config *c);
enum status deal_out(struct graph *g, const struct pass_input *input, struct arena scratch,
                     struct err *err);
bool        will_deal(const struct compile_config *c, const struct value *v);
bool        plan_deals(const struct plan *p, struct str param); /* layout.c */
void        drop_gathered(const struct graph *g, bool *drop);   /* recomputation: gathered again */

bool gathers_ahead(const struct pass_input *in); /* ahead.c */
void gather_ahead(struct graph *g, struct arena scratch);
/* Sums gradients of matrices over the ranks as they come: early.c. */
bool        sums_early(const struct pass_input *in, const struct graph *train);
bool        is_summed_early(const struct graph *train, const struct value *grad);
enum status sum_early(struct graph *g, const struct pass_input *in, struct arena scratch,
                      struct err *err);
/* Sums gradients over the ranks, at the head of that program: shard.c. */
enum status shard_gradients(struct graph *g, const struct pass_input *in, struct err *err);
i32         gradients_of(struct graph *g, const struct graph *train,
                         struct room room); /* the range "grads": all but those of tables' rows */
/* Which part of what is dealt out this rank has, and of how many. */
i32 shard_place(const struct compile_config *c);
i32 shard_places(const struct compile_config *c);
/* Of collectives over all ranks, over those that share one state, and over those that have the same part of it, one in
 * each machine. copies: there are several; else the last has no meaning. */
struct attrs over_all(const struct compile_config *c);
struct attrs over_machine(const struct compile_config *c);
struct attrs over_copies(const struct compile_config *c);
bool         shard_has_copies(const struct compile_config *c);
/* train.shard=all: the copies' sums stand behind each gradient, and not in the update. */
bool copies_summed_early(const struct pass_input *in);
/* Among how many ranks each group but the hidden one is dealt out; 1: it is not. */
i32 shard_parts(const struct compile_config *c);
/* Among how many ranks hidden matrices are dealt out, each whole: Muon's momentum and its work; 1: they are not. */
i32  shard_owners(const struct compile_config *c);
void shard_matrix(struct graph *g, const struct compile_config *c, i32 matrix,
                  i32 owner); /* to all that share the state, once updated */
i32  shard_gradient(const struct graph *g,
                    struct str          range); /* this rank's part of its sum; -1: none */
i32  shard_square(struct graph *g, const struct compile_config *c, const struct graph *train,
                  struct room room); /* of all ranks' parts */
void shard_gather(struct graph *g, const struct compile_config *c, const struct graph *train,
                  struct room room); /* parameters, after their update */

/* The program that gives output "grad_square" over all gradients there are. */
enum status build_square(struct graph *g, const struct graph *train, i64 align_bytes,
                         struct err *err);

/* Which values a product reads, or what is made from them: among the first `nodes`. `leads` comes zeroed. */
void leads_to_product(const struct graph *g, i32 nodes, bool *leads);

/* Hidden layers' products on 8-bit operands: fp8.c. */
enum status narrow_products(struct graph *g, const struct pass_input *in, struct arena scratch,
                            struct err *err);

/* Marks the hidden matrices: hidden.c. Before differentiation, which reads weights too. */
void mark_hidden(struct graph *g, struct arena scratch);

/* Tables of which a step's rows alone are trained: tables.c. Before differentiation. */
void             mark_tables(struct graph *g, const struct compile_config *c);
enum tables_kind tables_optimiser(const struct compile_config *c); /* never AUTO */
/* The gradient of such a table, in the update. */
i32 table_rows(struct graph *g, const struct value *param);
i32 table_index(struct graph *g, const struct value *param);
/* In the update: `square` with the squares of their gradients; their own steps. */
i32  table_square(struct graph *g, const struct graph *train, i32 square);
void update_tables(struct graph *g, const struct compile_config *c, const struct graph *train,
                   i32 hyper, i32 factor);

/* Parameters lie in groups, each contiguous: hidden matrices (of an optimiser for them), the others
 * trained with decay, trained without, frozen, tables of which a step's rows alone are trained. */
enum group { GROUP_HIDDEN, GROUP_DECAY, GROUP_REST, GROUP_FROZEN, GROUP_TABLES, GROUP_COUNT };
enum group group_of(const struct value *param);
/* Elements of groups [from, to), padding counted. */
i64 group_count(const struct graph *g, enum group from, enum group to, struct room room);
/* Of the update: all of a group; `of`: params, grads. */
i32 group_range(struct graph *g, enum value_kind kind, const char *of, const struct graph *train,
                enum group which, struct room room);

/* What the update reads and writes are ranges of parameters, gradients and state: over a group
 * ("params/decay", "adam.m/rest"), over a rank's part of one ("params/decay#2"), over all that is trained ("grads"),
 * over all matrices ("grads/hidden"), or a matrix of a parameter from one of its rows on
 * ("grads[384]/h.0.attn.qkv.weight"). */
struct range {
    struct str of;    /* params, grads or a state's name */
    enum group group; /* GROUP_FROZEN: all before it; GROUP_HIDDEN: a matrix */
    struct str param; /* of a matrix; empty: all of them */
    i64        row;
    i32        part; /* of a group that is dealt out: from 1; 0: all of it */
};
struct str   range_name(struct arena *perm, struct range r);
struct range range_of(struct str name);

/* Offsets for everything: persistents of all graphs first, then each program's temporaries. What
 * is recomputed is decided between the two: it changes temporaries only. */
enum status lay_out_persistents(struct arena *perm, const struct target *target,
                                const struct compile_config *config, struct graph *const *graphs,
                                struct program_set *set, struct plan **out, struct err *err);
enum status lay_out_programs(struct arena *perm, const struct target *target,
                             struct graph *const *graphs, struct plan *p, struct arena scratch,
                             struct err *err);
enum status lay_out_program(struct arena *perm, const struct target *target, struct graph *g,
                            struct plan *p, struct program **out, struct arena scratch,
                            struct err *err);
/* End of the highest byte a program of this graph would touch. */
i64 program_peak(struct graph *g, const struct target *target, struct plan *p,
                 struct arena scratch);

/* Samples of the largest part that a rank has of a program's batch, or of the smallest; alone: all. */
i64 part_samples(const struct compile_config *c, enum program_id id, bool largest);

/* The same program for parts of several sizes, which recompute the same. */
struct parts {
    const struct graph *graphs[2];
    i32                 count;
};

/* Which forward values are not kept for the backward half but computed again: recompute.c. `drop`, by
 * value, comes zeroed. */
enum status choose_dropped(const struct parts *parts, const struct pass_input *in, bool *drop,
                           struct arena scratch, struct err *err);
/* Those that no choice keeps: gathered weights and what is cast from them, and unpacked ones. */
void drop_always(const struct graph *g, const struct compile_config *c, bool *drop);
/* Has them computed again where the backward half wants them. */
void drop_values(struct graph *g, const bool *drop, struct arena scratch);
/* Everything made inside one block of `every`, but for what the forward half reads outside. */
void drop_blocks(const struct graph *g, i64 every, bool *drop);
/* As little as the budget asks: recompute_auto.c. `drop` comes zeroed. */
enum status recompute_auto(const struct parts *parts, const struct pass_input *in, bool *drop,
                           struct arena scratch, struct err *err);
/* One program's temporaries and workspaces from `base` on; persistents are placed already. */
void place_temps(struct program *p, const struct target *target, i64 base, struct arena scratch);

#endif
