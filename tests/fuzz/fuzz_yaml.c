/* Any bytes at all: yaml_parse gives a tree or a sentence, and stays inside its input. */
#include "base/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static i64 count_nodes(const struct yaml *v)
{
    i64 nodes = 1, children = 0;
    for (const struct yaml *c = v->first; c; c = c->next, children++) nodes += count_nodes(c);
    ASSERT(children == v->count);
    return nodes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena perm = arena_open((i64)64 << 20);
    struct yaml *v;
    struct err   err  = { 0 };
    struct str   text = { (const char *)data, (i64)bytes };
    enum status  st   = yaml_parse(&perm, STR("f"), text, &v, &err);
    ASSERT(st ? !v && str_starts(str_of(err.text), STR("f:")) : count_nodes(v) <= (i64)bytes + 1);
    arena_close(&perm);
    return 0;
}
