/* series.c - event logs read as they grow. */
#include "page/series.h"
#include "run/event_log.h"
#include <math.h>
#include <string.h>

enum { READ_BYTES = 1 << 20, MEMORY_MIB = 1024, LINE_SCRATCH = 4 << 20 };

const char *const point_value_names[POINT_VALUE_COUNT] = {
#define VALUE(name) #name,
    POINT_VALUES(VALUE)
#undef VALUE
};

enum point_value point_value_of(struct str name)
{
    i32 i = 0;
    while (i < POINT_VALUE_COUNT && !str_eq(name, str_of(point_value_names[i]))) i++;
    return (enum point_value)i;
}

struct log {
    struct str name;
    i64        bytes; /* that were read, whole lines */
};

struct series {
    struct os    *os;
    struct str    folder;
    struct arena  all;     /* to close */
    struct arena  texts;   /* of lines */
    struct arena  scratch; /* of a line */
    char         *block;
    struct log    logs[SERIES_SEGMENTS_MAX];
    i64           log_count;
    struct point *points;
    i64           point_count;
    struct str   *lines;
    i64           line_count;
    i64           step_samples, sample_tokens; /* of the newest start */
    char          metric[64];
    i32           segment; /* that is being read */
    i64           wall_ns;
};

struct series *series_open(struct os *os, struct str folder)
{
    struct arena all = arena_open((i64)MEMORY_MIB << 20);
    if (!all.begin) return NULL;
    struct arena   here = all;
    struct series *s    = NEW(&here, struct series, 1);
    s->all              = all;
    s->os               = os;
    s->folder           = str_copy(&here, folder);
    s->block            = NEW(&here, char, READ_BYTES);
    s->points           = NEW(&here, struct point, SERIES_POINTS_MAX);
    s->lines            = NEW(&here, struct str, SERIES_LINES_MAX);
    s->scratch          = arena_part(&here, LINE_SCRATCH);
    s->texts            = here;
    return s;
}

void series_close(struct series *s)
{
    struct arena all = s->all;
    arena_close(&all);
}

/* ---- events become points ---- */

static f64 metric_of(const struct series *s, const struct event_metrics *m)
{
    for (i64 i = 0; i < m->count; i++)
        if (str_eq(m->items[i].name, str_of(s->metric))) return m->items[i].value;
    return NAN;
}

static struct point *point_new(struct series *s, bool is_eval)
{
    if (s->point_count == SERIES_POINTS_MAX) return NULL;
    struct point *p = &s->points[s->point_count++];
    p->segment      = s->segment;
    p->is_eval      = is_eval;
    for (i64 i = 0; i < POINT_VALUE_COUNT; i++) p->v[i] = NAN;
    p->v[POINT_wall_s] = (f64)s->wall_ns * 1e-9;
    return p;
}

static f64 work_at(const struct series *s, i64 step)
{
    f64 samples = (f64)step * (f64)s->step_samples;
    return s->step_samples ? samples * (f64)MAX(s->sample_tokens, 1) : NAN;
}

static void on_start(void *context, const struct event_start *e)
{
    struct series *s = context;
    i64            n = MIN(e->metric.len, (i64)sizeof s->metric - 1);
    if (__builtin_mul_overflow(e->batch, MAX(e->accumulate, 1), &s->step_samples))
        s->step_samples = 0; /* no run's: the log may be anybody's */
    if (e->step_samples > 0)
        s->step_samples = e->step_samples; /* of all ranks; older logs lack it */
    s->sample_tokens = e->sample_tokens;
    if (n) memcpy(s->metric, e->metric.data, (size_t)n);
    s->metric[n] = 0;
}

static void on_step(void *context, const struct event_step *e)
{
    struct series *s = context;
    struct point  *p = point_new(s, false);
    if (!p) return;
    p->v[POINT_step]         = (f64)e->step;
    p->v[POINT_seconds]      = e->elapsed_s;
    p->v[POINT_dollars]      = e->dollars;
    p->v[POINT_work]         = work_at(s, e->step);
    p->v[POINT_loss]         = e->loss;
    p->v[POINT_value]        = metric_of(s, &e->metrics);
    p->v[POINT_lr]           = e->lr;
    p->v[POINT_rate]         = isnan(e->tokens_per_s) ? e->samples_per_s : e->tokens_per_s;
    p->v[POINT_mfu]          = e->mfu;
    p->v[POINT_busy]         = e->busy;
    p->v[POINT_wait]         = e->input_share;
    p->v[POINT_p50_s]        = e->step_p50_s;
    p->v[POINT_p95_s]        = e->step_p95_s;
    p->v[POINT_left_s]       = e->eta_s;
    p->v[POINT_remote_age_s] = e->remote_age_s;
}

