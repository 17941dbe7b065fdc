#include "base/hash.h"
#include "base/rng.h"
#include "harness.h"

TEST(crc32_gives_the_check_value)
{
    CHECK_EQ(crc32_add(0, STR("")), 0u);
    CHECK_EQ(crc32_add(0, STR("123456789")), 0xCBF43926u); /* the catalogue's check value */
    CHECK_EQ(crc32_add(0, STR("The quick brown fox jumps over the lazy dog")), 0x414FA339u);
}

/* RFC 3720, appendix B.4; the catalogue's check value. */
TEST(crc32c_gives_the_published_values)
{
    char zeros[32] = { 0 }, ones[32], up[32];
    memset(ones, 0xFF, sizeof ones);
    for (int i = 0; i < 32; i++) up[i] = (char)i;
    CHECK_EQ(crc32c_add(0, STR("123456789")), 0xE3069283u);
    CHECK_EQ(crc32c_add(0, (struct str){ zeros, 32 }), 0x8A9136AAu);
    CHECK_EQ(crc32c_add(0, (struct str){ ones, 32 }), 0x62A8AB43u);
    CHECK_EQ(crc32c_add(0, (struct str){ up, 32 }), 0x46DD794Eu);
    CHECK_EQ(crc32c_add(crc32c_add(0, STR("1234")), STR("56789")), 0xE3069283u);
}

static struct str hmac_hex(struct arena *perm, struct str key, struct str message)
{
    u8 digest[32];
    hmac_sha256(key, message, digest);
    return hash_hex(perm, digest, 32);
}

/* RFC 4231, cases 1, 2 and 6 (a key longer than a block). */
TEST(hmac_gives_the_published_digests)
{
    char key[131];
    memset(key, 0x0b, 20);
    CHECK_STR(hmac_hex(perm, (struct str){ key, 20 }, STR("Hi There")),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    CHECK_STR(hmac_hex(perm, STR("Jefe"), STR("what do ya want for nothing?")),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    CHECK_STR(hmac_hex(perm, (struct str){ key, sizeof key },
                       STR("Test Using Larger Than Block-Size Key - Hash Key First")),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
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

/* Of the specification's author: the test buffer of xxHash's own sanity check, with seed 0. */
TEST(xxh64_gives_the_published_values)
{
    u8  buffer[222];
    u32 next = 2654435761u;
    for (i64 i = 0; i < COUNT_OF(buffer); i++) {
        buffer[i] = (u8)(next >> 24);
        next *= next;
    }
    CHECK_EQ(xxh64(STR("")), 0xEF46DB3751D8E999u);
    CHECK_EQ(xxh64((struct str){ (char *)buffer, 1 }), 0x4FCE394CC88952D8u);
    CHECK_EQ(xxh64((struct str){ (char *)buffer, 14 }), 0xCFFA8DB881BC3A3Du);
    CHECK_EQ(xxh64((struct str){ (char *)buffer, 101 }), 0x0EAB543384F878ADu);
    CHECK_EQ(xxh64(STR("abc")), 0x44BC2CF5AD770999u);
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
        struct xxh64  fast;
        xxh64_init(&fast);
        sha256_init(&whole);
        sha256_add(&whole, all);
        sha256_end(&whole, a);
        sha256_init(&pieces);
        for (u64 i = 0; rest.len; i++) {
            i64 cut = MIN(rest.len, (i64)(rng_u32(key, 5000 + turn * 300 + i) % 100));
            sha256_add(&pieces, str_sub(rest, 0, cut));
            xxh64_add(&fast, str_sub(rest, 0, cut));
            crc  = crc32_add(crc, str_sub(rest, 0, cut));
            rest = str_sub(rest, cut, rest.len);
        }
        sha256_end(&pieces, b);
        CHECK(!memcmp(a, b, 32));
        CHECK_EQ(crc, crc32_add(0, all));
        CHECK_EQ(xxh64_end(&fast), xxh64(all));
    }
}
