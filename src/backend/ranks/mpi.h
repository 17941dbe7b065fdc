/* mpi.h - ranks that a launcher of MPI has started: Open MPI 4 and 5, MPICH and what shares its ABI. The library is
 * found at run time; the program is not linked against it. */
#ifndef BACKEND_RANKS_MPI_H
#define BACKEND_RANKS_MPI_H
#include "backend/ranks/ranks.h"
#include "base/os.h"

/* How many processes a launcher says it has started as ranks of one run; 1: it is alone. */
i32 mpi_ranks_announced(struct os *os);
i32 mpi_rank_announced(struct os *os); /* which of them this is */
/* Loads MPI and meets the others, within limit_ns, which bounds every later wait too. */
enum status mpi_ranks_open(struct os *os, i64 limit_ns, struct arena *perm, struct ranks **out,
                           struct err *err);

#endif
