/* test_texts.c - files of text below what a user names: in the order given, folders by name, all the way down. */
#include "data/texts.h"
#include "harness.h"
#include "support/folder.h"

static struct str below(struct arena *perm, struct str folder, const char *name)
{
    struct str path = str_fmt(perm, "%.*s/%s", STR_ARG(folder), name);
    CHECK_EQ(os_real()->make_dir(os_real(), path, NULL), STATUS_OK);
    return path;
}

TEST(a_file_as_it_is_and_a_folder_by_name)
{
    struct str folder = folder_new(perm), deep = below(perm, folder, "m");
    struct str z        = folder_put(perm, folder, "z.txt", STR("z")),
               a        = folder_put(perm, folder, "a.txt", STR("a")),
               in       = folder_put(perm, deep, "in.txt", STR("in"));
    struct str   from[] = { z, folder };
    struct texts found;
    CHECK_EQ(texts_find(os_real(), from, 2, perm, &found, NULL), STATUS_OK);
    CHECK_EQ(found.count, 4);
    CHECK_STR(found.paths[0], z); /* as it was named; and once more in its folder */
    CHECK_STR(found.paths[1], a);
    CHECK_STR(found.paths[2], in);
    CHECK_STR(found.paths[3], z);
    from[0] = str_cat(perm, folder, STR("/nowhere"));
    CHECK(texts_find(os_real(), from, 2, perm, &found, NULL) != STATUS_OK);
}

TEST(folders_that_lie_too_deep_are_refused)
{
    struct str   folder = folder_new(perm), at = folder;
    struct texts found;
    struct err   err;
    for (i64 i = 0; i < TEXTS_DEEP_MAX; i++) at = below(perm, at, "d");
    CHECK_EQ(texts_find(os_real(), &folder, 1, perm, &found, &err), STATUS_OK);
    below(perm, at, "d");
    CHECK_EQ(texts_find(os_real(), &folder, 1, perm, &found, &err), STATUS_USAGE);
}
