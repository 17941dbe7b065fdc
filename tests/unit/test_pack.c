#include "base/rng.h"
#include "data/pack.h"
#include "data/shard.h"
#include "data/stage.h"
#include "harness.h"
#include "support/folder.h"
#include "support/sim_os.h"

enum { COUNT = 23 };

static bool go_on(void *context, i64 samples, i64 count)
{
    (void)context;
    return samples <= count;
}

static const struct data_config data = { .cache = STR_INIT("/cache"), .cache_bytes = 1 << 20 };

/* Two classes, and names that would be one key. */
static void put_photos(struct sim_os *sim, struct arena *perm)
{
    for (i64 i = 0; i < COUNT; i++) {
        char *bytes = NEW(perm, char, 2000);
        for (i64 k = 0; k < 2000; k++) bytes[k] = (char)rng_mix((u64)(i * 2000 + k));
        const char *name = i == 3   ? "photos/ant/same.a.JPG"
                           : i == 4 ? "photos/ant/same.b.png"
                                    : NULL;
        struct str  path =
            name ? str_of(name)
                  : str_fmt(perm, "photos/%s/%02lld.jpg", i < 9 ? "ant" : "a bee", (long long)i);
        sim_os_put(sim, path, (struct str){ bytes, 500 + 60 * i });
    }
}

static enum status packed(struct sim_os *sim, i64 shard_bytes, struct pack_result *r,
                          struct arena *perm, struct err *err)
{
    struct place      *p;
    struct pack_config c  = { .to = STR("out/set"), .shard_bytes = shard_bytes };
    enum status        st = place_open(&sim->os, &data, STR("photos"), perm, &p, err);
    if (st) return st;
    st = pack(&sim->os, p, &c, go_on, NULL, r, err);
    place_close(p);
    return st;
}

static struct str shard_of(struct sim_os *sim, i64 number, const char *end, struct arena *perm)
{
    return sim_os_look(sim, str_fmt(perm, "out/set-%06lld.tar%s", (long long)number, end));
}

static struct sim_os *sim_new(struct arena *perm)
{
    struct sim_os *sim = sim_os_new(perm);
    put_photos(sim, perm);
    CHECK(!sim->os.make_dir(&sim->os, STR("out"), NULL));
    CHECK(!sim->os.sync_dir_of(&sim->os, STR("out"), NULL));
    return sim;
}

/* Shards are opened by several threads, and the disk in memory is made for one. */
static struct str on_a_real_disk(struct sim_os *sim, i64 shards, struct arena *perm)
{
    struct str dir = folder_new(perm);
    for (i64 i = 0; i < 2 * shards; i++) {
        struct str name = str_fmt(perm, "set-%06lld.tar%s", (long long)i / 2, i % 2 ? ".idx" : "");
        struct str file = sim_os_look(sim, str_cat(perm, STR("out/"), name));
        CHECK(file.data);
        folder_put(perm, dir, name.data, file);
    }
    return dir;
}

TEST(every_sample_is_in_one_shard_with_its_class)
{
    struct sim_os     *sim = sim_new(perm);
    struct pack_result r;
    struct err         err = { 0 };
    struct place      *from, *to;
    struct buffer      a = { 0 }, b = { 0 };
    bool               seen[COUNT] = { 0 };
    CHECK(!packed(sim, 8000, &r, perm, &err));
    CHECK(r.shards > 2);
    CHECK_EQ(r.samples, COUNT);
    struct str dir = on_a_real_disk(sim, r.shards, perm);
    struct str pattern =
        str_fmt(perm, "%.*s/set-{000000..%06lld}.tar", STR_ARG(dir), (long long)r.shards - 1);
    CHECK(!place_open(&sim->os, &data, STR("photos"), perm, &from, &err));
    CHECK(!place_open(os_real(), &data, pattern, perm, &to, &err));
    CHECK_EQ(place_count(to), COUNT);
    CHECK_EQ(place_classes(to), 2);
    for (i64 i = 0; i < COUNT; i++) {
        CHECK(!place_read(to, i, &b, NULL, &err));
        i64 n = 0; /* the one with these bytes */
        for (; n < COUNT; n++) {
            CHECK(!place_read(from, n, &a, NULL, &err));
            if (a.bytes == b.bytes && !memcmp(a.data, b.data, (size_t)a.bytes)) break;
        }
        CHECK(n < COUNT && !seen[n]);
        seen[n] = true;
        CHECK_EQ(place_class(to, i), place_class(from, n));
    }
    place_close(from);
    place_close(to);
    buffer_release(&a);
    buffer_release(&b);
}

TEST(after_a_kill_at_any_call_it_goes_on_to_the_same_bytes)
{
    struct sim_os     *whole = sim_new(perm);
    struct pack_result want, r;
    struct err         err;
    CHECK(!packed(whole, 8000, &want, perm, &err));
    u64  seed = test_seed();
    bool done = false;
    for (i64 kill = 1; !done; kill += 3) {
        struct arena   turn = scratch;
        struct sim_os *sim  = sim_new(&turn);
        sim->kill_at        = sim->calls + kill;
        sim->seed           = seed + (u64)kill;
        done                = !packed(sim, 8000, &r, &turn, &err);
        sim_os_crash(sim, (enum sim_survive)(kill % SIM_SURVIVE_COUNT));
        sim->kill_at = 0;
        CHECK(!packed(sim, 8000, &r, &turn, &err));
        CHECK_EQ(r.shards, want.shards);
        for (i64 i = 0; i < want.shards; i++) {
            CHECK_STR(shard_of(sim, i, "", &turn), shard_of(whole, i, "", perm));
            CHECK_STR(shard_of(sim, i, ".idx", &turn), shard_of(whole, i, ".idx", perm));
        }
    }
}

TEST(shards_of_another_pack_are_not_touched)
{
    struct sim_os     *sim = sim_new(perm);
    struct pack_result r;
    struct err         err;
    CHECK(!packed(sim, 8000, &r, perm, &err));
    struct str before = shard_of(sim, 1, "", perm);
    CHECK_EQ(packed(sim, 9000, &r, perm, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "out/set-000000.tar"));
    CHECK_STR(shard_of(sim, 1, "", perm), before);
    CHECK(!packed(sim, 8000, &r, perm, &err));
    CHECK_EQ(r.shards_before, r.shards);
    CHECK_EQ(r.bytes_in, 0);
}
