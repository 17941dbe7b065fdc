#include "base/rng.h"
#include "data/place.h"
#include "data/place_int.h"
#include "data/shard.h"
#include "harness.h"
#include "support/fake_files.h"
#include "support/folder.h"
#include "support/shards.h"
#include <pthread.h>
#include <unistd.h>

enum { BYTES = 700 };

static struct data_config config_of(struct str dir, struct arena *perm)
{
    return (struct data_config){ .cache       = str_cat(perm, dir, STR("/cache")),
                                 .cache_bytes = 1 << 20 };
}

static struct place *opened(struct str path, struct str dir, struct arena *perm)
{
    struct data_config c = config_of(dir, perm);
    struct place      *p;
    struct err         err;
    enum status        st = place_open(os_real(), &c, path, perm, &p, &err);
    if (st) printf("%s ", err.text);
    CHECK(!st);
    return p;
}

static void check_samples(struct place *p, i64 count, struct arena scratch)
{
    struct buffer b   = { 0 };
    struct err    err = { 0 };
    CHECK_EQ(place_count(p), count);
    CHECK_EQ(place_classes(p), MIN(count, 10));
    for (i64 n = 0; n < count; n++) {
        if (place_read(p, n, &b, NULL, &err)) printf("%s ", err.text);
        CHECK(!err.text[0]);
        CHECK(shard_is((struct str){ (char *)b.data, b.bytes }, n, BYTES));
        CHECK_EQ(place_class(p, n), n % 10);
        struct str end = str_fmt(&scratch, "%06lld.jpg", (long long)n);
        CHECK(str_ends(place_name(p, n, &scratch), end));
    }
    buffer_release(&b);
}

static struct str three_shards(struct arena *perm, struct str dir)
{
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "set-%02d.tar", i);
        folder_put(perm, dir, name, shard_bytes(perm, i * 25, 25, BYTES));
    }
    return str_cat(perm, dir, STR("/set-{00..02}.tar"));
}

TEST(a_folder_of_shards_is_all_of_them)
{
    struct str dir = folder_new(perm), shards = str_cat(perm, dir, STR("/sets"));
    CHECK(!os_real()->make_dir(os_real(), shards, NULL));
    three_shards(perm, shards);
    struct place *p = opened(shards, dir, perm);
    CHECK(!place_is_sorted(p));
    check_samples(p, 75, scratch);
    place_close(p);
    CHECK(place_holds_shards(os_real(), shards, scratch));
    CHECK(!place_holds_shards(os_real(), dir, scratch)); /* it has a subfolder, a class */
    folder_put(perm, shards, "test-00.tar", shard_bytes(perm, 0, 2, BYTES));
    struct data_config c   = config_of(dir, perm);
    struct err         err = { 0 };
    CHECK_EQ(place_open(os_real(), &c, shards, perm, &p, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "shards of different names"));
    CHECK(!os_real()->remove(os_real(), str_cat(perm, shards, STR("/test-00.tar")), NULL));
    CHECK(!os_real()->remove(os_real(), str_cat(perm, shards, STR("/set-01.tar")), NULL));
    CHECK(place_open(os_real(), &c, shards, perm, &p, &err));
    CHECK(strstr(err.text, "set-01.tar"));
}

TEST(patterns_stand_for_names)
{
    struct str *names;
    i64         count;
    struct err  err;
    CHECK(!pattern_expand(STR("a-{08..11}.tar"), perm, &names, &count, &err));
    CHECK_EQ(count, 4);
    CHECK_STR(names[0], "a-08.tar");
    CHECK_STR(names[3], "a-11.tar");
    CHECK(!pattern_expand(STR("{x,y}-{1..2}"), perm, &names, &count, &err));
    CHECK_EQ(count, 4);
    CHECK_STR(names[1], "x-2");
    CHECK_STR(names[2], "y-1");
    CHECK(!pattern_expand(STR("plain.tar"), perm, &names, &count, &err));
    CHECK_EQ(count, 1);
    static const char *const wrong[] = { "a-{0..}", "a-{5..3}", "a-{",
                                         "}a{",     "a-{b}",    "{0..99999999}" };
    for (i64 i = 0; i < COUNT_OF(wrong); i++)
        CHECK_EQ(pattern_expand(str_of(wrong[i]), perm, &names, &count, &err), STATUS_USAGE);
}

TEST(shards_give_their_samples_and_keep_an_index_beside_them)
{
    struct str    dir = folder_new(perm), path = three_shards(perm, dir);
    struct place *p = opened(path, dir, perm);
    check_samples(p, 75, scratch);
    place_close(p);
    CHECK_EQ(access(str_z(perm, str_cat(perm, dir, STR("/set-01.tar.idx"))), R_OK), 0);
    p = opened(path, dir, perm); /* now by the indexes */
    check_samples(p, 75, scratch);
    place_close(p);
}

