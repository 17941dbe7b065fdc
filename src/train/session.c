/* session.c - opening a run: data, model, backend, programs; then its memory. */
#include "backend/cuda/cuda.h"
#include "base/pool.h"
#include "store/reach.h"
#include "train/elsewhere.h"
#include "train/train_int.h"
#include <stdio.h>
#include <string.h>

enum { SCRATCH_RESERVE_GIB = 64 }; /* address space only: pages are taken when touched */

/* Batches never exceed what there is; the remainder of an epoch has programs of its own. */
void train_batches(const struct train_config *t, i64 train_samples, i64 eval_samples,
                   struct compile_config *c)
{
    c->batch_last      = t->drop_last ? 0 : train_samples % c->batch;
    i64 most           = t->batch && t->eval_batch ? t->eval_batch : c->batch;
    c->eval_batch      = MIN(most, eval_samples); /* what fits to train fits to evaluate */
    c->eval_batch_last = eval_samples ? eval_samples % c->eval_batch : 0;
}

static struct recompute_config recompute_of(const struct train_config *t)
{
    struct recompute_config c = { .every = t->recompute_every };
    if (str_eq(t->recompute, STR("all"))) c.kind = RECOMPUTE_ALL;
    if (str_eq(t->recompute, STR("every"))) c.kind = RECOMPUTE_EVERY;
    if (str_eq(t->recompute, STR("auto"))) c.kind = RECOMPUTE_AUTO;
    return c;
}

static enum status fuse_of(const struct train_config *t, u32 *bits, struct err *err)
{
    for (i64 i = 0; i < t->fuse_count; i++) {
        if (str_eq(t->fuse[i], STR("all"))) *bits = FUSE_ALL;
        else if (str_eq(t->fuse[i], STR("none"))) *bits = 0;
        else if (!fusion_find(t->fuse[i], bits))
            return err_set(err, STATUS_USAGE, "train.fuse: there is no pattern %.*s",
                           STR_ARG(t->fuse[i]));
    }
    return STATUS_OK;
}

static struct compile_config config_of(const struct train_config *t)
{
    bool match = str_eq(t->muon_scale, STR("match_rms_adamw"));
    return (struct compile_config){ .optimiser  = optimiser_of(t->optimiser),
                                    .eps        = t->eps,
                                    .decay      = t->decay,
                                    .nesterov   = t->nesterov,
                                    .muon_scale = match ? MUON_MATCH_RMS_ADAMW : MUON_ORIGINAL,
                                    .clip       = t->clip,
                                    .freeze     = t->freeze,
                                    .wide_sums  = t->wide_sums,
                                    .stochastic = t->stochastic_rounding,
                                    .scaling    = { t->loss_scale, t->loss_scale_growth,
                                                    t->loss_scale_backoff, t->loss_scale_every },
                                    .recompute  = recompute_of(t),
                                    .square     = t->noise_scale,
                                    .accumulate = t->accumulate };
}

/* Data elsewhere are reached by what the store can do, with the environment's credentials. */
static void open_far(struct session *s)
{
    struct s3_settings how = train_upload_settings(s->os, s->settings).where;
    struct os         *os  = NEW(s->perm, struct os, 1);
    *os                    = *s->os;
    os->far = s->far = reach_open(s->os, NULL,
                                  &(struct s3_settings){ .ask_aws = how.ask_aws,
                                                         .ask_gcp = how.ask_gcp }, s->perm);
    s->os = os;
}

static enum status begin(struct session *s, struct os *os, const struct settings *settings,
                         struct arena *perm, struct err *err)
{
    *s         = (struct session){ .os = os, .settings = settings, .perm = perm };
    if (data_is_far(&settings->data) && !os->far) open_far(s);
    s->config  = config_of(&settings->train);
    s->scratch = arena_open((i64)SCRATCH_RESERVE_GIB << 30);
    if (s->scratch.begin) return fuse_of(&settings->train, &s->config.fuse, err);
    return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
}

