/* tar.c - headers of 512 bytes, each followed by its file, padded to whole blocks (POSIX.1-2017, pax;
 * GNU tar's manual, "Basic Tar Format"). */
#include "data/tar.h"
#include <string.h>

/* Where the fields of a header lie. */
enum {
    NAME_AT      = 0,
    NAME_BYTES   = 100,
    MODE_AT      = 100,
    OWNER_AT     = 108,
    GROUP_AT     = 116,
    SIZE_AT      = 124,
    SIZE_BYTES   = 12,
    TIME_AT      = 136,
    SUM_AT       = 148,
    SUM_BYTES    = 8,
    TYPE_AT      = 156,
    MAGIC_AT     = 257,
    PREFIX_AT    = 345,
    PREFIX_BYTES = 155,
};
static const i64 extra_bytes_max = 1 << 20; /* of a long name or pax records */

/* What stands in front of a member and says more of it than its header has room for. */
struct extra {
    struct str name;  /* data NULL: not said */
    i64        bytes; /* -1: not said */
};

static struct str text_of(const char *field, i64 room)
{
    return (struct str){ field, (i64)strnlen(field, (size_t)room) };
}

/* Octal digits between blanks, or GNU's: the high bit, then a big-endian number. */
static bool number_of(const char *field, i64 room, i64 *out)
{
    const u8 *p     = (const u8 *)field;
    i64       value = 0;
    if (p[0] & 0x80) {
        if (p[0] != 0x80) return false; /* below 0, or beyond what any disk holds */
        for (i64 i = 1; i < room; i++) {
            if (value >> 54) return false;
            value = value << 8 | p[i];
        }
        *out = value;
        return true;
    }
    struct str digits = str_trim(text_of(field, room));
    for (i64 i = 0; i < digits.len; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '7' || value >> 59) return false;
        value = value << 3 | (digits.data[i] - '0');
    }
    *out = value;
    return digits.len > 0;
}

static i64 sum_of(const char *block)
{
    i64 sum = SUM_BYTES * ' '; /* its own field counts as blanks */
    for (i64 i = 0; i < TAR_BLOCK; i++)
        if (i < SUM_AT || i >= SUM_AT + SUM_BYTES) sum += (u8)block[i];
    return sum;
}

static bool sum_is_right(const char *block)
{
    i64 said;
    return number_of(block + SUM_AT, SUM_BYTES, &said) && said == sum_of(block);
}

static bool is_empty(const char *block)
{
    for (i64 i = 0; i < TAR_BLOCK; i++)
        if (block[i]) return false;
    return true;
}

static enum status broken(const struct tar *t, i64 at, const char *what, struct err *err)
{
    return err_set(err, STATUS_USAGE, "%.*s: at byte %lld of the archive %s", STR_ARG(t->path),
                   (long long)at, what);
}

static struct str name_of(const char *block, struct arena *perm)
{
    struct str name   = text_of(block + NAME_AT, NAME_BYTES);
    struct str prefix = STR("");
    if (!memcmp(block + MAGIC_AT, "ustar", 6)) /* with its zero byte: GNU's has a blank there */
        prefix = text_of(block + PREFIX_AT, PREFIX_BYTES);
    return prefix.len ? str_fmt(perm, "%.*s/%.*s", STR_ARG(prefix), STR_ARG(name)) : name;
}

/* Records "LENGTH key=value\n", where LENGTH counts itself. */
static bool read_pax(struct str records, struct extra *extra)
{
    while (records.len) {
        i64        blank = str_find(records, ' '), length = 0;
        struct str record, key;
        if (blank < 1 || blank > 10 || !str_i64(str_sub(records, 0, blank), &length)) return false;
        if (length < blank + 3 || length > records.len || records.data[length - 1] != '\n')
            return false;
        record  = str_sub(records, blank + 1, length - 1);
        records = str_sub(records, length, records.len);
        if (!str_cut(&record, '=', &key)) return false;
        if (str_eq(key, STR("path"))) extra->name = record;
        if (str_eq(key, STR("size")) && (!str_i64(record, &extra->bytes) || extra->bytes < 0))
            return false;
    }
    return true;
}

