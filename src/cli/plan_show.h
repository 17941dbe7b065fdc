/* plan_show.h - how `frugal plan` answers. */
#ifndef CLI_PLAN_SHOW_H
#define CLI_PLAN_SHOW_H
#include "cli/commands.h"
#include "job/plan_question.h"

/* cmd_plan.c: what the command line asks of a plan. */
enum status plan_request_read(const struct request *r, struct plan_request *out, struct err *err);

/* plan_models.c */
void plan_models(struct cli *c);
void plan_models_names(struct cli *c); /* in a line, to stderr */

/* plan_text.c */
struct str plan_dollars(struct arena *perm, f64 usd);        /* $1,234.56 */
struct str plan_dollars_short(struct arena *perm, f64 usd);  /* $1,235, $12.35M */
struct str plan_billed_short(struct arena *perm, f64 hours); /* 1,235 */
struct str plan_time_short(struct arena *perm, f64 hours);   /* 12.5 d, 41 y */
struct str plan_usd_hour(struct arena *perm, f64 usd_h);     /* $0.8048 */
struct str plan_usd_hour_short(struct arena *perm, f64 usd_h);
struct str plan_billed(struct arena *perm, f64 hours);     /* 1,234.5 */
struct str plan_time(struct arena *perm, f64 hours);       /* 12.3 min, 47.9 h, 12.4 days */
struct str plan_parameters(struct arena *perm, f64 count); /* 8.03 G */
struct str plan_ms(struct arena *perm, f64 seconds);       /* 12.34 */

/* plan_show.c */
void       plan_show(struct cli *c, const struct plan_question *q);
struct str plan_place(struct arena *perm, const struct plan_row *r); /* "2 x aws p5.48xlarge" */
/* plan_table.c: the best rows, in columns that fit the terminal. */
enum { PLAN_SHOWN = 10 };
void plan_tables(struct cli *c, const struct plan_question *q);
/* plan_none.c: why there is no plan, and the nearest one. */
enum status plan_none(struct cli *c, const struct plan_question *q, struct err *err);
/* plan_scale.c: the best plan of narrower and shallower variants of the model. */
enum status plan_scale(struct cli *c, const struct plan_question *q, struct arena scratch,
                       struct err *err);

#endif
