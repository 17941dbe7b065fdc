/* bpe_learn.c - merges from counted words: again and again the most frequent pair becomes a token.
 *
 * Counts of pairs are kept up to date by what a merge changes in the words it touches; a heap holds
 * each pair with the words it was seen in, under a count that may be too high: the top is compared with
 * the true count first, and goes back when it has fallen (Hugging Face's trainer.rs does the same, and
 * in odd cases, such as one token made by two different merges, the order of steps shows in the result:
 * what looks roundabout here is as it is there). */
#include "data/bpe_train.h"
#include <string.h>

struct word {
    u32 *symbols;
    i64  len, count;
};

struct pair {
    u64 key;   /* left id above right id */
    i64 count; /* in all words, as the trainer keeps it: a pair that was merged keeps what it had */
    i64 step;  /* of the merge that fills the three below */
    u32 words, last_word;
    u32 *list;
};

struct entry { /* of the heap */
    u64  count, key;
    u32 *words;
    u32  word_count;
};

struct seen { /* a pair grew in a word */
    u32 pair, word;
};

struct learner {
    struct arena       *memory;
    struct bpe_learned *out;
    struct word        *words;
    struct pair        *pairs;      /* in order of appearance */
    u32                *pair_slots; /* index + 1; 0: empty */
    i64                 pair_count, pair_room, slot_count;
    struct entry       *heap;
    i64                 heap_count, heap_room;
    struct seen        *seen; /* of the merge at hand */
    i64                 seen_count, seen_room;
    u32                *token_slots; /* by text; id + 1 */
    i64                 token_slot_count;
    i64                 merge_room, step;
    bool                full; /* memory ended; nothing is believed then */
};

/* Room for one more of an array that grows twofold; what was there before is left behind. */
static void *grow(struct learner *l, void *from, i64 count, i64 *room, i64 item_bytes)
{
    if (count < *room) return from;
    i64 next = MAX(2 * *room, 1024);
    if (next * item_bytes > l->memory->end - l->memory->begin - 64) {
        l->full = true;
        return from;
    }
    void *to = arena_take(l->memory, next, item_bytes, 8);
    if (count) memcpy(to, from, (size_t)(count * item_bytes));
    *room = next;
    return to;
}

static u32 *take_words(struct learner *l, i64 count)
{
    if (count * 4 > l->memory->end - l->memory->begin - 64) l->full = true;
    return l->full ? NULL : NEW(l->memory, u32, count);
}

/* ---- tokens ---- */

/* The token of that text, which is new where there is none. */
static u32 token_of(struct learner *l, struct str text)
{
    u64 mask = (u64)l->token_slot_count - 1, i = str_hash(text) & mask;
    for (; l->token_slots[i]; i = (i + 1) & mask)
        if (str_eq(l->out->tokens[l->token_slots[i] - 1], text)) return l->token_slots[i] - 1;
    l->out->tokens[l->out->token_count] = text;
    l->token_slots[i]                   = (u32)++l->out->token_count;
    return l->token_slots[i] - 1;
}

/* The special token, then the bytes by their characters' codes. */
static void first_tokens(struct learner *l, struct str special, u32 byte_id[256])
{
    u32 code[256];
    bpe_byte_codes(code);
    if (special.len) token_of(l, special);
    for (u32 c = 0; c < 0x180; c++)
        for (i32 b = 0; b < 256; b++) {
            if (code[b] != c) continue;
            char *text = NEW(l->memory, char, 4);
            byte_id[b] = token_of(l, (struct str){ text, str_utf8_put(text, c) });
        }
}

/* ---- pairs ---- */

static void pairs_rehash(struct learner *l)
{
    i64 count = MAX(2 * l->slot_count, 4096);
    if (count * 4 > l->memory->end - l->memory->begin - 64) l->full = true;
    if (l->full) return;
    l->slot_count = count;
    l->pair_slots = NEW(l->memory, u32, count);
    for (i64 p = 0; p < l->pair_count; p++) {
        u64 i = (l->pairs[p].key * 0x9e3779b97f4a7c15u) >> 20 & (u64)(count - 1);
        while (l->pair_slots[i]) i = (i + 1) & (u64)(count - 1);
        l->pair_slots[i] = (u32)p + 1;
    }
}

