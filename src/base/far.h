/* far.h - files elsewhere (https://, http://, s3://, gs://), read a range at a time.
 *
 * Who needs them (data) and who can fetch them (store) live on the same floor and may not know each
 * other, so the words they share are here, and `os->far` carries the one to the other: store fills it,
 * train puts it there. NULL there: no file elsewhere can be reached. Any thread may call. */
#ifndef BASE_FAR_H
#define BASE_FAR_H
#include "base/err.h"
#include "base/text.h"
#include <stdatomic.h>

enum { FAR_TAG_MAX = 63 };

struct far_file {
    i64  bytes;
    char tag[FAR_TAG_MAX + 1]; /* of this version: its ETag or time, or a hash of a long one; "" where
                                  the server tells neither */
};

struct far {
    void *context;
    /* NO: there is no such file. */
    enum status (*look)(struct far *, struct str url, const atomic_bool *stop, struct far_file *out,
                        struct err *);
    /* All of them, of that version and no other, or an error after as many tries as the store's rules
     * allow. `stop`, which may be NULL: give up now, with INTERRUPTED. */
    enum status (*read)(struct far *, struct str url, const struct far_file *version, i64 from,
                        i64 count, void *to, const atomic_bool *stop, struct err *);
};

bool       far_is(struct str path);   /* is it elsewhere? */
struct str far_file_path(struct str path); /* of an address without its query; else the path itself */
struct str far_shown(struct arena *perm, struct str url); /* without password and query, for sentences */

#endif
