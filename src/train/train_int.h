/* train_int.h - a run's parts, shared inside this room only. */
#ifndef TRAIN_TRAIN_INT_H
#define TRAIN_TRAIN_INT_H
#include "backend/backend.h"
#include "backend/ranks/ranks.h"
#include "run/lookout.h"
#include "run/overfit.h"
#include "run/stop.h"
#include "train/noise.h"
#include "train/train.h"

/* precision.c: what products and activations are kept in, and why it was chosen; empty: by default. */
struct precision {
    enum dtype dtype;
    struct str reason;
};
struct precision precision_choose(struct str asked, enum dtype model, const struct target *t,
                                  struct arena *perm);
/* The target's `low` becomes F32 where this model would not run faster in it. */
void       precision_consider(struct target *t, struct model *m, struct arena scratch);
struct str precision_name(enum dtype t); /* the word of train.precision */

struct session;
void precision_resolve(struct session *s); /* what its settings, its target and its model come to */

/* Everything a run holds: opened in this order, closed in the opposite one. */
struct session {
    struct os             *os;
    struct remote_files   *remote; /* ours, to be closed; NULL: no remote data */
    const struct settings *settings;
    struct arena          *perm;    /* of the run, the caller's */
    struct arena           scratch; /* of whatever is going on */
    struct dataset        *data;
    struct loader         *eval_loader; /* NULL: nothing was evaluated yet */
    i64                    eval_step;   /* after which step it is, for messages */
    struct mistakes       *mistakes;    /* of a classifier; NULL: none are told */
    struct model          *model;
    struct backend        *backend;
    struct ranks          *ranks; /* that train together, the caller's; NULL: it is alone */
    i64 batch_all, eval_all; /* samples computed at once by all ranks; config has this one's part */
    struct target         target;
    struct str            note; /* what the backend has to tell the user; empty: nothing */
    struct precision      precision;
    struct compile_config config;
    struct str            batch_reason; /* of train.batch=auto; empty: as given */
    struct program_set   *set;
    i64           prepared; /* programs, so far: of packed rows some are made while it runs */
    struct str    optimiser_reason; /* of train.optimiser=auto or muon; else empty */
    f64           muon_share;       /* of a step's work, whether it was chosen or not */
    struct clock *clock;
    const struct subscriber *to;     /* who is shown the progress of evaluations; NULL: nobody */
    struct train_orders     *orders; /* NULL: nobody gives any */
    bool                     asked_to_save; /* by a signal or an order, and not done yet */
    bool                     asked_to_exit; /* likewise, for good */
    char                     exit_why[256]; /* "SIGTERM", or the order's words */
    bool                     exit_ordered;
    bool                     exit_agreed; /* of several ranks: all of them know */
    struct train_loaded      loaded;      /* weights that came from files */
    struct session *
        of; /* a run that goes on: whose weights it takes, and who hears the signals; NULL: it is alone */
};

/* optimiser.c */
enum tables_kind tables_of(struct str word);
struct str       optimiser_name(enum optimiser_kind kind);
f64 muon_share(f64 update_flops, f64 batch_flops, i64 accumulate); /* of a step: pure */
/* Once it is compiled: is what s->config says the optimiser to use? Else changes it there. */
enum status optimiser_resolve(struct session *s, struct err *err);

/* device.c: s->backend, s->target and what depends on them: precision and fp8. */
enum status session_backend(struct session *s, struct err *err);

/* together.c: what several ranks must agree on; all of it does nothing where there is one. */
/* Do the programs gather parameters from other ranks (train.shard=all)? Then all run the same ones. */
bool session_deals(const struct session *s);
/* Do those of gradients call other ranks, for that or because sums begin early? */
bool session_calls(const struct session *s);
/* What several ranks do otherwise than one would expect: weights that are not sharded, batch norms. */
void together_notes(struct session *s);
/* Samples of this rank's part of so many. */
i64 together_part(const struct session *s, i64 samples);
/* train.shard_over=machine: which part of what is dealt out this rank has, and of how many. */
enum status together_groups(struct session *s, struct err *err);
/* Batches of all ranks become this one's parts. USAGE: there are more ranks than samples. */
enum status together_batches(struct session *s, struct err *err);
/* Compiles in all ranks, and where they choose what is recomputed (together_compile.c), the same: for the least memory
 * of all ranks, which they must have told each other before. */