/* One header: a member (OK), something to pass over or to remember for the next (NO), or a fault. */
static enum status read_header(struct tar *t, struct extra *extra, struct arena *perm,
                               struct tar_member *out, struct err *err)
{
    const char *block = t->bytes.data + t->at;
    i64         at = t->at, bytes = 0;
    char        type = block[TYPE_AT];
    if (!sum_is_right(block) || !number_of(block + SIZE_AT, SIZE_BYTES, &bytes))
        return broken(t, at, "there is no header", err);
    bool of_next = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (!of_next && extra->bytes >= 0) bytes = extra->bytes;
    i64 room = t->bytes.len - at - TAR_BLOCK;
    if (bytes > room) return broken(t, at, "begins a file that is truncated", err);
    if (of_next && bytes > extra_bytes_max) return broken(t, at, "a name has no end", err);
    t->at = at + TAR_BLOCK + MIN((bytes + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK, room);

    struct str body = { block + TAR_BLOCK, bytes };
    if (type == 'L') extra->name = text_of(body.data, body.len);
    if (type == 'x' && !read_pax(body, extra)) return broken(t, at, "pax records are wrong", err);
    if (type == 'S') return broken(t, at, "a file is sparse, which is not supported", err);
    if (of_next) return STATUS_NO;
    struct str name = extra->name.data ? extra->name : name_of(block, perm);
    *extra          = (struct extra){ .bytes = -1 };
    *out            = (struct tar_member){ name, at + TAR_BLOCK, bytes };
    bool is_file    = (type == '0' || type == '\0' || type == '7') && !str_ends(name, STR("/"));
    return is_file ? STATUS_OK : STATUS_NO;
}

enum status tar_next(struct tar *t, struct arena *perm, struct tar_member *out, struct err *err)
{
    struct extra extra = { .bytes = -1 };
    enum status  st    = STATUS_NO;
    while (st == STATUS_NO) {
        if (t->bytes.len - t->at < TAR_BLOCK)
            return broken(t, t->at, "it ends without an empty block: it is truncated", err);
        if (is_empty(t->bytes.data + t->at)) return STATUS_NO;
        st = read_header(t, &extra, perm, out, err);
    }
    return st;
}

bool tar_is_header_of(const char *block, struct str name, i64 bytes)
{
    static const i64 octal_max = (i64)1 << 33;
    i64              said      = 0;
    if (!sum_is_right(block) || !number_of(block + SIZE_AT, SIZE_BYTES, &said)) return false;
    if (said != bytes && bytes < octal_max) return false;
    for (i64 i = 0; i < name.len; i++)
        if (name.data[i] & 0x80) return true;
    return str_ends(name, text_of(block + NAME_AT, NAME_BYTES)) || name.len >= NAME_BYTES;
}

static void put_octal(char *field, i64 digits, i64 value)
{
    for (; digits > 0; value >>= 3) field[--digits] = (char)('0' + (value & 7));
}

bool tar_header(char block[TAR_BLOCK], struct str name, i64 bytes)
{
    struct str prefix = STR("");
    if (name.len > NAME_BYTES) { /* cut at the first slash that leaves a short enough end */
        i64 cut = name.len - NAME_BYTES - 1;
        while (cut < name.len && name.data[cut] != '/') cut++;
        prefix = str_sub(name, 0, cut);
        name   = str_sub(name, cut + 1, name.len);
    }
    if (!name.len || prefix.len > PREFIX_BYTES || bytes >= (i64)1 << 33) return false;
    memset(block, 0, TAR_BLOCK);
    memcpy(block + NAME_AT, name.data, (size_t)name.len);
    memcpy(block + PREFIX_AT, prefix.data, (size_t)prefix.len);
    put_octal(block + MODE_AT, 7, 0644);
    put_octal(block + OWNER_AT, 7, 0);
    put_octal(block + GROUP_AT, 7, 0);
    put_octal(block + SIZE_AT, SIZE_BYTES - 1, bytes);
    put_octal(block + TIME_AT, 11, 0);
    memcpy(block + MAGIC_AT, "ustar\00000", 8);
    block[TYPE_AT] = '0';
    put_octal(block + SUM_AT, 6, sum_of(block));
    block[SUM_AT + 7] = ' ';
    return true;
}
