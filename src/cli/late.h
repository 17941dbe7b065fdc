/* late.h - ends this process where MPI waits at its start for a rank that does not come: MPI_Init has no limit of its
 * own and cannot be asked whether it is done, as later calls can (backend/ranks/mpi.c). */
#ifndef CLI_LATE_H
#define CLI_LATE_H
#include "base/types.h"

void late_begin(f64 limit_s, i32 rank, i32 count); /* as the launcher numbers us */
void late_end(void);                               /* all have come */

#endif
