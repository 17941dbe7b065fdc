/* plan_words.c - a plan as settings: the command line that carries it out, and what the ledger is told
 * of it, so that `frugal report` can hold the bill against it. */
#include "job/plan_question.h"
#include "job/predict.h"

static const char *market_of(enum price p)
{
    static const char *const words[] = { [PRICE_ON_DEMAND]   = "on-demand",
                                         [PRICE_SPOT]        = "spot",
                                         [PRICE_RESERVED_1Y] = "reserved",
                                         [PRICE_RESERVED_3Y] = "reserved",
                                         [PRICE_OWN]         = "own" };
    return words[p];
}

static struct str machine_of(const struct plan_row *r, struct arena *perm)
{
    const struct machine *m = r->device->row;
    return m ? str_fmt(perm, "%.*s/%.*s", STR_ARG(m->provider), STR_ARG(m->name)) : STR("");
}

const char *shard_word(const struct plan_row *r)
{
    static const char *const words[] = {
        [SHARD_NONE] = "none", [SHARD_STATE] = "state", [SHARD_ALL] = "all"
    };
    return words[r->sharding.kind];
}

const char *shard_over_word(const struct plan_row *r)
{
    return r->sharding.copies ? "machine" : "all";
}

/* The run file's train.shard_over goes with another train.shard than none, and would be refused with it. */
static bool resets_over(const struct plan_question *q, const struct plan_row *r)
{
    struct str rest = q->settings, line;
    bool       has  = false;
    while (!has && str_cut(&rest, '\n', &line)) has = str_starts(line, STR("train.shard_over="));
    return has && !r->sharding.kind;
}

i64 plan_words(const struct plan_question *q, const struct plan_row *r, struct arena *perm,
               struct str out[PLAN_WORDS_MAX])
{
    bool every = r->variant->recompute.kind == RECOMPUTE_EVERY;
    i64  n = 0, batch = r->micro * r->accumulate * r->gpus;
    out[n++] = str_fmt(perm, "train.precision=%s", precision_text(r->precision));
    out[n++] = str_fmt(perm, "train.batch=%lld", (long long)batch);
    out[n++] = str_fmt(perm, "train.micro_batch=%lld", (long long)r->micro);
    out[n++] = str_fmt(perm, "train.recompute=%s", every ? "2" : recompute_text(r->variant));
    if (r->gpus > 1) {
        out[n++] = str_fmt(perm, "train.shard=%s", shard_word(r));
        if (r->sharding.kind) out[n++] = str_fmt(perm, "train.shard_over=%s", shard_over_word(r));
        else if (resets_over(q, r)) out[n++] = STR("train.shard_over=default");
    }
    if (!r->device->row) return n;
    out[n++] = str_fmt(perm, "run.machine=%.*s", STR_ARG(machine_of(r, perm)));
    out[n++] = str_fmt(perm, "run.market=%s", market_of(r->price));
    return n;
}

void plan_record(const struct plan_question *q, const struct plan_row *r)
{
    const struct plan_request *ask   = q->request;
    i64                        count = ask->setting_count;
    struct str                *all   = NEW(q->perm, struct str, count + PLAN_WORDS_MAX);
    struct config             *config;
    if (!q->ours || r->gpus > 1 || r->side_by_side > 1 || q->depth_part != 1 || q->width_part != 1)
        return;
    for (i64 i = 0; i < count; i++) all[i] = ask->settings[i];
    count += plan_words(q, r, q->perm, all + count);
    if (config_read(q->os, q->perm, ask->command, q->run_file, all, count, &config, NULL)) return;
    struct prediction_row row = { .by          = STR("plan"),
                                  .machine     = machine_of(r, q->perm),
                                  .seconds     = r->hours * 3600,
                                  .usd         = r->bill.total,
                                  .arena_bytes = (i64)r->memory_bytes,
                                  .step_s      = r->step.rates_s,
                                  .device      = r->device->model,
                                  .precision   = str_of(precision_text(r->precision)),
                                  .rates       = r->device->rates_key };
    struct job            job = { .os       = q->os,
                                  .perm     = q->perm,
                                  .settings = &config->settings,
                                  .changed  = settings_changed(config, q->perm) };
    predict_keep(&job, &row);
}
