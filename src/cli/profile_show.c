/* profile_show.c - a profile as tables, or as events. Figures of tables are those of one step, the mean of
 * all profiled ones; events have the sums. */
#include "cli/profile_show.h"
#include "base/json.h"
#include "run/chrome.h"
#include "run/memory_use.h"
#include <math.h>
#include <unistd.h>

enum {
    RESERVE_GIB   = 4,
    SPARK_COLUMNS = 60,
    HOLDERS_SHOWN = 6,
    ROWS_MAX      = 20, /* of the table of ops */
    WHAT_COLUMNS  = 60,
    WHAT_NARROW   = 20, /* on a terminal of fewer than WIDE columns */
    WIDE          = 140
}; /* address space only */

static void show_parts(struct say *say, const struct profile *p, struct arena scratch)
{
    struct step_split s   = profile_split(p);
    f64               all = (f64)split_sum(&s), steps = (f64)profile_steps(p);
    if (!say->json) {
        say_result(say, "\n");
        say_heading(say, "A step by part");
        say_result(say, "  %-12s %10s %7s\n", "part", "ms", "share");
    }
    for (i64 i = 0; i < PART_LOOP_COUNT; i++) {
        if (say->json) {
            struct textbuf b = event_begin(&scratch, "profile_part");
            event_str(&b, "part", str_of(clock_part_name((enum part)i)));
            event_i64(&b, "ns", s.ns[i]);
            event_end(&b, say);
        } else if (s.ns[i]) {
            say_result(say, "  %-12s %10.4f %6.1f%%  %s\n", clock_part_name((enum part)i),
                       1e-6 * (f64)s.ns[i] / steps, 100 * (f64)s.ns[i] / all,
                       clock_part_help((enum part)i));
        }
    }
    if (!say->json) say_result(say, "  %-12s %10.4f %6.1f%%\n", "all", 1e-6 * all / steps, 100.0);
}

static void op_event(struct say *say, const struct op_row *r, struct arena scratch)
{
    struct textbuf b = event_begin(&scratch, "profile_op");
    event_str(&b, "op", r->op);
    event_str(&b, "shapes", r->what);
    event_i64(&b, "calls", r->calls);
    event_f64(&b, "seconds", r->seconds);
    event_f64(&b, "flops", r->cost.flops);
    event_f64(&b, "bytes", r->cost.bytes);
    event_i64(&b, "memory_bytes", r->memory_bytes);
    event_f64(&b, "roof", op_roof_share(r));
    event_end(&b, say);
}

static const struct say_column op_columns[] = {
    { "op", -18, 0 },   { "calls", 6, 1 }, { "ms", 9, 0 },
    { "share", 7, 0 },  { "FLOPs", 9, 3 }, { "moved", 9, 5 },
    { "memory", 9, 4 }, { "roof", 6, 2 },  { " shapes", -WHAT_NARROW - 1, 0 },
};
static const struct say_table ops_table = { op_columns, COUNT_OF(op_columns), "  ", " " };

static void op_words(struct say *say, const struct op_row *r, f64 steps, f64 all_s,
                     struct arena scratch)
{
    struct str flops  = text_si(&scratch, r->cost.flops / steps),
               moved  = text_bytes(&scratch, r->cost.bytes / steps);
    struct str memory = text_bytes(&scratch, (f64)r->memory_bytes), roof = STR("-"), what = r->what;
    bool       narrow = say->table_columns && say->table_columns < WIDE;
    if (!isnan(op_roof_share(r))) roof = str_fmt(&scratch, "%.0f%%", 100 * op_roof_share(r));
    int most = narrow ? WHAT_NARROW : WHAT_COLUMNS;
    if (what.len > most) what = str_fmt(&scratch, "%.*s...", most - 3, what.data);
    const struct str cells[] = { r->op,
                                 str_fmt(&scratch, "%.4g", (f64)r->calls / steps),
                                 str_fmt(&scratch, "%.4f", 1e3 * r->seconds / steps),
                                 str_fmt(&scratch, "%.1f%%", 100 * r->seconds / all_s),
                                 flops,
                                 moved,
                                 memory,
                                 roof,
                                 str_cat(&scratch, STR(" "), what) };
    say_row(say, &ops_table, cells);
}

static void show_ops(const struct profile_shown *shown, const struct event_profile *e,
                     struct arena scratch)
{
    struct say     *say   = shown->cli->say;
    struct op_table t     = profile_table(e->profile, e->target, &scratch);
    i64             limit = say->json ? t.count : MIN(t.count, ROWS_MAX);
    f64             all_s = 0, steps = (f64)profile_steps(e->profile);
    for (i64 i = 0; i < t.count; i++) all_s += t.rows[i].seconds;
    if (!say->json) {
        say_result(say, "\n");
        say_heading(say, "A step by op and shape");
        say_row(say, &ops_table, NULL);
    }
    for (i64 i = 0; i < limit; i++)
        if (say->json) op_event(say, &t.rows[i], scratch);
        else op_words(say, &t.rows[i], steps, all_s, scratch);
    if (!say->json && limit < t.count)
        say_result(say, "  and %lld more: --json has them all\n", (long long)(t.count - limit));
}

