/* lint.c - the rules, in the order of lint.def. Each returns its sentence, or an empty one. */
#include "train/lint.h"
#include "base/digits.h"
#include <math.h>

static const struct str fine = STR_INIT("");

static const struct train_config *train_of(const struct lint_facts *f)
{
    return &f->settings->train;
}

static f64 gib(i64 bytes) { return (f64)bytes / 0x1p30; }

/* --- precision, memory, speed --- */

static struct str check_fp16_without_scaling(const struct lint_facts *f, struct arena *perm)
{
    if (f->precision != DT_F16 || f->loss_scaled) return fine;
    return str_fmt(
        perm,
        "train.precision=fp16 with train.loss_scale=%g: gradients below 6e-8 become 0. The "
        "default is 65536; train.precision=bf16 needs none",
        train_of(f)->loss_scale);
}

static struct str check_fp16_where_bf16(const struct lint_facts *f, struct arena *perm)
{
    if (f->precision != DT_F16 || f->low != DT_BF16) return fine;
    return str_fmt(perm, "train.precision=fp16, but this machine has bf16, which has the range of "
                         "fp32 and needs no loss scaling: train.precision=bf16");
}

static struct str check_recompute_not_needed(const struct lint_facts *f, struct arena *perm)
{
    bool saves = f->plain_bytes > f->train_bytes, short_of = f->plain_bytes > f->memory_bytes;
    if (!f->plain_bytes || !saves || (f->memory_bytes && short_of)) return fine;
    return str_fmt(perm,
                   "train.recompute=%.*s computes %.0f %% more, and there is enough memory: "
                   "keeping everything "
                   "takes %.3g GiB of %.3g. train.recompute=auto recomputes only what does not fit",
                   STR_ARG(train_of(f)->recompute), 100 * (f->flops / f->plain_flops - 1),
                   gib(f->plain_bytes), gib(f->memory_bytes));
}

static struct str check_recompute_in_vain(const struct lint_facts *f, struct arena *perm)
{
    if (!f->plain_bytes || f->plain_bytes > f->train_bytes) return fine;
    return str_fmt(
        perm,
        "train.recompute=%.*s saves no memory here: it recomputes blocks, and the model has none. "
        "train.recompute=auto chooses single values",
        STR_ARG(train_of(f)->recompute));
}

static struct str check_naive_kernel(const struct lint_facts *f, struct arena *perm)
{
    if (!f->naive_count) return fine;
    return str_fmt(
        perm,
        "%d of the step's instructions (%.*s first) use a slow kernel of ours. cuDNN 9 supports "
        "convolutions, most of them with channels in multiples of 8 and train.precision=bf16; "
        "train.fp8=auto skips what the GPU has no units for",
        f->naive_count, STR_ARG(f->naive_op));
}

static struct str check_loader_bound(const struct lint_facts *f, struct arena *perm)
{
    if (!(f->load_s > f->compute_s)) return fine;
    bool low = f->precision == DT_BF16 || f->precision == DT_F16;
    return str_fmt(
        perm,
        "a batch takes %s ms to load and %s ms to compute: %suncompressed data on a faster "
        "disk or one more core would help",
        DIGITS(1e3 * f->load_s), DIGITS(1e3 * f->compute_s),
        low ? "train.precision gains nothing, " : "a faster step gains nothing, ");
}

static struct str check_threads_beyond_cores(const struct lint_facts *f, struct arena *perm)
{
    if (train_of(f)->threads <= f->cores) return fine;
    return str_fmt(perm, "train.threads=%lld on %d cores: the default is one thread per core",
                   (long long)train_of(f)->threads, f->cores);
}

static struct str check_cores_idle(const struct lint_facts *f, struct arena *perm)
{
    i64 threads = train_of(f)->threads;
    if (f->gpu || !threads || 2 * threads >= f->cores) return fine;
    return str_fmt(
        perm,
        "train.threads=%lld on %d cores, which are paid for: the default is one thread per core",
        (long long)threads, f->cores);
}

/* Limits of this and the next: those of run/verdict.def. */
static struct str check_fp32_where_faster(const struct lint_facts *f, struct arena *perm)
{
    if (f->precision != DT_F32 || !(f->low_speedup >= 1.3)) return fine;
    return str_fmt(
        perm,
        "a step in %s would be %.1f times as fast as in fp32, as measured on this machine: "
        "train.precision=auto",
        f->low == DT_BF16 ? "bf16" : "fp16", f->low_speedup);
}

static struct str check_memory_nearly_full(const struct lint_facts *f, struct arena *perm)
{
    const struct train_config *t = train_of(f);
    bool meant = t->memory_gib > 0 || !t->batch || str_eq(t->recompute, STR("auto"));
    if (meant || !f->memory_bytes || (f64)f->train_bytes <= 0.9 * (f64)f->memory_bytes) return fine;
    return str_fmt(
        perm,
        "the run takes %.3g of %.3g GiB, and the data cache and checkpoints need some too: "
        "train.recompute=auto, or half the train.micro_batch",
        gib(f->train_bytes), gib(f->memory_bytes));
}

