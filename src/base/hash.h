/* hash.h - sums that tell whether bytes are the ones we meant: SHA-256 (FIPS 180-4) for downloads and
 * caches, XXH64 for checkpoints, which are large, CRC-32 (RFC 1952) for gzip, CRC-32C (RFC 3720) for
 * object stores; and HMAC (RFC 2104), which tells whether they come from somebody who knows the
 * key. */
#ifndef BASE_HASH_H
#define BASE_HASH_H
#include "base/text.h"

u32 crc32_add(u32 crc, struct str bytes); /* begin with 0, go on with what it returned */
u32 crc32c_add(u32 crc, struct str bytes);

struct sha256 {
    u32 state[8];
    u64 bytes;    /* added so far */
    u8  part[64]; /* the block not yet full */
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, struct str bytes);
void sha256_end(struct sha256 *s, u8 digest[32]); /* then only _init again */

struct str sha256_hex(struct arena *perm, struct str bytes); /* all at once, 64 digits */
struct str hash_hex(struct arena *perm, const u8 *digest, i64 bytes);

void hmac_sha256(struct str key, struct str message, u8 digest[32]);

/* XXH64 with seed 0 (xxHash's specification, 0.1.1): as fast as memory gives the bytes, against
 * accidents only. */
struct xxh64 {
    u64 lane[4];
    u64 bytes;    /* added so far */
    u8  part[32]; /* the stripe not yet full */
};

void xxh64_init(struct xxh64 *s);
void xxh64_add(struct xxh64 *s, struct str bytes);
u64  xxh64_end(const struct xxh64 *s); /* of what was added; more may be */
u64  xxh64(struct str bytes);          /* all at once */

#endif
