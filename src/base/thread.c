/* thread.c - starting a thread with all signals blocked. */
#include "base/thread.h"
#include <signal.h>
#include <string.h>

enum status thread_start(pthread_t *thread, void *(*main)(void *), void *context, const char *what,
                         struct err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int reason = pthread_create(thread, NULL, main, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return reason ? err_set(err, STATUS_WORLD, "cannot start %s: %s", what, strerror(reason))
                  : STATUS_OK;
}
