/* pool_machine.c - how many cores this process may use: its affinity mask, cut by the CPU quota of
 * its cgroup (version 2 or 1) and of the groups above it. A container with two cores of a large
 * machine must not start a hundred threads. */
#include "base/pool_int.h"
#include "base/text.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

enum { CPUS_MAX = 8192, FILE_BYTES_MAX = 4096, PATH_BYTES_MAX = 1024 };

/* The start of a small file of the kernel's; empty when it cannot be read. */
static struct str read_small(const char *path, char text[FILE_BYTES_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return STR("");
    ssize_t got = read(fd, text, FILE_BYTES_MAX);
    close(fd);
    return (struct str){ text, MAX((i64)got, 0) };
}

static i64 cores_of(struct str quota_us, struct str period_us)
{
    i64 quota, period;
    if (!str_i64(str_trim(quota_us), &quota) || quota <= 0) return INT64_MAX; /* "max" or -1 */
    if (!str_i64(str_trim(period_us), &period) || period <= 0) return INT64_MAX;
    return (quota + period - 1) / period;
}

/* The quota of the one group whose files lie in `dir`. */
static i64 group_cores(struct str dir)
{
    char       path[PATH_BYTES_MAX], a[FILE_BYTES_MAX], b[FILE_BYTES_MAX];
    struct str quota;
    snprintf(path, sizeof path, "%.*s/cpu.max", STR_ARG(dir));
    struct str v2 = read_small(path, a);
    if (str_cut(&v2, ' ', &quota)) return cores_of(quota, v2);
    snprintf(path, sizeof path, "%.*s/cpu.cfs_quota_us", STR_ARG(dir));
    quota = read_small(path, a);
    snprintf(path, sizeof path, "%.*s/cpu.cfs_period_us", STR_ARG(dir));
    return cores_of(quota, read_small(path, b));
}

/* The least quota from root/group up to root. Inside a container the group may not be visible
 * under its full name; then the root is the container's own group and says enough. */
static i64 path_cores(struct str root, struct str group)
{
    char dir[PATH_BYTES_MAX];
    i64  cores = group_cores(root);
    while (group.len > 1) {
        if (root.len + group.len >= PATH_BYTES_MAX) return cores;
        snprintf(dir, sizeof dir, "%.*s%.*s", STR_ARG(root), STR_ARG(group));
        cores = MIN(cores, group_cores(str_of(dir)));
        do group.len--;
        while (group.len > 0 && group.data[group.len] != '/');
    }
    return cores;
}

/* A line of /proc/self/cgroup: "0::/group" in version 2, "4:cpu,cpuacct:/group" in version 1. */
static i64 line_cores(struct str line, struct str root, struct arena scratch)
{
    struct str id, controllers, name;
    if (!str_cut(&line, ':', &id)) return INT64_MAX;
    i64        colon = str_find(line, ':');
    struct str group = str_trim(str_sub(line, colon + 1, line.len));
    controllers      = str_sub(line, 0, colon);
    if (controllers.len == 0) return path_cores(root, group);
    while (str_cut(&controllers, ',', &name))
        if (str_eq(name, STR("cpu")))
            return path_cores(str_cat(&scratch, root, STR("/cpu")), group);
    return INT64_MAX;
}

i64 pool_quota_cores(struct str groups, struct str root)
{
    u8           memory[PATH_BYTES_MAX];
    struct arena scratch = { .begin = memory, .end = memory + sizeof memory };
    struct str   line;
    i64          cores = INT64_MAX;
    while (str_cut(&groups, '\n', &line)) cores = MIN(cores, line_cores(line, root, scratch));
    return cores;
}

i32 pool_machine_threads(void)
{
    cpu_set_t allowed[CPUS_MAX / CPU_SETSIZE];
    char      text[FILE_BYTES_MAX];
    i64       cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof allowed, allowed) == 0)
        cores = CPU_COUNT_S(sizeof allowed, allowed);
    struct str groups = read_small("/proc/self/cgroup", text);
    return (i32)MAX(1, MIN(cores, pool_quota_cores(groups, STR("/sys/fs/cgroup"))));
}
