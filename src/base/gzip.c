/* gzip.c - inflate: Huffman codes by one table look-up a symbol, copies out of the output itself.
 *
 * A table has 2^(longest code in use) entries, at most 2^15; building it costs some ten
 * microseconds a block, which pays in the inner loop: one load a symbol, no second level. */
#include "base/gzip.h"
#include "base/hash.h"
#include <string.h>

enum { CODE_BITS_MAX = 15, LITERALS_MAX = 288, DISTANCES_MAX = 32 };

struct huffman {
    int bits;                      /* of the index */
    u16 entry[1 << CODE_BITS_MAX]; /* symbol << 4 | code length; 0: no such code */
};

struct unpacker {
    const u8      *in, *in_end;
    u64            bits; /* read and not yet used, the next one lowest */
    int            bit_count;
    u8            *out;
    i64            len, cap, max;
    i64            member_at; /* where the output of this member begins */
    struct arena  *perm;
    struct huffman literals, distances;
};

/* Each of the steps below says what is wrong, or NULL. */
static const char broken[] = "the compressed data is broken", cut_off[] = "the data ends too early",
                  too_large[] = "it decompresses to more than fits";

/* At least 56 bits, fewer only at the end of the input; the missing ones read as 0. */
static void refill(struct unpacker *u)
{
    if (u->in_end - u->in >= 8) {
        u64 next = 0;
        for (int i = 0; i < 8; i++) next |= (u64)u->in[i] << (8 * i); /* one load */
        u->bits |= next << u->bit_count;
        u->in += (63 - u->bit_count) >> 3;
        u->bit_count |= 56;
        return;
    }
    for (; u->bit_count <= 56 && u->in < u->in_end; u->bit_count += 8)
        u->bits |= (u64)*u->in++ << u->bit_count;
}

/* The caller has seen that `count` bits are there. */
static u32 use(struct unpacker *u, int count)
{
    u32 value = (u32)(u->bits & (((u64)1 << count) - 1));
    u->bits >>= count;
    u->bit_count -= count;
    return value;
}

static bool take(struct unpacker *u, int count, u32 *value)
{
    refill(u);
    if (count > u->bit_count) return false;
    *value = use(u, count);
    return true;
}

/* What refill read too much goes back to the input. */
static void give_back_bytes(struct unpacker *u)
{
    u->in -= u->bit_count / 8;
    u->bits      = 0;
    u->bit_count = 0;
}

/* Canonical codes of the given lengths (RFC 1951, 3.2.2); false if they overlap. */
static bool huffman_build(struct huffman *h, const u8 *lengths, int count)
{
    int per_length[CODE_BITS_MAX + 1] = { 0 };
    u32 next[CODE_BITS_MAX + 2]       = { 0 };
    h->bits                           = 1;
    for (int i = 0; i < count; i++) per_length[lengths[i]]++;
    per_length[0] = 0;
    for (int l = 1; l <= CODE_BITS_MAX; l++) {
        if (per_length[l]) h->bits = l;
        if (next[l] + (u32)per_length[l] > (u32)1 << l) return false;
        next[l + 1] = (next[l] + (u32)per_length[l]) << 1;
    }
    memset(h->entry, 0, sizeof *h->entry << h->bits);
    for (int i = 0; i < count; i++) {
        int l = lengths[i];
        if (l == 0) continue;
        u32 code = next[l]++, mirrored = 0; /* codes arrive highest bit first */
        for (int bit = 0; bit < l; bit++) mirrored |= (code >> bit & 1) << (l - 1 - bit);
        for (u32 at = mirrored; at < (u32)1 << h->bits; at += (u32)1 << l)
            h->entry[at] = (u16)(i << 4 | l);
    }
    return true;
}

/* The next symbol, or -1. The caller has refilled. */
static int symbol(struct unpacker *u, const struct huffman *h)
{
    u16 entry = h->entry[u->bits & (((u64)1 << h->bits) - 1)];
    int l     = entry & 15;
    if (l == 0 || l > u->bit_count) return -1;
    use(u, l);
    return entry >> 4;
}

