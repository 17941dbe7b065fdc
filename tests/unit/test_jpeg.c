/* test_jpeg.c - parts of JPEGs are what libjpeg itself makes of the whole, to the bit; what is broken is
 * refused with its name. */
#include "base/rng.h"
#include "data/image.h"
#include "harness.h"
#ifdef FRUGAL_HAVE_JPEG
#include <jpeglib.h>

struct picture {
    i32           width, height, channels;
    J_COLOR_SPACE space;
    i32           quality, h, v; /* sampling factors of the first component */
    bool          progressive, optimised, arithmetic;
    i32           restart;
};

/* Smooth waves under noise: long and short codes. */
static u8 *paint(struct arena *perm, const struct picture *p, u64 seed)
{
    struct rng_key key   = { .seed = seed };
    u8            *bytes = NEW(perm, u8, p->width * p->height * p->channels);
    f64            loud  = 120 * rng_uniform(key, 0);
    for (i64 i = 0; i < p->width * p->height * p->channels; i++) {
        i64 x = i / p->channels % p->width, y = i / p->channels / p->width;
        f64 wave = sin((f64)x * 0.05) * cos((f64)y * 0.03) * 80;
        bytes[i] = (u8)(128 + wave / 2 + loud * (rng_uniform(key, (u64)i + 9) - 0.5));
    }
    return bytes;
}

static struct str pack(struct arena *perm, const struct picture *p, u8 *pixels)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr       fatal;
    u8                         *out   = NULL;
    unsigned long               bytes = 0;
    c.err                             = jpeg_std_error(&fatal);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &bytes);
    c.image_width      = (JDIMENSION)p->width;
    c.image_height     = (JDIMENSION)p->height;
    c.input_components = p->channels;
    c.in_color_space   = p->space;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, p->quality, TRUE);
    if (p->space == JCS_CMYK) jpeg_set_colorspace(&c, p->optimised ? JCS_YCCK : JCS_CMYK);
    c.comp_info[0].h_samp_factor = p->h;
    c.comp_info[0].v_samp_factor = p->v;
    c.optimize_coding            = p->optimised;
    c.restart_interval           = (unsigned)p->restart;
    c.arith_code                 = p->arithmetic;
    if (p->progressive) jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        JSAMPROW row = pixels + (i64)c.next_scanline * p->width * p->channels;
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    struct str copy = str_copy(perm, (struct str){ (char *)out, (i64)bytes });
    free(out);
    return copy;
}

/* The whole by libjpeg alone, scaled to eighths. */
static u8 *whole(struct arena *perm, struct str file, i64 channels, i64 eighth, i64 *width,
                 i64 *height)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr         fatal;
    d.err = jpeg_std_error(&fatal);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, (const u8 *)file.data, (unsigned long)file.len);
    jpeg_read_header(&d, TRUE);
    d.scale_num       = (unsigned)eighth;
    d.scale_denom     = 8;
    d.out_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&d);
    *width    = d.output_width;
    *height   = d.output_height;
    u8 *bytes = NEW(perm, u8, *width * *height * channels);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = bytes + (i64)d.output_scanline * *width * channels;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
    return bytes;
}

