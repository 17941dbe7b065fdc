/* ckpt_aside.c - a folder of checkpoints that lasts as long as a measurement: DIR.PID.part.
 *
 * Its name can be guessed, so all is done from the folder above it, by names that are not followed where they are
 * links, and nothing is deleted but checkpoints and their lock. */
#include "store/ckpt_int.h"

/* The folder above and the name in it, such that os_beneath knows the one by the other. */
struct aside {
    struct os *os;
    struct str above, name, folder;
};

static struct aside aside_of(struct os *os, struct str path, struct arena *perm)
{
    struct str above = path;
    while (above.len > 0 && above.data[above.len - 1] != '/') above.len--;
    struct aside a = { .name = str_sub(path, above.len, path.len) };
    a.above        = str_cat(perm, above, STR(".")); /* "/." too: a root has no slash at its end */
    a.folder       = ckpt_path(perm, a.above, a.name);
    a.os           = os_beneath(os, a.above, perm);
    return a;
}

/* The checkpoints in it, its lock, and then it, unless it is in use or holds anything else. */
static void remove_folder(struct os *os, struct str folder, struct arena scratch)
{
    struct os_stat stat;
    struct file    lock;
    struct str    *names, path = ckpt_path(&scratch, folder, STR("lock"));
    struct ckpt_id id;
    i64            count = 0;
    if (os->stat(os, folder, &stat, NULL) || !stat.is_dir) return;
    if (os->lock(os, path, &lock, NULL)) return;
    if (os->list(os, folder, &scratch, &names, &count, NULL)) count = 0;
    for (i64 i = 0; i < count; i++)
        if (ckpt_name_parse(names[i], &id))
            ckpt_folder_delete(os, ckpt_path(&scratch, folder, names[i]), scratch, NULL);
    os->remove(os, path, NULL);
    os->close(os, &lock, NULL);
    os->remove(os, folder, NULL);
}

static struct str without_slashes(struct str path)
{
    while (path.len > 1 && path.data[path.len - 1] == '/') path.len--;
    return path;
}

/* Of processes that are gone; one with our number was never ours. */
static void sweep(const struct aside *a, struct str base, struct arena scratch)
{
    struct str *names;
    i64         count = 0;
    if (a->os->list(a->os, a->above, &scratch, &names, &count, NULL)) return;
    for (i64 i = 0; i < count; i++)
        if (str_eq(names[i], a->name) || os_part_is_left(names[i], base))
            remove_folder(a->os, ckpt_path(&scratch, a->above, names[i]), scratch);
}

enum status ckpt_aside_make(struct os *os, struct str dir, struct arena *perm, struct str *folder,
                            struct err *err)
{
    struct os_stat stat;
    struct err     why   = { 0 };
    dir                  = without_slashes(dir);
    *folder              = os_part_name(perm, dir);
    struct arena scratch = *perm;
    struct aside a = aside_of(os, *folder, &scratch), base = aside_of(os, dir, &scratch);
    bool         was = os_private(true);
    enum status  st  = os->make_dir(os, a.above, err);
    if (!st) sweep(&a, base.name, scratch);
    if (!st && !a.os->stat(a.os, a.folder, &stat, &why))
        st = err_set(err, STATUS_WORLD,
                     "%.*s is there already, and a measurement would write to it and remove it; "
                     "move it away",
                     STR_ARG(*folder));
    else if (!st && why.cause != CAUSE_ABSENT) st = err_set(err, why.status, "%s", why.text);
    if (!st) st = a.os->make_dir(a.os, a.folder, err);
    os_private(was);
    os_beneath_end(a.os);
    return st;
}

void ckpt_aside_remove(struct os *os, struct str folder, struct arena scratch)
{
    struct aside a = aside_of(os, folder, &scratch);
    remove_folder(a.os, a.folder, scratch);
    os_beneath_end(a.os);
}
