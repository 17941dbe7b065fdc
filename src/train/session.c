/* session.c - opening a run: data, model, backend, programs; then its memory. */
#include "model/hf.h"
#include "remote/files.h"
#include "train/remote_save.h"
#include "train/train_int.h"

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
    struct recompute_config c = { .every = 0 };
    if (str_eq(t->recompute, STR("all"))) c.kind = RECOMPUTE_ALL;
    if (str_i64(t->recompute, &c.every)) c.kind = RECOMPUTE_EVERY;
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

enum shard_kind shard_of(struct str word)
{
    if (str_eq(word, STR("all"))) return SHARD_ALL;
    return str_eq(word, STR("state")) ? SHARD_STATE : SHARD_NONE;
}

/* Of fp16's loss scale, as PyTorch's GradScaler has them. */
static const f64 scale_growth = 2, scale_backoff = 0.5;
static const i64 scale_every = 2000; /* good steps until it grows */

/* Weights that are only used are read in the products' precision, and need no better copy. With train.wide_sums a
 * table's rows are read as f32. */
static bool is_used_only(const struct settings *s) { return s->eval_only && !s->train.wide_sums; }

static struct compile_config config_of(const struct settings *settings)
{
    const struct train_config *t    = &settings->train;
    struct str                 kept = settings->optimiser_chosen;
    bool                       used = is_used_only(settings);
    return (struct compile_config){ .optimiser  = optimiser_of(kept.len ? kept : t->optimiser),
                                    .tables     = tables_of(t->tables),
                                    .eps        = t->eps,
                                    .decay      = t->decay,
                                    .nesterov   = t->nesterov,
                                    .clip       = t->clip,
                                    .freeze     = used ? STR("*") : t->freeze,
                                    .frozen_low = t->lora.rank > 0 || used,
                                    .wide_sums  = t->wide_sums,
                                    .stochastic = t->stochastic_rounding,
                                    .scaling    = { t->loss_scale, scale_growth, scale_backoff,
                                                    scale_every },
                                    .recompute  = recompute_of(t),
                                    .square     = t->noise_scale,
                                    .shard      = shard_of(t->shard) };
}

/* A folder that says what its classes are called numbers them, too; one that cannot be read is reported later. */
static void take_class_names(const struct session *s, struct data_config *config)
{
    struct str path = str_cat(s->perm, s->settings->model.path, STR("/config.json")), text;
    if (config->class_count || !str_eq(s->settings->model.kind, STR("hf"))) return;
    if (!os_read_all(s->os, path, s->perm, &text, NULL))
        config->class_count = hf_class_names(text, s->perm, &config->class_names);
}

/* Remote data are read with the credentials of the environment. */
static enum status open_data(struct session *s, struct err *err)
{
    struct s3_settings  how    = train_upload_settings(s->os, s->settings).where;
    struct data_config *config = NEW(s->perm, struct data_config, 1);
    *config                    = s->settings->data;
    config->image_bytes        = true; /* a fourth of what f32 would take on the way to a GPU */
    bool shifts                = str_eq(config->windows, STR("random"));
    if (shifts && str_eq(s->settings->train.shuffle, STR("false"))) config->windows = STR("fixed");
    if (!config->tokenizer.len) config->tokenizer = s->settings->model.path;
    take_class_names(s, config);
    if (data_is_remote(config))
        config->remote = s->remote = remote_files_open(
            s->os, NULL, &(struct s3_settings){ .ask_aws = how.ask_aws, .ask_gcp = how.ask_gcp },
            s->perm);
    return dataset_open(s->os, config, s->perm, &s->data, err);
}

static enum status begin(struct session *s, struct os *os, const struct settings *settings,
                         struct arena *perm, struct err *err)
{
    struct warmup warmup;
    enum status   st      = adapters_resolve(os, &settings, perm, err);
    *s                    = (struct session){ .os = os, .settings = settings, .perm = perm };
    s->clock              = clock_new(perm, os);
    s->config             = config_of(settings);
    s->config.keep_passes = settings->keep_passes;
    s->scratch            = arena_open((i64)SCRATCH_RESERVE_GIB << 30);
    if (!st && !s->scratch.begin)
        st = err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    if (!st) st = warmup_parse(settings->train.warmup, &warmup, err);
    return st ? st : fuse_of(&settings->train, &s->config.fuse, err);
}

