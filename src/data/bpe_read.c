/* bpe_read.c - vocabularies as others write them: GPT-2's two files, and Hugging Face's tokenizer.json.
 *
 * In all of them a token is text in which every byte is a character (bpe_byte_codes). Only what is known
 * to mean what our scanners and merges do is accepted; fields that cannot change the tokens of a
 * text (decoder, truncation, padding) are not looked at. */
#include "base/hash.h"
#include "data/bpe_int.h"
#include <stdlib.h>
#include <string.h>

static const i64 file_bytes_max = (i64)256 << 20;
static const i64 token_id_max   = (1 << 24) - 1;
enum { ADDED_MAX = 8192 };

enum status reader_refuse(struct reader *r, const char *what, struct str detail)
{
    return err_set(r->err, STATUS_USAGE, "%.*s: %s%.*s", STR_ARG(r->name), what,
                   (int)MIN(detail.len, 120), detail.data);
}

/* ---- tokens ---- */

static struct token *token_slot(const struct reader *r, struct str text)
{
    u64 i = str_hash(text) & r->token_mask;
    while (r->tokens[i].text.data && !str_eq(r->tokens[i].text, text)) i = (i + 1) & r->token_mask;
    return &r->tokens[i];
}

bool token_find(const struct reader *r, struct str text, u32 *id)
{
    const struct token *t = token_slot(r, text);
    if (t->text.data) *id = t->id;
    return t->text.data;
}

static u64 table_mask(i64 count) /* of a table at most half full */
{
    u64 slots = 16;
    while ((i64)slots < 2 * count) slots *= 2;
    return slots - 1;
}

/* No two tokens may have one id: which of them a merge made could not be told. */
static enum status check_ids(struct reader *r)
{
    struct arena scratch = r->scratch;
    u8          *seen    = NEW(&scratch, u8, r->bpe->vocabulary);
    for (u64 i = 0; i <= r->token_mask; i++) {
        if (!r->tokens[i].text.data) continue;
        if (seen[r->tokens[i].id]++)
            return reader_refuse(r, "two tokens have the same number; one of them is ",
                                 r->tokens[i].text);
    }
    return STATUS_OK;
}

enum status read_tokens(struct reader *r, const struct json *vocab)
{
    if (!vocab || vocab->kind != JSON_MAP)
        return reader_refuse(r, "not a map of tokens to numbers", STR(""));
    r->token_mask = table_mask(vocab->count);
    r->tokens     = NEW(&r->scratch, struct token, (i64)r->token_mask + 1);
    for (const struct json *v = vocab->first; v; v = v->next) {
        i64 id;
        if (!json_i64(v, &id) || id < 0 || id > token_id_max)
            return reader_refuse(
                r, "the number of this token is not a whole number below 2^24: ", v->key);
        struct str text      = v->key.len ? v->key : STR("");
        *token_slot(r, text) = (struct token){ text, (u32)id };
        r->bpe->vocabulary   = MAX(r->bpe->vocabulary, id + 1);
    }
    r->token_count = vocab->count;
    return check_ids(r);
}

static enum status read_bytes(struct reader *r)
{
    u32 code[256];
    bpe_byte_codes(code);
    for (i32 b = 0; b < 256; b++) {
        char text[4];
        r->byte_of[code[b]] = (u8)b;
        r->is_byte[code[b]] = true;
        struct str s        = { text, str_utf8_put(text, code[b]) };
        if (!token_find(r, s, &r->bpe->byte_id[b]))
            return reader_refuse(r, "not a byte-level vocabulary: it lacks the token ", s);
    }
    return STATUS_OK;
}

/* A token's bytes; false: it has characters that stand for none, and no text becomes it. */
static bool token_bytes(const struct reader *r, struct str text, char *to, i64 *len)
{
    *len = 0;
    for (i64 at = 0, end; at < text.len; at = end) {
        const u8 *p = (const u8 *)text.data + at;
        end         = str_utf8_end(text, at);
        u32 code    = end - at == 1 ? p[0] : (u32)(p[0] & 0x1F) << 6 | (p[1] & 0x3Fu);
        if (end - at > 2 || code >= CODES || !r->is_byte[code]) return false;
        to[(*len)++] = (char)r->byte_of[code];
    }
    return true;
}

