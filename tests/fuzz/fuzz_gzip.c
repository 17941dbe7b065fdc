/* Any bytes at all: gzip_unpack gives at most bytes_max bytes or a sentence. As a mutated input
 * hardly ever keeps its checksum, the interesting part lies before the check: that nothing is
 * read or written where it should not be. */
#include "base/gzip.h"

enum { BYTES_MAX = 100000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static u8    memory[BYTES_MAX]; /* lent, so that the address sanitizer sees its end */
    struct arena perm = { memory, memory + sizeof memory - (bytes & 1 ? 60000 : 0), NULL };
    struct str   out, gz = { (const char *)data, (i64)bytes };
    struct err   err = { 0 };
    enum status  st  = gzip_unpack(&perm, gz, BYTES_MAX, &out, &err);
    ASSERT(st ? err.text[0] && !out.data : out.len <= BYTES_MAX);
    return 0;
}
