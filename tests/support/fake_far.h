/* fake_far.h - files elsewhere, in memory, behind the door of base/far.h: what was asked is counted, and
 * things go wrong when told to. Any thread may ask. */
#ifndef SUPPORT_FAKE_FAR_H
#define SUPPORT_FAKE_FAR_H
#include "base/far.h"

enum { FAKE_FILES_MAX = 128 };

struct fake_far {
    struct far   far; /* os.far = &f->far */
    struct str   url[FAKE_FILES_MAX], bytes[FAKE_FILES_MAX];
    i64          count;
    atomic_llong reads, read_bytes; /* ranges that came */
    atomic_llong fail_at; /* that read (1 is the first) brings half and is an error; 0: none */
    atomic_llong delay_ns; /* of each read */
};

struct fake_far *fake_far_new(struct arena *perm);
void             fake_far_put(struct fake_far *f, struct str url, struct str bytes);

#endif
