/* Samples that come as lines: from a stream (base/lines.h), and into a batch (data/rows.h). */
#include "base/lines.h"
#include "base/rng.h"
#include "data/rows.h"
#include "data/table.h"
#include "harness.h"
#include "support/folder.h"
#include <unistd.h>

static i64 draw(u64 seed, i64 *at, i64 below)
{
    return (i64)(rng_mix(seed + (u64)++ * at * 0x9E3779B97F4A7C15u) >> 8) % below;
}

/* Whatever the pieces that bytes come in, the lines are those of the whole text. */
TEST(lines_are_the_same_in_any_pieces)
{
    enum { BYTES = 3000, MAX = 400 };
    u64  seed = test_seed();
    i64  at   = 0;
    char text[BYTES];
    i64  last = -1;
    for (i64 i = 0; i < BYTES; i++) {
        bool ends = i - last >= MAX || !draw(seed, &at, 40);
        text[i]   = ends ? '\n' : (char)('a' + draw(seed, &at, 26));
        if (ends) last = i;
    }
    text[BYTES - 1]   = 'z'; /* the last line has no end */
    struct str   rest = { text, BYTES }, want, got;
    struct err   err  = { 0 };
    int          pipes[2];
    i64          sent = 0;
    struct lines l;
    CHECK(!pipe(pipes));
    l = lines_of(os_real(), (struct file){ pipes[0] }, MAX, perm);
    CHECK_EQ(lines_next(&l, 0, &got, &err), STATUS_NO);
    CHECK(!l.ended);
    while (str_cut(&rest, '\n', &want)) {
        enum status st;
        while ((st = lines_next(&l, 0, &got, &err)) == STATUS_NO && !l.ended) {
            i64 drawn = 1 + draw(seed, &at, 700), more = MIN(drawn, BYTES - sent);
            if (!more) close(pipes[1]), pipes[1] = -1;
            else CHECK_EQ(write(pipes[1], text + sent, (size_t)more), more);
            sent += more;
        }
        CHECK_EQ(st, STATUS_OK);
        CHECK_STR(got, want);
    }
    CHECK_EQ(lines_next(&l, 0, &got, &err), STATUS_NO);
    CHECK(l.ended);
    close(pipes[0]);
}

TEST(a_line_that_is_too_long_is_refused)
{
    struct str   got;
    struct err   err = { 0 };
    int          pipes[2];
    struct lines l;
    CHECK(!pipe(pipes));
    l = lines_of(os_real(), (struct file){ pipes[0] }, 4, perm);
    CHECK_EQ(write(pipes[1], "four\nfives\n", 11), 11);
    CHECK(!lines_next(&l, 0, &got, &err));
    CHECK_STR(got, "four");
    CHECK_EQ(lines_next(&l, 0, &got, &err), STATUS_USAGE);
    CHECK_STR(err.text, "a line has more than 4 bytes");
    close(pipes[0]);
    close(pipes[1]);
}

enum { ROWS = 200 };

static const char *const words[] = { "Oslo", "q\"q", "a,b", "", "7", "007" };

/* A number as text, or none. */
static struct str number(struct arena *perm, u64 seed, i64 *at)
{
    if (!draw(seed, at, 6)) return STR("");
    return str_fmt(perm, "%g", (f64)(draw(seed, at, 2000001) - 1000000) / 1000);
}

static struct str quoted(struct arena *perm, struct str word, const char *quote)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, "\"");
    for (i64 i = 0; i < word.len; i++)
        textbuf_fmt(&b, "%s%c", word.data[i] == '"' ? quote : "", word.data[i]);
    textbuf_fmt(&b, "\"");
    return textbuf_str(&b);
}

/* The same rows as a file of CSV, and as lines without labels of either form. */
static void draw_rows(struct arena *perm, u64 seed, struct str *file, struct str *csv,
                      struct str *json)
{
    i64            at  = 0;
    struct arena   one = arena_part(perm, 1 << 20), two = arena_part(perm, 1 << 20);
    struct textbuf all = textbuf_new(&one);
    textbuf_fmt(&all, "c,a,y,b\n");
    csv[0] = STR("b,z,a,c");
    for (i64 i = 0; i < ROWS; i++) {
        struct str word = str_of(words[draw(seed, &at, COUNT_OF(words))]);
        struct str a = number(&two, seed, &at), b = number(&two, seed, &at);
        struct str in_csv = quoted(&two, word, "\""), in_json = quoted(&two, word, "\\");
        textbuf_fmt(&all, "%.*s,%.*s,%d,%.*s\n", STR_ARG(in_csv), STR_ARG(a), (int)(i % 2),
                    STR_ARG(b));
        csv[i + 1] = str_fmt(&two, "%.*s,x,%.*s,%.*s\r", STR_ARG(b), STR_ARG(a), STR_ARG(in_csv));
        json[i]    = str_fmt(&two, " {\"c\": %.*s, \"b\": %.*s, \"a\": \"%.*s\"}", STR_ARG(in_json),
                             STR_ARG(b.len ? b : STR("null")), STR_ARG(a));
    }
    *file = textbuf_str(&all);
}

