/* st_copy.c - st_copy FROM TO: reads a safetensors file and writes its tensors again. */
#include "store/safetensors.h"
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 3) return fprintf(stderr, "usage: %s FROM TO\n", argv[0]), STATUS_USAGE;
    struct arena   perm = arena_open((i64)1 << 30);
    struct os     *os   = os_real();
    struct st_file f;
    struct err     err;
    enum status    st = st_open(os, str_of(argv[1]), &perm, &f, &err);
    if (!st) {
        st = st_save(os, str_of(argv[2]), f.tensors, f.count, perm, &err);
        st_close(os, &f);
    }
    if (st) fprintf(stderr, "%s\n", err.text);
    arena_close(&perm);
    return (int)st;
}
