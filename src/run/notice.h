/* notice.h - what the cloud says about the machine under us: a thread that asks its metadata service,
 * and tells what is coming.
 *
 *     AWS     spot instance action and rebalance recommendation (IMDSv2)
 *     GCP     preempted and maintenance-event (long poll)
 *     Azure   Scheduled Events
 *
 * The service is asked only where the machine's firmware names the cloud or the user does, never
 * through a proxy, and by a thread of its own: nobody waits for it, not even its end. It lies in this
 * room because the trainer and the supervisor both need it. docs/spot.md has the whole picture. */
#ifndef RUN_NOTICE_H
#define RUN_NOTICE_H
#include "base/os.h"

enum cloud { CLOUD_NONE, CLOUD_AWS, CLOUD_GCP, CLOUD_AZURE, CLOUD_COUNT };

enum notice_act {
    NOTICE_LOG,  /* nothing to do: a pause, a live migration, or a service that does not answer */
    NOTICE_SAVE, /* save, and go on: the machine may go */
    NOTICE_END,  /* save, and end before the deadline: it goes */
};

struct notice {
    enum notice_act act;
    i64             deadline_ns; /* END: on the clock of now_ns */
    char            text[256];   /* "AWS will terminate this machine in 118 s" */
};

struct spot_config {
    struct str cloud;    /* auto | none | aws | gcp | azure */
    struct str metadata; /* http://HOST[:PORT] of its service; empty: where the cloud has it */
    f64        grace_s;  /* from SIGTERM until the process is killed; 0: nobody kills it */
};

/* On the watcher's thread, each notice once. It must be quick, and must not close the watcher. */
typedef void notice_fn(void *context, const struct notice *);

struct notice_watch;
/* *out is NULL where there is no cloud to ask. USAGE: spot.metadata is no address. */
enum status notice_watch_open(struct os *os, const struct spot_config *c, notice_fn *tell,
                              void *context, struct notice_watch **out, struct err *err);
void notice_watch_close(struct notice_watch *w); /* NULL too. From here on nothing is told; the os
                                                    must stay until the last question is answered */

struct str cloud_name(enum cloud c);        /* "AWS" */
enum cloud cloud_of_machine(struct os *os); /* by its firmware, /sys/class/dmi/id */

#endif
