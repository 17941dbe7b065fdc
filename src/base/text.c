/* text.c - strings with a length. */
#include "base/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const i64 number_chars_max = 400; /* the longest exact f64 needs some 330 */

struct str str_of(const char *zero_terminated)
{
    return (struct str){ zero_terminated, zero_terminated ? (i64)strlen(zero_terminated) : 0 };
}

bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, (size_t)a.len) == 0);
}

bool str_starts(struct str s, struct str prefix)
{
    return str_eq(str_sub(s, 0, prefix.len), prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.len >= suffix.len && str_eq(str_sub(s, s.len - suffix.len, s.len), suffix);
}

i64 str_find(struct str s, char c)
{
    for (i64 i = 0; i < s.len; i++)
        if (s.data[i] == c) return i;
    return -1;
}

struct str str_sub(struct str s, i64 from, i64 to)
{
    from = MIN(MAX(from, 0), s.len);
    to   = MIN(MAX(to, from), s.len);
    return (struct str){ s.data ? s.data + from : NULL, to - from };
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

struct str str_trim(struct str s)
{
    i64 from = 0, to = s.len;
    while (from < to && is_space(s.data[from])) from++;
    while (from < to && is_space(s.data[to - 1])) to--;
    return str_sub(s, from, to);
}

bool str_cut(struct str *rest, char c, struct str *head)
{
    if (rest->len == 0) return false;
    i64 at = str_find(*rest, c);
    i64 to = at < 0 ? rest->len : at;
    *head  = str_sub(*rest, 0, to);
    *rest  = str_sub(*rest, to + 1, rest->len);
    return true;
}

const char *str_z(struct arena *perm, struct str s)
{
    char *copy = NEW(perm, char, s.len + 1);
    if (s.len) memcpy(copy, s.data, (size_t)s.len);
    return copy;
}

struct str str_copy(struct arena *perm, struct str s)
{
    return (struct str){ str_z(perm, s), s.len };
}

struct str str_cat(struct arena *perm, struct str a, struct str b)
{
    char *both = NEW(perm, char, a.len + b.len + 1);
    if (a.len) memcpy(both, a.data, (size_t)a.len);
    if (b.len) memcpy(both + a.len, b.data, (size_t)b.len);
    return (struct str){ both, a.len + b.len };
}

struct str str_vfmt(struct arena *perm, const char *format, va_list args)
{
    ASSERT(format);
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    ASSERT(len >= 0);
    char *text = NEW(perm, char, (i64)len + 1);
    vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    return (struct str){ text, len };
}

struct str str_fmt(struct arena *perm, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct str s = str_vfmt(perm, format, args);
    va_end(args);
    return s;
}

/* A decimal number cut into its parts; the underscores are dropped. */
struct decimal {
    char digits[512]; /* integer part, then fraction */
    i64  digit_count, fraction_count;
    i64  exponent;
    bool negative;
};

static bool is_digit(struct str s, i64 at)
{
    return at < s.len && s.data[at] >= '0' && s.data[at] <= '9';
}

/* Digits, with single underscores between them, go to d; how many. */
static i64 scan_digits(struct str s, i64 *at, struct decimal *d)
{
    i64 before = d->digit_count;
    for (i64 begin = *at; *at < s.len; (*at)++) {
        bool joint = s.data[*at] == '_' && *at > begin && is_digit(s, *at + 1);
        if (is_digit(s, *at)) d->digits[d->digit_count++] = s.data[*at];
        else if (!joint) break;
    }
    return d->digit_count - before;
}

static bool scan_exponent(struct str s, i64 *at, i64 *exponent)
{
    bool negative = *at < s.len && s.data[*at] == '-';
    if (*at < s.len && (s.data[*at] == '-' || s.data[*at] == '+')) (*at)++;
    i64 begin = *at, value = 0;
    for (; is_digit(s, *at); (*at)++)
        value = MIN(value * 10 + (s.data[*at] - '0'), 1000000); /* far beyond any f64 */
    *exponent = negative ? -value : value;
    return *at > begin;
}

static bool scan_decimal(struct str s, struct decimal *d)
{
    *d     = (struct decimal){ 0 };
    i64 at = 0;
    if (s.len > number_chars_max) return false;
    d->negative = s.len > 0 && s.data[0] == '-';
    if (s.len > 0 && (s.data[0] == '-' || s.data[0] == '+')) at++;
    scan_digits(s, &at, d);
    if (at < s.len && s.data[at] == '.') {
        at++;
        d->fraction_count = scan_digits(s, &at, d);
    }
    if (d->digit_count == 0) return false;
    if (at < s.len && (s.data[at] == 'e' || s.data[at] == 'E')) {
        at++;
        if (!scan_exponent(s, &at, &d->exponent)) return false;
    }
    return at == s.len;
}

bool str_i64(struct str s, i64 *out)
{
    struct decimal d;
    if (!scan_decimal(s, &d)) return false;
    if (str_find(s, '.') >= 0 && d.exponent == 0) return false; /* 1.0 is not a count */
    if (d.exponent < d.fraction_count) return false;
    i64 value = 0; /* kept negative: -2^63 has no positive twin */
    for (i64 i = 0; i < d.digit_count; i++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, d.digits[i] - '0', &value))
            return false;
    for (i64 e = d.exponent - d.fraction_count; e > 0 && value; e--)
        if (__builtin_mul_overflow(value, 10, &value)) return false;
    if (!d.negative && __builtin_sub_overflow((i64)0, value, &value)) return false;
    *out = value;
    return true;
}

bool str_f64(struct str s, f64 *out)
{
    struct decimal d;
    char           text[600];
    if (!scan_decimal(s, &d)) return false;
    snprintf(text, sizeof text, "%s%.*se%lld", d.negative ? "-" : "", (int)d.digit_count, d.digits,
             (long long)(d.exponent - d.fraction_count));
    f64 value = strtod(text, NULL); /* rounds exactly; without a point it means the same anywhere */
    if (!isfinite(value)) return false;
    *out = value;
    return true;
}

bool str_glob(struct str pattern, struct str s)
{
    i64 p = 0, i = 0, star = -1, star_i = 0;
    while (i < s.len) {
        char c = p < pattern.len ? pattern.data[p] : '\0';
        if (p < pattern.len && c == '*') {
            star   = p++;
            star_i = i;
        } else if (p < pattern.len && (c == '?' || c == s.data[i])) {
            p++;
            i++;
        } else if (star >= 0) { /* the last star takes one more */
            p = star + 1;
            i = ++star_i;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.data[p] == '*') p++;
    return p == pattern.len;
}

i64 str_distance(struct str a, struct str b, struct arena scratch)
{
    i64 *row = NEW(&scratch, i64, b.len + 1); /* distance of a[0..i) to b[0..j) */
    for (i64 j = 0; j <= b.len; j++) row[j] = j;
    for (i64 i = 1; i <= a.len; i++) {
        i64 diagonal = row[0];
        row[0]       = i;
        for (i64 j = 1; j <= b.len; j++) {
            i64 above  = row[j];
            i64 change = diagonal + (a.data[i - 1] != b.data[j - 1]);
            row[j]     = MIN(change, 1 + MIN(above, row[j - 1]));
            diagonal   = above;
        }
    }
    return row[b.len];
}

u64 str_hash(struct str s)
{
    u64 h = 14695981039346656037u;
    for (i64 i = 0; i < s.len; i++) h = (h ^ (u8)s.data[i]) * 1099511628211u;
    return h;
}

struct str str_base64(struct arena *perm, struct str bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    i64               len      = (bytes.len + 2) / 3 * 4;
    char             *text     = NEW(perm, char, len + 1);
    for (i64 i = 0, to = 0; i < bytes.len; i += 3) {
        u32 three = 0;
        for (i64 k = 0; k < 3; k++)
            three = three << 8 | (i + k < bytes.len ? (u8)bytes.data[i + k] : 0);
        for (int k = 0; k < 4; k++)
            text[to++] = i + k > bytes.len ? '=' : digits[three >> (18 - 6 * k) & 63];
    }
    return (struct str){ text, len };
}

bool str_hex(struct str s, u32 *out)
{
    u32 value = 0;
    if (s.len < 1 || s.len > 8) return false;
    for (i64 i = 0; i < s.len; i++) {
        char c     = s.data[i];
        int  digit = c >= '0' && c <= '9'   ? c - '0'
                     : c >= 'a' && c <= 'f' ? c - 'a' + 10
                     : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                            : -1;
        if (digit < 0) return false;
        value = value << 4 | (u32)digit;
    }
    *out = value;
    return true;
}

i64 str_utf8_put(char *to, u32 code)
{
    ASSERT(code <= 0x10FFFF);
    i64 len   = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    u32 first = len == 1 ? 0 : len == 2 ? 0xC0 : len == 3 ? 0xE0 : 0xF0;
    for (i64 i = len - 1; i > 0; i--, code >>= 6) to[i] = (char)(0x80 | (code & 0x3F));
    to[0] = (char)(first | code);
    return len;
}

/* Unicode 15, table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF. */
i64 str_utf8_end(struct str s, i64 at)
{
    ASSERT(at >= 0 && at < s.len);
    const u8 *c    = (const u8 *)s.data + at;
    i64       left = s.len - at;
    i64       len  = c[0] < 0x80                    ? 1
                     : c[0] >= 0xC2 && c[0] <= 0xDF ? 2
                     : c[0] >= 0xE0 && c[0] <= 0xEF ? 3
                     : c[0] >= 0xF0 && c[0] <= 0xF4 ? 4
                                                    : 0;
    if (len == 0 || len > left) return -1;
    for (i64 i = 1; i < len; i++)
        if ((c[i] & 0xC0) != 0x80) return -1;
    if (c[0] == 0xE0 && c[1] < 0xA0) return -1;
    if (c[0] == 0xED && c[1] > 0x9F) return -1;
    if (c[0] == 0xF0 && c[1] < 0x90) return -1;
    if (c[0] == 0xF4 && c[1] > 0x8F) return -1;
    return at + len;
}

struct textbuf textbuf_new(struct arena *perm) { return (struct textbuf){ .perm = perm }; }

/* Room for `more` characters and a zero byte behind the text. */
static void textbuf_reserve(struct textbuf *b, i64 more)
{
    i64 need = b->len + more + 1;
    if (need <= b->cap) return;
    i64 room = b->perm->end - b->perm->begin;
    i64 cap  = MAX(need, MIN(MAX(2 * b->cap, 64), room));
    if (b->data && (u8 *)b->data + b->cap == b->perm->begin) {
        NEW(b->perm, char, cap - b->cap); /* still the last item: it grows in place */
    } else {
        char *data = NEW(b->perm, char, cap);
        if (b->len) memcpy(data, b->data, (size_t)b->len);
        b->data = data;
    }
    b->cap = cap;
}

void textbuf_add(struct textbuf *b, struct str s)
{
    textbuf_reserve(b, s.len);
    if (s.len) memcpy(b->data + b->len, s.data, (size_t)s.len);
    b->len += s.len;
    b->data[b->len] = '\0';
}

void textbuf_fmt(struct textbuf *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    ASSERT(len >= 0);
    textbuf_reserve(b, len);
    vsnprintf(b->data + b->len, (size_t)len + 1, format, again);
    b->len += len;
    va_end(again);
    va_end(args);
}

void textbuf_f64(struct textbuf *b, f64 v)
{
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v) break;
    }
    struct str s     = str_of(text);
    i64        point = isfinite(v) ? (i64)strspn(text, "+-0123456789e") : s.len;
    textbuf_add(b, str_sub(s, 0, point));
    if (point < s.len) { /* whatever the point looks like in the host program's locale */
        textbuf_add(b, STR("."));
        textbuf_add(b, str_of(text + point + strcspn(text + point, "0123456789")));
    }
}

