#include "base/rng.h"
#include "data/remote_cache.h"
#include "harness.h"
#include "support/fake_files.h"
#include "support/folder.h"
#include <pthread.h>
#include <unistd.h>

enum { FILES = 12, BYTES = 50000 };

struct world {
    struct os          os;
    struct fake_files *files;
    struct str         folder;
    struct str         url[FILES];
    struct remote_file version[FILES];
};

static char byte_of(i64 file, i64 at) { return (char)rng_mix((u64)(file * BYTES + at)); }

static struct world *world_new(struct arena *perm)
{
    struct world *w = NEW(perm, struct world, 1);
    w->os           = *os_real();
    w->files        = fake_files_new(perm);
    w->folder       = str_cat(perm, folder_new(perm), STR("/cache"));
    for (i64 i = 0; i < FILES; i++) {
        char *bytes = NEW(perm, char, BYTES);
        for (i64 at = 0; at < BYTES; at++) bytes[at] = byte_of(i, at);
        w->url[i] = str_fmt(perm, "https://host/set/%02lld.tar?secret=7", (long long)i);
        fake_files_put(w->files, w->url[i], (struct str){ bytes, BYTES });
        CHECK(!remote_file_stat(w->files->remote, w->url[i], NULL, &w->version[i], NULL));
    }
    return w;
}

static bool read_right(struct world *w, struct remote_cache *c, i64 file, i64 from, i64 count)
{
    char       to[BYTES];
    struct err err;
    if (remote_cache_read(c, w->url[file], &w->version[file], from, count, to, NULL, &err)) {
        printf("%s ", err.text);
        return false;
    }
    for (i64 i = 0; i < count; i++)
        if (to[i] != byte_of(file, from + i)) return false;
    return true;
}

/* Bytes of what lies in the folder; *files: whole ones, *parts: on their way. */
static i64 folder_bytes(struct world *w, i64 *files, i64 *parts, struct arena scratch)
{
    struct str *names;
    i64         count = 0, sum = 0;
    *files = *parts = 0;
    CHECK(!w->os.list(&w->os, w->folder, &scratch, &names, &count, NULL));
    for (i64 i = 0; i < count; i++) {
        struct os_stat stat;
        struct str     path = str_fmt(&scratch, "%.*s/%.*s", STR_ARG(w->folder), STR_ARG(names[i]));
        CHECK(!memmem(path.data, (size_t)path.len, "secret", 6));
        if (str_ends(path, STR("lock")) || w->os.stat(&w->os, path, &stat, NULL)) continue;
        sum += stat.bytes;
        *files += !str_ends(path, STR(".part"));
        *parts += str_ends(path, STR(".part"));
    }
    return sum;
}

TEST(a_file_is_fetched_once_and_then_read_from_the_disk)
{
    struct world        *w = world_new(perm);
    struct remote_cache *c =
        remote_cache_new(&w->os, w->files->remote, w->folder, FILES * BYTES, perm);
    i64 files, parts;
    for (int turn = 0; turn < 3; turn++)
        for (i64 i = 0; i < FILES; i++) CHECK(read_right(w, c, i, turn * 100, 1000));
    CHECK_EQ(w->files->read_bytes, FILES * BYTES);
    CHECK_EQ(folder_bytes(w, &files, &parts, scratch), FILES * BYTES);
    CHECK_EQ(files, FILES);
    CHECK_EQ(parts, 0);
    remote_cache_release(c);
    c = remote_cache_new(&w->os, w->files->remote, w->folder, FILES * BYTES,
                         perm); /* the next run finds them */
    for (i64 i = 0; i < FILES; i++) CHECK(read_right(w, c, i, 0, BYTES));
    CHECK_EQ(w->files->read_bytes, FILES * BYTES);
    remote_cache_release(c);
}

TEST(another_version_is_fetched_anew)
{
    struct world        *w = world_new(perm);
    struct remote_cache *c =
        remote_cache_new(&w->os, w->files->remote, w->folder, FILES * BYTES, perm);
    struct remote_file now;
    char               to[4];
    CHECK(read_right(w, c, 0, 0, 10));
    fake_files_put(w->files, w->url[0], STR("another text"));
    CHECK(!remote_file_stat(w->files->remote, w->url[0], NULL, &now, NULL));
    CHECK(!remote_cache_read(c, w->url[0], &now, 0, 4, to, NULL, NULL));
    CHECK_STR(((struct str){ to, 4 }), "anot");
    remote_cache_release(c);
}

