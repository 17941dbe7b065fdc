/* logs.c - a row every train.log_every steps; without it at most one a second, beside the first, the last
 * and those that were evaluated. A row waits for its evaluation, so that a step has one row. */
#include "job/logs.h"
#include <math.h>

static const f64 every_s = 1;

struct logs logs_init(const struct job *j)
{
    return (struct logs){ .job = j };
}

static void tell(struct logs *l)
{
    struct err why;
    while (figures_warning(l->log, &why)) job_say(l->job, "warning: %s", why.text);
}

static void flush(struct logs *l)
{
    if (l->due) figures_put(l->log, &l->row);
    l->due = false;
    tell(l);
}

static void on_start(void *context, const struct event_start *e)
{
    struct logs          *l = context;
    struct figures_config c = { .log    = l->job->settings->log,
                                .run    = e->run.len ? e->run : l->job->settings->run.name,
                                .metric = e->metric,
                                .step   = e->from_step };
    l->metric               = str_copy(l->job->perm, e->metric);
    l->log                  = figures_open(l->job->os, l->job->perm, &c);
    if (l->log && figures_port(l->log))
        job_say(l->job, "figures for Prometheus on http://127.0.0.1:%d/metrics", figures_port(l->log));
    tell(l);
}

/* What takes a moment to find out is left out where the step is not due: it may yet be evaluated. */
static struct figures row_of(const struct logs *l, const struct event_step *e, bool due)
{
    const struct quantiles *q = e->times;
    struct figures          f = { .step = e->step, .wall_ns = l->job->os->wall_ns(l->job->os) };
    for (i64 i = 0; i < FIGURE_COUNT; i++) f.value[i] = NAN;
    f.value[FIGURE_elapsed_s]     = e->elapsed_s;
    f.value[FIGURE_loss]          = e->loss;
    f.value[FIGURE_lr]            = e->lr;
    f.value[FIGURE_samples_per_s] = e->samples_per_s;
    f.value[FIGURE_tokens_per_s]  = e->tokens_per_s;
    f.value[FIGURE_input_share]   = e->input_share;
    f.value[FIGURE_mfu]           = e->mfu;
    f.value[FIGURE_dollars]       = e->dollars;
    f.split                       = *e->split;
    if (!due) return f;
    f.value[FIGURE_steps_per_s] = quantiles_per_s(q);
    f.value[FIGURE_step_p50_s]  = quantiles_at(q, 0.5);
    f.value[FIGURE_step_p95_s]  = quantiles_at(q, 0.95);
    f.value[FIGURE_step_p99_s]  = quantiles_at(q, 0.99);
    return f;
}

static void on_step(void *context, const struct event_step *e)
{
    struct logs *l     = context;
    i64          every = l->job->settings->train.log_every;
    if (!l->log) return;
    flush(l);
    bool last = e->steps && e->step == e->steps;
    l->due    = (every ? e->step % every == 0 : e->elapsed_s >= l->next_s) || e->step == 1 || last;
    if (l->due) l->next_s = e->elapsed_s + every_s;
    l->row = row_of(l, e, l->due);
}

static void on_eval(void *context, const struct event_eval *e)
{
    struct logs *l = context;
    if (!l->log || e->step != l->row.step)
        return; /* made up for after an interruption: that row is written */
    l->row.value[FIGURE_eval_loss] = l->row.value[FIGURE_eval_value] = e->loss;
    for (i64 i = 0; i < e->metrics.count; i++)
        if (str_eq(e->metrics.items[i].name, l->metric))
            l->row.value[FIGURE_eval_value] = e->metrics.items[i].value;
    l->due = true;
}

static void on_rollback(void *context, const struct event_rollback *e)
{
    struct logs *l = context;
    l->due         = false;
    if (l->log) figures_back(l->log, e->to_step);
}

static void on_done(void *context, const struct event_done *e)
{
    struct logs *l = context;
    if (!l->log || l->row.step != e->steps) return;
    l->due = e->steps > 0; /* wherever it ended */
    flush(l);
}

struct subscriber logs_subscriber(struct logs *l, const struct subscriber *next)
{
    return (struct subscriber){ .context     = l,
                                    .next        = next,
                                    .on_start    = on_start,
                                    .on_step     = on_step,
                                    .on_eval     = on_eval,
                                    .on_rollback = on_rollback,
                                    .on_done     = on_done };
}

void logs_close(struct logs *l)
{
    figures_close(l->log);
    tell(l);
}
