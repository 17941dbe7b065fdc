/* test_sharding.c - who holds what of a model's state, and what that sends: figures by hand. */
#include "harness.h"
#include "plan/sharding.h"

/* Eight GPUs on links of 100 GB/s and 10 us, machines on a network of 10 GB/s and 20 us. */
static struct device device_of_eight(void)
{
    struct device d = { .units = 8, .cores = 1 };
    d.target.gpus   = 1;
    d.network       = (struct network){ .gpus           = 8,
                                        .link_bytes_s   = 100e9,
                                        .link_latency_s = 10e-6,
                                        .net_bytes_s    = 10e9,
                                        .net_latency_s  = 20e-6 };
    return d;
}

/* 1 G parameters with Adam: 4 bytes each of weights and gradients, 8 of state; beside them 2 GB of weights in two
 * bytes. A sample takes 1 GB. */
static struct plan_variant variant_of_adam(void)
{
    struct plan_variant v  = { .low = true };
    v.work.parameters      = 1e9;
    v.work.gradient_bytes  = 4e9;
    v.work.optimiser_bytes = 8e9;
    v.work.state_bytes     = 16e9;
    v.work.saved_bytes     = 12e9;
    v.work.tensors         = 100;
    v.work.memory_fixed    = 18e9;
    v.work.memory_sample   = 1e9;
    return v;
}

static const struct sharding none = { SHARD_NONE, false }, state = { SHARD_STATE, false },
                             state_machine = { SHARD_STATE, true }, all = { SHARD_ALL, false },
                             all_machine = { SHARD_ALL, true };

static const struct plan_workload job; /* frugal's own program: no blocks are counted */

TEST(copies_need_several_machines_with_several_ranks_each)
{
    struct device d = device_of_eight();
    CHECK(!sharding_can(&state, ranks_on(&d, 1)));
    CHECK(sharding_can(&none, ranks_on(&d, 1)));
    CHECK(sharding_can(&all, ranks_on(&d, 8)));
    CHECK(!sharding_can(&all_machine, ranks_on(&d, 8)));
    CHECK(sharding_can(&all_machine, ranks_on(&d, 16)));
    CHECK(!sharding_can(&all_machine, ranks_on(&d, 17))); /* of three machines */
    CHECK_EQ(sharding_places(&all_machine, ranks_on(&d, 32)), 8);
    CHECK_EQ(sharding_places(&all, ranks_on(&d, 32)), 32);
    CHECK_EQ(sharding_places(&none, ranks_on(&d, 32)), 1);
    d.units = 1;
    CHECK(!sharding_can(&state_machine, ranks_on(&d, 4))); /* a rank on each: nothing is shared */
}

/* 16 ranks on two machines, 4 samples at once. Gathered weights of `all`: 2 GB / 16 beside the parts, and as much for
 * what else lives for a block at a time. */
TEST(memory_of_a_rank)
{
    struct device       d  = device_of_eight();
    struct plan_variant v  = variant_of_adam();
    struct ranks_at     at = ranks_on(&d, 16);
    CHECK_NEAR(sharding_bytes(&none, at, &job, &v, 4), 22e9, 1);
    CHECK_NEAR(sharding_bytes(&state, at, &job, &v, 4), 22e9 - 8e9 * 15 / 16, 1);
    CHECK_NEAR(sharding_bytes(&state_machine, at, &job, &v, 4), 15e9, 1);
    CHECK_NEAR(sharding_bytes(&all, at, &job, &v, 4), 4e9 + 1e9 + 0.25e9, 1);
    CHECK_NEAR(sharding_bytes(&all_machine, at, &job, &v, 4), 4e9 + 2e9 + 0.25e9, 1);
    v.work.state_bytes += 3e9; /* of frozen weights, which stay whole */
    v.work.memory_fixed += 3e9;
    CHECK_NEAR(sharding_bytes(&all, at, &job, &v, 4), 4e9 + 3e9 + 1e9 + 0.25e9, 1);
}

TEST(a_rank_saves_its_part)
{
    struct device       d  = device_of_eight();
    struct plan_variant v  = variant_of_adam();
    struct ranks_at     at = ranks_on(&d, 16);
    CHECK_NEAR(sharding_saved_bytes(&none, at, &v.work), 12e9, 1);
    CHECK_NEAR(sharding_saved_bytes(&state, at, &v.work), 4.5e9, 1); /* weights, a 16th of 8 GB */
    CHECK_NEAR(sharding_saved_bytes(&all_machine, at, &v.work), 1.5e9, 1);
}

