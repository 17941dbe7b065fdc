/* jpeg_scan.c - Huffman decoding by wide tables (ITU-T T.81, annex F.2.2).
 *
 * A code says how many zeros go before a coefficient and how many bits of it follow. One look at the
 * next LOOK bits gives code and coefficient together where both fit, which is nearly always. Where
 * coefficients are not wanted, one look passes over as many as fit.
 *
 * The zero bytes that JPEG stuffs behind each 255 are taken out first, in one go, so that the bits
 * can be refilled eight bytes at a time without a branch. PAD zeros behind the end are room for one
 * block's bits; whoever has read into them meets the check at the block's end. */
#include "base/types.h"
#ifdef FRUGAL_HAVE_JPEG
#include "backend/cpu/kernel.h"
#include "data/jpeg_scan.h"
#include <string.h>

#include <jerror.h>

#ifndef LIBJPEG_TURBO_VERSION
#error "this is not libjpeg-turbo; build with FRUGAL_JPEG=OFF"
#endif

enum {
    LOOK          = 11,
    SLOTS         = 1 << LOOK,
    PAD           = 512, /* more than 64 coefficients of 16 + 15 bits, and a word */
    AC_BITS_MAX   = 10,  /* of a coefficient of 8-bit samples: table F.2 */
    LEAP_BITS_MAX = 28,  /* two of them a refill */
    END           = 64,  /* as an advance: no further coefficients in this block */
};

/* How libjpeg's own decoder begins: jpegint.h, which is not installed. Unchanged since libjpeg 6b of
 * 1998, up to libjpeg-turbo 3.1; test_jpeg compares what comes of it with libjpeg's own, bit by bit. */
struct entropy_head {
    void (*start_pass)(j_decompress_ptr);
    boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW *);
    boolean insufficient_data;
};

/* One code: bits 0-5 how many bits it takes with its coefficient (a shift reads no more of its count), 6
 * PART, 8-15 advance, 16-31 coefficient. PART: the code was seen whole but not its coefficient: 0-5 are of
 * the code alone, and 16-31 say how many bits follow; or, with 0 in 0-5, the code is longer than LOOK. */
typedef u32 entry;
enum { PART = 64 };

/* Two codes: below, bits, advance and coefficient as if they were one, with the second's coefficient; in
 * the upper half the first. Where a look does not tell a second, both halves are the first. */
typedef u64 pair;

/* Codes to pass over: bits 0-5 how many bits, 8-15 advance, 16-23 advance before the last of them. 0: the
 * code is longer than LOOK. */
typedef u32 leap;

struct table {
    bool  made;
    u8    bits[17], symbol[256]; /* as the file had them */
    entry one[SLOTS];
    pair  two[SLOTS];
    leap  leap[SLOTS];
    i32   code_end[17]; /* by length: one more than its largest code; -1: there is none */
    i32   offset[17];   /* symbol number = code + offset */
};

struct jpeg_tables {
    struct table dc[NUM_HUFF_TBLS], ac[NUM_HUFF_TBLS];
};

/* Most files have the same tables, those of annex K: a thread makes them once. */
static _Thread_local struct jpeg_tables own_tables;

/* Zigzag order; an advance past the end of a block lands on the last coefficient. */
static const u8 natural[64 + END] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
};

/* ---- tables ---- */

static u32 bits_of(u64 e) { return (u32)e & 63; }
static u32 advance_of(u64 e) { return (u32)(e >> 8) & 255; }

/* F.2.2.1, figure F.12: what `size` bits mean. */
static i32 extend(i32 bits, i32 size)
{
    return bits < 1 << (size - 1) ? bits - (1 << size) + 1 : bits;
}

/* How far a symbol moves in the block. */
static u32 symbol_advance(u8 symbol, bool ac)
{
    if (!ac) return 1;
    if (!(symbol & 15) && symbol != 0xf0) return END;
    return (u32)(symbol >> 4) + 1;
}

