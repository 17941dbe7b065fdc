/* bpe_kinds.c - tokenizer.json of the other kinds: SentencePiece's byte pair encoding as Llama 2 and Mistral have it,
 * BERT's word pieces; and the special tokens that a model finds around a text. */
#include "data/bpe_int.h"
#include "data/wordpiece.h"
#include <string.h>

static const struct str blank = STR_INIT("\xE2\x96\x81"); /* U+2581 */

static struct str text_of(const struct json *v, const char *key)
{
    const struct json *t = json_get(v, str_of(key));
    return t && t->kind == JSON_STRING ? t->text : STR("");
}

static bool is_missing(const struct json *v) { return !v || v->kind == JSON_NULL; }

/* ---- SentencePiece ---- */

bool is_sentencepiece(const struct json *root)
{
    const struct json *pre = json_get(root, STR("pre_tokenizer"));
    return str_eq(type_name(json_get(root, STR("model"))), STR("BPE")) &&
           (is_missing(pre) || str_eq(type_name(pre), STR("Metaspace")));
}

/* Prepend U+2581, and Replace each blank by it: both, or the second alone. */
static enum status read_blanks(struct reader *r, const struct json *v)
{
    struct bpe *b = r->bpe;
    if (str_eq(type_name(v), STR("Sequence"))) {
        const struct json *list = json_get(v, STR("normalizers"));
        enum status        st   = STATUS_OK;
        for (v = list ? list->first : NULL; v && !st; v = v->next) st = read_blanks(r, v);
        return st;
    }
    if (str_eq(type_name(v), STR("Prepend")) && !b->blanks &&
        str_eq(text_of(v, "prepend"), blank)) {
        b->prepend = PREPEND_EACH;
        return STATUS_OK;
    }
    if (str_eq(type_name(v), STR("Replace")) && str_eq(text_of(v, "content"), blank) &&
        str_eq(text_of(json_get(v, STR("pattern")), "String"), STR(" "))) {
        b->blanks = b->normal_blanks = true;
        return STATUS_OK;
    }
    return reader_refuse(
        r, "text would have to be normalised in a way that is not supported: ", type_name(v));
}

static enum status read_metaspace(struct reader *r, const struct json *v)
{
    struct bpe *b      = r->bpe;
    struct str  scheme = text_of(v, "prepend_scheme");
    if (!str_eq(text_of(v, "replacement"), blank) || b->blanks || b->prepend)
        return reader_refuse(r, "a Metaspace pre_tokenizer with these settings is not supported",
                             STR(""));
    b->blanks       = true;
    b->split_blanks = !json_is(json_get(v, STR("split")), STR("false"));
    b->prepend      = str_eq(scheme, STR("never"))   ? PREPEND_NEVER
                      : str_eq(scheme, STR("first")) ? PREPEND_FIRST
                                                     : PREPEND_MISSING;
    if (!scheme.len && json_is(json_get(v, STR("add_prefix_space")), STR("false")))
        b->prepend = PREPEND_NEVER;
    return STATUS_OK;
}

static void read_byte_tokens(struct reader *r)
{
    for (i32 i = 0; i < 256; i++) {
        struct arena scratch = r->scratch;
        struct str   name    = str_fmt(&scratch, "<0x%02X>", (unsigned)i);
        if (!token_find(r, name, &r->bpe->byte_id[i])) r->bpe->byte_id[i] = UINT32_MAX;
    }
}

/* Merges go across blanks, so that a text is one word; but not across a line's end where no longer token has one, and
 * it is a token itself. */
static bool lines_are_apart(const struct reader *r)
{
    u32 id;
    for (u64 i = 0; i <= r->token_mask; i++) {
        struct str text = r->tokens[i].text;
        if (text.len > 1 && str_find(text, '\n') >= 0) return false;
    }
    return token_find(r, STR("\n"), &id) ||
           (r->bpe->byte_fallback && r->bpe->byte_id['\n'] != UINT32_MAX);
}

