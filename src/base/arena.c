/* arena.c - reserved address space, handed out from the front.
 *
 *   head | taken ............ | fresh, known to be zero ......... |
 *        ^ base        begin ^ ... ^ head->used                   ^ end
 *
 * A scratch copy gives bytes back without telling anyone, so the same bytes are taken again and
 * may be dirty. `used`, the highest byte ever taken through any copy, lies in the reservation
 * itself: only what lies below it is cleared, and fresh pages stay untouched until used.
 *
 * Where address space is scarce (ulimit -v, or a kernel that does not overcommit) nothing is reserved: the
 * arena is a range of addresses that nobody else gets, and its chunks are mapped when they are taken. */
#include "base/arena.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

struct chunks { /* behind the head of an arena whose pages come one by one */
    u8           *base;
    i64           count;
    atomic_ullong mapped[]; /* a bit each */
};

struct arena_head {
    u8            *used;         /* nothing at or above was ever handed out */
    i64            mapped_bytes; /* 0: a part, whose pages belong to another arena */
    struct chunks *chunks;       /* NULL: all pages are there */
};

enum { CHUNK_BYTES = 1 << 20, BITS = 64, FREED_MAX = 64 };

/* Where addresses have 32 bits (src/wasm), a reservation is about what one question to the planner needs. */
static const i64 reserve_max_bytes = sizeof(void *) < 8 ? (i64)128 << 20 : INT64_MAX;
static const i64 huge_page_bytes   = 2 << 20;
static const i64 head_bytes        = 64; /* keeps the first item on a cache line of its own */

static atomic_llong system_calls;

