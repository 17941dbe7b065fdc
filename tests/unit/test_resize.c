/* test_resize.c - resizing is the mean under a triangle, on every processor to the bit. */
#include "base/rng.h"
#include "data/resize.h"
#include "harness.h"

static u64 draw(u64 *state, u64 below) { return (*state = rng_mix(*state + 1)) % below; }

static f64 draw_unit(u64 *state) { return (f64)draw(state, 1 << 30) / (1 << 30); }

static struct image any_image(struct arena *perm, u64 *seed, i64 side_max)
{
    struct image m = { .width    = 1 + (i64)draw(seed, (u64)side_max),
                       .height   = 1 + (i64)draw(seed, (u64)side_max),
                       .channels = draw(seed, 3) ? 3 : 1,
                       .scale    = 1 };
    m.stride       = m.width * m.channels + (i64)draw(seed, 5);
    m.pixels       = NEW(perm, u8, m.stride * m.height + IMAGE_PAD);
    for (i64 i = 0; i < m.stride * m.height; i++) m.pixels[i] = (u8)draw(seed, 256);
    return m;
}

/* A part of it, at whole places or not, to a size between an eighth and eight times its own. */
static struct resize any_resize(u64 *seed, const struct image *m)
{
    struct resize r = { .x        = draw_unit(seed) * 0.5 * (f64)m->width,
                        .y        = draw_unit(seed) * 0.5 * (f64)m->height,
                        .mirrored = draw(seed, 2) };
    r.width         = ((f64)m->width - r.x) * (0.2 + 0.8 * draw_unit(seed));
    r.height        = ((f64)m->height - r.y) * (0.2 + 0.8 * draw_unit(seed));
    r.to_width      = 1 + (i64)(r.width * exp((draw_unit(seed) - 0.5) * 4.1));
    r.to_height     = 1 + (i64)(r.height * exp((draw_unit(seed) - 0.5) * 4.1));
    return r;
}

static void *resized(struct arena *perm, const struct image *m, const struct resize *r,
                     const struct normal *n, enum isa isa)
{
    i64 bytes = r->to_width * r->to_height * m->channels * (n ? 4 : 1);
    u8 *to = arena_take(perm, bytes + 1, 1, 64), *room = NEW(perm, u8, resize_room(m, r));
    to[bytes] = 77; /* whoever writes too far is seen */
    image_resize(m, r, n, isa, room, to);
    CHECK_EQ(to[bytes], 77);
    return to;
}

static f64 height_at(f64 distance, f64 support) { return fmax(0, 1 - fabs(distance) / support); }

/* One value as the words say it: the mean of all pixels, weighed by the triangles of both axes. */
static f64 exact(const struct image *m, const struct resize *r, i64 x, i64 y, i64 c)
{
    f64 across = r->width / (f64)r->to_width, down = r->height / (f64)r->to_height;
    f64 cx = r->x + ((f64)x + 0.5) * across, cy = r->y + ((f64)y + 0.5) * down, sum = 0, all = 0;
    for (i64 v = (i64)r->y; v < m->height && (f64)v < r->y + r->height; v++)
        for (i64 u = (i64)r->x; u < m->width && (f64)u < r->x + r->width; u++) {
            f64 w = height_at((f64)u + 0.5 - cx, fmax(across, 1)) *
                    height_at((f64)v + 0.5 - cy, fmax(down, 1));
            sum += w * m->pixels[v * m->stride + u * m->channels + c];
            all += w;
        }
    return sum / all;
}

TEST(a_pixel_is_the_mean_under_a_triangle)
{
    u64 seed = test_seed();
    for (i64 round = 0; round < 60; round++) {
        struct arena  memory = *perm;
        struct image  m      = any_image(&memory, &seed, 40);
        struct resize r      = any_resize(&seed, &m);
        u8           *to     = resized(&memory, &m, &r, NULL, ISA_ANY);
        for (i64 i = 0; i < 20; i++) {
            i64 x = (i64)draw(&seed, (u64)r.to_width), y = (i64)draw(&seed, (u64)r.to_height);
            i64 c   = (i64)draw(&seed, (u64)m.channels);
            u8  got = to[(y * r.to_width + (r.mirrored ? r.to_width - 1 - x : x)) * m.channels + c];
            /* Half a step of rounding; 18 weights of at least 14 bits, each off by half of its last,
             * on both axes: 2 * 18 * 255 / 2^15 = 0.28 at the very most. */
            CHECK_NEAR(got, exact(&m, &r, x, y, c), 0.5 + 0.28);
        }
    }
}

TEST(every_processor_gives_the_same_bytes)
{
    u64           seed = test_seed();
    struct normal n    = { { 0.017f, 0.018f, 0.019f }, { -2, -1.5f, -1 } };
    for (i64 round = 0; round < 100; round++) {
        struct arena         memory = *perm;
        struct image         m      = any_image(&memory, &seed, 200);
        struct resize        r      = any_resize(&seed, &m);
        const struct normal *how    = draw(&seed, 2) ? &n : NULL;
        i64                  bytes  = r.to_width * r.to_height * m.channels * (how ? 4 : 1);
        void                *plain  = resized(&memory, &m, &r, how, ISA_ANY);
        CHECK(!memcmp(plain, resized(&memory, &m, &r, how, kernel_isa()), (size_t)bytes));
    }
}

TEST(the_same_size_is_a_copy)
{
    u64           seed = test_seed();
    struct image  m    = any_image(perm, &seed, 100);
    struct resize r    = { 0, 0, (f64)m.width, (f64)m.height, false, m.width, m.height };
    u8           *to   = resized(perm, &m, &r, NULL, kernel_isa());
    for (i64 y = 0; y < m.height; y++)
        CHECK(!memcmp(to + y * m.width * m.channels, m.pixels + y * m.stride,
                      (size_t)(m.width * m.channels)));
}

TEST(a_flat_picture_stays_flat)
{
    u64          seed = test_seed();
    struct image m    = any_image(perm, &seed, 300);
    memset(m.pixels, 255, (size_t)(m.stride * m.height));
    struct resize r  = any_resize(&seed, &m);
    u8           *to = resized(perm, &m, &r, NULL, kernel_isa());
    for (i64 i = 0; i < r.to_width * r.to_height * m.channels; i++) CHECK_EQ(to[i], 255);
}
