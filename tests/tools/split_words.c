/* split_words.c - the scanners of src/data/presplit.c, for tests/oracle/test_tokenize.py.
 *
 *     split_words classes        a digit (enum char_class) for every code point
 *     split_words KIND FILE      the end of each word of the file in bytes, a line each; KIND is a number */
#include "base/os.h"
#include "data/presplit.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct arena perm    = arena_open((i64)1 << 30);
    const u8    *classes = char_classes(&perm);
    struct str   text;
    struct err   err;
    if (argc == 2)
        for (i32 code = 0; code < 0x110000; code++) putchar('0' + classes[code]);
    if (argc != 3) return argc != 2;
    if (os_read_all(os_real(), str_of(argv[2]), &perm, &text, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return (int)err.status;
    }
    enum presplit kind = (enum presplit)atoi(argv[1]);
    for (i64 at = 0; at < text.len;) {
        at = presplit_end(kind, classes, text, at);
        printf("%lld\n", (long long)at);
    }
    return 0;
}
