/* test_idx.c - images and labels: what is read, how it is split, and what is refused. */
#include "data/data.h"
#include "harness.h"
#include "support/folder.h"

/* An IDX file of bytes 0, 1, 2, ... (images) or of the given labels. */
static struct str idx_bytes(struct arena *perm, i32 rank, const i64 *dim, const u8 *bytes)
{
    i64 items = 1, head = 4 + 4 * rank;
    for (i32 i = 0; i < rank; i++) items *= dim[i];
    u8 *p = NEW(perm, u8, head + items);
    p[2]  = 8;
    p[3]  = (u8)rank;
    for (i32 i = 0; i < rank; i++)
        for (i32 b = 0; b < 4; b++) p[4 + 4 * i + b] = (u8)(dim[i] >> (24 - 8 * b));
    for (i64 i = 0; i < items; i++) p[head + i] = bytes ? bytes[i] : (u8)i;
    return (struct str){ (char *)p, head + items };
}

static const u8 ten_labels[] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3 };

/* Ten images of 2x3 and their labels, in a folder of their own. */
static struct data_config ten(struct arena *perm)
{
    struct str dir = folder_new(perm);
    return (struct data_config){
        .path   = folder_put(perm, dir, "a-images-idx3-ubyte",
                             idx_bytes(perm, 3, (i64[]){ 10, 2, 3 }, NULL)),
        .labels = folder_put(perm, dir, "a-labels-idx1-ubyte",
                             idx_bytes(perm, 1, (i64[]){ 10 }, ten_labels)),
    };
}

static struct err open_fails(struct arena *perm, struct data_config c)
{
    struct dataset *d;
    struct err      err = { 0 };
    CHECK(dataset_open(os_real(), &c, perm, &d, &err) != STATUS_OK);
    CHECK(d == NULL);
    return err;
}

TEST(idx_feeds_images_and_labels)
{
    struct data_config c = ten(perm);
    struct dataset    *d;
    struct err         err;
    u8                 x[2][6];
    i32                y[2];
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 10);
    CHECK_EQ(dataset_count(d, SPLIT_EVAL), 0);
    const struct feed *fx = feeds_find(dataset_feeds(d), STR("x"));
    const struct feed *fy = feeds_find(dataset_feeds(d), STR("y"));
    CHECK_STR(type_text(perm, fx->type), "u8[2,3,1]");
    CHECK_EQ(fy->type.shape.rank, 0);
    CHECK_EQ(fy->type.dtype, DT_I32);
    CHECK_EQ(fy->range, 10);

    dataset_fetch(d, SPLIT_TRAIN, (i64[]){ 7, 2 }, 2, (void *[]){ x, y });
    for (i32 i = 0; i < 6; i++) CHECK_EQ(x[0][i], 42 + i);
    for (i32 i = 0; i < 6; i++) CHECK_EQ(x[1][i], 12 + i);
    CHECK_EQ(y[0], 6);
    CHECK_EQ(y[1], 4);
    dataset_close(d);
}

TEST(idx_keeps_the_last_for_evaluation)
{
    struct data_config c = ten(perm);
    struct dataset    *d;
    struct err         err;
    u8                 x[6];
    i32                y;
    c.held_out = 0.2;
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 8);
    CHECK_EQ(dataset_count(d, SPLIT_EVAL), 2);
    dataset_fetch(d, SPLIT_EVAL, (i64[]){ 0 }, 1, (void *[]){ x, &y });
    CHECK_EQ(x[0], 48);
    CHECK_EQ(y, 5);
    dataset_close(d);

    c.held_out     = 0.5;
    c.samples      = 3;
    c.eval_samples = 1;
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 3);
    CHECK_EQ(dataset_count(d, SPLIT_EVAL), 1);
    dataset_fetch(d, SPLIT_EVAL, (i64[]){ 0 }, 1, (void *[]){ x, &y });
    CHECK_EQ(x[0], 30);
    dataset_close(d);
}

TEST(idx_reads_held_out_files)
{
    struct data_config c = ten(perm), other = ten(perm);
    struct dataset    *d;
    struct err         err;
    c.eval_path   = other.path;
    c.eval_labels = other.labels;
    c.held_out    = 0.1; /* has no say where there are files */
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 10);
    CHECK_EQ(dataset_count(d, SPLIT_EVAL), 10);
    dataset_close(d);

    struct str wide = idx_bytes(perm, 3, (i64[]){ 10, 2, 4 }, NULL);
    c.eval_path     = folder_put(perm, folder_new(perm), "wide", wide);
    CHECK(strstr(open_fails(perm, c).text, "are 2x3, those of"));
}

