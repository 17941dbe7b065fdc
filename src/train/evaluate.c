/* evaluate.c - one pass over the held-out split: every sample once, each with its true weight. */
#include "train/mistakes.h"
#include "train/train_int.h"
#include <math.h>
#include <string.h>

struct totals {
    f64                  loss, hits;
    i64                  rows;
    struct scored       *scored; /* NULL: no scores */
    i64                  scored_count;
    struct arena         scratch; /* behind `scored` */
    struct eval_progress at;
    i64                  told_ns;
};

static void add_scores(struct session *s, struct totals *t, const struct batch *b,
                       struct arena scratch)
{
    const struct feeds *feeds  = dataset_feeds(s->data);
    f64                *scores = NEW(&scratch, f64, b->count);
    session_get_numbers(s, STR("scores"), scores, b->count);
    for (i32 f = 0; f < feeds->count; f++) {
        if (!str_eq(feeds->feed[f].name, STR("y"))) continue;
        const f32 *y = b->data[f];
        for (i64 i = 0; i < b->count; i++)
            t->scored[t->scored_count++] = (struct scored){ (f32)scores[i], y[i] > 0.5f };
    }
}

/* The ends of documents (feed `position`) predict nothing. */
i64 session_targets(const struct session *s, const struct batch *b)
{
    const struct feeds *feeds = dataset_feeds(s->data);
    i64                 rows = b->count * model_rows(s->model), count = 0;
    if (!feeds_find(feeds, STR("position"))) return rows;
    for (i32 f = 0; f < feeds->count; f++) {
        if (!str_eq(feeds->feed[f].name, STR("y"))) continue;
        const i32 *y = b->data[f];
        for (i64 i = 0; i < rows; i++) count += y[i] >= 0;
    }
    return count;
}

enum status evaluate_batch(struct session *s, const struct batch *b, struct err *err)
{
    bool            full = b->count == s->config.eval_batch || !s->set->programs[PROGRAM_EVAL_LAST];
    enum program_id id   = full ? PROGRAM_EVAL : PROGRAM_EVAL_LAST;
    struct program *p;
    if (!b->count && !session_deals(s)) return STATUS_OK; /* another rank has it */
    enum status st = session_program(s, id, MAX(session_rows(s, b), 1), &p, err);
    if (session_deals(s)) st = ranks_agree(s->ranks, st, err); /* or some would gather in vain */
    if (st) return st;
    if (b->count) session_put_batch(s, id, b);
    else session_put_nothing(s, id);
    s->backend->table->run(s->backend, p);
    return STATUS_OK;
}

/* Ten times a second, so that whoever watches sees that it moves; a short evaluation says nothing. */
static void tell_progress(struct session *s, struct eval_progress at, i64 *told_ns)
{
    static const i64 every_ns = 100000000;
    i64              now      = s->to ? clock_now(s->clock) : 0;
    if (!s->to || now - *told_ns < every_ns) return;
    *told_ns = now;
    emit_evaluating(s->to, &(struct event_evaluating){ &at });
}

static enum status add_batch(void *context, struct session *s, const struct batch *b,
                             struct err *err)
{
    struct totals *t = context;
    f64            loss, hits;
    (void)err;
    if (!b->count) return STATUS_OK;
    session_get_numbers(s, STR("loss"), &loss, 1);
    t->loss += loss;
    t->rows += session_targets(s, b);
    if (session_has(s, STR("hits"))) {
        session_get_numbers(s, STR("hits"), &hits, 1);
        t->hits += hits;
    }
    if (t->scored) add_scores(s, t, b, t->scratch);
    if (s->mistakes) mistakes_add(s->mistakes, s, b, t->scratch);
    t->at.samples += b->count;
    tell_progress(s, t->at, &t->told_ns);
    return STATUS_OK;
}

static void add_metric(struct train_eval *e, struct str name, f64 value)
{
    ASSERT(e->metric_count < EVENT_METRICS_MAX);
    e->metrics[e->metric_count++] = (struct event_metric){ name, value };
}

struct str target_metric(const struct session *s)
{
    struct str metric = s->settings->train.target_metric;
    return str_eq(metric, STR("auto")) ? model_metric(s->model) : metric;
}

enum status samples_check(const struct session *s, struct err *err)
{
    if (!dataset_count(s->data, SPLIT_TRAIN))
        return err_set(err, STATUS_USAGE, "the data set has no training samples");
    if (s->settings->eval_only && !dataset_count(s->data, SPLIT_EVAL))
        return err_set(
            err, STATUS_USAGE,
            "there are no samples to evaluate: give data.eval_path, or data.held_out above 0");
    return STATUS_OK;
}

enum status target_check(const struct session *s, struct err *err)
{
    struct str metric = target_metric(s);
    bool       known  = str_eq(metric, STR("loss")) || str_eq(metric, model_metric(s->model)) ||
                 (str_eq(metric, STR("accuracy")) && session_has(s, STR("hits")));
    if (known) return target_in_range(metric, s->settings->train.target, true, err);
    return err_set(err, STATUS_USAGE, "train.target_metric=%.*s: this model reports %.*s",
                   STR_ARG(metric), STR_ARG(model_metric(s->model)));
}

