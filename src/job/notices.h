/* notices.h - what the cloud says while a run runs: given to the trainer at once, told to the user
 * after the step. */
#ifndef JOB_NOTICES_H
#define JOB_NOTICES_H
#include "run/notice.h"
#include "train/train.h"

struct notices {
    struct clock            *clock;
    struct train_orders     *orders;
    struct notice_watch     *watch; /* NULL: there is no cloud to hear */
    const struct subscriber *next;  /* who shows it */
    pthread_mutex_t          lock;  /* of the rest: the watcher's thread puts texts here */
    char                     texts[8][256];
    i64                      count;
};

void        notices_init(struct notices *h, struct clock *clock, struct train_orders *orders);
enum status notices_open(struct notices *h, struct os *os, const struct spot_config *c,
                         struct err *err); /* from now on the cloud is asked */
/* What was heard becomes notes for `next`, on the trainer's thread. */
struct subscriber notices_subscriber(struct notices *h, const struct subscriber *next);
void              notices_close(struct notices *h); /* one that was not opened too */

#endif
