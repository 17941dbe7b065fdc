/* plan.h - what `frugal plan` was asked, and how it answers. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H
#include "cli/commands.h"
#include "job/plan_devices.h"

struct question {
    struct plan_workload workload;
    struct plan_limits   limits;
    struct plan_devices  devices;
    f64                  depth_part, width_part; /* of the model's own: --scale_model */
    f64                  usd_hour;               /* of this machine; NaN: not given */
    bool                 ours;          /* frugal can train it: a run file, not a known model */
    struct str           run_file;      /* for the command line at the end */
    struct str        settings, ledger; /* as the ledger has them; where it is, if not as usual */
    struct plan_notes notes;
};

void note(struct question *q, struct str text);
/* What is to be trained, with parts of its depth and width: fills in the workload. */
enum status plan_ask(struct cli *c, struct question *q, struct err *err);

/* plan_show.c */
void plan_show(struct cli *c, const struct question *q, const struct plan_variants *v,
               const struct plan_result *r);

/* plan_words.c: the settings that carry a row out; and the row in the ledger, for the report to come. */
enum { PLAN_WORDS_MAX = 8 };
i64  plan_words(const struct plan_row *r, struct arena *perm, struct str out[PLAN_WORDS_MAX]);
void plan_record(struct cli *c, const struct question *q, const struct plan_row *r);

/* plan_scale.c: the best plan of narrower and shallower variants of the model. */
enum status plan_scale(struct cli *c, const struct question *q, struct arena scratch,
                       struct err *err);

#endif
