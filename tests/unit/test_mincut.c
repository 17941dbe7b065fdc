/* The smallest cut against every cut there is. */
#include "base/rng.h"
#include "compile/mincut.h"
#include "harness.h"

enum { OWN = 8, VERTICES = MINCUT_FIRST + OWN, EDGES = 24 };

struct arc {
    i32 from, to;
    i64 capacity;
};

static i64 cost_of(const struct arc *arcs, const bool *with)
{
    i64 sum = 0;
    for (i32 i = 0; i < EDGES; i++)
        if (with[arcs[i].from] && !with[arcs[i].to]) sum += arcs[i].capacity;
    return sum;
}

static i64 least_of_all(const struct arc *arcs)
{
    i64 least = INT64_MAX;
    for (u32 set = 0; set < 1u << OWN; set++) {
        bool with[VERTICES] = { [MINCUT_SOURCE] = true };
        for (i32 i = 0; i < OWN; i++) with[MINCUT_FIRST + i] = set >> i & 1;
        least = MIN(least, cost_of(arcs, with));
    }
    return least;
}

TEST(random_networks_are_cut_as_cheaply_as_any_set_can)
{
    u64 seed = test_seed();
    for (u64 round = 0; round < 300; round++) {
        struct arena   room = scratch;
        struct mincut *m    = mincut_new(&room, VERTICES, EDGES);
        struct arc     arcs[EDGES];
        bool           with[VERTICES];
        for (u64 i = 0; i < EDGES; i++) {
            struct rng_key key = { .seed = seed, .step = round, .sample = i };
            arcs[i]            = (struct arc){ (i32)(rng_u32(key, 0) % VERTICES),
                                               (i32)(rng_u32(key, 1) % VERTICES), rng_u32(key, 2) % 100 };
            mincut_edge(m, arcs[i].from, arcs[i].to, arcs[i].capacity);
        }
        mincut_solve(m, with);
        CHECK(with[MINCUT_SOURCE] && !with[MINCUT_SINK]);
        CHECK_EQ(cost_of(arcs, with), least_of_all(arcs));
    }
}

TEST(an_edge_that_must_not_be_cut_is_not)
{
    struct mincut *m = mincut_new(perm, MINCUT_FIRST + 1, 2);
    bool           with[MINCUT_FIRST + 1];
    mincut_edge(m, MINCUT_SOURCE, MINCUT_FIRST, MINCUT_NEVER);
    mincut_edge(m, MINCUT_FIRST, MINCUT_SINK, 7);
    mincut_solve(m, with);
    CHECK(with[MINCUT_FIRST]);
}
