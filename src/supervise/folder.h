/* folder.h - what lies in a folder: its files by name, size and time, and copies of them. */
#ifndef SUPERVISE_FOLDER_H
#define SUPERVISE_FOLDER_H
#include "base/os.h"

enum { FOLDER_FILES_MAX = 4096 };

struct folder_file {
    struct str path; /* within the folder */
    i64        bytes, mtime_ns;
    i64        since_ns; /* it has been as it is since then, as far as was seen; clock of now_ns */
    bool       is_private; /* nobody but its owner may read it */
};

struct folder_list {
    struct folder_file *files;
    i64                 count;
};

struct str folder_path(struct arena *perm, struct str folder, struct str path);
/* All plain files whose name (without folders) matches a pattern, sorted by path; .frugal* and what others
 * are writing under a part name are left out. A link to a file counts as that file; a link to a folder is
 * not followed: what lies there is not the program's to lose. No such folder: none. WORLD: something is
 * there and cannot be read, so nobody can say what the folder holds. */
enum status folder_scan(struct os *os, struct str folder, const struct str *patterns, i64 count,
                        struct arena *perm, struct folder_list *out, struct err *err);
const struct folder_file *folder_find(const struct folder_list *l, struct str path);
bool folder_same(const struct folder_file *a, const struct folder_file *b); /* but for since_ns */

/* Bytes and XXH64 of what was copied, or of what is there (to empty). The copy is not synced. */
struct copied {
    i64 bytes;
    u64 hash;
};
enum status folder_copy(struct os *os, struct str from, struct str to, struct arena scratch,
                        struct copied *out, struct err *err);

#endif
