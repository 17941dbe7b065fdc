/* report_show.c - bills and comparisons, in words and as events. */
#include "cli/report_show.h"
#include "base/json.h"
#include <math.h>

static f64 usd(i64 nusd) { return (f64)nusd / 1e9; }

static f64 seconds(i64 ns) { return (f64)ns / 1e9; }

/* 2.5, 12, 1,200. */
static struct str rate_text(struct arena *perm, f64 per_month)
{
    return per_month < 100 ? str_fmt(perm, "%.3g", per_month) : text_count(perm, per_month);
}

static f64 percent(i64 part, i64 whole) { return whole ? 100 * (f64)part / (f64)whole : 0; }

/* "accuracy 81.9 %"; of a run that was never evaluated "no evaluation". */
static struct str quality_text(const struct run_bill *b, struct arena *perm)
{
    if (isnan(b->value)) return STR("no evaluation");
    return str_fmt(perm, "%.*s %.*s", STR_ARG(b->row.metric),
                   STR_ARG(text_metric(perm, b->row.metric, b->value)));
}

/* ---- one run ---- */

static void run_event(struct say *s, const struct run_bill *r, f64 per_month, struct arena scratch)
{
    i64            million = bill_per_million(r);
    struct textbuf b       = event_begin(&scratch, "report");
    event_str(&b, "run", r->row.id);
    event_str(&b, "name", r->row.name);
    event_f64(&b, "metered_s", seconds(r->metered_ns));
    event_f64(&b, "uncertain_s", seconds(r->uncertain_ns));
    event_f64(&b, "shared", r->metered_ns ? (f64)r->own_ns / (f64)r->metered_ns : NAN);
    event_f64(&b, "usd_hour", r->usd_hour);
    event_f64(&b, "dollars", r->priced ? usd(r->nusd) : NAN);
    event_f64(&b, "shared_dollars", r->priced ? usd(r->shared_nusd) : NAN);
    event_f64(&b, "stored_since_dollars", usd(r->since_nusd));
    textbuf_fmt(&b, ",\"parts\":{");
    for (i64 i = 0; i < BILL_PARTS; i++) {
        textbuf_fmt(&b, "%s\"%s\":", i ? "," : "", bill_part_name(i));
        json_add_f64(&b, r->priced ? usd(r->part_nusd[i]) : NAN);
    }
    textbuf_fmt(&b, "},\"seconds\":{");
    for (i64 i = 0; i < TERM_COUNT; i++) {
        textbuf_fmt(&b, "%s\"%s\":", i ? "," : "", bill_part_name(i));
        json_add_f64(&b, seconds(r->term_ns[i]));
    }
    textbuf_fmt(&b, "}");
    event_i64(&b, "work", r->work);
    event_str(&b, "unit", r->row.unit);
    event_f64(&b, "dollars_per_million", million < 0 ? NAN : usd(million));
    event_bool(&b, "target_reached", r->reached);
    event_f64(&b, "target_dollars", r->reached && r->priced ? usd(r->target_nusd) : NAN);
    event_f64(&b, "predicted_dollars", r->predicted_usd);
    event_f64(&b, "predicted_s", r->predicted_s);
    event_f64(&b, "runs_per_month", per_month);
    const struct segment_row *ranks = report_ranks(r);
    event_i64(&b, "ranks", ranks ? ranks->ranks : 1);
    event_f64(&b, "slowest_rank",
              ranks && ranks->slowest_rank >= 0 ? (f64)ranks->slowest_rank : NAN);
    event_f64(&b, "waited_s", ranks ? seconds(ranks->waited_ns) : NAN);
    event_f64(&b, "exchange_s", ranks ? seconds(ranks->exchange_ns) : NAN);
    event_end(&b, s);
}

