/* Any text as a program: refused with a sentence, or verified without harm; and what the verifier
 * lets through prints as a text that reads back to itself. */
#include "ir/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena    perm = arena_open((i64)1 << 30), scratch = arena_open((i64)1 << 28);
    struct str      text = { (const char *)data, (i64)bytes };
    struct program *p, *again;
    struct err      err = { 0 };
    if (program_parse(&perm, text, &p, &err) || program_verify(p, scratch, &err)) {
        ASSERT(err.text[0] != '\0');
    } else {
        struct str first = program_print(p, &perm, scratch);
        ASSERT(program_parse(&perm, first, &again, &err) == STATUS_OK);
        ASSERT(str_eq(first, program_print(again, &perm, scratch)));
    }
    arena_close(&perm);
    arena_close(&scratch);
    return 0;
}
