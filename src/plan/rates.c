/* rates.c - a line through what was measured, op by op, and back. */
#include "plan/rates.h"
#include "base/csv.h"
#include <math.h>
#include <string.h>

enum { TERMS = 3, SUBSETS = 1 << TERMS };

static const f64 begin_guess_s = 2e-6;
static const f64 careful       = 0.5; /* of both peaks, for an op that nobody measured */
static const f64 sizes_differ =
    4; /* largest by smallest: less tells nothing of what it takes to begin */

static enum rate_width width_of(enum dtype t) { return dtype_bytes(t) == 2 ? RATE_LOW : RATE_F32; }

static f64 peak_flops(const struct target *t, enum dtype dtype)
{
    enum dtype asked = dtype_is_float(dtype) ? dtype : DT_F32;
    return t->flops_s[asked] > 0 ? t->flops_s[asked] : t->flops_s[DT_F32];
}

struct rate_time rates_time(const struct rates *r, const struct target *t, i32 op, enum dtype dtype,
                            struct cost cost, bool *known)
{
    enum rate_width    width = width_of(dtype);
    const struct rate *k     = NULL;
    f64                own = r->peak[width].flops, far = r->peak[width].bytes;
    f64                flops = cost.flops / (own > 0 ? own : peak_flops(t, dtype));
    f64                bytes = cost.bytes / (far > 0 ? far : t->bandwidth_bytes_s);
    if (op < OP_COUNT && r->known[op][width]) k = &r->of[op][width];
    else if (op < OP_COUNT && r->known[op][!width]) k = &r->of[op][!width];
    if (k)
        return (struct rate_time){ k->begin_s, k->flops > 0 ? flops / k->flops : 0,
                                   k->bytes > 0 ? bytes / k->bytes : 0 };
    if (known) *known = false;
    return flops > bytes ? (struct rate_time){ begin_guess_s, flops / careful, 0 }
                         : (struct rate_time){ begin_guess_s, 0, bytes / careful };
}

/* --- the fit --- */

struct sums { /* normal equations of the three terms, each divided by the seconds measured */
    f64 square[TERMS][TERMS], times[TERMS], samples;
};

static void sums_add(struct sums *s, const struct rate_sample *x)
{
    f64 term[TERMS] = { 1e-6 / x->seconds, x->cost.flops * 1e-9 / x->seconds,
                        x->cost.bytes * 1e-9 / x->seconds };
    for (i32 i = 0; i < TERMS; i++) {
        for (i32 k = 0; k < TERMS; k++) s->square[i][k] += term[i] * term[k];
        s->times[i] += term[i];
    }
    s->samples++;
}

/* Gauss and Jordan over the terms in the set; the others are 0. */
static bool solve(const struct sums *s, u32 set, f64 out[TERMS])
{
    f64 a[TERMS][TERMS + 1];
    for (i32 i = 0; i < TERMS; i++) {
        bool in = set >> i & 1;
        for (i32 k = 0; k < TERMS; k++) a[i][k] = in && (set >> k & 1) ? s->square[i][k] : i == k;
        a[i][TERMS] = in ? s->times[i] : 0;
    }
    for (i32 i = 0; i < TERMS; i++) {
        if (!(fabs(a[i][i]) > 1e-12 * (1 + s->square[i][i]))) return false;
        for (i32 row = 0; row < TERMS; row++) {
            f64 part = row == i ? 0 : a[row][i] / a[i][i];
            for (i32 k = 0; k <= TERMS; k++) a[row][k] -= part * a[i][k];
        }
    }
    for (i32 i = 0; i < TERMS; i++) {
        out[i] = a[i][TERMS] / a[i][i];
        if (out[i] < 0) return false;
    }
    return true;
}

/* Sum of squared relative errors: |X c - 1|^2. */
static f64 error_of(const struct sums *s, const f64 c[TERMS])
{
    f64 e = s->samples;
    for (i32 i = 0; i < TERMS; i++) {
        e -= 2 * c[i] * s->times[i];
        for (i32 k = 0; k < TERMS; k++) e += c[i] * c[k] * s->square[i][k];
    }
    return e;
}

/* Three terms are so few that all their sets are tried. */
static bool best_line(const struct sums *s, bool with_begin, f64 out[TERMS])
{
    f64 least = INFINITY, c[TERMS];
    for (u32 set = 1; set < SUBSETS; set++) {
        if ((set & 1) && !with_begin) continue;
        if (!solve(s, set, c)) continue;
        f64 error = error_of(s, c);
        if (error >= least) continue;
        least = error;
        memcpy(out, c, sizeof c);
    }
    return least < INFINITY;
}

