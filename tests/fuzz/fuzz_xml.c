/* Any bytes at all, as XML and as a file of profiles: what is found lies inside the input. */
#include "remote/credentials.h"
#include "remote/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void walk(struct str s, int depth, struct arena scratch)
{
    struct xml x;
    struct str rest = s;
    while (depth < 8 && xml_next(&rest, &x)) {
        ASSERT(x.whole.data >= s.data && x.whole.data + x.whole.len <= s.data + s.len);
        ASSERT(x.inner.data >= x.whole.data &&
               x.inner.data + x.inner.len <= x.whole.data + x.whole.len);
        ASSERT(xml_text(&scratch, x.inner).len <= x.inner.len);
        walk(x.inner, depth + 1, scratch);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena perm = arena_open((i64)64 << 20);
    struct str   s    = { (const char *)data, (i64)bytes };
    walk(s, 0, perm);
    struct str value = ini_value(s, STR("default"), STR("region"));
    ASSERT(!value.data || (value.data >= s.data && value.data + value.len <= s.data + s.len));
    ASSERT(!value.data || ini_has(s, STR("default")));
    arena_close(&perm);
    return 0;
}
