/* test_augment.c - views follow their laws, and show what they say. */
#include "data/augment.h"
#include "harness.h"

static const struct augment random_crop = { .crop     = CROP_RANDOM,
                                            .size     = 32,
                                            .channels = 3,
                                            .area_min = 0.08,
                                            .area_max = 1,
                                            .ratio    = 4.0 / 3,
                                            .flip     = 0.5 };

static struct view draw(const struct augment *a, i64 width, i64 height, u64 seed, i64 index)
{
    return view_draw(a, width, height, (struct rng_key){ .seed = seed, .sample = (u64)index });
}

TEST(a_random_crop_has_the_areas_and_shapes_of_its_law)
{
    enum { COUNT = 20000 };
    u64 seed = test_seed();
    f64 area = 0, shape = 0, flips = 0, at_x = 0, largest = 0, smallest = 1;
    for (i64 i = 0; i < COUNT; i++) {
        struct view v = draw(&random_crop, 1000, 1000, seed, i);
        f64         w = (f64)v.part.width, h = (f64)v.part.height;
        CHECK(v.part.x >= 0 && v.part.y >= 0);
        CHECK(v.part.x + v.part.width <= 1000 && v.part.y + v.part.height <= 1000);
        CHECK(w / h > 0.745 && w / h < 1.341); /* rounded to whole pixels */
        area += w * h / 1e6 / COUNT;
        shape += log(w / h) / COUNT;
        flips += (f64)v.mirrored / COUNT;
        if (v.part.width < 1000) at_x += (f64)v.part.x / (f64)(1000 - v.part.width) / COUNT;
        largest  = fmax(largest, w * h / 1e6);
        smallest = fmin(smallest, w * h / 1e6);
    }
    /* Areas are uniform on [0.08, 1] but for those that do not fit in their shape and are drawn again:
     * the law written down in Python and drawn two million times has a mean of 0.4777. Standard errors
     * are 0.0018, 0.0012, 0.0035 and 0.002; six of each. */
    CHECK_NEAR(area, 0.4777, 0.011);
    CHECK_NEAR(shape, 0, 0.008);
    CHECK_NEAR(flips, 0.5, 0.021);
    CHECK_NEAR(at_x, 0.5, 0.013);
    CHECK(largest > 0.9 && smallest < 0.09);
}

TEST(a_shape_that_never_fits_gives_the_middle)
{
    struct view v = draw(&random_crop, 4000, 30, 1, 1);
    CHECK_EQ(v.part.height, 30);
    CHECK_EQ(v.part.width, 40);
    CHECK_EQ(v.part.x, 1980);
    v = draw(&random_crop, 1, 1, 1, 1);
    CHECK_EQ(v.part.width, 1);
}

TEST(evaluation_sees_the_middle_square)
{
    struct augment a = random_crop;
    a.centre         = 0.875;
    struct view v    = view_still(&a, 500, 400);
    CHECK_EQ(v.part.width, 350);
    CHECK_EQ(v.part.height, 350);
    CHECK_EQ(v.part.x, 75);
    CHECK_EQ(v.part.y, 25);
    CHECK(!v.mirrored);
    a.crop = CROP_PAD;
    v      = view_still(&a, 500, 400);
    CHECK_EQ(v.part.width, 500);
    CHECK_EQ(v.dx, 0);
}

/* 8x8, pixel (x, y) is 10 y + x + 1. */
static struct image eight(struct arena *perm)
{
    struct image m = { NEW(perm, u8, 64 + IMAGE_PAD), 8, 8, 1, 8, 0, 0, 1 };
    for (i64 i = 0; i < 64; i++) m.pixels[i] = (u8)(i / 8 * 10 + i % 8 + 1);
    return m;
}

