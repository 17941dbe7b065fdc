/* gguf_tokens.c - the tokenizer of a folder as keys of a .gguf: tokens by number, merges or scores, what each token is,
 * which begin and end a text, the chat template.
 *
 * llama.cpp splits text by expressions that it knows by name, and merges characters (SentencePiece) by the score of
 * what a merge makes: the rank of that merge, negative. */
#include "base/json.h"
#include "data/bpe.h"
#include "infer/gguf_int.h"

enum token_kind { /* as the file numbers them */
                  TOKEN_NORMAL  = 1,
                  TOKEN_UNKNOWN = 2,
                  TOKEN_CONTROL = 3,
                  TOKEN_USER    = 4,
                  TOKEN_UNUSED  = 5,
                  TOKEN_BYTE    = 6
};

struct vocabulary {
    struct str    folder;
    struct os    *os;
    struct arena *memory;
    struct json  *root; /* of tokenizer.json */
    struct bpe   *bpe;
    i64           count;
    struct str   *texts;
    i32          *kinds;
    f32          *scores;
    struct err   *err;
};

static struct json *read_json(struct vocabulary *v, const char *name)
{
    struct str   path = str_fmt(v->memory, "%.*s/%s", STR_ARG(v->folder), name), text;
    struct json *root;
    struct err   ignored = { 0 };
    if (!os_is_file(v->os, path) || os_read_all(v->os, path, v->memory, &text, &ignored) ||
        json_parse(v->memory, text, &root, &ignored))
        return NULL;
    return root;
}

static bool is_byte(struct str text)
{
    return text.len == 6 && str_starts(text, STR("<0x")) && text.data[5] == '>';
}

static enum status put(struct vocabulary *v, i64 id, struct str text, enum token_kind kind)
{
    if (id < 0 || id >= v->count)
        return err_set(v->err, STATUS_USAGE,
                       "token %.*s has the number %lld, and the model has %lld rows of embeddings",
                       STR_ARG(text), (long long)id, (long long)v->count);
    v->texts[id] = text;
    v->kinds[id] = (i32)kind;
    return STATUS_OK;
}

static enum status read_tokens(struct vocabulary *v)
{
    const struct json *model = json_get(v->root, STR("model"));
    const struct json *vocab = json_get(model, STR("vocab"));
    const struct json *added = json_get(v->root, STR("added_tokens"));
    enum status        st    = STATUS_OK;
    i64                id;
    for (i64 i = 0; i < v->count; i++) {
        v->texts[i] = str_fmt(v->memory, "[PAD%lld]", (long long)i);
        v->kinds[i] = TOKEN_UNUSED;
    }
    for (const struct json *t = vocab->first; !st && t; t = t->next) {
        enum token_kind kind = v->bpe->chars && is_byte(t->key) ? TOKEN_BYTE : TOKEN_NORMAL;
        if (json_i64(t, &id)) st = put(v, id, t->key, kind);
    }
    for (const struct json *t = added ? added->first : NULL; !st && t; t = t->next) {
        const struct json *text = json_get(t, STR("content")), *special;
        special                 = json_get(t, STR("special"));
        bool is_special         = special && str_eq(special->text, STR("true"));
        if (text && json_i64(json_get(t, STR("id")), &id))
            st = put(v, id, text->text, is_special ? TOKEN_CONTROL : TOKEN_USER);
    }
    if (!st && v->bpe->unknown >= 0 && v->bpe->chars) v->kinds[v->bpe->unknown] = TOKEN_UNKNOWN;
    return st;
}

/* "left right", as the file has it or as a list of two. */
static struct str merge_text(struct vocabulary *v, const struct json *m)
{
    if (m->kind != JSON_LIST || m->count != 2) return m->text;
    return str_fmt(v->memory, "%.*s %.*s", STR_ARG(m->first->text), STR_ARG(m->first->next->text));
}

static void add_merges(struct gguf_keys *k, struct vocabulary *v)
{
    const struct json *merges = json_get(json_get(v->root, STR("model")), STR("merges"));
    gguf_list(k, "tokenizer.ggml.merges", KIND_STRING, merges ? merges->count : 0);
    for (const struct json *m = merges ? merges->first : NULL; m; m = m->next)
        gguf_item_text(k, merge_text(v, m));
}

/* The lower the rank of the merge that makes a token, the higher its score. */
static void score(struct vocabulary *v)
{
    const struct bpe *b = v->bpe;
    for (u64 i = 0; b->merges && i <= b->merge_mask; i++) {
        const struct bpe_merge *m = &b->merges[i];
        if (m->pair == UINT64_MAX || (i64)m->id >= v->count) continue;
        f32 s = -(f32)m->rank - 1;
        if (v->scores[m->id] == 0 || s > v->scores[m->id]) v->scores[m->id] = s;
    }
}

