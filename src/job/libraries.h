/* libraries.h - the libraries frugal can use: which are in this build and on this machine. */
#ifndef JOB_LIBRARIES_H
#define JOB_LIBRARIES_H
#include "base/text.h"

struct library {
    const char *name;
    const char *soname; /* NULL: its header was not there when frugal was built */
    const char
        *symbol; /* of the function that tells its version; NULL: the room that uses it knows */
    const char *use, *without, *package;
};

extern const struct library libraries[];
extern const i64            library_count;

/* Its version if it is here, now; empty if not. Loads it: a few milliseconds. */
struct str library_version(const struct library *l, struct arena *perm);

#endif