void make_words(struct reader *r)
{
    struct bpe *b = r->bpe;
    b->word_mask  = table_mask(r->token_count);
    b->words      = NEW(r->perm, struct bpe_word, (i64)b->word_mask + 1);
    for (u64 i = 0; i <= r->token_mask; i++) {
        struct token t = r->tokens[i];
        if (!t.text.data) continue;
        char      *to   = NEW(r->perm, char, t.text.len + 1);
        struct str word = { to, 0 };
        if (b->chars) memcpy(to, t.text.data, (size_t)(word.len = t.text.len));
        else if (!token_bytes(r, t.text, to, &word.len)) continue;
        b->word_bytes_max = MAX(b->word_bytes_max, word.len);
        u64 at            = str_hash(word) & b->word_mask;
        while (b->words[at].bytes.data) at = (at + 1) & b->word_mask;
        b->words[at] = (struct bpe_word){ word, t.id };
    }
}

/* ---- merges ---- */

static void merges_new(struct reader *r, i64 count)
{
    struct bpe *b = r->bpe;
    b->merge_mask = table_mask(count);
    b->merges     = NEW(r->perm, struct bpe_merge, (i64)b->merge_mask + 1);
    for (u64 i = 0; i <= b->merge_mask; i++) b->merges[i].pair = UINT64_MAX;
}

/* Of a pair that comes twice the later rank holds, as with Hugging Face. */
static enum status add_merge(struct reader *r, struct str left, struct str right, i64 rank)
{
    struct bpe  *b       = r->bpe;
    struct arena scratch = r->scratch;
    struct str   both    = str_cat(&scratch, left, right);
    u32          l, m, id;
    if (!token_find(r, left, &l))
        return reader_refuse(r, "a merge of something that is not a token: ", left);
    if (!token_find(r, right, &m))
        return reader_refuse(r, "a merge of something that is not a token: ", right);
    if (!token_find(r, both, &id))
        return reader_refuse(r, "a merge into something that is not a token: ", both);
    u64 pair                 = (u64)l << 32 | m;
    *bpe_merge_slot(b, pair) = (struct bpe_merge){ pair, (u32)rank, id };
    return STATUS_OK;
}

static enum status add_merge_line(struct reader *r, struct str line, i64 rank)
{
    i64        blank = str_find(line, ' ');
    struct str left = str_sub(line, 0, blank), right = str_sub(line, blank + 1, line.len);
    if (blank < 0 || str_find(right, ' ') >= 0)
        return reader_refuse(r, "expected a merge of two tokens with a space between them, not ",
                             line);
    return add_merge(r, left, right, rank);
}

static enum status read_merge_lines(struct reader *r, struct str text)
{
    enum status st    = STATUS_OK;
    i64         count = 0;
    struct str  line;
    for (i64 i = 0; i < text.len; i++) count += text.data[i] == '\n';
    merges_new(r, count + 1);
    for (i64 rank = 0; !st && str_cut(&text, '\n', &line);) {
        if (str_ends(line, STR("\r"))) line = str_sub(line, 0, line.len - 1);
        if (str_starts(line, STR("#version")) || (!line.len && !text.len)) continue;
        st = add_merge_line(r, line, rank++);
    }
    return st;
}

enum status read_merge_list(struct reader *r, const struct json *list)
{
    enum status st   = STATUS_OK;
    i64         rank = 0;
    if (!list || list->kind != JSON_LIST)
        return reader_refuse(r, "model.merges is not a list", STR(""));
    merges_new(r, list->count);
    for (const struct json *v = list->first; v && !st; v = v->next, rank++) {
        const struct json *left = v->first, *right = left ? left->next : NULL;
        if (v->kind == JSON_STRING) st = add_merge_line(r, v->text, rank);
        else if (v->kind == JSON_LIST && v->count == 2 && left->kind == JSON_STRING &&
                 right->kind == JSON_STRING)
            st = add_merge(r, left->text, right->text, rank);
        else st = reader_refuse(r, "a member of model.merges is not a pair of tokens", STR(""));
    }
    return st;
}

/* ---- added tokens ---- */

