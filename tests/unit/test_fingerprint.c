/* test_fingerprint.c - data files are known again by content, wherever they lie. */
#include "data/data.h"
#include "harness.h"
#include "support/fake_files.h"
#include "support/folder.h"
#include "support/shards.h"
#include <fcntl.h>
#include <unistd.h>

static struct str print_of(struct arena *perm, struct data_config c)
{
    struct fingerprint f[FINGERPRINTS_MAX];
    struct dataset    *d;
    struct err         err   = { 0 };
    i64                count = 0;
    if (dataset_open(os_real(), &c, perm, &d, &err) ||
        dataset_fingerprints(d, &c, perm, f, &count, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    dataset_close(d);
    CHECK_EQ(count, 1);
    CHECK_STR(str_of(f[0].key), "data.path");
    return f[0].text;
}

static void put(struct str path, i64 at, char byte)
{
    int fd = open(path.data, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Sizes below and above what is hashed whole; holes, so that they take no disk. */
TEST(a_byte_makes_another_file_and_a_copy_does_not)
{
    static const i64 sizes[] = { 1000, 65536, 65537, 64 << 20, (64 << 20) + 1, 300 << 20 };
    struct str       folder  = folder_new(perm);
    for (i64 i = 0; i < COUNT_OF(sizes); i++) {
        struct data_config c = { .kind = STR("text"), .context = 8 };
        c.path               = str_fmt(perm, "%.*s/a%lld", STR_ARG(folder), (long long)i);
        put(c.path, sizes[i] - 1, 'x');
        struct str was = print_of(perm, c);
        CHECK(str_starts(was, str_fmt(perm, "%lld bytes, ", (long long)sizes[i])));
        CHECK_STR(print_of(perm, c), was);
        struct str moved = str_fmt(perm, "%.*s/b%lld", STR_ARG(folder), (long long)i);
        CHECK_EQ(rename(c.path.data, moved.data), 0);
        c.path = moved;
        CHECK_STR(print_of(perm, c), was);
        put(c.path, sizes[i] - 1, 'y'); /* the last byte and the first are always looked at */
        CHECK(!str_eq(print_of(perm, c), was));
        put(c.path, sizes[i] - 1, 'x');
        CHECK_STR(print_of(perm, c), was);
        put(c.path, 0, 'y');
        CHECK(!str_eq(print_of(perm, c), was));
        put(c.path, 0, 0);
        put(c.path, sizes[i], 'x'); /* longer */
        CHECK(!str_eq(print_of(perm, c), was));
        unlink(c.path.data);
    }
}

/* --- folders and shards: by names, sizes and the content of some --- */

static struct data_config images_at(struct str path)
{
    return (struct data_config){ .kind            = STR("images"),
                                 .path            = path,
                                 .held_out        = 0.1,
                                 .image_size      = 8,
                                 .augment         = { STR("none") },
                                 .augment_count   = 1,
                                 .image_normalise = STR("none") };
}

/* Two classes of 300 files: of 600 the content of 256 is looked at, the first and the last among them. */
TEST(a_folder_is_known_by_names_sizes_and_content)
{
    enum { EACH = 300 };
    struct str         folder = folder_new(perm), first = { 0 }, last = { 0 };
    struct data_config c = images_at(folder);
    for (i64 class = 0; class < 2; class ++) {
        struct str sub = str_fmt(perm, "%.*s/%lld", STR_ARG(folder), (long long)class);
        CHECK(!os_real()->make_dir(os_real(), sub, NULL));
        for (i64 i = 0; i < EACH; i++) {
            struct str name = str_fmt(perm, "%03lld.png", (long long)i);
            last            = folder_put(perm, sub, str_z(perm, name),
                                         str_fmt(perm, "a file, %lld", (long long)i));
            if (!first.len) first = last;
        }
    }
    struct str was = print_of(perm, c);
    CHECK(str_starts(was, STR("600 samples, content ")));
    CHECK_STR(print_of(perm, c), was);
    const struct str seen[] = { first, last };
    for (i64 i = 0; i < COUNT_OF(seen); i++) { /* of the same size */
        put(seen[i], 0, 'A');
        CHECK_EQ(fingerprint_compare(was, print_of(perm, c)), FINGERPRINT_OTHER);
        put(seen[i], 0, 'a');
        CHECK_EQ(fingerprint_compare(was, print_of(perm, c)), FINGERPRINT_SAME);
    }
    for (i64 i = 0; i < EACH; i += 37) { /* the size of any */
        struct str path = str_fmt(perm, "%.*s/0/%03lld.png", STR_ARG(folder), (long long)i);
        i64        end  = str_fmt(perm, "a file, %lld", (long long)i).len;
        put(path, end, 'x');
        CHECK_EQ(fingerprint_compare(was, print_of(perm, c)), FINGERPRINT_OTHER);
        CHECK_EQ(truncate(path.data, end), 0);
    }
    CHECK_STR(print_of(perm, c), was);
    struct str moved = str_cat(perm, folder, STR(".moved"));
    CHECK_EQ(rename(folder.data, moved.data), 0);
    c.path = moved;
    CHECK_STR(print_of(perm, c), was);
    CHECK_EQ(rename(moved.data, folder.data), 0);
}

/* 341 blocks for each of three shards of 640 kB: they are read whole. A sample takes 64 KiB of the tar. */
TEST(local_shards_are_known_by_content)
{
    struct str folder = folder_new(perm), path = { 0 };
    for (i64 i = 0; i < 3; i++)
        path = folder_put(perm, folder, str_z(perm, str_fmt(perm, "s-%lld.tar", (long long)i)),
                          shard_bytes(perm, i * 10, 10, 64000));
    struct data_config c   = images_at(str_cat(perm, folder, STR("/s-{0..2}.tar")));
    struct str         was = print_of(perm, c);
    CHECK(str_starts(was, STR("30 samples, content ")));
    for (i64 at = 1000; at < 600000; at += 65536) { /* inside each picture */
        char byte;
        int  fd = open(path.data, O_RDONLY);
        CHECK_EQ(pread(fd, &byte, 1, at), 1);
        close(fd);
        put(path, at, (char)(byte ^ 1));
        CHECK_EQ(fingerprint_compare(was, print_of(perm, c)), FINGERPRINT_OTHER);
        put(path, at, byte);
    }
    CHECK_STR(print_of(perm, c), was);
}

/* The server's version tells: the same address with another one is another file. A copy somewhere else has a version
 * of its own; then, and where the server names none, only names and sizes are known. */
TEST(remote_files_are_known_by_their_version)
{
    struct fake_files *files = fake_files_new(perm);
    struct data_config c     = images_at(STR("https://host/s-{0..1}.tar")), d;
    c.cache                  = folder_new(perm);
    c.cache_bytes            = 1 << 20;
    c.remote                 = files->remote;
    d                        = c;
    d.path                   = STR("https://other/s-{0..1}.tar");
    for (i64 i = 0; i < 2; i++) {
        struct str bytes = shard_bytes(perm, i * 10, 10, 1000);
        fake_files_put(files, str_fmt(perm, "https://host/s-%lld.tar", (long long)i), bytes);
        fake_files_put(files, str_fmt(perm, "https://other/s-%lld.tar", (long long)i), bytes);
    }
    struct str was = print_of(perm, c), copy = print_of(perm, d);
    CHECK_EQ(fingerprint_compare(was, copy),
             FINGERPRINT_SAME); /* an ETag that is a hash is the same */
    fake_files_put(files, STR("https://other/s-1.tar"), shard_bytes(perm, 11, 10, 1000));
    fake_files_put(files, STR("https://host/s-1.tar"), shard_bytes(perm, 11, 10, 1000));
    CHECK_EQ(fingerprint_compare(was, print_of(perm, c)), FINGERPRINT_OTHER);
    CHECK_EQ(fingerprint_compare(copy, print_of(perm, c)), FINGERPRINT_UNKNOWN);
    CHECK_EQ(fingerprint_compare(STR("9 bytes, 1, at 2, version unknown"),
                                 STR("9 bytes, 1, at 2, version unknown")),
             FINGERPRINT_UNKNOWN);
    CHECK_EQ(
        fingerprint_compare(STR("9 bytes, 1, at 2, version 3"), STR("8 bytes, 1, at 2, version 3")),
        FINGERPRINT_OTHER);
}

/* Of older checkpoints, which hold names and sizes. */
TEST(an_older_fingerprint_is_compared_as_far_as_it_goes)
{
    CHECK_EQ(fingerprint_compare(STR("9 samples, 12"), STR("9 samples, content 34")),
             FINGERPRINT_UNKNOWN);
    CHECK_EQ(fingerprint_compare(STR("8 samples, 12"), STR("9 samples, content 34")),
             FINGERPRINT_OTHER);
    CHECK_EQ(fingerprint_compare(STR("9 samples, 12"), STR("9 samples, 12, at 5, version 6")),
             FINGERPRINT_UNKNOWN);
    CHECK_EQ(fingerprint_compare(STR("9 bytes, 12"), STR("9 bytes, 13")), FINGERPRINT_OTHER);
}
