/* replay.c - batches kept and given again. */
#include "train/replay.h"
#include <string.h>

struct batch *replay_next(struct replay *r)
{
    return r->wanted && r->count == r->wanted ? &r->kept[r->next++ % r->count] : NULL;
}

void replay_keep(struct replay *r, const struct batch *b, const struct feeds *feeds,
                 struct arena *perm)
{
    if (!b || r->count == r->wanted) return;
    struct batch *copy = &r->kept[r->count++];
    *copy              = *b;
    for (i32 f = 0; f < feeds->count; f++) {
        i64   bytes   = b->count * type_bytes(feeds->feed[f].type);
        void *data    = NEW(perm, u8, bytes);
        copy->data[f] = memcpy(data, b->data[f], (size_t)bytes);
    }
}
