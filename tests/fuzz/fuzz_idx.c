/* fuzz_idx.c - any bytes as an IDX file: refused with a sentence, or every byte it speaks of is there. */
#include "data/data_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct idx x;
    struct err err = { 0 };
    struct str in  = { (const char *)data, (i64)bytes };
    if (idx_parse(STR("fuzz"), in, &x, &err)) {
        ASSERT(err.text[0] != '\0');
        return 0;
    }
    i64 items = 1;
    for (i32 i = 0; i < x.rank; i++) items *= x.dim[i];
    ASSERT(x.data + items == data + bytes);
    return 0;
}
