/* lifecycle.h - a bucket's rules with ours among them, and nobody else's touched.
 *
 * The store replaces all rules at once, so those that are there are read, kept to the letter, and sent
 * back with two of our own for one prefix: unfinished uploads are given up, and what is tagged
 * frugal=retired goes to cold storage. Pure; ckpt_remote_lifecycle reads and writes. */
#ifndef REMOTE_LIFECYCLE_H
#define REMOTE_LIFECYCLE_H
#include "base/err.h"
#include "base/text.h"

struct lifecycle {
    struct str prefix;        /* "runs/7/", or empty: the whole bucket */
    i64        abort_days;    /* after which an unfinished upload is given up */
    i64        cold_days;     /* after which a retired checkpoint goes to ... */
    struct str storage_class; /* "GLACIER_IR" */
};

/* `there`: what the bucket has, empty for nothing. *others: rules that are not ours. WORLD: `there`
 * is not understood, so it must not be replaced. */
enum status lifecycle_merge(struct arena *perm, struct str there, const struct lifecycle *c,
                            struct str *out, i64 *others, struct err *err);

#endif
