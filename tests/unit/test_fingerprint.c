/* test_fingerprint.c - data files are known again by content, wherever they lie. */
#include "data/data.h"
#include "harness.h"
#include "support/folder.h"
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
