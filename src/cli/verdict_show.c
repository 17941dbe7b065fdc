/* verdict_show.c - what binds a run, and what would help, in words or as events. */
#include "cli/verdict_show.h"

static void show_event(struct verdict_shown *s, enum event_kind kind, const void *event)
{
    struct arena   scratch = s->scratch;
    struct textbuf b       = textbuf_new(&scratch);
    event_json(kind, event, &b);
    say_line(s->say, &b);
}

static void on_verdict(void *context, const struct event_verdict *e)
{
    struct verdict_shown *s = context;
    if (s->say->json) {
        show_event(s, EVENT_verdict, e);
        return;
    }
    s->so_far = e->so_far;
    if (s->so_far) return;
    say_result(s->say, "%-12s%.*s\n", "verdict", STR_ARG(e->text));
    if (e->usage_text.len) say_result(s->say, "%-12s%.*s\n", "usage", STR_ARG(e->usage_text));
}

static void on_problem(void *context, const struct event_problem *e)
{
    struct verdict_shown *s = context;
    if (s->say->json) show_event(s, EVENT_problem, e);
    else if (!s->so_far) say_result(s->say, "%-12s%.*s\n", "problem", STR_ARG(e->sentence));
}

struct subscriber verdict_subscriber(struct verdict_shown *s)
{
    return (struct subscriber){ .context = s, .on_verdict = on_verdict, .on_problem = on_problem };
}
