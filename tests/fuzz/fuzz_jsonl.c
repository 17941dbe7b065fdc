/* fuzz_jsonl.c - any bytes as JSON lines: what must hold is in table.h. */
#include "fuzz/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    return fuzz_table(jsonl_parse, data, bytes);
}
