/* source.c - the bytes of a file, mapped. */
#include "data/data_int.h"

enum status source_open(struct os *os, struct str path, const struct data_config *config,
                        struct source *out, struct err *err)
{
    (void)config;
    *out           = (struct source){ 0 };
    enum status st = os->map(os, path, &out->mapped, err);
    if (!st) out->bytes = out->mapped;
    return st;
}

void source_close(struct os *os, struct source *s)
{
    if (s->mapped.len) os->unmap(os, s->mapped);
    if (s->own.begin) arena_close(&s->own);
    *s = (struct source){ 0 };
}
