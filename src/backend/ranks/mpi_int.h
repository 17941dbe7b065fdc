/* mpi_int.h - what the two ABIs of MPI share: mpi.c opens one and watches over it, mpi_openmpi.c and mpi_mpich.c call
 * it. */
#ifndef BACKEND_RANKS_MPI_INT_H
#define BACKEND_RANKS_MPI_INT_H
#include "backend/ranks/mpi.h"

struct mpi_peer {
    u64 machine; /* a hash of its name */
    u64 shards;  /* of the name that FRUGAL_MACHINE gives it, or of the same */
    i64 pid;
};

/* One call that is under way, or a communicator: the ABI's own handle fits in it. */
union mpi_handle {
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
    union mpi_handle      comm;
    struct mpi           *groups[OVER_COUNT];         /* room for those of ranks_by_machine */
    int                  *counts, *places, *own, *at; /* [count]: what MPI wants as int */
};

/* The calls return what MPI does: 0 is success. They begin; `test` says whether the request is done. */
struct mpi_abi {
    const char *name;
    /* The library has all that is needed: fills m->calls. */
    bool (*load)(struct mpi *m, void *library, struct arena *perm);
    int (*init)(struct mpi *m, int *thread_level);
    int (*size)(struct mpi *m, int *rank, int *count);
    int (*split)(struct mpi *m, int group, int place, struct mpi *to); /* blocks; to->comm */
    int (*exchange)(struct mpi *m, const void *from, void *to, union mpi_handle *);
    int (*gather)(struct mpi *m, void *data, union mpi_handle *);
    int (*spread)(struct mpi *m, void *data, int bytes, int root, union mpi_handle *);
    int (*test)(struct mpi *m, union mpi_handle *, int *done);
    int (*end)(struct mpi *m);
};

enum { MPI_LEVEL_FUNNELED = 1 }; /* MPI_THREAD_FUNNELED in both: one thread calls it */

extern const struct mpi_abi mpi_openmpi, mpi_mpich;

#endif