/* Of the last start: what of its steps went to others, and whom they waited for. */
static void show_ranks(struct say *s, const struct run_bill *r)
{
    const struct segment_row *of = report_ranks(r);
    if (!of) return;
    i64 steps_ns = of->compute_ns + of->redone_ns;
    say_result(s,
               "%-12s%lld on %lld machine%s; %.1f %% of their steps went to communication that "
               "nothing hid",
               "ranks", (long long)of->ranks, (long long)of->machines, of->machines == 1 ? "" : "s",
               percent(of->exchange_ns, steps_ns));
    if (of->slowest_rank >= 0)
        say_result(s, ", %.1f %% to waiting for rank %lld, the slowest",
                   percent(of->waited_ns, steps_ns), (long long)of->slowest_rank);
    say_result(s, "\n");
}

/* The bill, part by part; what is printed sums as it should. */
static void show_parts(struct say *s, const struct run_bill *r, struct arena scratch)
{
    i64 decimals       = money_decimals(r->nusd), units[BILL_PARTS],
        total          = money_units(r->nusd, decimals);
    struct str dollars = STR("unknown");
    bill_split(total, r->part_nusd, BILL_PARTS, units, scratch);
    say_result(s, "%-12s  %12s  %14s\n", "part", "time", "dollars");
    for (i64 i = 0; i < BILL_PARTS; i++) {
        struct arena here = scratch;
        i64          ns   = i < TERM_COUNT ? r->term_ns[i] : 0;
        struct str   time = i < TERM_COUNT ? span_text(&here, ns) : STR("");
        if (!ns && !r->part_nusd[i]) continue;
        if (r->priced) dollars = money_text(&here, units[i], decimals);
        say_result(s, "%-12s  %12.*s  %14.*s", bill_part_name(i), STR_ARG(time), STR_ARG(dollars));
        if (r->priced) say_result(s, "  %5.1f %%", percent(r->part_nusd[i], r->nusd));
        say_result(s, "\n");
    }
    if (r->priced) dollars = money_text(&scratch, total, decimals);
    say_result(s, "%-12s  %12.*s  %14.*s\n", "total", STR_ARG(span_text(&scratch, r->metered_ns)),
               STR_ARG(dollars));
    if (r->since_nusd) /* no part of the run's bill: it grows until the checkpoints are deleted */
        say_result(s, "%-12s  %12s  %14.*s\n", "stored since", "",
                   STR_ARG(money(&scratch, r->since_nusd)));
}

static void show_doubts(struct say *s, const struct run_bill *r)
{
    if (!r->priced)
        say_message(s, "the price is not known: set train.usd_hour=0.10 or "
                       "run.machine=PROVIDER/NAME\n");
    if (r->uncertain_ns)
        say_message(
            s, "a killed process ends at its last heartbeat: it may have run up to %.0f s longer\n",
            seconds(r->uncertain_ns));
    if (r->metered_ns && r->own_ns < r->metered_ns)
        say_message(
            s,
            "other runs used the machine at the same time: %.1f %% of its time is theirs, shared "
            "by GPUs, or equally where there are none\n",
            percent(r->metered_ns - r->own_ns, r->metered_ns));
    if (!r->storage_known)
        say_message(
            s,
            "the price of storing its checkpoints is not known, and not included in the total\n");
}

static void show_rates(struct say *s, const struct run_bill *r, f64 per_month, bool counted,
                       struct arena scratch)
{
    i64 million = bill_per_million(r);
    if (r->priced)
        say_result(s, "%-12s%.1f %% of it: compute and evaluation\n", "useful",
                   bill_useful_percent(r));
    if (million >= 0)
        say_result(s, "%-12s%.*s a million %.*s\n", "pace", STR_ARG(money(&scratch, million)),
                   STR_ARG(r->row.unit));
    if (!isnan(r->row.target))
        say_result(
            s, "%-12s%s%.*s\n", "target", r->reached ? "reached" : "not reached",
            STR_ARG(r->reached && r->priced
                        ? str_fmt(&scratch, " after %.*s", STR_ARG(money(&scratch, r->target_nusd)))
                        : STR("")));
    if (!isnan(r->predicted_usd) && r->priced)
        say_result(s, "%-12s%.*s; billed %+.1f %%\n", "predicted",
                   STR_ARG(money(&scratch, llround(r->predicted_usd * 1e9))),
                   100 * (usd(r->nusd) / r->predicted_usd - 1));
    if (isnan(per_month) || !r->priced) return;
    say_result(s, "%-12s%.*s for %.*s runs, %s; %.*s a year\n", "a month",
               STR_ARG(money(&scratch, llround((f64)r->nusd * per_month))),
               STR_ARG(rate_text(&scratch, per_month)),
               counted ? "counted in the ledger" : "as the run file says",
               STR_ARG(money(&scratch, llround((f64)r->nusd * per_month * 12))));
}

