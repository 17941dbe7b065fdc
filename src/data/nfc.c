/* nfc.c - text cut where nothing can combine, and the parts in between normalised one by one. */
#include "data/nfc.h"
#include <string.h>

enum { CODES = 0x110000, PAIR_SLOTS = 1 << 12, PARTS_MAX = 4 };
enum {
    S  = 0xAC00,
    L  = 0x1100,
    V  = 0x1161,
    T  = 0x11A7,
    LN = 19,
    VN = 21,
    TN = 28
}; /* Unicode 16, 3.12 */

static const struct {
    u32 first, last, class;
} runs[] = {
#define COMBINING(...) __VA_ARGS__
#define COMPOSED(...)
#include "data/nfc.def"
#undef COMBINING
#undef COMPOSED
};

static const struct composed {
    u32 code, first, second, again; /* second 0: of one; again: both become the code */
} composed[] = {
#define COMBINING(...)
#define COMPOSED(...) __VA_ARGS__
#include "data/nfc.def"
};

struct nfc {
    u8 *class;  /* combining class by code point */
    u8  *joins; /* 1: it may change, or what is before it, so no cut before it */
    u16 *apart; /* index + 1 in `composed`; 0: it is not made of others */
    u16 *pair;  /* index + 1 by a hash of first and second */
};

static u64 pair_hash(u32 first, u32 second)
{
    return (((u64)first << 32 | second) * 0x9e3779b97f4a7c15u) >> 52 & (PAIR_SLOTS - 1);
}

struct nfc *nfc_new(struct arena *perm)
{
    struct nfc *n = NEW(perm, struct nfc, 1);
    *n            = (struct nfc){ NEW(perm, u8, CODES), NEW(perm, u8, CODES), NEW(perm, u16, CODES),
                                  NEW(perm, u16, PAIR_SLOTS) };
    _Static_assert(COUNT_OF(composed) * 3 / 2 < PAIR_SLOTS, "the table of pairs is too full");
    for (i64 i = 0; i < COUNT_OF(runs); i++)
        for (u32 c = runs[i].first; c <= runs[i].last; c++) {
            n->class[c] = (u8)runs[i].class;
            n->joins[c] = 1;
        }
    memset(n->joins + V, 1, VN);
    memset(n->joins + T + 1, 1, TN - 1);
    for (i64 i = 0; i < COUNT_OF(composed); i++) {
        const struct composed *c = &composed[i];
        n->apart[c->code]        = (u16)(i + 1);
        if (!c->again) {
            n->joins[c->code] = 1;
            continue;
        }
        n->joins[c->second] = 1;
        u64 slot            = pair_hash(c->first, c->second);
        while (n->pair[slot]) slot = (slot + 1) & (PAIR_SLOTS - 1);
        n->pair[slot] = (u16)(i + 1);
    }
    return n;
}

bool nfc_is(const struct nfc *n, struct str text)
{
    for (i64 at = 0; at < text.len;) {
        if ((u8)text.data[at] < 0x80) at++;
        else if (n->joins[utf8_code_at(text, at, &at)]) return false;
    }
    return true;
}

/* ---- one part: a character, and those behind it that may join it ---- */

static i64 take_apart(const struct nfc *n, u32 code, u32 *to)
{
    if (code >= S && code < S + LN * VN * TN) {
        u32 index = code - S;
        to[0]     = L + index / (VN * TN);
        to[1]     = V + index % (VN * TN) / TN;
        to[2]     = T + index % TN;
        return index % TN ? 3 : 2;
    }
    if (!n->apart[code]) return to[0] = code, 1;
    const struct composed *c     = &composed[n->apart[code] - 1];
    i64                    count = take_apart(n, c->first, to);
    return c->second ? count + take_apart(n, c->second, to + count) : count;
}

