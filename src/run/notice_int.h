/* notice_int.h - the answers of metadata services as notices: pure, so that tests and the fuzzer
 * reach them. Shared between notice.c, notice_answer.c and their tests. */
#ifndef RUN_NOTICE_INT_H
#define RUN_NOTICE_INT_H
#include "run/notice.h"

struct notice_clock {
    i64 at_ns, wall_ns; /* the same moment on both clocks */
};

/* What one answer says. A notice that was told is not told again: `key` is what it is known by. */
struct notices {
    struct notice items[16];
    u64           keys[16];
    i64           count;
};

/* Each adds to `out` what the body of an answer with code 200 says; nothing: all is well. */
void notice_aws_action(struct str body, struct notice_clock now, struct arena scratch,
                       struct notices *out);
void notice_aws_rebalance(struct str body, struct notice_clock now, struct arena scratch,
                          struct notices *out);
void notice_gcp_preempted(struct str body, struct notice_clock now, struct notices *out);
void notice_gcp_maintenance(struct str body, struct notice_clock now, struct notices *out);
/* vm: our own name, for events cover a whole scale set; empty: not known, and all are ours. */
void notice_azure_events(struct str body, struct str vm, struct notice_clock now,
                         struct arena scratch, struct notices *out);

/* As notice_watch_open, asking every poll_ns (0: as the cloud wants it). */
enum status notice_watch_open_every(struct os *os, const struct spot_config *c, i64 poll_ns,
                                    notice_fn *tell, void *context, struct notice_watch **out,
                                    struct err *err);

#endif