enum status together_memory(struct session *s, struct err *err);
enum status together_compile(struct session *s, graph_builder *build, void *context,
                             struct err *err);
/* A number, or text, of rank 0 becomes everybody's. */
enum status together_say(struct session *s, void *data, i64 bytes, struct err *err);
/* Weights, buffers and optimiser state of rank 0 become everybody's. */
enum status together_tensors(struct session *s, struct err *err);
/* Of several ranks on GPUs: joins these, once all have opened theirs. Each waits for all. */
enum status session_link(struct session *s, struct err *err);
enum status session_share_choices(struct session *s, struct err *err); /* of kernels: rank 0's */
/* Do all ranks have the same program, model and data? */
enum status together_same(struct session *s, struct err *err);

/* Data, model, backend and programs; the programs' memory is not allocated yet. */
enum status session_open_timed(struct session *s, struct clock *clock, struct os *os,
                               const struct settings *settings, struct arena *perm,
                               struct err *err);
/* The same, for who asks nobody how long it takes. */
enum status session_open(struct session *s, struct os *os, const struct settings *settings,
                         struct arena *perm, struct err *err);
/* The same for a graph of the caller's own: no data set, no model. */
enum status session_build(struct session *s, struct os *os, const struct settings *settings,
                          struct arena *perm, graph_builder *build, void *context, struct err *err);
/* Its two halves, for whoever decides by the device what to build: s->config says for how many samples. */
enum status session_device(struct session *s, struct os *os, const struct settings *settings,
                           struct arena *perm, struct err *err);
enum status session_compile(struct session *s, graph_builder *build, void *context,
                            struct err *err);
/* Allocates the arena, prepares kernels and sets the weights: from then on it can run. */
enum status session_start(struct session *s, struct err *err);
struct learning_rates { /* the learning rate in steps and for this batch */
    struct str schedule;
    f64        lr, lr_end, decay_part; /* of train_config */
    i64        warmup;                 /* steps */
};
struct limits {                          /* where the run ends */
    i64                   steps, epochs; /* 0: not limited by it */
    i64                   epoch_steps;
    i64                   in_pieces; /* samples of the first half of the steps, with data.pieces */
    struct learning_rates rates;
};
struct limits session_limits(const struct session *s); /* whichever of the two comes first */
/* Samples that an epoch has a multiple of (train.drop_last); 0: any. */
i64 session_whole(const struct session *s);
i64 session_epoch_samples(const struct session *s); /* that are trained */
i64 session_batch_all(const struct session *s);     /* samples computed at once, by all ranks */
i64 session_step_samples(const struct session *s);  /* of a whole step */
/* Is there memory in the host for `bytes` of copies, beside the arena where that lies there too? USAGE
 * with a sentence: "the run and WHAT need …: REMEDY". */
enum status session_fits_host(const struct session *s, i64 bytes, const char *what,
                              const char *remedy, struct err *err);
bool session_close(struct session *s); /* of a zeroed or half-opened one too; false: a thread that
                                                 does not end keeps `perm`, which must not be freed */
/* The next batch, or a signal or an order: a disk or a network may keep it waiting. NULL: *st says
 * why; STATUS_OK: it was the last. */
struct batch *session_batch(struct session *s, struct loader *l, i64 steps, enum status *st,
                            struct err *err);

/* Rows of a batch that are no padding; 0: the data has no lengths. */
i64 session_rows(const struct session *s, const struct batch *b);
i64 session_targets(const struct session *s, const struct batch *b); /* that are predicted */
/* Ready to run: the program for so many packed rows, or the only one. Made when it is first asked for. */
enum status session_program(struct session *s, enum program_id id, i64 rows, struct program **out,
                            struct err *err);