/* All looks that begin with this code. */
static void one_fill(struct table *t, u32 code, i32 length, u8 symbol, bool ac)
{
    i32 size = symbol & 15, free_bits = LOOK - length;
    u32 first = code << free_bits, advance = symbol_advance(symbol, ac);
    for (u32 i = 0; i < 1u << free_bits; i++) {
        bool known        = size <= free_bits;
        i32  value        = known && size ? extend((i32)(i >> (free_bits - size)), size) : 0;
        t->one[first + i] = (u32)(known ? length + size : length | PART) | advance << 8 |
                            (u32)(known ? value : size) << 16;
    }
}

static void two_fill(struct table *t)
{
    for (u32 look = 0; look < SLOTS; look++) {
        entry first = t->one[look], both = first;
        if (!(first & PART) && advance_of(first) < END) {
            entry second = t->one[look << bits_of(first) & (SLOTS - 1)];
            u32   bits   = bits_of(first) + bits_of(second);
            if (!(second & PART) && bits <= LOOK)
                both = bits | (advance_of(first) + advance_of(second)) << 8 | (second >> 16) << 16;
        }
        t->two[look] = (u64)first << 32 | both;
    }
}

/* The coefficient of the last code need not be in sight, as its length is known. */
static void leap_fill(struct table *t)
{
    for (u32 look = 0; look < SLOTS; look++) {
        u32 bits = 0, advance = 0, before = 0;
        while (bits < LOOK && advance < END) {
            entry e   = t->one[look << bits & (SLOTS - 1)];
            u32   all = bits + bits_of(e) + (e & PART ? e >> 16 : 0);
            if (!bits_of(e) || bits + bits_of(e) > LOOK || all > LEAP_BITS_MAX) break;
            before = advance;
            advance += advance_of(e);
            bits = all;
        }
        t->leap[look] = bits | advance << 8 | before << 16;
    }
}

/* Annex C: codes of each length count up; libjpeg has checked that they fit. */
static void table_make(struct table *t, const JHUFF_TBL *from, bool ac)
{
    if (t->made && !memcmp(t->bits + 1, from->bits + 1, 16) &&
        !memcmp(t->symbol, from->huffval, 256))
        return;
    memcpy(t->bits, from->bits, sizeof t->bits);
    memcpy(t->symbol, from->huffval, sizeof t->symbol);
    for (i64 i = 0; i < SLOTS; i++) t->one[i] = PART;
    i32 code = 0, number = 0;
    for (i32 length = 1; length <= 16; length++, code <<= 1) {
        t->offset[length] = number - code;
        for (i32 i = 0; i < from->bits[length]; i++, code++, number++)
            if (length <= LOOK) one_fill(t, (u32)code, length, from->huffval[number & 255], ac);
        t->code_end[length] = from->bits[length] ? code : -1;
    }
    if (ac) two_fill(t);
    if (ac) leap_fill(t);
    t->made = true;
}

/* ---- bits ---- */

#define INLINE static inline __attribute__((always_inline))

/* At least 56 are sure afterwards (the bytes are there: see PAD). */
INLINE struct jpeg_bits refill(struct jpeg_bits in)
{
    u64 next;
    memcpy(&next, in.at, sizeof next);
    in.word |= __builtin_bswap64(next) >> in.count;
    in.at += (63 - in.count) >> 3;
    in.count |= 56;
    return in;
}

INLINE struct jpeg_bits drop(struct jpeg_bits in, u32 count)
{
    in.word <<= count;
    in.count -= (i32)count;
    return in;
}

INLINE u32 look_at(struct jpeg_bits in) { return (u32)(in.word >> (64 - LOOK)); }

/* The next 1 to 16 bits as a coefficient. */
INLINE i32 coefficient(struct jpeg_bits in, i32 size)
{
    return extend((i32)(in.word >> (64 - size)), size);
}

struct slow {
    struct jpeg_bits in;
    u32              advance;
    i32              value;
};

