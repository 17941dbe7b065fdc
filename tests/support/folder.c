/* folder.c - temporary folders under TMPDIR or the system's own place, removed at exit. */
#include "support/folder.h"
#include "base/os.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FOLDERS_MAX = 256 };

static char folders[FOLDERS_MAX][512];
static int  folder_count;

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *ftw)
{
    (void)s, (void)type, (void)ftw;
    return remove(path);
}

static void remove_all(void)
{
    for (int i = 0; i < folder_count; i++) nftw(folders[i], remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

struct str folder_new(struct arena *perm)
{
    const char *top = getenv("TMPDIR");
    ASSERT(folder_count < FOLDERS_MAX);
    if (!folder_count) atexit(remove_all);
    char *path = folders[folder_count];
    snprintf(path, sizeof folders[0], "%s/frugal_test.XXXXXX", top ? top : "/tmp");
    ASSERT(mkdtemp(path) != NULL);
    folder_count++;
    return str_copy(perm, str_of(path));
}

struct str folder_put(struct arena *perm, struct str folder, const char *name, struct str bytes)
{
    struct str  path = str_fmt(perm, "%.*s/%s", STR_ARG(folder), name);
    struct os  *os   = os_real();
    struct file f;
    ASSERT(os->create(os, path, &f, NULL) == STATUS_OK);
    ASSERT(os->write(os, f, bytes, NULL) == STATUS_OK);
    ASSERT(os->close(os, &f, NULL) == STATUS_OK);
    return path;
}
