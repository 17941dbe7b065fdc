/* fuzz_csv.c - any bytes as CSV: what must hold is in table.h. */
#include "fuzz/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    return fuzz_table(csv_parse, data, bytes);
}
