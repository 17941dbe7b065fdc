/* mpi_openmpi.c - Open MPI: handles are the addresses of variables of the library (mpi.h of 4.1 and 5.0). */
#include "backend/ranks/mpi_int.h"

typedef void *handle;
#define ABI mpi_openmpi
#define ABI_NAME "Open MPI"
#define IN_PLACE ((void *)1)
#define NO_STATUS NULL
#define HANDLE(r) (&(r)->pointer)
#include "backend/ranks/mpi_calls.h"

static bool handles(struct mpi_calls *c, void *library)
{
    return find(library, "ompi_mpi_comm_world", &c->world) &&
           find(library, "ompi_mpi_byte", &c->byte) &&
           find(library, "ompi_mpi_errors_return", &c->errors_return);
}