/* For what is written by a model: the text of each token. */
static void keep_texts(struct reader *r)
{
    struct str *texts = NEW(r->perm, struct str, r->bpe->vocabulary);
    for (u64 i = 0; i <= r->token_mask; i++)
        if (r->tokens[i].text.data) texts[r->tokens[i].id] = str_copy(r->perm, r->tokens[i].text);
    r->bpe->texts = texts;
}

enum status read_sentencepiece(struct reader *r, const struct json *root)
{
    struct bpe        *b       = r->bpe;
    const struct json *model   = json_get(root, STR("model"));
    const struct json *normal  = json_get(root, STR("normalizer"));
    const struct json *pre     = json_get(root, STR("pre_tokenizer"));
    const struct json *unknown = json_get(model, STR("unk_token"));
    enum status        st      = STATUS_OK;
    u32                id;
    b->chars         = true;
    b->unknown       = -1;
    b->byte_fallback = json_is(json_get(model, STR("byte_fallback")), STR("true"));
    b->fuse_unknown  = json_is(json_get(model, STR("fuse_unk")), STR("true"));
    if (!is_missing(normal)) st = read_blanks(r, normal);
    if (!st && !is_missing(pre)) st = read_metaspace(r, pre);
    if (!st && !b->blanks)
        st =
            reader_refuse(r,
                          "only byte-level vocabularies and those that write a blank as U+2581 are "
                          "supported",
                          STR(""));
    if (!st) st = read_tokens(r, json_get(model, STR("vocab")));
    if (!st && !is_null_or_empty(unknown) && !token_find(r, unknown->text, &id))
        st = reader_refuse(r, "the vocabulary lacks its unknown token ", unknown->text);
    if (st) return st;
    if (!is_null_or_empty(unknown)) b->unknown = id;
    read_byte_tokens(r);
    b->cuts.at_lines = lines_are_apart(r);
    make_words(r);
    keep_texts(r);
    return read_merge_list(r, json_get(model, STR("merges")));
}

/* ---- word pieces ---- */

static bool flag_of(const struct json *v, const char *key, bool usual)
{
    const struct json *f = json_get(v, str_of(key));
    return is_missing(f) ? usual : json_is(f, STR("true"));
}

static enum status read_bert_normalizer(struct reader *r, const struct json *v, struct wordpiece *w)
{
    if (is_missing(v)) return STATUS_OK;
    if (!str_eq(type_name(v), STR("BertNormalizer")))
        return reader_refuse(
            r, "text would have to be normalised in a way that is not supported: ", type_name(v));
    w->is_normal = true;
    w->clean     = flag_of(v, "clean_text", true);
    w->spaced    = flag_of(v, "handle_chinese_chars", true);
    w->lower     = flag_of(v, "lowercase", true);
    w->strip     = flag_of(v, "strip_accents", w->lower);
    return STATUS_OK;
}

enum status read_wordpiece(struct reader *r, const struct json *root)
{
    struct wordpiece  *w       = NEW(r->perm, struct wordpiece, 1);
    const struct json *model   = json_get(root, STR("model"));
    const struct json *pre     = json_get(root, STR("pre_tokenizer"));
    const struct json *longest = json_get(model, STR("max_input_chars_per_word"));
    struct str         unknown = text_of(model, "unk_token");
    enum status        st      = read_bert_normalizer(r, json_get(root, STR("normalizer")), w);
    if (!st && !str_eq(type_name(pre), STR("BertPreTokenizer")))
        st = reader_refuse(r, "WordPiece is supported with BertPreTokenizer, not with ",
                           type_name(pre));
    w->chars_max = 100;
    if (!st && !is_missing(longest) && (!json_i64(longest, &w->chars_max) || w->chars_max < 1))
        st = reader_refuse(r, "model.max_input_chars_per_word is not a number above 0", STR(""));
    w->prefix = str_copy(r->perm, text_of(model, "continuing_subword_prefix"));
    if (!st && w->prefix.len > 16)
        st = reader_refuse(r, "a prefix of parts of words of at most 16 bytes is supported",
                           STR(""));
    if (!st) st = read_tokens(r, json_get(model, STR("vocab")));
    if (!st && !token_find(r, unknown, &w->unknown))
        st = reader_refuse(r, "the vocabulary lacks its unknown token ", unknown);
    if (st) return st;
    w->kinds              = wordpiece_kinds(r->perm);
    w->nfc                = w->strip ? nfc_new(r->perm) : NULL;
    r->bpe->chars         = true; /* tokens are text, not bytes written as characters */
    r->bpe->wordpiece     = w;
    r->bpe->cuts.at_lines = true;                              /* a line ends a word, too */
    r->bpe->merges        = NEW(r->perm, struct bpe_merge, 1); /* none */
    r->bpe->merges->pair  = UINT64_MAX;
    make_words(r);
    keep_texts(r);
    return STATUS_OK;
}

