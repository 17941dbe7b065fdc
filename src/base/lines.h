/* lines.h - the lines of a stream that may pause at any byte and need not end. */
#ifndef BASE_LINES_H
#define BASE_LINES_H
#include "base/os.h"

struct lines {
    struct os  *os;
    struct file in;
    char       *buffer;
    i64         room, begin, end; /* what has come and was not given */
    i64         looked;           /* from `begin`: bytes that are known to hold no line end */
    bool        ended;            /* no byte will come */
};

struct lines lines_of(struct os *os, struct file in, i64 bytes_max, struct arena *perm);
/* The next line without its end, until the next call. NO: none within limit_ns; with `ended`, none ever. USAGE: it is
 * longer than bytes_max. */
enum status lines_next(struct lines *l, i64 limit_ns, struct str *line, struct err *err);
bool lines_are_given(void); /* standard input is a file or a pipe: no terminal, nor /dev/null */

#endif
