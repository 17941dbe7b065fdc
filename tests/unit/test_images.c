/* test_images.c - folders of pictures through the loader: labels, splits, and the same bytes however they
 * are made. */
#include "base/hash.h"
#include "base/rng.h"
#include "data/augment.h"
#include "data/data.h"
#include "data/image.h"
#include "harness.h"
#include "support/folder.h"
#include "support/picture.h"

enum { CLASSES = 3, EACH = 20 };

/* CLASSES folders of EACH images of sides between 40 and 139. */
static struct str pictures(struct arena *perm, u64 seed)
{
    static const char *const names[CLASSES] = { "ant", "bee", "cat" };
    struct str               dir            = folder_new(perm);
    for (i64 c = 0; c < CLASSES; c++) {
        struct str sub = str_fmt(perm, "%.*s/%s", STR_ARG(dir), names[c]);
        CHECK(!os_real()->make_dir(os_real(), sub, NULL));
        for (i64 i = 0; i < EACH; i++) {
            i64 side = 40 + (i64)((seed + (u64)(c * 31 + i * 17)) % 100);
            folder_put(perm, sub, str_z(perm, str_fmt(perm, "%02lld.jpg", (long long)i)),
                       picture_jpeg(perm, side, 179 - side, seed + (u64)(c * EACH + i)));
        }
    }
    return dir;
}

static struct data_config config_of(struct str dir)
{
    return (struct data_config){ .path            = dir,
                                 .held_out        = 0.2,
                                 .image_size      = 24,
                                 .image_colour    = true,
                                 .augment         = { STR("crop"), STR("flip"), STR("cutout=5") },
                                 .augment_count   = 3,
                                 .image_normalise = STR("imagenet") };
}

