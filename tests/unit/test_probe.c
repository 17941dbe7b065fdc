/* The kernel's counters, from a machine that a test makes up and from the real one. */
#include "harness.h"
#include "run/probe.h"
#include "support/machine_os.h"

TEST(what_lies_between_two_readings)
{
    struct machine_os *m    = machine_os_new(perm);
    struct probe      *from = NEW(perm, struct probe, 1), *to = NEW(perm, struct probe, 1);
    probe_read(from, &m->os, scratch);
    CHECK_EQ(from->core_count, MACHINE_CORES);
    machine_os_run(m, 2000000000, 0.6);
    m->swap_pages += 512;
    m->stalled_us += 500000;
    m->cores[1].mhz = 1500;
    m->cores[3].waits += 2000000; /* as many ticks as all of it */
    probe_read(to, &m->os, scratch);
    struct load l = probe_load(from, to, scratch);
    CHECK_EQ(l.seconds, 2.0);
    CHECK_NEAR(l.own_cores, 2.4, 0.01); /* ticks of 10 ms */
    CHECK_NEAR(l.busy, 0.6 * 4 / 5, 1e-9);
    CHECK_NEAR(l.disk, 1.0 / 5, 1e-9);
    CHECK_NEAR(l.core_slowest, 0.5, 1e-9);
    CHECK_EQ(l.core_index, 1);
    CHECK_NEAR(l.swap_bytes_s, 256.0 * 4096, 1e-6);
    CHECK_NEAR(l.memory_stalled, 0.25, 1e-9);
    CHECK_EQ(l.memory_bytes, 16.0 * 0x1p30);
    CHECK_EQ(l.memory_free_bytes, 12.0 * 0x1p30);
}

TEST(a_core_that_other_guests_take_is_slow)
{
    struct machine_os *m    = machine_os_new(perm);
    struct probe      *from = NEW(perm, struct probe, 1), *to = NEW(perm, struct probe, 1);
    probe_read(from, &m->os, scratch);
    machine_os_run(m, 1000000000, 0.75);
    m->cores[3].stolen += 1000000;
    probe_read(to, &m->os, scratch);
    CHECK_NEAR(probe_load(from, to, scratch).core_slowest, 0.5, 1e-9);
    CHECK_EQ(probe_load(from, to, scratch).core_index, 3);
}

/* Idle ones save power: that they are slow is no problem. */
TEST(a_core_without_work_is_not_slow)
{
    struct machine_os *m    = machine_os_new(perm);
    struct probe      *from = NEW(perm, struct probe, 1), *to = NEW(perm, struct probe, 1);
    probe_read(from, &m->os, scratch);
    machine_os_run(m, 1000000000, 0.75);
    m->cores[2].mhz  = 800;
    m->cores[2].busy = 0;
    probe_read(to, &m->os, scratch);
    CHECK_EQ(probe_load(from, to, scratch).core_slowest, 1.0);
}

TEST(what_the_kernel_does_not_tell_is_not_known)
{
    struct machine_os *m    = machine_os_new(perm);
    struct probe      *from = NEW(perm, struct probe, 1), *to = NEW(perm, struct probe, 1);
    probe_read(from, &m->os, scratch);
    probe_read(to, &m->os, scratch);
    struct load l = probe_load(from, to, scratch); /* no time has passed */
    CHECK(isnan(l.busy) && isnan(l.own_cores));
    from->swap_pages = from->own_ns = -1;
    to->at_ns += 1000000000;
    from->memory_stalled_s = NAN;
    l                      = probe_load(from, to, scratch);
    CHECK(isnan(l.swap_bytes_s) && isnan(l.own_cores) && isnan(l.memory_stalled));
}

TEST(the_real_kernel_is_understood)
{
    struct probe *p = NEW(perm, struct probe, 1);
    probe_read(p, os_real(), scratch);
    CHECK(p->core_count >= 1);
    CHECK(p->own_ns >= 0);
    CHECK(p->swap_pages >= 0);
    CHECK(p->own_bytes > 0 && p->own_bytes < p->memory_bytes);
    CHECK(p->memory_bytes > p->memory_free_bytes && p->memory_free_bytes > 0);
}
