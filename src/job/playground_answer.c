/* playground_answer.c - the searches behind an answer, and the answer. */
#include "base/digits.h"
#include "base/json_out.h"
#include "job/playground_int.h"
#include "plan/known.h"
#include <math.h>

enum { ROWS_TOLD = 12, WORTHS_MAX = 7 };

/* Steps until it stops early. */
static struct plan_workload workload_of(const struct play *a, f64 part)
{
    struct plan_workload w = a->q.workload;
    w.steps                = MAX(1, (i64)ceil((f64)w.steps * part));
    return w;
}

static void search(struct play *a, const struct plan_limits *limits, f64 part)
{
    struct plan_workload w = workload_of(a, part);
    plan_search(&w, a->q.variants, a->q.devices.items, a->q.devices.rented_count,
                a->q.devices.catalogue, limits, a->q.result, a->p->scratch);
}

static f64 stop_part(const struct play *a) { return isnan(a->levers.stop) ? 1 : a->levers.stop; }

/* ---- the levers' worth: from a plain run to this one, a lever at a time ---- */

struct worth {
    const char *name;
    f64         usd; /* of the cheapest way so far; NaN: there is none */
};

static f64 cheapest(const struct play *a)
{
    return a->q.result->count ? a->q.result->rows[0].bill.total : NAN;
}

/* Adapters have a program of their own: what all weights would cost comes from that of the whole model. */
static f64 without_adapters(const struct play *a, const struct plan_limits *limits)
{
    struct play whole = *a;
    whole.levers.lora = NAN;
    if (play_ask(&whole, NULL)) return NAN;
    search(&whole, limits, 1);
    return cheapest(&whole);
}

/* A plain run: all weights, on demand, in fp32, nothing recomputed, to its last step; on the machines that may be
 * chosen. What is then left to the search may be as it was, so that this never costs more; what is asked for may. */
static i64 worths_of(struct play *a, struct worth out[WORTHS_MAX])
{
    const struct plan_given *g = &a->q.limits.given;
    bool loose[] = { false, !g->has_precision, !g->has_recompute && !g->micro, !g->markets, true };
    static const char *const names[]  = { "plain: on demand, fp32", "precision", "recomputation",
                                          "spot", "stopping early" };
    bool                     adapters = a->request.lora > 0;
    struct plan_limits       l        = a->q.limits;
    f64                      part     = 1;
    i64                      n        = 0;
    l.deadline_s                      = NAN;
    l.given.has_precision = l.given.has_recompute = true;
    l.given.precision                             = DT_F32;
    l.given.recompute                             = RECOMPUTE_NONE;
    l.given.micro                                 = 0;
    if (!a->request.spot) l.given.markets = 1u << PRICE_ON_DEMAND;
    if (adapters) out[n++] = (struct worth){ names[0], without_adapters(a, &l) };
    for (i64 i = 0; i < COUNT_OF(names); i++) {
        if (i == 1) l.given.has_precision = g->has_precision, l.given.precision = g->precision;
        if (i == 2)
            l.given.has_recompute = g->has_recompute, l.given.recompute = g->recompute,
            l.given.micro = g->micro;
        if (i == 3) l.given.markets = g->markets;
        if (i == 4) part = stop_part(a);
        if ((i == 4 && part == 1) || (i == 3 && g->markets)) continue;
        search(a, &l, part);
        f64 usd = cheapest(a);
        if (n && loose[i]) usd = fmin(usd, out[n - 1].usd);
        out[n++] = (struct worth){ i || !adapters ? names[i] : "LoRA", usd };
    }
    return n;
}

/* The last one ends at the answer's own sum: what is left over is the deadline's. */
static void add_levers(struct play *a, struct textbuf *b, f64 usd)
{
    struct worth s[WORTHS_MAX];
    i64          n = worths_of(a, s), from = 0;
    if (a->q.limits.deadline_s > 0) s[n++] = (struct worth){ "the deadline", usd };
    else if (n) s[n - 1].usd = usd;
    f64 last = NAN;
    while (from < n && isnan(s[from].usd)) from++;
    out_open(b, "levers", '[');
    for (i64 i = from; i < n; i++) {
        out_open(b, NULL, '{');
        out_text(b, "name", i == from && from ? STR("the first way that fits") : str_of(s[i].name));
        out_f64(b, "usd", i == from ? s[i].usd : s[i].usd - last);
        out_close(b, '}');
        last = s[i].usd;
    }
    out_close(b, ']');
}