static struct dataset *opened(struct arena *perm, const struct data_config *c)
{
    struct dataset *d;
    struct err      err;
    if (!image_library(IMAGE_JPEG)) SKIP("this build has no libjpeg");
    if (dataset_open(os_real(), c, perm, &d, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return d;
}

/* All batches of two epochs in one number. */
static u64 print_of(struct arena perm, struct dataset *d, struct loader_options options)
{
    struct loader_config c = { .split   = SPLIT_TRAIN,
                               .seed    = 9,
                               .shuffle = true,
                               .forever = true,
                               .batch   = 7,
                               .options = options };
    struct loader       *l;
    struct err           err;
    u64                  print = 0;
    if (loader_open(&perm, d, &c, &l, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    for (struct batch *b = loader_next(l); b && b->epoch < 2; b = loader_next(l)) {
        const struct feeds *feeds = dataset_feeds(d);
        for (i32 f = 0; f < feeds->count; f++)
            print = rng_mix(print ^ xxh64((struct str){
                                        b->data[f], b->count * type_bytes(feeds->feed[f].type) }));
    }
    CHECK(loader_close(l));
    return print;
}

static struct loader_options threads(i64 count, struct str keep)
{
    return (struct loader_options){ .workers       = { count, count, count },
                                    .workers_count = STAGE_COUNT,
                                    .keep          = keep };
}

TEST(batches_are_the_same_for_any_threads_and_with_samples_kept)
{
    static const char *const crops[] = { "crop", "center", "pad=3", "flip=0.5" };
    u64                      seed    = test_seed();
    struct data_config       c       = config_of(pictures(perm, seed % 1000));
    for (i64 i = 0; i < COUNT_OF(crops); i++) {
        c.augment[0]        = str_of(crops[i]);
        c.augment_count     = i == 3 ? 1 : 3; /* the last: all of it */
        c.image_normalise   = i % 2 ? STR("none") : STR("half");
        c.image_colour      = i != 2;
        struct dataset *d   = opened(perm, &c);
        u64             one = print_of(scratch, d, threads(1, STR("off")));
        CHECK_EQ(print_of(scratch, d, threads(5, STR("off"))), one);
        CHECK_EQ(print_of(scratch, d, threads(3, STR("on"))), one);
        dataset_close(d);
    }
}

TEST(classes_are_subfolders_and_each_is_held_out)
{
    struct data_config   c = config_of(pictures(perm, 1));
    struct dataset      *d = opened(perm, &c);
    struct loader_config l = { .split   = SPLIT_EVAL,
                               .batch   = 12,
                               .options = threads(2, STR("off")) };
    struct loader       *loader;
    i64                  seen[CLASSES] = { 0 };
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 48);
    CHECK_EQ(dataset_count(d, SPLIT_EVAL), 12);
    CHECK_EQ(feeds_find(dataset_feeds(d), STR("y"))->range, CLASSES);
    CHECK_STR(type_text(perm, feeds_find(dataset_feeds(d), STR("x"))->type), "f32[24,24,3]");
    CHECK(!loader_open(perm, d, &l, &loader, NULL));
    const i32 *y = loader_next(loader)->data[1];
    for (i64 i = 0; i < 12; i++) seen[y[i]]++;
    for (i64 i = 0; i < CLASSES; i++) CHECK_EQ(seen[i], 4);
    CHECK(loader_close(loader));
    dataset_close(d);

    c.samples = 6; /* two of each, not six of the first */
    d         = opened(perm, &c);
    l         = (struct loader_config){ .batch = 6, .options = threads(1, STR("off")) };
    CHECK(!loader_open(perm, d, &l, &loader, NULL));
    y = loader_next(loader)->data[1];
    for (i64 i = 0; i < 6; i++) CHECK_EQ(y[i], i / 2);
    CHECK(loader_close(loader));
    dataset_close(d);
}

/* The picture's middle square, decoded at full scale and then resized. */
static void full_scale(const struct augment *a, struct str path, u8 *to, struct arena scratch)
{
    struct image_info info;
    struct image      image;
    struct str        file;
    CHECK(!os_read_all(os_real(), path, &scratch, &file, NULL));
    CHECK(!image_look(path, file, &info, NULL));
    struct view       v    = view_still(a, info.width, info.height);
    struct image_want want = { v.part, 0, 0, 3 };
    u8               *room = NEW(&scratch, u8, image_room(&info, file.len, &want));
    CHECK(!image_decode(path, file, &info, &want, room, &image, NULL));
    view_make(a, &v, &image, v.part, kernel_isa(), NEW(&scratch, u8, view_room(a, &v, &image)), to);
}

/* Training may decode a JPEG at half its size or less, where pixels differ by several levels. */
TEST(evaluation_sees_pictures_at_full_scale)
{
    u64                seed = test_seed();
    struct str         dir  = pictures(perm, seed % 1000);
    struct data_config c    = config_of(dir);
    c.eval_path             = dir;
    c.image_normalise       = STR("none");
    c.image_size            = 12;
    struct dataset      *d  = opened(perm, &c);
    struct loader_config l  = { .split   = SPLIT_EVAL,
                                .batch   = CLASSES * EACH,
                                .options = threads(2, STR("off")) };
    struct loader       *loader;
    struct augment       a;
    u8                   want[12 * 12 * 3];
    CHECK(!augment_from(&c, &a, NULL));
    CHECK(!loader_open(perm, d, &l, &loader, NULL));
    const u8 *x = loader_next(loader)->data[0];
    for (i64 i = 0; i < EACH; i++) {
        struct str path = str_fmt(&scratch, "%.*s/ant/%02lld.jpg", STR_ARG(dir), (long long)i);
        full_scale(&a, path, want, scratch);
        CHECK(!memcmp(x + i * (i64)sizeof want, want, sizeof want));
    }
    CHECK(loader_close(loader));
    dataset_close(d);
}

/* The first batch. */
static struct batch *first_batch(struct arena *perm, struct dataset *d, struct loader **l)
{
    struct loader_config c = { .batch = 9, .options = threads(3, STR("off")) };
    CHECK(!loader_open(perm, d, &c, l, NULL));
    return loader_next(*l);
}

TEST(mixed_pictures_are_two_by_their_shares)
{
    struct data_config c     = config_of(pictures(perm, 4));
    struct dataset    *plain = opened(perm, &c);
    struct loader     *l[2];
    enum { SIZE = 24 * 24 * 3 };
    c.augment[c.augment_count++] = STR("mixup=0.7");
    struct dataset *mixed        = opened(perm, &c);
    struct batch   *a = first_batch(perm, plain, &l[0]), *b = first_batch(perm, mixed, &l[1]);
    const f32      *from = a->data[0], *to = b->data[0], *share = b->data[3];
    const i32      *y = b->data[1], *other = b->data[2];
    for (i64 i = 0; i < 9; i++) {
        i64 j = 8 - i;
        CHECK_EQ(y[i], ((i32 *)a->data[1])[i]);
        CHECK_EQ(other[i], y[j]);
        CHECK_EQ(share[i], i == 4 ? 1.0f : share[0]); /* the middle one has nobody */
        for (i64 k = 0; k < SIZE; k++)
            CHECK_NEAR(to[i * SIZE + k],
                       share[i] * from[i * SIZE + k] + (1 - share[i]) * from[j * SIZE + k],
                       1e-5); /* f32, values below 3 */
    }
    for (i64 i = 0; i < 2; i++) CHECK(loader_close(l[i]));
    dataset_close(plain);
    dataset_close(mixed);
}

/* As a model normalises them: bit-exact where the loader would have, but for a hole, which has the byte nearest to the
 * mean: at most half a level from 0. */
TEST(bytes_with_a_factor_and_a_shift_are_the_normalised_numbers)
{
    enum { SIZE = 24 * 24 * 3, COUNT = 48 };
    struct data_config   c = config_of(pictures(perm, 4));
    struct loader_config l = {
        .seed = 5, .shuffle = true, .batch = COUNT, .options = threads(2, STR("off"))
    };
    struct dataset *d[2];
    struct loader  *loader[2];
    struct batch   *b[2];
    struct err      err;
    i64             holes = 0;
    for (i64 i = 0; i < 2; i++) {
        c.image_bytes = i == 1;
        d[i]          = opened(perm, &c);
        if (loader_open(perm, d[i], &l, &loader[i], &err))
            harness_fail(__FILE__, __LINE__, "%s", err.text);
        b[i] = loader_next(loader[i]);
    }
    const struct pixels *p = &dataset_feeds(d[1])->pixels;
    CHECK(p->is_normal && !dataset_feeds(d[0])->pixels.is_normal);
    CHECK_EQ(dataset_feeds(d[1])->feed[0].type.dtype, DT_U8);
    for (i64 i = 0; i < COUNT * SIZE; i++) {
        f32  want = ((const f32 *)b[0]->data[0])[i], byte = (f32)((const u8 *)b[1]->data[0])[i];
        f32  got  = byte * p->factor[i % 3] + p->shift[i % 3];
        bool hole = want == 0; /* which no byte of a picture becomes */
        holes += hole;
        CHECK(hole ? fabsf(got) <= 0.5f * p->factor[i % 3] + 1e-6f : got == want);
    }
    CHECK(holes > 0);
    for (i64 i = 0; i < 2; i++) {
        CHECK(loader_close(loader[i]));
        dataset_close(d[i]);
    }
}

TEST(a_broken_picture_is_named)
{
    struct str           dir = pictures(perm, 2);
    struct data_config   c   = config_of(dir);
    struct loader_config l   = { .batch = 60, .options = threads(2, STR("off")) };
    struct loader       *loader;
    struct err           err = { 0 };
    folder_put(perm, dir, "bee/07.jpg", STR("\xff\xd8\xff and then nothing"));
    c.held_out        = 0;
    struct dataset *d = opened(perm, &c);
    CHECK(!loader_open(perm, d, &l, &loader, &err));
    CHECK(!loader_next(loader));
    CHECK(loader_failed(loader, &err));
    CHECK(strstr(err.text, "bee/07.jpg"));
    CHECK(loader_close(loader));
    dataset_close(d);
}

TEST(mistakes_are_told)
{
    struct data_config c = config_of(folder_new(perm));
    struct dataset    *d;
    struct err         err;
    if (!image_library(IMAGE_JPEG)) SKIP("this build has no libjpeg");
    CHECK(dataset_open(os_real(), &c, perm, &d, &err));
    c.path = pictures(perm, 3);
    static const struct {
        const char *words[2], *says;
    } bad[] = {
        { { "crop", "pad=4" }, "only one of crop, center and pad is allowed" },
        { { "flip", "flip=0.5" }, "flip is given twice" },
        { { "crop=2", "flip" }, "data.augment: crop=2; expected crop with a fraction of the area" },
        { { "pad", "flip" }, "data.augment: pad; expected pad with pixels, like pad=4" },
        { { "pad=1.5", "flip" }, "data.augment: pad=1.5; expected pad with pixels" },
        { { "center=1", "flip" }, "data.augment: center=1; expected center with no number" },
        { { "mixup=nan", "flip" }, "data.augment: mixup=nan; expected" },
        { { "none", "flip" }, "data.augment: none stands alone; leave it or the others out" },
        { { "rotate", "flip" }, "data.augment: rotate is not one of crop" },
        { { "pad=24", "flip" }, "images of 24 pixels cannot be shifted by 24" },
        { { "cutout=48", "flip" }, "data.augment: cutout=48 blanks images of 24 pixels" }
    };
    for (i64 i = 0; i < COUNT_OF(bad); i++) {
        for (i64 k = 0; k < 2; k++) c.augment[k] = str_of(bad[i].words[k]);
        c.augment_count = 2;
        CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_USAGE);
        if (!strstr(err.text, bad[i].says)) printf("\n  %s", err.text);
        CHECK(strstr(err.text, bad[i].says));
    }
    c.augment[0]    = STR("none");
    c.augment_count = 1;
    CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_OK);
    dataset_close(d);
}
