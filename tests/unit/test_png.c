/* test_png.c - every kind of PNG gives the pixels that were put in, part by part; what is broken is refused
 * with its name. */
#include "base/hash.h"
#include "base/rng.h"
#include "data/image.h"
#include "harness.h"
#ifdef FRUGAL_HAVE_PNG
#include <png.h>

static u64 draw(u64 *state, u64 below) { return (*state = rng_mix(*state + 1)) % below; }

struct picture {
    i32 width, height, colour, depth, interlace;
};

/* Samples of a row before they are packed: [width * samples] of `depth` bits each. */
static i64 samples_of(const struct picture *p)
{
    return p->colour == PNG_COLOR_TYPE_RGB          ? 3
           : p->colour == PNG_COLOR_TYPE_RGB_ALPHA  ? 4
           : p->colour == PNG_COLOR_TYPE_GRAY_ALPHA ? 2
                                                    : 1;
}

struct out {
    struct arena *perm;
    struct str    bytes;
};

static void put(png_structp png, png_bytep bytes, size_t count)
{
    struct out *out = png_get_io_ptr(png);
    out->bytes      = str_cat(out->perm, out->bytes, (struct str){ (char *)bytes, (i64)count });
}

static void flush(png_structp png) { (void)png; }

static const png_color palette[16] = { { 1, 2, 3 },  { 250, 0, 9 }, { 7, 99, 200 }, { 4, 4, 4 },
                                       { 8, 80, 8 }, { 9, 9, 90 },  { 17, 71, 1 },  { 0, 0, 0 } };

static struct str pack(struct arena *perm, struct arena scratch, const struct picture *p,
                       const u16 *sample)
{
    struct out  out  = { perm, STR("") };
    png_structp png  = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop   info = png_create_info_struct(png);
    i64         n    = samples_of(p) * p->width;
    png_set_write_fn(png, &out, put, flush);
    png_set_IHDR(png, info, (u32)p->width, (u32)p->height, p->depth, p->colour, p->interlace, 0, 0);
    if (p->colour == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 1 << p->depth);
    png_write_info(png, info);
    i32 passes = png_set_interlace_handling(png);
    for (i32 pass = 0; pass < passes; pass++)
        for (i64 y = 0; y < p->height; y++) {
            struct arena row_memory = scratch;
            u8          *row        = NEW(&row_memory, u8, n * 2 + 8);
            for (i64 i = 0; i < n; i++) {
                u16 v = sample[y * n + i];
                if (p->depth == 16) row[2 * i] = (u8)(v >> 8), row[2 * i + 1] = (u8)v;
                else row[i * p->depth / 8] |= (u8)(v << (8 - p->depth - i * p->depth % 8));
            }
            png_write_row(png, row);
        }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return out.bytes;
}

/* What a pixel should come out as. */
static void expect(const struct picture *p, const u16 *sample, i64 x, i64 y, u8 rgb[3])
{
    const u16 *at   = sample + (y * p->width + x) * samples_of(p);
    i32        most = (1 << p->depth) - 1;
    for (i32 c = 0; c < 3; c++) {
        u16 v = at[p->colour & PNG_COLOR_MASK_COLOR && p->colour != PNG_COLOR_TYPE_PALETTE ? c : 0];
        rgb[c] = (u8)(p->depth == 16 ? v >> 8 : v * 255 / most);
        if (p->colour == PNG_COLOR_TYPE_PALETTE)
            rgb[c] = c == 0 ? palette[v].red : c == 1 ? palette[v].green : palette[v].blue;
    }
}

static struct picture any_picture(u64 *seed)
{
    static const struct {
        i32 colour, depths[5];
    } kinds[] = {
        { PNG_COLOR_TYPE_GRAY, { 1, 2, 4, 8, 16 } },
        { PNG_COLOR_TYPE_RGB, { 8, 16, 8, 16, 8 } },
        { PNG_COLOR_TYPE_PALETTE, { 1, 2, 4, 4, 4 } },
        { PNG_COLOR_TYPE_GRAY_ALPHA, { 8, 16, 8, 16, 8 } },
        { PNG_COLOR_TYPE_RGB_ALPHA, { 8, 16, 8, 16, 8 } },
    };
    u64 kind = draw(seed, COUNT_OF(kinds));
    return (struct picture){ .width  = 1 + (i32)draw(seed, 40),
                             .height = 1 + (i32)draw(seed, 40),
                             .colour = kinds[kind].colour,
                             .depth  = kinds[kind].depths[draw(seed, 5)],
                             .interlace =
                                 draw(seed, 2) ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE };
}