/* Dollars against the deadline: the cheapest rows, then those that are at least twice as quick as all before. */
static void add_deadlines(struct play *a, struct textbuf *b)
{
    enum { ROUNDS = 5 };
    struct plan_limits l        = a->q.limits;
    f64                quickest = INFINITY;
    out_open(b, "deadlines", '[');
    for (i64 round = 0; round < ROUNDS; round++) {
        l.deadline_s = round ? quickest * 3600 / 2 : NAN;
        search(a, &l, stop_part(a));
        for (i64 i = 0; i < a->q.result->count; i++) {
            const struct plan_row *r = &a->q.result->rows[i];
            if (!(r->hours < quickest)) continue;
            quickest = r->hours;
            out_open(b, NULL, '{');
            out_f64(b, "hours", r->hours);
            out_f64(b, "usd", r->bill.total);
            out_text(b, "machine", r->device->name);
            out_close(b, '}');
        }
        if (!a->q.result->count) break;
    }
    out_close(b, ']');
}

/* ---- the answer ---- */

static void add_row(struct play *a, struct textbuf *b, const struct plan_row *r)
{
    const char *cannot = plan_cannot(&a->q, r);
    out_open(b, NULL, '{');
    out_text(b, "machine", r->device->name);
    out_i64(b, "machines", r->machines);
    out_text(b, "region", r->device->row->region);
    out_i64(b, "gpus", r->device->row->gpus ? r->gpus : 0);
    out_text(b, "gpu", r->device->row->gpu);
    out_text(b, "market", str_of(price_name(r->price)));
    out_f64(b, "usd_hour", plan_row_usd_hour(r));
    out_f64(b, "price_age_days", plan_price_age_days(&a->q, r));
    out_text(b, "precision", str_of(precision_text(r->precision)));
    out_text(b, "recompute", str_of(recompute_text(r->variant)));
    out_bool(b, "sharded", r->sharding.kind != SHARD_NONE);
    out_i64(b, "micro", r->micro);
    out_i64(b, "accumulate", r->accumulate);
    out_f64(b, "memory_bytes", r->memory_bytes);
    out_f64(b, "memory_bytes_usable", (f64)r->device->target.memory_bytes);
    out_f64(b, "step_s", r->step.step_s);
    out_f64(b, "mfu", r->step.mfu);
    out_f64(b, "efficiency", r->step.efficiency);
    out_text(b, "bound_by", str_of(estimate_bound(&r->step)));
    out_f64(b, "hours", r->hours);
    out_f64(b, "interruptions", r->outcome.interruptions);
    out_f64(b, "save_every_s", r->outcome.interval_s);
    out_f64(b, "in_time", r->in_time);
    out_f64(b, "usd", r->bill.total);
    out_f64(b, "usd_useful", r->bill.useful);
    out_f64(b, "usd_lost", r->bill.lost);
    out_f64(b, "usd_starting", r->bill.starting);
    out_f64(b, "usd_storage", r->bill.storage);
    out_f64(b, "usd_requests", r->bill.requests);
    out_text(b, "cannot", cannot ? str_of(cannot) : STR(""));
    out_close(b, '}');
}

static void add_none(struct play *a, struct textbuf *b)
{
    const struct plan_result *r    = a->q.result;
    const struct plan_row    *n    = &r->nearest;
    struct str                text = STR("no machine of the catalogue can do it");
    if (r->nearest_short == SHORT_MEMORY)
        text = str_fmt(a->perm, "nothing fits: the nearest, %.*s, has %.3g GB for %.3g GB",
                       STR_ARG(n->device->name), (f64)n->device->target.memory_bytes / 1e9,
                       n->memory_bytes / 1e9);
    if (r->nearest_short == SHORT_TIME)
        text = str_fmt(a->perm, "nothing is in time: the nearest, %.*s, takes %.3g h",
                       STR_ARG(n->device->name), n->hours);
    out_text(b, "error", text);
}

