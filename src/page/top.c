/* top.c - a screen of lines:
 *
 *     frugal top   3 runs, 1 active, $0.13
 *     run       name          state       steps          loss   dollars    at the end   left
 *     08b02f83  net           running     6,212/40,000   0.193  $0.0297    $0.19        3:52
 *     net: loss over dollars
 *     1.3 ⡇⢄
 *     …    ⠑⠒⠤⣀⣀
 *     throughput 11 k samples/s   MFU 19 %   utilisation 12 %   waiting 6 %
 *
 * Curves are drawn with Braille patterns, eight dots a character. */
#include "page/top.h"
#include "base/quantity.h"
#include "page/page_int.h"
#include "run/comparison.h"
#include <math.h>
#include <string.h>

enum { COLUMNS_MIN = 40, COLUMNS_MAX = 400, ROWS_MIN = 10, ROWS_MAX = 200, LABEL = 9, NAME = 22 };

struct top {
    struct os     *os;
    struct runs    runs;
    struct str     events;
    struct series *series; /* of the run that is drawn */
    char           id[64];
};

enum status top_open(struct top **out, struct os *os, const struct page_config *config,
                     struct arena *perm, struct err *err)
{
    struct top *t  = NEW(perm, struct top, 1);
    t->os          = os;
    t->events      = page_events(config, perm);
    enum status st = runs_open(&t->runs, os, config->ledger, perm, err);
    *out           = st ? NULL : t;
    if (st) runs_close(&t->runs);
    return st;
}

void top_close(struct top *t)
{
    if (!t) return;
    if (t->series) series_close(t->series);
    runs_close(&t->runs);
}

/* ---- lines that fit ---- */

struct screen {
    struct textbuf b;
    struct arena  *perm; /* of a line's parts */
    struct arena   line; /* of add_line alone */
    i64            columns, rows, used;
};

/* Characters, cut where they do not fit; what a terminal would obey is written out. */
static void add_line(struct screen *s, struct str text)
{
    struct arena here = s->line;
    i64          at = 0, width = 0;
    if (s->used == s->rows) return;
    text = str_printable(&here, text);
    while (at < text.len && width < s->columns) {
        at = MAX(str_utf8_end(text, at), at + 1);
        width++;
    }
    if (s->used++) textbuf_fmt(&s->b, "\n");
    textbuf_add(&s->b, str_sub(text, 0, at));
}

static struct str dollars_of(f64 usd, struct arena *perm)
{
    if (isnan(usd)) return STR("-");
    return usd > 0 && usd < 0.0001 ? STR("<$0.0001") : text_dollars(perm, usd);
}

/* At most `most` characters of a name. */
static struct str shortened(struct str s, i64 most, struct arena *perm)
{
    i64 at = 0, n = 0;
    s = str_printable(perm, s);
    while (at < s.len && n < most) at = MAX(str_utf8_end(s, at), at + 1), n++;
    struct textbuf b = textbuf_new(perm);
    textbuf_add(&b, str_sub(s, 0, at));
    for (; n < most; n++) textbuf_fmt(&b, " ");
    return textbuf_str(&b);
}

/* ---- the list ---- */

/* Columns of the list: where there are few, progress is told in percent. */
struct widths {
    int name, steps;
};

static struct widths widths_of(const struct screen *s)
{
    bool narrow = s->columns < 100;
    int  steps = narrow ? 7 : 19, rest = 59 + steps;
    return (struct widths){ .name = (int)MIN(MAX(s->columns - rest, 6), NAME), .steps = steps };
}

static struct str steps_text(const struct run_bill *r, bool narrow, struct arena *perm)
{
    struct str done = text_count(perm, (f64)r->steps);
    if (!r->row.steps_planned) return done;
    if (narrow) return str_fmt(perm, "%.1f %%", 100 * (f64)r->steps / (f64)r->row.steps_planned);
    return str_fmt(perm, "%.*s/%.*s", STR_ARG(done),
                   STR_ARG(text_count(perm, (f64)r->row.steps_planned)));
}

static void add_run(struct screen *s, const struct run_bill *r)
{
    struct arena   here  = *s->perm;
    struct widths  w     = widths_of(s);
    struct outlook o     = runs_outlook(r);
    struct str     steps = steps_text(r, s->columns < 100, &here);
    struct str     loss  = isnan(r->loss) ? STR("-") : str_fmt(&here, "%.4g", r->loss);
    struct str id = shortened(r->row.id, 8, &here), name = shortened(r->row.name, w.name, &here);
    struct str state  = shortened(runs_state(r), 8, &here);
    struct str so_far = dollars_of(r->priced ? (f64)r->nusd * 1e-9 : NAN, &here);
    struct str end    = dollars_of(o.end_usd, &here);
    struct str left   = isnan(o.left_s) ? STR("-") : text_clock(&here, o.left_s);
    add_line(s, str_fmt(&here, "%.*s  %.*s %.*s %*.*s %8.*s %9.*s %10.*s %8.*s", STR_ARG(id),
                        STR_ARG(name), STR_ARG(state), w.steps, STR_ARG(steps), STR_ARG(loss),
                        STR_ARG(so_far), STR_ARG(end), STR_ARG(left)));
}

