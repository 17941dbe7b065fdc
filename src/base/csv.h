/* csv.h - reading RFC 4180 a field at a time: quoted fields may hold commas, line ends and doubled
 * quotes. What the fields mean is the caller's: rows of numbers (data), prices (plan). */
#ifndef BASE_CSV_H
#define BASE_CSV_H
#include "base/err.h"
#include "base/text.h"

struct csv {
    struct str path; /* only for messages, "prices.csv:7: ..." */
    struct str text;
    i64        at, line;
};

struct csv csv_of(struct str path, struct str text); /* behind a byte order mark, if there is one */
bool       csv_more(struct csv *c);                  /* passes over empty lines; false at the end */
/* The next field, and whether it is the last of its line. Of a quoted one, what lies between the
 * quotes, doubled ones as they stand: no unquoted field can look the same. */
enum status csv_field(struct csv *c, struct str *out, bool *last, struct err *err);
struct str  csv_text(struct str    field,
                     struct arena *perm);       /* what it means: q""q is q"q; a copy only then */
i64         csv_lines_max(const struct csv *c); /* no more rows than this are left */

#endif
