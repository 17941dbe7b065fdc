/* orders.c - what is asked of a run while it runs: signals, and orders of other threads. */
#include "train/train_int.h"
#include <stdio.h>

static void ask_to_exit(struct session *s, bool ordered, const char *why)
{
    if (s->asked_to_exit) return;
    s->asked_to_exit = true;
    s->exit_ordered  = ordered;
    snprintf(s->exit_why, sizeof s->exit_why, "%s", why);
}

/* Who sends SIGTERM may kill the process soon after: that is a deadline as good as a cloud's, and counts from
 * when it came. */
static void note_grace(struct session *s)
{
    i64 came_ns = s->os->signal_ns ? s->os->signal_ns(s->os) : 0;
    i64 at = (came_ns ? came_ns : clock_now(s->clock)) + (i64)(1e9 * s->settings->spot.grace_s);
    if (s->settings->spot.grace_s <= 0 || !s->orders) return;
    pthread_mutex_lock(&s->orders->lock);
    if (!s->orders->deadline_ns || at < s->orders->deadline_ns) s->orders->deadline_ns = at;
    pthread_mutex_unlock(&s->orders->lock);
}

static void take_signal(struct session *s)
{
    enum os_signal got = s->os->signal_take(s->os);
    if (got == OS_SIGNAL_NONE) return;
    /* `frugal launch` passes SIGTERM on as SIGUSR1: cmd_launch.c */
    if (got == OS_SIGNAL_USR1 && s->os->env(s->os, "FRUGAL_LAUNCHED").len) got = OS_SIGNAL_TERM;
    bool exits = got != OS_SIGNAL_USR1 || str_eq(s->settings->checkpoint.on_usr1, STR("exit"));
    s->asked_to_save |= !exits;
    if (!exits) return;
    if (got == OS_SIGNAL_TERM || got == OS_SIGNAL_HUP) note_grace(s);
    ask_to_exit(s, false, os_signal_name(got));
}

/* An order to save stays noted until it is done; one to exit is as good as a signal. */
bool session_must_exit(struct session *s, i64 *deadline_ns)
{
    struct train_orders *o = s->orders;
    take_signal(s);
    *deadline_ns = 0;
    if (!o) return s->ranks ? s->exit_agreed : s->asked_to_exit;
    pthread_mutex_lock(&o->lock);
    if (o->pending == ORDER_SAVE) s->asked_to_save = true;
    if (o->pending == ORDER_EXIT) ask_to_exit(s, true, o->why);
    o->pending   = ORDER_NONE;
    *deadline_ns = o->deadline_ns;
    pthread_mutex_unlock(&o->lock);
    return s->ranks ? s->exit_agreed : s->asked_to_exit;
}

enum status session_check_signal(struct session *s, i64 steps, struct err *err)
{
    i64 deadline_ns;
    if (s->of) s = s->of; /* there it stays noted */
    if (!session_must_exit(s, &deadline_ns)) return STATUS_OK;
    if (s->exit_ordered)
        return err_set(err, STATUS_INTERRUPTED, "stopped after step %lld: %s", (long long)steps,
                       s->exit_why);
    if (s->settings->eval_only)
        return err_set(err, STATUS_INTERRUPTED, "stopped by %s", s->exit_why);
    return err_set(err, STATUS_INTERRUPTED, "stopped by %s after step %lld", s->exit_why,
                   (long long)steps);
}

void train_order(struct train_orders *o, enum train_order what, i64 deadline_ns, const char *why)
{
    pthread_mutex_lock(&o->lock);
    if (deadline_ns && (!o->deadline_ns || deadline_ns < o->deadline_ns))
        o->deadline_ns = deadline_ns;
    if (what >= o->pending) {
        o->pending = what;
        snprintf(o->why, sizeof o->why, "%s", why);
    }
    pthread_mutex_unlock(&o->lock);
}
