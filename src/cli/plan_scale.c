/* plan_scale.c - what a smaller model would cost: the same data, steps and batch, fewer blocks or narrower
 * ones. What it would learn less is not ours to say; a short run of each tells. */
#include "cli/plan.h"

static const struct {
    f64 depth, width;
} parts[] = { { 1, 1 }, { 0.75, 1 }, { 1, 0.75 }, { 0.5, 1 }, { 1, 0.5 }, { 0.5, 0.5 } };

static void show(struct cli *c, const struct question *q, const struct plan_variants *v,
                 const struct plan_row *r)
{
    struct arena s = *c->perm;
    if (c->say->json) {
        struct textbuf b = event_begin(&s, "variant");
        event_f64(&b, "depth_part", q->depth_part);
        event_f64(&b, "width_part", q->width_part);
        event_f64(&b, "parameters", v->parameters);
        event_f64(&b, "usd", r->bill.total);
        event_f64(&b, "hours", r->hours);
        event_str(&b, "machine", r->device->name);
        event_end(&b, c->say);
        return;
    }
    say_result(c->say, "  %5.0f %% %7.0f %% %10.*s %10.*s %10.*s  %.*s %s\n", 100 * q->depth_part,
               100 * q->width_part, STR_ARG(plan_parameters(&s, v->parameters)),
               STR_ARG(plan_dollars(&s, r->bill.total)), STR_ARG(plan_time(&s, r->hours)),
               STR_ARG(r->device->name), price_name(r->price));
}

enum status plan_scale(struct cli *c, const struct question *asked, struct arena scratch,
                       struct err *err)
{
    struct plan_result *r = NEW(c->perm, struct plan_result, 1);
    if (!c->say->json) {
        say_result(c->say, "\n");
        say_heading(c->say, "Smaller models, the best plan of each");
        say_result(c->say, "  %7s %9s %10s %10s %10s  %s\n", "depth", "width", "parameters",
                   "dollars", "time", "machine");
    }
    for (i64 i = 0; i < COUNT_OF(parts); i++) {
        struct question      q = *asked;
        struct plan_variants v;
        q.depth_part   = parts[i].depth;
        q.width_part   = parts[i].width;
        enum status st = plan_ask(c, &q, err);
        if (!st) st = plan_compile(c->perm, &q.workload, &v, scratch, err);
        if (st) return st;
        plan_search(&q.workload, &v, q.devices.items, q.devices.rented_count, q.devices.catalogue,
                    &q.limits, r, scratch);
        if (r->count) show(c, &q, &v, &r->rows[0]);
    }
    return STATUS_OK;
}