TEST(idx_refuses_with_numbers)
{
    struct str         dir  = folder_new(perm);
    struct data_config good = ten(perm), c = good;
    struct str         images = idx_bytes(perm, 3, (i64[]){ 10, 2, 3 }, NULL);

    c.path = folder_put(perm, dir, "short.idx", str_sub(images, 0, images.len - 1));
    CHECK(strstr(open_fails(perm, c).text,
                 "short.idx: truncated, its header asks for 10x2x3 bytes and 59 follow"));
    c.path = folder_put(perm, dir, "long.idx", str_cat(perm, images, STR("x")));
    CHECK(strstr(open_fails(perm, c).text, "long.idx: too long"));
    c.path = folder_put(perm, dir, "head.idx", str_sub(images, 0, 9));
    CHECK(strstr(open_fails(perm, c).text, "head.idx: truncated, 9 bytes of a header of 16"));
    c.path = folder_put(perm, dir, "three.idx", str_sub(images, 0, 3));
    CHECK(strstr(open_fails(perm, c).text, "3 bytes are too few for an IDX file"));
    c.path = folder_put(perm, dir, "text.idx", STR("hello, world, and more"));
    CHECK(strstr(open_fails(perm, c).text, "text.idx: begins with 68 65 6c 6c"));
    c.path =
        folder_put(perm, dir, "huge.idx",
                   (struct str){ "\0\0\10\3\377\377\377\377\377\377\377\377\377\377\377\377", 16 });
    CHECK(strstr(open_fails(perm, c).text,
                 "asks for 4294967295x4294967295x4294967295 bytes and 0 follow"));
    c.path = folder_put(perm, dir, "nine.idx", idx_bytes(perm, 3, (i64[]){ 9, 2, 3 }, NULL));
    CHECK(strstr(open_fails(perm, c).text, "nine.idx has 9 images"));
    c.path = good.labels;
    CHECK(strstr(open_fails(perm, c).text, "images have a count, a height and a width"));
    c        = good;
    c.labels = good.path;
    CHECK(strstr(open_fails(perm, c).text, "3 dimensions; labels have one"));
    c.labels = STR("");
    CHECK(strstr(open_fails(perm, c).text, "set data.labels"));
    c.labels = STR("no/such/file");
    CHECK(strstr(open_fails(perm, c).text, "no/such/file"));
    c        = good;
    c.path   = folder_put(perm, dir, "none.idx", idx_bytes(perm, 3, (i64[]){ 0, 2, 3 }, NULL));
    c.labels = folder_put(perm, dir, "none.lab", idx_bytes(perm, 1, (i64[]){ 0 }, NULL));
    CHECK(strstr(open_fails(perm, c).text, "holds no sample"));
    c.path = folder_put(perm, dir, "wide.idx", /* none, but each would be of 2^64 bytes */
                        (struct str){ "\0\0\10\4\0\0\0\0\200\0\0\0\200\0\0\0\0\0\0\4", 20 });
    CHECK(strstr(open_fails(perm, c).text, "holds no sample"));
    c          = good;
    c.held_out = 1;
    CHECK(strstr(open_fails(perm, c).text, "data.held_out is 1"));
    c      = good;
    c.kind = STR("pictures");
    CHECK(strstr(open_fails(perm, c).text, "the kinds are auto, idx, tokens"));
}

enum { SIDE = 5, COUNT = 40 };

/* COUNT pictures of SIDE x SIDE x 2 of which no two pixels are equal in a picture. */
static struct data_config augmented(struct arena *perm, i64 count, const char *const *words)
{
    struct str         dir = folder_new(perm);
    u8                 labels[COUNT];
    struct data_config c = { .held_out = 0.25, .augment_count = count };
    for (i64 i = 0; i < COUNT; i++) labels[i] = (u8)(i % 7);
    c.path = folder_put(perm, dir, "a-images-idx3-ubyte",
                        idx_bytes(perm, 4, (i64[]){ COUNT, SIDE, SIDE, 2 }, NULL));
    c.labels =
        folder_put(perm, dir, "a-labels-idx1-ubyte", idx_bytes(perm, 1, (i64[]){ COUNT }, labels));
    for (i64 i = 0; i < count; i++) c.augment[i] = str_of(words[i]);
    return c;
}

typedef u8 picture[SIDE][SIDE][2];

