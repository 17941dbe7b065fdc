/* pool_machine.c - how many cores this process may use: its affinity mask, cut by the CPU quota of
 * its cgroup (version 2 or 1) and of the groups above it. A container with two cores of a large
 * machine must not start a hundred threads. */
#include "base/cgroup.h"
#include "base/pool_int.h"
#include <sched.h>
#include <unistd.h>

static i64 cores_of(struct str quota_us, struct str period_us)
{
    i64 quota, period;
    if (!str_i64(str_trim(quota_us), &quota) || quota <= 0) return INT64_MAX; /* "max" or -1 */
    if (!str_i64(str_trim(period_us), &period) || period <= 0) return INT64_MAX;
    return (quota + period - 1) / period;
}

static i64 group_cores(struct os *os, struct str dir)
{
    char       a[CGROUP_TEXT_MAX], b[CGROUP_TEXT_MAX];
    struct str v2 = cgroup_text(os, dir, "cpu.max", a), quota;
    if (str_cut(&v2, ' ', &quota)) return cores_of(quota, v2);
    quota = cgroup_text(os, dir, "cpu.cfs_quota_us", a);
    return cores_of(quota, cgroup_text(os, dir, "cpu.cfs_period_us", b));
}

i64 pool_quota_cores(struct str groups, struct str root)
{
    return cgroup_least(os_real(), groups, root, STR("cpu"), group_cores);
}

void pool_cores_of(i64 pid, struct pool_cores *out)
{
    cpu_set_t allowed[POOL_CORES_MAX / CPU_SETSIZE] = { 0 };
    i64       all                                   = sysconf(_SC_NPROCESSORS_ONLN);
    bool      known = !sched_getaffinity((pid_t)pid, sizeof allowed, allowed);
    *out            = (struct pool_cores){ 0 };
    for (i64 i = 0; i < POOL_CORES_MAX; i++)
        if (known ? CPU_ISSET_S((size_t)i, sizeof allowed, allowed) : i < all)
            out->word[i / 64] |= (u64)1 << i % 64;
}

i64 pool_cores_count(const struct pool_cores *c)
{
    i64 count = 0;
    for (i64 i = 0; i < POOL_CORES_MAX / 64; i++) count += __builtin_popcountll(c->word[i]);
    return count;
}

i64 pool_machine_quota(void)
{
    char text[CGROUP_TEXT_MAX];
    return pool_quota_cores(os_proc_text(CGROUP_OF_PROCESS, text, sizeof text), CGROUP_ROOT);
}

i32 pool_machine_threads(void)
{
    struct pool_cores cores;
    pool_cores_of(0, &cores);
    return (i32)MAX(1, MIN(pool_cores_count(&cores), pool_machine_quota()));
}
