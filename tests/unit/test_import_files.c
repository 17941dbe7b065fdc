/* test_import_files.c - price lists from files into the user's own file: made, renewed, or left as it was. */
#include "base/os.h"
#include "harness.h"
#include "plan/import.h"
#include "support/folder.h"

/* The fuzzer's first input, without its first byte, which is not part of the list. */
static struct str aws_list(struct arena *perm, struct str folder)
{
    struct str text = { 0 };
    CHECK_EQ(os_read_all(os_real(), STR("tests/fuzz/corpus/prices/aws.json"), perm, &text, NULL),
             STATUS_OK);
    return folder_put(perm, folder, "aws.json", str_sub(text, 1, text.len));
}

static struct str text_of(struct arena *perm, struct str path)
{
    struct str text = STR("");
    CHECK_EQ(os_read_all(os_real(), path, perm, &text, NULL), STATUS_OK);
    return text;
}

TEST(the_users_file_is_made_renewed_or_left_alone)
{
    struct str              folder = folder_new(perm), list = aws_list(perm, folder);
    struct str              twice[] = { list, list };
    struct str              path    = str_cat(perm, folder, STR("/below/prices.csv"));
    const struct catalogue *k       = catalogue_new(perm);
    struct import           how     = { .format = STR("aws") };
    struct imported         all;
    struct err              err;
    CHECK_EQ(prices_import_files(os_real(), k, &how, &list, 1, path, perm, &all, &err), STATUS_OK);
    CHECK_EQ(all.count, 2);
    CHECK_EQ(all.passed_over, 1);
    struct str        made = text_of(perm, path);
    struct catalogue *mine;
    CHECK_EQ(catalogue_open(os_real(), perm, path, &mine, &err), STATUS_OK);
    CHECK(mine->machine_count > k->machine_count); /* c7i.2xlarge is new */
    CHECK_EQ(prices_import_files(os_real(), k, &how, twice, 2, path, perm, &all, &err), STATUS_OK);
    CHECK_EQ(all.count, 4);
    CHECK_STR(text_of(perm, path), made); /* the same rows replace themselves */

    how.region = STR("mars-1");
    CHECK_EQ(prices_import_files(os_real(), k, &how, &list, 1, path, perm, &all, &err), STATUS_NO);
    CHECK_STR(text_of(perm, path), made);
    how.format = STR("tea-leaves");
    CHECK_EQ(prices_import_files(os_real(), k, &how, &list, 1, path, perm, &all, &err),
             STATUS_USAGE);
    CHECK_STR(text_of(perm, path), made);
}