static int by_first_byte_longest(const void *a, const void *b)
{
    const struct bpe_added *x = a, *y = b;
    int                     first = (u8)x->text.data[0] - (u8)y->text.data[0];
    if (first) return first;
    return x->text.len < y->text.len ? 1 : x->text.len > y->text.len ? -1 : 0;
}

static void finish_added(struct bpe *b)
{
    i16 at = 0;
    if (!b->chars) b->cuts = (struct presplit_cuts){ true, true };
    if (b->added_count)
        qsort(b->added, (size_t)b->added_count, sizeof *b->added, by_first_byte_longest);
    for (i32 byte = 0; byte <= 256; byte++) {
        while (at < b->added_count && (u8)b->added[at].text.data[0] < byte) at++;
        b->added_first[byte] = at;
    }
    b->added_byte = -1;
    if (at && b->added[0].text.data[0] == b->added[at - 1].text.data[0])
        b->added_byte = (u8)b->added[0].text.data[0];
    /* No cut may fall inside an added token, nor, where pieces get a blank before them, behind one. */
    for (i64 i = 0; i < b->added_count; i++) {
        struct str text   = b->added[i].text;
        i64        line   = str_find(text, '\n');
        bool       strips = b->added[i].lstrip || b->added[i].rstrip;
        if (line >= 0 && (line + 1 < text.len || b->prefix_blank)) b->cuts.at_lines = false;
        if (strips) b->cuts = (struct presplit_cuts){ false, false }; /* it takes blanks along */
        if (str_find(str_sub(text, 1, text.len), ' ') >= 0) b->cuts.at_blanks = false;
    }
}

bool json_is(const struct json *v, struct str text)
{
    return v && v->kind == JSON_BOOL && str_eq(v->text, text);
}

bool is_null_or_empty(const struct json *v)
{
    return !v || v->kind == JSON_NULL || (v->kind == JSON_STRING && !v->text.len);
}

/* The number that Hugging Face gives it when it opens the file: the vocabulary's or the next free. */
static u32 added_id(const struct reader *r, struct str text)
{
    const struct bpe *b   = r->bpe;
    i64               max = -1;
    u32               id;
    if (token_find(r, text, &id)) return id;
    for (i64 i = 0; i < b->added_count; i++) max = MAX(max, (i64)b->added[i].id);
    return (u32)(max >= r->token_count ? max + 1 : r->token_count);
}

static enum status read_added(struct reader *r, const struct json *list)
{
    struct bpe *b = r->bpe;
    if (!list || list->kind == JSON_NULL) return STATUS_OK;
    if (list->kind != JSON_LIST || list->count > ADDED_MAX)
        return reader_refuse(r, "added_tokens is not a list of at most 8192", STR(""));
    b->added = NEW(r->perm, struct bpe_added, list->count);
    for (const struct json *v = list->first; v; v = v->next) {
        const struct json *content = json_get(v, STR("content"));
        i64                id;
        if (!content || content->kind != JSON_STRING || !content->text.len ||
            !json_i64(json_get(v, STR("id")), &id))
            return reader_refuse(r, "an added token has no content or no id", STR(""));
        struct str text = str_copy(r->perm, content->text);
        if (json_is(json_get(v, STR("single_word")), STR("true")))
            return reader_refuse(r, "single_word is not supported, which has the added token ",
                                 text);
        for (i64 i = 0; i < b->added_count; i++)
            if (str_eq(b->added[i].text, text))
                return reader_refuse(r, "this added token is listed twice: ", text);
        if (json_is(json_get(v, STR("normalized")), STR("true")) && changes_added(r, text))
            return reader_refuse(
                r, "an added token that normalising would change is not supported: ", text);
        if (id != (i64)added_id(r, text))
            return reader_refuse(r, "Hugging Face would give another number to the added token ",
                                 text);
        b->vocabulary = MAX(b->vocabulary, id + 1);
        b->added[b->added_count++] =
            (struct bpe_added){ text,
                                (u32)id,
                                json_is(json_get(v, STR("normalized")), STR("true")),
                                json_is(json_get(v, STR("special")), STR("true")),
                                json_is(json_get(v, STR("lstrip")), STR("true")),
                                json_is(json_get(v, STR("rstrip")), STR("true")) };
    }
    return STATUS_OK;
}