/* train.device auto: the GPU if there is one that answers, else the processor. */
static enum status open_device(struct session *s, struct err *err)
{
    struct str device  = s->settings->train.device;
    i64        asked   = s->settings->train.threads;
    i32        threads = asked ? (i32)asked : pool_machine_threads();
    bool       f64s    = s->settings->model.dtype == DT_F64; /* the GPU has no kernels for these */
    struct err why;
    if (str_eq(device, STR("cuda"))) return backend_cuda_open(s->perm, &s->backend, err);
    if (str_eq(device, STR("auto")) && !f64s && backend_cuda_likely() &&
        !backend_cuda_open(s->perm, &s->backend, &why))
        return STATUS_OK;
    return backend_cpu_open(s->perm, threads, BACKEND_FAST, &s->backend, err);
}

/* What was kept of earlier runs is a help, and no more. */
static void tune(struct session *s)
{
    bool                  most = str_eq(s->settings->train.compile, STR("max-autotune"));
    struct backend_tuning how  = { .effort    = most ? EFFORT_MAX : EFFORT_DEFAULT,
                                   .any_order = !s->settings->train.deterministic,
                                   .choices   = s->settings->choices };
    struct err            err  = { 0 };
    if (!s->backend->table->tune || !s->backend->table->tune(s->backend, &how, &err)) return;
    s->note = str_copy(s->perm, str_of(err.text));
}

static enum status fp8_of(struct session *s, struct err *err)
{
    struct str asked = s->settings->train.fp8;
    if (!asked.len || str_eq(asked, STR("off"))) return STATUS_OK;
    s->config.fp8 = str_eq(asked, STR("on")) ? FP8_ON : FP8_AUTO;
    if (s->precision.dtype == DT_BF16) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "train.fp8=%.*s is of products in a run with train.precision=bf16, not %.*s",
                   STR_ARG(asked), STR_ARG(precision_name(s->precision.dtype)));
}

static enum status open_backend(struct session *s, struct err *err)
{
    enum status st = open_device(s, err);
    if (st) return st;
    tune(s);
    s->backend->table->describe(s->backend, &s->target);
    f64 gib = s->settings->train.memory_gib;
    if (gib > 0) s->target.memory_bytes = (i64)(gib * 0x1p30);
    s->precision = precision_choose(s->settings->train.precision, s->settings->model.dtype,
                                    &s->target, s->perm);
    if (s->precision.dtype != DT_F64) s->config.precision = s->precision.dtype;
    return fp8_of(s, err);
}

/* A part of each step to compare with the whole: a batch of several, or half of the only one. */
static enum status split_step(struct session *s, struct err *err)
{
    if (s->config.accumulate > 1) return STATUS_OK;
    if (s->config.batch % 2)
        return err_set(err, STATUS_USAGE,
                       "train.noise_scale=true computes a step in two halves, and train.batch=%lld "
                       "has none: an even one has, or train.accumulate=2",
                       (long long)s->config.batch);
    s->config.batch /= 2;
    s->config.accumulate = 2;
    s->batch_reason      = STR("half a step, to measure the noise of gradients");
    return STATUS_OK;
}

/* Twice where train.optimiser=auto turns out to be another than the first program assumed. */
static enum status compile_here(struct session *s, graph_builder *build, void *context,
                                struct err *err)
{
    enum optimiser_kind first = s->config.optimiser;
    enum status         st =
        compile(s->perm, &s->target, &s->config, build, context, &s->set, s->scratch, err);
    if (!st) st = optimiser_resolve(s, err);
    if (!st && s->config.optimiser != first)
        st = compile(s->perm, &s->target, &s->config, build, context, &s->set, s->scratch, err);
    return st;
}

/* Seconds since *from, which becomes now. */
static f64 lap(struct session *s, i64 *from)
{
    i64 begun = *from;
    *from     = s->os->now_ns(s->os);
    return (f64)(*from - begun) * 1e-9;
}

