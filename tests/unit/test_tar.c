#include "data/tar.h"
#include "harness.h"
#include "support/shards.h"

static struct tar tar_of(struct str bytes)
{
    return (struct tar){ .path = STR("a.tar"), .bytes = bytes };
}

/* Puts the sum of a header that was changed by hand right again. */
static void seal(char *block)
{
    i64 sum = 8 * ' ';
    for (i64 i = 0; i < TAR_BLOCK; i++) sum += i >= 148 && i < 156 ? 0 : (u8)block[i];
    snprintf(block + 148, 8, "%06o", (unsigned)sum);
}

static void add_typed(struct textbuf *b, char type, struct str body)
{
    tar_add(b, STR("././extra"), body);
    char *block = b->data + b->len - (body.len + 511) / 512 * 512 - 512;
    block[156]  = type;
    seal(block);
}

TEST(members_come_in_order_with_their_bytes)
{
    struct textbuf    b = textbuf_new(perm);
    struct tar_member m;
    struct err        err;
    tar_add(&b, STR("cat/1.jpg"), STR("abc"));
    tar_add(&b, STR("cat/1.cls"), STR(""));
    tar_end(&b);
    struct tar t = tar_of(textbuf_str(&b));
    CHECK(!tar_next(&t, &scratch, &m, &err));
    CHECK_STR(m.name, "cat/1.jpg");
    CHECK_STR(str_sub(t.bytes, m.at, m.at + m.bytes), "abc");
    CHECK(tar_is_header_of(t.bytes.data + m.at - 512, STR("cat/1.jpg"), 3));
    CHECK(!tar_is_header_of(t.bytes.data + m.at - 512, STR("cat/1.jpg"), 4));
    CHECK(!tar_is_header_of(t.bytes.data + m.at - 512, STR("cat/2.jpg"), 3));
    CHECK(!tar_next(&t, &scratch, &m, &err));
    CHECK_STR(m.name, "cat/1.cls");
    CHECK_EQ(m.bytes, 0);
    CHECK_EQ(tar_next(&t, &scratch, &m, &err), STATUS_NO);
}

TEST(long_names_are_read_in_all_three_ways)
{
    struct textbuf    b = textbuf_new(perm), deep = textbuf_new(&scratch);
    struct tar_member m;
    struct err        err;
    for (int i = 0; i < 20; i++) textbuf_add(&deep, STR("folder/"));
    textbuf_add(&deep, STR("image.jpg"));
    struct str name = textbuf_str(&deep);
    CHECK(name.len > 100);
    tar_add(&b, name, STR("ustar"));
    add_typed(&b, 'L', str_fmt(&scratch, "%.*s%c", STR_ARG(name), 0));
    tar_add(&b, str_sub(name, 0, 99), STR("gnu"));
    add_typed(&b, 'x',
              str_fmt(&scratch, "%lld path=%.*s\n17 mtime=1.5e9..\n", (long long)name.len + 10,
                      STR_ARG(name)));
    tar_add(&b, STR("short"), STR("pax"));
    tar_add(&b, STR("next.jpg"), STR(""));
    tar_end(&b);
    struct tar        t        = tar_of(textbuf_str(&b));
    const char *const bodies[] = { "ustar", "gnu", "pax" };
    for (int i = 0; i < 3; i++) {
        CHECK(!tar_next(&t, &scratch, &m, &err));
        CHECK_STR(m.name, name);
        CHECK_STR(str_sub(t.bytes, m.at, m.at + m.bytes), bodies[i]);
    }
    CHECK(!tar_next(&t, &scratch, &m, &err));
    CHECK_STR(m.name, "next.jpg"); /* what was said of the one before is forgotten */
}

TEST(folders_and_links_are_passed_over)
{
    struct textbuf    b = textbuf_new(perm);
    struct tar_member m;
    struct err        err;
    add_typed(&b, '5', STR(""));
    add_typed(&b, '2', STR(""));
    add_typed(&b, 'g', STR("13 path=evil\n"));
    tar_add(&b, STR("a.jpg"), STR("x"));
    tar_end(&b);
    struct tar t = tar_of(textbuf_str(&b));
    CHECK(!tar_next(&t, &scratch, &m, &err));
    CHECK_STR(m.name, "a.jpg");
}

TEST(a_size_may_be_binary)
{
    struct textbuf    b = textbuf_new(perm);
    struct tar_member m;
    struct err        err;
    tar_add(&b, STR("a.jpg"), STR("four"));
    tar_end(&b);
    memset(b.data + 124, 0, 12);
    b.data[124] = (char)0x80;
    b.data[135] = 4;
    seal(b.data);
    struct tar t = tar_of(textbuf_str(&b));
    CHECK(!tar_next(&t, &scratch, &m, &err));
    CHECK_EQ(m.bytes, 4);
}

TEST(what_is_damaged_or_cut_short_is_refused_with_its_place)
{
    struct textbuf    b = textbuf_new(perm);
    struct tar_member m;
    struct err        err;
    tar_add(&b, STR("a.jpg"), STR("abc"));
    tar_add(&b, STR("b.jpg"), STR("abc"));
    i64 members = b.len;
    tar_end(&b);
    for (i64 len = 0; len < b.len; len++) {
        struct tar  t  = tar_of(str_sub(textbuf_str(&b), 0, len));
        enum status st = STATUS_OK;
        while (!st) st = tar_next(&t, &scratch, &m, &err);
        CHECK_EQ(st, len < members + TAR_BLOCK ? STATUS_USAGE : STATUS_NO);
        if (len < members + TAR_BLOCK) CHECK(strstr(err.text, "a.tar: at byte"));
    }
    for (i64 i = 0; i < 512; i++) { /* any change of a header shows in its sum */
        b.data[1024 + i] ^= 1;
        struct tar t = tar_of(textbuf_str(&b));
        CHECK(!tar_next(&t, &scratch, &m, &err));
        bool        is_blank = i == 155; /* the one byte of a header that says nothing */
        enum status st       = tar_next(&t, &scratch, &m, &err);
        CHECK_EQ(st, is_blank ? STATUS_OK : STATUS_USAGE);
        if (!is_blank) CHECK(strstr(err.text, "byte 1024"));
        b.data[1024 + i] ^= 1;
    }
}