static struct image_want any_part(u64 *seed, i64 width, i64 height)
{
    struct image_want w = { .channels = draw(seed, 2) ? 3 : 1 };
    w.part.x            = (i64)draw(seed, (u64)width);
    w.part.y            = (i64)draw(seed, (u64)height);
    w.part.width        = 1 + (i64)draw(seed, (u64)(width - w.part.x));
    w.part.height       = 1 + (i64)draw(seed, (u64)(height - w.part.y));
    return w;
}

TEST(every_kind_of_png_gives_its_pixels)
{
    u64 seed = test_seed();
    for (i64 round = 0; round < 300; round++) {
        struct arena      memory = *perm;
        struct picture    p      = any_picture(&seed);
        i64               n      = samples_of(&p) * p.width * p.height;
        u16              *sample = NEW(&memory, u16, n);
        struct image_info info;
        struct image      image;
        struct err        err = { 0 };
        for (i64 i = 0; i < n; i++) sample[i] = (u16)draw(&seed, 1ull << p.depth);
        struct str file = pack(&memory, scratch, &p, sample);
        CHECK(!image_look(STR("a.png"), file, &info, &err));
        CHECK_EQ(info.width, p.width);
        struct image_want w    = any_part(&seed, p.width, p.height);
        u8               *room = NEW(&memory, u8, image_room(&info, file.len, &w));
        CHECK(!image_decode(STR("a.png"), file, &info, &w, room, &image, &err));
        for (i64 y = 0; y < image.height; y++)
            for (i64 x = 0; x < image.width; x++) {
                u8 rgb[3], *got = image.pixels + y * image.stride + x * w.channels;
                expect(&p, sample, w.part.x + x, w.part.y + y, rgb);
                if (w.channels == 3) CHECK(!memcmp(got, rgb, 3));
                else
                    CHECK_EQ(got[0],
                             (19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 0x8000) >> 16);
            }
    }
}

/* A name in front, and nothing but a sentence: no crash, no memory left behind. */
static void refused(struct str file, const char *words)
{
    struct image_info info;
    struct image      image;
    struct err        err = { 0 };
    static u8         room[1 << 16];
    enum status       st = image_look(STR("dir/a.png"), file, &info, &err);
    if (!st) {
        struct image_want w = { .part = { 0, 0, info.width, info.height }, .channels = 3 };
        CHECK(image_room(&info, file.len, &w) <= (i64)sizeof room);
        st = image_decode(STR("dir/a.png"), file, &info, &w, room, &image, &err);
    }
    CHECK(st != STATUS_OK);
    CHECK(strstr(err.text, "dir/a.png"));
    if (!strstr(err.text, words))
        harness_fail(__FILE__, __LINE__, "no \"%s\" in: %s", words, err.text);
}

TEST(a_broken_png_is_refused_by_name)
{
    struct picture p      = { 20, 20, PNG_COLOR_TYPE_RGB, 8, PNG_INTERLACE_NONE };
    u16           *sample = NEW(perm, u16, 1200);
    struct str     file   = pack(perm, scratch, &p, sample);
    refused(STR("GIF89a"), "neither a JPEG nor a PNG");
    refused(str_sub(file, 0, 20), "ends too early");
    refused(str_sub(file, 0, file.len / 2), "is not a valid PNG");
    char *bomb = (char *)(uintptr_t)str_z(perm, file);
    memcpy(bomb + 16, "\x00\x00\xff\x00\x00\x00\xff\x00", 8); /* 65280 x 65280 */
    u32 sum = __builtin_bswap32(crc32_add(0, (struct str){ bomb + 12, 17 }));
    memcpy(bomb + 29, &sum, 4);
    refused((struct str){ bomb, file.len }, "65280x65280");
}
#else
TEST(png_is_read) { SKIP("this build has no libpng"); }
#endif
