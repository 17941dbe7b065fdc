/* tar.h - the members of a tar archive in memory: v7, ustar, pax and GNU's long names, by hand.
 *
 * Strict where leniency would lose samples: a header's sum must be right, every member must lie within
 * the file, and the archive must end with an empty block, so that one cut short between two members
 * is not taken for a whole one. */
#ifndef DATA_TAR_H
#define DATA_TAR_H
#include "base/err.h"
#include "base/text.h"

enum { TAR_BLOCK = 512 };

struct tar {
    struct str path; /* only for messages */
    struct str bytes;
    i64        at;
};

struct tar_member { /* a plain file; everything else is passed over */
    struct str name;
    i64        at, bytes; /* its own, within the archive; its header is the block in front */
};

/* OK: a member; NO: the end (nothing is written in err); else what is wrong, and where. Names that are
 * not written in one piece are put together in perm. */
enum status tar_next(struct tar *t, struct arena *perm, struct tar_member *out, struct err *err);

/* Is this block the header of a file of so many bytes with that name? A name that is long or not in
 * ASCII, and a size of 8 GiB or more, are believed: pax keeps them in other records. */
bool tar_is_header_of(const char *block, struct str name, i64 bytes);

/* The header of a plain file, nothing in it but name, size and what must be there: the same file gives
 * the same bytes. False: the name does not fit. */
bool tar_header(char block[TAR_BLOCK], struct str name, i64 bytes);

#endif