/* Host to arena and back by name; a name no program uses is left out. */
void session_put(struct session *s, struct str name, const void *data, i64 bytes);
/* Before a program of gradients, and before its scalars are put: copies of weights that the host has changed since. */
void session_renew_copies(struct session *s);
/* The feeds of a batch that this program reads. */
void session_put_batch(struct session *s, enum program_id id, const struct batch *b);
/* Of several ranks this one has no sample: valid ones that count for nothing. */
void session_put_nothing(struct session *s, enum program_id id);
void session_get(struct session *s, struct str name, void *data, i64 bytes);
/* The first numbers of a tensor of f32 or, with model.dtype f64, of f64. */
void session_get_numbers(struct session *s, struct str name, f64 *to, i64 count);
/* One number that is read later than it is asked for, so that other work may be asked for meanwhile. */
struct asked {
    ticket     ticket;
    enum dtype dtype;
    u8         bytes[sizeof(f64)];
};
void session_ask(struct session *s, struct str name,
                 struct asked *a); /* a stays where it is until then */
f64  session_answer(struct session *s, const struct asked *a);
/* What changes from step to step, as tensors. step counts from 0; rows are those of the whole
 * step, first_sample where in it this micro-batch begins. */
void session_put_scalars(struct session *s, i64 step, i64 rows, i64 first_sample, f64 lr);
bool session_has(const struct session *s, struct str name);

/* plan.c: the run compiled for this machine with another config, and forgotten; memory does not
 * limit it. Seconds go by rates. */
struct run_plan {
    i64 bytes[PROGRAM_COUNT];
    f64 flops[PROGRAM_COUNT], seconds[PROGRAM_COUNT];
};
enum status plan_of(struct session *s, const struct compile_config *config, struct run_plan *out,
                    struct err *err);
f64         program_seconds(const struct program *p, const struct target *t, struct arena scratch);

/* meter.c: the driver's counters of the GPU that is trained on. One that is not there counts nothing. */
struct meter {
    struct nvml        *nvml; /* NULL: none */
    struct nvml_device *device;
    i64                 begin_ns; /* of the loop's time */
    f64                 begin_j;
};
struct meter       meter_begin(struct session *s);
struct train_power meter_end(struct meter *m, struct session *s);
/* Part of a step's work that is not done for the second time: 1 without recomputing. */
f64 useful_share(struct session *s);
/* judge.c: what run/verdict.h wants to know. */
struct judged_counts {
    i64 steps, evaluations; /* of this process */
    i64 epoch_steps;
};
struct saving;
/* What the machine can do: not known before it is measured. */
struct judged_rates {
    bool          known;
    struct target target;
};
struct lookout *judge_begin(struct session *s);
/* Measures the machine: once, in a run of five seconds or more, and where a cap leaves the time for it. */
void            judge_rate(struct session *s, struct judged_rates *r, const struct stop *stop);
struct evidence judge_run(struct session *s, struct lookout_seen seen,
                          const struct judged_rates *rates, const struct saving *v,
                          const struct loader_stats *loaded, struct judged_counts counts);
/* FLOPs a second that a large product reaches here, in the run's precision. NaN: not measured. */
f64 peak_measured(const struct session *s, const struct judged_rates *r);

/* check.c */
f64 session_flops(const struct session *s, enum program_id id); /* 0: there is no such program */
f64 session_step_flops(const struct session *s);                /* of a whole step */
struct lint_facts facts_of(struct session *s, const struct limits *limits);
/* Adds how long a batch takes to load and to compute: tries both out for some tenths of a second. */
void facts_measure(struct session *s, struct loader *loader, struct lint_facts *f);

/* batch.c: config.batch and config.accumulate from what was asked for, the data and the memory. */
enum status batch_resolve(struct session *s, struct err *err);
bool tables_exceed(const struct program_set *set, i64 bytes); /* they and their state alone */
/* It does not fit: a smaller config.batch with a larger config.accumulate does. Not OK: that is no help. */
enum status batch_shrink(struct session *s, struct err *err);

/* Of fp16, after the last update: precision.c. */
struct train_scaling scaling_now(struct session *s);
enum status scaling_check(struct train_scaling s, i64 step, struct err *err); /* is it lost? */

/* Takes what signals and orders have come; true: one of them asked to stop, and *deadline_ns is when the process
 * is killed, on the clock of now_ns; 0: nobody says. */
bool session_must_exit(struct session *s, i64 *deadline_ns);
/* STATUS_INTERRUPTED and a sentence once a signal or an order has asked to stop; steps: done so far. */
enum status session_check_signal(struct session *s, i64 steps, struct err *err);