TEST(an_index_that_is_old_or_damaged_is_made_anew)
{
    struct str    dir = folder_new(perm), path = three_shards(perm, dir);
    struct place *p = opened(path, dir, perm);
    place_close(p);
    folder_put(perm, dir, "set-02.tar", shard_bytes(perm, 50, 30, BYTES)); /* another size */
    folder_put(perm, dir, "set-01.tar.idx", STR("frugalix, but not for long"));
    p = opened(path, dir, perm);
    check_samples(p, 80, scratch);
    place_close(p);
}

/* A folder that nothing can be written to, root or not. */
static enum status create_refused(struct os *os, struct str path, struct file *f, struct err *err)
{
    if (str_find(path, '~') < 0) return os_real()->create(os, path, f, err);
    return err_set(err, STATUS_WORLD, "%.*s is on a disk that is only read", STR_ARG(path));
}

TEST(an_index_goes_to_the_cache_where_the_shards_cannot_be_written)
{
    struct str dir = folder_new(perm), shards = str_cat(perm, dir, STR("/~shards"));
    CHECK(!os_real()->make_dir(os_real(), shards, NULL));
    struct str         path = three_shards(perm, shards);
    struct data_config c    = config_of(dir, perm);
    struct os          os   = *os_real();
    os.create               = create_refused;
    for (int run = 0; run < 2; run++) {
        struct place *p;
        CHECK(!place_open(&os, &c, path, perm, &p, NULL));
        check_samples(p, 75, scratch);
        place_close(p);
        struct str *names;
        i64         count = 0;
        CHECK(!os.list(&os, str_cat(perm, dir, STR("/cache/indexes")), perm, &names, &count, NULL));
        CHECK_EQ(count, 3);
    }
}

TEST(a_sample_that_is_not_where_the_index_says_is_an_error_that_names_it)
{
    struct str     dir = folder_new(perm), path = three_shards(perm, dir);
    struct place  *p = opened(path, dir, perm);
    struct buffer  b = { 0 };
    struct err     err;
    struct textbuf other = textbuf_new(perm);
    tar_add(&other, STR("set/000025.jpg"), STR("shorter"));
    tar_end(&other);
    folder_put(perm, dir, "set-01.tar", textbuf_str(&other)); /* while it is in use */
    CHECK(place_read(p, 25, &b, NULL, &err));
    CHECK(strstr(err.text, "set-01.tar"));
    CHECK(place_read(p, 40, &b, NULL, &err));
    CHECK(strstr(err.text, "set-01.tar"));
    CHECK(!place_read(p, 10, &b, NULL, &err));
    place_close(p);
    buffer_release(&b);
}

TEST(what_is_no_shard_is_refused_by_name)
{
    struct str         dir = folder_new(perm);
    struct data_config c   = config_of(dir, perm);
    struct place      *p;
    struct err         err;
    folder_put(perm, dir, "a.tar", STR("this is no archive"));
    CHECK(place_open(os_real(), &c, str_cat(perm, dir, STR("/a.tar")), perm, &p, &err));
    CHECK(strstr(err.text, "a.tar"));
    CHECK(place_open(os_real(), &c, str_cat(perm, dir, STR("/b-{0..3}.tar")), perm, &p, &err));
    CHECK(strstr(err.text, "b-0.tar"));
    struct textbuf b = textbuf_new(perm);
    tar_add(&b, STR("7.jpg"), STR("x"));
    tar_add(&b, STR("7.cls"), STR("cat"));
    tar_end(&b);
    folder_put(perm, dir, "c.tar", textbuf_str(&b));
    CHECK(place_open(os_real(), &c, str_cat(perm, dir, STR("/c.tar")), perm, &p, &err));
    CHECK(strstr(err.text, "c.tar: 7.cls holds \"cat\""));
    CHECK(place_open(os_real(), &c, STR("http://host/a-{0..3}.tar"), perm, &p, &err));
    CHECK(strstr(err.text, "cannot be reached"));
    CHECK_EQ(place_open(os_real(), &c, STR("http://host/folder"), perm, &p, &err), STATUS_USAGE);
}

