/* verdict_show.c - what binds a run, in words or as events. */
#include "cli/verdict_show.h"
#include <math.h>

static const f64 judged_after_s = 10; /* there is little to win in less */

bool verdict_due(const struct evidence *e)
{
    return (f64)split_sum(&e->split) * 1e-9 >= judged_after_s;
}

static void show_usage(struct say *s, const struct evidence *e, struct arena scratch)
{
    f64 others = e->load.busy * (f64)e->load.core_count - e->load.own_cores;
    if (!usage_is_ill(e->usage.shape)) return;
    say_result(s, "%-12s%s: %.*s", "usage", e->threads ? "cores" : "GPU",
               STR_ARG(usage_text(&e->usage, &scratch)));
    if (e->threads && others >= 0.5) say_result(s, "; other programs took %.1f cores", others);
    say_result(s, "\n");
}

static void show_events(struct say *s, const struct evidence *e, const struct verdict *v, f64 usd_run,
                        f64 runs_per_month, struct arena scratch)
{
    struct textbuf b = event_begin(&scratch, "verdict");
    event_str(&b, "bound", str_of(bound_name(v->bound)));
    event_f64(&b, "part", v->part);
    event_str(&b, "usage", str_of(usage_name(e->usage.shape)));
    event_f64(&b, "busy", e->usage.shape ? e->usage.mean : NAN);
    event_i64(&b, "problems", v->count);
    event_end(&b, s);
    for (i64 i = 0; i < v->count; i++) {
        const struct problem *a = &v->problem[i];
        struct dollars       d = problem_dollars(a, usd_run, runs_per_month);
        b                      = event_begin(&scratch, "problem");
        event_str(&b, "problem", str_of(problems[a->kind].name));
        event_str(&b, "text", a->text);
        event_str(&b, "fix", a->fix);
        event_f64(&b, "gain", a->gain);
        event_f64(&b, "dollars_run", d.run);
        event_f64(&b, "dollars_year", d.year);
        event_f64(&b, "measured", a->measured);
        event_bool(&b, "confirmed", a->confirmed);
        event_end(&b, s);
    }
}

void verdict_show(struct say *s, const struct evidence *e, const struct verdict *v, f64 usd_run,
                  f64 runs_per_month, struct arena scratch)
{
    if (s->json) {
        show_events(s, e, v, usd_run, runs_per_month, scratch);
        return;
    }
    say_result(s, "%-12s%.*s\n", "verdict", STR_ARG(verdict_text(v, &scratch)));
    show_usage(s, e, scratch);
    for (i64 i = 0; i < v->count; i++) {
        struct dollars d = problem_dollars(&v->problem[i], usd_run, runs_per_month);
        say_result(s, "%-12s%.*s\n", "problem", STR_ARG(problem_text(&v->problem[i], d, &scratch)));
    }
}