/* feed.c */
/* May the next batch be copied to a device that works behind the host's back before this step's loss is known? */
bool can_feed_ahead(const struct session *s);
/* May the next step's gradients be computed before this one's loss is known? Where the device works behind
 * the host's back, so that it need not wait while the host looks; and where that leaves no trace if the run
 * takes another turn: gradients are computed again, running statistics and fp8's scales would not be. */
bool can_look_ahead(const struct session *s);

/* weights.c */
enum status weights_init(struct session *s, struct err *err); /* random, then train.init */
enum status weights_copy(struct session *s, struct err *err); /* of the run that s->of is */
enum weights_part { WEIGHTS_VALUES, WEIGHTS_GRADIENTS };      /* both under the parameters' names */
enum status weights_save(struct session *s, enum weights_part part, struct str path,
                         struct err *err);
/* Before the first step is paid for: does train.init fit the model, can weights be written there, `copies` of them? */
enum status weights_check(struct session *s, struct err *err);
enum status weights_save_check(struct session *s, enum weights_part part, struct str path,
                               i64 copies, struct err *err);
bool        weights_are_kept(const struct session    *s,
                             const struct persistent *t); /* in files and checkpoints */
i64         weights_count(const struct session *s, bool trained_only);
/* Numbers from `from` on, in the type of the tensor. */
void weights_put(struct session *s, const struct persistent *t, i64 from, const f32 *values,
                 i64 count, struct arena scratch);
/* The same for a reader that hands over a stretch at a time: its context is a struct weights_to. */
struct weights_to {
    struct session          *s;
    const struct persistent *t;
    struct arena             scratch;
};
void weights_put_stretch(void *weights_to, i64 from, const f32 *values, i64 count);
/* The first number of a tensor that lies here: 0 but where ranks have parts of it. */
i64 weights_first(const struct session *s, const struct persistent *t);

/* weights_load.c */
struct st_folder;
struct st_source;
struct weights_sources { /* one item a tensor of ours: where it is in a file */
    struct st_source         *list;
    const struct persistent **ours;
    i64                       count;
};
struct weights_sources weights_sources_new(const struct session *s,
                                           struct arena         *perm); /* room for all */
/* By all threads. They have been checked. */
void weights_load(struct session *s, const struct st_folder *f, const struct weights_sources *all,
                  struct arena scratch);

/* hf_weights.c */
/* model.kind=hf: reads model.path/config.json. */
enum status hf_settings(struct os *os, struct model_config *c, struct arena *perm, struct err *err);
enum status session_model(struct session *s, struct err *err); /* by settings or model.path */
bool        init_is_folder(const struct session *s);           /* train.init */
enum hf_weights_do { HF_WEIGHTS_CHECK, HF_WEIGHTS_LOAD };
enum status hf_weights(struct session *s, struct str folder, enum hf_weights_do what,
                       struct err *err);

/* packed_weights.c: frozen matrices in fewer bits */
/* What lies beside its codes; NULL: it has none. */
const struct persistent *packed_part(const struct session *s, const struct persistent *codes,
                                     const char *leaf);
struct packer; /* threads and room for the largest; in scratch */
struct packer *packed_open(struct session *s, i64 numbers_max, struct arena *scratch);
/* From the folder, as numbers, to its bits: each of their matrices by itself. */
void packed_load(struct packer *p, const struct st_folder *f, const struct st_source *from,
                 const struct persistent *codes);
void packed_close(struct packer *p);

/* adapters.c */
/* A folder of adapters, as model.path or train.init with model.kind=hf, becomes train.lora, train.init and the
 * folder of the model that they are of. A second time nothing changes. */
enum status adapters_settings(struct os *os, struct settings *s, struct arena *perm,
                              struct err *err);
/* The same to a copy, where there is one. */
enum status adapters_resolve(struct os *os, const struct settings **s, struct arena *perm,
                             struct err *err);
bool        adapters_are_folder(const struct session *s); /* train.init is one */
enum status adapters_weights(struct session *s, enum hf_weights_do what, struct err *err);

