/* err.h - the world's fault and the user's: a status to branch on and one sentence to read.
 *
 * The lowest function that knows the cause writes the sentence; everyone above returns the
 * status unchanged. Only `cli` prints it. The exit code is the status. */
#ifndef BASE_ERR_H
#define BASE_ERR_H
#include "base/types.h"

enum status {
    STATUS_OK          = 0,
    STATUS_NO          = 1, /* the answer is no: target not reached, check failed */
    STATUS_USAGE       = 2, /* the user's input is wrong */
    STATUS_WORLD       = 3, /* disk, network, memory, library */
    STATUS_INTERRUPTED = 4, /* stopped from outside, safe to resume */
};

/* What the system said, where somebody acts on it. */
enum err_cause {
    CAUSE_OTHER,
    CAUSE_ABSENT, /* there is no such file or folder */
    CAUSE_FULL,   /* the disk or the quota is full */
};

struct err {
    enum status    status;
    char           text[512]; /* one sentence, no line end */
    enum err_cause cause;
};

/* Writes the sentence (err may be NULL; the arguments may quote err->text), with CAUSE_OTHER, and
 * returns `status`, so `return err_set(...)` reads well. */
enum status err_set(struct err *err, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
