/* test_search.c - laws that hold for every plan: prices, memory, deadlines, sums, and its speed. */
#include "base/rng.h"
#include "harness.h"
#include "model/model.h"
#include "plan/search.h"

struct setting {
    struct plan_workload job;
    struct plan_variants v;
    struct catalogue    *catalogue;
    struct device       *devices;
    i64                  count;
    struct plan_limits   limits;
};

/* GPT-2 of some size on the whole catalogue. */
static struct setting *setting(struct arena *perm, struct arena scratch, i64 depth, i64 width)
{
    struct setting     *s     = NEW(perm, struct setting, 1);
    struct feeds        feeds = { .feed  = { { STR("x"), type_of(DT_I32, shape_1(1024)), 50304 },
                                             { STR("y"), type_of(DT_I32, shape_1(1024)), 50304 } },
                                  .count = 2 };
    struct model_config m     = { .kind       = STR("gpt"),
                                  .depth      = depth,
                                  .width      = width,
                                  .heads      = width / 64,
                                  .norm       = STR("layer"),
                                  .positions  = STR("learned"),
                                  .activation = STR("gelu"),
                                  .tied       = true,
                                  .bias       = true,
                                  .dtype      = DT_F32 };
    struct model       *model;
    struct err          err;
    CHECK_EQ(model_new(perm, &m, &feeds, &model, &err), STATUS_OK);
    s->job       = (struct plan_workload){ .build       = model_build,
                                           .context     = model,
                                           .batch_total = 512,
                                           .steps       = 10000,
                                           .tokens      = 1024,
                                           .config = { .optimiser = OPTIMISER_ADAMW, .fuse = FUSE_ALL } };
    s->limits    = (struct plan_limits){ .deadline_s = NAN, .budget_usd = NAN, .runs = 1 };
    s->catalogue = catalogue_new(perm);
    s->devices   = NEW(perm, struct device, s->catalogue->machine_count);
    for (i64 i = 0; i < s->catalogue->machine_count; i++)
        s->count += !device_of_machine(s->catalogue, &s->catalogue->machines[i], perm,
                                       &s->devices[s->count], &err);
    CHECK_EQ(plan_compile(perm, &s->job, &s->v, scratch, &err), STATUS_OK);
    return s;
}

static struct plan_result *search(struct setting *s, struct arena *perm, struct arena scratch)
{
    struct plan_result *r = NEW(perm, struct plan_result, 1);
    plan_search(&s->job, &s->v, s->devices, s->count, s->catalogue, &s->limits, r, scratch);
    return r;
}

TEST(the_parts_of_a_bill_are_its_sum)
{
    struct setting     *s = setting(perm, scratch, 12, 768);
    struct plan_result *r = search(s, perm, scratch);
    CHECK(r->count > 10);
    for (i64 i = 0; i < r->count; i++) {
        struct plan_bill b = r->rows[i].bill;
        CHECK_EQ(b.total, b.useful + b.lost + b.starting + b.storage + b.requests);
        CHECK(b.useful > 0 && b.lost >= 0 && b.starting >= 0 && b.storage >= 0 && b.requests >= 0);
        CHECK(i == 0 || r->rows[i - 1].bill.total <= b.total);
        CHECK(r->rows[i].micro * r->rows[i].accumulate * r->rows[i].gpus == s->job.batch_total);
        CHECK(r->rows[i].memory_bytes <= (f64)r->rows[i].device->target.memory_bytes);
        CHECK(r->rows[i].outcome.up_s >= r->rows[i].work_s);
    }
}

/* Any prices of any machines, raised by any factor. */
TEST(dearer_prices_never_make_a_plan_cheaper)
{
    struct rng_key  key    = { .seed = test_seed() };
    struct setting *s      = setting(perm, scratch, 12, 768);
    f64             before = search(s, perm, scratch)->rows[0].bill.total;
    for (u64 trial = 0; trial < 6; trial++) {
        key.step = trial;
        for (i64 i = 0; i < s->count; i++) {
            for (i32 p = 0; p < PRICE_COUNT; p++) {
                u64 at = (u64)(i * PRICE_COUNT + p);
                if (rng_uniform(key, 2 * at) < 0.3)
                    s->devices[i].usd_h[p] *= 1 + rng_uniform(key, 2 * at + 1);
            }
        }
        f64 now = search(s, perm, scratch)->rows[0].bill.total;
        CHECK(now >= before * (1 - 1e-12));
        before = now;
    }
}

