/* test_csv.c - rows of numbers and categories: RFC 4180, missing values, buckets, and bad lines. */
#include "data/data.h"
#include "harness.h"
#include "support/folder.h"

static struct data_config config_of(struct arena *perm, const char *text)
{
    return (struct data_config){
        .path              = folder_put(perm, folder_new(perm), "a.csv", str_of(text)),
        .label             = STR("click"),
        .numeric           = { STR("price"), STR("age") },
        .numeric_count     = 2,
        .categorical       = { STR("city"), STR("item") },
        .categorical_count = 2,
        .buckets           = 100,
    };
}

struct row {
    f32 dense[2];
    i32 x[2];
    f32 y;
};

static struct row row_of(const struct dataset *d, enum split s, i64 index)
{
    struct row r;
    dataset_fetch(d, s, &index, 1, (void *[]){ r.dense, r.x, &r.y });
    return r;
}

static struct dataset *opened(struct arena *perm, struct data_config c)
{
    struct dataset *d;
    struct err      err = { 0 };
    dataset_open(os_real(), &c, perm, &d, &err);
    CHECK_STR(err.text, "");
    return d;
}

static const char *refused(struct arena *perm, struct data_config c)
{
    static struct err err;
    struct dataset   *d;
    CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_USAGE);
    return err.text;
}

TEST(csv_columns_become_feeds)
{
    struct dataset     *d = opened(perm, config_of(perm, "\xEF\xBB\xBF"
                                                             "city,age,click,price,other,item\r\n"
                                                             "7,30,1,2.5,zzz,99\r\n"
                                                             "0,-1e2,0,0.1,,100\r\n"));
    const struct feeds *f = dataset_feeds(d);
    CHECK_EQ(f->count, 3);
    CHECK_STR(type_text(perm, feeds_find(f, STR("dense"))->type), "f32[2]");
    CHECK_STR(type_text(perm, feeds_find(f, STR("x"))->type), "i32[2]");
    CHECK_EQ(feeds_find(f, STR("x"))->range, 200);
    CHECK_EQ(feeds_find(f, STR("y"))->type.shape.rank, 0);
    CHECK_EQ(feeds_find(f, STR("y"))->type.dtype, DT_F32);

    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 2);
    struct row a = row_of(d, SPLIT_TRAIN, 0), b = row_of(d, SPLIT_TRAIN, 1);
    CHECK_EQ(a.dense[0], 2.5f);
    CHECK_EQ(a.dense[1], 30.0f);
    CHECK_EQ(a.x[0], 7);
    CHECK_EQ(a.x[1], 100 + 99);
    CHECK_EQ(a.y, 1.0f);
    CHECK_EQ(b.dense[0], 0.1f);
    CHECK_EQ(b.dense[1], -100.0f);
    CHECK_EQ(b.x[0], 0);
    CHECK_EQ(b.x[1], 100 + (i32)(str_hash(STR("100")) % 100)); /* too large: hashed */
    CHECK_EQ(b.y, 0.0f);
    dataset_close(d);
}

TEST(csv_quotes_hold_commas_lines_and_quotes)
{
    struct dataset *d = opened(perm, config_of(perm, "\"click\",city,\"price\",age,item\n"
                                                     "1,\"New York, NY\",\"1.5\",2,\"a\nb\"\n"
                                                     "\n"
                                                     "0,\"say \"\"hi\"\"\",,\"\",\n"
                                                     "1,New York,3,4,007"));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 3);
    struct row a = row_of(d, SPLIT_TRAIN, 0), b = row_of(d, SPLIT_TRAIN, 1),
               c = row_of(d, SPLIT_TRAIN, 2);
    CHECK_EQ(a.dense[0], 1.5f);
    CHECK_EQ(a.x[0], (i32)(str_hash(STR("New York, NY")) % 100));
    CHECK_EQ(a.x[1], 100 + (i32)(str_hash(STR("a\nb")) % 100));
    CHECK_EQ(b.dense[0], 0.0f); /* missing */
    CHECK_EQ(b.dense[1], 0.0f);
    CHECK_EQ(b.x[1], 100);
    CHECK_EQ(c.dense[1], 4.0f);
    CHECK_EQ(c.x[1], 100 + (i32)(str_hash(STR("007")) % 100)); /* not 7 */
    dataset_close(d);
}

TEST(csv_holds_out_the_last_rows_or_a_file)
{
    static const char rows[] =
        "click,city,price,age,item\n1,1,1,0,0\n0,1,2,0,0\n0,1,3,0,0\n0,1,4,0,0\n";
    struct data_config c = config_of(perm, rows);
    c.held_out           = 0.25;
    struct dataset *d    = opened(perm, c);
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 3);
    CHECK_EQ(dataset_count(d, SPLIT_EVAL), 1);
    CHECK_EQ(row_of(d, SPLIT_EVAL, 0).dense[0], 4.0f);
    dataset_close(d);

    c.eval_path    = config_of(perm, rows).path;
    c.samples      = 2;
    c.eval_samples = 3;
    d              = opened(perm, c);
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 2);
    CHECK_EQ(dataset_count(d, SPLIT_EVAL), 3);
    CHECK_EQ(row_of(d, SPLIT_EVAL, 2).dense[0], 3.0f);
    dataset_close(d);
}

