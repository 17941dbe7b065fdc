/* ranks.c - sums over ranks from three ways to carry bytes. */
#include "backend/ranks/ranks.h"
#include "base/os.h"
#include <stdio.h>
#include <string.h>

static struct timed {
    struct os *os;
    i64        begin_ns;
} begin_timed(void)
{
    struct os *os = os_real();
    return (struct timed){ os, os->now_ns(os) };
}

static struct ranks *whole(struct ranks *r) { return r->whole ? r->whole : r; }

/* Keeps the first failure, of whichever group: what comes after it means nothing. */
static enum status done(struct ranks *r, struct timed t, enum status st, const struct err *err)
{
    struct ranks *all = whole(r);
    all->busy_ns += t.os->now_ns(t.os) - t.begin_ns;
    if (st && !all->failed.status) all->failed = *err;
    if (st) all->failed.status = st;
    return st;
}

/* Of parts [begin[i], begin[i + 1]): the others' of what this rank holds; its own, to each of them. */
static void note_exchange(struct ranks *r, const i64 *begin)
{
    whole(r)->sent_bytes += begin[r->count] - begin[0] - (begin[r->rank + 1] - begin[r->rank]);
}

static void note_gather(struct ranks *r, const i64 *begin)
{
    whole(r)->sent_bytes += (begin[r->rank + 1] - begin[r->rank]) * (r->count - 1);
}

static enum status failed(struct ranks *r) { return whole(r)->failed.status; }

static void cut(const struct ranks *r, i64 count, i64 item, i64 *begin)
{
    for (i32 i = 0; i <= r->count; i++) begin[i] = ranks_begin(count, r->count, i) * item;
}

static void add_f32(f32 *restrict to, const f32 *restrict x, i64 count)
{
    for (i64 i = 0; i < count; i++) to[i] += x[i];
}

static void add_f64(f64 *restrict to, const f64 *restrict x, i64 count)
{
    for (i64 i = 0; i < count; i++) to[i] += x[i];
}

static void take_largest(f32 *restrict to, const f32 *restrict x, i64 count)
{
    for (i64 i = 0; i < count; i++) to[i] = x[i] > to[i] || x[i] != x[i] ? x[i] : to[i];
}

/* `all` holds each rank's `count` numbers, one behind the other: joined in the order of the ranks. */
static void join(const struct ranks *r, enum ranks_join how, enum dtype dtype, const u8 *all,
                 i64 count, u8 *to)
{
    i64 bytes = count * dtype_bytes(dtype);
    memcpy(to, all, (size_t)bytes);
    for (i32 i = 1; i < r->count; i++) {
        const void *x = all + i * bytes;
        if (how == RANKS_LARGEST) take_largest((f32 *)(void *)to, x, count);
        else if (dtype == DT_F64) add_f64((f64 *)(void *)to, x, count);
        else add_f32((f32 *)(void *)to, x, count);
    }
}

enum status ranks_reduce(struct ranks *r, enum ranks_join how, enum dtype dtype, void *data,
                         i64 count, void *work)
{
    i64 item = dtype_bytes(dtype), most = RANKS_CHUNK_BYTES / item, begin[RANKS_MAX + 1];
    ASSERT(dtype == DT_F32 || (dtype == DT_F64 && how == RANKS_SUM));
    if (!r || r->count == 1) return STATUS_OK;
    if (failed(r)) return failed(r);
    struct timed t  = begin_timed();
    struct err   e  = { 0 };
    enum status  st = STATUS_OK;
    for (i64 at = 0; !st && at < count; at += most) {
        u8 *chunk = (u8 *)data + at * item;
        cut(r, MIN(most, count - at), item, begin);
        i64 own = (begin[r->rank + 1] - begin[r->rank]) / item;
        st      = r->table->exchange(r, chunk, begin, work, &e);
        if (st) break;
        join(r, how, dtype, work, own, chunk + begin[r->rank]);
        st = r->table->gather(r, chunk, begin, &e);
        note_exchange(r, begin);
        note_gather(r, begin);
    }
    return done(r, t, st, &e);
}