/* ---- tokenizer.json ---- */

struct str type_name(const struct json *v)
{
    const struct json *type = json_get(v, STR("type"));
    return type && type->kind == JSON_STRING ? type->text : STR("none");
}

/* ByteLevel alone splits by GPT-2's expression, Digits before it cut their own out first; a Split replaces it. */
static enum status read_byte_level(struct reader *r, const struct json *v, bool splits)
{
    if (!str_eq(type_name(v), STR("ByteLevel")))
        return reader_refuse(r, "only byte-level vocabularies are supported, not pre_tokenizer ",
                             type_name(v));
    bool prefix = !json_is(json_get(v, STR("add_prefix_space")), STR("false"));
    bool regex  = !json_is(json_get(v, STR("use_regex")), STR("false"));
    if (regex != splits || (prefix && !splits))
        return reader_refuse(r, "a ByteLevel pre_tokenizer with these settings is not supported",
                             STR(""));
    r->bpe->prefix_blank = prefix;
    return STATUS_OK;
}

static enum status read_split(struct reader *r, const struct json *v)
{
    const struct json *regex    = json_get(json_get(v, STR("pattern")), STR("Regex"));
    const struct json *behavior = json_get(v, STR("behavior"));
    if (!str_eq(type_name(v), STR("Split")) || !regex || regex->kind != JSON_STRING)
        return reader_refuse(
            r, "only Digits or a Split by a regular expression may stand before ByteLevel, not ",
            type_name(v));
    if (!behavior || !str_eq(behavior->text, STR("Isolated")) ||
        json_is(json_get(v, STR("invert")), STR("true")))
        return reader_refuse(r, "only a Split with behavior Isolated and invert false is supported",
                             STR(""));
    if (!presplit_find(regex->text, &r->bpe->split))
        return reader_refuse(r,
                             "this regular expression of a Split is not supported: ", regex->text);
    return STATUS_OK;
}

static enum status read_digits(struct reader *r, const struct json *v)
{
    if (!json_is(json_get(v, STR("individual_digits")), STR("true")))
        return reader_refuse(r, "Digits is supported only with individual_digits true", STR(""));
    r->bpe->split = PRESPLIT_SMOLLM;
    return STATUS_OK;
}

static enum status read_pre_tokenizer(struct reader *r, const struct json *v)
{
    const struct json *parts = json_get(v, STR("pretokenizers"));
    if (!str_eq(type_name(v), STR("Sequence"))) return read_byte_level(r, v, true);
    if (!parts || parts->count != 2)
        return reader_refuse(
            r, "only a pre_tokenizer of Split and ByteLevel, or Digits and ByteLevel, is supported",
            STR(""));
    bool        digits = str_eq(type_name(parts->first), STR("Digits"));
    enum status st     = digits ? read_digits(r, parts->first) : read_split(r, parts->first);
    if (!st) st = read_byte_level(r, parts->first->next, digits);
    if (!st && digits && r->bpe->prefix_blank)
        st = reader_refuse(r, "Digits before ByteLevel with add_prefix_space is not supported",
                           STR("")); /* each stretch between digits would get one */
    return st;
}

static enum status read_model(struct reader *r, const struct json *model)
{
    const struct json *dropout = json_get(model, STR("dropout"));
    f64                chance  = 0;
    bool               unnamed =
        !json_get(model, STR("type")) && json_get(model, STR("merges")); /* GPT-2's own */
    if (!str_eq(type_name(model), STR("BPE")) && !unnamed)
        return reader_refuse(r, "only BPE is supported, not model ", type_name(model));
    if (!is_null_or_empty(dropout) && (!json_f64(dropout, &chance) || chance != 0))
        return reader_refuse(r, "model.dropout makes tokens random, which is not supported",
                             STR(""));
    if (!is_null_or_empty(json_get(model, STR("continuing_subword_prefix"))) ||
        !is_null_or_empty(json_get(model, STR("end_of_word_suffix"))))
        return reader_refuse(
            r, "continuing_subword_prefix and end_of_word_suffix are not supported", STR(""));
    r->bpe->whole_words = json_is(json_get(model, STR("ignore_merges")), STR("true"));
    enum status st      = read_tokens(r, json_get(model, STR("vocab")));
    if (!st) st = read_bytes(r);
    if (!st) st = read_merge_list(r, json_get(model, STR("merges")));
    if (!st && r->bpe->whole_words) make_words(r);
    return st;
}