/* Room for `more` bytes behind the output, which is the arena's last item and grows in place. */
static bool reserve(struct unpacker *u, i64 more)
{
    if (u->len + more <= u->cap) return true;
    i64 limit = MIN(u->max, u->cap + (u->perm->end - u->perm->begin));
    i64 cap   = MIN(MAX(2 * u->cap + 4096, u->len + more), limit);
    if (u->len + more > cap) return false;
    NEW(u->perm, u8, cap - u->cap);
    u->cap = cap;
    return true;
}

static const char *stored_block(struct unpacker *u)
{
    u32 both;
    use(u, u->bit_count & 7);
    if (!take(u, 32, &both)) return cut_off;
    u32 len = both & 0xFFFF;
    if (len != (~both >> 16)) return broken;
    give_back_bytes(u);
    if (u->in_end - u->in < (i64)len) return cut_off;
    if (!reserve(u, len)) return too_large;
    memcpy(u->out + u->len, u->in, len);
    u->in += len;
    u->len += len;
    return NULL;
}

static void copy_back(u8 *to, i64 distance, i64 len)
{
    if (distance >= len) memcpy(to, to - distance, (size_t)len);
    else if (distance == 1) memset(to, to[-1], (size_t)len);
    else
        for (i64 i = 0; i < len; i++) to[i] = to[i - distance];
}

/* RFC 1951, 3.2.5: bases and extra bits of lengths (symbols 257 to 285) and distances. */
/* clang-format off */
static const u16 length_base[29]   = { 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35,
                                       43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258 };
static const u8  length_bits[29]   = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3,
                                       3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 };
static const u16 distance_base[30] = { 1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193,
                                       257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145,
                                       8193, 12289, 16385, 24577 };
/* clang-format on */

static const char *coded_block(struct unpacker *u)
{
    for (;;) {
        refill(u); /* 56 bits: enough for the 15 + 5 + 15 + 13 of one length and distance */
        int s = symbol(u, &u->literals);
        if (s == 256) return NULL;
        if (s < 0 || s > 285) return u->in == u->in_end ? cut_off : broken;
        if (s < 256) {
            if (!reserve(u, 1)) return too_large;
            u->out[u->len++] = (u8)s;
            continue;
        }
        int length_extra = length_bits[s - 257];
        if (length_extra > u->bit_count) return cut_off;
        i64 len = length_base[s - 257] + (i64)use(u, length_extra);
        int d   = symbol(u, &u->distances);
        if (d < 0 || d > 29) return u->in == u->in_end ? cut_off : broken;
        int distance_extra = d < 2 ? 0 : d / 2 - 1;
        if (distance_extra > u->bit_count) return cut_off;
        i64 distance = distance_base[d] + (i64)use(u, distance_extra);
        if (distance > u->len - u->member_at) return broken;
        if (!reserve(u, len)) return too_large;
        copy_back(u->out + u->len, distance, len);
        u->len += len;
    }
}

static void fixed_codes(struct unpacker *u)
{
    u8 lengths[LITERALS_MAX];
    for (int i = 0; i < LITERALS_MAX; i++) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    huffman_build(&u->literals, lengths, LITERALS_MAX);
    memset(lengths, 5, DISTANCES_MAX);
    huffman_build(&u->distances, lengths, DISTANCES_MAX);
}

/* The lengths of both codes, themselves coded (RFC 1951, 3.2.7). */
static const char *own_codes(struct unpacker *u)
{
    static const u8 order[19] = {
        16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15
    };
    u8  lengths[LITERALS_MAX + DISTANCES_MAX] = { 0 };
    u32 literals, distances, codes, extra;
    if (!take(u, 5, &literals) || !take(u, 5, &distances) || !take(u, 4, &codes)) return cut_off;
    literals += 257;
    distances += 1;
    for (u32 i = 0; i < codes + 4; i++) {
        if (!take(u, 3, &extra)) return cut_off;
        lengths[order[i]] = (u8)extra;
    }
    if (!huffman_build(&u->literals, lengths, 19)) return broken;

    memset(lengths, 0, 19);
    for (u32 at = 0; at < literals + distances;) {
        refill(u);
        int s = symbol(u, &u->literals);
        if (s < 0) return u->in == u->in_end ? cut_off : broken;
        u32 repeat = 1;
        u8  value  = s < 16 ? (u8)s : 0;
        if (s == 16 && at == 0) return broken;
        if (s == 16) value = lengths[at - 1];
        if (s >= 16) {
            if (!take(u, s == 16 ? 2 : s == 17 ? 3 : 7, &extra)) return cut_off;
            repeat = extra + (s == 18 ? 11 : 3);
        }
        if (at + repeat > literals + distances) return broken;
        memset(lengths + at, value, repeat);
        at += repeat;
    }
    if (lengths[256] == 0) return broken; /* no code for the end of the block */
    if (!huffman_build(&u->literals, lengths, (int)literals)) return broken;
    return huffman_build(&u->distances, lengths + literals, (int)distances) ? NULL : broken;
}