struct str textbuf_str(const struct textbuf *b)
{
    return b->data ? (struct str){ b->data, b->len } : STR("");
}

/* C0, DEL, C1 (U+0080 to U+009F); U+202A to U+202E, U+2066 to U+2069: they reorder what is read. */
static bool is_control(const u8 *c, i64 len)
{
    if (len == 1) return c[0] < 0x20 || c[0] == 0x7F;
    if (len == 2) return c[0] == 0xC2 && c[1] < 0xA0;
    if (len != 3 || c[0] != 0xE2) return false;
    return (c[1] == 0x80 && c[2] >= 0xAA && c[2] <= 0xAE) ||
           (c[1] == 0x81 && c[2] >= 0xA6 && c[2] <= 0xA9);
}

static struct str printable(struct arena *perm, struct str s, const char *kept)
{
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; i < s.len;) {
        i64  end = str_utf8_end(s, i), len = end < 0 ? 1 : end - i;
        bool keeps = s.data[i] && strchr(kept, s.data[i]);
        if (end > 0 && (keeps || !is_control((const u8 *)s.data + i, len)))
            textbuf_add(&b, str_sub(s, i, end));
        else
            for (i64 k = i; k < i + len; k++) textbuf_fmt(&b, "\\x%02x", (unsigned)(u8)s.data[k]);
        i += len;
    }
    return textbuf_str(&b);
}

struct str str_printable(struct arena *perm, struct str s) { return printable(perm, s, ""); }

struct str str_printable_lines(struct arena *perm, struct str s)
{
    return printable(perm, s, "\n\t");
}
