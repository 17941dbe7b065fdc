/* mpi_calls.h - the calls of MPI over the handles of one ABI, included once for each (mpi_openmpi.c, mpi_mpich.c): one
 * has pointers where the other has numbers, and the rest is the same. The includer has a type `handle`, defines
 * IN_PLACE, NO_STATUS, HANDLE(r) (the handle in a union mpi_handle), ABI and ABI_NAME (the table and its name), and
 * writes `handles`, which fills the three constants. */
#include <dlfcn.h>
#include <string.h>

struct mpi_calls {
    handle world, byte, errors_return;
    int (*Init_thread)(int *, char ***, int, int *);
    int (*Comm_rank)(handle, int *);
    int (*Comm_size)(handle, int *);
    int (*Comm_set_errhandler)(handle, handle);
    int (*Comm_split)(handle, int, int, handle *);
    int (*Ialltoallv)(const void *, const int *, const int *, handle, void *, const int *,
                      const int *, handle, handle, handle *);
    int (*Iallgatherv)(const void *, int, handle, void *, const int *, const int *, handle, handle,
                       handle *);
    int (*Ibcast)(void *, int, handle, int, handle, handle *);
    int (*Test)(handle *, int *, void *);
    int (*Finalize)(void);
};

static bool handles(struct mpi_calls *c, void *library);

/* ISO C has no cast from data to functions. */
static bool find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);
    memcpy(to, &symbol, sizeof symbol);
    return symbol;
}

static bool load(struct mpi *m, void *library, struct arena *perm)
{
    struct mpi_calls *c = m->calls = NEW(perm, struct mpi_calls, 1);
    return handles(c, library) && find(library, "MPI_Init_thread", &c->Init_thread) &&
           find(library, "MPI_Comm_rank", &c->Comm_rank) &&
           find(library, "MPI_Comm_size", &c->Comm_size) &&
           find(library, "MPI_Comm_set_errhandler", &c->Comm_set_errhandler) &&
           find(library, "MPI_Comm_split", &c->Comm_split) &&
           find(library, "MPI_Ialltoallv", &c->Ialltoallv) &&
           find(library, "MPI_Iallgatherv", &c->Iallgatherv) &&
           find(library, "MPI_Ibcast", &c->Ibcast) && find(library, "MPI_Test", &c->Test) &&
           find(library, "MPI_Finalize", &c->Finalize);
}

static int init(struct mpi *m, int *level)
{
    return m->calls->Init_thread(NULL, NULL, MPI_LEVEL_FUNNELED, level);
}

static int size(struct mpi *m, int *rank, int *count)
{
    struct mpi_calls *c   = m->calls;
    int               bad = c->Comm_set_errhandler(c->world, c->errors_return);
    *HANDLE(&m->comm)     = c->world;
    if (!bad) bad = c->Comm_rank(c->world, rank);
    return bad ? bad : c->Comm_size(c->world, count);
}

static int split(struct mpi *m, int group, int place, struct mpi *to)
{
    struct mpi_calls *c   = m->calls;
    int               bad = c->Comm_split(*HANDLE(&m->comm), group, place, HANDLE(&to->comm));
    return bad ? bad : c->Comm_set_errhandler(*HANDLE(&to->comm), c->errors_return);
}

static int exchange(struct mpi *m, const void *from, void *to, union mpi_handle *r)
{
    struct mpi_calls *c = m->calls;
    return c->Ialltoallv(from, m->counts, m->places, c->byte, to, m->own, m->at, c->byte,
                         *HANDLE(&m->comm), HANDLE(r));
}

static int gather(struct mpi *m, void *data, union mpi_handle *r)
{
    struct mpi_calls *c = m->calls;
    return c->Iallgatherv(IN_PLACE, 0, c->byte, data, m->counts, m->places, c->byte,
                          *HANDLE(&m->comm), HANDLE(r));
}

static int spread(struct mpi *m, void *data, int bytes, int root, union mpi_handle *r)
{
    struct mpi_calls *c = m->calls;
    return c->Ibcast(data, bytes, c->byte, root, *HANDLE(&m->comm), HANDLE(r));
}

static int test(struct mpi *m, union mpi_handle *r, int *done)
{
    return m->calls->Test(HANDLE(r), done, NO_STATUS);
}

static int end(struct mpi *m) { return m->calls->Finalize(); }

const struct mpi_abi ABI = {
    .name     = ABI_NAME,
    .load     = load,
    .init     = init,
    .size     = size,
    .split    = split,
    .exchange = exchange,
    .gather   = gather,
    .spread   = spread,
    .test     = test,
    .end      = end,
};