static const char *member_header(struct unpacker *u)
{
    enum { HAS_SUM = 2, HAS_EXTRA = 4, HAS_NAME = 8, HAS_COMMENT = 16 };
    const u8 *h = u->in;
    if (u->in_end - h < 10) return cut_off;
    if (h[0] != 0x1F || h[1] != 0x8B) return "it is not a gzip file";
    if (h[2] != 8 || h[3] & 0xE0) return "its compression method is not supported";
    u->in += 10;
    if (h[3] & HAS_EXTRA) {
        if (u->in_end - u->in < 2) return cut_off;
        i64 bytes = u->in[0] + 256 * u->in[1];
        if (u->in_end - u->in - 2 < bytes) return cut_off;
        u->in += 2 + bytes;
    }
    for (int field = HAS_NAME; field <= HAS_COMMENT; field *= 2) { /* zero-terminated texts */
        if (!(h[3] & field)) continue;
        const u8 *zero = memchr(u->in, 0, (size_t)(u->in_end - u->in));
        if (!zero) return cut_off;
        u->in = zero + 1;
    }
    if (h[3] & HAS_SUM) u->in += MIN(u->in_end - u->in, 2);
    return NULL;
}

/* Sum and length behind the blocks. */
static const char *member_trailer(struct unpacker *u)
{
    u32        sum, len;
    struct str bytes = { (const char *)u->out + u->member_at, u->len - u->member_at };
    use(u, u->bit_count & 7);
    if (!take(u, 32, &sum) || !take(u, 32, &len)) return cut_off;
    if (sum != crc32_add(0, bytes)) return "its checksum is wrong";
    if (len != (u32)bytes.len) return "its length is wrong";
    give_back_bytes(u);
    return NULL;
}

static const char *unpack_member(struct unpacker *u)
{
    const char *wrong = member_header(u);
    u32         head  = 0; /* "last block", and two bits of its kind */
    u->member_at      = u->len;
    while (!wrong && !(head & 1)) {
        if (!take(u, 3, &head)) return cut_off;
        u32 kind = head >> 1;
        if (kind == 3) return broken;
        if (kind == 2) wrong = own_codes(u);
        if (kind == 1) fixed_codes(u);
        if (!wrong) wrong = kind == 0 ? stored_block(u) : coded_block(u);
    }
    return wrong ? wrong : member_trailer(u);
}

enum status gzip_unpack(struct arena *perm, struct str gz, i64 bytes_max, struct str *out,
                        struct err *err)
{
    struct unpacker u = { .in     = (const u8 *)gz.data,
                          .in_end = (const u8 *)gz.data + gz.len,
                          .out    = perm->begin,
                          .max    = bytes_max,
                          .perm   = perm };
    *out              = (struct str){ 0 };
    do {
        const char *wrong = unpack_member(&u);
        if (wrong)
            return err_set(err, STATUS_WORLD, "cannot decompress, near byte %lld of %lld: %s",
                           (long long)(gz.len - (u.in_end - u.in)), (long long)gz.len, wrong);
        while (u.in < u.in_end && *u.in == 0) u.in++; /* padding, as gzip(1) allows */
    } while (u.in < u.in_end);
    perm->begin -= u.cap - u.len;
    *out = (struct str){ (const char *)u.out, u.len };
    return STATUS_OK;
}
