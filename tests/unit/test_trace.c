#include "base/trace.h"
#include "harness.h"

TEST(the_ring_keeps_the_newest_in_order)
{
    struct trace *t = trace_new(perm, 3);
    CHECK_EQ(trace_count(t), 0);
    for (i64 i = 0; i < 8; i++) {
        trace_add(t, (struct trace_event){ STR("step"), 10 * i, 10 * i + 5, i });
        CHECK_EQ(trace_count(t), MIN(i + 1, 3));
        CHECK_EQ(trace_dropped(t), MAX(i - 2, 0));
        for (i64 k = 0; k < trace_count(t); k++) {
            CHECK_EQ(trace_get(t, k).value, MAX(i - 2, 0) + k);
            CHECK_EQ(trace_get(t, k).begin_ns, 10 * trace_get(t, k).value);
        }
    }
    CHECK_STR(trace_get(t, 0).name, "step");
}

TEST(a_ring_of_one_is_a_ring)
{
    struct trace *t = trace_new(perm, 1);
    for (i64 i = 0; i < 3; i++) trace_add(t, (struct trace_event){ .value = i });
    CHECK_EQ(trace_get(t, 0).value, 2);
    CHECK_EQ(trace_dropped(t), 2);
}

TEST(adding_takes_no_memory)
{
    struct trace *t      = trace_new(perm, 10);
    u8           *before = perm->begin;
    for (i64 i = 0; i < 100; i++) trace_add(t, (struct trace_event){ .value = i });
    CHECK_EQ(perm->begin, before);
}