bool changes_added(const struct reader *r, struct str text)
{
    const struct bpe *b       = r->bpe;
    struct arena      scratch = r->scratch;
    if (b->wordpiece) return !str_eq(wordpiece_normal(b->wordpiece, text, &scratch), text);
    if (b->normal_blanks) return b->prepend == PREPEND_EACH || str_find(text, ' ') >= 0;
    return b->nfc && !nfc_is(b->nfc, text);
}

/* ---- around a text ---- */

static enum status add_around(struct reader *r, bool behind, i64 id)
{
    struct bpe *b     = r->bpe;
    i64        *count = behind ? &b->after_count : &b->before_count;
    if (id < 0 || id >= b->vocabulary || *count == BPE_AROUND_MAX)
        return reader_refuse(
            r,
            "post_processor puts more than 8 tokens around a text, or some that the "
            "vocabulary lacks",
            STR(""));
    (behind ? b->after : b->before)[(*count)++] = (u32)id;
    return STATUS_OK;
}

/* {"SpecialToken": {"id": "[CLS]"}}, {"Sequence": {"id": "A"}}, …; special_tokens has their numbers. */
static enum status read_template(struct reader *r, const struct json *v)
{
    const struct json *single = json_get(v, STR("single")),
                      *ids    = json_get(v, STR("special_tokens"));
    enum status st            = STATUS_OK;
    bool        behind        = false;
    for (const struct json *part = single ? single->first : NULL; part && !st; part = part->next) {
        const struct json *special = json_get(part, STR("SpecialToken"));
        if (!special) {
            behind = true;
            continue;
        }
        const struct json *list = json_get(json_get(ids, text_of(special, "id")), STR("ids"));
        for (const struct json *id = list ? list->first : NULL; id && !st; id = id->next) {
            i64 number = -1;
            if (json_i64(id, &number)) st = add_around(r, behind, number);
        }
    }
    return st;
}

static enum status read_pair(struct reader *r, const struct json *v, const char *key, bool behind)
{
    const struct json *pair = json_get(v, str_of(key));
    i64                id   = -1;
    if (!pair || pair->count != 2 || !json_i64(pair->first->next, &id)) id = -1;
    return add_around(r, behind, id);
}

enum status read_post_processor(struct reader *r, const struct json *v)
{
    struct str  type = type_name(v);
    enum status st   = STATUS_OK;
    if (is_missing(v) || str_eq(type, STR("ByteLevel"))) return STATUS_OK;
    if (str_eq(type, STR("TemplateProcessing"))) return read_template(r, v);
    if (str_eq(type, STR("BertProcessing")) || str_eq(type, STR("RobertaProcessing"))) {
        st = read_pair(r, v, "cls", false);
        return st ? st : read_pair(r, v, "sep", true);
    }
    if (!str_eq(type, STR("Sequence")))
        return reader_refuse(r, "a post_processor of this type is not supported: ", type);
    const struct json *list = json_get(v, STR("processors"));
    for (v = list ? list->first : NULL; v && !st;
         v = v->next) /* one inside another is none of theirs */
        st = str_eq(type_name(v), STR("Sequence")) ? STATUS_OK : read_post_processor(r, v);
    return st;
}
