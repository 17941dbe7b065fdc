/* several.c - from a launcher's environment to ranks. */
#include "job/several.h"
#include "backend/ranks/mpi.h"
#include "base/hash.h"
#include "job/meet.h"

struct several several_announced(struct os *os)
{
    struct several s = { mpi_rank_announced(os), mpi_ranks_announced(os), false };
    s.meets          = meet_announced(os, &s.rank, &s.count);
    return s;
}

enum status several_open(struct os *os, f64 join_s, struct arena *perm, struct ranks **out,
                         struct err *err)
{
    bool one = os->env(os, "FRUGAL_ONE_RANK").len > 0; /* to see what ranks cost by themselves */
    *out     = NULL;
    if (mpi_ranks_announced(os) <= 1 && !one) return STATUS_OK;
    return mpi_ranks_open(os, (i64)(join_s * 1e9), perm, out, err);
}

bool several_speaks(struct os *os, const struct ranks *r)
{
    if (r) return r->speaks;
    struct several s = several_announced(os);
    return s.count <= 1 || s.rank == 0;
}

enum status several_agree(struct ranks *r, enum status st, struct err *err)
{
    return ranks_agree(r, st, err);
}

enum status several_same(struct ranks *r, struct str changed, struct err *err)
{
    i32 other = r ? ranks_differs(r, xxh64(STR(FRUGAL_VERSION))) : 0;
    if (other)
        return err_set(err, STATUS_USAGE,
                       "rank %d has another version of frugal than rank 0, which has %s: install "
                       "the same on all machines",
                       other, FRUGAL_VERSION);
    if (r) other = ranks_differs(r, xxh64(changed));
    if (!other) return STATUS_OK;
    return err_set(err, STATUS_USAGE,
                   "rank %d has other settings than rank 0: all ranks need the same run file, "
                   "arguments and FRUGAL_ variables",
                   other);
}

void several_close(struct ranks *r) { ranks_close(r); }
