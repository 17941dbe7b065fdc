/* Any bytes as CSV or, behind a first byte 1, as JSON lines: rows of two columns, or a sentence. */
#include "data/text_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena all;
    if (!all.begin) all = arena_open((i64)8 << 30);
    struct arena     perm    = all;
    struct str       text    = { (const char *)data, (i64)bytes };
    struct str       names[] = { STR("text"), STR("label") }, values[2] = { { 0 } };
    bool             json = str_starts(text, STR("\1"));
    struct text_rows rows;
    struct err       err = { 0 };
    if (json) text = str_sub(text, 1, text.len);
    enum status st   = text_rows_init(&rows, STR("r"), text, !json, names, 2, perm, &err);
    i64         more = text.len + 1; /* rows have at least a byte */
    while (!st && more-- > 0) {
        struct arena here = perm;
        st                = text_rows_next(&rows, values, &here, &err);
    }
    ASSERT(st);
    ASSERT(st == STATUS_NO || err.text[0]);
    return 0;
}
