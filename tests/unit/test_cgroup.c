/* Scripted /proc and /sys: the least limit over a process's own group and all above it. */
#include "base/cgroup.h"
#include "harness.h"
#include "support/sim_os.h"

static i64 memory_of(struct sim_os *sim, const char *groups)
{
    return cgroup_memory_bytes(&sim->os, str_of(groups), CGROUP_ROOT);
}

#define PUT(path, text) sim_os_put(sim, STR("/sys/fs/cgroup" path), STR(text))

TEST(the_least_limit_of_nested_groups_counts)
{
    struct sim_os *sim = sim_os_new(perm);
    CHECK_EQ(memory_of(sim, "0::/\n"), INT64_MAX);
    PUT("/slurm/job_7/memory.max", "4000000000\n");
    PUT("/slurm/job_7/step_0/memory.max", "max\n");
    PUT("/slurm/job_7/step_0/task/memory.max", "9000000000\n");
    CHECK_EQ(memory_of(sim, "0::/slurm/job_7/step_0/task\n"), 4000000000);
    CHECK_EQ(memory_of(sim, "0::/slurm/job_70\n"), INT64_MAX);
    CHECK_EQ(memory_of(sim, "0::/slurm/job_7/step_0"), 4000000000); /* no line end */
    PUT("/slurm/job_7/step_0/task/memory.max", "1000000\n");
    CHECK_EQ(memory_of(sim, "0::/slurm/job_7/step_0/task\n"), 1000000);
    CHECK_EQ(memory_of(sim, "0::/slurm/job_7/step_0/other\n"), 4000000000);
}

TEST(what_others_in_the_group_hold_is_gone_but_not_the_page_cache)
{
    struct sim_os *sim = sim_os_new(perm);
    PUT("/job/memory.max", "1000\n");
    PUT("/job/memory.current", "700\n");
    CHECK_EQ(memory_of(sim, "0::/job\n"), 300);
    PUT("/job/memory.stat", "anon 100\nfile 550\nkernel 50\n");
    CHECK_EQ(memory_of(sim, "0::/job\n"), 850);
    PUT("/job/memory.current", "1200\n"); /* the limit was lowered */
    PUT("/job/memory.stat", "file 100\n");
    CHECK_EQ(memory_of(sim, "0::/job\n"), 0);
}

/* A namespace shows the container's own group as the root; without one its files may be there while the
 * name is the host's. */
TEST(a_container_is_limited_by_what_it_sees_as_the_root)
{
    struct sim_os *sim = sim_os_new(perm);
    PUT("/memory.max", "2000\n");
    CHECK_EQ(memory_of(sim, "0::/\n"), 2000);
    CHECK_EQ(memory_of(sim, "0::/docker/0123456789abcdef\n"), 2000);
    CHECK_EQ(memory_of(sim, "0::/../other\n"), 2000);
    PUT("/inner/memory.max", "1500\n");
    CHECK_EQ(memory_of(sim, "0::/inner\n"), 1500);
}

TEST(version_1_has_a_tree_for_each_controller)
{
    static const char groups[] =
        "12:cpu,cpuacct:/user\n5:memory:/slurm/uid_0/job_3\n0::/init.scope\n";
    struct sim_os *sim = sim_os_new(perm);
    PUT("/memory/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK_EQ(memory_of(sim, groups), 9223372036854771712);
    PUT("/memory/slurm/uid_0/memory.limit_in_bytes", "5000\n");
    PUT("/memory/slurm/uid_0/memory.usage_in_bytes", "3000\n");
    PUT("/memory/slurm/uid_0/memory.stat", "cache 10\ntotal_cache 2500\n");
    PUT("/memory/slurm/uid_0/job_3/memory.limit_in_bytes", "6000\n");
    CHECK_EQ(memory_of(sim, groups), 4500);
    CHECK_EQ(memory_of(sim, "garbage\n::\n5:memory\n"), INT64_MAX);
}
