/* planted.c - a target with a known fault, which the driver must find: tests/fuzz/test_driver.sh. */
#include "base/types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    ASSERT(!(bytes >= 2 && data[0] == '{' && data[1] == '"'));
    return 0;
}
