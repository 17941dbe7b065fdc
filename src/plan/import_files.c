/* import_files.c - price lists from files into the user's own file of prices. */
#include "plan/import.h"

static enum status import_file(struct os *os, const struct catalogue *c, struct import *how,
                               struct str path, struct arena *perm, struct imported *found,
                               struct err *err)
{
    struct os_stat stat;
    struct str     text;
    enum status    st = os->stat(os, path, &stat, err);
    if (!st) st = os->map(os, path, &text, err);
    if (st) return st;
    how->as_of_day = (i32)(stat.mtime_ns / 1000000000 / 86400); /* when it was fetched */
    st             = prices_import(c, how, path, text, perm, found, err);
    os->unmap(os, text);
    return st;
}

enum status prices_import_files(struct os *os, const struct catalogue *c, struct import *how,
                                const struct str *files, i64 file_count, struct str path,
                                struct arena *perm, struct imported *all, struct err *err)
{
    struct str     text = STR(""), folder = path;
    struct os_stat there;
    enum status    st = STATUS_OK;
    *all              = (struct imported){ 0 };
    if (!os->stat(os, path, &there, NULL)) st = os_read_all(os, path, perm, &text, err);
    for (i64 i = 0; i < file_count && !st; i++) {
        struct imported found = { 0 };
        st                    = import_file(os, c, how, files[i], perm, &found, err);
        if (!st) st = prices_merge_text(perm, path, text, found.machines, found.count, &text, err);
        all->count += found.count;
        all->passed_over += found.passed_over;
        all->unpriced += found.unpriced;
    }
    if (!st && !all->count)
        return err_set(err, STATUS_NO,
                       "it has no price of a machine in that region with known hardware");
    while (folder.len && folder.data[folder.len - 1] != '/') folder.len--;
    if (!st && folder.len) st = os->make_dir(os, folder, err);
    return st ? st : os_publish(os, path, text, *perm, err);
}
