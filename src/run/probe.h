/* probe.h - what the kernel tells of the machine, from /proc: cores, clocks, memory, swapping.
 *
 * A reading is a moment, a load what lay between two. All through the seam (base/os.h), so that a
 * test can be the kernel; what this one does not tell is NaN. */
#ifndef RUN_PROBE_H
#define RUN_PROBE_H
#include "base/os.h"

enum { PROBE_CORES_MAX = 1024 };

struct probe_core {
    i64 busy, idle, waits,
        stolen; /* ticks: working, idle, idle with a disk at work, taken by another
                                      guest of the host */
    f64 mhz;    /* 0: not told */
};

struct probe {
    i64               at_ns;
    i64               own_ns;     /* processor time of this process; -1: not told */
    f64               own_bytes;  /* its memory, mapped files not counted; NaN: not told */
    i64               swap_pages; /* in and out, since the machine began; -1: not told */
    f64               memory_bytes, memory_free_bytes; /* NaN: not told */
    f64               memory_stalled_s; /* all that run waited for memory; NaN: not told */
    struct probe_core cores[PROBE_CORES_MAX];
    i64               core_count;
};

/* Takes some tens of microseconds, on machines with many cores some milliseconds. */
void probe_read(struct probe *p, struct os *os, struct arena scratch);
i64  probe_own_ns(struct os *os, struct arena scratch); /* the one number, at once; -1: not told */

struct load {
    f64 seconds;
    f64 own_cores;    /* this process's processor time by the clock's */
    f64 busy;         /* all cores, part of the time */
    f64 disk;         /* part of the time that cores had nothing but a disk to wait for */
    f64 core_slowest; /* of those that worked most of the time, its speed by that of the middle one:
                          clock, and what others took of it */
    i64 core_index;   /* which one */
    i64 core_count;
    f64 swap_bytes_s;
    f64 memory_stalled;                             /* part of the time */
    f64 memory_bytes, memory_free_bytes, own_bytes; /* at the end of it */
};
struct load probe_load(const struct probe *from, const struct probe *to, struct arena scratch);

#endif
