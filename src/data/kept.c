/* kept.c - a table by number, and one stretch of memory that is filled from the front.
 *
 * Threads take their piece of it by adding to `used`; an entry can be read as soon as its state says
 * so, which is set last. */
#include "data/kept.h"
#include <string.h>

enum { ALIGN = 64 };
enum state { STATE_NONE, STATE_TAKEN, STATE_THERE };

struct entry {
    atomic_int state;
    i64        width, height, label, bytes;
    u8        *data;
};

struct kept {
    struct arena  arena;
    struct entry *entries;
    u8           *memory;
    i64           room;
    atomic_llong  used, count;
};

struct kept *kept_open(i64 count, i64 bytes)
{
    i64          table = count * (i64)sizeof(struct entry), own = sizeof(struct kept);
    struct arena arena = arena_open(own + table + bytes + 3 * ALIGN);
    if (!arena.begin) return NULL;
    struct kept *k = NEW(&arena, struct kept, 1);
    k->entries     = NEW(&arena, struct entry, count);
    k->memory      = arena_take(&arena, bytes, 1, ALIGN);
    k->room        = bytes;
    k->arena       = arena;
    return k;
}

void kept_close(struct kept *k)
{
    if (!k) return;
    struct arena arena = k->arena;
    arena_close(&arena);
}

bool kept_get(const struct kept *k, struct sample *s)
{
    const struct entry *e = &k->entries[s->number];
    if (atomic_load_explicit(&e->state, memory_order_acquire) != STATE_THERE) return false;
    s->decoded = (struct buffer){ .data = e->data, .bytes = e->bytes, .room = e->bytes };
    s->width   = e->width;
    s->height  = e->height;
    s->label   = e->label;
    return true;
}

void kept_put(struct kept *k, const struct sample *s)
{
    struct entry *e    = &k->entries[s->number];
    int           none = STATE_NONE;
    i64           need = (s->decoded.bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!atomic_compare_exchange_strong(&e->state, &none, STATE_TAKEN)) return;
    i64 at = atomic_fetch_add(&k->used, need);
    if (at + need > k->room) { /* it stays taken: nobody tries again */
        atomic_fetch_sub(&k->used, need);
        return;
    }
    e->width  = s->width;
    e->height = s->height;
    e->label  = s->label;
    e->bytes  = s->decoded.bytes;
    e->data   = k->memory + at;
    memcpy(e->data, s->decoded.data, (size_t)s->decoded.bytes);
    atomic_fetch_add(&k->count, 1);
    atomic_store_explicit(&e->state, STATE_THERE, memory_order_release);
}

i64 kept_count(const struct kept *k) { return k ? atomic_load(&k->count) : 0; }
i64 kept_bytes(const struct kept *k) { return k ? atomic_load(&k->used) : 0; }
