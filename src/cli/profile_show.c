/* profile_show.c - the events of a profile as tables, or as lines of JSON. Figures of tables are those of one step, the
 * mean of all profiled ones; events have the sums. */
#include "cli/profile_show.h"
#include "base/digits.h"
#include "run/chrome.h"
#include <math.h>
#include <unistd.h>

enum {
    RESERVE_GIB   = 4, /* address space only */
    SPARK_COLUMNS = 60,
    HOLDERS_SHOWN = 6,
    ROWS_MAX      = 20, /* of the table of ops */
    WHAT_COLUMNS  = 60,
    WHAT_NARROW   = 20, /* on a terminal of fewer than WIDE columns */
    WIDE          = 140
};

static enum part part_of(struct str name)
{
    i64 i = 0;
    while (i < PART_LOOP_LAST && !str_eq(name, str_of(clock_part_name((enum part)i)))) i++;
    return (enum part)i;
}

/* --- by part --- */

static void on_part(void *context, const struct event_profile_part *e)
{
    struct profile_shown *shown = context;
    struct say           *say   = shown->cli->say;
    enum part             part  = part_of(e->part);
    f64                   all = (f64)shown->ns, steps = (f64)shown->steps;
    if (say->json) return;
    if (part == 0) {
        say_result(say, "\n");
        say_heading(say, "A step by part");
        say_result(say, "  %-12s %10s %7s\n", "part", "ms", "share");
    }
    if (e->ns)
        say_result(say, "  %-12.*s %10.4f %6.1f%%  %s\n", STR_ARG(e->part),
                   1e-6 * (f64)e->ns / steps, 100 * (f64)e->ns / all, clock_part_help(part));
    if (part == PART_LOOP_LAST)
        say_result(say, "  %-12s %10.4f %6.1f%%\n", "all", 1e-6 * all / steps, 100.0);
}

/* --- by op --- */

static const struct say_column op_columns[] = {
    { "op", -18, 0 },   { "calls", 6, 1 }, { "ms", 9, 0 },
    { "share", 7, 0 },  { "FLOPs", 9, 3 }, { "moved", 9, 5 },
    { "memory", 9, 4 }, { "roof", 6, 2 },  { " shapes", -WHAT_NARROW - 1, 0 },
};
static const struct say_table ops_table = { op_columns, COUNT_OF(op_columns), "  ", " " };

static void op_words(const struct profile_shown *shown, const struct event_profile_op *r,
                     struct arena scratch)
{
    struct say *say   = shown->cli->say;
    f64         steps = (f64)shown->steps;
    struct str  flops = text_si(&scratch, r->flops / steps),
               moved  = text_bytes(&scratch, r->bytes / steps);
    struct str memory = text_bytes(&scratch, (f64)r->memory_bytes), roof = STR("-"),
               what = r->shapes;
    bool narrow     = say->table_columns && say->table_columns < WIDE;
    if (!isnan(r->roof)) roof = str_fmt(&scratch, "%.0f%%", 100 * r->roof);
    int most = narrow ? WHAT_NARROW : WHAT_COLUMNS;
    if (what.len > most) what = str_fmt(&scratch, "%.*s...", most - 3, what.data);
    const struct str cells[] = { r->op,
                                 str_fmt(&scratch, "%.4g", (f64)r->calls / steps),
                                 str_fmt(&scratch, "%.4f", 1e3 * r->seconds / steps),
                                 str_fmt(&scratch, "%.1f%%", 100 * r->seconds / shown->ops_s),
                                 flops,
                                 moved,
                                 memory,
                                 roof,
                                 str_cat(&scratch, STR(" "), what) };
    say_row(say, &ops_table, cells);
}

static void on_op(void *context, const struct event_profile_op *e)
{
    struct profile_shown *shown   = context;
    struct say           *say     = shown->cli->say;
    struct arena          scratch = shown->room;
    if (say->json) return;
    if (!shown->ops_seen) {
        say_result(say, "\n");
        say_heading(say, "A step by op and shape");
        say_row(say, &ops_table, NULL);
    }
    if (shown->ops_seen++ < ROWS_MAX) op_words(shown, e, scratch);
    if (shown->ops_seen == shown->ops && shown->ops > ROWS_MAX)
        say_result(say, "  and %lld more: --json has them all\n",
                   (long long)(shown->ops - ROWS_MAX));
}

/* --- memory --- */

