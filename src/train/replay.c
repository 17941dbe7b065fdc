/* replay.c - batches kept and given again. */
#include "train/replay.h"
#include <string.h>

static void keep(struct replay *r, const struct batch *b, const struct feeds *feeds, struct arena *perm)
{
    struct batch *copy = &r->kept[r->count++];
    *copy              = *b;
    for (i32 f = 0; f < feeds->count; f++) {
        i64   bytes = b->count * type_bytes(feeds->feed[f].type);
        void *data  = NEW(perm, u8, bytes);
        copy->data[f] = memcpy(data, b->data[f], (size_t)bytes);
    }
}

struct batch *replay_next(struct replay *r, struct loader *l, const struct feeds *feeds, struct arena *perm)
{
    if (r->wanted && r->count == r->wanted) return &r->kept[r->next++ % r->count];
    struct batch *b = loader_next(l);
    if (r->wanted && b) keep(r, b, feeds, perm);
    return b;
}
