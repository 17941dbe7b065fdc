/* presplit.c - the scanners, one a regular expression, and where long texts may be cut. */
#include "data/presplit.h"
#include <string.h>

enum { CODES = 0x110000 };

struct run {
    u32 first, last;
};
#define LETTERS(...) static const struct run letters[] = { __VA_ARGS__ };
#define NUMBERS(...) static const struct run numbers[] = { __VA_ARGS__ };
#define SPACES(...) static const struct run spaces[] = { __VA_ARGS__ };
#include "data/unicode.def"

static const struct str regexes[PRESPLIT_COUNT] = {
    STR_INIT("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"),
    STR_INIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
             " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
    STR_INIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
             " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
    STR_INIT("'s|'t|'re|'ve|'m|'ll|'d|\\p{N}| ?\\p{L}+| ?[^\\s\\p{L}\\p{N}]+|"
             "\\s+(?=\\p{N})|\\s+(?!\\S)|\\s+"),
};

bool presplit_find(struct str regex, enum presplit *out)
{
    for (i32 i = 0; i < PRESPLIT_COUNT; i++) {
        *out = (enum presplit)i;
        if (str_eq(regexes[i], regex)) return true;
    }
    return false;
}

struct str presplit_regex(enum presplit p) { return regexes[p]; }

const u8 *char_classes(struct arena *perm)
{
    u8 *classes = NEW(perm, u8, CODES);
    for (i64 i = 0; i < COUNT_OF(letters); i++)
        memset(classes + letters[i].first, CHAR_LETTER, letters[i].last - letters[i].first + 1);
    for (i64 i = 0; i < COUNT_OF(numbers); i++)
        memset(classes + numbers[i].first, CHAR_NUMBER, numbers[i].last - numbers[i].first + 1);
    for (i64 i = 0; i < COUNT_OF(spaces); i++)
        memset(classes + spaces[i].first, CHAR_SPACE, spaces[i].last - spaces[i].first + 1);
    return classes;
}

/* ---- the scanners ---- */

struct scan {
    const u8 *classes, *text;
    i64       end;
};

