/* cmd_report.c - frugal report [RUN...]: one run's bill, several runs from before to after, or all
 * of them by month or tag. */
#include "cli/report_show.h"
#include "page/page.h"
#include <math.h>
#include <string.h>

enum status command_report(struct cli *c, struct err *err);

enum { HTML_GIB = 2 };

static void group_event(struct say *s, const char *by, const struct run_group *g,
                        struct arena scratch)
{
    struct textbuf b = event_begin(&scratch, "group");
    event_str(&b, "by", str_of(by));
    event_str(&b, "key", g->key);
    event_i64(&b, "runs", g->runs);
    event_i64(&b, "unpriced", g->unpriced);
    event_f64(&b, "metered_s", (f64)g->metered_ns / 1e9);
    event_f64(&b, "dollars", (f64)g->nusd / 1e9);
    event_end(&b, s);
}

static enum status report_by(struct cli *c, const struct bills *b, struct err *err)
{
    struct str        by     = c->request->value[FLAG_by];
    bool              by_tag = str_eq(by, STR("tag"));
    struct arena      here   = b->memory;
    struct run_group *groups;
    i64               most = 0, unpriced = 0;
    if (!by_tag && !str_eq(by, STR("month")))
        return err_set(err, STATUS_USAGE, "--by %.*s: expected month or tag", STR_ARG(by));
    i64 count =
        report_groups(b->items, b->count, by_tag ? GROUP_BY_TAG : GROUP_BY_MONTH, &groups, &here);
    for (i64 i = 0; i < count; i++)
        most = MAX(most, groups[i].nusd), unpriced += groups[i].unpriced;
    if (!c->say->json)
        say_result(c->say, "%-16s  %6s  %10s  %14s\n", by_tag ? "tag" : "month", "runs", "time",
                   "dollars");
    for (i64 i = 0; i < count; i++) {
        const struct run_group *g        = &groups[i];
        struct arena            line     = here;
        i64                     decimals = money_decimals(most);
        struct str              sum = money_text(&line, money_units(g->nusd, decimals), decimals);
        if (c->say->json) group_event(c->say, by_tag ? "tag" : "month", g, here);
        else
            say_result(c->say, "%-16.*s  %6lld  %10.*s  %14.*s\n", STR_ARG(g->key),
                       (long long)g->runs, STR_ARG(span_text(&line, g->metered_ns)), STR_ARG(sum));
    }
    if (unpriced)
        say_message(c->say, "%lld run%s no price and %s not included in the dollars\n",
                    (long long)unpriced, unpriced == 1 ? " has" : "s have",
                    unpriced == 1 ? "is" : "are");
    return STATUS_OK;
}

static enum status write_svg(struct cli *c, const struct comparison *with, struct arena memory,
                             struct err *err)
{
    struct str   path = c->request->value[FLAG_svg], picture;
    struct arena text = arena_part(&memory, 1 << 20);
    if (!path.len) return STATUS_OK;
    picture        = picture_svg(with, &text, memory);
    enum status st = os_publish(c->os, path, picture, memory, err);
    if (!st) say_message(c->say, "the chart is in %.*s\n", STR_ARG(path));
    return st;
}

static enum status write_html(struct cli *c, struct run_bill *const *runs, i64 count,
                              struct err *err)
{
    struct str         path = c->request->value[FLAG_html], html, ids[ARGUMENTS_MAX];
    struct page_config from = { .ledger = bills_path(c) };
    struct arena       here = arena_open((i64)HTML_GIB << 30);
    if (!here.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    for (i64 i = 0; i < count; i++) ids[i] = runs[i]->row.id;
    enum status st = page_report(c->os, &from, ids, count, &here, &html, err);
    if (!st) st = os_publish(c->os, path, html, *c->perm, err);
    if (!st) say_message(c->say, "the page is in %.*s\n", STR_ARG(path));
    arena_close(&here);
    return st;
}

static enum status report_several(struct cli *c, const struct bills *b,
                                  struct run_bill *const *runs, i64 count, struct err *err)
{
    struct arena       here = b->memory;
    struct comparison *with = NEW(&here, struct comparison, 1);
    enum status        st =
        comparison_make(with, runs, count, b->items, b->count, b->now_wall_ns, &here, err);
    if (st) return st;
    report_show_comparison(c->say, with, here);
    return write_svg(c, with, here, err);
}

enum status command_report(struct cli *c, struct err *err)
{
    const struct request *r = c->request;
    struct run_bill      *runs[ARGUMENTS_MAX];
    struct bills          b;
    i64                   count = 0;
    enum status           st    = bills_open(&b, c, err);
    if (!st && !b.count)
        st = err_set(err, STATUS_NO, "no run is recorded yet in %.*s", STR_ARG(bills_path(c)));
    for (i64 i = 0; i < r->argument_count && !st; i++)
        st = report_find(b.items, b.count, r->arguments[i], &runs[count++], err);
    if (!st && !count) runs[count++] = &b.items[b.count - 1]; /* the newest */
    if (!st && count == 1 && r->given[FLAG_svg])
        st = err_set(err, STATUS_USAGE, "--svg compares runs: give two runs or more");
    if (!st && r->given[FLAG_by]) st = report_by(c, &b, err);
    else if (!st && count == 1) report_show_run(c->say, &b, runs[0], b.memory);
    else if (!st) st = report_several(c, &b, runs, count, err);
    if (!st && r->given[FLAG_html]) st = write_html(c, runs, count, err);
    bills_close(&b);
    return st;
}
