/* plan.h - what `frugal plan` was asked, and how it answers. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H
#include "cli/commands.h"
#include "job/plan_devices.h"
#include "train/config.h"

struct question {
    struct plan_workload workload;
    struct plan_limits   limits;
    struct plan_devices  devices;
    f64                  depth_part, width_part; /* of the model's own: --scale_model */
    f64                  usd_hour;               /* of this machine; NaN: not given */
    bool                 ours;                   /* a run file, not a known model */
    bool              stand_in; /* frugal has no such model: one with as many weights is priced */
    f64               parameters_used;  /* by a token; 0: all */
    struct str        run_file;         /* for the command line at the end */
    struct str        settings, ledger; /* as the ledger has them; where it is, if not as usual */
    struct plan_notes notes;
};

void note(struct question *q, struct str text);

/* plan_ask.c: what is to be trained, with parts of its depth and width: fills in the workload. */
enum status plan_ask(struct cli *c, struct question *q, struct err *err);
/* --flag N, a number above 0 times `scale`; NaN: it was not given. */
enum status plan_number(const struct request *r, i32 flag, f64 scale, f64 *out, struct err *err);

/* plan_settings.c: KEY=VALUE of a known model, and what of any run is not left to the search. */
struct known_settings {
    struct compile_config config;
    i64                   batch, steps; /* 0: not given */
};
enum status plan_known_settings(struct cli *c, struct question *q, struct known_settings *out,
                                struct err *err);
enum status plan_given(struct cli *c, const struct config *config, struct plan_given *out,
                       struct err *err);
enum status plan_flags(const struct request *r,
                       struct err           *err); /* those that contradict each other */

/* plan_models.c */
void        plan_models(struct cli *c);
enum status plan_unknown(struct cli *c, struct str name,
                         struct err *err); /* USAGE, with the list */

/* plan_where.c: leaves out machines that the flags exclude. */
enum status plan_where(struct cli *c, struct question *q, struct err *err);

/* plan_text.c */
struct str plan_dollars(struct arena *perm, f64 usd);      /* $1,234.56 */
struct str plan_usd_hour(struct arena *perm, f64 usd_h);   /* $0.8048 */
struct str plan_billed(struct arena *perm, f64 hours);     /* 1,234.5 */
struct str plan_time(struct arena *perm, f64 hours);       /* 12.3 min, 47.9 h, 12.4 days */
struct str plan_parameters(struct arena *perm, f64 count); /* 8.03 G */

/* plan_show.c */
void       plan_show(struct cli *c, const struct question *q, const struct plan_variants *v,
                     const struct plan_result *r);
struct str plan_place(struct arena *perm, const struct plan_row *r); /* "2 x aws p5.48xlarge" */
/* The cheapest row that frugal itself can carry out; -1: none, or another program's model. */
i64 plan_first_trained(const struct question *q, const struct plan_result *p);
/* plan_none.c: why there is no plan, and the nearest one. */
enum status plan_none(struct cli *c, const struct question *q, const struct plan_result *r,
                      struct err *err);

/* plan_words.c: the settings that carry a row out; and the row in the ledger, for the report to come. */
enum { PLAN_WORDS_MAX = 8 };
i64  plan_words(const struct plan_row *r, struct arena *perm, struct str out[PLAN_WORDS_MAX]);
void plan_record(struct cli *c, const struct question *q, const struct plan_row *r);

/* plan_scale.c: the best plan of narrower and shallower variants of the model. */
enum status plan_scale(struct cli *c, const struct question *q, struct arena scratch,
                       struct err *err);

#endif