/* A save every few minutes, in parts of some megabytes: that is money. */
TEST(requests_cost_what_the_store_asks_for)
{
    struct setting *s      = setting(perm, scratch, 12, 768);
    f64             before = 0, after = 0;
    for (i64 trial = 0; trial < 2; trial++) {
        struct plan_result *r = search(s, perm, scratch);
        for (i64 i = 0; i < r->count; i++)
            if (str_eq(r->rows[i].device->row->provider, STR("aws")))
                *(trial ? &after : &before) += r->rows[i].bill.requests;
        for (i64 i = 0; i < s->catalogue->storage_count; i++)
            s->catalogue->storage[i].put_1000_usd *= 2;
    }
    CHECK(before > 0);
    CHECK(after > before);
}

TEST(more_memory_never_makes_a_plan_impossible_or_dearer)
{
    struct rng_key  key = { .seed = test_seed() };
    struct setting *s   = setting(perm, scratch, 24, 1024);
    for (i64 i = 0; i < s->count; i++)
        s->devices[i].target.memory_bytes =
            (i64)((f64)s->devices[i].target.memory_bytes * (0.1 + 0.4 * rng_uniform(key, (u64)i)));
    struct plan_result *before = search(s, perm, scratch);
    for (u64 trial = 1; trial < 6; trial++) {
        key.step = trial;
        for (i64 i = 0; i < s->count; i++)
            s->devices[i].target.memory_bytes =
                (i64)((f64)s->devices[i].target.memory_bytes * (1 + rng_uniform(key, (u64)i)));
        struct plan_result *now = search(s, perm, scratch);
        CHECK(now->too_large <= before->too_large);
        if (before->count) {
            CHECK(now->count > 0);
            CHECK(now->rows[0].bill.total <= before->rows[0].bill.total * (1 + 1e-12));
        }
        before = now;
    }
}

TEST(limits_are_kept)
{
    struct setting *s     = setting(perm, scratch, 12, 768);
    f64             free  = search(s, perm, scratch)->rows[0].bill.total;
    s->limits.deadline_s  = 3600;
    struct plan_result *r = search(s, perm, scratch);
    CHECK(r->count > 0 && r->too_late > 0);
    CHECK(r->rows[0].bill.total >= free);
    for (i64 i = 0; i < r->count; i++) {
        CHECK(r->rows[i].hours <= 1);
        CHECK(r->rows[i].in_time >= 0 && r->rows[i].in_time <= 1);
    }
    s->limits = (struct plan_limits){ .deadline_s = NAN, .budget_usd = free * 1.5, .runs = 1 };
    r         = search(s, perm, scratch);
    CHECK(r->count > 0 && r->too_dear > 0);
    CHECK(r->rows[r->count - 1].bill.total <= free * 1.5);
    s->limits.budget_usd = free / 100;
    CHECK_EQ(search(s, perm, scratch)->count, 0);
}

/* Where a limit leaves nothing: the cheapest, the quickest or the smallest, and which of them it is. */
TEST(the_nearest_of_what_was_dropped_is_remembered)
{
    struct setting     *s    = setting(perm, scratch, 12, 768);
    struct plan_result *all  = search(s, perm, scratch);
    s->limits.budget_usd     = all->rows[0].bill.total / 2;
    struct plan_result *none = search(s, perm, scratch);
    CHECK_EQ(none->count, 0);
    CHECK_EQ(none->nearest_short, SHORT_MONEY);
    CHECK_EQ(none->nearest.bill.total, all->rows[0].bill.total);
    s->limits.budget_usd = NAN;
    s->limits.deadline_s = 1;
    none                 = search(s, perm, scratch);
    CHECK_EQ(none->nearest_short, SHORT_TIME);
    for (i64 i = 0; i < all->count; i++) CHECK(none->nearest.hours <= all->rows[i].hours);
    s->limits.deadline_s = NAN;
    for (i64 i = 0; i < s->count; i++) s->devices[i].target.memory_bytes = 1 << 20;
    none = search(s, perm, scratch);
    CHECK_EQ(none->nearest_short, SHORT_MEMORY);
    CHECK(none->nearest.memory_bytes > 1 << 20);
}

