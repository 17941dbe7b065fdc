#include "base/hash.h"
#include "base/rng.h"
#include "harness.h"

TEST(crc32_gives_the_check_value)
{
    CHECK_EQ(crc32_add(0, STR("")), 0u);
    CHECK_EQ(crc32_add(0, STR("123456789")), 0xCBF43926u); /* the catalogue's check value */
    CHECK_EQ(crc32_add(0, STR("The quick brown fox jumps over the lazy dog")), 0x414FA339u);
}

/* FIPS 180-4's examples, and a message of a million characters. */
TEST(sha256_gives_the_published_digests)
{
    char *million = NEW(perm, char, 1000000);
    memset(million, 'a', 1000000);
    CHECK_STR(sha256_hex(perm, STR("")),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK_STR(sha256_hex(perm, STR("abc")),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK_STR(sha256_hex(perm, STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK_STR(sha256_hex(perm, (struct str){ million, 1000000 }),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(pieces_give_the_sum_of_the_whole)
{
    struct rng_key key  = { .seed = test_seed() };
    char          *data = NEW(perm, char, 1000);
    for (u64 i = 0; i < 1000; i++) data[i] = (char)rng_u32(key, i);
    for (u64 turn = 0; turn < 200; turn++) {
        struct str    all = { data, (i64)(rng_u32(key, 1000 + 3 * turn) % 300) }, rest = all;
        struct sha256 whole, pieces;
        u8            a[32], b[32];
        u32           crc = 0;
        sha256_init(&whole);
        sha256_add(&whole, all);
        sha256_end(&whole, a);
        sha256_init(&pieces);
        for (u64 i = 0; rest.len; i++) {
            i64 cut = MIN(rest.len, (i64)(rng_u32(key, 5000 + turn * 300 + i) % 100));
            sha256_add(&pieces, str_sub(rest, 0, cut));
            crc  = crc32_add(crc, str_sub(rest, 0, cut));
            rest = str_sub(rest, cut, rest.len);
        }
        sha256_end(&pieces, b);
        CHECK(!memcmp(a, b, 32));
        CHECK_EQ(crc, crc32_add(0, all));
    }
}
