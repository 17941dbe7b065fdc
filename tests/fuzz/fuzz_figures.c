/* Any bytes behind a table's header: what is kept of them are whole rows of steps that happened. */
#include "run/figures_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena perm;
    if (!perm.begin) perm = arena_open((i64)1 << 30);
    struct arena here   = perm;
    struct str   header = STR("step,loss\n"), rest = { (const char *)data, (i64)bytes }, line;
    struct str   kept = csv_sink_kept(str_cat(&here, header, rest), header, 1000);
    ASSERT(str_starts(kept, header));
    ASSERT(str_ends(kept, STR("\n")));
    ASSERT(kept.len <= header.len + rest.len);
    rest = str_sub(kept, header.len, kept.len);
    while (str_cut(&rest, '\n', &line)) {
        i64        step;
        struct str first;
        ASSERT(str_cut(&line, ',', &first) && str_i64(first, &step) && step <= 1000);
    }
    return 0;
}
