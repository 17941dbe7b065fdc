/* cgroup.c - the least over a process's control groups. */
#include "base/cgroup.h"
#include <stdio.h>

enum { PATH_BYTES_MAX = 1024 };

struct str cgroup_text(struct os *os, struct str dir, const char *name, char text[CGROUP_TEXT_MAX])
{
    char        path[PATH_BYTES_MAX];
    struct str  bytes = { text, 0 };
    struct file f;
    int         len = snprintf(path, sizeof path, "%.*s/%s", STR_ARG(dir), name);
    if (len >= PATH_BYTES_MAX || os->open_read(os, str_of(path), &f, NULL)) return bytes;
    if (os->read(os, f, text, CGROUP_TEXT_MAX, -1, &bytes.len, NULL)) bytes.len = 0;
    os->close(os, &f, NULL);
    return bytes;
}

/* From root/group up to root. Inside a container the group may not be visible under its full name, or lie
 * outside ("/../x"); then the root is the container's own group and says enough. */
static i64 least_on_path(struct os *os, struct str root, struct str group, cgroup_value *of)
{
    char dir[PATH_BYTES_MAX];
    i64  least = of(os, root);
    if (str_starts(group, STR("/..")) || root.len + group.len >= PATH_BYTES_MAX) return least;
    while (group.len > 1) {
        snprintf(dir, sizeof dir, "%.*s%.*s", STR_ARG(root), STR_ARG(group));
        least = MIN(least, of(os, str_of(dir)));
        do group.len--;
        while (group.len > 0 && group.data[group.len] != '/');
    }
    return least;
}

/* A line of /proc/self/cgroup: "0::/group" in version 2, "4:cpu,cpuacct:/group" in version 1. */
static i64 least_of_line(struct os *os, struct str line, struct str root, struct str controller,
                         cgroup_value *of)
{
    char       own[PATH_BYTES_MAX];
    struct str id, names, name;
    i64        colon = str_cut(&line, ':', &id) ? str_find(line, ':') : -1;
    if (colon < 0) return INT64_MAX;
    struct str group = str_trim(str_sub(line, colon + 1, line.len));
    names            = str_sub(line, 0, colon);
    if (names.len == 0) return least_on_path(os, root, group, of);
    while (str_cut(&names, ',', &name)) {
        if (!str_eq(name, controller)) continue;
        snprintf(own, sizeof own, "%.*s/%.*s", STR_ARG(root), STR_ARG(controller));
        return least_on_path(os, str_of(own), group, of);
    }
    return INT64_MAX;
}

i64 cgroup_least(struct os *os, struct str groups, struct str root, struct str controller,
                 cgroup_value *of)
{
    struct str line;
    i64        least = INT64_MAX;
    while (str_cut(&groups, '\n', &line))
        least = MIN(least, least_of_line(os, line, root, controller, of));
    return least;
}

/* The number behind `key` in a text of lines "key number"; 0 if there is none. */
static i64 number_of(struct str text, struct str key)
{
    struct str line, name;
    i64        n = 0;
    while (str_cut(&text, '\n', &line))
        if (str_cut(&line, ' ', &name) && str_eq(name, key)) str_i64(str_trim(line), &n);
    return n;
}

static i64 group_memory(struct os *os, struct str dir)
{
    static const struct {
        const char *limit, *use;
        struct str  cache;
    } versions[] = { { "memory.max", "memory.current", STR_INIT("file") },
                     { "memory.limit_in_bytes", "memory.usage_in_bytes",
                       STR_INIT("total_cache") } };
    char text[CGROUP_TEXT_MAX];
    for (i32 v = 0; v < COUNT_OF(versions); v++) {
        i64 limit, use = 0;
        if (!str_i64(str_trim(cgroup_text(os, dir, versions[v].limit, text)), &limit)) continue;
        str_i64(str_trim(cgroup_text(os, dir, versions[v].use, text)), &use);
        i64 cache = number_of(cgroup_text(os, dir, "memory.stat", text), versions[v].cache);
        return MAX(limit - MAX(use - cache, 0), 0);
    }
    return INT64_MAX; /* "max", or no such group */
}

i64 cgroup_memory_bytes(struct os *os, struct str groups, struct str root)
{
    return cgroup_least(os, groups, root, STR("memory"), group_memory);
}
