/* trace.h - a ring of timed events: who worked on what, from when to when.
 *
 * Fixed size, no allocation, the oldest overwritten. One ring a thread that writes; others read it
 * when the writer has stopped or stands still (between two pool_run). */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H
#include "base/arena.h"
#include "base/text.h"

struct trace_event {
    struct str name; /* must outlive the ring */
    i64        begin_ns, end_ns;
    i64        value; /* whatever the writer counts: bytes, samples, step */
};

struct trace;
struct trace      *trace_new(struct arena *perm, i64 events_max); /* >= 1 */
void               trace_add(struct trace *t, struct trace_event e);
i64                trace_count(const struct trace *t);          /* kept, at most events_max */
i64                trace_dropped(const struct trace *t);        /* overwritten */
struct trace_event trace_get(const struct trace *t, i64 index); /* 0 is the oldest kept */

#endif
