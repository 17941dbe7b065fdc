/* Any bytes at all: json_parse gives a tree or a sentence, and stays inside its input. */
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static i64 count_nodes(const struct json *v)
{
    i64 nodes = 1, children = 0;
    for (const struct json *c = v->first; c; c = c->next, children++) nodes += count_nodes(c);
    ASSERT(children == v->count);
    return nodes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena perm = arena_open((i64)64 << 20);
    struct json *v;
    struct err   err = { 0 };
    enum status  st  = json_parse(&perm, (struct str){ (const char *)data, (i64)bytes }, &v, &err);
    ASSERT(st ? !v && err.text[0] : count_nodes(v) <= (i64)bytes);
    arena_close(&perm);
    return 0;
}