_Static_assert(POINT_idle - POINT_compute == TERM_COUNT - 1, "in the order of TERMS");

static void on_eval(void *context, const struct event_eval *e)
{
    struct series *s = context;
    struct point  *p = point_new(s, true);
    if (!p) return;
    p->v[POINT_step]     = (f64)e->step;
    p->v[POINT_seconds]  = e->elapsed_s;
    p->v[POINT_dollars]  = e->dollars;
    p->v[POINT_work]     = work_at(s, e->step);
    p->v[POINT_loss]     = e->loss;
    p->v[POINT_value]    = metric_of(s, &e->metrics);
    p->v[POINT_forecast] = e->forecast;
    p->v[POINT_reach]    = e->reach;
    for (i64 i = 0; i < TERM_COUNT; i++) p->v[POINT_compute + i] = (f64)e->terms_ns.ns[i] * 1e-9;
}

static bool is_point(enum event_kind k) { return k == EVENT_step || k == EVENT_eval; }

/* A line that was read; the file may be of anybody, so what is no event is passed over. */
static void take_line(struct series *s, struct str line)
{
    const struct subscriber to = {
        .context = s, .on_start = on_start, .on_step = on_step, .on_eval = on_eval
    };
    struct arena    here = s->scratch;
    union event_any event;
    enum event_kind kind;
    if (line.len > LINE_SCRATCH / 64 || event_read(line, &here, &kind, &event, NULL)) return;
    struct str tail = str_sub(line, MAX(line.len - 40, 0), line.len), head;
    while (str_cut(&tail, ':', &head)) {} /* "wall_ns":N} is the last field */
    i64 ns = 0;
    if (head.len && str_i64(str_sub(head, 0, head.len - 1), &ns)) s->wall_ns = ns;
    events_emit(&to, kind, &event);
    bool room = s->line_count < SERIES_LINES_MAX && s->texts.end - s->texts.begin > line.len + 64;
    if (!is_point(kind) && room) s->lines[s->line_count++] = str_copy(&s->texts, line);
}

/* ---- files ---- */

static void read_log(struct series *s, i64 at)
{
    struct log  *l    = &s->logs[at];
    struct arena here = s->scratch;
    struct str   path = str_fmt(&here, "%.*s/%.*s", STR_ARG(s->folder), STR_ARG(l->name));
    struct file  f    = { -1 };
    i64          got  = 0;
    s->segment        = (i32)at;
    if (s->os->open_read(s->os, path, &f, NULL)) return;
    while (!s->os->read(s->os, f, s->block, READ_BYTES, l->bytes, &got, NULL) && got > 0) {
        struct str text = { s->block, got }, line;
        while (text.len && text.data[text.len - 1] != '\n')
            text.len--;                                     /* the rest is not whole yet */
        if (!text.len && got == READ_BYTES) text.len = got; /* no event is so long */
        l->bytes += text.len;
        if (!text.len) break;
        while (str_cut(&text, '\n', &line)) take_line(s, line);
    }
    s->os->close(s->os, &f, NULL);
}

static i64 first_wall_ns(struct series *s, struct str name)
{
    struct arena here = s->scratch;
    struct str   path = str_fmt(&here, "%.*s/%.*s", STR_ARG(s->folder), STR_ARG(name)), line, head;
    struct file  f    = { -1 };
    i64          got = 0, ns = INT64_MAX;
    if (s->os->open_read(s->os, path, &f, NULL)) return ns;
    if (s->os->read(s->os, f, s->block, READ_BYTES, 0, &got, NULL)) got = 0;
    s->os->close(s->os, &f, NULL);
    struct str text = { s->block, got };
    if (!str_cut(&text, '\n', &line)) return ns;
    struct str tail = str_sub(line, MAX(line.len - 40, 0), line.len);
    while (str_cut(&tail, ':', &head)) {}
    return head.len && str_i64(str_sub(head, 0, head.len - 1), &ns) ? ns : INT64_MAX;
}

