/* verdict_events.c - the words and figures of a verdict's events. */
#include "run/verdict_events.h"
#include <math.h>

static const f64 judged_after_s = 10; /* there is little to win in less */

bool verdict_is_due(const struct step_split *s)
{
    return (f64)split_sum(s) * 1e-9 >= judged_after_s;
}

/* "GPU: oscillating …"; empty where all is well. */
static struct str usage_words(const struct evidence *e, struct arena *perm)
{
    f64            others = e->load.busy * (f64)e->load.core_count - e->load.own_cores;
    struct arena   part   = arena_part(perm, 1 << 12);
    struct textbuf b      = textbuf_new(perm);
    if (!usage_is_ill(e->usage.shape)) return STR("");
    textbuf_fmt(&b, "%s: %.*s", e->threads ? "cores" : "GPU",
                STR_ARG(usage_text(&e->usage, &part)));
    if (e->threads && others >= 0.5) textbuf_fmt(&b, "; other programs took %.1f cores", others);
    return textbuf_str(&b);
}

static void emit_one(const struct subscriber *to, const struct problem *a, struct dollars d,
                     struct arena scratch)
{
    emit_problem(to, &(struct event_problem){ .problem      = str_of(problems[a->kind].name),
                                              .text         = a->text,
                                              .fix          = a->fix,
                                              .gain         = a->gain,
                                              .dollars_run  = d.run,
                                              .dollars_year = d.year,
                                              .measured     = a->measured,
                                              .confirmed    = a->confirmed,
                                              .sentence     = problem_text(a, d, &scratch) });
}

void verdict_emit(const struct subscriber *to, const struct evidence *e, const struct verdict *v,
                  struct verdict_of_run run, struct arena scratch)
{
    struct arena words = scratch;
    emit_verdict(to, &(struct event_verdict){ .bound      = str_of(bound_name(v->bound)),
                                              .part       = v->part,
                                              .usage      = str_of(usage_name(e->usage.shape)),
                                              .busy       = e->usage.shape ? e->usage.mean : NAN,
                                              .problems   = v->count,
                                              .text       = verdict_text(v, &words),
                                              .usage_text = usage_words(e, &words),
                                              .so_far     = run.so_far });
    for (i64 i = 0; i < v->count; i++)
        emit_one(to, &v->problem[i], problem_dollars(&v->problem[i], run.usd, run.runs_per_month),
                 scratch);
}