static u32 pair_of(struct learner *l, u32 left, u32 right)
{
    u64 key = (u64)left << 32 | right;
    if (2 * l->pair_count >= l->slot_count) pairs_rehash(l);
    l->pairs = grow(l, l->pairs, l->pair_count, &l->pair_room, sizeof *l->pairs);
    if (l->full) return 0;
    u64 mask = (u64)l->slot_count - 1, i = (key * 0x9e3779b97f4a7c15u) >> 20 & mask;
    for (; l->pair_slots[i]; i = (i + 1) & mask)
        if (l->pairs[l->pair_slots[i] - 1].key == key) return l->pair_slots[i] - 1;
    l->pairs[l->pair_count] = (struct pair){ .key = key };
    l->pair_slots[i]        = (u32)++l->pair_count;
    return l->pair_slots[i] - 1;
}

static void change_pair(struct learner *l, u32 left, u32 right, i64 by, u32 word)
{
    u32 p   = pair_of(l, left, right);
    l->seen = grow(l, l->seen, l->seen_count, &l->seen_room, sizeof *l->seen);
    if (l->full) return;
    l->pairs[p].count += by;
    if (by > 0) l->seen[l->seen_count++] = (struct seen){ p, word };
}

/* ---- the heap ---- */

/* More frequent, and of equals the pair of the smaller tokens. */
static bool comes_before(const struct entry *a, const struct entry *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static void heap_push(struct learner *l, struct entry e)
{
    l->heap = grow(l, l->heap, l->heap_count, &l->heap_room, sizeof *l->heap);
    if (l->full) return;
    i64 i = l->heap_count++;
    for (; i > 0 && comes_before(&e, &l->heap[(i - 1) / 2]); i = (i - 1) / 2)
        l->heap[i] = l->heap[(i - 1) / 2];
    l->heap[i] = e;
}

static struct entry heap_pop(struct learner *l)
{
    struct entry top = l->heap[0], last = l->heap[--l->heap_count];
    i64          i = 0;
    for (i64 child = 1; child < l->heap_count; i = child, child = 2 * i + 1) {
        if (child + 1 < l->heap_count && comes_before(&l->heap[child + 1], &l->heap[child]))
            child++;
        if (!comes_before(&l->heap[child], &last)) break;
        l->heap[i] = l->heap[child];
    }
    l->heap[i] = last;
    return top;
}

/* Every pair that grew goes to the heap with the words it grew in, each word once. Those of one word
 * lie together in `seen`. */
static void push_seen(struct learner *l)
{
    l->step++;
    for (i64 i = 0; i < l->seen_count; i++) { /* how many words */
        struct pair *p = &l->pairs[l->seen[i].pair];
        if (p->step == l->step && p->last_word == l->seen[i].word) continue;
        p->words     = p->step == l->step ? p->words + 1 : 1;
        p->step      = l->step;
        p->last_word = l->seen[i].word;
        p->list      = NULL;
    }
    for (i64 i = 0; i < l->seen_count && !l->full; i++) {
        struct pair *p    = &l->pairs[l->seen[i].pair];
        u32          word = l->seen[i].word;
        if (!p->list) {
            p->list  = take_words(l, p->words);
            p->words = 0;
            if (l->full) return;
        }
        if (!p->words || p->list[p->words - 1] != word) p->list[p->words++] = word;
    }
    for (i64 i = 0; i < l->seen_count; i++) {
        struct pair *p = &l->pairs[l->seen[i].pair];
        if (p->list && p->count > 0)
            heap_push(l, (struct entry){ (u64)p->count, p->key, p->list, p->words });
        p->list = NULL; /* once */
    }
    l->seen_count = 0;
}

/* ---- words ---- */

static void set_words(struct learner *l, const struct bpe_count *words, i64 count,
                      const u32 byte_id[256])
{
    l->words = NEW(l->memory, struct word, count);
    for (i64 w = 0; w < count && !l->full; w++) {
        struct str   bytes = words[w].word;
        struct word *to    = &l->words[w];
        *to                = (struct word){ take_words(l, bytes.len), bytes.len, words[w].count };
        if (l->full) return;
        for (i64 i = 0; i < bytes.len; i++) to->symbols[i] = byte_id[(u8)bytes.data[i]];
        for (i64 i = 0; i + 1 < bytes.len; i++)
            change_pair(l, to->symbols[i], to->symbols[i + 1], to->count, (u32)w);
    }
}

/* Every left-right of the word becomes `both`, from the left; the pairs beside it change. */
static void merge_word(struct learner *l, u32 word, u32 left, u32 right, u32 both)
{
    struct word *w  = &l->words[word];
    u32         *s  = w->symbols;
    i64          to = 0;
    for (i64 from = 0; from < w->len; to++) {
        if (s[from] != left || from + 1 == w->len || s[from + 1] != right) {
            s[to] = s[from++];
            continue;
        }
        if (to > 0) {
            change_pair(l, s[to - 1], left, -w->count, word);
            change_pair(l, s[to - 1], both, w->count, word);
        }
        from += 2;
        s[to] = both;
        if (from == w->len) continue;
        change_pair(l, right, s[from], -w->count, word);
        change_pair(l, both, s[from], w->count, word);
    }
    w->len = to;
}

/* ---- all of it ---- */

static bool tell(const struct bpe_train_config *config, i64 tokens)
{
    struct tokenize_progress p = { .tokens = tokens, .tokens_all = config->vocabulary };
    return !config->listener.on_progress ||
           config->listener.on_progress(config->listener.context, &p);
}

static void merge_pair(struct learner *l, const struct entry *top)
{
    u32        left = (u32)(top->key >> 32), right = (u32)top->key;
    struct str text = str_cat(l->memory, l->out->tokens[left], l->out->tokens[right]);
    u32        both = token_of(l, text);
    l->out->merges  = grow(l, l->out->merges, l->out->merge_count, &l->merge_room, sizeof top->key);
    if (l->full) return;
    l->out->merges[l->out->merge_count++] = top->key;
    for (u32 i = 0; i < top->word_count && !l->full; i++)
        merge_word(l, top->words[i], left, right, both);
    push_seen(l);
}

static enum status merge_all(struct learner *l, const struct bpe_train_config *config,
                             struct err *err)
{
    while (l->out->token_count < config->vocabulary && l->heap_count && !l->full) {
        struct entry top   = heap_pop(l);
        u32          p     = pair_of(l, (u32)(top.key >> 32), (u32)top.key);
        u64          count = (u64)l->pairs[p].count;
        if (top.count != count) {
            top.count = count;
            heap_push(l, top);
            continue;
        }
        if (top.count < 1) break;
        merge_pair(l, &top);
        if (l->out->merge_count % 64 == 0 && !tell(config, l->out->token_count))
            return err_set(err, STATUS_INTERRUPTED, "interrupted; nothing was written");
    }
    return STATUS_OK;
}

enum status bpe_train_check(const struct bpe_train_config *config, struct err *err)
{
    i64 tokens_min = 256 + (config->special.len > 0), tokens_max = (i64)1 << 24;
    if (config->vocabulary >= tokens_min && config->vocabulary <= tokens_max) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "--train %lld: a vocabulary has %lld to %lld tokens",
                   (long long)config->vocabulary, (long long)tokens_min, (long long)tokens_max);
}

enum status bpe_learn(const struct bpe_count *words, i64 word_count,
                      const struct bpe_train_config *config, struct arena *memory,
                      struct bpe_learned *out, struct err *err)
{
    struct learner l = { .memory = memory, .out = out };
    u32            byte_id[256];
    enum status    st = bpe_train_check(config, err);
    if (st) return st;
    *out = (struct bpe_learned){ .tokens = NEW(memory, struct str, config->vocabulary) };
    l.token_slot_count = 1024;
    while (l.token_slot_count < 4 * config->vocabulary) l.token_slot_count *= 2;
    l.token_slots = NEW(memory, u32, l.token_slot_count);
    first_tokens(&l, config->special, byte_id);
    set_words(&l, words, word_count, byte_id);
    push_seen(&l);
    st = merge_all(&l, config, err);
    if (l.full)
        st = err_set(err, STATUS_USAGE,
                     "too many different words for the memory; train on a sample");
    return st;
}
