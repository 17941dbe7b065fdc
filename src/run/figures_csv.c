/* figures_csv.c - a row a step, in the order of steps: so what was before a step is the file's beginning. */
#include "run/figures_int.h"
#include <math.h>

static struct str header_of(const struct sink *s, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, "step,time");
    for (i64 i = 0; i < FIGURE_COUNT; i++) {
        if (i == FIGURE_eval_value) textbuf_fmt(&b, ",eval_%.*s", STR_ARG(s->metric));
        else textbuf_fmt(&b, ",%s", figure_name((enum figure)i));
    }
    textbuf_fmt(&b, "\n");
    return textbuf_str(&b);
}

struct str csv_sink_kept(struct str text, struct str header, i64 step)
{
    i64 at = header.len;
    while (at < text.len) {
        struct str rest = str_sub(text, at, text.len), field = rest;
        i64        end = str_find(rest, '\n'), comma = str_find(rest, ','), of;
        field.len = MAX(comma, 0);
        if (end < 0 || comma < 0 || !str_i64(field, &of) || of > step) break;
        at += end + 1;
    }
    return str_sub(text, 0, at);
}

/* To a new file that takes the old one's name once it is whole, and stays open for more. */
static enum status renew(struct sink *s, struct str kept, struct arena scratch, struct err *err)
{
    struct str  part = os_part_name(&scratch, s->path);
    enum status st   = s->os->create(s->os, part, &s->file, err);
    if (!st) st = s->os->write(s->os, s->file, kept, err);
    if (!st) st = s->os->sync(s->os, s->file, err);
    if (!st) st = s->os->rename(s->os, part, s->path, err);
    if (!st) return st;
    if (s->file.fd >= 0) s->os->close(s->os, &s->file, NULL);
    s->os->remove(s->os, part, NULL);
    return st;
}

enum status csv_sink_open(struct sink *s, i64 step, struct arena scratch, struct err *err)
{
    struct str     header = header_of(s, &scratch), old = { 0 };
    struct os_stat there = { 0 };
    enum status    st    = STATUS_OK;
    if (s->file.fd >= 0) s->os->close(s->os, &s->file, NULL);
    s->opened++;
    if (!s->os->stat(s->os, s->path, &there, NULL) && there.bytes)
        st = s->os->map(s->os, s->path, &old, err);
    if (st) return st;
    if (!old.len) st = renew(s, header, scratch, err);
    else if (str_starts(old, header)) st = renew(s, csv_sink_kept(old, header, step), scratch, err);
    else
        st =
            err_set(err, STATUS_USAGE,
                    "%.*s has other columns than this run and is not changed: give another log.csv",
                    STR_ARG(s->path));
    if (old.len) s->os->unmap(s->os, old);
    return st;
}

enum status csv_sink_put(struct sink *s, const struct figures *f, struct arena scratch,
                         struct err *err)
{
    struct textbuf b = textbuf_new(&scratch);
    textbuf_fmt(&b, "%lld,%lld.%03lld", (long long)f->step, (long long)(f->wall_ns / 1000000000),
                (long long)(f->wall_ns / 1000000 % 1000));
    for (i64 i = 0; i < FIGURE_COUNT; i++) {
        textbuf_fmt(&b, ",");
        if (isfinite(f->value[i])) textbuf_f64(&b, f->value[i]);
        else if (!isnan(f->value[i])) textbuf_fmt(&b, f->value[i] > 0 ? "inf" : "-inf");
    }
    textbuf_fmt(&b, "\n");
    return s->os->write(s->os, s->file, textbuf_str(&b), err);
}
