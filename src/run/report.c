/* report.c - from rows to bills. */
#include "run/report.h"
#include "base/hash.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *bill_part_name(i64 part)
{
    if (part < TERM_COUNT) return term_name((enum term)part);
    return part == BILL_STORAGE ? "storage" : "requests";
}

/* Everything that is read, by table. */
struct rows {
    struct run_row          *runs;
    struct segment_row      *segments;
    struct price_row        *prices;
    struct checkpoint_row   *checkpoints;
    struct prediction_row   *predictions;
    struct interruption_row *interruptions;
    i64 run_count, segment_count, price_count, checkpoint_count, prediction_count,
        interruption_count;
    i64 *own_ns; /* of segments */
};

static enum status read_rows(struct ledger *l, struct rows *r, struct arena *perm, struct err *err)
{
    enum status st = STATUS_OK;
#define READ(name)                                                                                 \
    if (!st)                                                                                       \
        st = ledger_read(l, LEDGER_TABLE_##name, NULL, STR(""), perm, &r->name##s,                 \
                         &r->name##_count, err);
    READ(run)
    READ(segment)
    READ(price)
    READ(checkpoint)
    READ(prediction)
    READ(interruption)
#undef READ
    return st;
}

static int order(struct str a, struct str b)
{
    int bytes = memcmp(a.data ? a.data : "", b.data ? b.data : "", (size_t)MIN(a.len, b.len));
    return bytes ? bytes : a.len < b.len ? -1 : a.len > b.len;
}

static int by_begin(const void *a, const void *b)
{
    const struct segment_row *x = a, *y = b;
    int                       runs = order(x->run, y->run);
    return runs                                  ? runs
           : x->begin_wall_ns < y->begin_wall_ns ? -1
                                                 : x->begin_wall_ns > y->begin_wall_ns;
}

/* By the text that rows begin with. */
static int by_key(const void *a, const void *b)
{
    return order(*(const struct str *)a, *(const struct str *)b);
}

static int by_first(const void *a, const void *b)
{
    const struct run_bill *x = a, *y = b;
    return x->row.begin_wall_ns < y->row.begin_wall_ns
               ? -1
               : x->row.begin_wall_ns > y->row.begin_wall_ns;
}

/* The first of rows sorted by the text at that place in them that is not before `key`. */
static i64 first_row(const void *rows, i64 count, size_t row_bytes, size_t text_at, struct str key)
{
    i64 low = 0, high = count;
    while (low < high) {
        i64         middle = (low + high) / 2;
        const char *row    = (const char *)rows + (size_t)middle * row_bytes;
        struct str  text;
        memcpy(&text, row + text_at, sizeof text);
        if (order(text, key) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}
#define FIRST(rows, count, column, key)                                                            \
    first_row((rows), (count), sizeof *(rows), (size_t)((char *)&(rows)->column - (char *)(rows)), \
              (key))

static const struct price_row *price_of(const struct rows *r, struct str id)
{
    for (i64 i = 0; i < r->price_count && id.len; i++)
        if (str_eq(r->prices[i].id, id)) return &r->prices[i];
    return NULL;
}

/* Did the machine's provider end it? Our own signals are no reason for a discount. */
static bool was_taken(const struct rows *r, struct str segment)
{
    i64 i = FIRST(r->interruptions, r->interruption_count, segment, segment);
    for (; i < r->interruption_count && str_eq(r->interruptions[i].segment, segment); i++)
        if (!str_eq(r->interruptions[i].kind, STR("signal"))) return true;
    return false;
}

/* A local disk is in the machine's price. */
static bool is_stored_apart(struct str place)
{
    return str_starts(place, STR("s3://")) || str_starts(place, STR("gs://"));
}

/* Of all that a segment stored, until now. */
static i64 stored_nusd(const struct rows *r, const struct segment_row *s, i64 now_wall_ns,
                       bool *known)
{
    i64 sum = 0;
    i64 i   = FIRST(r->checkpoints, r->checkpoint_count, segment, s->id);
    for (; i < r->checkpoint_count && str_eq(r->checkpoints[i].segment, s->id); i++) {
        const struct checkpoint_row *c = &r->checkpoints[i];
        if (!is_stored_apart(c->place)) continue;
        i64 until_ns = c->removed_wall_ns ? c->removed_wall_ns : now_wall_ns;
        *known &= !isnan(c->usd_gib_month) && !isnan(s->requests_usd);
        if (!isnan(c->usd_gib_month))
            sum += bill_stored_nusd(c->usd_gib_month, c->bytes, until_ns - c->saved_wall_ns);
    }
    return sum;
}

static i64 nusd_of(f64 usd) { return isnan(usd) ? 0 : llround(usd * 1e9); }

/* A segment's dollars, as its own bill had them; by term. */
static void add_dollars(struct run_bill *b, const struct rows *r, i64 segment, i64 now_wall_ns,
                        struct arena scratch)
{
    const struct segment_row *s     = &r->segments[segment];
    const struct price_row   *price = price_of(r, s->price);
    i64                       ns[TERM_COUNT], parts[TERM_COUNT], own_ns = r->own_ns[segment];
    segment_terms(s, ns);
    i64 stored = nusd_of(s->storage_usd), asked = nusd_of(s->requests_usd);
    i64 alone = price ? bill_nusd(price, s->metered_ns, was_taken(r, s->id)) : -1;
    b->since_nusd += stored_nusd(r, s, now_wall_ns, &b->storage_known) - stored;
    b->priced &= alone >= 0;
    if (alone < 0) return;
    b->rule_nusd += alone - bill_used_nusd(price, s->metered_ns);
    i64 split[2] = { own_ns, s->metered_ns - own_ns }, mine[2];
    bill_split(alone, split, 2, mine, scratch);
    b->shared_nusd += mine[1];
    bill_split(alone, ns, TERM_COUNT, parts, scratch);
    for (i64 i = 0; i < TERM_COUNT; i++) b->part_nusd[i] += parts[i];
    b->part_nusd[BILL_STORAGE] += stored;
    b->part_nusd[BILL_REQUESTS] += asked;
    b->nusd += alone + stored + asked;
    if (s->target_ns && !b->reached) {
        i64 until[2] = { s->target_ns, MAX(s->metered_ns - s->target_ns, 0) };
        bill_split(alone, until, 2, mine, scratch);
        b->target_nusd = b->nusd - mine[1];
    }
}

static void add_segment(struct run_bill *b, const struct rows *r, i64 segment, i64 now_wall_ns,
                        struct arena scratch)
{
    const struct segment_row *s = &r->segments[segment];
    i64                       ns[TERM_COUNT], steps = s->step - s->step_from;
    segment_terms(s, ns);
    add_dollars(b, r, segment, now_wall_ns, scratch);
    for (i64 i = 0; i < TERM_COUNT; i++) b->term_ns[i] += ns[i];
    b->metered_ns += s->metered_ns;
    b->own_ns += r->own_ns[segment];
    i64 work = str_eq(b->row.unit, STR("tokens")) ? s->tokens : s->samples;
    if (steps > 0) /* steps that were done before do not count twice */
        b->work +=
            llround((f64)work * (f64)MAX(s->step - MAX(b->steps, s->step_from), 0) / (f64)steps);
    b->steps = MAX(b->steps, s->step);
    b->reached |= s->target_ns > 0;
    if (!isnan(s->loss)) b->loss = s->loss;
    if (!isnan(s->value)) b->value = s->value;
    bool killed =
        str_eq(s->ended, segment_killed) || (!s->ended.len && !segment_runs(s, now_wall_ns));
    b->state = killed ? RUN_KILLED : s->ended.len ? RUN_ENDED : RUN_RUNS;
    if (b->state == RUN_KILLED) b->uncertain_ns += s->beat_every_ns;
    i64 i = FIRST(r->interruptions, r->interruption_count, segment, s->id);
    for (; i < r->interruption_count && str_eq(r->interruptions[i].segment, s->id); i++)
        b->interruptions++;
}

/* The value of a setting in the lines of a run; empty: at its default. */
static struct str setting(struct str settings, struct str key)
{
    struct str line, name;
    while (str_cut(&settings, '\n', &line))
        if (str_cut(&line, '=', &name) && str_eq(name, key)) return line;
    return STR("");
}

struct str report_settings_key(struct str settings, struct arena *perm)
{
    static const struct str others[] = { STR_INIT("run."),        STR_INIT("checkpoint."),
                                         STR_INIT("spot."),       STR_INIT("program."),
                                         STR_INIT("sweep."),      STR_INIT("train.usd_hour="),
                                         STR_INIT("train.out="),  STR_INIT("train.log_every="),
                                         STR_INIT("train.allow=") };
    struct textbuf          b        = textbuf_new(perm);
    struct str              line;
    while (str_cut(&settings, '\n', &line)) {
        bool counts = line.len > 0;
        for (i64 i = 0; i < COUNT_OF(others); i++) counts &= !str_starts(line, others[i]);
        if (counts) textbuf_fmt(&b, "%.*s\n", STR_ARG(line));
    }
    return str_sub(sha256_hex(perm, textbuf_str(&b)), 0, 12);
}

/* The newest that was made for this run, or before it for such runs on such a machine. */
static void add_predictions(struct run_bill *b, const struct rows *r, struct arena scratch)
{
    struct str machine = setting(b->row.settings, STR("run.machine"));
    struct str key     = report_settings_key(b->row.settings, &scratch);
    i64        newest  = -1;
    for (i64 i = 0; i < r->prediction_count; i++) {
        const struct prediction_row *p = &r->predictions[i];
        bool likely = !p->run.len && str_eq(p->settings, key) && str_eq(p->machine, machine) &&
                      p->made_wall_ns <= b->row.begin_wall_ns;
        if (isnan(p->seconds) && isnan(p->usd)) continue; /* of a step alone */
        if ((!likely && !str_eq(p->run, b->row.id)) || p->made_wall_ns < newest) continue;
        newest           = p->made_wall_ns;
        b->predicted_s   = p->seconds;
        b->predicted_usd = p->usd;
    }
}

static struct run_bill bill_of(const struct run_row *run, const struct rows *r, i64 now_wall_ns,
                               struct arena scratch)
{
    struct run_bill b = { .row           = *run,
                          .priced        = true,
                          .storage_known = true,
                          .loss          = NAN,
                          .value         = NAN,
                          .usd_hour      = NAN,
                          .predicted_s   = NAN,
                          .predicted_usd = NAN };
    i64             s = FIRST(r->segments, r->segment_count, run, run->id);
    b.segments        = r->segments + s;
    for (; s < r->segment_count && str_eq(r->segments[s].run, run->id); s++, b.segment_count++)
        add_segment(&b, r, s, now_wall_ns, scratch);
    b.since_nusd =
        MAX(b.since_nusd, 0); /* rows of checkpoints may be a heartbeat older than the bill */
    if (b.priced && b.metered_ns)
        b.usd_hour = bill_usd_hour(b.nusd - b.part_nusd[BILL_STORAGE] - b.part_nusd[BILL_REQUESTS],
                                   b.metered_ns);
    if (r->prediction_count) add_predictions(&b, r, scratch);
    return b;
}

const struct segment_row *report_ranks(const struct run_bill *b)
{
    for (i64 i = b->segment_count - 1; i >= 0; i--)
        if (b->segments[i].ranks > 1) return &b->segments[i];
    return NULL;
}

enum status report_read(struct ledger *l, i64 now_wall_ns, struct arena *perm,
                        struct run_bill **bills, i64 *count, struct err *err)
{
    struct rows r  = { 0 };
    enum status st = read_rows(l, &r, perm, err);
    if (st) return st;
    qsort(r.segments, (size_t)r.segment_count, sizeof *r.segments, by_begin);
    qsort(r.checkpoints, (size_t)r.checkpoint_count, sizeof *r.checkpoints, by_key);
    qsort(r.interruptions, (size_t)r.interruption_count, sizeof *r.interruptions, by_key);
    r.own_ns = NEW(perm, i64, MAX(r.segment_count, 1));
    bill_shares(r.segments, r.segment_count, r.own_ns, *perm);
    *count = r.run_count;
    *bills = NEW(perm, struct run_bill, MAX(r.run_count, 1));
    for (i64 i = 0; i < r.run_count; i++) (*bills)[i] = bill_of(&r.runs[i], &r, now_wall_ns, *perm);
    qsort(*bills, (size_t)r.run_count, sizeof **bills, by_first);
    return STATUS_OK;
}

/* ---- lives ---- */

static int by_boot(const void *a, const void *b)
{
    const struct segment_row *x = a, *y = b;
    int                       boots = order(x->boot, y->boot);
    if (boots) return boots;
    return x->begin_wall_ns < y->begin_wall_ns ? -1 : x->begin_wall_ns > y->begin_wall_ns;
}

static bool on_spot(const struct rows *r, const struct segment_row *s, struct str machine)
{
    const struct price_row *p = price_of(r, s->price);
    if (!p || !str_eq(p->market, STR("spot")) || !s->boot_wall_ns) return false;
    i64 run = FIRST(r->runs, r->run_count, id, s->run);
    if (!machine.len) return true;
    return run < r->run_count && str_eq(r->runs[run].id, s->run) &&
           str_eq(setting(r->runs[run].settings, STR("run.machine")), machine);
}

enum status report_lifetimes(struct ledger *l, struct str machine, i64 now_wall_ns,
                             struct arena *perm, struct lifetime **lives, i64 *count,
                             struct err *err)
{
    struct rows r  = { 0 };
    enum status st = read_rows(l, &r, perm, err);
    if (st) return st;
    qsort(r.segments, (size_t)r.segment_count, sizeof *r.segments, by_boot);
    qsort(r.interruptions, (size_t)r.interruption_count, sizeof *r.interruptions, by_key);
    qsort(r.runs, (size_t)r.run_count, sizeof *r.runs, by_key);
    *lives = NEW(perm, struct lifetime, MAX(r.segment_count, 1));
    *count = 0;
    for (i64 i = 0; i < r.segment_count; i++) { /* the last of each machine says how it ended */
        const struct segment_row *s    = &r.segments[i];
        bool                      last = i + 1 == r.segment_count || !str_eq(s->boot, s[1].boot);
        if (!last || !on_spot(&r, s, machine)) continue;
        bool silent =
            str_eq(s->ended, segment_killed) || (!s->ended.len && !segment_runs(s, now_wall_ns));
        (*lives)[(*count)++] =
            (struct lifetime){ .age_s       = (f64)(s->beat_wall_ns - s->boot_wall_ns) / 1e9,
                               .interrupted = silent || was_taken(&r, s->id) };
    }
    return STATUS_OK;
}
