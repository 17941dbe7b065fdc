/* plan_scale.c - prints what a smaller model would cost. */
#include "cli/plan_show.h"

static void show(struct cli *c, const struct plan_smaller *v)
{
    const struct plan_row *r = &v->row;
    struct arena           s = *c->perm;
    if (c->say->json) {
        struct textbuf b = event_begin(&s, "variant");
        event_f64(&b, "depth_part", v->depth_part);
        event_f64(&b, "width_part", v->width_part);
        event_f64(&b, "parameters", v->parameters);
        event_f64(&b, "usd", r->bill.total);
        event_f64(&b, "hours", r->hours);
        event_str(&b, "machine", r->device->name);
        event_i64(&b, "machines", r->machines);
        event_i64(&b, "gpus", r->device->row && r->device->row->gpus ? r->gpus : 0);
        event_str(&b, "market", str_of(price_name(r->price)));
        event_end(&b, c->say);
        return;
    }
    say_result(c->say, "  %5.0f %% %7.0f %% %10.*s %10.*s %10.*s  %.*s %s\n", 100 * v->depth_part,
               100 * v->width_part, STR_ARG(plan_parameters(&s, v->parameters)),
               STR_ARG(plan_dollars(&s, r->bill.total)), STR_ARG(plan_time(&s, r->hours)),
               STR_ARG(plan_place(&s, r)), price_name(r->price));
}

enum status plan_scale(struct cli *c, const struct plan_question *asked, struct arena scratch,
                       struct err *err)
{
    if (!c->say->json) {
        say_result(c->say, "\n");
        say_heading(c->say, "Smaller models, the best plan of each");
        say_result(c->say, "  %7s %9s %10s %10s %10s  %s\n", "depth", "width", "parameters",
                   "dollars", "time", "machine");
    }
    for (i64 i = 0; i < PLAN_SMALLER_COUNT; i++) {
        struct plan_smaller smaller;
        enum status         st = plan_smaller(asked, i, &smaller, scratch, err);
        if (st) return st;
        if (smaller.found) show(c, &smaller);
    }
    return STATUS_OK;
}
