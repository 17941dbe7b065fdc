/* test_source.c - .gz files: unpacked once, checked each time, and read without a cache as well. */
#include "data/data.h"
#include "data/data_int.h"
#include "harness.h"
#include "support/fake_files.h"
#include "support/folder.h"
#include "support/sim_os.h"

/* "hello hello hello hello\n", as `gzip -n` packs it. */
static const u8   hello_gz[] = { 0x1f, 0x8b, 0x08, 0,    0,    0,    0,    0,    0,    0x03,
                                 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x27, 0xb9,
                                 0x00, 0x00, 0x88, 0x59, 0x0b, 0x18, 0,    0,    0 };
static const char hello[]    = "hello hello hello hello\n";

static struct str gz_in(struct arena *perm, struct str dir)
{
    struct str bytes = { (const char *)hello_gz, sizeof hello_gz };
    return folder_put(perm, dir, "hello.txt.gz", bytes);
}

static struct str the_cache(struct arena *perm, struct str dir)
{
    struct str *names;
    i64         count;
    CHECK(!os_real()->list(os_real(), dir, perm, &names, &count, NULL));
    CHECK_EQ(count, 1);
    return str_fmt(perm, "%.*s/%.*s", STR_ARG(dir), STR_ARG(names[0]));
}

static void open_and_compare(struct str path, struct str cache, struct arena scratch)
{
    struct source s;
    struct err    err = { 0 };
    enum status   st =
        source_open(os_real(), path, &(struct data_config){ .cache = cache }, scratch, &s, &err);
    CHECK_STR(err.text, "");
    CHECK(!st);
    CHECK_STR(s.bytes, hello);
    CHECK_EQ(s.mapped.len > 0, cache.len > 0);
    source_close(os_real(), &s);
}

TEST(gz_is_unpacked_into_a_cache_that_names_itself)
{
    struct str dir = folder_new(perm), cache = str_cat(perm, dir, STR("/some/cache")), bytes;
    struct str path = gz_in(perm, dir);
    open_and_compare(path, cache, scratch);
    struct str file = the_cache(perm, cache);
    CHECK(str_ends(file, STR("/hello.txt-0b598800-24")));
    CHECK(!os_read_all(os_real(), file, perm, &bytes, NULL));
    CHECK_STR(bytes, hello);
    open_and_compare(path, cache, scratch);
}

TEST(gz_cache_that_is_damaged_is_written_anew)
{
    struct str dir = folder_new(perm), cache = str_cat(perm, dir, STR("/cache")), bytes;
    struct str path = gz_in(perm, dir);
    open_and_compare(path, cache, scratch);
    struct str  file     = the_cache(perm, cache);
    const char *damage[] = { "", "hello", "hello hello hellO hello\n",
                             "hello hello hello hello\n\n" };
    for (i64 i = 0; i < COUNT_OF(damage); i++) {
        CHECK(!os_publish(os_real(), file, str_of(damage[i]), scratch, NULL));
        open_and_compare(path, cache, scratch);
        CHECK(!os_read_all(os_real(), the_cache(perm, cache), perm, &bytes, NULL));
        CHECK_STR(bytes, hello);
    }
}

/* A file where the folder should be: no cache can be written, and the data is read all the same. */
TEST(gz_is_read_where_no_cache_can_be_written)
{
    struct str         dir  = folder_new(perm);
    struct str         path = gz_in(perm, dir);
    struct source      s;
    struct err         err;
    struct data_config c = { .cache = folder_put(perm, dir, "file", STR("")) };
    CHECK(!source_open(os_real(), path, &c, scratch, &s, &err));
    CHECK_STR(s.bytes, hello);
    CHECK_EQ(s.mapped.len, 0);
    source_close(os_real(), &s);
}

TEST(gz_that_is_broken_is_named)
{
    struct str         dir = folder_new(perm);
    struct source      s;
    struct err         err;
    struct data_config c    = { .cache = str_cat(perm, dir, STR("/cache")) };
    struct str         gz   = { (const char *)hello_gz, sizeof hello_gz };
    struct str         cut  = folder_put(perm, dir, "cut.gz", str_sub(gz, 0, gz.len - 9));
    struct str         tiny = folder_put(perm, dir, "tiny.gz", str_sub(gz, 0, 9));
    struct str         none = folder_put(perm, dir, "none.gz", STR(""));
    CHECK(source_open(os_real(), cut, &c, scratch, &s, &err));
    CHECK(strstr(err.text, "cut.gz: cannot decompress"));
    CHECK(source_open(os_real(), tiny, &c, scratch, &s, &err));
    CHECK(strstr(err.text, "tiny.gz: 9 bytes are too few for a gzip file"));
    CHECK(source_open(os_real(), none, &c, scratch, &s, &err));
    CHECK(strstr(err.text, "none.gz: 0 bytes are too few for a gzip file"));
}

