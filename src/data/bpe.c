/* bpe.c - from text to tokens: added tokens, words, the words seen before, merges.
 *
 * The words of a language repeat, so nearly all are found in the coder's table: those of at most
 * eight bytes that are one token with a single look at 16 bytes. The rest are merged: short ones by
 * looking over all pairs each time, long ones with a heap, so that a megabyte without a blank does not
 * take a day. Both take the pair of the lowest rank, the leftmost of equals, one at a time, as
 * Hugging Face's BPE does. */
#include "data/bpe.h"
#include "data/wordpiece.h"
#include <string.h>

enum {
    SLOT_BITS       = 18,
    SLOT_COUNT      = 1 << SLOT_BITS,
    SLOTS_USED_MAX  = SLOT_COUNT / 4 * 3,
    STORE_COUNT     = 4 << 20, /* u32s */
    WORD_KEPT_BYTES = 128,
    WORD_SHORT      = 64, /* bytes, up to which looking over all pairs is faster than a heap */
};
static const i64 word_bytes_max = 64 << 20;
static const u32 rank_none      = UINT32_MAX;

struct slot {
    u64 key;        /* up to 8 bytes: themselves; more: a hash of them */
    u32 at;         /* the token, if there is one and the key says all; else where in the store */
    u16 len, count; /* bytes (0: empty), tokens */
};

struct bpe_coder {
    const struct bpe *bpe;
    struct slot      *slots;
    u32              *store; /* for each word its tokens, then its bytes */
    i64               slots_used, store_used;
};

/* ---- the table of merges ---- */

static u64 mix(u64 v)
{
    v *= 0x9e3779b97f4a7c15u;
    return v ^ v >> 32;
}

struct bpe_merge *bpe_merge_slot(const struct bpe *b, u64 pair)
{
    u64 i = mix(pair) & b->merge_mask;
    while (b->merges[i].pair != pair && b->merges[i].pair != UINT64_MAX)
        i = (i + 1) & b->merge_mask;
    return &b->merges[i];
}

/* ---- a word ---- */

struct pair { /* what two neighbours would become */
    u32 rank, id;
};

static struct pair pair_of(const struct bpe *b, u32 left, u32 right)
{
    const struct bpe_merge *m = bpe_merge_slot(b, (u64)left << 32 | right);
    return m->pair == UINT64_MAX ? (struct pair){ rank_none, 0 } : (struct pair){ m->rank, m->id };
}

/* What a word is before anything is merged: its bytes' tokens, or its characters'. */
static i64 symbols_of(const struct bpe *b, struct str word, u32 *to)
{
    i64 count = 0;
    if (!b->chars) {
        for (i64 i = 0; i < word.len; i++) to[i] = b->byte_id[(u8)word.data[i]];
        return word.len;
    }
    bool waiting = false; /* unknown ones that may become one */
    for (i64 at = 0, end; at < word.len; at = end) {
        u32 id;
        end        = str_utf8_end(word, at);
        bool known = bpe_find_word(b, str_sub(word, at, end), &id),
             bytes = b->byte_fallback && !known;
        for (i64 i = at; bytes && i < end; i++) bytes = b->byte_id[(u8)word.data[i]] != UINT32_MAX;
        if (bytes) {
            for (i64 i = at; i < end; i++) to[count++] = b->byte_id[(u8)word.data[i]];
            continue;
        }
        if (waiting && (known || !b->fuse_unknown)) to[count++] = (u32)b->unknown, waiting = false;
        if (known) to[count++] = id;
        else waiting = b->unknown >= 0;
    }
    if (waiting) to[count++] = (u32)b->unknown;
    return count;
}

static i64 merge_short(const struct bpe *b, i64 len, u32 *to)
{
    struct pair pair[WORD_SHORT]; /* of i and i + 1 */
    for (i64 i = 0; i + 1 < len; i++) pair[i] = pair_of(b, to[i], to[i + 1]);
    for (;;) {
        i64 best = 0;
        u32 rank = rank_none;
        for (i64 i = 0; i + 1 < len; i++)
            if (pair[i].rank < rank) rank = pair[best = i].rank;
        if (rank == rank_none) return len;
        to[best] = pair[best].id;
        len--;
        for (i64 i = best + 1; i < len; i++) to[i] = to[i + 1];
        for (i64 i = best + 1; i + 1 < len; i++) pair[i] = pair[i + 1];
        if (best > 0) pair[best - 1] = pair_of(b, to[best - 1], to[best]);
        if (best + 1 < len) pair[best] = pair_of(b, to[best], to[best + 1]);
    }
}

