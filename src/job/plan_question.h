/* plan_question.h - one plan, from what the user asked to its ranked rows:
 *
 *     request ─► plan_ask ─► plan_devices_open, plan_where ─► plan_learn ─► plan_search ─► predictions in the ledger
 *                (the workload)  (the machines)                (from the ledger)
 *
 * `frugal plan` parses the request and prints the question with its answer. */
#ifndef JOB_PLAN_QUESTION_H
#define JOB_PLAN_QUESTION_H
#include "job/plan_devices.h"
#include "train/config.h"

/* What the user asked. NaN, 0 and empty: not given. */
struct plan_request {
    struct str        command; /* that the settings are given to */
    struct str        what; /* a run file, a config.json or a model's name; empty: settings alone */
    const struct str *settings;
    i64               setting_count; /* KEY=VALUE */
    f64               deadline_s, budget_usd;
    i64               runs, gpus;
    f64               tokens, target, batch_tokens; /* of a known model, as is `context` */
    i64               context, lora;                /* lora: the rank of adapters */
    struct str        cloud, prices, machine, region, freeze;
    bool              spot, on_demand;
};

struct plan_question {
    struct os                 *os;
    struct arena              *perm;
    const struct plan_request *request;
    struct plan_workload       workload;
    struct plan_limits         limits;
    struct plan_devices        devices;
    f64                        depth_part, width_part; /* of the model's own: plan_smaller */
    f64                        usd_hour;               /* of this machine; NaN: not given */
    bool                       ours;                   /* a run file, not a known model */
    bool                       unknown; /* neither a file nor a model that is known */
    bool              stand_in; /* frugal has no such model: one with as many weights is priced */
    f64               parameters_used;  /* by a token; 0: all */
    struct str        run_file;         /* for the command line at the end */
    struct str        settings, ledger; /* as the ledger has them; where it is, if not as usual */
    struct plan_notes notes;
    struct plan_variants *variants; /* the answer */
    struct plan_result   *result;
};

/* Asks, searches, and keeps the best rows' predictions in the ledger. The request must stay. Closed in any case. */
enum status plan_open(struct plan_question *q, struct os *os, const struct plan_request *r,
                      struct arena *perm, struct arena scratch, struct err *err);
void        plan_close(struct plan_question *q);

/* ---- the steps of plan_open ---- */

/* plan_ask.c: what is to be trained, with parts of its depth and width: fills in the workload. */
enum status plan_ask(struct plan_question *q, struct err *err);
/* plan_given.c: settings of a known model, and what of any run is not left to the search. */
struct known_settings {
    struct compile_config config;
    i64                   batch, steps; /* 0: not given */
    struct lora_config    lora;
};
enum status plan_known_settings(struct plan_question *q, struct known_settings *out,
                                struct err *err);
enum status plan_given(const struct plan_request *r, const struct config *config,
                       struct plan_given *out, struct err *err);
/* plan_where.c: leaves out machines that the request excludes. */
enum status plan_where(struct plan_question *q, struct err *err);
/* plan_words.c: the settings that carry a row out; and the row in the ledger, for the report to come. */
enum { PLAN_WORDS_MAX = 8 };
const char *shard_word(const struct plan_row *r); /* of train.shard and train.shard_over */
const char *shard_over_word(const struct plan_row *r);
i64         plan_words(const struct plan_question *q, const struct plan_row *r, struct arena *perm,
                       struct str out[PLAN_WORDS_MAX]);
void        plan_record(const struct plan_question *q, const struct plan_row *r);

/* ---- what the rows say besides (plan_reasons.c) ---- */

/* Why frugal itself cannot carry a row out; NULL: it can. */
const char *plan_cannot(const struct plan_question *q, const struct plan_row *r);
bool        plan_has_gpu(const struct plan_row *r);
/* The cheapest row that frugal itself can carry out; -1: none, or another program's model. */
i64  plan_first_trained(const struct plan_question *q);
f64  plan_price_age_days(const struct plan_question *q, const struct plan_row *r);
bool plan_price_is_old(const struct plan_question *q, const struct plan_row *r);
f64  plan_row_usd_hour(const struct plan_row *r); /* of all its machines */
/* Where links hold its GPUs up, so that a remedy should be named. */
bool plan_is_held_up(const struct plan_row *r);

/* A row of spot machines beside the same on demand. False: there is nothing to compare. */
struct plan_spot {
    f64 discount, pays_from; /* parts of the price; from 0 and less: even without a discount */
};
bool plan_spot(const struct plan_question *q, const struct plan_row *r, struct plan_spot *out,
               struct arena scratch);

/* What would help GPUs that links hold up; NaN: it does not fit, or makes no sense. */
struct plan_remedies {
    f64 short_gradients_usd; /* sent as bf16 */
    f64 larger_batch_usd;    /* four times as large, for a quarter of the steps */
    f64 fewer_usd, fewer_h;  /* on half the GPUs */
};
struct plan_remedies plan_remedies(const struct plan_question *q, const struct plan_row *r,
                                   struct arena scratch);

/* Under a deadline: spot where there is any, on-demand when behind. False: there is no deadline or no such price. */
struct plan_mix {
    f64 usd, in_time;
};
bool plan_mix(const struct plan_question *q, const struct plan_row *r, struct plan_mix *out,
              struct arena scratch);

/* The ops of a step that take longest, with their parts of its time; communication and loading are among them where
 * they add to it. */
struct plan_op_part {
    const char *name;
    f64         part;
};
i64 plan_ops(const struct plan_row *r, struct plan_op_part *out, i64 most);

/* The best plan of a shallower or narrower model: the same data, steps and batch. What it would learn less is not
 * said; a short run of each tells. */
enum { PLAN_SMALLER_COUNT = 6 };
struct plan_smaller {
    f64             depth_part, width_part, parameters;
    bool            found;
    struct plan_row row;
};
enum status plan_smaller(const struct plan_question *asked, i64 index, struct plan_smaller *out,
                         struct arena scratch, struct err *err);

#endif
