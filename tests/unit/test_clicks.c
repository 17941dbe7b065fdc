/* test_clicks.c - synthetic_clicks: the same world and samples every time, as documented. */
#include "data/data.h"
#include "harness.h"

enum { CATEGORIES = 26, NUMBERS = 13, ROWS = 20000, BUCKETS = 1000 };

struct rows {
    f32 dense[ROWS][NUMBERS];
    i32 x[ROWS][CATEGORIES];
    f32 y[ROWS];
};

static struct dataset *opened(struct arena *perm)
{
    struct dataset    *d;
    struct data_config c = { .kind = STR("synthetic_clicks"), .buckets = BUCKETS };
    CHECK(!dataset_open(os_real(), &c, perm, &d, NULL));
    return d;
}

static struct rows *rows_of(struct arena *perm, const struct dataset *d, enum split s)
{
    struct rows *r     = NEW(perm, struct rows, 1);
    i64         *index = NEW(perm, i64, ROWS);
    for (i64 i = 0; i < ROWS; i++) index[i] = i;
    dataset_fetch(d, s, index, ROWS, (void *[]){ r->dense, r->x, r->y });
    return r;
}

TEST(clicks_are_a_function_of_their_index)
{
    struct dataset *d = opened(perm), *same = opened(perm);
    struct rows    *a = rows_of(perm, d, SPLIT_TRAIN), *b = rows_of(perm, same, SPLIT_TRAIN);
    CHECK_EQ(memcmp(a, b, sizeof *a), 0);
    CHECK(memcmp(a, rows_of(perm, d, SPLIT_EVAL), sizeof *a) != 0);
    CHECK_EQ(dataset_best_auc(d), dataset_best_auc(same));
    dataset_close(d);
    dataset_close(same);
}

TEST(clicks_lie_where_they_should)
{
    struct dataset *d = opened(perm);
    struct rows    *r = rows_of(perm, d, SPLIT_TRAIN);
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 1000000);
    CHECK_EQ(dataset_count(d, SPLIT_EVAL), 100000);
    CHECK_EQ(feeds_find(dataset_feeds(d), STR("x"))->range, CATEGORIES * BUCKETS);
    i64 clicks = 0, commonest = 0;
    f64 sum = 0, square = 0;
    for (i64 i = 0; i < ROWS; i++) {
        for (i32 j = 0; j < CATEGORIES; j++)
            CHECK(r->x[i][j] >= j * BUCKETS && r->x[i][j] < (j + 1) * BUCKETS);
        CHECK(r->y[i] == 0 || r->y[i] == 1);
        clicks += r->y[i] > 0;
        commonest += r->x[i][25] == 25 * BUCKETS;
        sum += (f64)r->dense[i][3];
        square += (f64)r->dense[i][3] * (f64)r->dense[i][3];
    }
    /* Four standard deviations of a share of ROWS draws: at most 4 * 0.5 / sqrt(ROWS) = 0.0142. */
    CHECK_NEAR((f64)clicks / ROWS, 0.272, 0.0142 + 0.01); /* worlds differ by about 0.003 */
    CHECK_NEAR((f64)commonest / ROWS, log(2) / log(BUCKETS + 1), 0.0142);
    CHECK_NEAR(sum / ROWS, 0, 4 / sqrt(ROWS));
    CHECK_NEAR(square / ROWS, 1, 4 / sqrt(ROWS));
    dataset_close(d);
}

TEST(clicks_have_a_best_auc_of_about_080)
{
    struct dataset *d = opened(perm);
    CHECK_NEAR(dataset_best_auc(d), 0.80, 0.012); /* of 100000 rows: deviation 0.0015 */
    dataset_close(d);
}

TEST(clicks_need_enough_buckets)
{
    struct dataset    *d;
    struct err         err;
    struct data_config c = { .kind = STR("synthetic_clicks"), .buckets = 9 };
    CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "data.buckets is 9; synthetic_clicks need 10"));
}