enum status session_open(struct session *s, struct os *os, const struct settings *settings,
                         struct arena *perm, struct err *err)
{
    i64         from = os->now_ns(os);
    enum status st   = begin(s, os, settings, perm, err);
    if (!st) st = dataset_open(s->os, &settings->data, perm, &s->data, err);
    s->startup.data = lap(s, &from);
    if (!st && !dataset_count(s->data, SPLIT_TRAIN))
        st = err_set(err, STATUS_USAGE, "the data set has no training samples");
    if (!st) st = model_new(perm, &settings->model, dataset_feeds(s->data), &s->model, err);
    if (!st) st = open_backend(s, err);
    s->startup.device = lap(s, &from);
    if (!st) st = batch_resolve(s, err);
    if (!st && settings->train.noise_scale) st = split_step(s, err);
    if (st) return st;
    train_batches(&settings->train, dataset_count(s->data, SPLIT_TRAIN),
                  dataset_count(s->data, SPLIT_EVAL), &s->config);
    st                 = compile_here(s, model_build, s->model, err);
    s->startup.compile = lap(s, &from);
    return st ? st : weights_check(s, err);
}

enum status train_outline(struct os *os, const struct settings *settings, struct arena *perm,
                          struct train_outline *out, struct err *err)
{
    const struct train_config *t = &settings->train;
    struct session             s;
    enum status                st = begin(&s, os, settings, perm, err);
    if (!st) st = dataset_open(s.os, &settings->data, perm, &s.data, err);
    if (!st) st = model_new(perm, &settings->model, dataset_feeds(s.data), &s.model, err);
    if (!st) {
        s.config.batch      = t->batch_total ? t->batch_total : MAX(t->batch, 1);
        s.config.accumulate = t->batch_total ? 1 : MAX(t->accumulate, 1);
        struct limits l     = session_limits(&s);
        *out                = (struct train_outline){ .config      = s.config,
                                                      .model       = s.model,
                                                      .batch_total = session_step_samples(&s),
                                                      .steps       = l.steps,
                                                      .epoch_steps = l.epoch_steps };
        if (!t->batch && !t->batch_total) out->batch_total = 0;
        out->train_samples = dataset_count(s.data, SPLIT_TRAIN);
        out->eval_samples  = dataset_count(s.data, SPLIT_EVAL);
        out->tokens        = model_rows(s.model) > 1 ? model_rows(s.model) : 0;
    }
    session_close(&s);
    return st;
}

enum status session_build(struct session *s, struct os *os, const struct settings *settings,
                          struct arena *perm, graph_builder *build, void *context, struct err *err)
{
    enum status st = begin(s, os, settings, perm, err);
    if (!st) st = open_backend(s, err);
    if (st) return st;
    s->config.batch      = settings->train.batch;
    s->config.eval_batch = settings->train.eval_batch;
    return compile_here(s, build, context, err);
}

i64 session_epoch_samples(const struct session *s)
{
    i64 count = dataset_count(s->data, SPLIT_TRAIN);
    return s->settings->train.drop_last ? count - count % s->config.batch : count;
}

i64 session_step_samples(const struct session *s)
{
    return s->config.batch * MAX(s->config.accumulate, 1);
}

struct limits session_limits(const struct session *s)
{
    const struct train_config *c     = &s->settings->train;
    i64                        whole = session_step_samples(s);
    i64                        each  = MAX((session_epoch_samples(s) + whole - 1) / whole, 1);
    struct limits              l     = { .epochs = c->epochs, .epoch_steps = each };
    l.steps                          = MIN(c->epochs, INT64_MAX / each) * each;
    if (c->steps && (!l.steps || c->steps < l.steps)) l.steps = c->steps;
    l.rates = schedule_resolve(c, (struct pace){ .epoch_steps  = each,
                                                 .step_samples = whole,
                                                 .step_rows    = whole * model_rows(s->model),
                                                 .steps        = l.steps });
    return l;
}

