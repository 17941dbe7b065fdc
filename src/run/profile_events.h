/* profile_events.h - a profile on its way into the stream: its sums, then one event for each part of a step, each op
 * and shape, and the memory of each program. All that is shown of a profile is in them. */
#ifndef RUN_PROFILE_EVENTS_H
#define RUN_PROFILE_EVENTS_H
#include "run/events.h"
#include "run/profile.h"

/* `t` has the machine's rates. A profile without a step is one event; a NULL one is none. */
void profile_emit(const struct subscriber *to, const struct profile *p, const struct target *t,
                  struct arena scratch);

#endif
