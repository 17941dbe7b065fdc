#include "base/gzip.h"
#include "base/os.h"
#include "base/rng.h"
#include "harness.h"
#include <unistd.h>

static struct str file_bytes(struct arena *perm, struct str path)
{
    struct str bytes;
    struct err err = { 0 };
    if (os_read_all(os_real(), path, perm, &bytes, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return bytes;
}

/* Bytes of several characters: noise, runs, words, and mixtures, so that every kind of block and
 * short and long distances occur. */
static struct str made_up(struct arena *perm, struct rng_key key, i64 len)
{
    char *data = NEW(perm, char, len);
    u64   at   = 0;
    for (i64 i = 0; i < len;) {
        u32 kind = rng_u32(key, at++) % 4, run = 1 + rng_u32(key, at++) % 600;
        for (u32 j = 0; j < run && i < len; j++, i++) {
            if (kind == 0) data[i] = (char)rng_u32(key, at++);
            else if (kind == 1) data[i] = 'z';
            else if (kind == 2) data[i] = (char)('a' + rng_u32(key, at++) % 7);
            else data[i] = i > 40000 ? data[i - 40000 + 9000] : 'w';
        }
    }
    return (struct str){ data, len };
}

TEST(what_gzip_packs_we_unpack)
{
    struct rng_key key = { .seed = test_seed() };
    struct err     err = { 0 };
    if (system("gzip --version > /dev/null 2>&1")) SKIP("no gzip here");
    char dir[] = "/tmp/frugal-gzip-XXXXXX";
    CHECK(mkdtemp(dir));
    struct str path   = str_fmt(perm, "%s/data", dir);
    struct str packed = str_cat(perm, path, STR(".gz"));
    for (int level = 1; level <= 9; level += 4) {
        for (int turn = 0; turn < 4; turn++) {
            key.step++;
            struct str bytes = made_up(perm, key, turn == 0 ? turn : 1 << (4 * turn + 6)), out;
            CHECK_EQ(os_publish(os_real(), path, bytes, scratch, &err), STATUS_OK);
            struct str command =
                str_fmt(perm, "gzip -%d -c %s > %s", level, path.data, packed.data);
            CHECK_EQ(system(command.data), 0);
            struct str  gz = file_bytes(perm, packed);
            enum status st = gzip_unpack(perm, gz, bytes.len, &out, &err);
            if (st) harness_fail(__FILE__, __LINE__, "%s", err.text);
            CHECK(str_eq(out, bytes));
            if (bytes.len) CHECK_EQ(gzip_unpack(perm, gz, bytes.len - 1, &out, &err), STATUS_WORLD);
        }
    }
    CHECK_EQ(unlink(path.data) | unlink(packed.data) | rmdir(dir), 0);
}

TEST(members_and_optional_fields_are_read)
{
    struct str out;
    CHECK_EQ(gzip_unpack(perm, file_bytes(perm, STR("tests/fuzz/corpus/gzip/members.gz")), 1000,
                         &out, NULL),
             STATUS_OK);
    CHECK_STR(out, "named and commentedsecond");
}

TEST(every_cut_and_every_flipped_bit_is_noticed)
{
    struct err err = { 0 };
    struct str out, gz = file_bytes(perm, STR("tests/fuzz/corpus/gzip/fixed.gz"));
    char      *copy = NEW(perm, char, gz.len);
    CHECK_EQ(gzip_unpack(perm, gz, 1000, &out, &err), STATUS_OK);
    for (i64 len = 0; len < gz.len; len++) {
        CHECK_EQ(gzip_unpack(perm, str_sub(gz, 0, len), 1000, &out, &err), STATUS_WORLD);
        CHECK(!out.data);
    }
    for (i64 bit = 0; bit < 8 * gz.len; bit++) {
        if (bit / 8 >= 4 && bit / 8 < 10) continue; /* time and system: not of the data */
        if (bit / 8 == 3 && bit % 8 < 5) continue;  /* other fields; bit 0 means nothing */
        memcpy(copy, gz.data, (size_t)gz.len);
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << (bit % 8));
        CHECK_EQ(gzip_unpack(perm, (struct str){ copy, gz.len }, 1000, &out, &err), STATUS_WORLD);
    }
}

TEST(the_room_is_never_exceeded)
{
    struct str gz = file_bytes(perm, STR("tests/fuzz/corpus/gzip/dynamic.gz")), out;
    for (i64 room = 0; room <= 1600; room += 100) {
        struct arena again = *perm;
        struct arena small = arena_part(&again, room);
        CHECK_EQ(gzip_unpack(&small, gz, 1 << 20, &out, NULL) == STATUS_OK, room >= 1500);
    }
}
