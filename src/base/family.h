/* family.h - somebody else's program: started in a process group of its own; its whole family, that
 * is all processes that came from it, found, signalled, watched for open files and reaped.
 *
 * A launcher (torchrun, a shell script) is one process of many, and often not the one that saves. So
 * signals go to those of the family that have a handler for them: a process without one would die of
 * most signals instead of saving. One program at a time; all but family_writes and family_cpu_ns from
 * one thread. */
#ifndef BASE_FAMILY_H
#define BASE_FAMILY_H
#include "base/os.h"

struct family {
    i64         pid; /* of the launcher; 0: none runs */
    struct file out; /* its standard output, where that is read; else -1 */
};

struct family_end {
    i32 code;   /* of exit; where it was killed, 128 + signal, as shells say it */
    i32 signal; /* that killed it; 0: it exited */
};

enum family_output { FAMILY_OUTPUT_OURS, FAMILY_OUTPUT_READ };

/* argv ends with NULL. Standard streams are ours, but for an output that is read. When we die it
 * gets SIGTERM. WORLD: it cannot be started, and why. */
enum status family_start(struct family *p, const char *const *argv, enum family_output out,
                         struct err *err);
/* Has the launcher ended? Also buries others of the family that have. */
bool family_ended(struct family *p, struct family_end *end);

i32         signal_number(struct str name); /* "term", "usr1"; 0: not known */
const char *signal_name(i32 number);        /* "SIGTERM" */
/* To all of the family with a handler for it; returns how many those were. */
i64 family_signal(i32 signal);
/* SIGKILL to the whole family, orphans too, until none is left; the launcher is buried with it. */
void family_kill(struct family *p);

/* Does a process of the family have this file open for writing? The path is absolute, without links. */
bool family_writes(struct str path);

/* Processor time of the whole family so far, the buried included. */
i64 family_cpu_ns(void);
/* And of the process that started us, with the children that it has buried. */
i64 parent_cpu_ns(void);

#endif
