/* threads.c - all ranks meet, each says where its bytes lie, each copies what is for it, all meet again. */
#include "backend/ranks/threads.h"
#include <pthread.h>
#include <string.h>

/* Some of them, or all, who meet. */
struct meeting {
    i32        count, arrived;
    u64        round;
    const u8 **from; /* by rank, of the call at hand */
};

struct member {
    struct ranks         base;
    struct rank_threads *all;
    struct meeting      *meeting;
};

struct rank_threads {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    i32             count;
    i32             left;                 /* the first rank that went away; -1: all are there */
    struct meeting *meetings[OVER_COUNT]; /* by group, of which there are `count` at most */
    struct member  *members[OVER_COUNT];  /* by rank */
    u64            *machine_of;
};

static struct member *member_of(struct ranks *r) { return (struct member *)r; }

/* Until all have come, or one never will. */
static enum status meet(struct ranks *r, struct err *err)
{
    struct rank_threads *t = member_of(r)->all;
    struct meeting      *m = member_of(r)->meeting;
    pthread_mutex_lock(&t->lock);
    u64 round = m->round;
    if (++m->arrived == m->count) {
        m->arrived = 0;
        m->round++;
        pthread_cond_broadcast(&t->changed);
    }
    while (m->round == round && t->left < 0) pthread_cond_wait(&t->changed, &t->lock);
    i32 left = m->round == round ? t->left : -1;
    pthread_mutex_unlock(&t->lock);
    return left < 0 ? STATUS_OK : err_set(err, STATUS_WORLD, "rank %d has ended", left);
}

static enum status show(struct ranks *r, const void *from, struct err *err)
{
    member_of(r)->meeting->from[r->rank] = from;
    return meet(r, err);
}

static enum status exchange(struct ranks *r, const u8 *from, const i64 *begin, u8 *to,
                            struct err *err)
{
    i64         first = begin[r->rank], bytes = begin[r->rank + 1] - first;
    enum status st = show(r, from, err);
    for (i32 i = 0; !st && i < r->count; i++)
        memcpy(to + i * bytes, member_of(r)->meeting->from[i] + first, (size_t)bytes);
    return st ? st : meet(r, err);
}

static enum status gather(struct ranks *r, u8 *data, const i64 *begin, struct err *err)
{
    enum status st = show(r, data, err);
    for (i32 i = 0; !st && i < r->count; i++) {
        const u8 *from = member_of(r)->meeting->from[i];
        if (i != r->rank)
            memcpy(data + begin[i], from + begin[i], (size_t)(begin[i + 1] - begin[i]));
    }
    return st ? st : meet(r, err);
}

static enum status spread(struct ranks *r, i32 root, void *data, i64 bytes, struct err *err)
{
    enum status st = show(r, data, err);
    if (!st && r->rank != root) memcpy(data, member_of(r)->meeting->from[root], (size_t)bytes);
    return st ? st : meet(r, err);
}

/* What a group shares is there already; all of them write the same number to it. */
static enum status split(struct ranks *r, enum ranks_over over, i32 group, i32 place, i32 count,
                         struct err *err)
{
    struct rank_threads *t = member_of(r)->all;
    struct member       *m = &t->members[over][r->rank];
    *m = (struct member){ { .table = r->table, .rank = place, .count = count, .whole = r },
                          t,
                          &t->meetings[over][group] };
    pthread_mutex_lock(&t->lock);
    m->meeting->count = count;
    pthread_mutex_unlock(&t->lock);
    r->over[over] = &m->base;
    (void)err;
    return STATUS_OK;
}

static void leave(struct ranks *r) { rank_threads_left(member_of(r)->all, r->rank); }

static const struct ranks_table table = { .name     = "threads",
                                          .exchange = exchange,
                                          .gather   = gather,
                                          .spread   = spread,
                                          .split    = split,
                                          .close    = leave };

static struct meeting *meetings_new(struct arena *perm, i32 count)
{
    struct meeting *m = NEW(perm, struct meeting, count);
    for (i32 i = 0; i < count; i++)
        m[i] = (struct meeting){ count, 0, 0, NEW(perm, const u8 *, count) };
    return m;
}

struct rank_threads *rank_threads_new(struct arena *perm, i32 count)
{
    return rank_threads_on(perm, count, 1);
}

struct rank_threads *rank_threads_on(struct arena *perm, i32 count, i32 machines)
{
    struct rank_threads *t = NEW(perm, struct rank_threads, 1);
    ASSERT(count >= 1 && count <= RANKS_MAX && machines >= 1);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    struct pool_cores all;
    pool_cores_of(0, &all);
    t->count      = count;
    t->left       = -1;
    t->machine_of = NEW(perm, u64, count);
    for (i32 i = 0; i < OVER_COUNT; i++) {
        t->meetings[i] = meetings_new(perm, count);
        t->members[i]  = NEW(perm, struct member, count);
    }
    for (i32 i = 0; i < count; i++) {
        t->machine_of[i]        = (u64)(i % machines);
        t->members[OVER_ALL][i] = (struct member){ { .table      = &table,
                                                     .rank       = i,
                                                     .count      = count,
                                                     .local      = i,
                                                     .locals     = count,
                                                     .machines   = 1,
                                                     .cores      = pool_cores_count(&all) / count,
                                                     .cores_any  = pool_cores_count(&all),
                                                     .machine_of = t->machine_of,
                                                     .speaks     = !i },
                                                   t,
                                                   t->meetings[OVER_ALL] };
    }
    return t;
}

struct ranks *rank_threads_rank(struct rank_threads *t, i32 rank)
{
    return &t->members[OVER_ALL][rank].base;
}

void rank_threads_left(struct rank_threads *t, i32 rank)
{
    pthread_mutex_lock(&t->lock);
    if (t->left < 0) t->left = rank;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}