static enum status read_normalizer(struct reader *r, const struct json *v)
{
    if (!str_eq(type_name(v), STR("NFC")))
        return reader_refuse(r, "only the normalizer NFC is supported, not ", type_name(v));
    r->bpe->nfc = nfc_new(r->perm);
    return STATUS_OK;
}

static struct reader reader_new(struct str name, i64 bytes, struct arena *perm, struct err *err)
{
    struct reader r = { .name = name, .perm = perm, .err = err };
    r.bpe           = NEW(perm, struct bpe, 1);
    r.bpe->split    = PRESPLIT_GPT2;
    r.bpe->unknown  = -1;
    r.bpe->classes  = char_classes(perm);
    r.scratch =
        arena_open(128 * bytes + 4 * token_id_max); /* address space: a value takes 88 bytes */
    if (!r.scratch.begin) err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    return r;
}

static enum status parse_json(struct reader *r, struct str text, struct json **root)
{
    struct err  why = { 0 };
    enum status st  = json_parse(&r->scratch, text, root, &why);
    return st ? err_set(r->err, st, "%.*s: %s", STR_ARG(r->name), why.text) : STATUS_OK;
}

static enum status read_kind(struct reader *r, const struct json *root)
{
    const struct json *normalizer = json_get(root, STR("normalizer"));
    enum status        st         = STATUS_OK;
    if (str_eq(type_name(json_get(root, STR("model"))), STR("WordPiece")))
        return read_wordpiece(r, root);
    if (is_sentencepiece(root)) return read_sentencepiece(r, root);
    if (normalizer && normalizer->kind != JSON_NULL) st = read_normalizer(r, normalizer);
    if (!st) st = read_pre_tokenizer(r, json_get(root, STR("pre_tokenizer")));
    return st ? st : read_model(r, json_get(root, STR("model")));
}

enum status bpe_parse_tokenizer(struct str name, struct str json, struct arena *perm,
                                struct bpe **out, struct err *err)
{
    struct reader r = reader_new(name, json.len, perm, err);
    struct json  *root;
    if (!r.scratch.begin) return STATUS_WORLD;
    enum status st = parse_json(&r, json, &root);
    if (!st) st = read_kind(&r, root);
    if (!st) st = read_added(&r, json_get(root, STR("added_tokens")));
    if (!st) st = read_post_processor(&r, json_get(root, STR("post_processor")));
    if (!st) finish_added(r.bpe);
    if (!st) r.bpe->hash = sha256_hex(perm, json);
    arena_close(&r.scratch);
    *out = st ? NULL : r.bpe;
    return st;
}

/* ---- GPT-2's two files ---- */

static struct str hash_of_two(struct arena *perm, struct str a, struct str b)
{
    struct sha256 s;
    u8            digest[32];
    sha256_init(&s);
    sha256_add(&s, a);
    sha256_add(&s, b);
    sha256_end(&s, digest);
    return hash_hex(perm, digest, sizeof digest);
}

/* These files name no special token; the one that ends a text is one by custom. */
static void add_end_of_text(struct reader *r)
{
    u32 id;
    if (!token_find(r, STR("<|endoftext|>"), &id)) return;
    r->bpe->added       = NEW(r->perm, struct bpe_added, 1);
    r->bpe->added[0]    = (struct bpe_added){ STR("<|endoftext|>"), id, false, true, false, false };
    r->bpe->added_count = 1;
}

enum status bpe_parse_vocabulary(struct str name, struct str vocab, struct str merges,
                                 struct arena *perm, struct bpe **out, struct err *err)
{
    struct reader r = reader_new(name, vocab.len + merges.len, perm, err);
    struct json  *root;
    if (!r.scratch.begin) return STATUS_WORLD;
    enum status st = parse_json(&r, vocab, &root);
    if (!st) st = read_tokens(&r, root);
    if (!st) st = read_bytes(&r);
    if (!st) st = read_merge_lines(&r, merges);
    if (!st) {
        add_end_of_text(&r);
        finish_added(r.bpe);
        r.bpe->hash = hash_of_two(perm, vocab, merges);
    }
    arena_close(&r.scratch);
    *out = st ? NULL : r.bpe;
    return st;
}