/* The character at `at`, of valid UTF-8; its length goes to *bytes. */
static inline u32 code_at(const u8 *p, i64 *bytes)
{
    if (p[0] < 0x80) return *bytes = 1, p[0];
    if (p[0] < 0xE0) return *bytes = 2, (u32)(p[0] & 0x1F) << 6 | (p[1] & 0x3Fu);
    if (p[0] < 0xF0)
        return *bytes = 3, (u32)(p[0] & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    *bytes = 4;
    return (u32)(p[0] & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

static inline enum char_class class_at(const struct scan *s, i64 at, i64 *bytes)
{
    return (enum char_class)s->classes[code_at(s->text + at, bytes)];
}

static inline i64 run_end(const struct scan *s, i64 at, enum char_class class)
{
    i64 bytes;
    while (at < s->end && class_at(s, at, &bytes) == class) at += bytes;
    return at;
}

/* \s+(?!\S)|\s+ : blanks, and the last of them is left to the word behind them. */
static i64 blanks_end(const struct scan *s, i64 at)
{
    i64 begin = at, last = at, bytes;
    while (at < s->end && class_at(s, at, &bytes) == CHAR_SPACE) {
        last = at;
        at += bytes;
    }
    return at < s->end && last > begin ? last : at;
}

/* 's 't 're 've 'm 'll 'd : the end, or `at` if it is none of them. */
static i64 contraction_end(const struct scan *s, i64 at)
{
    const u8 *p = s->text + at;
    i64       n = s->end - at;
    if (n < 2) return at;
    if (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd') return at + 2;
    if (n < 3) return at;
    bool pair = (p[1] == 'r' && p[2] == 'e') || (p[1] == 'v' && p[2] == 'e') ||
                (p[1] == 'l' && p[2] == 'l');
    return pair ? at + 3 : at;
}

/* The same in either case. U+017F, the long s, is an s then. */
static i64 contraction_end_any_case(const struct scan *s, i64 at)
{
    u8 low[3] = { 0 };
    for (i64 i = 0; i < 3 && at + i < s->end; i++) {
        u8 c   = s->text[at + i];
        low[i] = c >= 'A' && c <= 'Z' ? (u8)(c | 0x20) : c;
    }
    if (low[1] == 0xC5 && low[2] == 0xBF) return at + 3;
    struct scan lower = { s->classes, low, MIN(3, s->end - at) };
    return at + contraction_end(&lower, 0);
}

static i64 gpt2_end(const struct scan *s, i64 at)
{
    u8 c = s->text[at];
    if (c == '\'') {
        i64 end = contraction_end(s, at);
        if (end > at) return end;
    }
    i64 bytes;
    i64 begin             = at + (c == ' ' && at + 1 < s->end);
    enum char_class class = class_at(s, begin, &bytes);
    if (class == CHAR_SPACE) return blanks_end(s, at);
    return run_end(s, begin + bytes, class);
}

/* What stands between two digits is cut as if it were a text of its own: its last blank stays with those before it. */
static i64 smollm_end(const struct scan *s, i64 at)
{
    i64 bytes, end = at;
    if (class_at(s, at, &bytes) == CHAR_NUMBER) return at + bytes;
    end = run_end(s, at, CHAR_SPACE);
    if (end > at && end < s->end && class_at(s, end, &bytes) == CHAR_NUMBER) return end;
    return gpt2_end(s, at);
}

static bool is_line_end(u8 c) { return c == '\n' || c == '\r'; }

/* \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line end among the blanks, if there is one. */
static i64 lines_end(const struct scan *s, i64 at)
{
    i64 found = at, bytes;
    for (i64 i = at; i < s->end && class_at(s, i, &bytes) == CHAR_SPACE; i += bytes)
        if (is_line_end(s->text[i])) found = i + 1;
    return found > at ? found : blanks_end(s, at);
}

static i64 numbers_end(const struct scan *s, i64 at, i64 count_max)
{
    i64 bytes;
    for (i64 i = 0; i < count_max && at < s->end && class_at(s, at, &bytes) == CHAR_NUMBER; i++)
        at += bytes;
    return at;
}

static i64 cl100k_end(const struct scan *s, i64 at, i64 digits_max)
{
    u8 c = s->text[at];
    if (c == '\'') {
        i64 end = contraction_end_any_case(s, at);
        if (end > at) return end;
    }
    i64 bytes, next_bytes = 0;
    enum char_class class = class_at(s, at, &bytes), next = CHAR_SPACE;
    if (class == CHAR_LETTER) return run_end(s, at + bytes, CHAR_LETTER);
    if (class == CHAR_NUMBER) return numbers_end(s, at, digits_max);
    if (at + bytes < s->end) next = class_at(s, at + bytes, &next_bytes);
    if (next == CHAR_LETTER && !is_line_end(c))
        return run_end(s, at + bytes + next_bytes, CHAR_LETTER);
    if (class == CHAR_OTHER || (c == ' ' && next == CHAR_OTHER)) {
        i64 end = run_end(s, at + bytes, CHAR_OTHER);
        while (end < s->end && is_line_end(s->text[end])) end++;
        return end;
    }
    return lines_end(s, at);
}

i64 presplit_end(enum presplit p, const u8 *classes, struct str text, i64 at)
{
    struct scan s = { classes, (const u8 *)text.data, text.len };
    switch (p) {
    case PRESPLIT_LLAMA3: return cl100k_end(&s, at, 3);
    case PRESPLIT_QWEN2: return cl100k_end(&s, at, 1);
    case PRESPLIT_SMOLLM: return smollm_end(&s, at);
    default: return gpt2_end(&s, at);
    }
}

/* ---- cuts ---- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* What is not UTF-8 becomes U+FFFD, which is no blank. */
static bool is_blank_at(const u8 *classes, struct str text, i64 at)
{
    i64 bytes, end = str_utf8_end(text, at);
    return end > 0 && classes[code_at((const u8 *)text.data + at, &bytes)] == CHAR_SPACE;
}

static bool is_blank_before(const u8 *classes, struct str text, i64 at)
{
    i64 begin = at - 1;
    while (begin > 0 && begin > at - 4 && ((u8)text.data[begin] & 0xC0) == 0x80) begin--;
    return str_utf8_end(text, begin) == at && is_blank_at(classes, text, begin);
}

i64 presplit_cut(const struct presplit_cuts *cuts, const u8 *classes, struct str text, i64 from)
{
    static const i64 near_bytes = 4096;
    for (i64 begin = MAX(from, 2); begin < text.len; begin += near_bytes) {
        i64 end = MIN(begin + near_bytes, text.len - 1);
        for (i64 i = begin; i < end && cuts->at_lines; i++)
            if (text.data[i - 1] == '\n' && !is_blank_at(classes, text, i) &&
                !is_blank_before(classes, text, i - 1))
                return i;
        for (i64 i = begin; i < end && cuts->at_blanks; i++)
            if (text.data[i] == ' ' && is_letter(text.data[i - 1]) && is_letter(text.data[i + 1]))
                return i;
    }
    return text.len;
}

/* ---- what is not UTF-8 ---- */

/* Bytes at `at`, where no character is: as many as begin one, at least one. */
static i64 bad_bytes(const u8 *p, i64 count)
{
    i64 wanted = p[0] >= 0xC2 && p[0] <= 0xDF ? 2 : (p[0] & 0xF0) == 0xE0 ? 3 : 0;
    u8  low = 0x80, high = 0xBF; /* of the second byte (Unicode 16, table 3-7) */
    if (p[0] >= 0xF0 && p[0] <= 0xF4) wanted = 4;
    if (p[0] == 0xE0) low = 0xA0;
    if (p[0] == 0xF0) low = 0x90;
    if (p[0] == 0xED) high = 0x9F;
    if (p[0] == 0xF4) high = 0x8F;
    if (wanted < 2 || count < 2 || p[1] < low || p[1] > high) return 1;
    i64 i = 2;
    while (i < wanted && i < count && (p[i] & 0xC0) == 0x80) i++;
    return i;
}

/* How many bytes from `at` on are ASCII, in eights. */
static i64 skip_ascii(struct str text, i64 at)
{
    u64 eight;
    for (; at + 8 <= text.len; at += 8) {
        memcpy(&eight, text.data + at, sizeof eight);
        if (eight & 0x8080808080808080u) break;
    }
    return at;
}

bool utf8_valid(struct str text)
{
    for (i64 at = skip_ascii(text, 0); at < text.len; at = skip_ascii(text, at)) {
        at = str_utf8_end(text, at);
        if (at < 0) return false;
    }
    return true;
}

struct str utf8_repair(struct str text, char *to, i64 *bad)
{
    i64 len = 0;
    for (i64 at = 0, next; at < text.len; at = next) {
        next             = str_utf8_end(text, at);
        struct str piece = str_sub(text, at, next);
        if (next < 0) {
            next  = at + bad_bytes((const u8 *)text.data + at, text.len - at);
            piece = STR("\xEF\xBF\xBD");
            ++*bad;
        }
        memcpy(to + len, piece.data, (size_t)piece.len);
        len += piece.len;
    }
    return (struct str){ to, len };
}