/* Is `seen` picture `number` moved by (dx, dy), mirrored or not, with black where nothing came in? */
static bool is_moved(picture seen, i64 number, i64 dx, i64 dy, bool mirrored)
{
    for (i64 y = 0; y < SIDE; y++)
        for (i64 x = 0; x < SIDE; x++)
            for (i64 c = 0; c < 2; c++) {
                i64 fy = y - dy, fx = mirrored ? SIDE - 1 - (x - dx) : x - dx;
                i64 in = fy >= 0 && fy < SIDE && fx >= 0 && fx < SIDE;
                u8  is = (u8)(in ? number * SIDE * SIDE * 2 + (fy * SIDE + fx) * 2 + c : 0);
                if (seen[y][x][c] != is) return false;
            }
    return true;
}

/* Which move and side it is shown with: 1 + 2 * place + mirrored, or 0. */
static i64 view_seen(picture seen, i64 number, i64 pad)
{
    for (i64 dy = -pad; dy <= pad; dy++)
        for (i64 dx = -pad; dx <= pad; dx++)
            for (i64 m = 0; m < 2; m++)
                if (is_moved(seen, number, dx, dy, m != 0))
                    return 1 + 2 * ((dy + pad) * (2 * pad + 1) + dx + pad) + m;
    return 0;
}

TEST(idx_moves_and_mirrors_training_pictures)
{
    struct data_config c = augmented(perm, 2, (const char *[]){ "pad=1", "flip" });
    struct dataset    *d;
    struct err         err;
    picture            x;
    i32                y;
    i64                mirrored = 0, places[9] = { 0 };
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    for (i64 n = 0; n < 30; n++) {
        i64 before = -1;
        for (i64 epoch = 0; epoch < 6; epoch++) {
            dataset_fetch_epoch(d, 7, epoch, &n, 1, (void *[]){ x, &y });
            i64 v = view_seen(x, n, 1);
            CHECK(v > 0);
            CHECK_EQ(y, n % 7);
            places[(v - 1) / 2]++;
            if (epoch) CHECK_EQ((v - 1) % 2, 1 - before); /* the other side in the next epoch */
            before = (v - 1) % 2;
            mirrored += !epoch && before;
        }
    }
    for (i32 i = 0; i < 9; i++) CHECK(places[i] > 0); /* 180 draws: missed by chance 6e-10 */
    CHECK(mirrored > 3 && mirrored < 27);             /* of 30: 4 deviations and more */
    dataset_fetch(d, SPLIT_EVAL, (i64[]){ 2 }, 1, (void *[]){ x, &y });
    CHECK_EQ(view_seen(x, 32, 0), 1); /* as it is */
    dataset_close(d);
}

TEST(idx_cuts_holes)
{
    struct data_config c = augmented(perm, 1, (const char *[]){ "cutout=2" });
    struct dataset    *d;
    struct err         err;
    picture            x;
    i32                y;
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    for (i64 epoch = 0; epoch < 20; epoch++) {
        i64 black = 0, n = 3; /* its bytes 150 to 199 hold no zero */
        dataset_fetch_epoch(d, 7, epoch, &n, 1, (void *[]){ x, &y });
        for (i64 i = 0; i < SIDE * SIDE * 2; i++) black += !(&x[0][0][0])[i];
        CHECK(black == 2 || black == 4 || black == 8); /* a corner, an edge, all of it */
    }
    dataset_close(d);
}

TEST(idx_refuses_what_it_cannot_augment)
{
    struct data_config c = augmented(perm, 1, (const char *[]){ "crop" });
    struct dataset    *d;
    struct err         err;
    CHECK(strstr(open_fails(perm, c).text, "data.kind=idx has pad=N, flip and cutout=N only"));
    c.augment[0] = STR("mixup=0.2");
    CHECK(strstr(open_fails(perm, c).text, "data.kind=idx has pad=N, flip and cutout=N only"));
    c = augmented(perm, 2, (const char *[]){ "auto", "flip" });
    CHECK(strstr(open_fails(perm, c).text, "data.augment: auto stands alone"));
    struct data_config wide = ten(perm);
    wide.augment[0]         = STR("flip");
    wide.augment_count      = 1;
    CHECK(strstr(open_fails(perm, wide).text, "data.augment needs square images; those of"));
    wide.augment[0] = STR("auto");
    CHECK(!dataset_open(os_real(), &wide, perm, &d, &err));
    dataset_close(d);
}