static void add_runs(struct screen *s, const struct runs *r, i64 most)
{
    i64           shown = 0;
    struct arena  here  = *s->perm;
    struct widths w     = widths_of(s);
    add_line(s, str_fmt(&here, "%-8s  %-*s %-8s %*s %8s %9s %10s %8s", "run", w.name, "name",
                        "state", w.steps, "steps", "loss", "dollars", "at the end", "left"));
    for (i64 round = 0; round < 2; round++) /* active ones first */
        for (i64 i = r->count; i-- > 0 && shown < most;)
            if ((r->items[i].state == RUN_RUNS) == !round) add_run(s, &r->items[i]), shown++;
}

/* ---- the curve ---- */

struct plot {
    u8 *dots; /* a character's eight, row by row */
    i64 columns, rows;
    f64 x0, x1, y0, y1;
};

static void plot_dot(struct plot *p, i64 x, i64 y)
{
    static const u8 bits[4][2] = { { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 } };
    if (x < 0 || y < 0 || x >= 2 * p->columns || y >= 4 * p->rows) return;
    p->dots[(y / 4) * p->columns + x / 2] |= bits[y % 4][x % 2];
}

static void plot_range(struct plot *p, const struct point *points, i64 count, enum point_value x)
{
    p->x0 = p->y0 = INFINITY;
    p->x1 = p->y1 = -INFINITY;
    for (i64 i = 0; i < count; i++) {
        f64 a = points[i].v[x], b = points[i].v[POINT_loss];
        if (isnan(a) || isnan(b) || points[i].is_eval) continue;
        p->x0 = MIN(p->x0, a), p->x1 = MAX(p->x1, a);
        p->y0 = MIN(p->y0, b), p->y1 = MAX(p->y1, b);
    }
    if (!(p->x1 > p->x0)) p->x1 = p->x0 + 1;
    if (!(p->y1 > p->y0)) p->y1 = p->y0 + 1;
}

/* Each point, and a line up or down to the one before it. */
static void plot_points(struct plot *p, const struct point *points, i64 count, enum point_value x)
{
    i64 before = -1;
    for (i64 i = 0; i < count; i++) {
        f64 a = points[i].v[x], b = points[i].v[POINT_loss];
        if (isnan(a) || isnan(b) || points[i].is_eval) continue;
        i64 at = (i64)((a - p->x0) / (p->x1 - p->x0) * (f64)(2 * p->columns - 1) + 0.5);
        i64 y  = (i64)((p->y1 - b) / (p->y1 - p->y0) * (f64)(4 * p->rows - 1) + 0.5);
        if (i && points[i - 1].segment != points[i].segment) before = -1;
        for (i64 k = before < 0 ? y : MIN(before, y); k <= (before < 0 ? y : MAX(before, y)); k++)
            plot_dot(p, at, k);
        before = y;
    }
}

static void add_plot(struct screen *s, const struct plot *p)
{
    for (i64 row = 0; row < p->rows; row++) {
        struct arena   here = *s->perm;
        struct textbuf b    = textbuf_new(&here);
        f64            y    = p->y1 - (p->y1 - p->y0) * (f64)row / (f64)MAX(p->rows - 1, 1);
        bool           told = row == 0 || row == p->rows - 1 || row == p->rows / 2;
        if (told) textbuf_fmt(&b, "%8.3g ", y);
        else textbuf_fmt(&b, "%9s", "");
        for (i64 i = 0; i < p->columns; i++) {
            char one[4];
            i64  n = str_utf8_put(one, 0x2800u + p->dots[row * p->columns + i]);
            textbuf_add(&b, (struct str){ one, n });
        }
        add_line(s, textbuf_str(&b));
    }
}

static void add_curve(struct screen *s, const struct series *series, struct str name, i64 rows)
{
    i64                 count;
    struct arena        here   = *s->perm;
    const struct point *points = series_points(series, &count);
    bool                paid   = count && points[count - 1].v[POINT_dollars] > 0;
    enum point_value    x      = paid ? POINT_dollars : POINT_step;
    struct plot         p = { .columns = MAX(s->columns - LABEL, 8), .rows = MAX(rows - 2, 1) };
    p.dots                = NEW(&here, u8, p.columns * p.rows);
    struct screen deeper  = *s;
    deeper.perm           = &here;
    add_line(&deeper, str_fmt(&here, "%.*s: training loss over %s",
                              STR_ARG(str_printable(&here, name)), paid ? "dollars" : "steps"));
    if (!count) {
        add_line(&deeper, STR("  no step yet"));
    } else {
        plot_range(&p, points, count, x);
        plot_points(&p, points, count, x);
        add_plot(&deeper, &p);
        struct str low  = paid ? dollars_of(p.x0, &here) : text_count(&here, p.x0);
        struct str high = paid ? dollars_of(p.x1, &here) : text_count(&here, p.x1);
        i64        gap  = MAX(1, p.columns - low.len - high.len);
        add_line(&deeper, str_fmt(&here, "%*s%.*s%*s%.*s", LABEL, "", STR_ARG(low), (int)gap, "",
                                  STR_ARG(high)));
    }
    s->b    = deeper.b;
    s->used = deeper.used;
}

