/* hash.c - CRC-32 and CRC-32C by eight tables each, SHA-256 and its HMAC, XXH64. */
#include "base/hash.h"
#include <pthread.h>
#include <string.h>

/* table[k][b]: what byte b does to the sum when k more bytes follow it ("slicing by 8", Kounavis and
 * Berry, ISCC'05): eight bytes a turn instead of one. */
struct crc {
    u32 table[8][256];
};
static struct crc     crc_ieee, crc_castagnoli;
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void crc_fill(struct crc *c, u32 polynomial)
{
    for (u32 b = 0; b < 256; b++) {
        u32 crc = b;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        c->table[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (u32 b = 0; b < 256; b++) {
            u32 before     = c->table[k - 1][b];
            c->table[k][b] = before >> 8 ^ c->table[0][before & 0xFF];
        }
}

static void crc_fill_both(void)
{
    crc_fill(&crc_ieee, 0xEDB88320u);
    crc_fill(&crc_castagnoli, 0x82F63B78u);
}

static u32 crc_add(const struct crc *c, u32 crc, struct str bytes)
{
    const u8 *b   = (const u8 *)bytes.data;
    i64       len = bytes.len;
    pthread_once(&crc_once, crc_fill_both);
    crc = ~crc;
    for (; len >= 8; len -= 8, b += 8) {
        u32 low = crc ^ ((u32)b[0] | (u32)b[1] << 8 | (u32)b[2] << 16 | (u32)b[3] << 24);
        crc     = c->table[7][low & 0xFF] ^ c->table[6][low >> 8 & 0xFF] ^
              c->table[5][low >> 16 & 0xFF] ^ c->table[4][low >> 24] ^ c->table[3][b[4]] ^
              c->table[2][b[5]] ^ c->table[1][b[6]] ^ c->table[0][b[7]];
    }
    for (; len > 0; len--, b++) crc = crc >> 8 ^ c->table[0][(crc ^ *b) & 0xFF];
    return ~crc;
}

u32 crc32_add(u32 crc, struct str bytes) { return crc_add(&crc_ieee, crc, bytes); }
u32 crc32c_add(u32 crc, struct str bytes) { return crc_add(&crc_castagnoli, crc, bytes); }

/* FIPS 180-4, section 4.2.2: the cube roots of the first 64 primes. */
static const u32 sha256_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static u32 rotr(u32 x, int n) { return x >> n | x << (32 - n); }

static void sha256_block(u32 state[8], const u8 block[64])
{
    u32 w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (u32)block[4 * i] << 24 | (u32)block[4 * i + 1] << 16 | (u32)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        u32 s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
        u32 s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i]   = w[i - 16] + s0 + w[i - 7] + s1;
    }
    u32 a = state[0], b = state[1], c = state[2], d = state[3];
    u32 e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        u32 t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + sha256_k[i] +
                 w[i];
        u32 t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void sha256_init(struct sha256 *s)
{
    *s = (struct sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                     0x9b05688c, 0x1f83d9ab, 0x5be0cd19 } };
}

void sha256_add(struct sha256 *s, struct str bytes)
{
    while (bytes.len > 0) {
        i64 at   = (i64)(s->bytes % 64);
        i64 take = MIN(64 - at, bytes.len);
        if (take == 64) {
            sha256_block(s->state, (const u8 *)bytes.data);
        } else {
            memcpy(s->part + at, bytes.data, (size_t)take);
            if (at + take == 64) sha256_block(s->state, s->part);
        }
        s->bytes += (u64)take;
        bytes = str_sub(bytes, take, bytes.len);
    }
}

void sha256_end(struct sha256 *s, u8 digest[32])
{
    static const char pad[64] = { (char)0x80 };
    u64               bits    = s->bytes * 8;
    char              length[8];
    for (int i = 0; i < 8; i++) length[i] = (char)(bits >> (56 - 8 * i));
    sha256_add(s, (struct str){ pad, (i64)(1 + (119 - s->bytes % 64) % 64) });
    sha256_add(s, (struct str){ length, 8 });
    for (int i = 0; i < 32; i++) digest[i] = (u8)(s->state[i / 4] >> (24 - 8 * (i % 4)));
}

static void sha256_of(struct str bytes, u8 digest[32])
{
    struct sha256 s;
    sha256_init(&s);
    sha256_add(&s, bytes);
    sha256_end(&s, digest);
}

struct str sha256_hex(struct arena *perm, struct str bytes)
{
    u8 digest[32];
    sha256_of(bytes, digest);
    return hash_hex(perm, digest, 32);
}

