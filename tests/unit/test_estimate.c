/* test_estimate.c - steps on machines we know: measured ones, and laws that hold on any. */
#include "base/rng.h"
#include "harness.h"
#include "model/model.h"
#include "plan/estimate.h"

static struct step_work work_of(struct arena *perm, struct arena scratch, struct model_config m,
                                i64 context, i64 vocabulary, i64 batch)
{
    struct feeds feeds = { .feed  = { { STR("x"), type_of(DT_I32, shape_1(context)), vocabulary },
                                      { STR("y"), type_of(DT_I32, shape_1(context)), vocabulary } },
                           .count = 2 };
    struct compile_config c = {
        .optimiser = OPTIMISER_ADAMW, .clip = 1, .precision = DT_BF16, .fuse = FUSE_ALL, .batch = 1
    };
    struct target    bare = target_of_gpus();
    struct model    *model;
    struct step_work w;
    struct err       err;
    CHECK_EQ(model_new(perm, &m, &feeds, &model, &err), STATUS_OK);
    enum status st =
        step_work_of(perm, &bare, &c, model_build, model, batch / 2, batch, &w, scratch, &err);
    CHECK_EQ(st, STATUS_OK);
    return w;
}

static struct model_config gpt2(i64 depth, i64 width, i64 heads)
{
    return (struct model_config){ .kind       = STR("gpt"),
                                  .depth      = depth,
                                  .width      = width,
                                  .heads      = heads,
                                  .norm       = STR("layer"),
                                  .positions  = STR("learned"),
                                  .activation = STR("gelu"),
                                  .tied       = true,
                                  .bias       = true,
                                  .dtype      = DT_F32 };
}

static struct device h200(struct arena *perm)
{
    struct catalogue *c = catalogue_new(perm);
    struct machine    m = { .provider = STR("test"), .name = STR("h200"), .gpu = STR("H200-141") };
    struct device     d;
    struct err        err;
    m.gpus               = 1;
    m.net_gbit_s         = 100;
    struct machine *kept = NEW(perm, struct machine, 1);
    *kept                = m;
    CHECK_EQ(device_of_machine(c, kept, perm, &d, &err), STATUS_OK);
    return d;
}

static struct estimate on_h200(struct arena *perm, struct arena scratch, i64 depth, i64 width,
                               i64 heads, i64 batch, f64 *bytes)
{
    struct step_work  w     = work_of(perm, scratch, gpt2(depth, width, heads), 1024, 50304, batch);
    struct device     d     = h200(perm);
    struct step_shape shape = { .micro = batch, .accumulate = 1, .gpus = 1, .gradient_part = 1 };
    shape.model_flops       = work_cost(&w.train, 1).flops;
    *bytes                  = step_work_bytes(&w, (f64)batch);
    return estimate_step(&d, &w, DT_BF16, &shape);
}

/* bench/results/gpu-kernels-2026-11-15.txt, whose profiles the rates come from: 10 % is what the plan promises
 * (`bench/run h200` predicts each size from the other's profile alone). Memory is to the byte but for kernels'
 * workspaces. */
TEST(gpt2_on_an_h200_as_it_was_measured)
{
    f64             bytes;
    struct estimate small = on_h200(perm, scratch, 12, 768, 12, 64, &bytes);
    CHECK_NEAR(64 * 1024 / small.step_s, 582075, 0.1 * 582075);
    CHECK_NEAR(bytes, 22.3 * 0x1p30, 0.01 * 22.3 * 0x1p30);
    struct estimate large = on_h200(perm, scratch, 48, 1600, 25, 16, &bytes);
    CHECK_NEAR(16 * 1024 / large.step_s, 51797, 0.1 * 51797);
    CHECK_NEAR(bytes, 65.4 * 0x1p30, 0.01 * 65.4 * 0x1p30);
}

static struct device eight(struct arena *perm)
{
    struct device d = h200(perm);
    d.units = d.network.gpus = 8;
    return d;
}

static struct step_work small_gpt(struct arena *perm, struct arena scratch)
{
    return work_of(perm, scratch, gpt2(2, 256, 4), 128, 512, 16);
}