/* One loader for all evaluations: what it has learned of its work, and its first batches, are there. */
static enum status open_eval_loader(struct session *s, struct err *err)
{
    struct loader_config c = { .split   = SPLIT_EVAL,
                               .batch   = s->eval_all ? s->eval_all : s->config.eval_batch,
                               .part    = s->config.rank,
                               .parts   = s->config.ranks,
                               .forever = true,
                               .skip    = str_eq(s->settings->data.on_error, STR("skip")),
                               .options = s->settings->loader };
    return s->eval_loader ? STATUS_OK : loader_open(s->perm, s->data, &c, &s->eval_loader, err);
}

enum status evaluate_batches(struct session *s, batch_taker *take, void *context, struct err *err)
{
    enum status st = open_eval_loader(s, err);
    if (session_deals(s)) st = ranks_agree(s->ranks, st, err);
    for (bool ends = false; !st && !ends;) {
        struct batch *b = session_batch(s, s->eval_loader, s->eval_step, &st, err);
        if (session_deals(s)) st = ranks_agree(s->ranks, st, err); /* all have theirs */
        if (b && !st) st = evaluate_batch(s, b, err);
        if (b && !st) st = take(context, s, b, err);
        if (b) ends = b->ends_epoch;
        if (!st) st = session_check_signal(s, s->eval_step, err);
    }
    return st;
}

/* Every rank has seen its part of each batch. */
static enum status join_totals(struct session *s, struct totals *t, struct err *err)
{
    struct ranks *r         = s->ranks;
    f64           numbers[] = { t->loss, t->hits, (f64)t->rows };
    i64           begin[RANKS_MAX + 1], counts[RANKS_MAX] = { 0 };
    enum status   st = ranks_sum(r, numbers, COUNT_OF(numbers));
    t->loss          = numbers[0];
    t->hits          = numbers[1];
    t->rows          = (i64)numbers[2];
    if (!st && t->scored) {
        counts[r->rank] = t->scored_count;
        st              = ranks_gather(r, counts, r->count, sizeof *counts);
        begin[0]        = 0;
        for (i32 i = 0; i < r->count; i++)
            begin[i + 1] = begin[i] + counts[i] * (i64)sizeof *t->scored;
        memmove((u8 *)t->scored + begin[r->rank], t->scored,
                (size_t)(begin[r->rank + 1] - begin[r->rank]));
        if (!st) st = ranks_gather_parts(r, t->scored, begin);
        t->scored_count = begin[r->count] / (i64)sizeof *t->scored;
    }
    return st ? err_set(err, st, "%s", r->failed.text) : st;
}

enum status evaluate(struct session *s, struct train_eval *out, struct err *err)
{
    struct arena         scratch = s->scratch;
    struct totals        t       = { 0 };
    struct eval_progress at      = { out->step, 0, dataset_count(s->data, SPLIT_EVAL) };
    if (session_has(s, STR("scores"))) t.scored = NEW(&scratch, struct scored, at.samples_all);
    t.scratch      = scratch;
    t.at           = at;
    t.told_ns      = s->to ? clock_now(s->clock) : 0;
    s->eval_step   = out->step;
    enum status st = evaluate_batches(s, add_batch, &t, err);
    st             = ranks_agree(s->ranks, st, err);
    if (!st && s->ranks) st = join_totals(s, &t, err);
    if (st) return st;
    out->samples = dataset_count(s->data, SPLIT_EVAL);
    out->loss    = t.loss / (f64)MAX(1, t.rows);
    if (session_has(s, STR("hits"))) add_metric(out, STR("accuracy"), t.hits / (f64)t.rows);
    if (str_eq(model_metric(s->model), STR("perplexity")))
        add_metric(out, STR("perplexity"), exp(out->loss));
    if (t.scored) add_metric(out, STR("auc"), auc(t.scored, t.scored_count));
    f64 best = dataset_best_auc(s->data);
    if (!isnan(best)) add_metric(out, STR("best_auc"), best);
    out->target_reached = target_met(target_metric(s), s->settings->train.target, out);
    return STATUS_OK;
}

f64 eval_metric(struct str metric, const struct train_eval *e)
{
    if (str_eq(metric, STR("loss"))) return e->loss;
    for (i64 i = 0; i < e->metric_count; i++)
        if (str_eq(metric, e->metrics[i].name)) return e->metrics[i].value;
    return NAN;
}

/* A score that is no number has a loss that is none. */
const char *eval_explains(const struct train_eval *e)
{
    for (i64 i = 0; i < e->metric_count; i++)
        if (str_eq(e->metrics[i].name, STR("auc")) && isnan(e->metrics[i].value) &&
            isfinite(e->loss))
            return "auc is nan: all held-out samples have the same label, and auc compares two; "
                   "hold out "
                   "samples of both (data.held_out, data.eval_path)";
    return NULL;
}

bool target_met(struct str metric, f64 target, const struct train_eval *e)
{
    f64 value = eval_metric(metric, e);
    return metric_falls(metric) ? value <= target : value >= target; /* never with a NaN */
}