/* The parts are those of the whole, so chunks are cut inside each of them. */
enum status ranks_reduce_scatter(struct ranks *r, enum dtype dtype, const void *data, i64 count,
                                 void *to, void *work)
{
    i64 item = dtype_bytes(dtype), begin[RANKS_MAX + 1];
    ASSERT((dtype == DT_F32 || dtype == DT_F64) && r);
    if (failed(r)) return failed(r);
    struct timed t = begin_timed();
    struct err   e = { 0 };
    i64 part = ranks_part(count, r->count), most = ranks_scatter_chunk(count, item, r->count);
    enum status st = STATUS_OK;
    for (i64 at = 0; !st && at < part; at += most) {
        i64 now = MIN(most, part - at);
        /* part i of this chunk lies at i * part + at: gathered one behind the other first */
        u8 *packed = (u8 *)work + (i64)r->count * now * item;
        memset(packed, 0, (size_t)((i64)r->count * now * item));
        for (i32 i = 0; i < r->count; i++) {
            i64 from = i * part + at, there = MIN(now, count - from);
            if (there > 0)
                memcpy(packed + i * now * item, (const u8 *)data + from * item,
                       (size_t)(there * item));
        }
        for (i32 i = 0; i <= r->count; i++) begin[i] = i * now * item;
        st = r->table->exchange(r, packed, begin, work, &e);
        if (!st) join(r, RANKS_SUM, dtype, work, now, (u8 *)to + at * item);
        note_exchange(r, begin);
    }
    return done(r, t, st, &e);
}

enum status ranks_gather_parts(struct ranks *r, void *data, const i64 *begin)
{
    if (failed(r)) return failed(r);
    struct timed t = begin_timed();
    struct err   e = { 0 };
    note_gather(r, begin);
    return done(r, t, r->table->gather(r, data, begin, &e), &e);
}

enum status ranks_gather(struct ranks *r, void *data, i64 count, i64 item_bytes)
{
    i64 begin[RANKS_MAX + 1];
    if (!r || r->count == 1) return STATUS_OK;
    cut(r, count, item_bytes, begin);
    return ranks_gather_parts(r, data, begin);
}

enum status ranks_gather_equal(struct ranks *r, const void *own, void *to, i64 count, i64 item)
{
    i64         begin[RANKS_MAX + 1], part = ranks_part(count, r->count);
    enum status st = STATUS_OK;
    for (i32 i = 0; i <= r->count; i++) begin[i] = MIN(i * part, count) * item;
    memcpy((u8 *)to + begin[r->rank], own, (size_t)(begin[r->rank + 1] - begin[r->rank]));
    if (count * item <= INT32_MAX) return ranks_gather_parts(r, to, begin);
    for (i32 i = 0; !st && i < r->count; i++)
        st = ranks_spread(r, i, (u8 *)to + begin[i], begin[i + 1] - begin[i]);
    return st;
}

enum status ranks_spread(struct ranks *r, i32 root, void *data, i64 bytes)
{
    if (!r || r->count == 1) return STATUS_OK;
    if (failed(r)) return failed(r);
    struct timed t  = begin_timed();
    struct err   e  = { 0 };
    enum status  st = STATUS_OK;
    for (i64 at = 0; !st && at < bytes; at += RANKS_CHUNK_BYTES)
        st = r->table->spread(r, root, (u8 *)data + at, MIN(bytes - at, RANKS_CHUNK_BYTES), &e);
    return done(r, t, st, &e);
}

enum status ranks_sum(struct ranks *r, f64 *numbers, i32 count)
{
    enum { NUMBERS_MAX = 8 };
    f64 all[RANKS_MAX * NUMBERS_MAX];
    ASSERT(count <= NUMBERS_MAX);
    if (!r || r->count == 1) return STATUS_OK;
    memcpy(all + r->rank * count, numbers, (size_t)count * sizeof *all);
    enum status st = ranks_gather(r, all, (i64)r->count * count, sizeof *all);
    for (i32 k = 0; !st && k < count; k++) {
        numbers[k] = 0;
        for (i32 i = 0; i < r->count; i++) numbers[k] += all[i * count + k];
    }
    return st;
}