static void add_tokens(struct gguf_keys *k, struct vocabulary *v)
{
    gguf_list(k, "tokenizer.ggml.tokens", KIND_STRING, v->count);
    for (i64 i = 0; i < v->count; i++) gguf_item_text(k, v->texts[i]);
    gguf_list(k, "tokenizer.ggml.token_type", KIND_I32, v->count);
    gguf_item(k, v->kinds, v->count * (i64)sizeof *v->kinds);
    if (!v->bpe->chars) return;
    score(v);
    gguf_list(k, "tokenizer.ggml.scores", KIND_F32, v->count);
    gguf_item(k, v->scores, v->count * (i64)sizeof *v->scores);
}

/* The token that a key of tokenizer_config.json names, as text or as a map with "content"; -1: none. */
static i64 named(const struct vocabulary *v, const struct json *config, const char *key)
{
    const struct json *t = config ? json_get(config, str_of(key)) : NULL;
    if (t && t->kind == JSON_MAP) t = json_get(t, STR("content"));
    for (i64 i = 0; t && t->kind == JSON_STRING && i < v->count; i++)
        if (str_eq(v->texts[i], t->text)) return i;
    return -1;
}

/* The number under a key of config.json, the first of several; -1: none. */
static i64 numbered(const struct vocabulary *v, const struct json *config, const char *key)
{
    const struct json *t = config ? json_get(config, str_of(key)) : NULL;
    i64                id;
    if (t && t->kind == JSON_LIST) t = t->first;
    return t && json_i64(t, &id) && id >= 0 && id < v->count ? id : -1;
}

static void add_special(struct gguf_keys *k, struct vocabulary *v)
{
    static const struct {
        const char *key, *word, *number;
    } all[] = {
        { "tokenizer.ggml.bos_token_id", "bos_token", "bos_token_id" },
        { "tokenizer.ggml.eos_token_id", "eos_token", "eos_token_id" },
        { "tokenizer.ggml.padding_token_id", "pad_token", "pad_token_id" },
    };
    const struct json *words = read_json(v, "tokenizer_config.json");
    const struct json *model = read_json(v, "config.json");
    for (i64 i = 0; i < COUNT_OF(all); i++) {
        i64 id = named(v, words, all[i].word);
        if (id < 0) id = numbered(v, model, all[i].number);
        if (id >= 0) gguf_u32(k, all[i].key, id);
    }
    if (v->bpe->chars && v->bpe->unknown >= 0)
        gguf_u32(k, "tokenizer.ggml.unknown_token_id", v->bpe->unknown);
    gguf_flag(k, "tokenizer.ggml.add_bos_token", v->bpe->before_count > 0);
    gguf_flag(k, "tokenizer.ggml.add_eos_token", v->bpe->after_count > 0);
    if (v->bpe->chars)
        gguf_flag(k, "tokenizer.ggml.add_space_prefix", v->bpe->prepend != PREPEND_NEVER);
    const struct json *chat = words ? json_get(words, STR("chat_template")) : NULL;
    if (chat && chat->kind == JSON_STRING) gguf_text(k, "tokenizer.chat_template", chat->text);
}

enum status gguf_tokenizer(struct gguf_keys *k, struct os *os, struct str folder, i64 vocabulary,
                           struct arena *memory, struct err *err)
{
    static const char *const splits[PRESPLIT_COUNT] = { [PRESPLIT_GPT2]   = "gpt-2",
                                                        [PRESPLIT_LLAMA3] = "llama-bpe",
                                                        [PRESPLIT_QWEN2]  = "qwen2",
                                                        [PRESPLIT_SMOLLM] = "smollm" };
    struct vocabulary v = { folder, os, memory, NULL, NULL, vocabulary, NULL, NULL, NULL, err };
    enum status       st;
    if (folder.len) v.root = read_json(&v, "tokenizer.json");
    if (!v.root) {
        gguf_text(k, "tokenizer.ggml.model", STR("no_vocab"));
        return STATUS_OK;
    }
    st = bpe_open(os, folder, memory, &v.bpe, err);
    if (!st && v.bpe->wordpiece)
        st = err_set(err, STATUS_USAGE, "%.*s: word pieces are not written as GGUF",
                     STR_ARG(folder));
    if (st) return st;
    v.texts  = NEW(memory, struct str, vocabulary);
    v.kinds  = NEW(memory, i32, vocabulary);
    v.scores = NEW(memory, f32, vocabulary);
    st       = read_tokens(&v);
    if (st) return st;
    gguf_text(k, "tokenizer.ggml.model", v.bpe->chars ? STR("llama") : STR("gpt2"));
    gguf_text(k, "tokenizer.ggml.pre",
              v.bpe->chars ? STR("default") : str_of(splits[v.bpe->split]));
    add_tokens(k, &v);
    if (!v.bpe->chars) add_merges(k, &v);
    add_special(k, &v);
    return STATUS_OK;
}
