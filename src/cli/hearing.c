/* hearing.c - from notices to orders. */
#include "cli/hearing.h"
#include <stdio.h>

/* On the watcher's thread. The end is told by the run itself, as the reason why it stopped. */
static void on_notice(void *context, const struct notice *n)
{
    struct hearing *h = context;
    if (n->act == NOTICE_END) {
        pthread_mutex_lock(&h->orders->lock);
        h->orders->notice_s = (f64)(n->deadline_ns - h->os->now_ns(h->os)) * 1e-9;
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

static void tell(struct hearing *h)
{
    pthread_mutex_lock(&h->lock);
    for (i64 i = 0; i < h->count; i++) h->show.on_note(h->show.context, str_of(h->texts[i]));
    h->count = 0;
    pthread_mutex_unlock(&h->lock);
}

static void on_step(void *context, const struct train_progress *p)
{
    (void)p;
    tell(context);
}

static void on_done(void *context, const struct train_result *r)
{
    (void)r;
    tell(context);
}

enum status hearing_open(struct hearing *h, struct os *os, const struct spot_config *c,
                         struct train_orders *orders, struct err *err)
{
    *h = (struct hearing){ .os = os, .orders = orders };
    pthread_mutex_init(&h->lock, NULL);
    return notice_watch_open(os, c, on_notice, h, &h->watch, err);
}

struct train_listener hearing_listener(struct hearing *h, const struct train_listener *next)
{
    ASSERT(next->on_note);
    h->show = *next;
    return (struct train_listener){
        .context = h, .next = next, .on_step = on_step, .on_done = on_done
    };
}

void hearing_close(struct hearing *h)
{
    notice_watch_close(h->watch);
    pthread_mutex_destroy(&h->lock);
}
