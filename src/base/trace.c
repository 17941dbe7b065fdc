/* trace.c - the ring behind trace.h. */
#include "base/trace.h"

struct trace {
    struct trace_event *events;
    i64                 events_max;
    i64                 added; /* ever; event n lies at n modulo events_max */
};

struct trace *trace_new(struct arena *perm, i64 events_max)
{
    ASSERT(events_max >= 1);
    struct trace *t = NEW(perm, struct trace, 1);
    t->events       = NEW(perm, struct trace_event, events_max);
    t->events_max   = events_max;
    return t;
}

void trace_add(struct trace *t, struct trace_event e)
{
    ASSERT(e.end_ns >= e.begin_ns);
    t->events[t->added++ % t->events_max] = e;
}

i64 trace_count(const struct trace *t) { return MIN(t->added, t->events_max); }

i64 trace_dropped(const struct trace *t) { return t->added - trace_count(t); }

struct trace_event trace_get(const struct trace *t, i64 index)
{
    ASSERT(index >= 0 && index < trace_count(t));
    return t->events[(trace_dropped(t) + index) % t->events_max];
}
