#include "data/table.h"
#include "harness.h"
#include "support/folder.h"

static struct data_config config_of(struct arena *perm, const char *text)
{
    return (struct data_config){
        .path              = folder_put(perm, folder_new(perm), "t.jsonl", str_of(text)),
        .label             = STR("y"),
        .numeric           = { STR("a"), STR("b") },
        .numeric_count     = 2,
        .categorical       = { STR("c") },
        .categorical_count = 1,
        .buckets           = 10,
    };
}

TEST(fields_become_the_feeds_that_csv_makes_of_the_same_columns)
{
    struct data_config c =
        config_of(perm, "{\"y\": 1, \"a\": 2.5, \"b\": \"-3\", \"c\": 7, \"z\": [1]}\n"
                        "\n"
                        "{\"c\": \"Oslo\", \"b\": true, \"y\": false, \"a\": null}\r\n"
                        "{\"y\": \"0.5\", \"c\": null}");
    struct data_config same = c;
    same.path               = folder_put(perm, folder_new(perm), "t.csv",
                                         STR("y,a,b,c\n1,2.5,-3,7\n0,,1,Oslo\n0.5,,,\n"));
    struct dataset *d, *e;
    struct err      err = { 0 };
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK(!dataset_open(os_real(), &same, perm, &e, &err));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 3);
    CHECK_EQ(dataset_feeds(d)->count, 3);
    f32 dense[2][6], y[2][3];
    i32 x[2][3];
    i64 index[] = { 0, 1, 2 };
    dataset_fetch(d, SPLIT_TRAIN, index, 3, (void *const[]){ dense[0], x[0], y[0] });
    dataset_fetch(e, SPLIT_TRAIN, index, 3, (void *const[]){ dense[1], x[1], y[1] });
    CHECK(!memcmp(dense[0], dense[1], sizeof dense[0]));
    CHECK(!memcmp(x[0], x[1], sizeof x[0]));
    CHECK(!memcmp(y[0], y[1], sizeof y[0]));
    CHECK_EQ(dense[0][1], -3.0f);
    CHECK_EQ(dense[0][3], 1.0f);
    CHECK_EQ(x[0][0], 7);
    CHECK_EQ(y[0][2], 0.5f);
    dataset_close(d);
    dataset_close(e);
}

/* A quote in a category is doubled in CSV and escaped in JSON: the value is the same, and so is its row. */
TEST(quotes_in_a_category_lead_to_the_row_that_csv_leads_to)
{
    struct data_config c    = config_of(perm, "{\"y\": 1, \"c\": \"q\\\"q\"}\n"
                                                 "{\"y\": 1, \"c\": \"\\\"\\\"\"}\n"
                                                 "{\"y\": 0, \"c\": \"\\\"7\\\"\"}\n");
    c.buckets               = 1000003;
    c.numeric_count         = 0;
    struct data_config same = c;
    same.path               = folder_put(perm, folder_new(perm), "t.csv",
                                         STR("y,c\n1,\"q\"\"q\"\n1,\"\"\"\"\"\"\n0,\"\"\"7\"\"\"\n"));
    struct dataset *d, *e;
    struct err      err = { 0 };
    i32             x[2][3];
    f32             y[3];
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK(!dataset_open(os_real(), &same, perm, &e, &err));
    dataset_fetch(d, SPLIT_TRAIN, (i64[]){ 0, 1, 2 }, 3, (void *const[]){ x[0], y });
    dataset_fetch(e, SPLIT_TRAIN, (i64[]){ 0, 1, 2 }, 3, (void *const[]){ x[1], y });
    CHECK_EQ(x[0][0], (i32)(str_hash(STR("q\"q")) % 1000003));
    for (i64 i = 0; i < 3; i++) CHECK_EQ(x[1][i], x[0][i]);
    dataset_close(d);
    dataset_close(e);
}

TEST(a_line_that_does_not_fit_is_named)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        { "{\"y\": 1}\n{\"y\": 1,}\n", "t.jsonl:2: byte 8: expected a key" },
        { "{\"y\": 1}\n[1, 2]\n", "t.jsonl:2: it is not an object" },
        { "{\"a\": 1}\n", "t.jsonl:1: there is no label in column \"y\"" },
        { "{\"y\": 1, \"a\": \"many\"}\n", "t.jsonl:1: \"many\" in column \"a\" is not a number" },
        { "{\"y\": 1, \"c\": {\"d\": 1}}\n", "t.jsonl:1: \"c\" is a map" },
        { "{\"y\": 1, \"y\": 2}\n", "t.jsonl:1: " },
        { "\n\n", "holds no sample" },
        { "{\"y\": 1, \"a\": 1, \"c\": 1}\n{\"y\": 0}\n", "t.jsonl: no line has a field \"b\"" },
    };
    struct data_config talk = config_of(perm, "{\"messages\": []}\n");
    struct dataset    *none;
    struct err         why;
    talk.label = STR("");
    CHECK_EQ(dataset_open(os_real(), &talk, perm, &none, &why), STATUS_USAGE);
    CHECK(strstr(why.text, "set data.label, or data.kind=chat where it holds conversations"));
    for (i64 i = 0; i < COUNT_OF(wrong); i++) {
        struct data_config c = config_of(perm, wrong[i].text);
        struct dataset    *d;
        struct err         err = { 0 };
        CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_USAGE);
        if (!strstr(err.text, wrong[i].says)) printf("%s ", err.text);
        CHECK(strstr(err.text, wrong[i].says));
    }
}