/* --- machines that may be taken away --- */

static bool is_spot(const struct lint_facts *f)
{
    return str_eq(f->settings->run.market, STR("spot"));
}

static struct str check_spot_without_checkpoints(const struct lint_facts *f, struct arena *perm)
{
    if (!is_spot(f) || f->settings->checkpoint.dir.len || f->settings->checkpoint.to.len)
        return fine;
    return str_fmt(
        perm, "run.market=spot without checkpoints: all of the run is lost when the machine is "
              "taken away. checkpoint.to=s3://BUCKET/PREFIX keeps checkpoints in an object store");
}

static struct str check_spot_checkpoints_on_it(const struct lint_facts *f, struct arena *perm)
{
    const struct checkpoint_config *c = &f->settings->checkpoint;
    if (!is_spot(f) || !c->dir.len || c->to.len || f->disk_remote) return fine;
    return str_fmt(
        perm,
        "run.market=spot with checkpoints on the machine's own disk, which may be lost with it: "
        "checkpoint.to=s3://BUCKET/PREFIX, or a checkpoint.dir on a disk that stays");
}

/* On average half an interval is lost with a machine. */
static struct str check_interval_beyond_machine(const struct lint_facts *f, struct arena *perm)
{
    f64 lost = f->save_every_s / 2 / f->mtti_s;
    if (!f->settings->checkpoint.dir.len || !(lost >= 0.05)) return fine;
    return str_fmt(
        perm,
        "a checkpoint every %.3g min on machines that last %.3g h loses %.0f %% of the work: "
        "checkpoint.every=auto",
        f->save_every_s / 60, f->mtti_s / 3600, 100 * lost);
}

/* --- the learning rate --- */

static struct str check_warmup_longer_than_run(const struct lint_facts *f, struct arena *perm)
{
    if (!f->steps || !f->warmup || f->warmup < f->steps) return fine;
    return str_fmt(
        perm,
        "the warm-up takes %lld steps and the run ends after %lld: the learning rate never "
        "reaches its value. train.warmup=%lld is a tenth of the run",
        (long long)f->warmup, (long long)f->steps, (long long)MAX(f->steps / 10, 1));
}

static struct str check_schedule_without_end(const struct lint_facts *f, struct arena *perm)
{
    struct str s     = train_of(f)->schedule;
    bool       falls = !str_eq(s, STR("constant")) && !str_eq(s, STR("step"));
    if (f->steps || !falls) return fine;
    return str_fmt(perm,
                   "train.schedule=%.*s needs a last step, and this run has none: give "
                   "train.steps or train.epochs",
                   STR_ARG(s));
}

/* Ten times beyond what papers and recipes use: Adam and AdamW 1e-5 to 1e-2, SGD 1e-3 to 1, Muon
 * 1e-3 to 0.1 beside AdamW for the rest. */
static const struct {
    const char *optimiser, *key;
    f64         low, high, common;
} rates[] = {
    { "sgd", "train.lr", 1e-4, 10, 0.1 },       { "adam", "train.lr", 1e-6, 0.1, 1e-3 },
    { "adamw", "train.lr", 1e-6, 0.1, 1e-3 },   { "muon", "train.lr", 1e-6, 0.1, 1e-3 },
    { "muon", "train.muon_lr", 1e-4, 1, 0.02 },
};

static bool has_one_rate(const struct lint_facts *f)
{
    return str_eq(f->optimiser, STR("muon")) && str_eq(train_of(f)->optimiser, STR("auto"));
}

static struct str check_lr_not_used(const struct lint_facts *f, struct arena *perm)
{
    const struct train_config *t = train_of(f);
    if (!f->settings->lr_given || !has_one_rate(f)) return fine;
    return str_fmt(perm,
                   "train.lr=%g is not used: train.optimiser=auto took muon, and train.muon_lr=%g "
                   "is then the rate of all parameters. train.optimiser=muon uses both",
                   t->lr, t->muon_lr);
}

static struct str check_lr_unusual(const struct lint_facts *f, struct arena *perm)
{
    const struct train_config *t = train_of(f);
    for (i64 i = 0; i < COUNT_OF(rates); i++) {
        bool lr = str_eq(str_of(rates[i].key), STR("train.lr"));
        f64  v  = lr ? f->lr : t->muon_lr;
        if (!str_eq(f->optimiser, str_of(rates[i].optimiser))) continue;
        if (lr && has_one_rate(f)) continue;
        if (v >= rates[i].low && v <= rates[i].high) continue;
        return str_fmt(perm,
                       "%s=%g is far %s the usual range of %.*s, %g to %g: %s=%g is a common value",
                       rates[i].key, v, v < rates[i].low ? "below" : "above", STR_ARG(f->optimiser),
                       10 * rates[i].low, rates[i].high / 10, rates[i].key, rates[i].common);
    }
    return fine;
}