struct symbol { /* a list of what is left of the word, linked both ways */
    u32         id, previous, next;
    struct pair pair; /* with the next one */
};

struct heap { /* of rank << 32 | place, the least first; may hold pairs that are no more */
    u64 *key;
    i64  count;
};

static void heap_push(struct heap *h, u64 key)
{
    i64 i = h->count++;
    for (; i > 0 && key < h->key[(i - 1) / 2]; i = (i - 1) / 2) h->key[i] = h->key[(i - 1) / 2];
    h->key[i] = key;
}

static u64 heap_pop(struct heap *h)
{
    u64 top = h->key[0], last = h->key[--h->count];
    i64 i = 0;
    for (i64 child = 1; child < h->count; i = child, child = 2 * i + 1) {
        if (child + 1 < h->count && h->key[child + 1] < h->key[child]) child++;
        if (last <= h->key[child]) break;
        h->key[i] = h->key[child];
    }
    h->key[i] = last;
    return top;
}

/* The pair of `at` and the one behind it is new. */
static void renew_pair(const struct bpe *b, struct symbol *symbols, u32 at, u32 end, struct heap *h)
{
    struct symbol *s = &symbols[at];
    s->pair          = (struct pair){ rank_none, 0 };
    if (s->next == end) return;
    s->pair = pair_of(b, s->id, symbols[s->next].id);
    if (s->pair.rank != rank_none) heap_push(h, (u64)s->pair.rank << 32 | at);
}

static i64 merge_long(const struct bpe *b, i64 len, u32 *to, struct arena scratch)
{
    struct symbol *symbols = NEW(&scratch, struct symbol, len);
    struct heap    heap    = { NEW(&scratch, u64, 2 * len), 0 }; /* a merge takes one, puts two */
    u32            end     = (u32)len;
    for (u32 i = 0; i < end; i++)
        symbols[i] = (struct symbol){ .id = to[i], .previous = i - 1, .next = i + 1 };
    for (u32 i = 0; i < end; i++) renew_pair(b, symbols, i, end, &heap);
    while (heap.count) {
        u64            top = heap_pop(&heap);
        u32            at  = (u32)top;
        struct symbol *s   = &symbols[at];
        if (s->pair.rank != (u32)(top >> 32)) continue; /* one of the two has changed since */
        struct symbol *right = &symbols[s->next];
        s->id                = s->pair.id;
        s->next              = right->next;
        right->pair.rank     = rank_none;
        if (s->next != end) symbols[s->next].previous = at;
        if (at > 0) renew_pair(b, symbols, s->previous, end, &heap);
        renew_pair(b, symbols, at, end, &heap);
    }
    i64 count = 0;
    for (u32 i = 0; i != end; i = symbols[i].next) to[count++] = symbols[i].id;
    return count;
}

bool bpe_find_word(const struct bpe *b, struct str word, u32 *id)
{
    for (u64 i = str_hash(word) & b->word_mask; b->words[i].bytes.data; i = (i + 1) & b->word_mask)
        if (str_eq(b->words[i].bytes, word)) return *id = b->words[i].id, true;
    return false;
}

static enum status merge_word(const struct bpe *b, struct str word, u32 *to, i64 *count,
                              struct err *err)
{
    *count = 1;
    if (b->whole_words && bpe_find_word(b, word, to)) return STATUS_OK;
    if (word.len <= WORD_SHORT) {
        *count = merge_short(b, symbols_of(b, word, to), to);
        return STATUS_OK;
    }
    if (word.len > word_bytes_max)
        return err_set(err, STATUS_USAGE, "one word has %lld bytes; at most %lld are allowed",
                       (long long)word.len, (long long)word_bytes_max);
    i64          bytes_each = (i64)(sizeof(struct symbol) + 2 * sizeof(u64));
    struct arena scratch    = arena_open(word.len * bytes_each + 64);
    if (!scratch.begin)
        return err_set(err, STATUS_WORLD, "no memory to merge a word of %lld bytes",
                       (long long)word.len);
    *count = merge_long(b, symbols_of(b, word, to), to, scratch);
    arena_close(&scratch);
    return STATUS_OK;
}

