/* isa.c - the level of vector instructions in force: the processor's, or less where the environment
 * caps it. Whatever comes in forms for several processors asks kernel_isa() and nothing else, so a
 * cap gives the choices of a processor of that level. */
#include "backend/cpu/kernel.h"
#include "base/os.h"

#define VARIABLE "FRUGAL_VECTORS"
#define WORDS "none, avx2, avx512, avx512bf16, amx"

static const char *const words[ISA_LEVELS] = { "none", "avx2", "avx512", "avx512bf16", "amx" };

const char *isa_word(enum isa isa) { return words[isa]; }

bool isa_find(struct str word, enum isa *out)
{
    for (i32 i = 0; i < ISA_LEVELS; i++) {
        if (!str_eq(word, str_of(words[i]))) continue;
        *out = (enum isa)i;
        return true;
    }
    return false;
}

enum status kernel_isa_cap(enum isa *cap, struct err *err)
{
    struct os *os   = os_real();
    struct str word = os->env(os, VARIABLE);
    *cap            = ISA_AMX;
    if (!word.len || isa_find(word, cap)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, VARIABLE " is %.*s; expected one of " WORDS,
                   (int)MIN(word.len, 80), word.data);
}

enum isa kernel_isa(void)
{
    enum isa cap;
    kernel_isa_cap(&cap, NULL);
    return MIN(processor_isa(), cap);
}
