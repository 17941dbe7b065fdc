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
#include "data/jpeg_scan.h"
#include <string.h>

#include <jerror.h>

enum {
    LOOK        = 11,
    SLOTS       = 1 << LOOK,
    PAD         = 512, /* more than 64 coefficients of 16 + 15 bits, and a word */
    AC_BITS_MAX = 10,  /* of a coefficient of 8-bit samples: table F.2 */
    END         = 64,  /* as an advance: no further coefficients in this block */
};

/* How libjpeg's own decoder begins: jpegint.h, which is not installed. Unchanged since libjpeg 6b of
 * 1998, up to libjpeg-turbo 3.1; test_image compares what comes of it with libjpeg's own, bit by bit. */
struct entropy_head {
    void (*start_pass)(j_decompress_ptr);
    boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW *);
    boolean insufficient_data;
};

/* What a look tells: bits 0-5 how many bits it takes (what a shift reads of its count), 6 PART,
 * 8-15 advance, 16-31 coefficient; with PART only the code was seen whole, and 16-31 say how many
 * bits follow it, or the code is longer than LOOK, and 0-5 are 0. */
typedef u32 entry;
enum { PART = 64 };

/* What a look passes over: bits 0-5 how many bits, 8-15 advance, 16-23 advance before its last code. */
typedef u32 leap;

struct table {
    bool  made;
    u8    bits[17], symbol[256]; /* as the file had them */
    entry look[SLOTS];
    leap  skip[SLOTS];
    i32   code_end[18]; /* by length: one more than its largest code; -1: there is none */
    i32   offset[17];   /* symbol number = code + offset */
};

struct jpeg_tables {
    struct table dc[NUM_HUFF_TBLS], ac[NUM_HUFF_TBLS];
};

/* Most files have the same tables, those of annex K: a thread makes them once. */
static _Thread_local struct jpeg_tables own_tables;

/* Zigzag order; an advance past the end of a broken block lands on the last coefficient. */
static const u8 natural[64 + END] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
    63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
};

/* F.2.2.1, figure F.12: what `size` bits mean. */
static i32 extend(i32 bits, i32 size)
{
    return bits < 1 << (size - 1) ? bits - (1 << size) + 1 : bits;
}

/* How far a symbol moves in the block. */
static u32 advance_of(u8 symbol, bool ac)
{
    if (!ac) return 1;
    if (!(symbol & 15) && symbol != 0xf0) return END;
    return (u32)(symbol >> 4) + 1;
}

/* All looks that begin with this code. */
static void look_fill(struct table *t, u32 code, i32 length, u8 symbol, bool ac)
{
    i32 size = symbol & 15, free_bits = LOOK - length;
    u32 first = code << free_bits, advance = advance_of(symbol, ac);
    for (u32 i = 0; i < 1u << free_bits; i++) {
        bool known         = size <= free_bits;
        i32  value         = known && size ? extend((i32)(i >> (free_bits - size)), size) : 0;
        t->look[first + i] = (u32)(known ? length + size : length | PART) | advance << 8 |
                             (u32)(known ? value : size) << 16;
    }
}

/* From single looks, those that pass over several codes. */
static void skip_fill(struct table *t)
{
    for (u32 bits = 0; bits < SLOTS; bits++) {
        u32 length = 0, advance = 0, before = 0;
        for (;;) {
            entry e = t->look[bits << length & (SLOTS - 1)];
            if (e & PART || length + (e & 63) > LOOK) break;
            length += e & 63;
            before = advance;
            advance += e >> 8 & 255;
            if (advance >= END) break;
        }
        t->skip[bits] = length | advance << 8 | before << 16;
    }
}

/* Annex C: codes of each length count up; libjpeg has checked that they fit. */
static void table_make(struct table *t, const JHUFF_TBL *from, bool ac)
{
    if (t->made && !memcmp(t->bits + 1, from->bits + 1, 16) &&
        !memcmp(t->symbol, from->huffval, 256))
        return;
    memset(t, 0, sizeof *t);
    memcpy(t->bits, from->bits, sizeof t->bits);
    memcpy(t->symbol, from->huffval, sizeof t->symbol);
    i32 code = 0, number = 0;
    for (i64 i = 0; i < SLOTS; i++) t->look[i] = PART;
    for (i32 length = 1; length <= 16; length++, code <<= 1) {
        t->offset[length] = number - code;
        for (i32 i = 0; i < from->bits[length]; i++, code++, number++)
            if (length <= LOOK) look_fill(t, (u32)code, length, from->huffval[number & 255], ac);
        t->code_end[length] = from->bits[length] ? code : -1;
    }
    skip_fill(t);
    t->made = true;
}

/* The bits to come, in registers: `at`, `word` and `bits` of the scan while a block is read. */
#define LOAD const u8 *at = s->at; u64 word = s->word; i32 bits = s->bits
#define SAVE (s->at = at, s->word = word, s->bits = bits)

/* At least 56 bits count afterwards (the bytes are there: see PAD). */
#define REFILL()                                                                                   \
    do {                                                                                           \
        u64 next;                                                                                  \
        memcpy(&next, at, sizeof next);                                                            \
        word |= __builtin_bswap64(next) >> bits;                                                   \
        at += (63 - bits) >> 3;                                                                    \
        bits |= 56;                                                                                \
    } while (0)

