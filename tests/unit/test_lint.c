/* Every rule fires where it should, alone, and a sound run has none. */
#include "harness.h"
#include "train/lint.h"

static struct settings settings;

/* A run with nothing wrong. */
static struct lint_facts sound(void)
{
    settings       = (struct settings){ 0 };
    settings.train = (struct train_config){ .batch     = 32,
                                            .lr        = 1e-3,
                                            .decay     = 0.01,
                                            .schedule  = STR("cosine"),
                                            .recompute = STR("none"),
                                            .target    = 0.9 };
    return (struct lint_facts){ .settings      = &settings,
                                .train_samples = 10000,
                                .eval_samples  = 1000,
                                .epoch_steps   = 313,
                                .steps         = 1565,
                                .warmup        = 100,
                                .lr            = 1e-3,
                                .optimiser     = STR("adamw"),
                                .low           = DT_BF16,
                                .memory_bytes  = (i64)8 << 30,
                                .train_bytes   = (i64)1 << 30,
                                .flops         = 1e9,
                                .step_flops    = 3e9,
                                .eval_flops    = 30e9,
                                .cores         = 2,
                                .low_speedup   = NAN,
                                .save_every_s  = NAN,
                                .mtti_s        = INFINITY,
                                .load_s        = 1e-4,
                                .compute_s     = 1e-3 };
}

static void recompute_all(struct lint_facts *f, i64 plain_bytes)
{
    settings.train.recompute = STR("all");
    f->plain_bytes           = plain_bytes;
    f->plain_flops           = f->flops / 1.25;
}

/* One mistake each: makes the facts wrong, or (`near`) nearly so. */
typedef void mistake(struct lint_facts *f, bool near);

static void fp16_without_scaling(struct lint_facts *f, bool near)
{
    f->precision   = DT_F16;
    f->low         = DT_F16;
    f->loss_scaled = near;
}

static void fp16_where_bf16(struct lint_facts *f, bool near)
{
    f->precision   = near ? DT_BF16 : DT_F16;
    f->loss_scaled = true;
}

static void recompute_not_needed(struct lint_facts *f, bool near)
{
    recompute_all(f, near ? f->memory_bytes + 1 : 2 * f->train_bytes);
}

static void recompute_in_vain(struct lint_facts *f, bool near)
{
    recompute_all(f, f->train_bytes);
    if (near) f->plain_bytes = 0; /* auto: nothing to compare with */
}

static void naive_kernel(struct lint_facts *f, bool near)
{
    f->naive_count = near ? 0 : 3;
    f->naive_op    = STR("conv2d");
}

static void loader_bound(struct lint_facts *f, bool near) { f->load_s = near ? NAN : 0.002; }

static void threads_beyond_cores(struct lint_facts *f, bool near)
{
    settings.train.threads = near ? f->cores : f->cores + 1;
}

static void warmup_longer_than_run(struct lint_facts *f, bool near)
{
    f->warmup = near ? f->steps - 1 : f->steps;
}

static void schedule_without_end(struct lint_facts *f, bool near)
{
    f->steps = 0;
    if (near) settings.train.schedule = STR("step");
}

static void lr_unusual(struct lint_facts *f, bool near) { f->lr = near ? 0.1 : 0.2; }

static void lr_not_used(struct lint_facts *f, bool near)
{
    settings.lr_given        = true;
    settings.train.muon_lr   = 0.02;
    settings.train.optimiser = STR("auto");
    f->optimiser             = near ? STR("adamw") : STR("muon");
}

static void decay_in_adam(struct lint_facts *f, bool near)
{
    f->optimiser = STR("adam");
    if (near) settings.train.decay = 0;
}

static void text_is_binary(struct lint_facts *f, bool near) { f->binary = !near; }

static void batch_larger_than_data(struct lint_facts *f, bool near)
{
    settings.train.batch = f->train_samples + !near;
}

static void target_seen_late(struct lint_facts *f, bool near)
{
    settings.train.eval_every = near ? f->steps : f->steps + 1;
}

static void evaluation_dominates(struct lint_facts *f, bool near)
{
    settings.train.eval_every = near ? 11 : 9; /* an evaluation is worth 10 steps */
    (void)f;
}

static void dropout_within_an_epoch(struct lint_facts *f, bool near)
{
    settings.model.dropout = 0.1;
    f->steps               = f->epoch_steps + near;
}