TEST(what_takes_years_is_a_plan_and_what_was_given_is_kept)
{
    struct setting *s     = setting(perm, scratch, 12, 768);
    s->job.steps          = 100000000;
    s->count              = 8; /* an expectation over years takes its time */
    s->limits.given       = (struct plan_given){ .markets       = 1u << PRICE_ON_DEMAND,
                                                 .gpus          = 1,
                                                 .micro         = 4,
                                                 .has_precision = true,
                                                 .precision     = DT_F32 };
    struct plan_result *r = search(s, perm, scratch);
    CHECK(r->count > 0 && r->rows[0].hours > 365 * 24);
    for (i64 i = 0; i < r->count; i++) {
        const struct plan_row *row = &r->rows[i];
        CHECK(row->price == PRICE_ON_DEMAND && row->gpus == 1 && row->micro == 4);
        CHECK_EQ(row->precision, DT_F32);
        f64 machines = bill_estimate_usd(row->device->usd_h[row->price], 3600 * row->billed_h) *
                       (f64)row->machines;
        f64 rest = row->bill.storage + row->bill.requests;
        CHECK_NEAR(row->bill.total, machines + rest, 1e-9 * row->bill.total);
    }
}

/* 128 spot machines that live three hours each lose one every 84 s, before they have started. */
TEST(what_would_never_finish_is_no_plan)
{
    struct setting *s       = setting(perm, scratch, 12, 768);
    s->job.steps            = 1000000;
    s->limits.given.markets = 1u << PRICE_SPOT;
    s->limits.given.gpus    = 512;
    struct plan_result *r   = search(s, perm, scratch);
    CHECK(r->never > 0);
    for (i64 i = 0; i < r->count; i++)
        CHECK(isfinite(r->rows[i].bill.total) && r->rows[i].hours < 1e6);
}

/* Of experts a token uses few: the others take memory, updates and checkpoints, and no FLOPs of a sample. */
TEST(unused_parameters_take_memory_and_no_flops)
{
    struct setting      *s   = setting(perm, scratch, 2, 256);
    struct plan_workload job = s->job;
    struct plan_variants v;
    struct err           err;
    job.parameters     = 3 * s->v.parameters;
    job.attention_part = 1;
    CHECK_EQ(plan_compile(perm, &job, &v, scratch, &err), STATUS_OK);
    CHECK_EQ(v.parameters, job.parameters);
    CHECK_NEAR(v.model_flops, s->v.model_flops, 1e-9 * v.model_flops);
    for (i64 i = 0; i < PLAN_VARIANTS; i++) {
        const struct step_work *one = &s->v.of[PLAN_GPU][i].work, *all = &v.of[PLAN_GPU][i].work;
        f64                     more = 2 * s->v.parameters; /* AdamW: 4 arrays of 4 bytes */
        CHECK(all->memory_fixed - one->memory_fixed >= 16 * more);
        CHECK_NEAR(all->saved_bytes, 3 * one->saved_bytes, 1);
        CHECK_EQ(all->memory_sample, one->memory_sample);
        CHECK_NEAR(work_cost(&all->update, 0).bytes, 3 * work_cost(&one->update, 0).bytes,
                   1e-9 * work_cost(&all->update, 0).bytes);
    }
}

/* Eight runs: side by side on one GPU each loses nothing by talking. */
TEST(several_runs_share_a_machine)
{
    struct setting *s = setting(perm, scratch, 12, 768);
    i64             n = 0;
    for (i64 i = 0; i < s->count; i++) {
        if (str_eq(s->devices[i].name, STR("lambda gpu_8x_a100_80gb_sxm4")))
            s->devices[n++] = s->devices[i];
    }
    CHECK_EQ(n, 1);
    s->count              = 1;
    f64 one               = search(s, perm, scratch)->rows[0].bill.total;
    s->limits.runs        = 8;
    struct plan_result *r = search(s, perm, scratch);
    CHECK(r->rows[0].side_by_side > 1);
    CHECK(r->rows[0].bill.total < 8 * one);
}