/* ---- on disk ---- */

static const struct {
    const char *vocab, *merges; /* merges NULL: it is all in one file */
} layouts[] = { { "tokenizer.json", NULL },
                { "vocab.json", "merges.txt" },
                { "encoder.json", "vocab.bpe" } };

static enum status map_file(struct os *os, struct str path, struct str *bytes, struct err *err)
{
    enum status st = os->map(os, path, bytes, err);
    if (st || bytes->len <= file_bytes_max) return st;
    os->unmap(os, *bytes);
    return err_set(err, STATUS_USAGE, "%.*s: %lld bytes are too many for a vocabulary",
                   STR_ARG(path), (long long)bytes->len);
}

static enum status open_two(struct os *os, struct str vocab_path, struct str merges_path,
                            struct arena *perm, struct bpe **out, struct err *err)
{
    struct str  vocab, merges;
    enum status st = map_file(os, vocab_path, &vocab, err);
    if (st) return st;
    st = map_file(os, merges_path, &merges, err);
    if (!st) {
        st = bpe_parse_vocabulary(vocab_path, vocab, merges, perm, out, err);
        os->unmap(os, merges);
    }
    os->unmap(os, vocab);
    return st;
}

static enum status open_one(struct os *os, struct str path, struct arena *perm, struct bpe **out,
                            struct err *err)
{
    struct str  json;
    enum status st = map_file(os, path, &json, err);
    if (st) return st;
    st = bpe_parse_tokenizer(path, json, perm, out, err);
    os->unmap(os, json);
    return st;
}

/* What older models of Hugging Face's came with, and other libraries read. */
static const char *const others[] = { "tokenizer.model", "spiece.model", "vocab.txt" };

enum status bpe_open(struct os *os, struct str path, struct arena *perm, struct bpe **out,
                     struct err *err)
{
    struct os_stat stat;
    enum status    st = os->stat(os, path, &stat, err);
    *out              = NULL;
    if (st) return st;
    struct str folder = path, file = STR("");
    if (!stat.is_dir) {
        i64 slash = path.len;
        while (slash > 0 && path.data[slash - 1] != '/') slash--;
        folder = slash ? str_sub(path, 0, slash) : STR(".");
        file   = str_sub(path, slash, path.len);
    }
    for (i64 i = 0; i < COUNT_OF(layouts); i++) {
        struct str name   = str_of(layouts[i].vocab),
                   merges = str_of(layouts[i].merges ? layouts[i].merges : "");
        struct str vocab  = str_fmt(perm, "%.*s/%.*s", STR_ARG(folder), STR_ARG(name));
        if (file.len ? !str_eq(file, name) && !str_eq(file, merges)
                     : os->stat(os, vocab, &stat, NULL) != 0)
            continue;
        if (!merges.len) return open_one(os, file.len ? path : vocab, perm, out, err);
        return open_two(os, vocab, str_fmt(perm, "%.*s/%.*s", STR_ARG(folder), STR_ARG(merges)),
                        perm, out, err);
    }
    if (file.len && str_ends(file, STR(".json"))) return open_one(os, path, perm, out, err);
    for (i64 i = 0; i < COUNT_OF(others); i++) {
        struct str other = str_fmt(perm, "%.*s/%s", STR_ARG(folder), others[i]);
        if (os_is_file(os, other))
            return err_set(
                err, STATUS_USAGE,
                "%.*s has its tokenizer in %s and lacks tokenizer.json; write it: python "
                "-c \"import transformers as t; p='%.*s'; "
                "t.AutoTokenizer.from_pretrained(p).save_pretrained(p)\"",
                STR_ARG(folder), others[i], STR_ARG(folder));
    }
    return err_set(err, STATUS_USAGE,
                   "%.*s: neither tokenizer.json, nor vocab.json and merges.txt, nor encoder.json "
                   "and vocab.bpe",
                   STR_ARG(path));
}