/* ---- words seen before ---- */

i64 bpe_coder_bytes(void)
{
    return (i64)(sizeof(struct bpe_coder) + SLOT_COUNT * sizeof(struct slot) +
                 STORE_COUNT * sizeof(u32)) +
           64;
}

struct bpe_coder *bpe_coder_new(struct arena *perm, const struct bpe *b)
{
    struct bpe_coder *c = NEW(perm, struct bpe_coder, 1);
    *c                  = (struct bpe_coder){ .bpe = b };
    c->slots            = NEW(perm, struct slot, SLOT_COUNT);
    c->store            = NEW(perm, u32, STORE_COUNT);
    return c;
}

static u64 eight_bytes(const char *p, i64 len, i64 room)
{
    u64 v = 0;
    if (room < 8) memcpy(&v, p, (size_t)len); /* reading further might leave the mapping */
    else memcpy(&v, p, 8);
    return len < 8 ? v & (((u64)1 << 8 * len) - 1) : v;
}

/* `room`: how many bytes may be read. */
static u64 word_key(struct str word, i64 room)
{
    if (word.len <= 8) return eight_bytes(word.data, word.len, room);
    u64 key = 0;
    for (i64 at = 0; at < word.len; at += 8)
        key = mix(key ^ eight_bytes(word.data + at, MIN(8, word.len - at), room - at));
    return key;
}

static bool slot_holds(const struct bpe_coder *c, const struct slot *s, u64 key, struct str word)
{
    if (s->key != key || s->len != word.len) return false;
    return word.len <= 8 || !memcmp(c->store + s->at + s->count, word.data, (size_t)word.len);
}

/* The word's slot, or an empty one for it. */
static struct slot *find_slot(const struct bpe_coder *c, u64 key, struct str word)
{
    u64 i = mix(key + (u64)word.len) >> (32 - SLOT_BITS) & (SLOT_COUNT - 1);
    while (c->slots[i].len && !slot_holds(c, &c->slots[i], key, word))
        i = (i + 1) & (SLOT_COUNT - 1);
    return &c->slots[i];
}

/* Where the table is full it begins anew: what is frequent is soon there again. */
static void keep_word(struct bpe_coder *c, u64 key, struct str word, const u32 *tokens, i64 count)
{
    i64 need = count + (word.len + 3) / 4;
    if (word.len > WORD_KEPT_BYTES || !count) return;
    if (c->slots_used == SLOTS_USED_MAX || c->store_used + need > STORE_COUNT) {
        memset(c->slots, 0, SLOT_COUNT * sizeof *c->slots);
        c->slots_used = c->store_used = 0;
    }
    struct slot *s = find_slot(c, key, word);
    *s             = (struct slot){ key, tokens[0], (u16)word.len, (u16)count };
    c->slots_used++;
    if (word.len <= 8 && count == 1) return;
    s->at = (u32)c->store_used;
    memcpy(c->store + s->at, tokens, (size_t)count * sizeof *tokens);
    memcpy(c->store + s->at + count, word.data, (size_t)word.len);
    c->store_used += need;
}

static enum status encode_word(struct bpe_coder *c, struct str word, i64 room, u32 *to, i64 *count,
                               struct err *err)
{
    u64          key = word_key(word, room);
    struct slot *s   = find_slot(c, key, word);
    if (s->len) {
        *count = s->count;
        if (word.len <= 8 && s->count == 1) *to = s->at;
        else memcpy(to, c->store + s->at, s->count * sizeof *to);
        return STATUS_OK;
    }
    enum status st = merge_word(c->bpe, word, to, count, err);
    if (!st) keep_word(c, key, word, to, *count);
    return st;
}

/* ---- a text ---- */

static const struct str blank = STR_INIT("\xE2\x96\x81"); /* U+2581 */

