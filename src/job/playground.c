/* playground.c - levers as they are given, machines and programs that are kept. */
#include "job/playground_int.h"
#include "plan/known.h"
#include <math.h>
#include <string.h>

enum { MEMORY_GIB = 16, SCRATCH_GIB = 16 };

static enum status lever_number(struct str name, struct str value, f64 low, f64 high, f64 *out,
                                struct err *err)
{
    if (str_f64(value, out) && *out >= low && *out <= high) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%.*s=%.*s is not a number from %g to %g", STR_ARG(name),
                   (int)MIN(value.len, 40), value.data, low, high);
}

enum status play_levers(struct levers *l, const struct str *words, i64 count, struct err *err)
{
    enum status st = STATUS_OK;
#define TEXT(name) l->name = STR("");
#define NUMBER(name, low, high) l->name = NAN;
    LEVERS_OF_PLAY(TEXT, NUMBER)
#undef TEXT
#undef NUMBER
    for (i64 i = 0; i < count && !st; i++) {
        struct str value = words[i], name;
        if (!str_cut(&value, '=', &name) || !value.len) continue;
#define TEXT(key)                                                                                  \
    if (str_eq(name, STR(#key))) l->key = str_sub(value, 0, 200);
#define NUMBER(key, low, high)                                                                     \
    if (!st && str_eq(name, STR(#key))) st = lever_number(name, value, low, high, &l->key, err);
        LEVERS_OF_PLAY(TEXT, NUMBER)
#undef TEXT
#undef NUMBER
    }
    if (!l->what.len) l->what = STR("gpt2");
    return st;
}

/* ---- what is kept ---- */

enum status playground_open(struct playground **out, struct os *os, struct str run_file,
                            struct str prices, struct arena *perm, struct err *err)
{
    struct playground   *p     = NEW(perm, struct playground, 1);
    struct plan_where    where = { .prices = prices, .usd_hour = NAN };
    struct plan_notes   *notes = NEW(perm, struct plan_notes, 1);
    struct plan_workload any   = { 0 };
    *out                       = NULL;
    p->os                      = os;
    p->perm                    = perm;
    p->run_file                = run_file;
    p->scratch                 = arena_open((i64)SCRATCH_GIB << 30);
    if (!p->scratch.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    enum status st = plan_devices_open(&p->devices, os, &where, notes, perm, err);
    if (st) {
        playground_close(p);
        return st;
    }
    struct plan_learner of = { .ledger    = ledger_path(os, os->env(os, "FRUGAL_RUN_LEDGER"), perm),
                               .catalogue = p->devices.catalogue,
                               .devices   = p->devices.items,
                               .device_count = p->devices.count,
                               .limits       = &p->learned,
                               .workload     = &any };
    plan_learn(os, &of, notes, perm);
    *out = p;
    return STATUS_OK;
}

void playground_close(struct playground *p)
{
    if (!p) return;
    for (i64 i = 0; i < KEPT; i++)
        if (p->kept[i].all.begin) arena_close(&p->kept[i].all);
    plan_devices_close(&p->devices);
    if (p->scratch.begin) arena_close(&p->scratch);
}

/* ---- a question ---- */

static void setting(struct play *a, const char *key, struct str value)
{
    if (!value.len) return;
    ASSERT(a->request.setting_count < SETTINGS_MAX);
    a->settings[a->request.setting_count++] = str_fmt(a->perm, "%s=%.*s", key, STR_ARG(value));
}

static struct str whole(struct arena *perm, f64 v)
{
    return isnan(v) ? STR("") : str_fmt(perm, "%.0f", v);
}

static struct str chosen(struct str word) { return str_eq(word, STR("auto")) ? STR("") : word; }

/* A run file or a run's settings, not a known model. */
static bool is_run(const struct play *a)
{
    return a->given.len || str_eq(a->levers.what, STR("run"));
}

/* The run's own settings, before the levers' words: adapters only with theirs. */
static void add_given(struct play *a)
{
    struct str rest = a->given, line;
    bool       lora = !isnan(a->levers.lora);
    while (str_cut(&rest, '\n', &line) && a->request.setting_count < OPTION_COUNT)
        if (line.len && (lora || !str_starts(line, STR("train.lora."))))
            a->settings[a->request.setting_count++] = line;
}

static void request_make(struct play *a)
{
    const struct levers *l   = &a->levers;
    bool                 run = is_run(a);
    a->request               = (struct plan_request){ .command      = STR("plan"),
                                                      .what         = a->given.len ? STR("")
                                                                      : run        ? a->p->run_file
                                                                                   : l->what,
                                                      .settings     = a->settings,
                                                      .deadline_s   = l->deadline * 3600,
                                                      .budget_usd   = NAN,
                                                      .gpus         = isnan(l->gpus) ? 0 : (i64)l->gpus,
                                                      .tokens       = run ? NAN : l->tokens,
                                                      .target       = NAN,
                                                      .batch_tokens = NAN,
                                                      .context   = run || isnan(l->context) ? 0 : (i64)l->context,
                                                      .lora      = isnan(l->lora) ? 0 : (i64)l->lora,
                                                      .machine   = l->machine,
                                                      .region    = l->region,
                                                      .freeze    = l->freeze,
                                                      .spot      = str_eq(l->market, STR("spot")),
                                                      .on_demand = str_eq(l->market, STR("on-demand")) };
    add_given(a);
    setting(a, "train.precision", chosen(l->precision));
    setting(a, "train.recompute", chosen(l->recompute));
    setting(a, "train.micro_batch", whole(a->perm, l->micro));
    setting(a, "train.batch", whole(a->perm, l->batch));
    if (run || isnan(l->tokens)) setting(a, "train.steps", whole(a->perm, l->steps));
    if (run) setting(a, "data.context", whole(a->perm, l->context));
}

static bool is_address(struct str value)
{
    i64 at = str_find(value, ':');
    return at > 0 && str_starts(str_sub(value, at, value.len), STR("://"));
}

/* A name of ours or the run file that was given: nobody else's file is opened. */
static enum status check_what(const struct play *a, struct err *err)
{
    struct str what = a->levers.what, rest = a->given, line, key;
    while (str_cut(&rest, '\n', &line)) /* nobody waits for a network here */
        if (str_cut(&line, '=', &key) && str_starts(key, STR("data.")) && is_address(line))
            return err_set(err, STATUS_NO, "its data are in an object store");
    if (a->given.len || (str_eq(what, STR("run")) && a->p->run_file.len)) return STATUS_OK;
    if (known_find(what)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "there is no model %.*s", (int)MIN(what.len, 60), what.data);
}

static enum status ask(struct play *a, struct arena *perm, struct err *err)
{
    const struct levers *l = &a->levers;
    a->q                   = (struct plan_question){ .os         = a->p->os,
                                                     .perm       = perm,
                                                     .request    = &a->request,
                                                     .depth_part = isnan(l->depth) ? 1 : l->depth,
                                                     .width_part = isnan(l->width) ? 1 : l->width,
                                                     .limits     = { .deadline_s = a->request.deadline_s,
                                                                     .budget_usd = NAN,
                                                                     .runs       = 1,
                                                                     .spot       = a->p->learned.spot } };
    return plan_ask(&a->q, err);
}

/* The program of the question, from those that are kept or made now. A run file's depends on its batch too. */
static enum status programs_of(struct play *a, struct err *err)
{
    const struct levers *l   = &a->levers;
    bool                 run = is_run(a);
    struct kept         *k   = &a->p->kept[0];
    struct str           key = str_fmt(a->perm, "%.*s|%g|%g|%g|%lld|%.*s|%g|%.*s", STR_ARG(l->what),
                                       l->context, l->depth, l->width, (long long)a->request.lora,
                                       STR_ARG(l->freeze), run ? l->batch : 0, STR_ARG(a->given));
    for (i64 i = 0; i < KEPT; i++) {
        if (a->p->kept[i].key.len && str_eq(a->p->kept[i].key, key)) {
            a->kept       = &a->p->kept[i];
            a->kept->used = ++a->p->turn;
            return STATUS_OK;
        }
        if (a->p->kept[i].used < k->used) k = &a->p->kept[i];
    }
    if (!k->all.begin) k->all = arena_open((i64)MEMORY_GIB << 30);
    if (!k->all.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    k->key           = STR("");
    k->memory        = k->all;
    k->variants      = NEW(&k->memory, struct plan_variants, 1);
    k->result        = NEW(&k->memory, struct plan_result, 1);
    struct play with = *a; /* what the program points to stays with it */
    with.perm        = &k->memory;
    with.given       = str_copy(&k->memory, a->given);
    request_make(&with);
    enum status st = ask(&with, &k->memory, err);
    if (!st) st = plan_compile(&k->memory, &with.q.workload, k->variants, a->p->scratch, err);
    if (st) return st;
    k->key      = str_copy(&k->memory, key);
    k->used     = ++a->p->turn;
    a->kept     = k;
    a->compiled = true;
    return STATUS_OK;
}

/* The machines that may be chosen, in a list of this question's own. */
static enum status machines_of(struct play *a, struct err *err)
{
    struct plan_devices *d     = &a->q.devices;
    struct str           cloud = a->levers.cloud;
    i64                  kept  = 0;
    *d                         = a->p->devices;
    d->items                   = NEW(a->perm, struct device, MAX(d->count, 1));
    for (i64 i = 0; i < a->p->devices.rented_count; i++) {
        const struct device *of = &a->p->devices.items[i];
        if (!cloud.len || str_eq(of->row->provider, cloud)) d->items[kept++] = *of;
    }
    d->count = d->rented_count = kept;
    if (!kept)
        return err_set(err, STATUS_USAGE, "the catalogue has no cloud %.*s",
                       (int)MIN(cloud.len, 60), cloud.data);
    return plan_where(&a->q, err);
}

enum status play_ask(struct play *a, struct err *err)
{
    const struct levers *l  = &a->levers;
    enum status          st = check_what(a, err);
    request_make(a);
    if (!st) st = ask(a, a->perm, err);
    if (!st) st = programs_of(a, err);
    if (!st) st = machines_of(a, err);
    if (st) return st;
    a->q.variants                  = a->kept->variants;
    a->q.result                    = a->kept->result;
    a->q.limits.given.save_every_s = isnan(l->save) ? 0 : l->save;
    a->q.limits.given.spot_mean_h  = isnan(l->spot) ? 0 : l->spot;
    return STATUS_OK;
}
