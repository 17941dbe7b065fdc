/* wordpiece.c - BERT's normalizer, its words, and the longest tokens of each. */
#include "data/wordpiece.h"
#include <string.h>

enum { CODES = 0x110000, TOKEN_BYTES_MAX = 1 << 10 };
enum { DROPPED_ = 1, BLANK_ = 2, SPACED_ = 4, SIGN_ = 8, MARK_ = 16, LOWER_ = 32, SPACE_ = 64 };

struct run {
    u32 first, last;
};
struct capitals {
    u32 first, last, step;
    i32 delta;
};
#define DROPPED(...) static const struct run dropped[] = { __VA_ARGS__ };
#define BLANKS(...) static const struct run blanks[] = { __VA_ARGS__ };
#define SPACED(...) static const struct run spaced[] = { __VA_ARGS__ };
#define SIGNS(...) static const struct run signs[] = { __VA_ARGS__ };
#define MARKS(...) static const struct run marks[] = { __VA_ARGS__ };
#define LOWER(...) static const struct capitals capitals[] = { __VA_ARGS__ };
#include "data/bert.def"

static void set_bits(u8 *kinds, const struct run *runs, i64 count, u8 bit)
{
    for (i64 i = 0; i < count; i++)
        for (u32 c = runs[i].first; c <= runs[i].last; c++) kinds[c] |= bit;
}

const u8 *wordpiece_kinds(struct arena *perm)
{
    u8       *kinds   = NEW(perm, u8, CODES);
    const u8 *classes = char_classes(perm);
    set_bits(kinds, dropped, COUNT_OF(dropped), DROPPED_);
    set_bits(kinds, blanks, COUNT_OF(blanks), BLANK_);
    set_bits(kinds, spaced, COUNT_OF(spaced), SPACED_);
    set_bits(kinds, signs, COUNT_OF(signs), SIGN_);
    set_bits(kinds, marks, COUNT_OF(marks), MARK_);
    for (i64 i = 0; i < COUNT_OF(capitals); i++)
        for (u32 c = capitals[i].first; c <= capitals[i].last; c += capitals[i].step)
            kinds[c] |= LOWER_;
    kinds[0x130] |= LOWER_;
    for (i64 c = 0; c < CODES; c++)
        if (classes[c] == CHAR_SPACE) kinds[c] |= SPACE_;
    return kinds;
}

/* ---- the normalizer ---- */

static struct str cleaned(const struct wordpiece *w, struct str text, struct arena *perm)
{
    char *to  = NEW(perm, char, 3 * text.len + 1);
    i64   len = 0;
    for (i64 at = 0, end; at < text.len; at = end) {
        u32 code = utf8_code_at(text, at, &end);
        u8  kind = w->kinds[code];
        if (w->clean && kind & DROPPED_) continue;
        bool around = w->spaced && kind & SPACED_;
        if (around) to[len++] = ' ';
        if (w->clean && kind & BLANK_) to[len++] = ' ';
        else {
            memcpy(to + len, text.data + at, (size_t)(end - at));
            len += end - at;
        }
        if (around) to[len++] = ' ';
    }
    return (struct str){ to, len };
}

static i64 put_lower(char *to, u32 code)
{
    i64 low = 0, high = COUNT_OF(capitals) - 1;
    if (code == 0x130)
        return str_utf8_put(to, 'i') + str_utf8_put(to + 1, 0x307); /* I with a dot */
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (capitals[middle].last < code) low = middle + 1;
        else high = middle;
    }
    return str_utf8_put(to, (u32)((i32)code + capitals[low].delta));
}

static struct str lowered(const struct wordpiece *w, struct str text, struct arena *perm)
{
    char *to  = NEW(perm, char, 2 * text.len + 1);
    i64   len = 0;
    for (i64 at = 0, end; at < text.len; at = end) {
        u32 code = utf8_code_at(text, at, &end);
        u8  kind = w->kinds[code];
        if (w->strip && kind & MARK_) continue;
        if (w->lower && kind & LOWER_) len += put_lower(to + len, code);
        else {
            memcpy(to + len, text.data + at, (size_t)(end - at));
            len += end - at;
        }
    }
    return (struct str){ to, len };
}

struct str wordpiece_normal(const struct wordpiece *w, struct str text, struct arena *perm)
{
    if (!w->is_normal) return text;
    text = cleaned(w, text, perm);
    if (w->strip) text = nfd_apply(w->nfc, text, perm);
    return w->strip || w->lower ? lowered(w, text, perm) : text;
}

/* ---- words ---- */

static bool find_token(const struct bpe *b, struct str prefix, struct str text, u32 *id)
{
    char       room[TOKEN_BYTES_MAX];
    struct str whole = { room, prefix.len + text.len };
    if (whole.len > TOKEN_BYTES_MAX) return false;
    memcpy(room, prefix.data, (size_t)prefix.len);
    memcpy(room + prefix.len, text.data, (size_t)text.len);
    return bpe_find_word(b, whole, id);
}

static i64 char_before(struct str word, i64 end)
{
    do end--;
    while (end > 0 && ((u8)word.data[end] & 0xC0) == 0x80);
    return end;
}

/* No longer beginning than the longest token is tried, so that a long word takes no time squared. */
static void encode_word(const struct bpe *b, struct str word, i64 chars, u32 *to, i64 *count)
{
    const struct wordpiece *w      = b->wordpiece;
    i64                     before = *count;
    bool                    known  = chars <= w->chars_max;
    for (i64 at = 0, end; known && at < word.len; at = end) {
        struct str prefix = at ? w->prefix : STR("");
        end               = MIN(word.len, at + b->word_bytes_max);
        while (end < word.len && ((u8)word.data[end] & 0xC0) == 0x80)
            end--; /* between characters */
        while (end > at && !find_token(b, prefix, str_sub(word, at, end), &to[*count]))
            end = char_before(word, end);
        known = end > at;
        *count += known;
    }
    if (known) return;
    *count         = before;
    to[(*count)++] = w->unknown;
}

void wordpiece_encode(const struct bpe *b, struct str text, u32 *to, i64 *count)
{
    const u8 *kinds = b->wordpiece->kinds;
    i64       begin = 0, chars = 0;
    for (i64 at = 0, end; at < text.len; at = end) {
        u8   kind = kinds[utf8_code_at(text, at, &end)];
        bool cut  = kind & (SPACE_ | SIGN_);
        if (cut && at > begin) encode_word(b, str_sub(text, begin, at), chars, to, count);
        if (kind & SIGN_ && !(kind & SPACE_)) encode_word(b, str_sub(text, at, end), 1, to, count);
        chars = cut ? 0 : chars + 1;
        if (cut) begin = end;
    }
    if (text.len > begin) encode_word(b, str_sub(text, begin, text.len), chars, to, count);
}
