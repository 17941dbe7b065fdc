/* thread.h - a thread that signals do not reach: those are for the one that began the program. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H
#include "base/err.h"
#include <pthread.h>

/* A condition that is waited for with a limit: on the clock that nobody sets. */
void thread_cond_init(pthread_cond_t *c);
/* Until it is signalled or the time of os->now_ns is reached; the caller holds the lock and looks at
 * what it waits for. False: the time is over. */
bool thread_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, i64 until_ns);

/* `what` is for the sentence of a refusal: "the loader's thread". */
enum status thread_start(pthread_t *thread, void *(*main)(void *), void *context, const char *what,
                         struct err *err);

i64 thread_cpu_ns(void); /* that this thread has computed */
i64 thread_waits(void);  /* times that it gave up its core to wait for something */
/* How long this thread has been ready and had no core: the kernel's own count. The first call of a
 * thread opens *fd, which was -1 and is -1 again where the kernel keeps none; then it is 0. */
i64 thread_delay_ns(int *fd);

#endif
