/* texts.h - the files of text that a user means: a file as it is, of a folder all that lies below it, by name.
 * `frugal tokenize` reads them in this order. */
#ifndef DATA_TEXTS_H
#define DATA_TEXTS_H
#include "base/os.h"

enum { TEXTS_MAX = 1 << 20, TEXTS_DEEP_MAX = 32 };

struct texts {
    struct str *paths;
    i64         count;
};

/* USAGE: there are more, or folders lie deeper. */
enum status texts_find(struct os *os, const struct str *from, i64 from_count, struct arena *perm,
                       struct texts *out, struct err *err);

#endif