/* The most of each stretch of the program, as a part of the peak's temporaries. */
static struct str spark(const struct event_profile_memory *m, struct arena *perm)
{
    static const char levels[] = " .:-=+*#%@";
    i64               count = m->use_bytes.count, columns = MIN(SPARK_COLUMNS, count);
    i64               range = m->peak_bytes - m->persistent_bytes;
    struct textbuf    b     = textbuf_new(perm);
    for (i64 c = 0; c < columns; c++) {
        i64 most = 0;
        for (i64 i = c * count / columns; i < (c + 1) * count / columns; i++)
            most = MAX(most, m->use_bytes.items[i] - m->persistent_bytes);
        textbuf_fmt(&b, "%c", levels[range ? most * 9 / range : 0]);
    }
    return textbuf_str(&b);
}

static void on_memory(void *context, const struct event_profile_memory *m)
{
    struct profile_shown *shown   = context;
    struct say           *say     = shown->cli->say;
    struct arena          scratch = shown->room;
    if (say->json) return;
    if (!shown->programs_seen++) {
        say_result(say, "\n");
        say_heading(say, "Memory over a step, by the plan");
    }
    say_result(say, "  %.*s: %.*s at %.*s (%.*s), of which %.*s stay\n", STR_ARG(m->program),
               STR_ARG(text_bytes(&scratch, (f64)m->peak_bytes)), STR_ARG(m->peak_node),
               STR_ARG(m->peak_op), STR_ARG(text_bytes(&scratch, (f64)m->persistent_bytes)));
    say_result(say, "    [%.*s]\n", STR_ARG(spark(m, &scratch)));
    for (i64 i = 0; i < MIN(m->holders.count, HOLDERS_SHOWN); i++)
        say_result(say, "    %9.*s  %.*s\n",
                   STR_ARG(text_bytes(&scratch, (f64)m->holders.items[i].bytes)),
                   STR_ARG(m->holders.items[i].name));
    if (m->holders.count > HOLDERS_SHOWN)
        say_result(say, "    and %lld smaller ones\n",
                   (long long)(m->holders.count - HOLDERS_SHOWN));
}

/* --- the whole --- */

static void write_trace(struct profile_shown *shown, const struct event_profile *e,
                        struct arena scratch)
{
    struct say *say     = shown->cli->say;
    struct str  to      = shown->config->trace;
    i64         dropped = profile_spans_dropped(e->profile);
    if (!to.len) return;
    if (chrome_write(shown->cli->os, to, e->profile, e->target, (i64)getpid(), scratch,
                     &shown->err)) {
        say_message(say, "warning: no trace: %s\n", shown->err.text);
        return;
    }
    say_message(say, "trace in %.*s: open it in https://ui.perfetto.dev\n", STR_ARG(to));
    if (dropped)
        say_message(say, "it holds the last %lld events; %lld older ones were dropped\n",
                    (long long)profile_span_count(e->profile), (long long)dropped);
}

static void on_profile(void *context, const struct event_profile *e)
{
    struct profile_shown *shown = context;
    struct say           *say   = shown->cli->say;
    struct arena          room  = arena_open((i64)RESERVE_GIB << 30);
    shown->steps                = e->steps;
    shown->ns                   = e->ns;
    shown->ops                  = e->ops;
    shown->ops_s                = e->ops_seconds;
    shown->ops_seen = shown->programs_seen = 0;
    if (!e->steps)
        say_message(say, "nothing was profiled: the run ended within the %lld skipped steps\n",
                    (long long)shown->config->wait);
    else if (!say->json)
        say_result(say, "Profile of %lld steps: %s ms per step on %.*s\n", (long long)e->steps,
                   DIGITS(1e-6 * (f64)e->ns / (f64)e->steps), STR_ARG(e->device));
    if (e->steps && room.begin) write_trace(shown, e, room);
    if (room.begin) arena_close(&room);
}

/* As the stream has them; nothing where no step was profiled. */
static void on_event(void *context, enum event_kind kind, const void *event)
{
    struct profile_shown *shown = context;
    if (!shown->cli->say->json || kind < EVENT_profile || kind > EVENT_profile_memory) return;
    if (kind == EVENT_profile && !((const struct event_profile *)event)->steps) return;
    struct arena   room = arena_open((i64)RESERVE_GIB << 30);
    struct textbuf b    = textbuf_new(&room);
    if (!room.begin) return;
    event_json(kind, event, &b);
    say_line(shown->cli->say, &b);
    arena_close(&room);
}

struct subscriber profile_subscriber(struct profile_shown *p, const struct subscriber *next)
{
    p->room = arena_part(p->cli->perm, 1 << 16);
    return (struct subscriber){ .context           = p,
                                .next              = next,
                                .on_event          = on_event,
                                .on_profile        = on_profile,
                                .on_profile_part   = on_part,
                                .on_profile_op     = on_op,
                                .on_profile_memory = on_memory };
}
