/* curve.c - a run's curve as JSON. */
#include "page/page_int.h"
#include <math.h>

void curve_point(struct textbuf *b, const struct point *p)
{
    out_open(b, NULL, '[');
    out_i64(b, NULL, p->is_eval);
    out_i64(b, NULL, p->segment);
    for (i64 i = 0; i < POINT_VALUE_COUNT; i++) {
        if (isnan(p->v[i])) textbuf_fmt(b, "null,");
        else
            textbuf_fmt(b, i <= POINT_wall_s ? "%.14g," : "%.6g,", p->v[i]); /* less than a pixel */
    }
    out_close(b, ']');
}

static void add_columns(struct textbuf *b)
{
    out_open(b, "columns", '[');
    out_text(b, NULL, STR("eval"));
    out_text(b, NULL, STR("start"));
    for (i64 i = 0; i < POINT_VALUE_COUNT; i++) out_text(b, NULL, str_of(point_value_names[i]));
    out_close(b, ']');
}

static bool is_of_classes(struct str line)
{
    return str_starts(line, STR("{\"event\":\"classes\"")) ||
           str_starts(line, STR("{\"event\":\"mistake\""));
}

/* Tables and pictures are large: of them the newest are shown. */
static void add_lines(struct textbuf *b, const struct str *lines, i64 count)
{
    i64 newest = count;
    while (newest > 0 && !str_starts(lines[newest - 1], STR("{\"event\":\"classes\""))) newest--;
    out_open(b, "lines", '[');
    for (i64 i = 0; i < count; i++)
        if (i >= newest - 1 || !is_of_classes(lines[i])) textbuf_fmt(b, "%.*s,", STR_ARG(lines[i]));
    out_close(b, ']');
}

void curve_json(struct textbuf *b, const struct series *s, enum point_value x, i64 buckets,
                struct str next, struct arena scratch)
{
    i64                 count, line_count, kept = 0;
    const struct point *points  = series_points(s, &count);
    const struct str   *lines   = series_lines(s, &line_count);
    i64                *indices = NEW(&scratch, i64, count + 1);
    if (count <= 4 * buckets)
        for (; kept < count; kept++) indices[kept] = kept;
    else kept = series_thin(points, count, x, buckets, indices);
    out_open(b, NULL, '{');
    out_text(b, "next", next);
    out_i64(b, "points_all", count);
    out_i64(b, "sample_tokens", series_sample_tokens(s));
    add_columns(b);
    out_open(b, "points", '[');
    for (i64 i = 0; i < kept; i++) curve_point(b, &points[indices[i]]);
    out_close(b, ']');
    add_lines(b, lines, line_count);
    out_close(b, '}');
}