TEST(a_moved_picture_brings_in_black)
{
    struct augment a    = { .crop = CROP_PAD, .size = 8, .channels = 1, .pad = 3 };
    struct image   m    = eight(perm);
    struct rect    all  = { 0, 0, 8, 8 };
    i64            seen = 0;
    u8             to[64];
    for (i64 i = 0; i < 200; i++) {
        struct view v = draw(&a, 8, 8, 5, i);
        CHECK(llabs(v.dx) <= 3 && llabs(v.dy) <= 3);
        seen |= 1 << (v.dx + 3);
        view_make(&a, &v, &m, all, ISA_ANY, NEW(perm, u8, view_room(&a, &v, &m)), to);
        for (i64 y = 0; y < 8; y++)
            for (i64 x = 0; x < 8; x++) {
                i64 u = x - v.dx, w = y - v.dy;
                CHECK_EQ(to[y * 8 + x], u >= 0 && u < 8 && w >= 0 && w < 8 ? 10 * w + u + 1 : 0);
            }
    }
    CHECK_EQ(seen, 127); /* every way */
}

TEST(a_hole_is_a_square_of_zeros)
{
    struct augment a = {
        .crop = CROP_WHOLE, .size = 8, .channels = 1, .cutout = 3, .is_normal = true
    };
    struct image m   = eight(perm);
    struct rect  all = { 0, 0, 8, 8 };
    a.normal         = (struct normal){ { 2 }, { 1 } };
    f32 to[64];
    i64 cut = 0;
    for (i64 i = 0; i < 100; i++) {
        struct view v = draw(&a, 8, 8, 6, i);
        struct rect h = v.hole;
        CHECK(h.x >= 0 && h.width >= 2 && h.width <= 3 && h.x + h.width <= 8);
        CHECK(h.y >= 0 && h.height >= 2 && h.height <= 3 && h.y + h.height <= 8);
        cut += h.width < 3;
        view_make(&a, &v, &m, all, kernel_isa(), NEW(perm, u8, view_room(&a, &v, &m)), to);
        for (i64 k = 0; k < 64; k++) {
            bool in =
                k % 8 >= h.x && k % 8 < h.x + h.width && k / 8 >= h.y && k / 8 < h.y + h.height;
            CHECK_EQ(to[k], in ? 0.0f : 2.0f * (f32)m.pixels[k] + 1);
        }
    }
    CHECK(cut > 5 && cut < 60); /* one in four lies partly outside */
    CHECK_EQ(view_still(&a, 8, 8).hole.width, 0);
}

TEST(a_view_depends_on_its_address_alone)
{
    for (i64 i = 0; i < 50; i++) {
        struct view a = draw(&random_crop, 300, 200, 3, i), b = draw(&random_crop, 300, 200, 3, i);
        struct view c = draw(&random_crop, 300, 200, 4, i);
        CHECK(!memcmp(&a.part, &b.part, sizeof a.part));
        CHECK(memcmp(&a.part, &c.part, sizeof a.part));
    }
}

TEST(shares_of_mixed_pictures_follow_their_beta_law)
{
    static const f64 alphas[] = { 0.2, 0.5, 1 };
    u64              seed     = test_seed();
    for (i64 a = 0; a < COUNT_OF(alphas); a++) {
        enum { COUNT = 20000 };
        f64 mean = 0, square = 0;
        for (i64 i = 0; i < COUNT; i++) {
            f64 x = mix_share(alphas[a], (struct rng_key){ .seed = seed, .sample = (u64)i });
            CHECK(x >= 0 && x <= 1);
            mean += x / COUNT;
            square += (x - 0.5) * (x - 0.5) / COUNT;
        }
        /* Beta(a, a): mean 1/2, variance 1 / (4 (2 a + 1)) <= 0.18. Six standard errors: at most
         * 6 sqrt(0.18 / 20000) = 0.018, and of the variance 6 * 0.11 / sqrt(20000) = 0.005. */
        CHECK_NEAR(mean, 0.5, 0.018);
        CHECK_NEAR(square, 1 / (4 * (2 * alphas[a] + 1)), 0.005);
    }
}
