/* logs.c - a row every train.log_every steps; without it at most one a second, beside the first, the last
 * and those that were evaluated. A row waits for its evaluation, so that a step has one row. */
#include "job/logs.h"
#include <math.h>

static const f64 every_s = 1;

struct logs logs_init(const struct job *j)
{
    return (struct logs){ .job = j, .row.step = -1, .step = -1 };
}

static void tell(struct logs *l)
{
    struct err why;
    while (figures_warning(l->log, &why)) job_say(l->job, "warning: %s", why.text);
}

/* What takes a moment to find out is left until it is known that the step becomes a row. */
static void add_pace(struct logs *l)
{
    event_step_fill(&l->last);
    l->row.value[FIGURE_steps_per_s] = l->last.steps_per_s;
    l->row.value[FIGURE_step_p50_s]  = l->last.step_p50_s;
    l->row.value[FIGURE_step_p95_s]  = l->last.step_p95_s;
    l->row.value[FIGURE_step_p99_s]  = l->last.step_p99_s;
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
    if (e->from_step) l->step = e->from_step;
    l->log = figures_open(l->job->os, l->job->perm, &c);
    if (l->log && figures_port(l->log))
        job_say(l->job, "figures for Prometheus on http://127.0.0.1:%d/metrics",
                figures_port(l->log));
    tell(l);
}

static struct figures row_of(const struct logs *l, const struct event_step *e)
{
    struct figures f = { .step = e->step, .wall_ns = l->job->os->wall_ns(l->job->os) };
    for (i64 i = 0; i < FIGURE_COUNT; i++) f.value[i] = NAN;
    f.value[FIGURE_elapsed_s]     = e->elapsed_s;
    f.value[FIGURE_loss]          = e->loss;
    f.value[FIGURE_lr]            = e->lr;
    f.value[FIGURE_samples_per_s] = e->samples_per_s;
    f.value[FIGURE_tokens_per_s]  = e->tokens_per_s;
    f.value[FIGURE_input_share]   = e->input_share;
    f.value[FIGURE_mfu]           = e->mfu;
    f.value[FIGURE_dollars]       = e->dollars;
    f.value[FIGURE_busy]          = e->busy;
    f.split_known                 = e->split != NULL; /* a replayed or supervised run has none */
    if (e->split) f.split = *e->split;
    return f;
}

/* Steps after this one did not happen: the run diverged, or a killed program goes on from an older one. */
static void go_back(struct logs *l, i64 step)
{
    l->due      = false;
    l->row.step = -1;
    l->step     = step;
    figures_back(l->log, step);
}

static void on_step(void *context, const struct event_step *e)
{
    struct logs *l     = context;
    i64          every = l->job->settings->train.log_every;
    bool         again =
        l->row.step >= 0 && e->step == l->row.step; /* a program says more of the same step */
    bool last = e->steps && e->step == e->steps;
    f64  loss = l->row.value[FIGURE_eval_loss], value = l->row.value[FIGURE_eval_value];
    if (!l->log) return;
    if (e->step <= l->step && !again) go_back(l, e->step - 1);
    if (!again) flush(l);
    bool now = (every ? e->step % every == 0 : e->elapsed_s >= l->next_s) || e->step == 1 || last;
    if (now && !l->due) l->next_s = e->elapsed_s + every_s;
    l->due |= now;
    l->step = e->step;
    l->last = *e;
    l->row  = row_of(l, e);
    if (again) l->row.value[FIGURE_eval_loss] = loss, l->row.value[FIGURE_eval_value] = value;
    if (l->due) add_pace(l);
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
    add_pace(l);
    l->due = true;
}

static void on_rollback(void *context, const struct event_rollback *e)
{
    struct logs *l = context;
    if (l->log) go_back(l, e->to_step);
}

static void on_done(void *context, const struct event_done *e)
{
    struct logs *l = context;
    if (!l->log || l->row.step != e->steps) return;
    l->due = e->steps > 0; /* wherever it ended */
    add_pace(l);
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
