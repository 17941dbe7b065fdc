/* thread.c - starting a thread with all signals blocked, and waiting with a limit. */
#include "base/thread.h"
#include "base/text.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum status thread_start(pthread_t *thread, void *(*main)(void *), void *context, const char *what,
                         struct err *err)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* a thread's own fault (os_map.c) */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int reason = pthread_create(thread, NULL, main, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return reason ? err_set(err, STATUS_WORLD, "cannot start %s: %s", what, strerror(reason))
                  : STATUS_OK;
}

void thread_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(c, &clock);
    pthread_condattr_destroy(&clock);
}

bool thread_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, i64 until_ns)
{
    struct timespec until = { until_ns / 1000000000, until_ns % 1000000000 };
    return pthread_cond_timedwait(c, lock, &until) == 0;
}

i64 thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
}

i64 thread_waits(void)
{
    struct rusage use;
    getrusage(RUSAGE_THREAD, &use);
    return use.ru_nvcsw;
}

i64 thread_delay_ns(int *fd)
{
    char text[128];
    i64  delay = 0;
    if (*fd < 0) *fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t    got  = *fd < 0 ? 0 : pread(*fd, text, sizeof text, 0);
    struct str rest = { text, MAX((i64)got, 0) }, cpu, field; /* "on-core delayed slices" */
    if (str_cut(&rest, ' ', &cpu) && str_cut(&rest, ' ', &field)) str_i64(field, &delay);
    return delay;
}