/* The short way to a number gives the bits of the long one. */
TEST(csv_reads_numbers_as_strtod_does)
{
    u64            seed = test_seed();
    struct textbuf b    = textbuf_new(perm);
    enum { COUNT = 2000 };
    char text[COUNT][32];
    textbuf_add(&b, STR("click,city,price,age,item\n"));
    srand48((long)seed);
    for (i64 i = 0; i < COUNT; i++) {
        snprintf(text[i], sizeof text[i], "%.*f", (int)(lrand48() % 9),
                 (drand48() - 0.5) * pow(10, (f64)(lrand48() % 12)));
        textbuf_fmt(&b, "%d,1,%s,0,0\n", (int)(i % 2), text[i]);
    }
    struct dataset *d = opened(perm, config_of(&scratch, str_z(&scratch, textbuf_str(&b))));
    for (i64 i = 0; i < COUNT; i++)
        CHECK_EQ(row_of(d, SPLIT_TRAIN, i).dense[0], (f32)strtod(text[i], NULL));
    dataset_close(d);
}

#define HEAD "click,city,price,age,item\n"

TEST(one_row_is_nothing_to_learn_from)
{
    CHECK(strstr(refused(perm, config_of(perm, HEAD "1,2,3,4,5\n")),
                 "a.csv: there is only 1 sample, so there is nothing to learn"));
}

TEST(a_file_to_evaluate_on_has_rows)
{
    struct data_config c = config_of(perm, HEAD "1,2,3,4,5\n0,2,3,4,5\n");
    c.eval_path          = folder_put(perm, folder_new(perm), "b.csv", STR(HEAD));
    CHECK(strstr(refused(perm, c), "b.csv holds no sample to evaluate on"));
}

TEST(csv_names_file_and_line_of_what_is_wrong)
{
    struct data_config c = config_of(perm, HEAD "1,2,3,4,5\n1,2,3,4\n");
    CHECK(strstr(refused(perm, c), "a.csv:3: 4 fields, but the header has 5"));
    c = config_of(perm, HEAD "1,2,3,4,5,6\n");
    CHECK(strstr(refused(perm, c), "a.csv:2: 6 fields, but the header has 5"));
    c = config_of(perm, HEAD "1,\"a\n\nb\",3,4,5\n1,2,cheap,4,5\n");
    CHECK(strstr(refused(perm, c), "a.csv:5: \"cheap\" in column \"price\" is not a number"));
    c = config_of(perm, HEAD ",2,3,4,5\n");
    CHECK(strstr(refused(perm, c), "a.csv:2: there is no label in column \"click\""));
    c = config_of(perm, HEAD "1,2,3,4,5\n5,2,3,4,5\n");
    CHECK(strstr(
        refused(perm, c),
        "a.csv:3: \"5\" in column \"click\" is not a label: expected 0, 1 or a number between"));
    c = config_of(perm, HEAD "-1,2,3,4,5\n");
    CHECK(strstr(refused(perm, c), "a.csv:2: \"-1\" in column \"click\" is not a label"));
    c = config_of(perm, HEAD "1,2,1e39,4,5\n");
    CHECK(strstr(refused(perm, c), "a.csv:2: \"1e39\""));
    c = config_of(perm, HEAD "1,\"2,3,4,5\n1,2,3,4,5\n");
    CHECK(strstr(refused(perm, c), "a.csv:2: a quote is opened here and never closed"));
    c = config_of(perm, HEAD "1,\"2\"x,3,4,5\n");
    CHECK(strstr(refused(perm, c), "a.csv:2: something follows the closing quote"));
    c = config_of(perm, HEAD "1,2\"x\",3,4,5\n");
    CHECK(strstr(refused(perm, c), "a.csv:2: a quote in the middle of a field"));
    c = config_of(perm, "click,city,price,age\n");
    CHECK(strstr(refused(perm, c), "a.csv: the header has no column \"item\""));
    c = config_of(perm, "click,city,price,age,item,city\n1,2,3,4,5,6\n");
    CHECK(strstr(refused(perm, c), "the column \"city\" exists or is requested more than once"));
    c = config_of(perm, "\n\n");
    CHECK(strstr(refused(perm, c), "there is no header"));
    c = config_of(perm, HEAD);
    CHECK(strstr(refused(perm, c), "holds no sample"));
}

TEST(csv_asks_for_what_it_needs)
{
    struct data_config good = config_of(perm, HEAD "1,2,3,4,5\n"), c = good;
    c.label = STR("");
    CHECK(strstr(refused(perm, c), "set data.label"));
    c               = good;
    c.numeric_count = c.categorical_count = 0;
    CHECK(strstr(refused(perm, c), "set data.numeric or data.categorical"));
    c         = good;
    c.buckets = 0;
    CHECK(strstr(refused(perm, c), "data.buckets is 0; with 2 columns it must be 1 to 1073741823"));
    c            = good;
    c.numeric[1] = STR("price");
    CHECK(strstr(refused(perm, c), "\"price\" exists or is requested more than once"));
}