static struct estimate step_with(const struct sharding *s, const struct device *d, i64 ranks,
                                 i64 accumulate)
{
    struct plan_variant v     = variant_of_adam();
    struct step_shape   shape = { .micro = 4, .accumulate = accumulate, .gpus = ranks };
    struct estimate     e     = { .forward_s = 0.4, .backward_s = 0.8, .update_s = 0.16 };
    e.peak_flops_s            = 1e12;
    e.update                  = (struct rate_time){ 0, 0.01, 0.15 };
    e.flops_s                 = 1 + e.update.flops_s;
    e.bytes_s                 = 0.2 + e.update.bytes_s;
    sharding_apply(s, ranks_on(d, ranks), &job, &v, d, &shape, &e);
    return e;
}

/* A part of 4 GB to or from each of 8: 7 hops and 7/8 of it over a link; between 2 machines 1 hop and a half of it,
 * between copies 2 hops and the whole. */
#define LINK_4 (70e-6 + 0.035)
#define LINK_2 (70e-6 + 0.0175)
#define NET_4 (20e-6 + 0.2)
#define NET_2 (20e-6 + 0.1)
#define COPIES (40e-6 + 0.4)

TEST(what_sharded_state_sends)
{
    struct device   d = device_of_eight();
    struct estimate e = step_with(&state, &d, 8, 1);
    CHECK_NEAR(e.comm_s, 2 * LINK_4, 1e-12);
    CHECK_EQ(e.exposed_s, e.comm_s);
    CHECK_NEAR(e.update_s, 0.02, 1e-12);
    CHECK_NEAR(e.flops_s, 1 + 0.01 / 8, 1e-12);
    CHECK_NEAR(e.bytes_s, 0.2 + 0.15 / 8, 1e-12);
    CHECK_NEAR(e.step_s, 1.2 + 0.02 + 2 * LINK_4, 1e-12);
    CHECK_NEAR(e.efficiency, 1.22 / e.step_s, 1e-12);
    e = step_with(&state, &d, 16, 1);
    CHECK_NEAR(e.comm_s, 2 * (LINK_4 + NET_4), 1e-12);
    CHECK_NEAR(e.update_s, 0.01, 1e-12);
    e = step_with(&state_machine, &d, 16, 3); /* as much over the network, once per step */
    CHECK_NEAR(e.comm_s, 2 * LINK_4 + COPIES, 1e-12);
    CHECK_NEAR(e.update_s, 0.02, 1e-12);
}

/* Two gathers of 2 GB and a scatter of 4 GB for each micro-batch, each of 100 tensors by itself. What computing hides
 * takes its 12 % of the GPU all the same; a 16th of a round is never hidden. */
TEST(what_a_sharded_model_sends)
{
    struct device   d       = device_of_eight();
    f64             machine = 2 * LINK_2 + LINK_4 + 3 * 99 * 70e-6;
    f64             over    = 2 * (LINK_2 + NET_2) + LINK_4 + NET_4 + 3 * 99 * 90e-6;
    struct estimate e       = step_with(&all_machine, &d, 16, 2);
    f64             first   = machine / 16;
    CHECK_NEAR(e.comm_s, 2 * machine + COPIES, 1e-12);
    CHECK_NEAR(e.exposed_s, first + 0.12 * (2 * machine - first) + COPIES, 1e-12);
    e = step_with(&all_machine, &d, 16, 1); /* the copies' sum too is behind the backward pass */
    CHECK_NEAR(e.exposed_s, first + 0.12 * (machine + COPIES - first), 1e-12);
    e     = step_with(&all, &d, 16, 2);
    first = over / 16;
    CHECK_NEAR(e.comm_s, 2 * over, 1e-12);
    CHECK_NEAR(e.exposed_s, first + 0.12 * (2 * over - first), 1e-12);
    e = step_with(&all, &d, 16, 4); /* more than computing hides */
    CHECK_NEAR(e.exposed_s, 4 * over - 1.2 + 0.12 * 1.2, 1e-12);
    d.target.gpus = 0; /* MPI: nothing is hidden */
    e             = step_with(&all_machine, &d, 16, 2);
    CHECK_EQ(e.exposed_s, e.comm_s);
}