/* The end of a word that begins with U+2581, or of the whole piece. */
static i64 blank_end(const struct bpe *b, struct str text, i64 at)
{
    if (!b->split_blanks) return text.len;
    for (i64 i = at + 1; i < text.len; i++)
        if (str_starts(str_sub(text, i, text.len), blank)) return i;
    return text.len;
}

static enum status encode_words(struct bpe_coder *c, struct str text, u32 *to, i64 *count,
                                struct err *err)
{
    const struct bpe *b = c->bpe;
    for (i64 at = 0, end; at < text.len; at = end) {
        i64 more;
        end = b->chars ? blank_end(b, text, at) : presplit_end(b->split, b->classes, text, at);
        enum status st =
            encode_word(c, str_sub(text, at, end), text.len - at, to + *count, &more, err);
        if (st) return st;
        *count += more;
    }
    return STATUS_OK;
}

static enum status no_memory(struct str text, struct err *err)
{
    return err_set(err, STATUS_WORLD, "no memory for a text of %lld bytes", (long long)text.len);
}

/* Where a piece of text stands: behind other text, behind an added token, or at the very beginning. */
enum place { PLACE_INSIDE, PLACE_BEHIND, PLACE_FIRST };

/* Blanks as U+2581, and one before the piece where the tokenizer asks for that. */
static struct str with_blanks(const struct bpe *b, struct str text, enum place place,
                              struct arena *perm)
{
    bool has = str_starts(text, STR(" ")) || str_starts(text, blank);
    bool add = text.len && place != PLACE_INSIDE &&
               (b->prepend == PREPEND_EACH || (b->prepend == PREPEND_MISSING && !has) ||
                (b->prepend == PREPEND_FIRST && !has && place == PLACE_FIRST));
    char *to  = NEW(perm, char, 3 * (text.len + 1));
    i64   len = 0;
    if (add) memcpy(to, blank.data, 3), len = 3;
    for (i64 i = 0; i < text.len; i++) {
        if (text.data[i] == ' ') memcpy(to + len, blank.data, 3), len += 3;
        else to[len++] = text.data[i];
    }
    return (struct str){ to, len };
}

/* A piece that begins a text, or stands behind an added token, gets a blank before it if the tokenizer asks
 * for that and it has none. */
static enum status encode_piece(struct bpe_coder *c, struct str text, enum place place, u32 *to,
                                i64 *count, struct err *err)
{
    const struct bpe *b = c->bpe;
    if (b->wordpiece) {
        wordpiece_encode(b, text, to, count);
        return STATUS_OK;
    }
    bool blanks = b->blanks && !b->normal_blanks;
    if (!blanks && (place == PLACE_INSIDE || !b->prefix_blank || !text.len || text.data[0] == ' '))
        return encode_words(c, text, to, count, err);
    struct arena scratch = arena_open(4 * text.len + 64);
    if (!scratch.begin) return no_memory(text, err);
    text = blanks ? with_blanks(b, text, place, &scratch) : str_cat(&scratch, STR(" "), text);
    enum status st = encode_words(c, text, to, count, err);
    arena_close(&scratch);
    return st;
}

static const struct bpe_added *added_at(const struct bpe *b, struct str text, i64 at, bool late)
{
    u8 first = (u8)text.data[at];
    for (i16 i = b->added_first[first]; i < b->added_first[first + 1]; i++)
        if (b->added[i].late == late && str_starts(str_sub(text, at, text.len), b->added[i].text))
            return &b->added[i];
    return NULL;
}

/* The first added token at or behind *at, where it stands; NULL: none. */
static const struct bpe_added *next_added(const struct bpe *b, struct str text, i64 *at, bool late)
{
    const struct bpe_added *found = NULL;
    if (!b->added_count) *at = text.len;
    for (; *at < text.len && !found; *at += !found) {
        if (b->added_byte >= 0) { /* all begin with the same: the library looks for it faster */
            const char *p = memchr(text.data + *at, b->added_byte, (size_t)(text.len - *at));
            *at           = p ? p - text.data : text.len;
            if (!p) break;
        }
        found = added_at(b, text, *at, late);
    }
    return found;
}

static enum status encode_normal(struct bpe_coder *c, struct str text, enum place place, u32 *to,
                                 i64 *count, struct err *err);