static bool is_known(const struct series *s, struct str name)
{
    for (i64 i = 0; i < s->log_count; i++)
        if (str_eq(s->logs[i].name, name)) return true;
    return false;
}

/* Logs that are new, the oldest first. */
static void find_logs(struct series *s)
{
    struct arena here = s->scratch;
    struct str  *names;
    i64          count;
    if (s->os->list(s->os, s->folder, &here, &names, &count, NULL)) return;
    for (;;) {
        i64 best = -1, best_ns = 0;
        for (i64 i = 0; i < count; i++) {
            if (!str_ends(names[i], STR(".jsonl")) || is_known(s, names[i])) continue;
            struct arena keep = s->scratch;
            s->scratch        = here;
            i64 ns            = first_wall_ns(s, names[i]);
            s->scratch        = keep;
            if (ns == INT64_MAX || (best >= 0 && ns >= best_ns)) continue;
            best    = i;
            best_ns = ns;
        }
        if (best < 0 || s->log_count == SERIES_SEGMENTS_MAX) return;
        s->logs[s->log_count++] = (struct log){ .name = str_copy(&s->texts, names[best]) };
    }
}

void series_update(struct series *s)
{
    find_logs(s);
    for (i64 i = 0; i < s->log_count; i++) {
        struct arena   here = s->scratch;
        struct os_stat st;
        struct str path = str_fmt(&here, "%.*s/%.*s", STR_ARG(s->folder), STR_ARG(s->logs[i].name));
        if (!s->os->stat(s->os, path, &st, NULL) && st.bytes > s->logs[i].bytes) read_log(s, i);
    }
}

const struct point *series_points(const struct series *s, i64 *count)
{
    *count = s->point_count;
    return s->points;
}

const struct str *series_lines(const struct series *s, i64 *count)
{
    *count = s->line_count;
    return s->lines;
}

i64 series_sample_tokens(const struct series *s) { return s->sample_tokens; }

i64 series_bytes(const struct series *s)
{
    i64 sum = 0;
    for (i64 i = 0; i < s->log_count; i++) sum += s->logs[i].bytes;
    return sum;
}

/* ---- thinning ---- */

struct bucket {
    i64 first, low, high, last; /* indices; -1: none */
};

static i64 bucket_flush(struct bucket *b, i64 *indices)
{
    i64 count = 0, at[4] = { b->first, MIN(b->low, b->high), MAX(b->low, b->high), b->last };
    for (i64 i = 0; i < 4; i++)
        if (at[i] >= 0 && (!count || at[i] > indices[count - 1])) indices[count++] = at[i];
    *b = (struct bucket){ -1, -1, -1, -1 };
    return count;
}

static void bucket_add(struct bucket *b, const struct point *points, i64 i)
{
    f64 loss = points[i].v[POINT_loss];
    if (b->first < 0) b->first = i;
    b->last = i;
    if (isnan(loss)) return;
    if (b->low < 0 || loss < points[b->low].v[POINT_loss]) b->low = i;
    if (b->high < 0 || loss > points[b->high].v[POINT_loss]) b->high = i;
}

i64 series_thin(const struct point *points, i64 count, enum point_value x, i64 buckets,
                i64 *indices)
{
    f64           low = INFINITY, high = -INFINITY;
    i64           kept = 0, evals = 0, eval = 0, at = -1;
    i32           segment = -1;
    struct bucket b       = { -1, -1, -1, -1 };
    for (i64 i = 0; i < count; i++) {
        evals += points[i].is_eval;
        if (isnan(points[i].v[x])) continue;
        low  = MIN(low, points[i].v[x]);
        high = MAX(high, points[i].v[x]);
    }
    i64 every = MAX(1, (evals + 2 * buckets - 1) / (2 * buckets));
    f64 scale = high > low ? (f64)buckets / (high - low) : 0;
    for (i64 i = 0; i < count; i++) {
        if (isnan(points[i].v[x])) continue;
        i64 here = (i64)((points[i].v[x] - low) * scale);
        if (here != at || points[i].segment != segment) kept += bucket_flush(&b, indices + kept);
        at      = here;
        segment = points[i].segment;
        if (!points[i].is_eval) bucket_add(&b, points, i);
        else if (eval++ % every == 0 || eval == evals) {
            kept += bucket_flush(&b, indices + kept); /* in the order of time */
            indices[kept++] = i;
        }
    }
    return kept + bucket_flush(&b, indices + kept);
}