TEST(the_least_recently_read_goes_first_and_the_bound_holds)
{
    struct world        *w = world_new(perm);
    struct remote_cache *c = remote_cache_new(&w->os, w->files->remote, w->folder, 3 * BYTES, perm);
    i64                  files, parts;
    for (i64 i = 0; i < 3; i++) CHECK(read_right(w, c, i, 0, 10));
    CHECK(read_right(w, c, 0, 0, 10)); /* now 1 is the oldest */
    CHECK(read_right(w, c, 3, 0, 10));
    CHECK_EQ(w->files->read_bytes, 4 * BYTES);
    CHECK(read_right(w, c, 0, 0, 10));
    CHECK(read_right(w, c, 2, 0, 10));
    CHECK_EQ(w->files->read_bytes, 4 * BYTES);
    CHECK(read_right(w, c, 1, 0, 10));
    CHECK_EQ(w->files->read_bytes, 5 * BYTES);
    CHECK(folder_bytes(w, &files, &parts, scratch) <= 3 * BYTES);
    CHECK_EQ(remote_cache_sums(c).evicted, 2);
    remote_cache_release(c);
}

TEST(a_file_that_is_asked_for_again_is_not_the_oldest)
{
    struct world        *w = world_new(perm);
    struct remote_cache *c = remote_cache_new(&w->os, w->files->remote, w->folder, 2 * BYTES, perm);
    CHECK(!remote_cache_fetch(c, w->url[0], &w->version[0], NULL, NULL)); /* ahead of its readers */
    CHECK(read_right(w, c, 1, 0, 10));
    CHECK(!remote_cache_fetch(c, w->url[0], &w->version[0], NULL, NULL));
    CHECK(!remote_cache_fetch(c, w->url[2], &w->version[2], NULL, NULL));
    i64 before = w->files->read_bytes;
    CHECK(read_right(w, c, 0, 0, 10));
    CHECK_EQ(w->files->read_bytes, before);
    remote_cache_release(c);
}

TEST(what_is_mapped_is_not_removed_and_what_finds_no_room_is_read_directly)
{
    struct world        *w = world_new(perm);
    struct remote_cache *c = remote_cache_new(&w->os, w->files->remote, w->folder, 2 * BYTES, perm);
    struct str           bytes[2];
    struct file          pin[2];
    for (i64 i = 0; i < 2; i++) {
        CHECK(!remote_cache_map(c, w->url[i], &w->version[i], &bytes[i], &pin[i], NULL));
        CHECK_EQ(bytes[i].data[77], byte_of(i, 77));
    }
    CHECK(read_right(w, c, 2, 5, 100));
    CHECK_EQ(remote_cache_sums(c).direct_bytes, 100);
    CHECK_EQ(remote_cache_sums(c).evicted, 0);
    for (i64 i = 0; i < 2; i++) {
        w->os.unmap(&w->os, bytes[i]);
        w->os.close(&w->os, &pin[i], NULL);
    }
    CHECK(read_right(w, c, 2, 5, 100)); /* now there is room */
    CHECK_EQ(remote_cache_sums(c).evicted, 1);
    remote_cache_release(c);
    struct remote_cache *small =
        remote_cache_new(&w->os, w->files->remote, w->folder, BYTES - 1, perm);
    struct err err;
    CHECK(read_right(w, small, 5, 5, 100));
    CHECK_EQ(remote_cache_fetch(small, w->url[6], &w->version[6], NULL, &err), STATUS_NO);
    CHECK(strstr(err.text, "data.cache_bytes"));
    remote_cache_release(small);
}

/* At each moment at which the mapping thread lets go of a lock, another reader wants the only room there is. */
static struct {
    struct world        *w;
    struct remote_cache *c;
    i64                  tries;
    bool                 busy;
} rival;

static enum status close_with_a_rival(struct os *os, struct file *f, struct err *err)
{
    enum status st = os_real()->close(os, f, err);
    if (rival.busy || remote_cache_sums(rival.c).evicted) return st; /* one is enough */
    rival.busy = true;
    rival.tries++;
    CHECK(read_right(rival.w, rival.c, 1, 0, 10));
    rival.busy = false;
    return st;
}

TEST(a_file_that_is_fetched_to_be_mapped_is_not_removed_in_between)
{
    struct world        *w  = world_new(perm);
    struct os            os = *os_real();
    struct remote_cache *c  = remote_cache_new(&os, w->files->remote, w->folder, BYTES, perm);
    struct str           bytes;
    struct file          pin;
    rival.w  = w;
    rival.c  = remote_cache_new(&w->os, w->files->remote, w->folder, BYTES, perm);
    os.close = close_with_a_rival;
    CHECK(!remote_cache_map(c, w->url[0], &w->version[0], &bytes, &pin, NULL));
    CHECK_EQ(bytes.data[77], byte_of(0, 77));
    CHECK(rival.tries > 0);
    CHECK_EQ(remote_cache_sums(c).fetched_bytes, BYTES);
    CHECK_EQ(remote_cache_sums(rival.c).evicted, 0);
    os.unmap(&os, bytes);
    os_real()->close(&os, &pin, NULL);
    remote_cache_release(c);
    remote_cache_release(rival.c);
}

