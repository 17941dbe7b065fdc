/* test_rates.c - lines through measured kernels, their text, and collectives. */
#include "base/rng.h"
#include "harness.h"
#include "plan/network.h"
#include "plan/rates.h"

static const struct target machine = { .flops_s           = { [DT_F32] = 1e12, [DT_BF16] = 4e12 },
                                       .bandwidth_bytes_s = 1e11,
                                       .low               = DT_BF16 };

static f64 seconds(const struct rates *r, i32 op, enum dtype t, struct cost c)
{
    struct rate_time x = rates_time(r, &machine, op, t, c, NULL);
    return x.begin_s + x.flops_s + x.bytes_s;
}

/* Kernels that are lines are found again to rounding. */
TEST(a_line_is_found_again)
{
    enum { SAMPLES = 60 };
    struct rng_key      key = { .seed = test_seed() };
    struct rate_sample  samples[SAMPLES];
    static struct rates r;
    for (u64 i = 0; i < SAMPLES; i++) {
        struct cost c = { 1e9 * rng_uniform(key, 2 * i), 1e7 * rng_uniform(key, 2 * i + 1) };
        f64         s = 3e-6 + c.flops / 0.8e12 + c.bytes / 0.5e11;
        samples[i]    = (struct rate_sample){ OP_MATMUL, DT_F32, c, s };
    }
    rates_fit(&r, &machine, samples, SAMPLES);
    CHECK(r.known[OP_MATMUL][RATE_F32]);
    CHECK_NEAR(r.of[OP_MATMUL][RATE_F32].begin_s, 3e-6, 1e-11);
    CHECK_NEAR(r.of[OP_MATMUL][RATE_F32].flops, 0.8, 1e-6);
    CHECK_NEAR(r.of[OP_MATMUL][RATE_F32].bytes, 0.5, 1e-6);
    CHECK(!r.known[OP_MATMUL][RATE_LOW]);
}

/* No term is ever negative, and one size alone says nothing of what it takes to begin. */
TEST(terms_that_make_no_sense_are_left_out)
{
    static struct rates r;
    struct rate_sample  same[] = { { OP_ADD, DT_F32, { 1e6, 12e6 }, 1e-3 },
                                   { OP_ADD, DT_F32, { 1e6, 12e6 }, 1.2e-3 } };
    struct rate_sample  odd[]  = { { OP_RELU, DT_F32, { 1e6, 8e6 }, 1e-3 },
                                   { OP_RELU, DT_F32, { 1e8, 8e6 }, 0.9e-3 },
                                   { OP_RELU, DT_F32, { 1e6, 16e6 }, 2.1e-3 } };
    rates_fit(&r, &machine, same, COUNT_OF(same));
    CHECK_EQ(r.of[OP_ADD][RATE_F32].begin_s, 0);
    CHECK_NEAR(seconds(&r, OP_ADD, DT_F32, (struct cost){ 1e6, 12e6 }), 1.1e-3, 1e-6);
    rates_fit(&r, &machine, odd, COUNT_OF(odd));
    CHECK(r.of[OP_RELU][RATE_F32].begin_s >= 0);
    CHECK(r.of[OP_RELU][RATE_F32].flops >= 0);
    CHECK(r.of[OP_RELU][RATE_F32].bytes > 0);
}

TEST(what_nobody_measured_is_guessed_and_said_so)
{
    static struct rates none;
    bool                known = true;
    struct rate_time    t =
        rates_time(&none, &machine, OP_MATMUL, DT_F32, (struct cost){ 1e12, 0 }, &known);
    CHECK(!known);
    CHECK_NEAR(t.flops_s, 2, 1e-9); /* half of the peak */
}

TEST(rates_are_kept_as_text)
{
    static struct rates again;
    struct err          err;
    const struct rates *r    = rates_of_cpus();
    struct str          text = rates_print(r, perm);
    CHECK_EQ(rates_parse(&again, STR("rates.csv"), text, &err), STATUS_OK);
    CHECK_STR(rates_print(&again, perm), text);
    CHECK(again.known[OP_CONV2D][RATE_F32]);
}

TEST(what_is_no_row_is_refused_with_its_line)
{
    static struct rates      r;
    struct err               err;
    static const char *const wrong[] = { "",
                                         "op\n",
                                         "op,width,begin_us,flops,bytes\nmatmul,f32,1,2\n",
                                         "op,width,begin_us,flops,bytes\nwhat,f32,1,2,3\n",
                                         "op,width,begin_us,flops,bytes\nmatmul,f8,1,2,3\n",
                                         "op,width,begin_us,flops,bytes\nmatmul,f32,-1,2,3\n",
                                         "op,width,begin_us,flops,bytes\nmatmul,f32,1,2,3,4\n" };
    for (i64 i = 0; i < COUNT_OF(wrong); i++)
        CHECK_EQ(rates_parse(&r, STR("rates.csv"), str_of(wrong[i]), &err), STATUS_USAGE);
    CHECK(strstr(err.text, "rates.csv:2:") != NULL);
}

/* nccl-tests' definition: busbw = 2 (n - 1) / n x bytes / seconds is the link's own rate. */
TEST(a_ring_s_bus_bandwidth_is_the_link_s)
{
    f64 s = ring_s(1e9, 8, 200e9, 0);
    CHECK_NEAR(2.0 * 7 / 8 * 1e9 / s, 200e9, 1);
    CHECK_EQ(ring_s(1e9, 1, 200e9, 1e-5), 0);
    CHECK_NEAR(ring_s(0, 8, 200e9, 1e-5), 14e-5, 1e-12);
    CHECK(tree_s(1e3, 64, 200e9, 1e-5) < ring_s(1e3, 64, 200e9, 1e-5)); /* latency decides */
    CHECK(tree_s(1e10, 64, 200e9, 1e-5) > ring_s(1e10, 64, 200e9, 1e-5));
    CHECK(switch_s(1e9, 8, 200e9, 1e-5) < ring_s(1e9, 8, 200e9, 1e-5));
}

TEST(machines_add_what_is_left_between_them)
{
    struct network n   = { .gpus = 8, .link_bytes_s = 200e9, .net_bytes_s = 50e9 };
    f64            one = network_all_reduce_s(&n, 1e9, 8), two = network_all_reduce_s(&n, 1e9, 16);
    CHECK_NEAR(two, 7.0 / 8 * 1e9 / 200e9 * 2 + 1e9 / 50e9, 1e-12);
    CHECK(one < two);
    CHECK_EQ(network_all_reduce_s(&n, 1e9, 1), 0);
    CHECK(network_gather_s(&n, 1e9, 16) < two);
}