/* A code that one look does not tell whole. */
static __attribute__((noinline)) struct slow slow_code(struct jpeg_bits in, const struct table *t,
                                                       bool ac)
{
    entry e    = t->one[look_at(in)];
    i32   size = (i32)(e >> 16), length = LOOK + 1;
    if (bits_of(e)) {
        in = drop(in, bits_of(e));
        return (struct slow){ drop(in, (u32)size), advance_of(e), coefficient(in, size) };
    }
    while (length <= 16 && (i32)(in.word >> (64 - length)) >= t->code_end[length]) length++;
    if (length > 16) /* no such code: bits of a broken file. Any answer will do. */
        return (struct slow){ drop(in, 16), END, 0 };
    u8 symbol = t->symbol[((i32)(in.word >> (64 - length)) + t->offset[length]) & 255];
    size      = symbol & 15;
    in        = drop(in, (u32)length);
    return (struct slow){ drop(in, (u32)size), symbol_advance(symbol, ac),
                          size ? coefficient(in, size) : 0 };
}

/* ---- blocks ---- */

INLINE struct jpeg_bits dc_read(struct jpeg_bits in, const struct table *t, i32 *dc)
{
    in      = refill(in);
    entry e = t->one[look_at(in)];
    if (e & PART) {
        struct slow s = slow_code(in, t, false);
        *dc           = (i32)((u32)*dc + (u32)s.value); /* a broken file's may wrap around */
        return s.in;
    }
    *dc = (i32)((u32)*dc + (u32)(i16)(e >> 16));
    return drop(in, bits_of(e));
}

/* Two looks a refill, of at most 16 + AC_BITS_MAX bits each. */
INLINE struct jpeg_bits ac_read(struct jpeg_bits in, const struct table *t, JCOEFPTR block)
{
    for (u32 k = 0, look = 0; k < 63; look++) {
        if (look % 2 == 0) in = refill(in);
        pair e = t->two[look_at(in)];
        if (__builtin_expect(e & PART, 0)) {
            struct slow s = slow_code(in, t, true);
            in            = s.in;
            k += s.advance;
            block[natural[k]] = (JCOEF)s.value;
            continue;
        }
        u32 first             = k + advance_of(e >> 32);
        block[natural[first]] = (JCOEF)(e >> 48);
        if (first >= 63) return drop(in, bits_of(e >> 32)); /* what follows is another block's */
        in = drop(in, bits_of(e));
        k += advance_of(e);
        block[natural[k]] = (JCOEF)(e >> 16);
    }
    return in;
}

/* The same for coefficients that nobody wants. */
INLINE struct jpeg_bits ac_skip(struct jpeg_bits in, const struct table *t)
{
    for (u32 k = 0, look = 0; k < 63; look++) {
        if (look % 2 == 0) in = refill(in);
        leap l = t->leap[look_at(in)];
        if (__builtin_expect(l && k + (l >> 16) < 63, 1)) {
            in = drop(in, bits_of(l));
            k += advance_of(l);
            continue;
        }
        entry e = t->one[look_at(in)]; /* one code alone */
        if (e & PART) {
            struct slow s = slow_code(in, t, true);
            in            = s.in;
            k += s.advance;
        } else {
            in = drop(in, bits_of(e));
            k += advance_of(e);
        }
    }
    return in;
}

INLINE boolean mcu_read(j_decompress_ptr cinfo, JBLOCKROW *blocks)
{
    struct jpeg_scan *s      = cinfo->client_data;
    struct jpeg_bits  in     = s->in;
    bool              wanted = blocks && s->column >= s->first && s->column <= s->last;
    if (++s->column == (i64)cinfo->MCUs_per_row) s->column = 0;
    for (i32 i = 0; i < cinfo->blocks_in_MCU; i++) {
        i32                        number    = cinfo->MCU_membership[i];
        const jpeg_component_info *component = cinfo->cur_comp_info[number];
        const struct table        *ac        = &s->tables->ac[component->ac_tbl_no];
        in = dc_read(in, &s->tables->dc[component->dc_tbl_no], &s->dc[number]);
        if (wanted) {
            (*blocks[i])[0] = (JCOEF)s->dc[number];
            in              = ac_read(in, ac, *blocks[i]);
        } else {
            in = ac_skip(in, ac);
        }
        if (__builtin_expect(in.at - (in.count >> 3) > s->end, 0)) ERREXIT(cinfo, JERR_INPUT_EOF);
    }
    s->in = in;
    return TRUE;
}

