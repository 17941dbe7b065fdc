/* plan_table.c - a plan's rows in two tables: what is paid and where, and how it is trained. */
#include "cli/plan_show.h"
#include <math.h>
#include <string.h>

enum { COLUMNS_MAX = 16 };

static const struct say_column bill_columns[] = {
    { "", 4, 0 },        { "dollars", 10, 0 }, { "$/hour", 10, 2 },      { "billed h", 8, 3 },
    { "storage", 7, 4 }, { "time", 9, 1 },     { "    market", -11, 0 }, { "machine", -7, 0 },
};

/* The same, where they do not fit. */
static const struct say_column short_columns[COUNT_OF(bill_columns)] = {
    { "", 1, 0 },        { "dollars", 7, 0 }, { "$/hour", 6, 2 },  { "billed h", 8, 3 },
    { "storage", 7, 4 }, { "time", 4, 1 },    { "market", -6, 0 }, { "machine", -7, 0 },
};

enum { IN_TIME = 9 };
static const struct say_column how_columns[] = {
    { "", 3, 0 },      { "", -5, 0 },       { " batch", -13, 0 },   { "recompute", 9, 4 },
    { "shard", 7, 4 }, { "memory", 9, 3 },  { "step ms", 9, 2 },    { "MFU", 5, 5 },
    { "taken", 6, 6 }, { "in time", 8, 7 }, { " bound by", -9, 1 },
};

/* Each column as wide as its widest cell, so that say_row knows what fits. */
static struct say_table table_of(const struct say_column *columns, i64 count,
                                 const struct str *cells, i64 rows,
                                 struct say_column fitted[COLUMNS_MAX])
{
    for (i64 i = 0; i < count; i++) {
        i32 most = 0;
        for (i64 r = 0; r < rows; r++) most = MAX(most, (i32)cells[r * count + i].len);
        fitted[i] = columns[i];
        fitted[i].width =
            columns[i].width < 0 ? MIN(columns[i].width, -most) : MAX(columns[i].width, most);
    }
    return (struct say_table){ fitted, count, "", " " };
}

static void say_rows(struct say *s, const struct say_table *t, const struct str *cells, i64 rows)
{
    say_row(s, t, NULL);
    for (i64 r = 0; r < rows; r++) say_row(s, t, cells + r * t->count);
}

static struct str cut_text(struct arena *perm, const struct plan_row *r)
{
    return r->gpus > 1
               ? str_fmt(perm, "%lld x %lld x %lld", (long long)r->micro, (long long)r->accumulate,
                         (long long)r->gpus)
               : str_fmt(perm, "%lld x %lld", (long long)r->micro, (long long)r->accumulate);
}

/* What is paid: dollars are $/hour x billed hours + storage. */
static void bill_cells(struct arena *s, const struct plan_question *q, i64 rank,
                       const struct plan_row *r, struct str *out)
{
    f64 storage = r->bill.storage + r->bill.requests;
    *out++      = str_fmt(s, "%lld%s", (long long)rank, plan_cannot(q, r) ? "!" : " ");
    *out++      = plan_dollars(s, r->bill.total);
    *out++      = plan_usd_hour(s, plan_row_usd_hour(r));
    *out++      = plan_billed(s, r->billed_h);
    *out++      = storage > 0 ? plan_dollars(s, storage) : STR("-");
    *out++      = plan_time(s, r->hours);
    *out++      = str_fmt(s, " %9s%s", price_name(r->price), plan_price_is_old(q, r) ? "*" : " ");
    *out++      = plan_place(s, r);
}

static void short_cells(struct arena *s, const struct plan_question *q, const struct plan_row *r,
                        struct str *out)
{
    f64 storage = r->bill.storage + r->bill.requests, usd_h = plan_row_usd_hour(r);
    out[1] = plan_dollars_short(s, r->bill.total);
    out[2] = plan_usd_hour_short(s, usd_h);
    out[3] = plan_billed_short(s, r->billed_h);
    out[4] = storage > 0 ? plan_dollars_short(s, storage) : STR("-");
    out[5] = plan_time_short(s, r->hours);
    out[6] = str_fmt(s, "%s%s", price_name(r->price), plan_price_is_old(q, r) ? "*" : "");
}

/* Where the columns do not fit the terminal they become narrower; if this is not enough some are left out, and with
 * them how the dollars come about. */