static struct image part(struct arena *perm, struct str file, const struct image_want *want)
{
    struct image_info info;
    struct image      image;
    struct err        err = { 0 };
    if (image_look(STR("a.jpg"), file, &info, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    u8 *room = NEW(perm, u8, image_room(&info, file.len, want));
    if (image_decode(STR("a.jpg"), file, &info, want, room, &image, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return image;
}

static u64 draw(u64 *state, u64 below) { return (*state = rng_mix(*state + 1)) % below; }

static struct picture any_picture(u64 *seed)
{
    static const struct {
        J_COLOR_SPACE space;
        i32           channels;
    } kinds[] = {
        { JCS_RGB, 3 },
        { JCS_RGB, 3 },
        { JCS_RGB, 3 },
        { JCS_GRAYSCALE, 1 },
    };
    u64 kind = draw(seed, COUNT_OF(kinds)), rare = draw(seed, 8);
    return (struct picture){
        .width       = 1 + (i32)draw(seed, 300),
        .height      = 1 + (i32)draw(seed, 200),
        .space       = kinds[kind].space,
        .channels    = kinds[kind].channels,
        .quality     = 1 + (i32)draw(seed, 100),
        .h           = 1 + (i32)draw(seed, kind == 3 ? 2 : 4),
        .v           = 1 + (i32)draw(seed, 2),
        .optimised   = rare != 1 && draw(seed, 2),
        .progressive = rare == 0,
        .arithmetic  = rare == 1,
        .restart     = rare == 2 ? 1 + (i32)draw(seed, 20) : 0,
    };
}

static struct rect any_part(u64 *seed, i64 width, i64 height)
{
    struct rect r = { .x = (i64)draw(seed, (u64)width), .y = (i64)draw(seed, (u64)height) };
    r.width       = 1 + (i64)draw(seed, (u64)(width - r.x));
    r.height      = 1 + (i64)draw(seed, (u64)(height - r.y));
    return r;
}

TEST(a_part_is_that_part_of_the_whole)
{
    u64 seed = test_seed();
    for (i64 round = 0; round < 400; round++) {
        struct arena      memory = *perm;
        struct picture    p      = any_picture(&seed);
        struct str        file   = pack(&memory, &p, paint(&memory, &p, seed));
        struct image_want want   = { .part     = any_part(&seed, p.width, p.height),
                                     .channels = draw(&seed, 2) ? 3 : 1 };
        if (draw(&seed, 2)) want.width = want.height = 1 + (i64)draw(&seed, 60);
        struct image image = part(&memory, file, &want);
        i64          width, height, eighth = (i64)(image.scale * 8);
        u8          *all = whole(&memory, file, want.channels, eighth, &width, &height);
        i64          x0 = want.part.x * eighth / 8, y0 = want.part.y * eighth / 8;
        CHECK(image.x >= 0 && image.x < 1 && image.y >= 0 && image.y < 1);
        CHECK(want.width == 0 || eighth == 8 ||
              (want.part.width * eighth / 8 >= want.width &&
               want.part.height * eighth / 8 >= want.height));
        for (i64 y = 0; y < image.height; y++)
            if (memcmp(image.pixels + y * image.stride,
                       all + ((y0 + y) * width + x0) * want.channels,
                       (size_t)(image.width * want.channels)))
                harness_fail(__FILE__, __LINE__,
                             "%dx%d quality %d, %dx%d samples%s%s%s%s, %lld/8: row %lld of "
                             "%lldx%lld at %lld,%lld differs",
                             p.width, p.height, p.quality, p.h, p.v,
                             p.progressive ? " progressive" : "", p.restart ? " restarts" : "",
                             p.arithmetic ? " arithmetic" : "",
                             p.space == JCS_GRAYSCALE ? " grey" : "", (long long)eighth,
                             (long long)y, (long long)want.part.width, (long long)want.part.height,
                             (long long)want.part.x, (long long)want.part.y);
    }
}

static void refused(struct str file, const char *words)
{
    struct image_info info;
    struct image      image;
    struct err        err = { 0 };
    static u8         room[1 << 18];
    enum status       st = image_look(STR("dir/a.jpg"), file, &info, &err);
    if (!st) {
        struct image_want w = { .part = { 0, 0, info.width, info.height }, .channels = 3 };
        CHECK(image_room(&info, file.len, &w) <= (i64)sizeof room);
        st = image_decode(STR("dir/a.jpg"), file, &info, &w, room, &image, &err);
    }
    CHECK(st != STATUS_OK);
    CHECK(strstr(err.text, "dir/a.jpg"));
    if (!strstr(err.text, words))
        harness_fail(__FILE__, __LINE__, "no \"%s\" in: %s", words, err.text);
}

TEST(a_broken_jpeg_is_refused_by_name)
{
    struct picture p = {
        .width = 100, .height = 80, .channels = 3, .space = JCS_RGB, .quality = 90, .h = 2, .v = 2
    };
    struct str file = pack(perm, &p, paint(perm, &p, 1));
    refused(str_sub(file, 0, 2), "neither");
    refused(str_sub(file, 0, 100), "is not a valid JPEG");
    refused(str_sub(file, 0, file.len / 2), "is not a valid JPEG"); /* in our scan */
    p.progressive = true;
    file          = pack(perm, &p, paint(perm, &p, 1));
    refused(str_sub(file, 0, file.len / 2), "is not a valid JPEG"); /* in libjpeg's */
    char *bomb = (char *)(uintptr_t)str_z(perm, file);
    for (i64 i = 0; i + 9 < file.len; i++)
        if ((u8)bomb[i] == 0xff && (u8)bomb[i + 1] == 0xc2)
            memcpy(bomb + i + 5, "\xff\x00\xff\x00", 4);
    refused((struct str){ bomb, file.len }, "65280x65280");
}

TEST(cmyk_is_taken_as_adobe_stores_it)
{
    struct picture p = {
        .width = 40, .height = 30, .channels = 4, .space = JCS_CMYK, .quality = 95, .h = 1, .v = 1
    };
    u64 seed = test_seed();
    for (i32 ycck = 0; ycck < 2; ycck++) {
        p.optimised       = ycck;
        struct str   file = pack(perm, &p, paint(perm, &p, seed));
        i64          width, height;
        u8          *cmyk = whole(perm, file, 4, 8, &width, &height);
        struct image m =
            part(perm, file, &(struct image_want){ .part = { 3, 5, 30, 20 }, .channels = 3 });
        for (i64 y = 0; y < 20; y++)
            for (i64 x = 0; x < 30; x++)
                for (i64 c = 0; c < 3; c++) {
                    const u8 *at = cmyk + ((y + 5) * width + x + 3) * 4;
                    CHECK_EQ(m.pixels[y * m.stride + 3 * x + c], lrint(at[c] * at[3] / 255.0));
                }
    }
}
#else
TEST(jpeg_is_read) { SKIP("this build has no libjpeg"); }
#endif
