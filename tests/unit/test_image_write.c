#include "data/image_write.h"
#include "harness.h"

/* Squares of one colour that are JPEG's units of 16 x 16 pixels: of each block only the mean is not 0, and halving the
 * resolution of colour loses nothing but at the squares' edges, where reading it back smooths. */
enum { UNIT = 16 };
static u8 level(i64 x, i64 y, i64 c)
{
    return (u8)(40 + (x / UNIT * 37 * (c + 1) + y / UNIT * 53 * (3 - c)) % 160);
}
static bool is_inside(i64 x) { return x % UNIT > 1 && x % UNIT < UNIT - 2; }

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
            for (i64 c = 0; c < 3; c++) rgb[(y * width + x) * 3 + c] = level(x, y, c);
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
    /* Y, Cb and Cr are each rounded to a whole number: 0.5. The mean of a block is kept as 8 times that in steps of 2
     * (quality 95: 10 % of the 16 and 17 of T.81, tables K.1 and K.2), so nothing more is lost. Back, the weights of
     * R = Y + 1.402 Cr, G = Y - 0.344 Cb - 0.714 Cr and B = Y + 1.772 Cb add up to at most 2.772, and the result is
     * rounded once more: 0.5 * 2.772 + 0.5 = 1.9, and whole numbers differ by whole ones. */
    const f64 allowed = 1;
    CHECK(!image_decode(STR("a"), file, &info, &want, room, &image, &err));
    for (i64 y = 0; y < 47; y++)
        for (i64 x = 0; x < 61; x++)
            for (i64 c = 0; c < 3 && is_inside(x) && is_inside(y); c++)
                CHECK_NEAR(image.pixels[y * image.stride + x * 3 + c], level(x, y, c), allowed);
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
