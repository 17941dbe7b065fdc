/* runs.c - the ledger's runs for the page: read again when somebody has written, at a small part of a core's time. */
#include "page/page_int.h"
#include "run/bill.h"
#include "run/comparison.h"
#include <math.h>

enum { MEMORY_GIB = 8, COST_PART = 50 }; /* reading again takes at most 1/COST_PART of the time */
static const i64 again_ns = (i64)400000000, stale_ns = (i64)5000000000; /* a run may fall silent */

enum status runs_open(struct runs *r, struct os *os, struct str path, struct arena *perm,
                      struct err *err)
{
    *r = (struct runs){ .os = os, .next = deadline_in(os, 0) };
    for (i64 i = 0; i < 2; i++) {
        r->memory[i] = arena_open((i64)MEMORY_GIB << 30);
        if (!r->memory[i].begin)
            return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    }
    enum status st = ledger_open(os, path, perm, &r->ledger, err);
    if (!st) runs_refresh(r);
    return st;
}

void runs_close(struct runs *r)
{
    if (r->ledger) ledger_close(r->ledger);
    for (i64 i = 0; i < 2; i++)
        if (r->memory[i].begin) arena_close(&r->memory[i]);
}

/* A run's place in what was shown; runs are seldom removed, so that it is usually where it was. */
static i64 place_of(const struct runs *r, struct str id, i64 likely)
{
    if (likely < r->count && str_eq(r->items[likely].row.id, id)) return likely;
    for (i64 i = 0; i < r->count; i++)
        if (str_eq(r->items[i].row.id, id)) return i;
    return -1;
}

static void note_changes(const struct runs *before, struct runs *now, struct arena scratch)
{
    for (i64 i = 0; i < now->count; i++) {
        struct arena   here = scratch;
        struct textbuf b    = textbuf_new(&here);
        i64            was  = place_of(before, now->items[i].row.id, i);
        runs_row(&b, &now->items[i], 0); /* 0: what only the time changes is no change */
        now->hash[i]    = str_hash(textbuf_str(&b));
        bool same       = was >= 0 && before->hash[was] == now->hash[i];
        now->changed[i] = same ? before->changed[was] : now->generation;
    }
}

void runs_refresh(struct runs *r)
{
    if (deadline_left_ns(&r->next)) return;
    i64  version = ledger_version(r->ledger), wall_ns = r->os->wall_ns(r->os);
    bool stale = wall_ns - r->now_wall_ns > stale_ns;
    r->next    = deadline_in(r->os, again_ns);
    if (version == r->version && !stale) return;
    struct stopwatch watch = stopwatch_start(r->os);
    struct runs      now   = *r;
    struct arena     here  = r->memory[!r->at];
    now.at                 = !r->at;
    now.version            = version;
    now.now_wall_ns        = wall_ns;
    now.generation++;
    if (report_read(r->ledger, wall_ns, &here, &now.items, &now.count, NULL)) return;
    now.changed = NEW(&here, i64, MAX(now.count, 1));
    now.hash    = NEW(&here, u64, MAX(now.count, 1));
    note_changes(r, &now, here);
    now.next = deadline_in(r->os, MAX(again_ns, (i64)(stopwatch_s(&watch) * COST_PART * 1e9)));
    *r       = now;
}

i64 runs_place(const struct runs *r, struct str id) { return place_of(r, id, r->count - 1); }

const struct run_bill *runs_find(const struct runs *r, struct str id)
{
    i64 i = place_of(r, id, r->count - 1);
    return i < 0 ? NULL : &r->items[i];
}

/* ---- how it will end ---- */

/* At least what the steps that are left take at the pace of this start; at most that with what the run has lost to
 * starts, redone steps and stalls beside each useful second so far. */
struct outlook runs_outlook(const struct run_bill *b)
{
    struct outlook            o = { NAN, NAN, NAN, NAN };
    const struct segment_row *s = b->segment_count ? &b->segments[b->segment_count - 1] : NULL;
    if (b->state != RUN_RUNS || !s || !b->row.steps_planned || s->step <= s->step_from) return o;
    f64 work_ns   = (f64)(s->metered_ns - s->starting_ns - s->booting_ns - s->idle_ns);
    f64 left      = (f64)MAX(b->row.steps_planned - s->step, 0);
    f64 useful_ns = (f64)(b->term_ns[TERM_compute] + b->term_ns[TERM_evaluation]);
    o.left_s      = left * work_ns / (f64)(s->step - s->step_from) * 1e-9;
    o.left_high_s = useful_ns > 0 ? o.left_s * (f64)b->metered_ns / useful_ns : o.left_s;
    if (!b->priced) return o;
    o.end_usd      = (f64)b->nusd * 1e-9 + bill_estimate_usd(b->usd_hour, o.left_s);
    o.end_high_usd = (f64)b->nusd * 1e-9 + bill_estimate_usd(b->usd_hour, o.left_high_s);
    return o;
}

struct str runs_state(const struct run_bill *b)
{
    if (b->state == RUN_RUNS) return STR("runs");
    if (b->state == RUN_KILLED || !b->segment_count) return STR("killed");
    return b->segments[b->segment_count - 1].ended;
}

