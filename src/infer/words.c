/* words.c - text to tokens and back. */
#include "infer/words.h"
#include "data/data.h"
#include "data/tokenize.h"

enum {
    VISITS_MAX = 1 << 14
}; /* merges in one token: those of a broken file may go round in a circle */

bool words_find(struct os *os, const struct settings *s, struct arena *perm, struct str *path)
{
    static const char *const names[] = { "tokenizer.json", "vocab.json" };
    *path                            = STR("");
    if (str_eq(s->data.kind, STR("text"))) return true;
    if (s->data.tokenizer.len) return *path = s->data.tokenizer, true;
    for (i64 i = 0; s->model.path.len && i < COUNT_OF(names); i++) {
        struct str file = str_fmt(perm, "%.*s/%s", STR_ARG(s->model.path), names[i]);
        if (os_is_file(os, file)) return *path = s->model.path, true;
    }
    return s->data.path.len && str_eq(data_kind(os, &s->data), STR("text"));
}

enum status words_open(struct words *w, struct os *os, struct str path, struct arena *perm,
                       struct err *err)
{
    *w = (struct words){ 0 };
    if (!path.len) return STATUS_OK;
    enum status st = bpe_open(os, path, perm, &w->bpe, err);
    if (st) return st;
    w->coder = bpe_coder_new(perm, w->bpe);
    if (w->bpe->chars) return STATUS_OK; /* it keeps its tokens' texts */
    i64 count = w->bpe->vocabulary;
    w->left   = NEW(perm, u32, count);
    w->right  = NEW(perm, u32, count);
    for (i64 i = 0; i < count; i++) w->left[i] = w->right[i] = UINT32_MAX;
    for (u64 i = 0; i <= w->bpe->merge_mask; i++) {
        const struct bpe_merge *m = &w->bpe->merges[i];
        if (m->pair == UINT64_MAX) continue;
        w->left[m->id]  = (u32)(m->pair >> 32);
        w->right[m->id] = (u32)m->pair;
    }
    return STATUS_OK;
}

enum status words_encode(const struct words *w, struct str text, enum words_around around,
                         i64 vocabulary, i32 *to, i64 *count, struct arena scratch, struct err *err)
{
    *count = text.len;
    if (!w->bpe) {
        for (i64 i = 0; i < text.len; i++) to[i] = (i32)(u8)text.data[i];
    } else {
        u32        *ids    = NEW(&scratch, u32, tokens_max(text.len));
        i64         before = around == WORDS_ALONE ? 0 : w->bpe->before_count;
        enum status st     = bpe_encode(w->coder, text, true, ids, count, err);
        if (st) return st;
        for (i64 i = 0; i < before; i++) to[i] = (i32)w->bpe->before[i];
        for (i64 i = 0; i < *count; i++) to[before + i] = (i32)ids[i];
        *count += before;
    }
    for (i64 i = 0; i < *count; i++)
        if (to[i] >= vocabulary)
            return err_set(err, STATUS_USAGE,
                           "the text has the token %lld, and the model's vocabulary has %lld: is "
                           "this its tokenizer?",
                           (long long)to[i], (long long)vocabulary);
    return STATUS_OK;
}

static void add_token(const struct words *w, u32 token, struct textbuf *b, i64 *visits)
{
    if (++*visits > VISITS_MAX) return;
    if (w->left[token] != UINT32_MAX) {
        add_token(w, w->left[token], b, visits);
        add_token(w, w->right[token], b, visits);
        return;
    }
    for (i32 i = 0; i < 256; i++) {
        char byte = (char)i;
        if (w->bpe->byte_id[i] == token) textbuf_add(b, (struct str){ &byte, 1 });
    }
}

static const struct bpe_added *added(const struct words *w, i64 token)
{
    for (i64 i = 0; w->bpe && i < w->bpe->added_count; i++)
        if (w->bpe->added[i].id == token) return &w->bpe->added[i];
    return NULL;
}

/* Of characters: U+2581 is a blank, and <0x0A> a byte. */
static struct str text_of(const struct bpe *b, u32 token, struct arena *perm)
{
    struct str     rest = b->texts[token], blank = STR("\xE2\x96\x81");
    struct textbuf out = textbuf_new(perm);
    for (i32 i = 0; i < 256; i++) {
        char byte = (char)i;
        if (b->byte_id[i] == token && b->byte_fallback)
            return str_copy(perm, (struct str){ &byte, 1 });
    }
    while (rest.len) {
        bool is = str_starts(rest, blank);
        textbuf_add(&out, is ? STR(" ") : str_sub(rest, 0, 1));
        rest = str_sub(rest, is ? blank.len : 1, rest.len);
    }
    return textbuf_str(&out);
}

struct str words_of(const struct words *w, i64 token, struct arena *perm)
{
    char                    byte = (char)token;
    const struct bpe_added *a    = added(w, token);
    if (!w->bpe) return token < 256 ? str_copy(perm, (struct str){ &byte, 1 }) : STR("");
    if (a) return a->special ? STR("") : a->text;
    if (token >= w->bpe->vocabulary) return STR("");
    if (w->bpe->chars) return text_of(w->bpe, (u32)token, perm);
    struct textbuf b      = textbuf_new(perm);
    i64            visits = 0;
    add_token(w, (u32)token, &b, &visits);
    return textbuf_str(&b);
}

bool words_ends(const struct words *w, i64 token)
{
    for (i64 i = 0; i < w->end_count; i++)
        if (w->ends[i] == token) return true;
    return w->bpe && token >= 0 && bpe_is_end(w->bpe, (u32)token);
}

void words_add_end(struct words *w, i64 token)
{
    if (token >= 0 && w->end_count < WORDS_ENDS_MAX) w->ends[w->end_count++] = (u32)token;
}

i64 words_token(const struct words *w, struct str text)
{
    u32 id;
    return w->bpe && text.len && bpe_find_added(w->bpe, text, &id) ? (i64)id : -1;
}
