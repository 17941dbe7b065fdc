/* stage.c - buffers that grow. */
#include "data/stage.h"
#include <string.h>

enum { ROOM_MIN = 1 << 16 }; /* bytes */

enum status buffer_resize(struct buffer *b, i64 bytes, struct err *err)
{
    ASSERT(bytes >= 0);
    if (bytes > b->room) {
        i64 room = ROOM_MIN;
        while (room < bytes) room *= 2;
        u8 *data = pages_open(room);
        if (!data)
            return err_set(err, STATUS_WORLD, "the system refuses %lld bytes for a sample",
                           (long long)room);
        if (b->bytes) memcpy(data, b->data, (size_t)b->bytes);
        pages_close(b->data, b->room);
        b->data = data;
        b->room = room;
    }
    b->bytes = bytes;
    return STATUS_OK;
}

void buffer_release(struct buffer *b)
{
    pages_close(b->data, b->room);
    *b = (struct buffer){ 0 };
}
