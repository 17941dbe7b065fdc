/* arena.c - reserved address space, handed out from the front.
 *
 *   head | taken ............ | fresh, known to be zero ......... |
 *        ^ base        begin ^ ... ^ head->used                   ^ end
 *
 * A scratch copy gives bytes back without telling anyone, so the same bytes are taken again and
 * may be dirty. `used`, the highest byte ever taken through any copy, lies in the reservation
 * itself: only what lies below it is cleared, and fresh pages stay untouched until used. */
#include "base/arena.h"
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

struct arena_head {
    u8 *used;         /* nothing at or above was ever handed out */
    i64 mapped_bytes; /* 0: a part, whose pages belong to another arena */
};

static const i64 huge_page_bytes = 2 << 20;
static const i64 head_bytes      = 64; /* keeps the first item on a cache line of its own */

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
    head->used              = used;
    head->mapped_bytes      = mapped_bytes;
    return (struct arena){ base + head_bytes, base + bytes, head };
}

struct arena arena_open(i64 reserve_bytes)
{
    i64 bytes = reserve_bytes + head_bytes;
    u8 *base  = map_pages(bytes, MAP_NORESERVE);
    if (!base) return (struct arena){ 0 };
    return arena_over(base, bytes, bytes, base + head_bytes);
}

void arena_close(struct arena *a)
{
    ASSERT(a->head);
    ASSERT(a->head->mapped_bytes > 0);
    pages_close(a->head, a->head->mapped_bytes);
    *a = (struct arena){ 0 };
}

/* The next `count` items, as they were left; how much of them may be dirty goes to dirty_bytes. */
static u8 *take_dirty(struct arena *a, i64 count, i64 item_bytes, i64 align, i64 *dirty_bytes)
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
    }
    return p;
}

void *arena_take(struct arena *a, i64 count, i64 item_bytes, i64 align)
{
    i64 dirty_bytes;
    u8 *p = take_dirty(a, count, item_bytes, align, &dirty_bytes);
    memset(p, 0, (size_t)dirty_bytes);
    return p;
}

struct arena arena_part(struct arena *a, i64 bytes)
{
    ASSERT(bytes >= 0);
    i64 dirty_bytes;
    u8 *base = take_dirty(a, head_bytes + bytes, 1, head_bytes, &dirty_bytes);
    u8 *used = base + MAX(head_bytes, dirty_bytes);
    return arena_over(base, head_bytes + bytes, 0, used);
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
