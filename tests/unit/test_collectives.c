/* test_collectives.c - what ranks send to one another: sums, parts of sums, gathers, one status for all, and the end of
 * a wait for a rank that is gone. The ranks are threads here; tests/cli/test_ranks.sh has processes. */
#include "backend/ranks/threads.h"
#include "base/rng.h"
#include "harness.h"
#include <pthread.h>

enum { RANKS = 4 };

struct peer {
    struct ranks *r;
    pthread_t     thread;
    i64  count, few; /* few: as many as no number of ranks divides, or fewer than there are ranks */
    f32 *sum, *all;
    u8  *work;
    f32  part[4096], whole[4096];
    f64  numbers[3];
    enum status st;
    struct err  err;
};

static void *collect(void *context)
{
    struct peer *p    = context;
    void        *work = p->work;
    for (i64 i = 0; i < p->count; i++) p->sum[i] = p->all[i] = (f32)(i % 97 * (p->r->rank + 1));
    ranks_reduce(p->r, RANKS_SUM, DT_F32, p->sum, p->count, work);
    ranks_reduce_scatter(p->r, DT_F32, p->all, p->few, p->part, work);
    ranks_gather_equal(p->r, p->part, p->whole, p->few, sizeof *p->part);
    ranks_gather(p->r, p->all, p->count, sizeof *p->all);
    for (i64 i = 0; i < 3; i++) p->numbers[i] = (f64)(p->r->rank + i);
    ranks_sum(p->r, p->numbers, 3);
    p->st = p->r->rank == 1 ? err_set(&p->err, STATUS_USAGE, "no such file") : STATUS_OK;
    p->st = ranks_agree(p->r, p->st, &p->err);
    return NULL;
}

TEST(collectives_join_what_all_ranks_have)
{
    i64 large = RANKS_CHUNK_BYTES / 4 + 4999; /* more than one chunk, and no multiple of anything */
    u64 seed  = test_seed();
    for (i32 count = 2; count <= RANKS; count++) {
        u32                  draw = rng_u32((struct rng_key){ .seed = seed }, (u64)count);
        i64                  few  = count == 3 ? 1 : 1 + draw % 4096;
        struct arena         room = *perm;
        struct rank_threads *t    = rank_threads_new(&room, count);
        struct peer         *p    = NEW(&room, struct peer, count);
        for (i32 i = 0; i < count; i++) {
            p[i] = (struct peer){ .r     = rank_threads_rank(t, i),
                                  .count = large,
                                  .few   = few,
                                  .sum   = NEW(&room, f32, large),
                                  .all   = NEW(&room, f32, large),
                                  .work  = NEW(&room, u8, 2 * RANKS_CHUNK_BYTES) };
            CHECK(!pthread_create(&p[i].thread, NULL, collect, &p[i]));
        }
        for (i32 i = 0; i < count; i++) pthread_join(p[i].thread, NULL);
        f32 ones = (f32)(count * (count + 1) / 2);
        i64 part = ranks_part(few, count);
        for (i32 i = 0; i < count; i++) {
            i64 bad = 0;
            for (i64 k = 0; k < large; k++) {
                i32 owner = 0;
                while (k >= ranks_begin(large, count, owner + 1)) owner++;
                bad += p[i].sum[k] != (f32)(k % 97) * ones;
                bad += p[i].all[k] != (f32)(k % 97 * (owner + 1));
            }
            for (i64 k = 0; k < part; k++) {
                i64 at = i * part + k;
                bad += p[i].part[k] != (at < few ? (f32)(at % 97) * ones : 0);
            }
            for (i64 k = 0; k < few; k++) bad += p[i].whole[k] != (f32)(k % 97) * ones;
            CHECK_EQ(bad, 0);
            CHECK_EQ(p[i].numbers[2], (f64)count * (count - 1) / 2 + 2 * count);
            CHECK_EQ(p[i].st, STATUS_USAGE);
            CHECK_STR(p[i].err.text, "no such file (rank 1)");
        }
    }
}

static void *wait_in_vain(void *context)
{
    struct peer *p = context;
    f64          x = 1;
    p->st          = ranks_sum(p->r, &x, 1);
    return NULL;
}

TEST(a_rank_that_is_gone_ends_the_wait_of_the_others)
{
    struct rank_threads *t = rank_threads_new(perm, 2);
    struct peer         *p = NEW(perm, struct peer, 1);
    p->r                   = rank_threads_rank(t, 0);
    CHECK(!pthread_create(&p->thread, NULL, wait_in_vain, p));
    ranks_close(rank_threads_rank(t, 1));
    pthread_join(p->thread, NULL);
    CHECK_EQ(p->st, STATUS_WORLD);
    CHECK_STR(p->r->failed.text, "rank 1 has ended");
    CHECK_EQ(ranks_spread(p->r, 0, &p->count, 8), STATUS_WORLD); /* and at once from then on */
}
