/* table.h - any bytes as a table with columns l, a, b, c, d, by one of its parsers: refused with a sentence, or every
 * row of every category lies where its column's rows are. */
#ifndef FUZZ_TABLE_H
#define FUZZ_TABLE_H
#include "data/table.h"
#include <math.h>

static int fuzz_table(table_parse *parse, const uint8_t *data, size_t bytes)
{
    const struct data_config config = { .label             = STR("l"),
                                        .numeric           = { STR("a"), STR("b") },
                                        .numeric_count     = 2,
                                        .categorical       = { STR("c"), STR("d") },
                                        .categorical_count = 2,
                                        .buckets           = 10 };
    struct table             t;
    struct err               err  = { 0 };
    struct str               text = { (const char *)data, (i64)bytes };
    if (parse(STR("fuzz"), text, &config, 0, &t, &err)) ASSERT(err.text[0] != '\0');
    else
        for (i64 i = 0; i < t.rows; i++) {
            ASSERT(isfinite(t.y[i]));
            ASSERT(isfinite(t.dense[2 * i]) && isfinite(t.dense[2 * i + 1]));
            ASSERT(t.x[2 * i] >= 0 && t.x[2 * i] < 10);
            ASSERT(t.x[2 * i + 1] >= 10 && t.x[2 * i + 1] < 20);
        }
    if (t.own.begin) arena_close(&t.own);
    return 0;
}

#endif