/* Each run of marks by class, equal ones in their order: counted, for a run may be long. */
static void sort_marks(const struct nfc *n, u32 *codes, i64 count, u32 *spare)
{
    for (i64 begin = 0, end; begin < count; begin = end) {
        i64 at[257] = { 0 };
        end         = begin + 1;
        if (!n->class[codes[begin]]) continue;
        while (end < count && n->class[codes[end]]) end++;
        for (i64 i = begin; i < end; i++) at[n->class[codes[i]] + 1]++;
        for (i32 c = 0; c < 256; c++) at[c + 1] += at[c];
        for (i64 i = begin; i < end; i++) spare[at[n->class[codes[i]]]++] = codes[i];
        memcpy(codes + begin, spare, (size_t)(end - begin) * sizeof *codes);
    }
}

/* What the two become together; 0: nothing. */
static u32 together(const struct nfc *n, u32 first, u32 second)
{
    if (first >= L && first < L + LN && second >= V && second < V + VN)
        return S + ((first - L) * VN + (second - V)) * TN;
    if (first >= S && first < S + LN * VN * TN && (first - S) % TN == 0 && second > T &&
        second < T + TN)
        return first + (second - T);
    for (u64 slot = pair_hash(first, second); n->pair[slot]; slot = (slot + 1) & (PAIR_SLOTS - 1)) {
        const struct composed *c = &composed[n->pair[slot] - 1];
        if (c->first == first && c->second == second) return c->code;
    }
    return 0;
}

/* In place; a mark joins the last starter unless one of its class or above stands between. */
static i64 compose(const struct nfc *n, u32 *codes, i64 count)
{
    i64 starter = -1, to = 0;
    i32 last = -1; /* class of what stands before, since the starter; -1: nothing */
    for (i64 i = 0; i < count; i++) {
        u32 code  = codes[i];
        i32 class = n->class[code];
        u32 both  = starter >= 0 && last < class ? together(n, codes[starter], code) : 0;
        if (both) {
            codes[starter] = both;
            continue;
        }
        codes[to] = code;
        if (!class) starter = to;
        last = class ? class : -1;
        to++;
    }
    return to;
}

static i64 normalise_part(const struct nfc *n, struct str part, char *to, struct arena scratch)
{
    u32 *codes = NEW(&scratch, u32, PARTS_MAX * part.len),
        *spare = NEW(&scratch, u32, PARTS_MAX * part.len);
    i64 count = 0, len = 0;
    for (i64 at = 0; at < part.len;)
        count += take_apart(n, utf8_code_at(part, at, &at), codes + count);
    sort_marks(n, codes, count, spare);
    count = compose(n, codes, count);
    for (i64 i = 0; i < count; i++) len += str_utf8_put(to + len, codes[i]);
    return len;
}

/* ---- the text ---- */

struct str nfc_apply(const struct nfc *n, struct str text, struct arena *perm)
{
    if (nfc_is(n, text)) return text;
    char *to =
        NEW(perm, char,
            3 * text.len); /* no character grows to more than three times its bytes (UAX 15) */
    i64 len = 0;
    for (i64 at = 0, end; at < text.len; at = end) {
        i64  next;
        bool joined = n->joins[utf8_code_at(text, at, &end)];
        while (end < text.len && n->joins[utf8_code_at(text, end, &next)]) {
            end    = next;
            joined = true;
        }
        struct str part = str_sub(text, at, end);
        if (!joined) memcpy(to + len, part.data, (size_t)part.len);
        len += joined ? normalise_part(n, part, to + len, *perm) : part.len;
    }
    return (struct str){ to, len };
}

struct str nfd_apply(const struct nfc *n, struct str text, struct arena *perm)
{
    char        *to      = NEW(perm, char, 3 * text.len);
    struct arena scratch = *perm;
    u32         *codes   = NEW(&scratch, u32, PARTS_MAX * text.len),
        *spare           = NEW(&scratch, u32, PARTS_MAX * text.len);
    i64 count = 0, len = 0;
    for (i64 at = 0; at < text.len;)
        count += take_apart(n, utf8_code_at(text, at, &at), codes + count);
    sort_marks(n, codes, count, spare);
    for (i64 i = 0; i < count; i++) len += str_utf8_put(to + len, codes[i]);
    return (struct str){ to, len };
}
