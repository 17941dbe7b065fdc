/* report_changes.c - from one bill to another: what made the difference, in dollars and in settings. */
#include "run/report.h"
#include "run/stop.h"
#include <math.h>

static const f64 day_ns = 86400e9;

const char *cause_name(enum cause c, i64 nusd)
{
    static const char *const names[][2] = { { "less work", "more work" },
                                            { "faster steps", "slower steps" },
                                            { "less overhead", "more overhead" },
                                            { "a cheaper hour", "a dearer hour" },
                                            { "less by billing minimum and rounding",
                                              "more by billing minimum and rounding" } };
    return names[c][nusd > 0];
}

bool report_causes(const struct run_bill *a, const struct run_bill *b, i64 nusd[CAUSE_COUNT])
{
    f64                    pace[2], work[2], rest[2];
    const struct run_bill *of[2] = { a, b };
    if (!a->priced || !b->priced || !a->work || !b->work || !str_eq(a->row.unit, b->row.unit))
        return false;
    for (i64 i = 0; i < 2; i++) {
        if (!of[i]->metered_ns) return false;
        work[i] = (f64)of[i]->work;
        pace[i] = (f64)of[i]->term_ns[TERM_compute] / work[i];
        rest[i] = (f64)of[i]->metered_ns - pace[i] * work[i];
    }
    /* At the rate of what a used, storage and requests in it: with b's work, then b's pace, then b's rest. */
    i64 used[2]         = { a->nusd - a->rule_nusd, b->nusd - b->rule_nusd };
    i64 at[CAUSE_COUNT] = { used[0],
                            bill_at_rate_nusd(used[0], a->metered_ns, work[1] * pace[0] + rest[0]),
                            bill_at_rate_nusd(used[0], a->metered_ns, work[1] * pace[1] + rest[0]),
                            bill_at_rate_nusd(used[0], a->metered_ns, work[1] * pace[1] + rest[1]),
                            used[1] };
    for (i64 i = 0; i < CAUSE_RULE; i++) nusd[i] = at[i + 1] - at[i];
    nusd[CAUSE_RULE] = b->rule_nusd - a->rule_nusd;
    return true;
}

f64 report_common_target(struct run_bill *const *runs, i64 count)
{
    bool falls  = metric_falls(runs[0]->row.metric);
    f64  target = NAN;
    for (i64 i = 0; i < count; i++) {
        f64 t = runs[i]->row.target;
        if (!str_eq(runs[i]->row.metric, runs[0]->row.metric)) return NAN;
        if (isnan(target) || (falls ? t < target : t > target)) target = t;
    }
    for (i64 i = 0; i < count; i++) {
        f64  v   = runs[i]->value;
        bool met = (falls ? v <= target : v >= target) ||
                   (runs[i]->reached && runs[i]->row.target == target);
        if (!met) return NAN; /* as is a NaN */
    }
    return target;
}

/* What only the ledger reads is no lever. */
static bool is_lever(struct str line)
{
    return line.len && !str_starts(line, STR("run.ledger=")) &&
           !str_starts(line, STR("run.tags=")) && !str_starts(line, STR("run.name=")) &&
           !str_starts(line, STR("run.runs_per_month="));
}

static bool has_line(struct str text, struct str line)
{
    struct str other;
    while (str_cut(&text, '\n', &other))
        if (str_eq(other, line)) return true;
    return false;
}

static bool has_key(struct str text, struct str line)
{
    struct str other, key = str_sub(line, 0, str_find(line, '=') + 1);
    while (str_cut(&text, '\n', &other))
        if (str_starts(other, key)) return true;
    return false;
}

struct str report_changes(const struct run_bill *a, const struct run_bill *b, struct arena *perm)
{
    struct textbuf out  = textbuf_new(perm);
    struct str     rest = b->row.settings, line;
    while (str_cut(&rest, '\n', &line))
        if (is_lever(line) && !has_line(a->row.settings, line))
            textbuf_fmt(&out, "%s%.*s", out.len ? ", " : "", STR_ARG(line));
    rest = a->row.settings;
    while (str_cut(&rest, '\n', &line))
        if (is_lever(line) && !has_key(b->row.settings, line))
            textbuf_fmt(&out, "%swithout %.*s", out.len ? ", " : "", STR_ARG(line));
    return textbuf_str(&out);
}

f64 report_runs_per_month(const struct run_bill *bills, i64 count, const struct run_bill *of,
                          i64 now_wall_ns, bool *counted)
{
    static const f64 window_days = 90, least_days = 28;
    f64              oldest_days = 0;
    i64              runs        = 0;
    *counted                     = isnan(of->row.runs_per_month);
    if (!*counted) return of->row.runs_per_month;
    for (i64 i = 0; i < count; i++) {
        f64 age_days = (f64)(now_wall_ns - bills[i].row.begin_wall_ns) / day_ns;
        if (!str_eq(bills[i].row.name, of->row.name) || age_days > window_days) continue;
        oldest_days = MAX(oldest_days, age_days);
        runs++;
    }
    return oldest_days < least_days ? NAN : (f64)runs / oldest_days * BILL_MONTH_DAYS;
}
