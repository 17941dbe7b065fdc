/* mpi_mpich.c - MPICH, and Intel's, Cray's and MVAPICH's MPI, which keep its ABI: handles are numbers that are fixed
 * (mpi.h of MPICH 3 and 4; https://www.mpich.org/abi). */
#include "backend/ranks/mpi_int.h"

typedef int handle;
#define ABI mpi_mpich
#define ABI_NAME "MPICH"
#define IN_PLACE ((void *)-1)
#define NO_STATUS ((void *)1)
#define HANDLE(r) (&(r)->number)
#include "backend/ranks/mpi_calls.h"

static bool handles(struct mpi_calls *c, void *library)
{
    c->world         = 0x44000000;
    c->byte          = 0x4c00010d;
    c->errors_return = 0x54000001;
    return !dlsym(library, "ompi_mpi_comm_world");
}