static struct str command_of(const struct play *a, struct arena *perm)
{
    struct textbuf             b = textbuf_new(perm);
    const struct plan_request *r = &a->request;
    textbuf_fmt(&b, "frugal plan %.*s", STR_ARG(r->what));
    for (i64 i = 0; i < r->setting_count; i++) textbuf_fmt(&b, " %.*s", STR_ARG(a->settings[i]));
    if (!isnan(r->tokens)) textbuf_fmt(&b, " --tokens %.6g", r->tokens);
    if (r->context) textbuf_fmt(&b, " --context %lld", (long long)r->context);
    if (!isnan(r->deadline_s)) textbuf_fmt(&b, " --deadline %.6g", r->deadline_s / 3600);
    if (r->gpus) textbuf_fmt(&b, " --gpus %lld", (long long)r->gpus);
    if (r->machine.len) textbuf_fmt(&b, " --machine %.*s", STR_ARG(r->machine));
    if (r->region.len) textbuf_fmt(&b, " --region %.*s", STR_ARG(r->region));
    if (a->levers.cloud.len) textbuf_fmt(&b, " --on %.*s", STR_ARG(a->levers.cloud));
    if (r->lora) textbuf_fmt(&b, " --lora %lld", (long long)r->lora);
    if (r->freeze.len) textbuf_fmt(&b, " --freeze '%.*s'", STR_ARG(r->freeze));
    if (r->spot) textbuf_fmt(&b, " --spot");
    if (r->on_demand) textbuf_fmt(&b, " --on-demand");
    return textbuf_str(&b);
}

static void add_words(struct play *a, struct textbuf *b, const struct plan_row *best)
{
    struct str   words[PLAN_WORDS_MAX];
    struct arena here  = arena_part(a->perm, 1 << 16);
    i64          count = plan_words(&a->q, best, &here, words);
    out_open(b, "settings", '[');
    for (i64 i = 0; i < count; i++) out_text(b, NULL, words[i]);
    if (a->request.lora)
        out_text(b, NULL, str_fmt(&here, "train.lora.rank=%lld", (long long)a->request.lora));
    if (a->request.freeze.len)
        out_text(b, NULL, str_fmt(&here, "train.freeze=%.*s", STR_ARG(a->request.freeze)));
    out_close(b, ']');
}

static void add_why(struct play *a, struct textbuf *b, const struct plan_row *r)
{
    struct plan_op_part ops[4];
    struct plan_spot    spot;
    struct arena        here  = arena_part(a->perm, 1 << 16);
    i64                 count = plan_ops(r, ops, COUNT_OF(ops));
    struct textbuf      of    = textbuf_new(&here);
    out_open(b, "why", '[');
    for (i64 i = 0; i < count; i++)
        textbuf_fmt(&of, "%s%s %.0f %%", i ? ", " : "", ops[i].name, 100 * ops[i].part);
    struct str parts = textbuf_str(&of);
    out_text(
        b, NULL,
        str_fmt(&here, "A step takes %s ms: %.*s.", DIGITS(1e3 * r->step.step_s), STR_ARG(parts)));
    if (r->price == PRICE_SPOT && plan_spot(&a->q, r, &spot, a->p->scratch))
        out_text(b, NULL,
                 spot.pays_from > 0
                     ? str_fmt(&here, "Spot is %.0f %% off here and is cheaper from %.1f %% off.",
                               100 * spot.discount, 100 * spot.pays_from)
                     : str_fmt(&here,
                               "Spot is %.0f %% off here and is cheaper even without a discount: "
                               "machines that are taken away early are free.",
                               100 * spot.discount));
    if (plan_is_held_up(r))
        out_text(b, NULL,
                 str_fmt(&here, "Links hold its %lld GPUs up: scaling efficiency %.0f %%.",
                         (long long)r->gpus, 100 * r->step.efficiency));
    out_close(b, ']');
}

