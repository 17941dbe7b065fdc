/* notices.c - from notices to orders. */
#include "job/notices.h"
#include <stdio.h>

/* On the watcher's thread. The end is told by the run itself, as the reason why it stopped. */
static void on_notice(void *context, const struct notice *n)
{
    struct notices *h = context;
    if (n->act == NOTICE_END) {
        pthread_mutex_lock(&h->orders->lock);
        h->orders->notice_s = (f64)(n->deadline_ns - clock_now(h->clock)) * 1e-9;
        pthread_mutex_unlock(&h->orders->lock);
        train_order(h->orders, ORDER_EXIT, n->deadline_ns, n->text);
        return;
    }
    if (n->act == NOTICE_SAVE) train_order(h->orders, ORDER_SAVE, 0, n->text);
    pthread_mutex_lock(&h->lock);
    if (h->count < COUNT_OF(h->texts))
        snprintf(h->texts[h->count++], sizeof h->texts[0], "%s%.240s",
                 n->act == NOTICE_SAVE ? "saving: " : "", n->text);
    pthread_mutex_unlock(&h->lock);
}

static void tell(struct notices *h)
{
    pthread_mutex_lock(&h->lock);
    for (i64 i = 0; i < h->count; i++)
        emit_note(h->next, &(struct event_note){ str_of(h->texts[i]) });
    h->count = 0;
    pthread_mutex_unlock(&h->lock);
}

static void on_step(void *context, const struct event_step *p)
{
    (void)p;
    tell(context);
}

static void on_done(void *context, const struct event_done *r)
{
    (void)r;
    tell(context);
}

void notices_init(struct notices *h, struct clock *clock, struct train_orders *orders)
{
    *h = (struct notices){ .clock = clock, .orders = orders };
    pthread_mutex_init(&h->lock, NULL);
}

enum status notices_open(struct notices *h, struct os *os, const struct spot_config *c,
                         struct err *err)
{
    return notice_watch_open(os, c, on_notice, h, &h->watch, err);
}

struct subscriber notices_subscriber(struct notices *h, const struct subscriber *next)
{
    h->next = next;
    return (
        struct subscriber){ .context = h, .next = next, .on_step = on_step, .on_done = on_done };
}

void notices_close(struct notices *h)
{
    notice_watch_close(h->watch);
    pthread_mutex_destroy(&h->lock);
}
