/* pieces.h - documents cut into pieces that threads work on side by side.
 *
 *     documents  |-------------------|------|---|-----------------------------|
 *     pieces     |---|---|---|---|---|------|---|---|---|---|---|---|---|---|-|    cut where words end
 *     segments   |-----------------------|--------------------------|--------------|
 *
 * Cuts depend on the text alone, so whatever is done piece by piece is the same for any number of threads. */
#ifndef DATA_PIECES_H
#define DATA_PIECES_H
#include "data/data_int.h"
#include "data/presplit.h"

enum { PIECES_MAX = 4096 };

struct piece {
    struct str text;
    bool       begins, ends; /* its document */
    i64        document;
};

struct pieces {
    struct os                  *os;
    const struct str           *paths;
    i64                         path_count;
    const struct presplit_cuts *cuts;
    const u8                   *classes;
    i64                         piece_bytes, segment_bytes; /* about; tests make them small */
    struct piece               *piece;                      /* of the segment at hand */
    i64                         count, bytes;
    i64                         document, at; /* where the next piece begins */
    struct source               source;       /* of `document`, if at > 0 */
    struct source              *read;         /* documents that end in this segment */
    i64                         read_count;
    struct arena                scratch;
};

void pieces_init(struct pieces *p, struct os *os, const struct str *paths, i64 path_count,
                 const struct presplit_cuts *cuts, const u8 *classes, struct arena *perm);
/* The next segment in piece[0..count), mapped until the next call or the release. STATUS_NO: there is
 * none, and nothing is written in err. */
enum status pieces_next(struct pieces *p, struct err *err);
void        pieces_release(struct pieces *p);

#endif