static void add_head(struct play *a, struct textbuf *b)
{
    const struct plan_workload *w = &a->q.workload;
    out_text(b, "what", w->name);
    out_f64(b, "parameters", a->q.variants->parameters);
    out_i64(b, "steps", w->steps);
    out_i64(b, "batch", w->batch_total);
    out_i64(b, "context", w->tokens);
    out_f64(b, "work", (f64)w->steps * (f64)w->batch_total * (f64)MAX(w->tokens, 1));
    out_bool(b, "compiled", a->compiled);
    out_text(b, "command", command_of(a, a->perm));
    out_open(b, "notes", '[');
    for (i64 i = 0; i < a->q.notes.count; i++) out_text(b, NULL, a->q.notes.text[i]);
    out_close(b, ']');
}

static bool wants(const struct play *a, const char *part)
{
    return !a->levers.part.len || str_eq(a->levers.part, str_of(part));
}

static struct str answer(struct playground *p, struct str given, const struct str *words, i64 count,
                         struct arena *perm)
{
    enum { TEXTS_MIB = 16 };
    struct arena   texts = arena_part(perm, TEXTS_MIB << 20);
    struct play   *a     = NEW(&texts, struct play, 1);
    struct textbuf b     = textbuf_new(perm);
    struct err     err   = { 0 };
    *a                   = (struct play){ .p = p, .perm = &texts, .given = given };
    enum status st       = play_levers(&a->levers, words, count, &err);
    if (!st) st = play_ask(a, &err);
    out_open(&b, NULL, '{');
    if (st) {
        out_text(&b, "error", str_of(err.text));
    } else {
        struct plan_row best;
        add_head(a, &b);
        search(a, &a->q.limits, stop_part(a));
        if (!a->q.result->count) add_none(a, &b);
        out_open(&b, "rows", '[');
        for (i64 i = 0; i < MIN(a->q.result->count, ROWS_TOLD); i++)
            add_row(a, &b, &a->q.result->rows[i]);
        out_close(&b, ']');
        best = a->q.result->rows[0];
        if (a->q.result->count) {
            add_words(a, &b, &best);
            add_why(a, &b, &best);
            if (wants(a, "levers")) add_levers(a, &b, best.bill.total);
            if (wants(a, "deadlines")) add_deadlines(a, &b);
        }
    }
    out_close(&b, '}');
    return out_whole(&b);
}

struct str playground_answer(struct playground *p, const struct str *words, i64 count,
                             struct arena *perm)
{
    return answer(p, STR(""), words, count, perm);
}

struct str playground_run(struct playground *p, struct str settings, const struct str *words,
                          i64 count, struct arena *perm)
{
    return answer(p, settings, words, count, perm);
}

/* ---- choices ---- */

static void add_once(struct textbuf *b, struct str text, struct str *seen, i64 *count, i64 most)
{
    for (i64 i = 0; i < *count; i++)
        if (str_eq(seen[i], text)) return;
    if (!text.len || *count == most) return;
    seen[(*count)++] = text;
    out_text(b, NULL, text);
}

struct str playground_choices(struct playground *p, struct arena *perm)
{
    enum { MOST = 4096 };
    struct str    *seen  = NEW(perm, struct str, MOST);
    struct textbuf b     = textbuf_new(perm);
    i64            count = 0;
    out_open(&b, NULL, '{');
    out_text(&b, "run_file", p->run_file);
    out_open(&b, "models", '[');
    for (i64 i = 0; i < known_count(); i++) {
        out_open(&b, NULL, '{');
        out_text(&b, "name", known_at(i)->name);
        out_f64(&b, "parameters", known_parameters(known_at(i)));
        out_i64(&b, "context", known_at(i)->context);
        out_close(&b, '}');
    }
    out_close(&b, ']');
    static const char *const lists[] = { "clouds", "regions", "machines" };
    for (i64 k = 0; k < COUNT_OF(lists); k++) {
        count = 0;
        out_open(&b, lists[k], '[');
        for (i64 i = 0; i < p->devices.rented_count; i++) {
            const struct machine *m = p->devices.items[i].row;
            add_once(&b, k == 0 ? m->provider : k == 1 ? m->region : m->name, seen, &count, MOST);
        }
        out_close(&b, ']');
    }
    out_close(&b, '}');
    return out_whole(&b);
}
