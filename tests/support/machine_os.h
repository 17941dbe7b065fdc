/* machine_os.h - a machine whose clock, disk, network and kernel do as a test says.
 *
 * Time passes only in calls of the seam (reads, writes, syncs, sleeps) and where the test says so, so
 * nothing depends on how busy the real machine is. Files of /proc are written from the fields below;
 * all others are the real ones. One thread. */
#ifndef SUPPORT_MACHINE_OS_H
#define SUPPORT_MACHINE_OS_H
#include "run/probe.h"

enum { MACHINE_CORES = 4 };

struct machine_os {
    struct os         os; /* pass &m->os */
    i64               now_ns;
    i64               read_ns, write_ns; /* that each call takes */
    struct probe_core cores[MACHINE_CORES];
    i64               own_ns; /* processor time of the process */
    i64               swap_pages, stalled_us;
    i64               memory_kib, free_kib;
};

struct machine_os *machine_os_new(struct arena *perm); /* idle, alike cores, much free memory */
void               machine_os_run(struct machine_os *m, i64 ns, f64 busy); /* time passes, and the
                                                                     cores work that part of it */

#endif
