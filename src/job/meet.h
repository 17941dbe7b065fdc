/* meet.h - processes that know one address and their number, as torchrun starts them, become ranks of MPI.
 *
 * MPICH's launcher does that by a door of its own: with "-launcher manual" it listens, says which command is to be run
 * on each host, and waits for somebody to do it. Every process does so for itself:
 *
 *     RANK=0  frugal ─┬─ mpiexec.hydra  ◄───────────────────────────┐
 *                     └─ hydra_pmi_proxy ── frugal, rank 0          │ MASTER_ADDR:MASTER_PORT
 *     RANK=1  frugal ─── hydra_pmi_proxy ── frugal, rank 1          │
 *                               └───────────────────────────────────┘
 *
 * A rank has the environment and the standard streams of the process above it, which hands it signals and ends with
 * its exit code: whoever started the processes sees nothing of what lies between. */
#ifndef JOB_MEET_H
#define JOB_MEET_H
#include "base/os.h"

/* Is this process one of several that are to meet? Which, of how many. */
bool meet_announced(struct os *os, i32 *rank, i32 *count);
/* Starts this process's rank and waits for its end. Returns its exit code, without a sentence where the rank had one
 * to say. All must have come after join_s. */
enum status meet_run(struct os *os, f64 join_s, struct arena *perm, struct err *err);

/* In the rank, where there is one: takes the streams, before anything is printed; reports the exit code, last. The
 * second may be called by a handler of signals. */
void meet_adopted(void);
void meet_report(i32 code);

#endif