/* Lines drawn at 8 and 16 samples must pass through what a compilation for any other batch says. */
TEST(two_compilations_tell_every_batch)
{
    struct rng_key   key = { .seed = test_seed() };
    struct step_work w   = small_gpt(perm, scratch);
    for (u64 i = 0; i < 5; i++) {
        i64 n =
            4 + (i64)(200 * rng_uniform(key, i)); /* of fewer, tables have more rows than samples */
        struct feeds          feeds = { .feed  = { { STR("x"), type_of(DT_I32, shape_1(128)), 512 },
                                                   { STR("y"), type_of(DT_I32, shape_1(128)), 512 } },
                                        .count = 2 };
        struct target         bare  = target_of_gpus();
        struct compile_config c     = { .optimiser = OPTIMISER_ADAMW,
                                        .clip      = 1,
                                        .precision = DT_BF16,
                                        .fuse      = FUSE_ALL,
                                        .batch     = n };
        struct model_config   m     = gpt2(2, 256, 4);
        struct model         *model;
        struct program_set   *set;
        struct err            err;
        CHECK_EQ(model_new(perm, &m, &feeds, &model, &err), STATUS_OK);
        CHECK_EQ(compile(perm, &bare, &c, model_build, model, &set, scratch, &err), STATUS_OK);
        struct cost exact = program_cost(set->programs[PROGRAM_TRAIN], scratch);
        struct cost line  = work_cost(&w.train, (f64)n);
        CHECK_NEAR(line.flops, exact.flops, 1e-9 * exact.flops);
        CHECK_NEAR(line.bytes, exact.bytes, 1e-9 * exact.bytes);
        /* Packing bends the line of memory, at few samples most. */
        CHECK_NEAR(step_work_bytes(&w, (f64)n), (f64)set->arena_bytes,
                   0.05 * (f64)set->arena_bytes);
    }
}

TEST(the_parts_of_a_step_are_its_sum)
{
    struct step_work  w     = small_gpt(perm, scratch);
    struct device     d     = eight(perm);
    struct step_shape shape = { .micro = 8, .accumulate = 3, .gpus = 8, .gradient_part = 1 };
    struct op_time    ops[OP_COUNT];
    struct estimate   e   = estimate_step(&d, &w, DT_BF16, &shape);
    f64               sum = 0, alone = e.forward_s + e.backward_s + e.update_s;
    i64               n = estimate_ops(&d, &w, &shape, 1, ops);
    for (i64 i = 0; i < n; i++) sum += ops[i].seconds;
    CHECK_NEAR(sum, alone, 1e-9 * sum);
    CHECK_NEAR(e.begin_s + e.flops_s + e.bytes_s, alone, 1e-9 * sum);
    CHECK_NEAR(e.step_s, alone + e.exposed_s + e.load_s, 1e-9 * sum);
}

/* More GPUs only ever lose; sending half the bytes only ever helps; accumulating hides more. */
TEST(what_gpus_lose_by_talking)
{
    struct step_work  w    = small_gpt(perm, scratch);
    struct device     d    = eight(perm);
    struct step_shape one  = { .micro = 4, .accumulate = 1, .gpus = 1, .gradient_part = 1 };
    struct step_shape two  = one, half, more;
    two.gpus               = 8;
    half                   = two;
    half.gradient_part     = 0.5;
    more                   = two;
    more.accumulate        = 8;
    d.network.link_bytes_s = 1e9; /* slow enough to be seen */
    struct estimate a      = estimate_step(&d, &w, DT_BF16, &one),
                    b      = estimate_step(&d, &w, DT_BF16, &two);
    CHECK_EQ(a.efficiency, 1);
    CHECK(b.efficiency < 1);
    CHECK(b.step_s > a.step_s);
    CHECK(estimate_step(&d, &w, DT_BF16, &half).step_s < b.step_s);
    CHECK(estimate_step(&d, &w, DT_BF16, &more).efficiency > b.efficiency);
    CHECK_STR(estimate_bound(&b), "communication");
}

TEST(slow_loading_is_waited_for)
{
    struct step_work  w     = small_gpt(perm, scratch);
    struct device     d     = h200(perm);
    struct step_shape shape = { .micro = 8, .accumulate = 1, .gpus = 1, .gradient_part = 1 };
    f64               quick = estimate_step(&d, &w, DT_BF16, &shape).step_s;
    shape.load_sample_s     = 1;
    struct estimate slow    = estimate_step(&d, &w, DT_BF16, &shape);
    CHECK_NEAR(slow.step_s, 8, 1e-9); /* of one core */
    CHECK(quick < 1);
    CHECK_STR(estimate_bound(&slow), "data loading");
}