TEST(a_folder_has_its_subfolders_as_classes)
{
    struct str dir = folder_new(perm), root = str_cat(perm, dir, STR("/photos"));
    for (int c = 0; c < 3; c++) {
        struct str sub = str_fmt(perm, "%.*s/class%d", STR_ARG(root), c);
        CHECK(!os_real()->make_dir(os_real(), sub, NULL));
        for (int i = 0; i < 4 + c; i++) {
            char name[32];
            snprintf(name, sizeof name, "%d.%s", i, i % 2 ? "JPG" : "png");
            folder_put(perm, sub, name, str_fmt(perm, "%d of %d", i, c));
        }
        folder_put(perm, sub, "notes.txt", STR("no sample"));
        folder_put(perm, sub, ".hidden.jpg", STR("no sample"));
    }
    struct place *p = opened(str_cat(perm, root, STR("/")), dir, perm);
    struct buffer b = { 0 };
    struct err    err;
    bool          seen[15] = { 0 };
    CHECK_EQ(place_count(p), 15);
    CHECK_EQ(place_classes(p), 3);
    CHECK_EQ(place_class(p, 3), 0);
    CHECK_EQ(place_class(p, 4), 1);
    CHECK_EQ(place_class(p, 14), 2);
    CHECK(!place_read(p, 10, &b, NULL, &err));
    CHECK_STR(((struct str){ (char *)b.data, b.bytes }), "1 of 2");
    CHECK(str_ends(place_name(p, 10, perm), STR("photos/class2/1.JPG")));
    for (i64 i = 0; i < 15; i++) seen[place_order(p, 15, 7, 0, i)] = true;
    for (i64 i = 0; i < 15; i++) CHECK(seen[i]);
    unlink(str_z(perm, place_name(p, 10, perm)));
    CHECK(place_read(p, 10, &b, NULL, &err));
    CHECK(strstr(err.text, "class2/1.JPG"));
    place_close(p);
    buffer_release(&b);
}

/* --- remote shards ------------------------------------------------------------------------------------- */

enum { SHARDS = 40, EACH = 25, COUNT = SHARDS * EACH }; /* a whole number of batches */

struct remote_world {
    struct os          os;
    struct fake_files *files;
    struct data_config config;
    struct str         pattern;
    i64                bytes; /* of all shards */
};

static struct remote_world *remote_world_new(bool indexes, struct arena *perm)
{
    struct remote_world *w   = NEW(perm, struct remote_world, 1);
    struct err           err = { 0 };
    w->os                    = *os_real();
    w->files                 = fake_files_new(perm);
    w->config                = config_of(folder_new(perm), perm);
    w->config.remote         = w->files->remote;
    w->pattern               = STR("https://host/set-{00..39}.tar");
    for (i64 i = 0; i < SHARDS; i++) {
        struct str url   = str_fmt(perm, "https://host/set-%02lld.tar", (long long)i), index;
        struct str bytes = shard_bytes(perm, i * EACH, EACH, 4000);
        fake_files_put(w->files, url, bytes);
        w->bytes += bytes.len;
        if (!indexes) continue;
        CHECK(!shard_index_make(url, bytes, STR("pack:"), perm, &index, &err));
        fake_files_put(w->files, str_cat(perm, url, STR(".idx")), index);
    }
    w->config.cache_bytes = w->bytes / 10;
    return w;
}

/* Readers as the loader has them: each takes the next index of the epoch and reads its sample, and none
 * is further ahead of another than a batch. */
enum { BATCH = 8 };

struct epoch {
    struct place     *place;
    i64               number;
    u64               seed;
    pthread_barrier_t batch_ends;
    atomic_llong      next, wrong;
    atomic_char       seen[COUNT];
    i64               order[COUNT];
};

static void *read_epoch(void *context)
{
    struct epoch *e = context;
    struct buffer b = { 0 };
    for (i64 end = BATCH; end <= COUNT; end += BATCH) {
        for (i64 i; (i = atomic_fetch_add(&e->next, 1)) < end;) {
            i64 n       = place_order(e->place, COUNT, e->seed, e->number, i);
            e->order[i] = n;
            if (place_read(e->place, n, &b, NULL, NULL) || atomic_fetch_add(&e->seen[n], 1) ||
                !shard_is((struct str){ (char *)b.data, b.bytes }, n, 4000))
                atomic_fetch_add(&e->wrong, 1);
        }
        if (pthread_barrier_wait(&e->batch_ends) == PTHREAD_BARRIER_SERIAL_THREAD)
            atomic_store(&e->next, end); /* each has taken one too many */
        pthread_barrier_wait(&e->batch_ends);
    }
    buffer_release(&b);
    return NULL;
}

static struct epoch *run_epoch(struct place *p, i64 number, u64 seed, int threads,
                               struct arena *perm)
{
    struct epoch *e = NEW(perm, struct epoch, 1);
    pthread_t     thread[8];
    e->place  = p;
    e->number = number;
    e->seed   = seed;
    pthread_barrier_init(&e->batch_ends, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) CHECK_EQ(pthread_create(&thread[i], NULL, read_epoch, e), 0);
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&e->batch_ends);
    CHECK_EQ(e->wrong, 0);
    return e;
}

