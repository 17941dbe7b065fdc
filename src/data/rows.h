/* rows.h - samples from lines of text that lie in no file: one after the other, as they come.
 *
 *     data.kind        a line
 *     csv, jsonl       fields by the header, which is the first line; or an object of JSON. The label is not read
 *     csv, jsonl with data.text, lines     the text
 *     images, idx      the path of a JPEG or PNG
 *
 * `frugal predict MODEL < rows` reads them. */
#ifndef DATA_ROWS_H
#define DATA_ROWS_H
#include "data/data.h"

enum { ROW_BYTES_MAX = 1 << 20 }; /* of a line */

struct rows;

/* Of an open data set, with the settings that it was opened with; `path` is for messages. USAGE: its samples are no
 * lines. To be closed also after a failure. */
enum status rows_open(const struct dataset *d, const struct data_config *config, struct str path,
                      struct arena *perm, struct rows **out, struct err *err);
/* The next line, without its end and of at most ROW_BYTES_MAX bytes, as sample `at` of a batch with one buffer a feed.
 * NO: it holds none, as an empty line or a header. */
enum status rows_add(struct rows *r, struct str line, void *const *to, i64 at, struct err *err);
void        rows_close(struct rows *r); /* NULL: nothing */

#endif