/* A part of each step to compare with the whole: a batch of several, or half of the only one. */
static enum status split_step(struct session *s, struct err *err)
{
    if (s->config.accumulate > 1) return STATUS_OK;
    if (s->config.batch % 2)
        return err_set(err, STATUS_USAGE,
                       "train.noise_scale=true computes a step in two halves: "
                       "train.batch=%lld must be even",
                       (long long)s->config.batch);
    s->config.batch /= 2;
    s->config.accumulate = 2;
    struct str half      = STR("half a step, to measure the noise of gradients");
    s->batch_reason = s->batch_reason.len ? str_fmt(s->perm, "%.*s; of a step: %.*s", STR_ARG(half),
                                                    STR_ARG(s->batch_reason))
                                          : half;
    return STATUS_OK;
}

/* The program for a batch of average length, which is what figures and prices are of. */
static enum status compile_typical(struct session *s, struct err *err)
{
    enum status st = STATUS_OK;
    for (i32 id = 0; !st && id < PROGRAM_COUNT; id++) {
        struct program *p = s->set->programs[id];
        if (!p || !p->rows || s->config.row_share <= 0) continue;
        i64 rows = (i64)((f64)p->rows * s->config.row_share + 0.5);
        st       = compile_holding(s->perm, s->set, (enum program_id)id, rows, &p, s->scratch, err);
    }
    return st;
}

/* Twice where train.optimiser=auto turns out to be another than the first program assumed. */
static enum status compile_here(struct session *s, graph_builder *build, void *context,
                                struct err *err)
{
    enum optimiser_kind first = s->config.optimiser;
    enum status         st    = together_compile(s, build, context, err);
    if (!st) st = compile_typical(s, err);
    if (!st) st = optimiser_resolve(s, err);
    if (st || s->config.optimiser == first) return st;
    st = together_compile(s, build, context, err);
    return st ? st : compile_typical(s, err);
}

/* Rows that no padding is in, of `count` samples; 0: the data has no lengths. */
static i64 rows_of(const struct session *s, const i32 *lens, i64 count)
{
    const struct feed *x    = feeds_find(dataset_feeds(s->data), STR("x"));
    i64                rows = 0;
    for (i64 i = 0; i < count && x; i++)
        rows += MAX(1, MIN(lens[i], x->type.shape.dim[0])); /* as the op `pack` counts them */
    return rows;
}

static i32 lens_feed(const struct session *s)
{
    const struct feeds *feeds = dataset_feeds(s->data);
    for (i32 f = 0; f < feeds->count; f++)
        if (str_eq(feeds->feed[f].name, STR("lens"))) return f;
    return -1;
}

i64 session_rows(const struct session *s, const struct batch *b)
{
    i32 lens = lens_feed(s);
    return lens < 0 ? 0 : rows_of(s, b->data[lens], b->count);
}

/* By a few samples from all over the data. */
static f64 row_share(const struct session *s)
{
    enum { LOOKED_AT = 256 };
    struct arena        scratch = s->scratch;
    const struct feeds *feeds   = dataset_feeds(s->data);
    const struct feed  *x       = feeds_find(feeds, STR("x"));
    i64                 count   = MIN(LOOKED_AT, dataset_count(s->data, SPLIT_TRAIN));
    i64                 index[LOOKED_AT];
    void               *to[FEEDS_MAX];
    if (lens_feed(s) < 0 || !x || x->type.shape.rank != 1 || !count) return 0;
    for (i64 i = 0; i < count; i++) index[i] = i * (dataset_count(s->data, SPLIT_TRAIN) / count);
    for (i32 f = 0; f < feeds->count; f++)
        to[f] = NEW(&scratch, u8, count * type_bytes(feeds->feed[f].type));
    dataset_fetch(s->data, SPLIT_TRAIN, index, count, to);
    return (f64)rows_of(s, to[lens_feed(s)], count) / (f64)(count * x->type.shape.dim[0]);
}

