/* comparison.c - bills compared, grouped and found. */
#include "run/comparison.h"
#include <math.h>
#include <time.h>

enum status report_find(struct run_bill *bills, i64 count, struct str word, struct run_bill **out,
                        struct err *err)
{
    i64 ids = 0;
    for (i64 i = count; i-- > 0;)
        if (str_starts(bills[i].row.id, word) && word.len >= 3 && !ids++) *out = &bills[i];
    if (ids == 1) return STATUS_OK;
    for (i64 i = count; i-- > 0 && !ids;)
        if (str_eq(bills[i].row.name, word) && !ids++) *out = &bills[i];
    if (!ids && count && str_eq(word, STR("last")) && ++ids) *out = &bills[count - 1];
    if (ids == 1) return STATUS_OK;
    if (ids)
        return err_set(err, STATUS_USAGE, "%.*s is the beginning of %lld runs; give more of it",
                       STR_ARG(word), (long long)ids);
    return err_set(err, STATUS_USAGE, "no run is called %.*s; `frugal runs` lists them",
                   STR_ARG(word));
}

static void add_lever(struct comparison *c, struct str what, i64 nusd)
{
    ASSERT(c->lever_count < LEVERS_MAX);
    c->levers[c->lever_count++] = (struct lever){ what, nusd };
}

/* Runs of different names are known by them; those of one name by what was set otherwise. */
static struct str step_name(const struct run_bill *a, const struct run_bill *b, struct arena *perm)
{
    struct str changes = report_changes(a, b, perm);
    if (!str_eq(a->row.name, b->row.name)) return b->row.name;
    return changes.len ? changes : STR("the same once more");
}

/* Two runs are compared cause by cause; of more, each step from one to the next is a lever. */
static void add_levers(struct comparison *c, struct arena *perm)
{
    const struct run_bill *a = c->runs[0], *b = c->runs[1];
    i64                    causes[CAUSE_COUNT];
    if (c->run_count == 2 && report_causes(a, b, causes)) {
        for (i64 i = 0; i < CAUSE_COUNT; i++)
            if (causes[i]) add_lever(c, str_of(cause_name((enum cause)i, causes[i])), causes[i]);
        return;
    }
    for (i64 i = 1; i < c->run_count; i++)
        add_lever(c, step_name(c->runs[i - 1], c->runs[i], perm),
                  c->runs[i]->nusd - c->runs[i - 1]->nusd);
}

enum status comparison_make(struct comparison *c, struct run_bill *const *runs, i64 count,
                            const struct run_bill *all, i64 all_count, i64 now_wall_ns,
                            struct arena *perm, struct err *err)
{
    *c = (struct comparison){ .runs = runs, .run_count = count };
    if (count > LEVERS_MAX)
        return err_set(err, STATUS_USAGE, "cannot compare %lld runs at once (at most %d)",
                       (long long)count, LEVERS_MAX);
    for (i64 i = 0; i < count; i++)
        if (!runs[i]->priced)
            return err_set(err, STATUS_NO,
                           "the price of run %.*s is not known, so there is nothing to compare",
                           STR_ARG(runs[i]->row.id));
    add_levers(c, perm);
    c->target = report_common_target(runs, count);
    c->runs_per_month =
        report_runs_per_month(all, all_count, runs[count - 1], now_wall_ns, &c->counted);
    return STATUS_OK;
}

static void group_add(struct run_group *groups, i64 *count, struct str key,
                      const struct run_bill *b)
{
    i64 i = 0;
    while (i < *count && !str_eq(groups[i].key, key)) i++;
    if (i == *count && i == RUN_GROUPS_MAX - 1) key = STR("(more)");
    if (i == *count) groups[(*count)++] = (struct run_group){ .key = key };
    groups[i].runs++;
    groups[i].metered_ns += b->metered_ns;
    groups[i].unpriced += !b->priced;
    groups[i].nusd += b->priced ? b->nusd - b->shared_nusd : 0; /* a shared machine is paid once */
}

/* As people here write it: their month, not Greenwich's. */
static struct str month_of(i64 wall_ns, struct arena *perm)
{
    time_t    seconds = (time_t)(wall_ns / 1000000000);
    struct tm tm;
    char      text[32] = { 0 };
    localtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y-%m", &tm);
    return str_copy(perm, str_of(text));
}

i64 report_groups(const struct run_bill *bills, i64 count, enum run_group_by by,
                  struct run_group **out, struct arena *perm)
{
    struct run_group *groups = *out = NEW(perm, struct run_group, RUN_GROUPS_MAX);
    i64               made          = 0;
    for (i64 i = 0; i < count; i++) {
        const struct run_bill *r = &bills[i];
        struct str rest = by == GROUP_BY_TAG ? r->row.tags : month_of(r->row.begin_wall_ns, perm);
        struct str key;
        if (!rest.len) group_add(groups, &made, STR("(none)"), r);
        while (str_cut(&rest, ',', &key)) group_add(groups, &made, key, r);
    }
    return made;
}

i64 bill_per_million(const struct run_bill *b)
{
    bool counted = str_eq(b->row.unit, STR("samples")) || str_eq(b->row.unit, STR("tokens"));
    if (!b->priced || !b->work || !counted) return -1; /* nobody counts trials by the million */
    return llround((f64)b->nusd / (f64)b->work * 1e6);
}

f64 bill_useful_percent(const struct run_bill *b)
{
    i64 useful = 0;
    for (i64 i = 0; i < TERM_COUNT; i++)
        if (str_eq(str_of(term_group((enum term)i)), STR("useful"))) useful += b->part_nusd[i];
    return b->nusd ? 100 * (f64)useful / (f64)b->nusd : 0;
}
