/* loading.c - weights from files to the device by many threads.
 *
 * One core copies some 5 to 10 GB/s out of the page cache, and the link takes 50: each thread has a stream and two
 * pieces of pinned memory of its own, and fills one while the other crosses. */
#include "backend/cuda/module/loading.h"

enum { SLOTS = 2, LANES_MAX = 32 }; /* 128 MiB of pinned memory at most */

struct lane {
    cudaStream_t stream;
    u8          *pinned[SLOTS];
    cudaEvent_t  done[SLOTS];
    i64          parts; /* so far */
    cudaError_t  failed;
};

struct loading {
    u8                        *arena;
    const struct backend_part *parts;
    backend_fill              *fill;
    void                      *context;
    i64                        count;
    i32                        lanes;
    struct lane                lane[LANES_MAX];
};

static cudaError_t lane_open(struct lane *l, u8 *pinned)
{
    cudaError_t e = cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking);
    for (i32 i = 0; i < SLOTS; i++) {
        l->pinned[i] = pinned + (i64)i * BACKEND_PART_BYTES;
        if (e == cudaSuccess)
            e = cudaEventCreateWithFlags(&l->done[i],
                                         cudaEventDisableTiming | cudaEventBlockingSync);
    }
    return e;
}

static void lane_close(struct lane *l)
{
    for (i32 i = 0; i < SLOTS; i++)
        if (l->done[i]) cudaEventDestroy(l->done[i]);
    if (l->stream) cudaStreamDestroy(l->stream);
}

static cudaError_t load_part(struct loading *all, struct lane *l, i64 index, i32 worker)
{
    const struct backend_part *part = &all->parts[index];
    i64                        slot = l->parts % SLOTS;
    cudaError_t e = l->parts >= SLOTS ? cudaEventSynchronize(l->done[slot]) : cudaSuccess;
    if (e != cudaSuccess) return e;
    all->fill(all->context, index, l->pinned[slot], worker);
    e = cudaMemcpyAsync(all->arena + part->offset, l->pinned[slot], (size_t)part->bytes,
                        cudaMemcpyHostToDevice, l->stream);
    l->parts++;
    return e == cudaSuccess ? cudaEventRecord(l->done[slot], l->stream) : e;
}

/* Lane by lane: neighbours in the files are read by one thread. */
static void load_lane(void *context, i64 index, i32 worker)
{
    struct loading *all = context;
    struct lane    *l   = &all->lane[index];
    i64 begin = all->count * index / all->lanes, end = all->count * (index + 1) / all->lanes;
    for (i64 i = begin; l->failed == cudaSuccess && i < end; i++)
        l->failed = load_part(all, l, i, worker);
    if (l->failed == cudaSuccess) l->failed = cudaStreamSynchronize(l->stream);
}

cudaError_t loading_run(u8 *arena, const struct backend_part *parts, i64 count, struct pool *pool,
                        backend_fill *fill, void *context)
{
    struct loading all    = { arena, parts, fill, context, count, 0, { { 0 } } };
    void          *pinned = NULL;
    all.lanes             = (i32)MAX(1, MIN(MIN((i64)pool_threads(pool), LANES_MAX), count));
    i64         each      = (i64)SLOTS * BACKEND_PART_BYTES;
    cudaError_t e = cudaHostAlloc(&pinned, (size_t)(all.lanes * each), cudaHostAllocDefault);
    for (i32 i = 0; e == cudaSuccess && i < all.lanes; i++)
        e = lane_open(&all.lane[i], (u8 *)pinned + i * each);
    if (e == cudaSuccess) pool_run(pool, all.lanes, load_lane, &all);
    for (i32 i = 0; i < all.lanes; i++) {
        if (e == cudaSuccess) e = all.lane[i].failed;
        lane_close(&all.lane[i]);
    }
    if (pinned) cudaFreeHost(pinned);
    return e;
}
