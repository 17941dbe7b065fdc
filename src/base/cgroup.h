/* cgroup.h - what the kernel's control groups allow this process: the least over its own group and all above
 * it, version 2 or 1. Slurm and systemd set limits on nested groups, containers on what they show as the root. */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H
#include "base/os.h"

#define CGROUP_ROOT STR("/sys/fs/cgroup")
#define CGROUP_OF_PROCESS STR("/proc/self/cgroup")

typedef i64 cgroup_value(struct os *os,
                         struct str dir); /* of the one group whose files lie there */

/* The least value over the groups that the text of /proc/self/cgroup names for this controller, and those
 * above them; INT64_MAX: none. */
i64 cgroup_least(struct os *os, struct str groups, struct str root, struct str controller,
                 cgroup_value *of);
/* Bytes that may still be taken until a limit is reached; the page cache counts as free. */
i64 cgroup_memory_bytes(struct os *os, struct str groups, struct str root);
/* The start of a file of a group; empty when it cannot be read. */
enum { CGROUP_TEXT_MAX = 8192 };
struct str cgroup_text(struct os *os, struct str dir, const char *name, char text[CGROUP_TEXT_MAX]);

#endif
