/* feed.c - looking up a feed by name. */
#include "ir/feed.h"

const struct feed *feeds_find(const struct feeds *f, struct str name)
{
    for (i32 i = 0; i < f->count; i++) {
        if (str_eq(f->feed[i].name, name)) return &f->feed[i];
    }
    return NULL;
}