#define DROP(count) (word <<= (count), bits -= (i32)(count))

static i32 take(struct jpeg_scan *s, i32 count)
{
    i32 value = (i32)(s->word >> 32 >> (32 - count)); /* count 0 gives 0 */
    s->word <<= count;
    s->bits -= count;
    return value;
}

/* A code that a look does not tell whole: the result is as if it did. */
static __attribute__((noinline)) entry slow_look(struct jpeg_scan *s, const struct table *t, bool ac)
{
    entry e = t->look[s->word >> (64 - LOOK)];
    if (e & 63) {
        i32 size = (i32)(e >> 16);
        take(s, e & 63);
        return (e & 0xff00) | (u32)extend(take(s, size), size) << 16;
    }
    i32 length = LOOK + 1;
    while (length <= 16 && (i32)(s->word >> (64 - length)) >= t->code_end[length]) length++;
    if (length > 16) { /* no such code: bits of a broken file. Any answer will do. */
        take(s, 16);
        return END << 8;
    }
    u8  symbol = t->symbol[((i32)(s->word >> (64 - length)) + t->offset[length]) & 255];
    i32 size   = symbol & 15;
    take(s, length);
    i32 value = size ? extend(take(s, size), size) : 0;
    return advance_of(symbol, ac) << 8 | (u32)value << 16;
}

#define NEXT(e, t, ac)                                                                             \
    do {                                                                                           \
        e = (t)->look[word >> (64 - LOOK)];                                                        \
        if (__builtin_expect(e & PART, 0)) {                                                       \
            SAVE;                                                                                  \
            e    = slow_look(s, t, ac);                                                            \
            word = s->word;                                                                        \
            bits = s->bits;                                                                        \
        } else {                                                                                   \
            DROP(e & 63);                                                                          \
        }                                                                                          \
    } while (0)

static i32 dc_read(struct jpeg_scan *s, const struct table *t)
{
    LOAD;
    entry e;
    REFILL();
    NEXT(e, t, false);
    SAVE;
    return (i16)(e >> 16);
}

/* Two codes of at most 16 + AC_BITS_MAX bits a refill. */
static void block_read(struct jpeg_scan *s, const struct table *t, JCOEFPTR block)
{
    LOAD;
    for (u32 k = 0; k < 63;) {
        entry e;
        REFILL();
        NEXT(e, t, true);
        k += e >> 8 & 255;
        block[natural[k]] = (JCOEF)(e >> 16);
        if (k >= 63) break;
        NEXT(e, t, true);
        k += e >> 8 & 255;
        block[natural[k]] = (JCOEF)(e >> 16);
    }
    SAVE;
}

static void block_skip(struct jpeg_scan *s, const struct table *t)
{
    LOAD;
    for (u32 k = 0; k < 63;) {
        REFILL();
        for (i32 i = 0; i < 2 && k < 63; i++) {
            leap l = t->skip[word >> (64 - LOOK)];
            if (__builtin_expect(l && k + (l >> 16) < 63, 1)) {
                DROP(l & 63);
                k += l >> 8 & 255;
            } else {
                entry e;
                NEXT(e, t, true);
                k += e >> 8 & 255;
            }
        }
    }
    SAVE;
}

static boolean decode_mcu(j_decompress_ptr cinfo, JBLOCKROW *blocks)
{
    struct jpeg_scan *s      = cinfo->client_data;
    bool              wanted = blocks && s->column >= s->first && s->column <= s->last;
    if (++s->column == (i64)cinfo->MCUs_per_row) s->column = 0;
    for (i32 i = 0; i < cinfo->blocks_in_MCU; i++) {
        i32                        number    = cinfo->MCU_membership[i];
        const jpeg_component_info *component = cinfo->cur_comp_info[number];
        const struct table        *ac        = &s->tables->ac[component->ac_tbl_no];
        s->dc[number] += dc_read(s, &s->tables->dc[component->dc_tbl_no]);
        if (wanted) {
            (*blocks[i])[0] = (JCOEF)s->dc[number];
            block_read(s, ac, *blocks[i]);
        } else {
            block_skip(s, ac);
        }
        if (__builtin_expect(s->at - (s->bits >> 3) > s->end, 0)) ERREXIT(cinfo, JERR_INPUT_EOF);
    }
    return TRUE;
}

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
    if (cinfo->progressive_mode || cinfo->arith_code || cinfo->restart_interval ||
        cinfo->comps_in_scan != cinfo->num_components)
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
    *scan = (struct jpeg_scan){ .at = room, .first = first, .last = last, .tables = &own_tables };
    scan->end = room + unstuff(cinfo->src->next_input_byte, (i64)cinfo->src->bytes_in_buffer, room);
    memset((u8 *)(uintptr_t)scan->end, 0, PAD);
    for (i32 i = 0; i < cinfo->comps_in_scan; i++) {
        const jpeg_component_info *c = cinfo->cur_comp_info[i];
        table_make(&own_tables.dc[c->dc_tbl_no], cinfo->dc_huff_tbl_ptrs[c->dc_tbl_no], false);
        table_make(&own_tables.ac[c->ac_tbl_no], cinfo->ac_huff_tbl_ptrs[c->ac_tbl_no], true);
    }
    cinfo->client_data  = scan;
    entropy->decode_mcu = decode_mcu;
}
#endif