void report_show_run(struct say *s, const struct bills *all, const struct run_bill *r,
                     struct arena scratch)
{
    bool counted;
    f64  per_month = report_runs_per_month(all->items, all->count, r, all->now_wall_ns, &counted);
    if (s->json) {
        run_event(s, r, per_month, scratch);
        return;
    }
    say_result(s, "%.*s  %.*s  started %.*s, %lld %s, ended: %s\n", STR_ARG(r->row.name),
               STR_ARG(r->row.id), STR_ARG(when_text(&scratch, r->row.begin_wall_ns)),
               (long long)r->segment_count, r->segment_count == 1 ? "segment" : "segments",
               state_text(r));
    if (!isnan(r->value))
        say_result(s, "%.*s after %.*s steps\n", STR_ARG(quality_text(r, &scratch)),
                   STR_ARG(text_count(&scratch, (f64)r->steps)));
    say_result(s, "\n");
    show_parts(s, r, scratch);
    say_result(s, "\n");
    show_rates(s, r, per_month, counted, scratch);
    show_ranks(s, r);
    show_doubts(s, r);
}

/* ---- several ---- */

static const struct run_bill *last_of(const struct comparison *c)
{
    return c->runs[c->run_count - 1];
}

i64 comparison_decimals(const struct comparison *c)
{
    return money_decimals(MAX(c->runs[0]->nusd, last_of(c)->nusd));
}

/* What is cheaper is said only of the same: of a run that ends sooner and learns less nobody knows. */
struct str comparison_title(const struct comparison *c, struct arena *perm)
{
    const struct run_bill *a = c->runs[0], *b = last_of(c);
    i64                    decimals = comparison_decimals(c);
    f64                    less     = percent(a->nusd - b->nusd, a->nusd);
    struct str             from     = money_text(perm, money_units(a->nusd, decimals), decimals),
               to                   = money_text(perm, money_units(b->nusd, decimals), decimals);
    if (isnan(c->target))
        return str_fmt(perm, "%.*s for %.*s -> %.*s for %.*s: no target that both reached",
                       STR_ARG(from), STR_ARG(quality_text(a, perm)), STR_ARG(to),
                       STR_ARG(quality_text(b, perm)));
    return str_fmt(perm, "%.*s -> %.*s a run, %.1f %% %s to %.*s %.*s", STR_ARG(from), STR_ARG(to),
                   fabs(less), less < 0 ? "more" : "less", STR_ARG(a->row.metric),
                   STR_ARG(text_metric(perm, a->row.metric, c->target)));
}

struct str comparison_rate(const struct comparison *c, struct arena *perm)
{
    f64 before = (f64)c->runs[0]->nusd * c->runs_per_month,
        after  = (f64)last_of(c)->nusd * c->runs_per_month;
    if (isnan(c->runs_per_month)) return STR("");
    return str_fmt(perm, "%.*s runs a month (%s): %.*s -> %.*s a month, %.*s -> %.*s a year",
                   STR_ARG(rate_text(perm, c->runs_per_month)),
                   c->counted ? "counted in the ledger" : "as the run file says",
                   STR_ARG(money(perm, llround(before))), STR_ARG(money(perm, llround(after))),
                   STR_ARG(money(perm, llround(before * 12))),
                   STR_ARG(money(perm, llround(after * 12))));
}

