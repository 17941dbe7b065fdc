/* mpi_int.h - what the two ABIs of MPI share: mpi.c opens one and watches over it, mpi_openmpi.c and mpi_mpich.c call
 * it. */
#ifndef BACKEND_RANKS_MPI_INT_H
#define BACKEND_RANKS_MPI_INT_H
#include "backend/ranks/mpi.h"

struct mpi_peer {
    u64 machine; /* a hash of its name */
    i64 pid;
};

/* One call that is under way: the ABI's own handle fits in it. */
union mpi_request {
    void *pointer;
    int   number;
};

struct mpi_calls; /* of one ABI */
struct mpi {
    struct ranks          base;
    struct os            *os;
    i64                   limit_ns;
    struct mpi_peer      *peers; /* by rank; NULL: not known yet */
    const struct mpi_abi *abi;
    struct mpi_calls     *calls;
    int                  *counts, *places, *own, *at; /* [count]: what MPI wants as int */
};

/* The calls return what MPI does: 0 is success. They begin; `test` says whether the request is done. */
struct mpi_abi {
    const char *name;
    /* The library has all that is needed: fills m->calls. */
    bool (*load)(struct mpi *m, void *library, struct arena *perm);
    int (*init)(struct mpi *m, int *thread_level);
    int (*size)(struct mpi *m, int *rank, int *count);
    int (*exchange)(struct mpi *m, const void *from, void *to, union mpi_request *);
    int (*gather)(struct mpi *m, void *data, union mpi_request *);
    int (*spread)(struct mpi *m, void *data, int bytes, int root, union mpi_request *);
    int (*test)(struct mpi *m, union mpi_request *, int *done);
    int (*end)(struct mpi *m);
};

enum { MPI_LEVEL_FUNNELED = 1 }; /* MPI_THREAD_FUNNELED in both: one thread calls it */

extern const struct mpi_abi mpi_openmpi, mpi_mpich;

#endif
