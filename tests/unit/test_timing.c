/* Kernels tried out: figures that are real, each found once, and rates for the machine. */
#include "backend/backend.h"
#include "harness.h"
#include "ir/build.h"

static struct backend *open_cpu(struct arena *perm, struct target *target)
{
    struct backend *b;
    struct err      err = { 0 };
    CHECK_EQ(backend_cpu_open(perm, 1, BACKEND_FAST, &b, &err), STATUS_OK);
    b->table->describe(b, target);
    return b;
}

static f64 seconds_of(const struct target *t, const struct graph *g, struct arena scratch)
{
    return target_seconds(t, g, &g->nodes[g->node_count - 1], scratch);
}

static struct graph *square_product(struct arena *perm, i64 side)
{
    struct graph *g = graph_new(perm, STR("product"));
    i32           a = graph_value(g, VALUE_INPUT, STR("a"), type_of(DT_F32, shape_2(side, side)));
    build_matmul(g, STR("c"), a, a, -1, false, false);
    return g;
}

/* 216 times the FLOPs; a tenth of that leaves room for small products being less efficient and for
 * whatever else the machine does. */
TEST(a_larger_product_takes_longer_and_is_timed_once)
{
    struct target   t;
    struct backend *b       = open_cpu(perm, &t);
    struct graph   *large   = square_product(perm, 384);
    f64             small_s = seconds_of(&t, square_product(perm, 64), scratch);
    f64             large_s = seconds_of(&t, large, scratch);
    CHECK(small_s > 0 && large_s > 20 * small_s);
    CHECK_EQ(seconds_of(&t, large, scratch), large_s);
    b->table->close(b);
}

/* A kernel that is told of empty sequences does nothing. */
TEST(sequences_are_timed_at_their_full_length)
{
    struct target   t;
    struct backend *b = open_cpu(perm, &t);
    f64             seconds[2];
    for (i32 with = 0; with < 2; with++) {
        struct graph *g = graph_new(perm, STR("attention"));
        i32 qkv  = graph_value(g, VALUE_INPUT, STR("x"), type_of(DT_F32, shape_3(4, 128, 3 * 64)));
        i32 lens = graph_value(g, VALUE_INPUT, STR("n"), type_of(DT_I32, shape_1(4)));
        build_attention(g, STR("a"), qkv, with ? lens : -1, 2, 2,
                        (struct seeing){ .causal = false });
        seconds[with] = seconds_of(&t, g, scratch);
    }
    CHECK(seconds[1] > seconds[0] / 4); /* of an empty one: a hundredth */
    b->table->close(b);
}

TEST(the_machine_has_rates)
{
    struct target   t;
    struct backend *b = open_cpu(perm, &t);
    CHECK_EQ(t.flops_s[DT_F32], 0); /* describing alone measures nothing */
    b->table->rate(b, &t);
    CHECK(t.flops_s[DT_F32] > 1e8 && t.flops_s[DT_F32] < 1e13);
    CHECK(t.bandwidth_bytes_s > 1e8 && t.bandwidth_bytes_s < 1e12);
    b->table->close(b);
}

/* Without a backend that can measure, the slower of arithmetic and memory counts. */
TEST(unmeasured_machines_go_by_their_rates)
{
    struct target t   = { .bandwidth_bytes_s = 1e9 };
    struct graph *g   = square_product(perm, 100);
    t.flops_s[DT_F32] = 1e9;
    CHECK_NEAR(seconds_of(&t, g, scratch), 2e6 / 1e9, 1e-12);
    t.flops_s[DT_F32] = 1e12;
    CHECK_NEAR(seconds_of(&t, g, scratch), 3 * 4e4 / 1e9, 1e-12);
}