static void comparison_event(struct say *s, const struct comparison *c, struct arena scratch)
{
    const struct run_bill *a = c->runs[0], *z = last_of(c);
    for (i64 i = 0; i < c->lever_count; i++) {
        struct arena   here = scratch;
        struct textbuf b    = event_begin(&here, "lever");
        event_str(&b, "what", c->levers[i].what);
        event_f64(&b, "dollars", usd(c->levers[i].nusd));
        event_end(&b, s);
    }
    struct textbuf b = event_begin(&scratch, "compare");
    event_str(&b, "before", a->row.id);
    event_str(&b, "after", z->row.id);
    event_f64(&b, "before_dollars", usd(a->nusd));
    event_f64(&b, "after_dollars", usd(z->nusd));
    event_f64(&b, "before_value", a->value);
    event_f64(&b, "after_value", z->value);
    event_f64(&b, "runs_per_month", c->runs_per_month);
    f64 saved = isnan(c->target) ? NAN : usd(a->nusd - z->nusd);
    event_f64(&b, "saved_month", saved * c->runs_per_month);
    event_f64(&b, "saved_year", saved * c->runs_per_month * 12);
    event_f64(&b, "target", c->target);
    event_end(&b, s);
}

/* Why a run costs less than the one before it. */
static void show_causes(struct say *s, const struct run_bill *a, const struct run_bill *b,
                        i64 decimals, struct arena scratch)
{
    i64            causes[CAUSE_COUNT], at = a->nusd;
    struct arena   parts = arena_part(&scratch, 1 << 12);
    struct textbuf line  = textbuf_new(&parts);
    if (!report_causes(a, b, causes)) return;
    for (i64 i = 0; i < CAUSE_COUNT; i++) {
        struct arena here  = scratch;
        i64          units = money_units(at + causes[i], decimals) - money_units(at, decimals);
        at += causes[i];
        if (!units) continue;
        textbuf_fmt(&line, "%s%s %.*s", line.len ? ", " : "            ",
                    cause_name((enum cause)i, causes[i]),
                    STR_ARG(money_text(&here, units, decimals)));
    }
    if (line.len) say_result(s, "%.*s\n", STR_ARG(textbuf_str(&line)));
}

void report_show_comparison(struct say *s, const struct comparison *c, struct arena scratch)
{
    if (s->json) {
        comparison_event(s, c, scratch);
        return;
    }
    i64 decimals = comparison_decimals(c);
    say_heading(s, str_z(&scratch, comparison_title(c, &scratch)));
    say_result(s, "\n");
    for (i64 i = 0; i < c->run_count; i++) {
        struct arena           here    = scratch;
        const struct run_bill *b       = c->runs[i];
        struct str             quality = quality_text(b, &here);
        struct str             changes = i ? report_changes(c->runs[i - 1], b, &here) : STR("");
        say_result(s, "%-8.*s  %14.*s  %.*s  %.*s%s%.*s\n", STR_ARG(str_sub(b->row.id, 0, 8)),
                   STR_ARG(money_text(&here, money_units(b->nusd, decimals), decimals)),
                   STR_ARG(quality), STR_ARG(b->row.name), changes.len ? ": " : "",
                   STR_ARG(changes));
        if (i) show_causes(s, c->runs[i - 1], b, decimals, scratch);
    }
    struct arena text = arena_part(&scratch, 1 << 16);
    say_result(s, "\n");
    say_text(s, picture_text(c, s->table_columns ? s->table_columns : s->columns, &text, scratch));
    if (isnan(c->target))
        say_message(s, "the runs did not all reach one target, so the dollars do not say which is "
                       "cheaper: give all of them the same train.target, and enough steps to "
                       "reach it\n");
    struct str rate = comparison_rate(c, &scratch);
    if (rate.len) say_result(s, "\n%.*s\n", STR_ARG(rate));
}