/* schedule.c: pure. The warm-up in steps and the rate scaled to the batch. */
enum warmup_unit { WARMUP_STEPS, WARMUP_PERCENT, WARMUP_EPOCHS, WARMUP_TOKENS };
struct warmup {
    f64              count;
    enum warmup_unit unit;
};
enum status warmup_parse(struct str text, struct warmup *out, struct err *err); /* train.warmup */
struct pace {
    i64 epoch_steps, step_samples, step_rows;
    i64 steps; /* of the whole run; 0: open-ended */
};
struct learning_rates schedule_resolve(const struct train_config *c, struct pace pace);
/* step counts from 0; steps_max 0: open-ended (no decay). */
f64 schedule_lr(const struct learning_rates *c, i64 step, i64 steps_max);

/* evaluate.c */
enum status evaluate(struct session *s, struct train_eval *out,
                     struct err *err); /* out->step set */
enum status norms_check(const struct session *s,
                        struct err *err); /* is there a batch that a batch norm cannot take? */
/* Of s->config.eval_batch samples, or of eval_batch_last. */
enum status evaluate_batch(struct session *s, const struct batch *b, struct err *err);
/* Runs each held-out batch once; `take` sees it before the next. */
typedef enum status batch_taker(void *context, struct session *s, const struct batch *b,
                                struct err *err);
enum status evaluate_batches(struct session *s, batch_taker *take, void *context, struct err *err);
enum status target_check(const struct session *s, struct err *err);  /* can it ever be met? */
enum status samples_check(const struct session *s, struct err *err); /* are there any? */
struct str  target_metric(const struct session *s); /* auto became the model's own */
f64         eval_metric(struct str metric, const struct train_eval *e); /* NaN: it has none such */
bool        target_met(struct str metric, f64 target, const struct train_eval *e);

/* How far a run has come: with the tensors and the guard, all that its next step depends on. */
struct run_state {
    i64               step;                   /* done */
    i64               epoch;                  /* being trained, from 0 */
    i64               next_epoch, next_index; /* the sample that comes next */
    i64               steps_ns, waited_ns;    /* spent in steps; in them, for data */
    i64               elapsed_ns; /* of all starts of the run, when this was collected */
    f64               spent_usd;  /* likewise; NaN: the price is not known */
    i64               samples;    /* trained */
    f64               loss;       /* of the newest batch */
    struct noise      noise;
    struct overfit    overfit;
    struct train_eval last_eval;
    i64               eval_step; /* step of the last evaluation; -1: none */
    bool              eval_due;  /* after this step, and not done yet */
};

/* guard.c: run/stop.h applied to a session, and the copy of its state that it goes back to. */
struct guard {
    struct session *s;
    struct stop     stop;
    bool            keeps_best; /* train.keep_best, or what auto means here */
    u8 *copy; /* parameters and buffers; with rollbacks optimiser state; NULL: none wanted */
    i64 copy_bytes;
    i64 copy_step;                    /* after which it was taken */
    struct train_eval copy_eval;      /* what it was worth; samples 0: never evaluated */
    f64               lr_factor;      /* 1, halved at each roll-back */
    bool              restored;       /* at the end, the copy took the place of the last weights */
    struct checkpoint_writer *writer; /* that may be reading the copy; NULL: none */
};
bool guard_copies(const struct guard *g, const struct persistent *t); /* is it part of the copy? */
enum status      guard_open(struct guard *g, struct session *s, i64 steps_max, struct err *err);
void             guard_start(struct guard *g, i64 step); /* these weights are sound */
enum stop_action guard_eval(struct guard *g, const struct train_eval *e, f64 fall);
void             guard_roll_back(struct guard *g); /* to the copy, at half the rate */
/* At the end: the best weights where they are wanted, sound ones where the last are not (STATUS_NO:
 * diverged). False: they stay as they are. */
bool guard_restore_best(struct guard *g, i64 step, enum status st);
void guard_result(const struct guard *g, i64 step, struct train_result *r); /* r->seconds is set */

/* auc.c: area under the ROC curve, ties counted half; NaN if one class is missing or a score is NaN. Sorts. */
struct scored {
    f32  score;
    bool positive;
};
f64 auc(struct scored *samples, i64 count);

#endif