static f64 usd_of(const struct run_bill *b, i64 nusd) { return b->priced ? (f64)nusd * 1e-9 : NAN; }

void runs_row(struct textbuf *b, const struct run_bill *r, i64 now_wall_ns)
{
    const struct segment_row *s = r->segment_count ? &r->segments[r->segment_count - 1] : NULL;
    struct outlook            o = runs_outlook(r);
    (void)now_wall_ns;
    out_open(b, NULL, '{');
    out_text(b, "id", r->row.id);
    out_text(b, "name", r->row.name);
    out_text(b, "kind", r->row.kind);
    out_text(b, "state", runs_state(r));
    out_text(b, "model", r->row.model);
    out_f64(b, "parameters", r->row.parameters ? (f64)r->row.parameters : NAN);
    out_text(b, "device", s ? s->device : STR(""));
    out_text(b, "machine", s ? s->machine : STR(""));
    out_text(b, "tags", r->row.tags);
    out_f64(b, "begin_s", (f64)r->row.begin_wall_ns * 1e-9);
    out_f64(b, "beat_s", s ? (f64)s->beat_wall_ns * 1e-9 : NAN);
    out_i64(b, "steps", r->steps);
    out_i64(b, "steps_planned", r->row.steps_planned);
    out_f64(b, "loss", r->loss);
    out_text(b, "metric", r->row.metric);
    out_f64(b, "value", r->value);
    out_f64(b, "target", r->row.target);
    out_bool(b, "reached", r->reached);
    out_f64(b, "seconds", (f64)r->metered_ns * 1e-9);
    out_f64(b, "dollars", usd_of(r, r->nusd));
    out_f64(b, "left_s", o.left_s);
    out_f64(b, "left_high_s", o.left_high_s);
    out_f64(b, "end_usd", o.end_usd);
    out_f64(b, "end_high_usd", o.end_high_usd);
    out_i64(b, "interruptions", r->interruptions);
    out_i64(b, "starts", r->segment_count);
    out_close(b, '}');
}

static void add_segment(struct textbuf *b, const struct segment_row *s)
{
    out_open(b, NULL, '{');
    out_text(b, "id", s->id);
    out_text(b, "version", s->version);
    out_text(b, "machine", s->machine);
    out_text(b, "device", s->device);
    out_i64(b, "gpus", s->gpus);
    out_f64(b, "begin_s", (f64)s->begin_wall_ns * 1e-9);
    out_f64(b, "beat_s", (f64)s->beat_wall_ns * 1e-9);
    out_text(b, "ended", s->ended);
    out_f64(b, "seconds", (f64)s->metered_ns * 1e-9);
    out_i64(b, "step_from", s->step_from);
    out_i64(b, "step", s->step);
    out_text(b, "precision", s->precision);
    out_i64(b, "batch", s->batch);
    out_i64(b, "accumulate", s->accumulate);
    out_i64(b, "arena_bytes", s->arena_bytes);
    out_i64(b, "peak_rss_bytes", s->peak_rss_bytes);
    out_f64(b, "energy_wh", s->energy_wh);
    out_text(b, "usage", s->usage);
    out_f64(b, "busy", s->busy);
    out_close(b, '}');
}

void runs_detail(struct textbuf *b, const struct run_bill *r, i64 now_wall_ns)
{
    runs_row(b, r, now_wall_ns);
    b->len -= 2; /* the row's end: it goes on */
    textbuf_fmt(b, ",");
    out_f64(b, "uncertain_s", (f64)r->uncertain_ns * 1e-9);
    out_f64(b, "usd_hour", r->usd_hour);
    out_f64(b, "predicted_s", r->predicted_s);
    out_f64(b, "predicted_usd", r->predicted_usd);
    out_f64(b, "target_usd", r->reached ? usd_of(r, r->target_nusd) : NAN);
    out_f64(b, "shared_usd", usd_of(r, r->shared_nusd));
    out_f64(b, "stored_since_usd", usd_of(r, r->since_nusd));
    out_f64(b, "usd_million", bill_per_million(r) < 0 ? NAN : (f64)bill_per_million(r) * 1e-9);
    out_f64(b, "useful_percent", bill_useful_percent(r));
    out_text(b, "unit", r->row.unit);
    out_i64(b, "work", r->work);
    out_text(b, "settings", r->row.settings);
    out_text(b, "origins", r->row.origins);
    out_open(b, "parts", '[');
    for (i64 i = 0; i < BILL_PARTS; i++) {
        out_open(b, NULL, '{');
        out_text(b, "name", str_of(bill_part_name(i)));
        out_f64(b, "dollars", usd_of(r, r->part_nusd[i]));
        out_f64(b, "seconds", i < TERM_COUNT ? (f64)r->term_ns[i] * 1e-9 : NAN);
        out_close(b, '}');
    }
    out_close(b, ']');
    out_open(b, "segments", '[');
    for (i64 i = MAX(0, r->segment_count - 200); i < r->segment_count; i++)
        add_segment(b, &r->segments[i]);
    out_close(b, ']');
    out_close(b, '}');
}