enum status session_program(struct session *s, enum program_id id, i64 rows, struct program **out,
                            struct err *err)
{
    enum status st = compile_holding(s->perm, s->set, id, rows, out, s->scratch, err);
    if (st || (*out)->prepared) return st;
    s->prepared++;
    return s->backend->table->prepare(s->backend, *out, s->perm, err);
}

static enum status compile_batches(struct session *s, struct err *err)
{
    if (s->ranks) s->config.batch = s->batch_all;
    if (s->settings->data.rows_only) { /* one at a time while they are slow to come */
        s->config.eval_batch      = s->settings->train.eval_batch;
        s->config.eval_batch_last = s->config.eval_batch > 1;
    } else
        train_batches(&s->settings->train, dataset_count(s->data, SPLIT_TRAIN),
                      dataset_count(s->data, SPLIT_EVAL), &s->config);
    enum status st = together_batches(s, err);
    if (!st) st = together_memory(s, err);
    if (st) return st;
    if (s->settings->eval_only) s->config.batch = s->config.batch_last = s->config.accumulate = 0;
    return compile_here(s, model_build, s->model, err);
}

/* Again with smaller micro-batches where the step does not fit at once and nobody said that it must. */
static enum status compile_to_fit(struct session *s, struct err *err)
{
    struct compile_config asked = s->config;
    struct err            why   = { 0 };
    enum status           st    = compile_batches(s, err);
    if (st != STATUS_USAGE || s->settings->data.rows_only) return st;
    if (tables_exceed(s->set, s->target.memory_bytes)) return st; /* no batch is small enough */
    enum status shrinks = batch_shrink(s, &why);
    if (shrinks == STATUS_USAGE && err) *err = why; /* not even one sample: says more */
    if (shrinks) return st;
    s->config.optimiser = asked.optimiser; /* as auto begins */
    return compile_batches(s, err);
}

enum status session_open_timed(struct session *s, struct clock *clock, struct os *os,
                               const struct settings *settings, struct arena *perm, struct err *err)
{
    struct ranks *ranks = s->ranks;
    enum status   st    = begin(s, os, settings, perm, err);
    s->ranks            = ranks;
    if (clock) s->clock = clock;
    clock_enter(clock, PART_start_data);
    if (!st) st = open_data(s, err);
    clock_enter(clock, PART_start_device);
    if (!st && !settings->data.rows_only) st = samples_check(s, err);
    if (!st) st = session_model(s, err);
    if (!st) s->config.row_share = row_share(s);
    if (!st) st = session_backend(s, err);
    st = ranks_agree(s->ranks, st, err); /* what follows, all do or none */
    if (!st) st = ranks_agree(s->ranks, together_groups(s, err), err);
    if (!st) st = session_link(s, err);
    clock_enter(clock, PART_start_compile);
    if (!st) st = batch_resolve(s, err);
    if (!st && settings->train.noise_scale) st = split_step(s, err);
    if (!st) st = compile_to_fit(s, err);
    if (!st) st = norms_check(s, err);
    st = ranks_agree(s->ranks, st, err);
    if (!st) st = together_same(s, err);
    if (!st) together_notes(s);
    clock_enter(clock, PART_start);
    return st ? st : weights_check(s, err);
}

enum status session_open(struct session *s, struct os *os, const struct settings *settings,
                         struct arena *perm, struct err *err)
{
    s->ranks = NULL;
    return session_open_timed(s, NULL, os, settings, perm, err);
}