static void show_bill(struct cli *c, const struct plan_question *q, i64 shown)
{
    enum { COUNT = COUNT_OF(bill_columns) };
    const struct plan_row *rows = q->result->rows;
    const char            *more = q->result->count > shown ? "--json lists more rows" : "";
    struct arena           s    = *c->perm;
    struct str             cells[PLAN_SHOWN][COUNT] = { 0 };
    struct say_column      fitted[COLUMNS_MAX];
    for (i64 i = 0; i < shown; i++) bill_cells(&s, q, i + 1, &rows[i], cells[i]);
    struct say_table t = table_of(bill_columns, COUNT, cells[0], shown, fitted);
    if (!say_fits(c->say, &t)) {
        for (i64 i = 0; i < shown; i++) short_cells(&s, q, &rows[i], cells[i]);
        t = table_of(short_columns, COUNT, cells[0], shown, fitted);
    }
    say_rows(c->say, &t, cells[0], shown);
    if (say_fits(c->say, &t))
        say_result(c->say, "  dollars = $/hour x billed hours + storage%s%s\n", *more ? "; " : "",
                   more);
    else if (*more) say_result(c->say, "  %s\n", more);
}

static struct str percent(struct arena *s, f64 part)
{
    return isnan(part) ? STR("-") : str_fmt(s, "%.0f %%", 100 * part);
}

/* "none", "all", "all/m": over each machine */
static struct str shard_text(struct arena *s, const struct plan_row *r)
{
    if (r->gpus < 2) return STR("-");
    return str_fmt(s, "%s%s", shard_word(r), r->sharding.copies ? "/m" : "");
}

static void how_cells(struct arena *s, i64 rank, const struct plan_row *r, struct str *out)
{
    *out++ = str_fmt(s, "%lld", (long long)rank);
    *out++ = str_fmt(s, " %s", precision_text(r->precision));
    *out++ = str_cat(s, STR(" "), cut_text(s, r));
    *out++ = str_of(recompute_text(r->variant));
    *out++ = shard_text(s, r);
    *out++ = text_bytes(s, r->memory_bytes);
    *out++ = plan_ms(s, r->step.step_s);
    *out++ = percent(s, r->step.mfu);
    *out++ = str_fmt(s, "%.1f", r->outcome.interruptions);
    *out++ = percent(s, floor(100 * r->in_time) / 100);
    *out++ = str_fmt(s, " %s", estimate_bound(&r->step));
}

/* The marks that the rows have, each explained once. */
static void show_marks(struct cli *c, const struct plan_question *q, const struct plan_result *p)
{
    bool           old = false;
    struct arena   s   = *c->perm;
    struct textbuf b   = textbuf_new(&s);
    for (i64 i = 0; i < MIN(p->count, PLAN_SHOWN); i++) {
        const char *why = plan_cannot(q, &p->rows[i]);
        bool new        = why != NULL;
        old |= plan_price_is_old(q, &p->rows[i]);
        for (i64 j = 0; j < i && new; j++) new = plan_cannot(q, &p->rows[j]) != why;
        if (new) textbuf_fmt(&b, "%s%s", b.len ? ", " : "", why);
    }
    if (b.len)
        say_result(c->say, "  ! frugal itself cannot train this yet: %.*s\n",
                   STR_ARG(textbuf_str(&b)));
    if (old)
        say_result(c->say,
                   "  * a price older than %d days, or without a date: `frugal prices import` "
                   "updates it\n",
                   PRICE_OLD_DAYS);
}

static void show_how(struct cli *c, const struct plan_question *q, i64 shown)
{
    struct arena      s                                      = *c->perm;
    struct str        how[PLAN_SHOWN][COUNT_OF(how_columns)] = { 0 };
    struct say_column columns[COUNT_OF(how_columns)], fitted[COLUMNS_MAX];
    for (i64 i = 0; i < shown; i++) how_cells(&s, i + 1, &q->result->rows[i], how[i]);
    memcpy(columns, how_columns, sizeof columns);
    if (q->limits.deadline_s > 0) columns[IN_TIME].rank = 0; /* else a column of dashes */
    struct say_table t = table_of(columns, COUNT_OF(columns), how[0], shown, fitted);
    say_rows(c->say, &t, how[0], shown);
}

void plan_tables(struct cli *c, const struct plan_question *q)
{
    i64 shown = MIN(q->result->count, PLAN_SHOWN);
    show_bill(c, q, shown);
    show_marks(c, q, q->result);
    say_result(c->say, "\n");
    show_how(c, q, shown);
}
