/* fake_files.h - remote files in memory: an HTTP server behind the door of remote/web.h. Requests are
 * counted, and things go wrong when told to. Any thread may ask. */
#ifndef SUPPORT_FAKE_FILES_H
#define SUPPORT_FAKE_FILES_H
#include "remote/files.h"

enum { FAKE_FILES_MAX = 128 };

struct fake_files {
    struct web           web;
    struct remote_files *remote; /* what reads them; it does not try again */
    struct str           url[FAKE_FILES_MAX], bytes[FAKE_FILES_MAX];
    i64                  count;
    atomic_llong         reads, read_bytes; /* ranges that came; the first byte alone is a stat */
    atomic_llong         fail_at;           /* that read (1 is the first) is cut short; 0: none */
    atomic_llong         delay_ns;          /* of each read */
};

struct fake_files *fake_files_new(struct arena *perm);
void               fake_files_put(struct fake_files *f, struct str url, struct str bytes);

#endif