TEST(an_epoch_fetches_each_byte_once_with_a_cache_of_a_tenth)
{
    u64                  seed = test_seed();
    struct remote_world *w    = remote_world_new(true, perm);
    struct place        *p;
    struct err           err;
    CHECK(!place_open(&w->os, &w->config, w->pattern, perm, &p, &err));
    CHECK_EQ(place_count(p), COUNT);
    CHECK_EQ(place_classes(p), 10);
    i64 opening = w->files->read_bytes;
    CHECK(opening < w->bytes / 20);
    for (i64 number = 0; number < 3; number++) {
        i64 before = w->files->read_bytes;
        run_epoch(p, number, seed, 4, perm);
        i64 fetched = w->files->read_bytes - before;
        CHECK(fetched <= w->bytes * 105 / 100);
        CHECK(fetched >= w->bytes * 85 / 100); /* or it was no cache of a tenth */
    }
    place_close(p);
}

TEST(the_order_is_the_same_for_any_readers_and_wherever_shards_lie)
{
    u64                  seed = test_seed();
    struct remote_world *w    = remote_world_new(true, perm);
    struct place        *p;
    i64                 *first = NULL;
    for (int threads = 1; threads <= 8; threads *= 2) {
        CHECK(!place_open(&w->os, &w->config, w->pattern, perm, &p, NULL));
        struct epoch *e = run_epoch(p, 3, seed, threads, perm);
        if (!first) first = e->order;
        CHECK(!memcmp(first, e->order, sizeof e->order));
        place_close(p);
    }
    struct str dir = folder_new(perm);
    for (i64 i = 0; i < SHARDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "set-%02lld.tar", (long long)i);
        folder_put(perm, dir, name, w->files->bytes[2 * i]);
    }
    CHECK(!place_open(os_real(), &w->config, str_cat(perm, dir, STR("/set-{00..39}.tar")), perm, &p,
                      NULL));
    CHECK(!memcmp(first, run_epoch(p, 3, seed, 2, perm)->order, COUNT * sizeof *first));
    place_close(p);
}

TEST(indexes_that_nobody_packed_are_made_once)
{
    struct remote_world *w = remote_world_new(false, perm);
    struct place        *p;
    struct err           err;
    char                 line[LOADER_LINE_MAX];
    CHECK(!place_open(&w->os, &w->config, w->pattern, perm, &p, &err));
    CHECK_EQ(place_count(p), COUNT);
    CHECK_EQ(w->files->read_bytes, w->bytes);
    CHECK(place_says(p, line));
    CHECK(strstr(line, "have no index: they were read completely"));
    CHECK(!place_says(p, line));
    run_epoch(p, 0, 1, 2, perm);
    place_close(p);
    i64 before = w->files->read_bytes;
    CHECK(!place_open(&w->os, &w->config, w->pattern, perm, &p, &err));
    CHECK_EQ(w->files->read_bytes, before);
    CHECK(!place_says(p, line));
    place_close(p);
}

TEST(shards_larger_than_the_cache_are_read_by_ranges)
{
    struct remote_world *w = remote_world_new(true, perm);
    w->config.cache_bytes  = 1000;
    struct place *p;
    char          line[LOADER_LINE_MAX];
    CHECK(!place_open(&w->os, &w->config, w->pattern, perm, &p, NULL));
    CHECK(!place_says(p, line)); /* nothing was wanted yet */
    run_epoch(p, 0, 1, 2, perm);
    CHECK(w->files->read_bytes < w->bytes * 105 / 100);
    CHECK(place_says(p, line));
    CHECK(strstr(line, "are more than the cache may hold, 1000 (data.cache_bytes)"));
    CHECK(!place_says(p, line));
    place_close(p);
}

TEST(a_shard_that_is_missing_or_changes_is_named)
{
    struct remote_world *w = remote_world_new(true, perm);
    struct place        *p;
    struct buffer        b = { 0 };
    struct err           err;
    CHECK(place_open(&w->os, &w->config, STR("https://host/set-{38..41}.tar"), perm, &p, &err));
    CHECK(strstr(err.text, "set-40.tar"));
    CHECK(!place_open(&w->os, &w->config, w->pattern, perm, &p, &err));
    fake_files_put(w->files, w->files->url[2 * 7], shard_bytes(perm, 0, EACH, 4000));
    CHECK(place_read(p, 7 * EACH, &b, NULL, &err));
    CHECK(strstr(err.text, "changed"));
    place_close(p);
    buffer_release(&b);
}