enum status session_start(struct session *s, struct err *err)
{
    const struct backend_table *b    = s->backend->table;
    i64                         from = s->os->now_ns(s->os);
    enum status                 st   = b->alloc(s->backend, s->set->arena_bytes, err);
    for (i32 i = 0; !st && i < PROGRAM_COUNT; i++) {
        if (s->set->programs[i]) st = b->prepare(s->backend, s->set->programs[i], s->perm, err);
        if (!st) st = session_check_signal(s, 0, err);
    }
    s->startup.kernels = lap(s, &from);
    if (!st) st = weights_init(s, err);
    s->startup.weights = lap(s, &from);
    return st;
}

enum status session_fits_host(const struct session *s, i64 bytes, const char *what, const char *remedy,
                              struct err *err)
{
    bool far   = s->backend->table->behind; /* a GPU's arena is not in the host's memory */
    i64  there = far ? os_memory_free_bytes() : s->target.memory_bytes;
    i64  all   = bytes + (far ? 0 : s->set->arena_bytes);
    if (!there || all <= there) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s%s need%s %.2f GiB, and there are %.2f: %s%s",
                   far ? "" : "the run and ", what, far ? "s" : "", (f64)all * 0x1p-30,
                   (f64)there * 0x1p-30, remedy, far ? "" : ", or take a smaller batch");
}

struct batch *session_batch(struct session *s, struct loader *l, i64 steps, enum status *st,
                            struct err *err)
{
    static const i64 listen_ns = 100000000;
    struct batch    *b         = NULL;
    *st                        = STATUS_OK;
    while (!*st && !loader_ready(l, s->os->now_ns(s->os) + listen_ns))
        *st = session_check_signal(s, steps, err);
    if (*st) return NULL;
    b = loader_next(l);
    if (!b) *st = loader_failed(l, err);
    return b;
}

bool session_close(struct session *s)
{
    if (s->backend) s->backend->table->close(s->backend);
    if (s->eval_loader) loader_close(s->eval_loader);
    bool all = dataset_close(s->data);
    if (all) reach_close(s->far); /* or a thread that hangs may still ask it */
    if (s->scratch.begin) arena_close(&s->scratch);
    *s = (struct session){ 0 };
    return all;
}

/* An order to save stays noted until it is done; one to exit is as good as a signal. */
static enum status check_orders(struct session *s, i64 steps, struct err *err)
{
    struct train_orders *o  = s->orders;
    enum status          st = STATUS_OK;
    if (!o) return st;
    pthread_mutex_lock(&o->lock);
    if (o->pending == ORDER_SAVE) s->asked_to_save = true;
    if (o->pending == ORDER_EXIT)
        st = err_set(err, STATUS_INTERRUPTED, "stopped after step %lld: %s", (long long)steps,
                     o->why);
    o->pending = ORDER_NONE;
    pthread_mutex_unlock(&o->lock);
    return st;
}

/* Who sends SIGTERM may kill the process soon after: that is a deadline as good as a cloud's. */
static void note_grace(struct session *s)
{
    i64 at = s->os->now_ns(s->os) + (i64)(1e9 * s->settings->spot.grace_s);
    if (s->settings->spot.grace_s <= 0 || !s->orders) return;
    pthread_mutex_lock(&s->orders->lock);
    if (!s->orders->deadline_ns || at < s->orders->deadline_ns) s->orders->deadline_ns = at;
    pthread_mutex_unlock(&s->orders->lock);
}

enum status session_check_signal(struct session *s, i64 steps, struct err *err)
{
    enum os_signal got = s->os->signal_take(s->os);
    if (got == OS_SIGNAL_NONE) return check_orders(s, steps, err);
    bool exits = got != OS_SIGNAL_USR1 || str_eq(s->settings->checkpoint.on_usr1, STR("exit"));
    s->asked_to_save |= !exits;
    if (!exits) return STATUS_OK;
    if (got == OS_SIGNAL_TERM) note_grace(s);
    return err_set(err, STATUS_INTERRUPTED, "stopped by %s after step %lld",
                   got == OS_SIGNAL_INT    ? "Ctrl-C"
                   : got == OS_SIGNAL_TERM ? "SIGTERM"
                                           : "SIGUSR1",
                   (long long)steps);
}

