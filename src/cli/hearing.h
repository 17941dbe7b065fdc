/* hearing.h - what the cloud says while a run runs: given to the trainer at once, told to the user
 * after the step. */
#ifndef CLI_HEARING_H
#define CLI_HEARING_H
#include "run/notice.h"
#include "train/train.h"

struct hearing {
    struct os            *os;
    struct train_orders  *orders;
    struct notice_watch  *watch; /* NULL: there is no cloud to hear */
    struct train_listener show;  /* whose on_note tells the user */
    pthread_mutex_t       lock;  /* of the rest: the watcher's thread puts texts here */
    char                  texts[8][256];
    i64                   count;
};

enum status hearing_open(struct hearing *h, struct os *os, const struct spot_config *c,
                         struct train_orders *orders, struct err *err);
/* Tells what was heard to on_note of `next`, in the trainer's thread. */
struct train_listener hearing_listener(struct hearing *h, const struct train_listener *next);
void                  hearing_close(struct hearing *h);

#endif