/* Machines that were seen to live longer cost less to use. */
TEST(longer_lives_make_spot_cheaper)
{
    struct setting *s = setting(perm, scratch, 12, 768);
    i64             n = 0;
    for (i64 i = 0; i < s->count; i++) {
        if (str_eq(s->devices[i].name, STR("verda A100-80"))) s->devices[n++] = s->devices[i];
    }
    CHECK_EQ(n, 1);
    s->count              = 1;
    f64 before            = search(s, perm, scratch)->rows[0].bill.total;
    s->limits.spot        = hazard_of_mean(100 * 3600.0, 0.7);
    struct plan_result *r = search(s, perm, scratch);
    CHECK_EQ(r->rows[0].price, PRICE_SPOT);
    CHECK(r->rows[0].bill.total < before);
    s->devices[0].spot =
        hazard_of_mean(0.3 * 3600, 0.7); /* what is known of this kind outweighs it */
    CHECK(search(s, perm, scratch)->rows[0].bill.total > before);
}

/* The line through two shallow models is the deep one. */
TEST(depth_is_a_straight_line)
{
    struct setting      *s = setting(perm, scratch, 12, 768), *a = setting(perm, scratch, 2, 768);
    struct setting      *b = setting(perm, scratch, 4, 768);
    struct plan_variants v;
    struct err           err;
    a->job.deeper   = b->job.context;
    a->job.depth[0] = 2;
    a->job.depth[1] = 4;
    a->job.depth[2] = 12;
    CHECK_EQ(plan_compile(perm, &a->job, &v, scratch, &err), STATUS_OK);
    for (i64 i = 0; i < PLAN_VARIANTS; i++) {
        const struct step_work *x = &s->v.of[PLAN_GPU][i].work, *y = &v.of[PLAN_GPU][i].work;
        CHECK_NEAR(y->parameters, x->parameters, 1);
        CHECK_NEAR(work_cost(&y->train, 8).flops, work_cost(&x->train, 8).flops,
                   1e-9 * work_cost(&x->train, 8).flops);
        CHECK_NEAR(step_work_bytes(y, 8), step_work_bytes(x, 8), 0.02 * step_work_bytes(x, 8));
    }
}

/* 124M parameters on every machine, within a second (`bench/run plan`): what it takes is bounded by what is
 * done, whatever the clock says. Ten machines or sixty, every form is compiled for two batches, and
 * what is priced once for each size of it. */
TEST(the_whole_catalogue_takes_few_compilations)
{
    struct setting *s = setting(perm, scratch, 12, 768);
    CHECK_EQ(s->v.compiles, 2 * PLAN_KINDS * PLAN_VARIANTS);
    struct plan_result *r = search(s, perm, scratch);
    CHECK(r->considered > 500);
    CHECK(r->exact.compiles > 0 && r->exact.compiles == r->exact.count);
    CHECK(r->exact.compiles <= 24);
    i64 alone = 0;
    for (i64 i = 0; i < r->count; i++) alone += r->rows[i].exact;
    CHECK(alone > r->exact.compiles / 2); /* several rows share one */
}

/* 24 blocks of 2,048 do not fit on a V100's 16 GB as a whole. Over two machines of eight a copy in each sends less over
 * their network than parts on all sixteen; what was given is obeyed. */