static struct data_config config_of(struct str path)
{
    return (struct data_config){ .path              = path,
                                 .label             = STR("y"),
                                 .numeric           = { STR("a"), STR("b") },
                                 .numeric_count     = 2,
                                 .categorical       = { STR("c") },
                                 .categorical_count = 1,
                                 .buckets           = 1000 };
}

TEST(rows_become_what_the_same_rows_of_a_file_become)
{
    u64        seed = test_seed();
    struct str text, csv[ROWS + 1], json[ROWS];
    draw_rows(perm, seed, &text, csv, json);
    struct data_config c = config_of(folder_put(perm, folder_new(perm), "t.csv", text)), none = c;
    struct dataset    *d, *e;
    struct err         err = { 0 };
    none.path              = STR("nowhere.csv");
    none.rows_only         = true;
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK(!dataset_open(os_real(), &none, perm, &e, &err));
    static f32   want_dense[ROWS][2], dense[ROWS][2], y[ROWS];
    static i32   want_x[ROWS], x[ROWS];
    static i64   index[ROWS];
    void *const  to[]   = { dense, x, y };
    struct rows *rows   = NULL;
    struct str  *from[] = { csv, json };
    for (i64 i = 0; i < ROWS; i++) index[i] = i;
    dataset_fetch(d, SPLIT_TRAIN, index, ROWS, (void *const[]){ want_dense, want_x, y });
    for (i32 form = 0; form < 2; form++) {
        CHECK(!rows_open(e, &none, STR("in"), perm, &rows, &err));
        CHECK_EQ(rows_add(rows, STR(" "), to, 0, &err), STATUS_NO);
        if (!form) CHECK_EQ(rows_add(rows, csv[0], to, 0, &err), STATUS_NO);
        for (i64 i = 0; i < ROWS; i++) CHECK(!rows_add(rows, from[form][i + !form], to, i, &err));
        CHECK(!memcmp(dense, want_dense, sizeof dense));
        CHECK(!memcmp(x, want_x, sizeof x));
        rows_close(rows);
    }
    dataset_close(d);
    dataset_close(e);
}

static void refused(struct arena *perm, const char *first, const char *second, const char *why)
{
    struct data_config c = config_of(STR("nowhere.csv"));
    struct dataset    *d;
    struct rows       *rows;
    struct err         err = { 0 };
    f32                dense[2], y[1];
    i32                x[1];
    void *const        to[] = { dense, x, y };
    c.rows_only             = true;
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK(!rows_open(d, &c, STR("in"), perm, &rows, &err));
    enum status st = rows_add(rows, str_of(first), to, 0, &err);
    if (second) CHECK(!st || st == STATUS_NO);
    if (second) st = rows_add(rows, str_of(second), to, 0, &err);
    CHECK_EQ(st, STATUS_USAGE);
    CHECK_STR(err.text, why);
    rows_close(rows);
    dataset_close(d);
}

TEST(a_bad_row_is_named)
{
    refused(perm, "a,c", NULL, "in: the header has no column \"b\"");
    refused(perm, "a,b,c", "1,2", "in:2: 2 fields, but the header has 3");
    refused(perm, "a,b,c", "1,x,2", "in:2: \"x\" in column \"b\" is not a number");
    refused(perm, "a,b,c", "1,2,\"x", "in:2: a quote is opened here and never closed");
    refused(perm, "{\"a\": [1]}", NULL, "in:1: \"a\" is a list; a column needs single values");
    refused(perm, "{\"a\": 1}", "[]", "in:2: it is not an object");
}

TEST(a_kind_whose_samples_are_no_lines_is_refused)
{
    struct data_config c = { .kind = STR("synthetic_clicks"), .samples = 10, .buckets = 10 };
    struct dataset    *d;
    struct rows       *rows = NULL;
    struct err         err  = { 0 };
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(rows_open(d, &c, STR("in"), perm, &rows, &err), STATUS_USAGE);
    CHECK_STR(err.text, "samples of data.kind=synthetic_clicks cannot be given as rows; give "
                        "data.eval_path");
    rows_close(rows);
    dataset_close(d);
}