static void memory_event(struct say *say, const struct program *p, const struct memory_use *m,
                         struct arena scratch)
{
    struct textbuf b = event_begin(&scratch, "profile_memory");
    event_str(&b, "program", p->graph->name);
    event_i64(&b, "persistent_bytes", m->persistent_bytes);
    event_i64(&b, "peak_bytes", m->peak_bytes);
    event_i64(&b, "peak_instruction", m->peak);
    textbuf_fmt(&b, ",\"use_bytes\":[");
    for (i32 i = 0; i < p->instr_count; i++)
        textbuf_fmt(&b, "%s%lld", i ? "," : "", (long long)m->bytes[i]);
    textbuf_fmt(&b, "],\"holders\":[");
    for (i64 i = 0; i < m->holder_count; i++) {
        textbuf_fmt(&b, "%s{\"name\":", i ? "," : "");
        json_add_string(&b, m->holders[i].name);
        textbuf_fmt(&b, ",\"bytes\":%lld}", (long long)m->holders[i].bytes);
    }
    textbuf_fmt(&b, "]");
    event_end(&b, say);
}

/* The most of each stretch of the program, as a part of the peak's temporaries. */
static struct str spark(const struct program *p, const struct memory_use *m, struct arena *perm)
{
    static const char levels[] = " .:-=+*#%@";
    i64 columns = MIN(SPARK_COLUMNS, p->instr_count), range = m->peak_bytes - m->persistent_bytes;
    struct textbuf b = textbuf_new(perm);
    for (i64 c = 0; c < columns; c++) {
        i64 most = 0;
        for (i64 i = c * p->instr_count / columns; i < (c + 1) * p->instr_count / columns; i++)
            most = MAX(most, m->bytes[i] - m->persistent_bytes);
        textbuf_fmt(&b, "%c", levels[range ? most * 9 / range : 0]);
    }
    return textbuf_str(&b);
}

static void memory_words(struct say *say, const struct program *p, const struct memory_use *m,
                         struct arena scratch)
{
    const struct node *at   = &p->graph->nodes[p->instrs[m->peak].node];
    struct str         name = p->graph->name;
    say_result(say, "  %.*s: %.*s at %.*s (%.*s), of which %.*s stay\n", STR_ARG(name),
               STR_ARG(text_bytes(&scratch, (f64)m->peak_bytes)), STR_ARG(at->name),
               STR_ARG(op_text(&scratch, at->op, &at->at)),
               STR_ARG(text_bytes(&scratch, (f64)m->persistent_bytes)));
    say_result(say, "    [%.*s]\n", STR_ARG(spark(p, m, &scratch)));
    for (i64 i = 0; i < MIN(m->holder_count, HOLDERS_SHOWN); i++)
        say_result(say, "    %9.*s  %.*s\n",
                   STR_ARG(text_bytes(&scratch, (f64)m->holders[i].bytes)),
                   STR_ARG(m->holders[i].name));
    if (m->holder_count > HOLDERS_SHOWN)
        say_result(say, "    and %lld smaller ones\n",
                   (long long)(m->holder_count - HOLDERS_SHOWN));
}

static void show_memory(struct say *say, const struct program_set *set, struct arena scratch)
{
    static const enum program_id ids[] = { PROGRAM_TRAIN, PROGRAM_UPDATE };
    if (!say->json) {
        say_result(say, "\n");
        say_heading(say, "Memory over a step, by the plan");
    }
    for (i64 i = 0; i < (i64)(sizeof ids / sizeof *ids); i++) {
        struct arena          here = scratch, lent = arena_part(&here, (here.end - here.begin) / 2);
        const struct program *p = set->programs[ids[i]];
        if (!p || !p->instr_count) continue;
        struct memory_use m = memory_use_of(set, p, &here, lent);
        if (say->json) memory_event(say, p, &m, here);
        else memory_words(say, p, &m, here);
    }
}

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
    struct step_split     s     = profile_split(e->profile);
    shown->steps                = profile_steps(e->profile);
    if (!shown->steps)
        say_message(say, "nothing was profiled: the run ended within the %lld skipped steps\n",
                    (long long)(shown->config->wait + shown->config->warmup));
    if (!shown->steps || !room.begin) return;
    if (say->json) {
        struct arena   here = room;
        struct textbuf b    = event_begin(&here, "profile");
        event_i64(&b, "steps", shown->steps);
        event_i64(&b, "ns", split_sum(&s));
        event_end(&b, say);
    } else {
        say_result(say, "Profile of %lld steps: %.4g ms per step on %.*s\n",
                   (long long)shown->steps, 1e-6 * (f64)split_sum(&s) / (f64)shown->steps,
                   STR_ARG(e->target->name));
    }
    show_parts(say, e->profile, room);
    show_ops(shown, e, room);
    show_memory(say, profile_set(e->profile), room);
    write_trace(shown, e, room);
    arena_close(&room);
}

struct subscriber profile_subscriber(struct profile_shown *p, const struct subscriber *next)
{
    return (struct subscriber){ .context = p, .next = next, .on_profile = on_profile };
}