TEST(the_best_sharding_is_chosen_or_the_one_that_was_given)
{
    struct setting *s   = setting(perm, scratch, 24, 2048);
    struct device  *old = NULL;
    for (i64 i = 0; i < s->count; i++)
        if (str_eq(s->devices[i].row->name, STR("p4d.24xlarge"))) old = &s->devices[i];
    CHECK(old && old->units == 8);
    s->devices[0]                     = *old;
    s->count                          = 1;
    s->limits.given.gpus              = 16;
    s->devices[0].target.memory_bytes = (i64)14e9;
    s->devices[0].network.net_bytes_s = 5e9;
    struct plan_result *r             = search(s, perm, scratch);
    CHECK(r->count > 0);
    CHECK_EQ(r->rows[0].sharding.kind, SHARD_ALL);
    CHECK(r->rows[0].sharding.copies);
    f64 copies_s = r->rows[0].step.step_s;
    for (i64 i = 0; i < SHARDINGS; i++) {
        s->devices[0].target.memory_bytes = (i64)1e12;
        s->limits.given.has_shard = s->limits.given.has_copies = true;
        s->limits.given.sharding                               = shardings[i];
        r                                                      = search(s, perm, scratch);
        CHECK(r->count > 0);
        CHECK_EQ(r->rows[0].sharding.kind, shardings[i].kind);
        CHECK_EQ(r->rows[0].sharding.copies, shardings[i].copies);
        if (shardings[i].kind == SHARD_ALL && !shardings[i].copies)
            CHECK(r->rows[0].step.comm_s > 0 && copies_s > 0);
    }
}

/* Rows that frugal can run show memory as compile lays it out. */
TEST(memory_is_that_of_the_compiled_program)
{
    struct setting     *s    = setting(perm, scratch, 4, 256);
    struct plan_result *r    = search(s, perm, scratch);
    i64                 seen = 0, several = 0;
    for (i64 i = 0; i < r->count; i++) {
        const struct plan_row *row = &r->rows[i];
        struct compile_config  c   = s->job.config;
        struct program_set    *set;
        struct target          t = row->device->target;
        struct err             err;
        if (!row->exact) continue;
        if (row->gpus > 1) {
            struct ranks_at at = ranks_on(row->device, row->gpus);
            c.ranks            = (i32)row->gpus;
            c.shard            = row->sharding.kind;
            c.places       = c.shard ? (i32)sharding_places(&row->sharding, at) : (i32)row->gpus;
            c.step_samples = s->job.batch_total;
            t.queues       = t.gpus ? 2 : 1;
            several++;
        }
        t.memory_bytes = 0;
        c.recompute    = row->variant->recompute;
        c.precision    = row->precision;
        c.batch        = row->micro;
        c.accumulate   = row->accumulate;
        CHECK_EQ(compile(perm, &t, &c, s->job.build, s->job.context, &set, scratch, &err),
                 STATUS_OK);
        CHECK_EQ(row->memory_bytes, (f64)set->arena_bytes);
        seen++;
    }
    CHECK(seen > several + 3 && several > 3);
}

/* Where the line promised too much a smaller micro-batch is taken, but never another than was given. */
TEST(a_micro_batch_that_was_given_stays)
{
    struct setting *s    = setting(perm, scratch, 4, 256);
    i64             bent = 0;
    for (i64 i = 0; i < s->count; i++)
        if (str_eq(s->devices[i].row->name, STR("p4d.24xlarge"))) s->devices[0] = s->devices[i];
    i64 all                       = s->devices[0].target.memory_bytes;
    s->count                      = 1;
    s->limits.given.gpus          = 8;
    s->limits.given.micro         = 1;
    s->limits.given.has_shard     = true;
    s->limits.given.sharding.kind = SHARD_ALL;
    for (; s->limits.given.micro <= 64; s->limits.given.micro *= 2) {
        s->devices[0].target.memory_bytes = all;
        struct plan_result    *r          = search(s, perm, scratch);
        const struct plan_row *row        = &r->rows[0];
        CHECK(r->count && row->exact);
        f64 line = sharding_bytes(&row->sharding, ranks_on(row->device, 8), &s->job, row->variant,
                                  (f64)row->micro);
        s->devices[0].target.memory_bytes = (i64)row->memory_bytes - 1;
        bent += line < row->memory_bytes;
        r = search(s, perm, scratch);
        for (i64 j = 0; j < r->count; j++) CHECK_EQ(r->rows[j].micro, s->limits.given.micro);
    }
    CHECK(bent > 0);
}
