/* retry.h - how often and when a request is tried again: the same for every server. */
#ifndef REMOTE_RETRY_H
#define REMOTE_RETRY_H
#include "base/os.h"
#include <stdatomic.h>

enum { RETRY_TRIES_MAX = 14 };

/* May what was answered with this status pass if it is asked again? */
bool retry_status(i32 status);
/* May what was not answered at all pass? Of a host that nobody has found yet only for some seconds: its name is
 * probably wrong, and the user waits. One that has answered before is known to be there. */
bool retry_unanswered(bool unresolved, bool answered_before, i64 tries, i64 since_ns);
/* Waits before try `tries` + 1, longer each time and by chance (number `draw` of `seed`) so that many
 * do not come back at once; not beyond until_ns, and not when one of the two, which may be NULL, says
 * stop. */
void retry_wait(struct os *os, u64 seed, u64 draw, i64 tries, i64 until_ns, const atomic_bool *stop,
                const atomic_bool *cancel);

#endif