static boolean decode_mcu(j_decompress_ptr cinfo, JBLOCKROW *blocks)
{
    return mcu_read(cinfo, blocks);
}

#ifdef FRUGAL_X86
/* Shifts that leave the flags alone: a cycle less for each code on Intel's. Part of the level avx2. */
__attribute__((target("bmi2"))) static boolean decode_mcu_bmi2(j_decompress_ptr cinfo,
                                                               JBLOCKROW       *blocks)
{
    return mcu_read(cinfo, blocks);
}
#endif

/* The scan's bytes up to the marker that ends it, without stuffing. */
static i64 unstuff(const u8 *from, i64 bytes, u8 *to)
{
    const u8 *end = from + bytes;
    u8       *at  = to;
    while (from < end) {
        const u8 *stuffed = memchr(from, 255, (size_t)(end - from));
        i64       run     = (stuffed ? stuffed + 1 : end) - from;
        bool      go_on   = stuffed && stuffed + 1 < end && stuffed[1] == 0;
        memcpy(at, from, (size_t)run);
        at += run;
        if (!go_on) return at - to - (stuffed ? 1 : 0);
        from = stuffed + 2;
    }
    return at - to;
}

/* Is this a scan of the kind that we read? A table with longer coefficients than 8-bit samples have is
 * libjpeg's to judge. */
static bool is_plain(const struct jpeg_decompress_struct *cinfo)
{
    bool whole = cinfo->comps_in_scan == cinfo->num_components && cinfo->Ss == 0 && cinfo->Se == 63;
    if (!whole || cinfo->progressive_mode || cinfo->arith_code || cinfo->restart_interval)
        return false;
    for (i32 i = 0; i < cinfo->comps_in_scan; i++) {
        const JHUFF_TBL *ac      = cinfo->ac_huff_tbl_ptrs[cinfo->cur_comp_info[i]->ac_tbl_no];
        i32              symbols = 0;
        for (i32 length = 1; length <= 16; length++) symbols += ac->bits[length];
        for (i32 k = 0; k < symbols; k++)
            if ((ac->huffval[k & 255] & 15) > AC_BITS_MAX) return false;
    }
    return true;
}

i64 jpeg_scan_room(i64 file_bytes) { return file_bytes + PAD; }

void jpeg_scan_begin(struct jpeg_decompress_struct *cinfo, struct jpeg_scan *scan, i64 first,
                     i64 last, u8 *room)
{
    struct entropy_head *entropy = (struct entropy_head *)cinfo->entropy;
    if (!is_plain(cinfo)) return;
    *scan =
        (struct jpeg_scan){ .in.at = room, .first = first, .last = last, .tables = &own_tables };
    scan->end = room + unstuff(cinfo->src->next_input_byte, (i64)cinfo->src->bytes_in_buffer, room);
    memset((u8 *)(uintptr_t)scan->end, 0, PAD);
    for (i32 i = 0; i < cinfo->comps_in_scan; i++) {
        const jpeg_component_info *c = cinfo->cur_comp_info[i];
        table_make(&own_tables.dc[c->dc_tbl_no], cinfo->dc_huff_tbl_ptrs[c->dc_tbl_no], false);
        table_make(&own_tables.ac[c->ac_tbl_no], cinfo->ac_huff_tbl_ptrs[c->ac_tbl_no], true);
    }
    cinfo->client_data  = scan;
    entropy->decode_mcu = decode_mcu;
#ifdef FRUGAL_X86
    if (kernel_isa() >= ISA_AVX2) entropy->decode_mcu = decode_mcu_bmi2;
#endif
}
#endif