static bool is_space(const struct bpe *b, struct str text, i64 at, i64 end)
{
    const u8 *p    = (const u8 *)text.data + at;
    i64       more = end - at - 1;
    u32       code = more ? p[0] & (0x3Fu >> more) : p[0];
    for (i64 i = 1; i <= more; i++) code = code << 6 | (p[i] & 0x3Fu);
    return b->classes[code] == CHAR_SPACE;
}

static i64 without_blanks_before(const struct bpe *b, struct str text, i64 begin, i64 end)
{
    while (end > begin) {
        i64 at = end - 1;
        while (at > begin && ((u8)text.data[at] & 0xC0) == 0x80) at--;
        if (!is_space(b, text, at, end)) break;
        end = at;
    }
    return end;
}

static i64 without_blanks_behind(const struct bpe *b, struct str text, i64 at)
{
    for (i64 end; at < text.len; at = end) {
        end = str_utf8_end(text, at);
        if (!is_space(b, text, at, end)) break;
    }
    return at;
}

/* Added tokens that are not late cut the whole text; what lies between them is normalised, then cut
 * by the late ones. */
static enum status encode_between(struct bpe_coder *c, struct str text, enum place place, bool late,
                                  u32 *to, i64 *count, struct err *err)
{
    for (i64 at = 0; at < text.len; place = PLACE_BEHIND) {
        i64                     found = at;
        const struct bpe_added *added = next_added(c->bpe, text, &found, late);
        i64                     end   = found;
        if (added && added->lstrip) end = without_blanks_before(c->bpe, text, at, end);
        struct str  piece = str_sub(text, at, end);
        enum status st    = late ? encode_piece(c, piece, place, to, count, err)
                                 : encode_normal(c, piece, place, to, count, err);
        if (st) return st;
        if (added) to[(*count)++] = added->id;
        at = found + (added ? added->text.len : 0);
        if (added && added->rstrip) at = without_blanks_behind(c->bpe, text, at);
    }
    return STATUS_OK;
}

static enum status encode_normal(struct bpe_coder *c, struct str text, enum place place, u32 *to,
                                 i64 *count, struct err *err)
{
    const struct bpe *b    = c->bpe;
    bool              asis = !b->nfc || nfc_is(b->nfc, text);
    if (asis && !b->wordpiece && !b->normal_blanks)
        return encode_between(c, text, place, true, to, count, err);
    struct arena scratch = arena_open(80 * text.len + 64);
    if (!scratch.begin) return no_memory(text, err);
    if (b->wordpiece) text = wordpiece_normal(b->wordpiece, text, &scratch);
    else if (b->normal_blanks) text = with_blanks(b, text, place, &scratch);
    else text = nfc_apply(b->nfc, text, &scratch);
    enum status st = encode_between(c, text, place, true, to, count, err);
    arena_close(&scratch);
    return st;
}

enum status bpe_encode(struct bpe_coder *c, struct str text, bool begins, u32 *to, i64 *count,
                       struct err *err)
{
    *count = 0;
    return encode_between(c, text, begins ? PLACE_FIRST : PLACE_INSIDE, false, to, count, err);
}

bool bpe_find_added(const struct bpe *b, struct str text, u32 *id)
{
    for (i64 i = 0; i < b->added_count; i++)
        if (str_eq(b->added[i].text, text)) return *id = b->added[i].id, true;
    return false;
}

static const char *const ends[] = { "<|endoftext|>", "</s>", "<|im_end|>", "<|eot_id|>",
                                    "<|end_of_text|>" };

bool bpe_is_end(const struct bpe *b, u32 id)
{
    for (i64 i = 0; i < COUNT_OF(ends); i++) {
        u32 end;
        if (bpe_find_added(b, str_of(ends[i]), &end) && end == id) return true;
    }
    return false;
}

i64 bpe_end_token(const struct bpe *b)
{
    u32 id;
    for (i64 i = 0; i < COUNT_OF(ends); i++)
        if (bpe_find_added(b, str_of(ends[i]), &id)) return id;
    return -1;
}

void bpe_byte_codes(u32 code[256])
{
    u32 next = 256;
    for (u32 b = 0; b < 256; b++) {
        bool prints = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        code[b]     = prints ? b : next++;
    }
}