static void *map_pages(i64 bytes, int extra_flags)
{
    ASSERT(bytes > 0);
    atomic_fetch_add_explicit(&system_calls, 1, memory_order_relaxed);
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | extra_flags, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static struct arena arena_over(u8 *base, i64 bytes, i64 mapped_bytes, u8 *used)
{
    struct arena_head *head = (struct arena_head *)(void *)base;
    *head                   = (struct arena_head){ .used = used, .mapped_bytes = mapped_bytes };
    return (struct arena){ base + head_bytes, base + bytes, head };
}

/* ---- chunk by chunk ---- */

/* Ranges from the middle of the address space, where the kernel puts nothing by itself; those given back
 * are taken again by arenas of the same size. */
static pthread_mutex_t lock       = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t       range_next = (uintptr_t)1 << 45;
static const uintptr_t range_end  = (uintptr_t)5 << 44;
static struct range {
    u8 *base;
    i64 bytes;
} freed[FREED_MAX];

static void (*on_refusal)(i64 bytes);

void arena_on_refusal(void (*tell)(i64 bytes)) { on_refusal = tell; }

static u8 *range_take(i64 bytes)
{
    u8 *base = NULL;
    pthread_mutex_lock(&lock);
    for (i64 i = 0; !base && i < FREED_MAX; i++) {
        if (freed[i].bytes != bytes) continue;
        base     = freed[i].base;
        freed[i] = (struct range){ 0 };
    }
    if (!base && bytes < (i64)(range_end - range_next)) {
        base =
            (u8 *)range_next; /* a chunk between two: whoever writes beyond his end finds no page */
        range_next += (uintptr_t)(bytes + CHUNK_BYTES);
    }
    pthread_mutex_unlock(&lock);
    return base;
}

static void range_give(u8 *base, i64 bytes)
{
    pthread_mutex_lock(&lock);
    for (i64 i = 0; i < FREED_MAX; i++) {
        if (freed[i].bytes) continue;
        freed[i] = (struct range){ base, bytes };
        break;
    }
    pthread_mutex_unlock(&lock);
}

static bool map_at(u8 *at, i64 bytes)
{
    atomic_fetch_add_explicit(&system_calls, 1, memory_order_relaxed);
    void *p = mmap(at, (size_t)bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != MAP_FAILED && p != at) munmap(p, (size_t)bytes); /* a kernel before 4.17 */
    return p == at;
}

static bool is_mapped(const struct chunks *c, i64 i)
{
    return atomic_load(&c->mapped[i / BITS]) >> (i % BITS) & 1;
}

/* Two threads may need the same chunk, each for its own part of the arena. */
static void map_chunk(struct chunks *c, i64 i)
{
    pthread_mutex_lock(&lock);
    bool there = is_mapped(c, i) || map_at(c->base + i * CHUNK_BYTES, CHUNK_BYTES);
    if (there) atomic_fetch_or(&c->mapped[i / BITS], 1ull << (i % BITS));
    pthread_mutex_unlock(&lock);
    if (!there && on_refusal) on_refusal(CHUNK_BYTES);
    ASSERT(there); /* the system has no memory left */
}

static void chunks_need(struct chunks *c, const u8 *from, const u8 *to)
{
    if (from == to) return;
    for (i64 i = (from - c->base) / CHUNK_BYTES; i <= (to - 1 - c->base) / CHUNK_BYTES; i++)
        if (!is_mapped(c, i)) map_chunk(c, i);
}

static struct arena open_chunks(i64 reserve_bytes)
{
    i64 words = reserve_bytes / CHUNK_BYTES / BITS + 2;
    i64 own   = head_bytes + (i64)sizeof(struct chunks) + words * (i64)sizeof(u64);
    own       = (own + head_bytes - 1) / head_bytes * head_bytes;
    i64 count = (own + reserve_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    i64 first = (own + CHUNK_BYTES - 1) / CHUNK_BYTES;
    u8 *base  = range_take(count * CHUNK_BYTES);
    if (base && !map_at(base, first * CHUNK_BYTES)) {
        range_give(base, count * CHUNK_BYTES);
        base = NULL;
    }
    if (!base) return (struct arena){ 0 };
    struct arena a  = arena_over(base, own + reserve_bytes, count * CHUNK_BYTES, base + own);
    a.begin         = base + own;
    a.head->chunks  = (struct chunks *)(void *)(base + head_bytes);
    *a.head->chunks = (struct chunks){ .base = base, .count = count };
    for (i64 i = 0; i < first; i++)
        atomic_fetch_or(&a.head->chunks->mapped[i / BITS], 1ull << (i % BITS));
    return a;
}

static void close_chunks(struct chunks *c)
{
    u8 *base  = c->base;
    i64 count = c->count;
    pages_close(base, count * CHUNK_BYTES); /* holes and all */
    range_give(base, count * CHUNK_BYTES);
}

static bool is_limited(void)
{
    struct rlimit r;
    return !getrlimit(RLIMIT_AS, &r) && r.rlim_cur != RLIM_INFINITY;
}

struct arena arena_open(i64 reserve_bytes)
{
    ASSERT(reserve_bytes >= 0);
    reserve_bytes = MIN(reserve_bytes, reserve_max_bytes);
    i64 bytes     = reserve_bytes + head_bytes;
    u8 *base      = bytes > CHUNK_BYTES && is_limited() ? NULL : map_pages(bytes, MAP_NORESERVE);
    return base ? arena_over(base, bytes, bytes, base + head_bytes) : open_chunks(reserve_bytes);
}

void arena_close(struct arena *a)
{
    ASSERT(a->head);
    ASSERT(a->head->mapped_bytes > 0);
    if (a->head->chunks) close_chunks(a->head->chunks);
    else pages_close(a->head, a->head->mapped_bytes);
    *a = (struct arena){ 0 };
}

/* The next `count` items, as they were left, the first `touched` bytes with pages (< 0: all); how much of
 * them may be dirty goes to dirty_bytes. */
static u8 *take_dirty(struct arena *a, i64 count, i64 item_bytes, i64 align, i64 touched,
                      i64 *dirty_bytes)
{
    ASSERT(a->begin);
    ASSERT(count >= 0);
    ASSERT(item_bytes > 0);
    ASSERT(align > 0 && (align & (align - 1)) == 0);
    i64 pad  = (i64)(-(uintptr_t)a->begin & (uintptr_t)(align - 1));
    i64 room = a->end - a->begin - pad;
    ASSERT(room >= 0 && count <= room / item_bytes); /* the arena is full */
    i64 bytes    = count * item_bytes;
    u8 *p        = a->begin + pad;
    a->begin     = p + bytes;
    *dirty_bytes = bytes;
    if (a->head) {
        *dirty_bytes  = MAX(0, MIN(bytes, a->head->used - p));
        a->head->used = MAX(a->head->used, a->begin);
        if (a->head->chunks) chunks_need(a->head->chunks, p, p + (touched < 0 ? bytes : touched));
    }
    return p;
}

void *arena_take(struct arena *a, i64 count, i64 item_bytes, i64 align)
{
    i64 dirty_bytes;
    u8 *p = take_dirty(a, count, item_bytes, align, -1, &dirty_bytes);
    memset(p, 0, (size_t)dirty_bytes);
    return p;
}

struct arena arena_part(struct arena *a, i64 bytes)
{
    ASSERT(bytes >= 0);
    i64          dirty_bytes;
    u8          *base = take_dirty(a, head_bytes + bytes, 1, head_bytes, head_bytes, &dirty_bytes);
    u8          *used = base + MAX(head_bytes, dirty_bytes);
    struct arena part = arena_over(base, head_bytes + bytes, 0, used);
    part.head->chunks = a->head ? a->head->chunks : NULL;
    return part;
}

i64 arena_system_calls(void) { return atomic_load(&system_calls); }

void *pages_open(i64 bytes)
{
    void *p = map_pages(bytes, 0);
    /* Advice only: fewer page faults and address misses on big arenas. */
    if (p && bytes >= huge_page_bytes) (void)madvise(p, (size_t)bytes, MADV_HUGEPAGE);
    return p;
}

void pages_close(void *p, i64 bytes)
{
    if (p) ASSERT(munmap(p, (size_t)bytes) == 0);
}
