/* lines.c - bytes are read as they come; a line is given once its end is there. */
#include "base/lines.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct lines lines_of(struct os *os, struct file in, i64 bytes_max, struct arena *perm)
{
    i64 room = bytes_max + 1; /* for the line's end */
    return (struct lines){ .os = os, .in = in, .buffer = NEW(perm, char, room), .room = room };
}

static bool cut(struct lines *l, struct str *line)
{
    char *from = l->buffer + l->begin;
    char *at   = memchr(from + l->looked, '\n', (size_t)(l->end - l->begin - l->looked));
    l->looked  = at ? 0 : l->end - l->begin;
    if (!at && !(l->ended && l->looked)) return false;
    *line     = (struct str){ from, at ? at - from : l->looked };
    l->begin  = at ? l->begin + line->len + 1 : l->end;
    l->looked = 0;
    return true;
}

enum status lines_next(struct lines *l, i64 limit_ns, struct str *line, struct err *err)
{
    while (!cut(l, line)) {
        i64 got = 0;
        if (l->ended) return STATUS_NO;
        memmove(l->buffer, l->buffer + l->begin, (size_t)(l->end - l->begin));
        l->end -= l->begin;
        l->begin = 0;
        if (l->end == l->room)
            return err_set(err, STATUS_USAGE, "a line has more than %lld bytes",
                           (long long)l->room - 1);
        if (os_wait_any(&l->in, 1, limit_ns) < 0) return STATUS_NO;
        enum status st =
            l->os->read(l->os, l->in, l->buffer + l->end, l->room - l->end, -1, &got, err);
        if (st) return st;
        l->end += got;
        l->ended = !got;
    }
    return STATUS_OK;
}

bool lines_are_given(void)
{
    struct stat s;
    return !fstat(STDIN_FILENO, &s) && (S_ISREG(s.st_mode) || S_ISFIFO(s.st_mode));
}