struct str hash_hex(struct arena *perm, const u8 *digest, i64 bytes)
{
    char *text = NEW(perm, char, 2 * bytes + 1);
    for (i64 i = 0; i < bytes; i++) {
        text[2 * i]     = "0123456789abcdef"[digest[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    return (struct str){ text, 2 * bytes };
}

void hmac_sha256(struct str key, struct str message, u8 digest[32])
{
    u8            block[64] = { 0 };
    struct sha256 s;
    if (key.len > 64) sha256_of(key, block);
    else if (key.len) memcpy(block, key.data, (size_t)key.len);
    for (int i = 0; i < 64; i++) block[i] ^= 0x36;
    sha256_init(&s);
    sha256_add(&s, (struct str){ (char *)block, 64 });
    sha256_add(&s, message);
    sha256_end(&s, digest);
    for (int i = 0; i < 64; i++) block[i] ^= 0x36 ^ 0x5c;
    sha256_init(&s);
    sha256_add(&s, (struct str){ (char *)block, 64 });
    sha256_add(&s, (struct str){ (char *)digest, 32 });
    sha256_end(&s, digest);
}

static const u64 xxh_prime[5] = { 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                                  0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5 };

static u64 rotl64(u64 x, int n) { return x << n | x >> (64 - n); }

static u64 load64(const u8 *p)
{
    u64 v;
    memcpy(&v, p, 8);
    return v;
}

static u64 xxh64_round(u64 lane, u64 input)
{
    return rotl64(lane + input * xxh_prime[1], 31) * xxh_prime[0];
}

/* Four lanes that do not wait for each other; they stay in registers over all the stripes. */
static void xxh64_stripes(u64 lane[4], const u8 *p, i64 count)
{
    u64 a = lane[0], b = lane[1], c = lane[2], d = lane[3];
    for (; count > 0; count--, p += 32) {
        a = xxh64_round(a, load64(p));
        b = xxh64_round(b, load64(p + 8));
        c = xxh64_round(c, load64(p + 16));
        d = xxh64_round(d, load64(p + 24));
    }
    lane[0] = a, lane[1] = b, lane[2] = c, lane[3] = d;
}

void xxh64_init(struct xxh64 *s)
{
    *s = (struct xxh64){ .lane = { xxh_prime[0] + xxh_prime[1], xxh_prime[1], 0, -xxh_prime[0] } };
}

void xxh64_add(struct xxh64 *s, struct str bytes)
{
    while (bytes.len > 0) {
        i64 at   = (i64)(s->bytes % 32);
        i64 take = MIN(32 - at, bytes.len);
        if (take == 32) {
            take = bytes.len / 32 * 32;
            xxh64_stripes(s->lane, (const u8 *)bytes.data, take / 32);
        } else {
            memcpy(s->part + at, bytes.data, (size_t)take);
            if (at + take == 32) xxh64_stripes(s->lane, s->part, 1);
        }
        s->bytes += (u64)take;
        bytes = str_sub(bytes, take, bytes.len);
    }
}

/* The lanes folded into one, or the seed's constant where no stripe was ever full. */
static u64 xxh64_fold(const struct xxh64 *s)
{
    static const int turn[4] = { 1, 7, 12, 18 };
    u64              h       = 0;
    if (s->bytes < 32) return xxh_prime[4];
    for (int i = 0; i < 4; i++) h += rotl64(s->lane[i], turn[i]);
    for (int i = 0; i < 4; i++) h = (h ^ xxh64_round(0, s->lane[i])) * xxh_prime[0] + xxh_prime[3];
    return h;
}

u64 xxh64_end(const struct xxh64 *s)
{
    u64       h    = xxh64_fold(s) + s->bytes;
    i64       left = (i64)(s->bytes % 32);
    const u8 *p    = s->part;
    for (; left >= 8; left -= 8, p += 8)
        h = rotl64(h ^ xxh64_round(0, load64(p)), 27) * xxh_prime[0] + xxh_prime[3];
    if (left >= 4) {
        u32 word;
        memcpy(&word, p, 4);
        h = rotl64(h ^ word * xxh_prime[0], 23) * xxh_prime[1] + xxh_prime[2];
        left -= 4, p += 4;
    }
    for (; left > 0; left--, p++) h = rotl64(h ^ *p * xxh_prime[4], 11) * xxh_prime[0];
    h = (h ^ h >> 33) * xxh_prime[1];
    h = (h ^ h >> 29) * xxh_prime[2];
    return h ^ h >> 32;
}

u64 xxh64(struct str bytes)
{
    struct xxh64 s;
    xxh64_init(&s);
    xxh64_add(&s, bytes);
    return xxh64_end(&s);
}