enum status train_outline(struct os *os, const struct settings *settings, struct arena *perm,
                          struct train_outline *out, struct err *err)
{
    const struct train_config *t = &settings->train;
    struct session             s;
    enum status                st = begin(&s, os, settings, perm, err);
    if (!st) st = open_data(&s, err);
    if (!st) st = session_model(&s, err);
    if (!st) {
        s.config.batch      = MAX(t->batch, 1);
        s.config.accumulate = 1;
        s.config.row_share  = row_share(&s);
        struct limits l     = session_limits(&s);
        *out                = (struct train_outline){ .config      = s.config,
                                                      .model       = s.model,
                                                      .batch_total = session_step_samples(&s),
                                                      .steps       = l.steps,
                                                      .epoch_steps = l.epoch_steps };
        if (!t->batch) out->batch_total = 0;
        out->train_samples = dataset_count(s.data, SPLIT_TRAIN);
        out->eval_samples  = dataset_count(s.data, SPLIT_EVAL);
        out->tokens        = model_rows(s.model) > 1 ? model_rows(s.model) : 0;
    }
    session_close(&s);
    return st;
}

enum status session_device(struct session *s, struct os *os, const struct settings *settings,
                           struct arena *perm, struct err *err)
{
    enum status st = begin(s, os, settings, perm, err);
    return st ? st : session_backend(s, err);
}

enum status session_compile(struct session *s, graph_builder *build, void *context, struct err *err)
{
    return compile_here(s, build, context, err);
}

enum status session_build(struct session *s, struct os *os, const struct settings *settings,
                          struct arena *perm, graph_builder *build, void *context, struct err *err)
{
    enum status st = session_device(s, os, settings, perm, err);
    if (st) return st;
    i64 batch = settings->train.batch, micro = settings->train.micro_batch;
    s->config.batch      = micro ? micro : batch;
    s->config.accumulate = micro ? batch / micro : 1;
    s->config.eval_batch = settings->train.eval_batch;
    return compile_here(s, build, context, err);
}

static enum status prepare_all(struct session *s, struct err *err)
{
    enum status st = STATUS_OK;
    for (i32 i = 0; !st && i < PROGRAM_COUNT; i++) {
        struct program *p = program_typical(s->set, (enum program_id)i);
        if (p) st = s->backend->table->prepare(s->backend, p, s->perm, err);
        if (!st) st = session_check_signal(s, 0, err);
    }
    return st;
}

enum status session_start(struct session *s, struct err *err)
{
    bool       follows = s->ranks && s->ranks->rank;
    struct err why     = { 0 };
    clock_enter(s->clock, PART_start_kernels);
    enum status st = s->backend->table->alloc(s->backend, s->set->arena_bytes, err);
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *t   = &s->set->persistents[i];
        i64                      end = t->offset + type_bytes(t->type);
        if (t->kind == VALUE_PARAM) s->backend->weights_end = MAX(s->backend->weights_end, end);
    }
    if (!st && !follows) st = prepare_all(s, err);
    enum status shared = session_share_choices(s, &why); /* one that has failed does so too */
    if (!st && shared) st = err_set(err, shared, "%s", why.text);
    if (!st && follows) st = prepare_all(s, err);
    clock_enter(s->clock, PART_start_weights);
    if (!st) st = weights_init(s, err);
    clock_enter(s->clock, PART_start);
    return st;
}

enum status session_fits_host(const struct session *s, i64 bytes, const char *what,
                              const char *remedy, struct err *err)
{
    bool far   = s->backend->table->behind; /* a GPU's arena is not in the host's memory */
    i64  there = far ? os_memory_free_bytes() : s->target.memory_bytes;
    i64  all   = bytes + (far ? 0 : s->set->arena_bytes);
    if (!there || all <= there) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%s%s need%s %.2f GiB, and there are %.2f: %s%s",
                   far ? "" : "the run and ", what, far ? "s" : "", (f64)all * 0x1p-30,
                   (f64)there * 0x1p-30, remedy, far ? "" : ", or use a smaller batch");
}

struct batch *session_batch(struct session *s, struct loader *l, i64 steps, enum status *st,
                            struct err *err)
{
    static const i64 listen_ns = 100000000;
    struct batch    *b         = NULL;
    *st                        = STATUS_OK;
    while (!*st && !loader_ready(l, clock_now(s->clock) + listen_ns))
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
    if (all) remote_files_close(s->remote); /* or a thread that hangs may still ask it */
    if (s->scratch.begin) arena_close(&s->scratch);
    *s = (struct session){ 0 };
    return all;
}