enum status ranks_agree(struct ranks *r, enum status st, struct err *err)
{
    i32        all[RANKS_MAX];
    struct err said = { 0 };
    if (!r || r->count == 1) return st;
    if (r->failed.status) {
        if (!st && err) *err = r->failed;
        return st ? st : r->failed.status;
    }
    all[r->rank]    = (i32)st;
    enum status bad = ranks_gather(r, all, r->count, sizeof *all);
    i32         who = 0;
    while (!bad && who < r->count && !all[who]) who++;
    if (!bad && who == r->count) return STATUS_OK;
    if (err) said = *err;
    if (!bad) bad = ranks_spread(r, who, &said, sizeof said);
    if (bad) {
        if (err) *err = r->failed;
        return bad;
    }
    if (who) {
        i64 len = (i64)strnlen(said.text, sizeof said.text);
        snprintf(said.text + len, sizeof said.text - (size_t)len, " (rank %d)", who);
    }
    if (err) *err = said;
    return (enum status)all[who];
}

/* --- cores --- */

/* A launcher that binds gives each rank cores of its own, or some to several; one that does not gives all to all. */
void ranks_share_cores(struct ranks *r, const struct pool_cores *of)
{
    i64 shared_by[RANKS_MAX + 1] = { 0 };
    r->cores = r->cores_any = 0;
    for (i64 core = 0; core < POOL_CORES_MAX; core++) {
        u64 bit    = (u64)1 << core % 64;
        i64 word   = core / 64;
        i32 sharer = 0;
        for (i32 i = 0; i < r->locals; i++) sharer += (of[i].word[word] & bit) != 0;
        r->cores_any += sharer > 0;
        if (of[r->local].word[word] & bit) shared_by[sharer]++;
    }
    for (i32 n = 1; n <= r->locals; n++) r->cores += shared_by[n] / n;
}

i32 ranks_threads(const struct ranks *r, i64 quota)
{
    return (i32)MAX(1, MIN(r->cores, quota / r->locals));
}

/* --- groups --- */

struct ranks *ranks_over(struct ranks *r, i64 over)
{
    if (!r || over == OVER_ALL) return r;
    ASSERT(over < OVER_COUNT && r->over[over]);
    return r->over[over];
}

/* Of the ranks before `rank`: how many share its machine, and how many machines have come before its own. */
static void place_of(const struct ranks *r, i32 rank, i32 *place, i32 *machine)
{
    i32 first = rank; /* of its machine */
    *place = *machine = 0;
    for (i32 i = rank - 1; i >= 0; i--) {
        if (r->machine_of[i] != r->machine_of[rank]) continue;
        first = i;
        ++*place;
    }
    for (i32 i = 0; i < first; i++) {
        i32 before = 0;
        while (r->machine_of[before] != r->machine_of[i]) before++;
        *machine += before == i;
    }
}

static i32 count_of_machine(const struct ranks *r, i32 rank)
{
    i32 count = 0;
    for (i32 i = 0; i < r->count; i++) count += r->machine_of[i] == r->machine_of[rank];
    return count;
}

i32 ranks_holder(const struct ranks *r, i32 place)
{
    i32 rank = 0;
    for (i32 seen = -1; rank < r->count; rank++) {
        seen += r->machine_of[rank] == r->machine_of[0];
        if (seen == place) break;
    }
    ASSERT(rank < r->count);
    return rank;
}

enum status ranks_by_machine(struct ranks *r, i32 *place, i32 *places, struct err *err)
{
    i32 machine, each = count_of_machine(r, 0);
    for (i32 i = 1; i < r->count; i++)
        if (count_of_machine(r, i) != each)
            return err_set(
                err, STATUS_USAGE,
                "train.shard_over=machine needs as many ranks on every machine: rank 0's "
                "has %d and rank %d's %d",
                each, i, count_of_machine(r, i));
    place_of(r, r->rank, place, &machine);
    *places = each;
    if (each == 1 || each == r->count || r->over[OVER_MACHINE]) return STATUS_OK;
    enum status st = r->table->split(r, OVER_MACHINE, machine, *place, each, err);
    if (!st) st = r->table->split(r, OVER_COPIES, *place, machine, r->count / each, err);
    if (st || r->shown) return st;
    r->over[OVER_MACHINE]->group = machine;
    r->over[OVER_COPIES]->group  = *place;
    return STATUS_OK;
}

i32 ranks_differs(struct ranks *r, u64 hash)
{
    u64 all[RANKS_MAX];
    all[r->rank] = hash;
    if (ranks_gather(r, all, r->count, sizeof *all)) return 0;
    i32 i = 1;
    while (i < r->count && all[i] == all[0]) i++;
    return i < r->count ? i : 0;
}

void ranks_close(struct ranks *r)
{
    if (r) r->table->close(r);
}