TEST(a_torn_transfer_is_an_error_that_leaves_nothing_and_passes)
{
    struct world        *w = world_new(perm);
    struct remote_cache *c =
        remote_cache_new(&w->os, w->files->remote, w->folder, FILES * BYTES, perm);
    struct err err;
    char       to[10];
    i64        files, parts;
    w->files->fail_at = 1;
    CHECK_EQ(remote_cache_read(c, w->url[0], &w->version[0], 0, 10, to, NULL, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "torn"));
    CHECK_EQ(folder_bytes(w, &files, &parts, scratch), 0);
    CHECK_EQ(files + parts, 0);
    CHECK(read_right(w, c, 0, 0, BYTES));
    remote_cache_release(c);
}

static enum status write_full(struct os *os, struct file f, struct str bytes, struct err *err)
{
    (void)os, (void)f, (void)bytes;
    return err_set(err, STATUS_WORLD, "no space left on the device");
}

TEST(a_full_disk_costs_speed_and_nothing_else)
{
    struct world        *w = world_new(perm);
    struct remote_cache *c =
        remote_cache_new(&w->os, w->files->remote, w->folder, FILES * BYTES, perm);
    i64 files, parts;
    w->os.write = write_full;
    for (i64 i = 0; i < FILES; i++) CHECK(read_right(w, c, i, i, 200));
    CHECK_EQ(folder_bytes(w, &files, &parts, scratch), 0);
    CHECK_EQ(files + parts, 0);
    CHECK_EQ(remote_cache_sums(c).direct_bytes, FILES * 200);
    CHECK_EQ(w->files->read_bytes, BYTES + FILES * 200); /* it was tried once, not each time */
    remote_cache_release(c);
}

TEST(what_a_killed_process_left_makes_room)
{
    struct world        *w = world_new(perm);
    struct remote_cache *c = remote_cache_new(&w->os, w->files->remote, w->folder, BYTES, perm);
    CHECK(!w->os.make_dir(&w->os, w->folder, NULL));
    struct str left =
        folder_put(perm, w->folder, "0123456789abcdef-40000-07.tar.999.part", STR("a beginning"));
    CHECK(read_right(w, c, 1, 0, BYTES));
    CHECK_EQ(remote_cache_sums(c).direct_bytes, 0);
    CHECK(access(left.data, F_OK) != 0);
    remote_cache_release(c);
}

TEST(a_cached_file_that_was_cut_short_is_fetched_again)
{
    struct world        *w = world_new(perm);
    struct remote_cache *c =
        remote_cache_new(&w->os, w->files->remote, w->folder, FILES * BYTES, perm);
    struct str *names;
    i64         count = 0;
    CHECK(read_right(w, c, 0, 0, BYTES));
    CHECK(!w->os.list(&w->os, w->folder, perm, &names, &count, NULL));
    for (i64 i = 0; i < count; i++)
        if (str_ends(names[i], STR(".tar")))
            CHECK_EQ(
                truncate(str_fmt(perm, "%.*s/%.*s", STR_ARG(w->folder), STR_ARG(names[i])).data,
                         100),
                0);
    CHECK(read_right(w, c, 0, 0, BYTES));
    CHECK_EQ(w->files->read_bytes, 2 * BYTES);
    remote_cache_release(c);
}

struct reader {
    struct world        *w;
    struct remote_cache *c;
    u64                  seed;
    i64                  files;
    bool                 right;
};

static void *read_many(void *context)
{
    struct reader *r = context;
    r->right         = true;
    for (u64 i = 0; i < 25 && r->right; i++) {
        struct rng_key key = { .seed = r->seed, .step = i };
        r->right = read_right(r->w, r->c, rng_u32(key, 0) % r->files, rng_u32(key, 1) % (BYTES / 2),
                              1 + rng_u32(key, 2) % 9999);
    }
    return NULL;
}

/* Readers of two caches over one folder: locks tell them apart as they do processes. */
static void read_at_once(struct world *w, i64 bytes_max, i64 files, u64 seed, struct arena *perm)
{
    struct remote_cache *c[2];
    struct reader        r[6];
    pthread_t            thread[6];
    for (int i = 0; i < 2; i++)
        c[i] = remote_cache_new(&w->os, w->files->remote, w->folder, bytes_max, perm);
    for (int i = 0; i < 6; i++) {
        r[i] = (struct reader){ w, c[i % 2], seed + (u64)i, files, false };
        CHECK_EQ(pthread_create(&thread[i], NULL, read_many, &r[i]), 0);
    }
    for (int i = 0; i < 6; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < 6; i++) CHECK(r[i].right);
    for (int i = 0; i < 2; i++) remote_cache_release(c[i]);
}

TEST(many_readers_of_two_processes_fetch_each_file_once)
{
    struct world *w    = world_new(perm);
    w->files->delay_ns = 2000000;
    read_at_once(w, FILES * BYTES, 4, test_seed(), perm);
    CHECK_EQ(w->files->read_bytes, 4 * BYTES);
}

TEST(many_readers_with_little_room_read_what_is_right_within_the_bound)
{
    struct world *w = world_new(perm);
    i64           files, parts;
    read_at_once(w, 3 * BYTES, FILES, test_seed(), perm);
    CHECK(folder_bytes(w, &files, &parts, scratch) <= 3 * BYTES);
    CHECK_EQ(parts, 0);
}