static void cores_idle(struct lint_facts *f, bool near)
{
    f->cores               = 16;
    settings.train.threads = near ? 8 : 7;
}

static void fp32_where_faster(struct lint_facts *f, bool near)
{
    f->precision   = DT_F32;
    f->low_speedup = near ? 1.2 : 1.8;
}

static void memory_nearly_full(struct lint_facts *f, bool near)
{
    f->train_bytes = f->memory_bytes / 100 * (near ? 89 : 95);
}

static void spot_without_checkpoints(struct lint_facts *f, bool near)
{
    (void)f;
    settings.run.market = near ? STR("on-demand") : STR("spot");
}

static void spot_checkpoints_on_it(struct lint_facts *f, bool near)
{
    settings.run.market     = STR("spot");
    settings.checkpoint.dir = STR("kept");
    f->disk_remote          = near;
}

static void interval_beyond_machine(struct lint_facts *f, bool near)
{
    settings.checkpoint.dir = STR("kept");
    f->mtti_s               = 3600;
    f->save_every_s         = near ? 350 : 600;
}

static mistake *const mistakes[LINT_COUNT] = {
#define RULE(name, about) name,
#include "train/lint.def"
};

TEST(a_sound_run_has_no_finding)
{
    struct lint_facts f = sound();
    struct finding    found[LINT_COUNT];
    CHECK_EQ(lint(&f, found, perm), 0);
}

TEST(every_rule_fires_alone_and_not_beside_its_mark)
{
    for (i32 i = 0; i < LINT_COUNT; i++) {
        struct finding    found[LINT_COUNT];
        struct lint_facts f = sound();
        mistakes[i](&f, false);
        i64 count = lint(&f, found, perm);
        if (count != 1 || found[0].rule != i)
            harness_fail(__FILE__, __LINE__, "%s: %lld findings, the first %s", lint_rules[i].name,
                         (long long)count, count ? lint_rules[found[0].rule].name : "none");
        f = sound();
        mistakes[i](&f, true);
        if (lint(&f, found, perm))
            harness_fail(__FILE__, __LINE__, "%s fires where nothing is wrong: %.*s",
                         lint_rules[i].name, STR_ARG(found[0].text));
    }
}

/* One or two sentences on one line, with a setting that helps (of the loader there is none). */
TEST(every_finding_names_a_remedy)
{
    for (i32 i = 0; i < LINT_COUNT; i++) {
        struct finding    found[LINT_COUNT];
        struct lint_facts f = sound();
        mistakes[i](&f, false);
        CHECK_EQ(lint(&f, found, perm), 1);
        const char *text = str_z(perm, found[0].text);
        CHECK(strlen(text) < 240 && !strchr(text, '\n'));
        CHECK(strstr(text, "train.") || strstr(text, "data.kind") || strstr(text, "model.") ||
              strstr(text, "faster disk") || strstr(text, "checkpoint."));
    }
}

TEST(what_is_allowed_is_not_told)
{
    struct lint_facts f = sound();
    struct finding    found[LINT_COUNT];
    struct err        err = { 0 };
    lr_unusual(&f, false);
    settings.train.allow[0]    = STR("lr_unusual");
    settings.train.allow_count = 1;
    CHECK_EQ(lint(&f, found, perm), 0);
    CHECK_EQ(lint_check_allowed(&settings.train, &err), STATUS_OK);
    settings.train.allow[0] = STR("lr_unusal");
    CHECK_EQ(lint_check_allowed(&settings.train, &err), STATUS_USAGE);
}

TEST(low_rates_and_those_of_sgd_and_muon_have_their_own_marks)
{
    struct lint_facts f = sound();
    struct finding    found[LINT_COUNT];
    f.lr = 9e-7;
    CHECK_EQ(lint(&f, found, perm), 1);
    f.lr = 1e9;
    CHECK_EQ(lint(&f, found, perm), 1);
    CHECK(strstr(found[0].text.data, "train.lr=1e+09 is far above the usual range of "));
    f.optimiser = STR("sgd");
    f.lr        = 5;
    CHECK_EQ(lint(&f, found, perm), 0);
    f.lr = 11;
    CHECK_EQ(lint(&f, found, perm), 1);
    f.lr                   = 1e-3;
    f.optimiser            = STR("muon");
    settings.train.muon_lr = 0.02;
    CHECK_EQ(lint(&f, found, perm), 0);
    settings.train.muon_lr = 2;
    CHECK_EQ(lint(&f, found, perm), 1);
}
