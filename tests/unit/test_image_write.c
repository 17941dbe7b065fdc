#include "data/image_write.h"
#include "harness.h"

/* A picture without edges, which JPEG keeps within a few levels at quality 95. */
static u8 level(i64 x, i64 y, i64 c) { return (u8)(40 + (x * (c + 1) + y * (3 - c)) / 6 % 160); }

static void need_jpeg(void)
{
    if (!image_library(IMAGE_JPEG)) SKIP("no libjpeg");
}

static struct str jpeg_of(struct arena *perm, i64 width, i64 height, struct buffer *to)
{
    u8        *rgb = NEW(perm, u8, width * height * 3);
    struct err err = { 0 };
    for (i64 y = 0; y < height; y++)
        for (i64 x = 0; x < width; x++)
            for (i64 c = 0; c < 3; c++) rgb[(y * width + x) * 3 + c] = level(x / 4, y / 4, c);
    CHECK(!image_write_jpeg(rgb, width, height, 95, to, &err));
    return (struct str){ (const char *)to->data, to->bytes };
}

TEST(a_picture_that_is_written_is_read_back)
{
    need_jpeg();
    struct buffer     b = { 0 };
    struct image_info info;
    struct image      image;
    struct err        err  = { 0 };
    struct str        file = jpeg_of(perm, 61, 47, &b);
    CHECK(!image_look(STR("a"), file, &info, &err));
    CHECK_EQ(info.kind, IMAGE_JPEG);
    CHECK_EQ(info.width, 61);
    CHECK_EQ(info.height, 47);
    struct image_want want = { { 0, 0, 61, 47 }, 0, 0, 3 };
    u8               *room = NEW(perm, u8, image_room(&info, file.len, &want));
    CHECK(!image_decode(STR("a"), file, &info, &want, room, &image, &err));
    for (i64 y = 0; y < 47; y++)
        for (i64 x = 0; x < 61; x++)
            for (i64 c = 0; c < 3; c++) /* twice what libjpeg-turbo 2.1 is seen to lose here */
                CHECK_NEAR(image.pixels[y * image.stride + x * 3 + c], level(x / 4, y / 4, c), 6);
    buffer_release(&b);
}

TEST(only_what_is_larger_is_made_smaller)
{
    need_jpeg();
    struct buffer     b = { 0 }, small = { 0 }, spare = { 0 };
    struct image_info info;
    struct err        err  = { 0 };
    struct str        file = jpeg_of(perm, 300, 200, &b);
    bool              changed;
    CHECK(!image_shrink(STR("a"), file, 200, 90, &small, &spare, &changed, &err));
    CHECK(!changed);
    CHECK(!image_shrink(STR("a"), file, 64, 90, &small, &spare, &changed, &err));
    CHECK(changed);
    CHECK(
        !image_look(STR("a"), (struct str){ (const char *)small.data, small.bytes }, &info, &err));
    CHECK_EQ(info.width, 96);
    CHECK_EQ(info.height, 64);
    CHECK(image_shrink(STR("no.jpg"), STR("\xff\xd8\xff no picture"), 64, 90, &small, &spare,
                       &changed, &err));
    CHECK(strstr(err.text, "no.jpg"));
    buffer_release(&b);
    buffer_release(&small);
    buffer_release(&spare);
}