void train_order(struct train_orders *o, enum train_order what, i64 deadline_ns, const char *why)
{
    pthread_mutex_lock(&o->lock);
    if (what >= o->pending) {
        o->pending     = what;
        o->deadline_ns = deadline_ns;
        snprintf(o->why, sizeof o->why, "%s", why);
    }
    pthread_mutex_unlock(&o->lock);
}

bool session_has(const struct session *s, struct str name)
{
    return program_set_find(s->set, name) != NULL;
}

void session_put(struct session *s, struct str name, const void *data, i64 bytes)
{
    const struct persistent *t = program_set_find(s->set, name);
    if (!t) return;
    ASSERT(bytes <= type_bytes(t->type));
    s->backend->table->put(s->backend, t->offset, data, bytes);
}

void session_get(struct session *s, struct str name, void *data, i64 bytes)
{
    const struct persistent *t = program_set_find(s->set, name);
    ASSERT(t && bytes <= type_bytes(t->type));
    s->backend->table->wait(s->backend, s->backend->table->get(s->backend, t->offset, data, bytes));
}

void session_get_numbers(struct session *s, struct str name, f64 *to, i64 count)
{
    const struct persistent *t = program_set_find(s->set, name);
    ASSERT(t && dtype_is_float(t->type.dtype));
    session_get(s, name, to, count * dtype_bytes(t->type.dtype));
    if (t->type.dtype == DT_F64) return;
    ASSERT(t->type.dtype == DT_F32);
    for (i64 i = count - 1; i >= 0; i--) { /* from the end: they grow where they lie */
        f32 narrow;
        memcpy(&narrow, (const char *)to + i * (i64)sizeof narrow, sizeof narrow);
        to[i] = (f64)narrow;
    }
}

void session_ask(struct session *s, struct str name, struct asked *a)
{
    const struct persistent *t = program_set_find(s->set, name);
    ASSERT(t && dtype_is_float(t->type.dtype));
    a->dtype  = t->type.dtype;
    a->ticket = s->backend->table->get(s->backend, t->offset, a->bytes, dtype_bytes(a->dtype));
}

f64 session_answer(struct session *s, const struct asked *a)
{
    f64 wide;
    f32 narrow;
    s->backend->table->wait(s->backend, a->ticket);
    memcpy(&wide, a->bytes, sizeof wide);
    memcpy(&narrow, a->bytes, sizeof narrow);
    return a->dtype == DT_F64 ? wide : (f64)narrow;
}

/* One number, in whichever type the tensor has. */
static void put_number(struct session *s, struct str name, f64 value)
{
    const struct persistent *t      = program_set_find(s->set, name);
    f32                      narrow = (f32)value;
    if (t && t->type.dtype == DT_F64) session_put(s, name, &value, sizeof value);
    else session_put(s, name, &narrow, sizeof narrow);
}

void session_put_scalars(struct session *s, i64 step, i64 rows, i64 first_sample, f64 lr)
{
    const struct train_config *c   = &s->settings->train;
    bool                       sgd = s->config.optimiser == OPTIMISER_SGD;
    f64  level     = c->lr > 0 ? lr / c->lr : 0; /* schedule and batch move all rates alike */
    bool muon_rest = s->config.optimiser == OPTIMISER_MUON && c->muon_rest_lr > 0;
    f64  own       = muon_rest ? level * c->muon_rest_lr : lr;
    f32  hyper[4]  = { (f32)own, (f32)(sgd ? c->momentum : c->beta1), (f32)c->beta2,
                       (f32)(step + 1) };
    f32  muon[4]   = { (f32)(level * c->muon_lr), (f32)c->muon_momentum, 0, (f32)(step + 1) };
    i32  rng[4]    = { (i32)(u32)c->seed, (i32)(u32)(c->seed >> 32), (i32)step, (i32)first_sample };
    session_put(s, STR("hyper"), hyper, sizeof hyper);
    session_put(s, STR("hyper.muon"), muon, sizeof muon);
    put_number(s, STR("loss_seed"), 1 / (f64)rows);
    session_put(s, STR("rng"), rng, sizeof rng);
}
