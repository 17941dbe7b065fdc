/* thread.h - a thread that signals do not reach: those are for the one that began the program. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H
#include "base/err.h"
#include <pthread.h>

/* `what` is for the sentence of a refusal: "the loader's thread". */
enum status thread_start(pthread_t *thread, void *(*main)(void *), void *context, const char *what,
                         struct err *err);

#endif
