/* ask_stop.c - a file that is made here, and removed there. */
#include "run/ask_stop.h"

static const struct str log_end = STR_INIT(".jsonl"), stop_end = STR_INIT(".stop");

enum status ask_stop(struct os *os, struct str events, struct str run, struct str segment,
                     struct arena scratch, struct err *err)
{
    struct str start =
        str_fmt(&scratch, "%.*s/%.*s/%.*s", STR_ARG(events), STR_ARG(run), STR_ARG(segment));
    struct str  log = str_cat(&scratch, start, log_end), path = str_cat(&scratch, start, stop_end);
    struct file f = { -1 };
    if (!os_is_file(os, log))
        return err_set(err, STATUS_NO, "the run writes no event log here, so it cannot be asked");
    bool        was = os_private(true);
    enum status st  = os->create(os, path, &f, err);
    os_private(was);
    return st ? st : os->close(os, &f, err);
}

bool ask_stop_taken(struct os *os, struct str log_path, struct arena scratch)
{
    if (log_path.len <= log_end.len) return false;
    struct str     start = str_sub(log_path, 0, log_path.len - log_end.len);
    struct str     path  = str_cat(&scratch, start, stop_end);
    struct os_stat there;
    if (os->stat(os, path, &there, NULL)) return false;
    os->remove(os, path, NULL); /* where it cannot be, the run still stops but once */
    return true;
}