TEST(gz_of_two_members_is_read_whole)
{
    struct str         dir = folder_new(perm), gz = { (const char *)hello_gz, sizeof hello_gz };
    struct str         path = folder_put(perm, dir, "two.gz", str_cat(perm, gz, gz));
    struct data_config c    = { .cache = str_cat(perm, dir, STR("/cache")) };
    struct source      s;
    CHECK(!source_open(os_real(), path, &c, scratch, &s, NULL));
    CHECK_EQ(s.bytes.len, 48);
    source_close(os_real(), &s);
}

TEST(gz_of_a_text_is_a_data_set)
{
    struct str         dir = folder_new(perm);
    struct data_config c   = { .path = gz_in(perm, dir), .context = 5, .cache = dir };
    struct dataset    *d;
    i32                x[5], y[5];
    CHECK(!dataset_open(os_real(), &c, perm, &d, NULL));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 4);
    dataset_fetch(d, SPLIT_TRAIN, (i64[]){ 1 }, 1, (void *[]){ x, y });
    CHECK_EQ(x[0], ' ');
    CHECK_EQ(y[0], 'h');
    dataset_close(d);
}

/* The power goes at each call in turn; the next process reads the data, whatever it finds. So does
 * this one where a call for the cache fails. */
TEST(gz_is_read_after_every_accident)
{
    struct str path = STR("data/hello.gz"), gz = { (const char *)hello_gz, sizeof hello_gz };
    for (i32 survive = 0; survive < SIM_SURVIVE_COUNT; survive++) {
        i64 kill = 0;
        for (bool done = false; !done;) {
            struct sim_os     *sim = sim_os_new(perm);
            struct data_config c   = { .cache = STR("cache") };
            struct source      s;
            sim_os_put(sim, path, gz);
            sim->kill_at = ++kill;
            done         = !source_open(&sim->os, path, &c, scratch, &s, NULL) && s.mapped.len;
            if (done || s.bytes.len) source_close(&sim->os, &s);
            sim_os_crash(sim, (enum sim_survive)survive);
            CHECK(!source_open(&sim->os, path, &c, scratch, &s, NULL));
            CHECK_STR(s.bytes, hello);
            source_close(&sim->os, &s);
        }
        CHECK(kill > 8);
    }
    for (i64 fail = 1; fail < 16; fail++) {
        struct sim_os     *sim = sim_os_new(perm);
        struct data_config c   = { .cache = STR("cache") };
        struct source      s;
        sim_os_put(sim, path, gz);
        sim->fail_at    = fail;
        struct err  err = { 0 };
        enum status st  = source_open(&sim->os, path, &c, scratch, &s, &err);
        if (fail == 1) { /* the data itself */
            CHECK_EQ(st, STATUS_WORLD);
            CHECK_STR(err.text, "call 1 fails"); /* the sentence is passed on as it is */
            continue;
        }
        CHECK(!st);
        CHECK_STR(s.bytes, hello);
        source_close(&sim->os, &s);
    }
}

TEST(remote_files_are_read_as_local_ones)
{
    struct str         dir   = folder_new(perm);
    struct os          os    = *os_real();
    struct fake_files *files = fake_files_new(perm);
    struct data_config c     = { .cache = str_cat(perm, dir, STR("/cache")), .cache_bytes = 1000 };
    struct source      s;
    struct err         err = { 0 };
    fake_files_put(files, STR("https://host/a.txt"), STR("plain text"));
    fake_files_put(files, STR("https://host/hello.txt.gz?key=7"),
                   (struct str){ (const char *)hello_gz, sizeof hello_gz });
    CHECK_EQ(source_open(&os, STR("https://host/a.txt"), &c, scratch, &s, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "cannot be reached"));
    c.remote = files->remote;
    for (int turn = 0; turn < 2; turn++) { /* the second time from the cache */
        CHECK(!source_open(&os, STR("https://host/a.txt"), &c, scratch, &s, &err));
        CHECK_STR(s.bytes, "plain text");
        source_close(&os, &s);
        CHECK(!source_open(&os, STR("https://host/hello.txt.gz?key=7"), &c, scratch, &s, &err));
        CHECK_STR(s.bytes, hello);
        source_close(&os, &s);
        CHECK_EQ(files->reads, 2);
    }
    CHECK_EQ(source_open(&os, STR("https://host/b.txt"), &c, scratch, &s, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "b.txt"));
    c.cache_bytes = 5;
    CHECK_EQ(source_open(&os, STR("https://host/a.txt"), &c, scratch, &s, &err), STATUS_OK);
    source_close(&os, &s); /* it is still there */
    fake_files_put(files, STR("https://host/a.txt"), STR("another text"));
    CHECK_EQ(source_open(&os, STR("https://host/a.txt"), &c, scratch, &s, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "data.cache_bytes"));
}