static void fit_one(struct rates *r, const struct target *t, i32 op, enum rate_width width,
                    const struct rate_sample *samples, i64 count)
{
    struct sums s   = { 0 };
    f64         low = INFINITY, high = 0, c[TERMS] = { 0 }, peak = 0, measured = 0, told = 0;
    for (i64 i = 0; i < count; i++) {
        const struct rate_sample *x = &samples[i];
        if (x->op != op || width_of(x->dtype) != width || !(x->seconds > 0)) continue;
        sums_add(&s, x);
        peak = r->peak[width].flops;
        low  = MIN(low, x->cost.bytes + x->cost.flops);
        high = MAX(high, x->cost.bytes + x->cost.flops);
    }
    if (s.samples == 0 || !best_line(&s, high >= sizes_differ * low, c)) return;
    /* Squares of relative errors punish too much more than too little, so the line lies low: it is
     * lifted until the sums agree. */
    for (i64 i = 0; i < count; i++) {
        const struct rate_sample *x = &samples[i];
        if (x->op != op || width_of(x->dtype) != width || !(x->seconds > 0)) continue;
        measured += x->seconds;
        told += c[0] * 1e-6 + c[1] * 1e-9 * x->cost.flops + c[2] * 1e-9 * x->cost.bytes;
    }
    f64 lift                 = told > 0 ? measured / told : 1;
    r->known[op][width]      = true;
    r->of[op][width].begin_s = lift * c[0] * 1e-6;
    r->of[op][width].flops   = c[1] > 0 ? 1 / (lift * c[1] * 1e-9 * peak) : 0;
    r->of[op][width].bytes   = c[2] > 0 ? 1 / (lift * c[2] * 1e-9 * t->bandwidth_bytes_s) : 0;
}

void rates_fit(struct rates *r, const struct target *t, const struct rate_sample *samples,
               i64 count)
{
    r->peak[RATE_F32] = (struct rate){ 0, t->flops_s[DT_F32], t->bandwidth_bytes_s };
    r->peak[RATE_LOW] = (struct rate){ 0, peak_flops(t, t->low), t->bandwidth_bytes_s };
    for (i32 op = 0; op < OP_COUNT; op++) {
        for (i32 width = 0; width < RATE_WIDTHS; width++)
            fit_one(r, t, op, (enum rate_width)width, samples, count);
    }
}

/* --- what was measured, and texts --- */

static struct rates of_gpus, of_cpus;

static void fill(void)
{
#define RATE(whose, op_, width, begin_us, flops_, bytes_)                                          \
    whose.of[OP_##op_][RATE_##width]    = (struct rate){ (begin_us)*1e-6, (flops_), (bytes_) };    \
    whose.known[OP_##op_][RATE_##width] = true;
#include "plan/rates.def"
#undef RATE
}

const struct rates *rates_of_gpus(void)
{
    fill(); /* the same every time: threads may meet here */
    return &of_gpus;
}

const struct rates *rates_of_cpus(void)
{
    fill();
    return &of_cpus;
}

static const char *const widths[RATE_WIDTHS] = { "f32", "low" };
static const char        header[]            = "op,width,begin_us,flops,bytes";

static const char peak_name[] = "peak"; /* in place of an op: FLOPs and bytes a second */

static void print_row(struct textbuf *b, const char *name, i32 width, const struct rate *k)
{
    textbuf_fmt(b, "%s,%s,%.4g,%.4g,%.4g\n", name, widths[width], k->begin_s * 1e6, k->flops,
                k->bytes);
}

struct str rates_print(const struct rates *r, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, "%s\n", header);
    for (i32 w = 0; w < RATE_WIDTHS; w++) print_row(&b, peak_name, w, &r->peak[w]);
    for (i32 op = 0; op < OP_COUNT; op++) {
        for (i32 w = 0; w < RATE_WIDTHS; w++) {
            if (r->known[op][w]) print_row(&b, op_info(op)->name, w, &r->of[op][w]);
        }
    }
    return textbuf_str(&b);
}

/* The op, or OP_COUNT for the peak. */
static bool find_op(struct str name, i32 *op)
{
    *op = OP_COUNT;
    return str_eq(name, str_of(peak_name)) || (op_find(name, op) && *op < OP_COUNT);
}

static enum status parse_row(struct rates *r, struct csv *c, struct err *err)
{
    struct str  field[5] = { 0 };
    bool        last     = false;
    enum status st       = STATUS_OK;
    i64         n = 0, line = c->line;
    while (!st && !last && n < COUNT_OF(field)) st = csv_field(c, &field[n++], &last, err);
    if (st) return st;
    i32         op, w = str_eq(field[1], str_of(widths[RATE_LOW]));
    struct rate k;
    bool        sound = n == COUNT_OF(field) && last && find_op(field[0], &op) &&
                 (w || str_eq(field[1], str_of(widths[RATE_F32]))) &&
                 str_f64(field[2], &k.begin_s) && str_f64(field[3], &k.flops) &&
                 str_f64(field[4], &k.bytes) && k.begin_s >= 0 && k.flops >= 0 && k.bytes >= 0;
    if (!sound)
        return err_set(err, STATUS_USAGE, "%.*s:%lld: not a row %s", STR_ARG(c->path),
                       (long long)line, header);
    k.begin_s *= 1e-6;
    *(op == OP_COUNT ? &r->peak[w] : &r->of[op][w]) = k;
    if (op < OP_COUNT) r->known[op][w] = true;
    return STATUS_OK;
}

enum status rates_parse(struct rates *r, struct str path, struct str text, struct err *err)
{
    struct csv  c = csv_of(path, text);
    struct str  head;
    enum status st = STATUS_OK;
    if (!str_cut(&text, '\n', &head) || !str_eq(head, str_of(header)))
        return err_set(err, STATUS_USAGE, "%.*s: the first line is not %s", STR_ARG(path), header);
    c.at   = (i64)sizeof header; /* with its line end */
    c.line = 2;
    while (!st && csv_more(&c)) st = parse_row(r, &c, err);
    return st;
}
