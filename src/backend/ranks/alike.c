/* alike.c - the table behind alike.h. */
#include "backend/ranks/alike.h"
#include <string.h>

static enum status exchange(struct ranks *r, const u8 *from, const i64 *begin, u8 *to,
                            struct err *err)
{
    (void)r, (void)from, (void)begin, (void)to;
    return err_set(err, STATUS_WORLD, "these ranks do not run");
}

static enum status gather(struct ranks *r, u8 *data, const i64 *begin, struct err *err)
{
    i64 own = begin[r->rank + 1] - begin[r->rank];
    (void)err;
    for (i32 i = 0; i < r->count; i++)
        if (i != r->rank)
            memcpy(data + begin[i], data + begin[r->rank],
                   (size_t)MIN(own, begin[i + 1] - begin[i]));
    return STATUS_OK;
}

static enum status spread(struct ranks *r, i32 root, void *data, i64 bytes, struct err *err)
{
    (void)r, (void)root, (void)data, (void)bytes, (void)err;
    return STATUS_OK;
}

static enum status split(struct ranks *r, enum ranks_over over, i32 group, i32 place, i32 count,
                         struct err *err)
{
    (void)r, (void)over, (void)group, (void)place, (void)count, (void)err;
    return STATUS_OK;
}

static void end(struct ranks *r) { (void)r; }

static const struct ranks_table table = { .name     = "alike",
                                          .exchange = exchange,
                                          .gather   = gather,
                                          .spread   = spread,
                                          .split    = split,
                                          .close    = end };

struct ranks *ranks_alike(struct arena *perm, i32 rank, i32 count, i32 machines)
{
    struct ranks *r  = NEW(perm, struct ranks, 1);
    u64          *at = NEW(perm, u64, count);
    ASSERT(rank >= 0 && rank < count && count <= RANKS_MAX && count % machines == 0);
    struct pool_cores all;
    pool_cores_of(0, &all);
    for (i32 i = 0; i < count; i++) at[i] = (u64)(i / (count / machines));
    *r = (struct ranks){ .table      = &table,
                         .rank       = rank,
                         .count      = count,
                         .locals     = 1,
                         .machines   = count,
                         .cores      = pool_cores_count(&all),
                         .cores_any  = pool_cores_count(&all),
                         .machine_of = at,
                         .speaks     = true,
                         .shown      = true };
    return r;
}
