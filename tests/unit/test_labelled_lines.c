/* test_labelled_lines.c - a line is a sample, its file the class; a hash decides what is held out. */
#include "data/data.h"
#include "harness.h"
#include "support/folder.h"

static const char *refused(struct arena *perm, struct data_config c)
{
    static struct err err;
    struct dataset   *d;
    CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_USAGE);
    return err.text;
}

TEST(lines_are_bytes_plus_one_padded_with_zeros)
{
    struct str         dir = folder_new(perm);
    struct data_config c   = { .context = 4, .file_count = 2 };
    struct dataset    *d;
    i32                x[3][4], lens[3], y[3];
    c.files[0] = folder_put(perm, dir, "a", STR("ab\r\n\nlonger\n\r\n"));
    c.files[1] = folder_put(perm, dir, "b", STR("\xff"));
    CHECK(!dataset_open(os_real(), &c, perm, &d, NULL));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 3);
    CHECK_STR(type_text(perm, dataset_feeds(d)->feed[0].type), "i32[4]");
    CHECK_EQ(feeds_find(dataset_feeds(d), STR("x"))->range, 257);
    CHECK_EQ(feeds_find(dataset_feeds(d), STR("y"))->range, 2);
    dataset_fetch(d, SPLIT_TRAIN, (i64[]){ 0, 1, 2 }, 3, (void *[]){ x, lens, y });
    CHECK_EQ(lens[0], 2);
    CHECK_EQ(x[0][0], 'a' + 1);
    CHECK_EQ(x[0][1], 'b' + 1);
    CHECK_EQ(x[0][2], 0);
    CHECK_EQ(lens[1], 4); /* cut */
    CHECK_EQ(x[1][3], 'g' + 1);
    CHECK_EQ(y[1], 0);
    CHECK_EQ(x[2][0], 256);
    CHECK_EQ(y[2], 1);
    dataset_close(d);
}

/* The number of the line stands in it, so that we know it again. */
static struct str many(struct arena *perm, char class, i64 count)
{
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; i < count; i++) textbuf_fmt(&b, "%c%06lld\n", class, (long long)i);
    return textbuf_str(&b);
}

static i64 class_count(const struct dataset *d, enum split s, i32 class)
{
    i64 found = 0;
    i32 x[8], lens, y;
    for (i64 i = 0; i < dataset_count(d, s); i++) {
        dataset_fetch(d, s, &i, 1, (void *[]){ x, &lens, &y });
        CHECK_EQ(x[0], 'A' + y + 1);
        found += y == class;
    }
    return found;
}

TEST(lines_hold_out_the_same_share_of_every_class)
{
    struct str         dir = folder_new(perm);
    struct data_config c   = { .context = 8, .file_count = 3, .held_out = 0.2 };
    struct dataset    *d;
    i64                count[] = { 1000, 4000, 10000 };
    for (i32 f = 0; f < 3; f++) {
        char name[] = { (char)('A' + f), '\0' };
        c.files[f]  = folder_put(perm, dir, name, many(perm, name[0], count[f]));
    }
    CHECK(!dataset_open(os_real(), &c, perm, &d, NULL));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN) + dataset_count(d, SPLIT_EVAL), 15000);
    for (i32 f = 0; f < 3; f++) {
        f64 deviation = sqrt((f64)count[f] * 0.2 * 0.8); /* of a binomial; no chance is involved */
        CHECK_NEAR(class_count(d, SPLIT_EVAL, f), 0.2 * (f64)count[f], 4 * deviation);
    }
    dataset_close(d);

    c.samples      = 150;
    c.eval_samples = 15;
    CHECK(!dataset_open(os_real(), &c, perm, &d, NULL));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 150);
    CHECK_EQ(dataset_count(d, SPLIT_EVAL), 15);
    CHECK_NEAR(class_count(d, SPLIT_TRAIN, 0), 10, 2); /* thinned evenly, not cut */
    CHECK_NEAR(class_count(d, SPLIT_TRAIN, 2), 100, 4);
    dataset_close(d);
}

TEST(lines_on_one_side_only)
{
    struct str         dir = folder_new(perm);
    struct data_config c   = { .context = 8, .file_count = 2, .held_out = 0.5 };
    struct dataset    *d;
    c.files[0] = folder_put(perm, dir, "a", STR("same\nsame\nsame\nsame\nsame\nsame\nsame\n"));
    c.files[1] = folder_put(perm, dir, "b", STR("same\nother\nmore\nwords\nhere\nthan\n"));
    CHECK(!dataset_open(os_real(), &c, perm, &d, NULL));
    i64 in_eval = 0;
    for (i64 i = 0; i < dataset_count(d, SPLIT_EVAL); i++) {
        i32 x[8], lens, y;
        dataset_fetch(d, SPLIT_EVAL, &i, 1, (void *[]){ x, &lens, &y });
        in_eval += x[0] == 's' + 1 && x[1] == 'a' + 1;
    }
    CHECK(in_eval == 0 || in_eval == 8);
    dataset_close(d);
}

TEST(lines_ask_for_what_they_need)
{
    struct str         dir  = folder_new(perm);
    struct data_config good = { .context = 8, .kind = STR("lines"), .file_count = 2 }, c;
    good.files[0] = good.files[1] = folder_put(perm, dir, "a", STR("x\n"));
    c                             = good;
    c.file_count                  = 1;
    CHECK(strstr(refused(perm, c), "data.files has 1 file; lines need 2 to 64"));
    c         = good;
    c.context = 0;
    CHECK(strstr(refused(perm, c), "data.context is 0"));
    c           = good;
    c.eval_path = STR("b");
    CHECK(strstr(refused(perm, c), "set data.held_out"));
}