/* ---- figures and the last words ---- */

static void add_part(struct textbuf *b, const char *name, f64 value, const char *unit)
{
    if (!isnan(value)) textbuf_fmt(b, "%s%s %.3g%s", b->len ? "   " : "", name, value, unit);
}

static void add_figures(struct screen *s, const struct series *series)
{
    i64                 count, line_count;
    const struct point *points = series_points(series, &count), *last = NULL;
    const struct str   *lines = series_lines(series, &line_count);
    struct arena        here = *s->perm, parts = arena_part(&here, 1 << 12);
    struct textbuf      b = textbuf_new(&here);
    for (i64 i = count; i-- > 0 && !last;)
        if (!points[i].is_eval) last = &points[i];
    if (last) {
        textbuf_fmt(&b, "%.*s %s", STR_ARG(text_count(&parts, last->v[POINT_rate])),
                    series_sample_tokens(series) ? "tokens/s" : "samples/s");
        add_part(&b, "MFU", 100 * last->v[POINT_mfu], " %");
        add_part(&b, "utilisation", 100 * last->v[POINT_busy], " %");
        add_part(&b, "waiting for data", 100 * last->v[POINT_wait], " %");
    }
    add_line(s, textbuf_str(&b));
    for (i64 i = line_count; i-- > 0;) { /* the newest that is in words */
        union event_any event;
        enum event_kind kind;
        struct arena    there = here;
        if (event_read(lines[i], &there, &kind, &event, NULL)) continue;
        struct str text = kind == EVENT_verdict   ? event.verdict.text
                          : kind == EVENT_note    ? event.note.text
                          : kind == EVENT_finding ? event.finding.text
                          : kind == EVENT_done    ? event.done.why
                                                  : STR("");
        if (!text.len) continue;
        add_line(s, text);
        return;
    }
}

/* ---- the screen ---- */

static const struct run_bill *chosen(const struct top *t, struct str word)
{
    const struct runs *r   = &t->runs;
    struct run_bill   *one = NULL;
    if (word.len && !report_find(r->items, r->count, word, &one, NULL)) return one;
    for (i64 i = r->count; i-- > 0;)
        if (r->items[i].state == RUN_RUNS) return &r->items[i];
    return r->count ? &r->items[r->count - 1] : NULL;
}

static void open_series(struct top *t, const struct run_bill *r, struct arena scratch)
{
    if (!page_is_id(r->row.id)) return;
    if (!t->series || !str_eq(str_of(t->id), r->row.id)) {
        if (t->series) series_close(t->series);
        memcpy(t->id, r->row.id.data, (size_t)r->row.id.len);
        t->id[r->row.id.len] = 0;
        t->series            = series_open(
                       t->os, str_fmt(&scratch, "%.*s/%.*s", STR_ARG(t->events), STR_ARG(r->row.id)));
    }
    if (t->series) series_update(t->series);
}

struct str top_frame(struct top *t, struct str run, i64 columns, i64 rows, struct arena *perm)
{
    enum { TEXT_MIB = 8 };
    struct arena  parts  = arena_part(perm, (i64)TEXT_MIB << 20);
    struct arena  line   = arena_part(perm, (i64)TEXT_MIB << 20);
    struct screen s      = { .line    = line,
                             .perm    = &parts,
                             .columns = MIN(MAX(columns, COLUMNS_MIN), COLUMNS_MAX),
                             .rows    = MIN(MAX(rows, ROWS_MIN), ROWS_MAX) };
    i64           active = 0, nusd = 0;
    runs_refresh(&t->runs);
    s.b = textbuf_new(perm);
    for (i64 i = 0; i < t->runs.count; i++) {
        active += t->runs.items[i].state == RUN_RUNS;
        nusd += t->runs.items[i].priced ? t->runs.items[i].nusd : 0;
    }
    struct arena here = parts;
    add_line(&s,
             str_fmt(&here, "frugal top   %lld runs, %lld active, %.*s", (long long)t->runs.count,
                     (long long)active, STR_ARG(text_dollars(&here, (f64)nusd * 1e-9))));
    const struct run_bill *r = chosen(t, run);
    add_runs(&s, &t->runs, MAX(2, s.rows / 3 - 2));
    if (!r) return textbuf_str(&s.b);
    open_series(t, r, parts);
    if (!t->series) return textbuf_str(&s.b);
    add_line(&s, STR(""));
    add_curve(&s, t->series, r->row.name.len ? r->row.name : r->row.id, s.rows - s.used - 2);
    add_figures(&s, t->series);
    return textbuf_str(&s.b);
}
