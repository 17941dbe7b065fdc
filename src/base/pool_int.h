/* pool_int.h - the part of pool_machine.c that a test can feed. */
#ifndef BASE_POOL_INT_H
#define BASE_POOL_INT_H
#include "base/pool.h"
#include "base/text.h"

/* The CPU quota in whole cores, rounded up, of the groups that the text of /proc/self/cgroup names,
 * whose files lie under `root`; INT64_MAX: none. */
i64 pool_quota_cores(struct str groups, struct str root);

#endif
