/* test_thread.c - what a thread is told of its own time. */
#include "base/os.h"
#include "base/rng.h"
#include "base/thread.h"
#include "harness.h"

TEST(thread_counts_the_times_that_it_waited)
{
    struct os *os    = os_real();
    i64        waits = thread_waits(), cpu_ns = thread_cpu_ns();
    for (i64 i = 0; i < 5; i++) os->sleep_ns(os, 1000000);
    CHECK(thread_waits() >= waits + 5);
    CHECK(thread_cpu_ns() - cpu_ns < 5000000); /* of as much that it slept */
}

/* However busy the machine is: a core taken away is not one given up. */
TEST(thread_that_computes_has_not_waited)
{
    volatile u64 turned = test_seed();
    i64          waits = thread_waits(), cpu_ns = thread_cpu_ns();
    while (thread_cpu_ns() < cpu_ns + 20000000) turned = rng_mix(turned);
    CHECK(thread_waits() <= waits + 1);
}