static struct str check_decay_in_adam(const struct lint_facts *f, struct arena *perm)
{
    const struct train_config *t = train_of(f);
    if (!(t->decay > 0) || !str_eq(f->optimiser, STR("adam"))) return fine;
    return str_fmt(
        perm,
        "train.decay=%g with adam is added to the gradient and divided by its size, so that "
        "weights with large gradients hardly decay: train.optimiser=adamw",
        t->decay);
}

/* --- data and evaluation --- */

static struct str check_text_is_binary(const struct lint_facts *f, struct arena *perm)
{
    if (!f->binary) return fine;
    return str_copy(perm, STR("data.path has zero bytes, which no text has: if it holds tokens, "
                              "data.kind=tokens reads them"));
}

static struct str check_batch_larger_than_data(const struct lint_facts *f, struct arena *perm)
{
    i64 asked = train_of(f)->batch;
    if (asked <= f->train_samples) return fine;
    i64 less = MAX(f->train_samples / 10, 1), steps = (f->train_samples + less - 1) / less;
    return str_fmt(perm,
                   "a step has %lld samples, and there %s only %lld: every step sees all the data. "
                   "train.batch=%lld makes an epoch %lld step%s",
                   (long long)asked, f->train_samples == 1 ? "is" : "are",
                   (long long)f->train_samples, (long long)less, (long long)steps,
                   steps == 1 ? "" : "s");
}

static struct str check_target_seen_late(const struct lint_facts *f, struct arena *perm)
{
    const struct train_config *t     = train_of(f);
    i64                        every = t->eval_every ? t->eval_every : f->epoch_steps;
    if (isnan(t->target) || !f->steps || every <= f->steps) return fine;
    return str_fmt(
        perm,
        "train.target is checked every %lld steps, and the run ends after %lld: it cannot "
        "stop the run early. train.eval_every=%lld checks ten times",
        (long long)every, (long long)f->steps, (long long)MAX(f->steps / 10, 1));
}

static struct str check_evaluation_dominates(const struct lint_facts *f, struct arena *perm)
{
    const struct train_config *t       = train_of(f);
    i64                        every   = t->eval_every ? t->eval_every : f->epoch_steps;
    f64                        between = (f64)every * f->step_flops;
    bool                       once    = f->steps && every >= f->steps; /* at the end, as must be */
    if (once || !(f->eval_flops > between)) return fine;
    struct str steps = every == 1 ? STR("step") : str_fmt(perm, "%lld steps", (long long)every);
    return str_fmt(
        perm,
        "an evaluation costs %.1f times the %.*s before it: data.eval_samples=%lld or a larger "
        "train.eval_every",
        f->eval_flops / between, STR_ARG(steps),
        (long long)MAX((f64)f->eval_samples * between / f->eval_flops / 4, 1));
}

static struct str check_dropout_within_an_epoch(const struct lint_facts *f, struct arena *perm)
{
    f64 p = f->settings->model.dropout;
    if (!(p > 0) || !f->steps || f->steps > f->epoch_steps) return fine;
    return str_fmt(
        perm,
        "model.dropout=%g in a run that sees no sample twice: there is nothing to memorise. "
        "model.dropout=0 learns faster",
        p);
}

/* --- the table --- */

const struct lint_rule lint_rules[LINT_COUNT] = {
#define RULE(name, about) { #name, about },
#include "train/lint.def"
};

static struct str (*const checks[LINT_COUNT])(const struct lint_facts *, struct arena *) = {
#define RULE(name, about) check_##name,
#include "train/lint.def"
};

static bool allowed(const struct train_config *t, const char *rule)
{
    for (i64 i = 0; i < t->allow_count; i++)
        if (str_eq(t->allow[i], str_of(rule))) return true;
    return false;
}

i64 lint(const struct lint_facts *f, struct finding *out, struct arena *perm)
{
    i64 count = 0;
    for (i64 i = 0; i < LINT_COUNT; i++) {
        if (allowed(train_of(f), lint_rules[i].name)) continue;
        struct str text = checks[i](f, perm);
        if (text.len) out[count++] = (struct finding){ (i32)i, text };
    }
    return count;
}

enum status lint_check_allowed(const struct train_config *t, struct err *err)
{
    for (i64 i = 0; i < t->allow_count; i++) {
        bool known = false;
        for (i64 k = 0; k < LINT_COUNT; k++)
            known |= str_eq(t->allow[i], str_of(lint_rules[k].name));
        if (!known)
            return err_set(err, STATUS_USAGE,
                           "train.allow: there is no rule %.*s; `frugal help lint` lists them",
                           STR_ARG(t->allow[i]));
    }
    return STATUS_OK;
}
