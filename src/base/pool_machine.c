/* pool_machine.c - how many cores this process may use: its affinity mask, cut by the CPU quota of
 * its cgroup (version 2 or 1) and of the groups above it. A container with two cores of a large
 * machine must not start a hundred threads. */
#include "base/cgroup.h"
#include "base/pool_int.h"
#include <sched.h>
#include <unistd.h>

enum { CPUS_MAX = 8192 };

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

i32 pool_machine_threads(void)
{
    cpu_set_t allowed[CPUS_MAX / CPU_SETSIZE];
    char      text[CGROUP_TEXT_MAX];
    i64       cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof allowed, allowed) == 0)
        cores = CPU_COUNT_S(sizeof allowed, allowed);
    struct str groups = os_proc_text(CGROUP_OF_PROCESS, text, sizeof text);
    return (i32)MAX(1, MIN(cores, pool_quota_cores(groups, CGROUP_ROOT)));
}
