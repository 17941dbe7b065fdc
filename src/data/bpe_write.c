/* bpe_write.c - a vocabulary as GPT-2's two files and as Hugging Face's tokenizer.json. */
#include "base/json.h"
#include "data/bpe_train.h"

static void add_merge(struct textbuf *b, const struct bpe_learned *l, i64 i)
{
    textbuf_add(b, l->tokens[l->merges[i] >> 32]);
    textbuf_add(b, STR(" "));
    textbuf_add(b, l->tokens[l->merges[i] & UINT32_MAX]);
}

static void add_vocab(struct textbuf *b, const struct bpe_learned *l)
{
    textbuf_add(b, STR("{"));
    for (i64 i = 0; i < l->token_count; i++) {
        if (i) textbuf_add(b, STR(","));
        json_add_string(b, l->tokens[i]);
        textbuf_fmt(b, ":%lld", (long long)i);
    }
    textbuf_add(b, STR("}"));
}

static struct str vocab_text(const struct bpe_learned *l, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    add_vocab(&b, l);
    return textbuf_str(&b);
}

static struct str merges_text(const struct bpe_learned *l, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_add(&b, STR("#version: 0.2\n"));
    for (i64 i = 0; i < l->merge_count; i++) {
        add_merge(&b, l, i);
        textbuf_add(&b, STR("\n"));
    }
    return textbuf_str(&b);
}

/* Merges as "left right": every version of tokenizers reads that, the newer pair of two only the newer ones. */
static struct str tokenizer_text(const struct bpe_learned *l, struct str special,
                                 struct arena *perm)
{
    static const char byte_level[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_"
                                     "offsets\":true,\"use_regex\":true}";
    i64               longest      = 0;
    for (i64 i = 0; i < l->token_count; i++) longest = MAX(longest, l->tokens[i].len);
    struct arena   parts = arena_part(perm, 8 * longest + 1024); /* a merge, grown twofold */
    struct textbuf b     = textbuf_new(perm);
    textbuf_fmt(&b, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[");
    if (special.len) {
        textbuf_fmt(&b, "{\"id\":0,\"content\":");
        json_add_string(&b, special);
        textbuf_fmt(&b,
                    ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,"
                    "\"special\":true}");
    }
    textbuf_fmt(&b,
                "],\"normalizer\":null,\"pre_tokenizer\":%s,\"post_processor\":%s,\"decoder\":%s,",
                byte_level, byte_level, byte_level);
    textbuf_fmt(&b,
                "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
                "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
                "\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":");
    add_vocab(&b, l);
    textbuf_add(&b, STR(",\"merges\":["));
    for (i64 i = 0; i < l->merge_count; i++) {
        struct arena   scratch = parts;
        struct textbuf line    = textbuf_new(&scratch);
        add_merge(&line, l, i);
        if (i) textbuf_add(&b, STR(","));
        json_add_string(&b, textbuf_str(&line));
    }
    textbuf_add(&b, STR("]}}\n"));
    return textbuf_str(&b);
}

enum status bpe_write(struct os *os, struct str folder, const struct bpe_learned *l,
                      struct str special, struct arena scratch, struct err *err)
{
    const struct {
        const char *name;
        struct str  text;
    } files[]      = { { "vocab.json", vocab_text(l, &scratch) },
                       { "merges.txt", merges_text(l, &scratch) },
                       { "tokenizer.json", tokenizer_text(l, special, &scratch) } };
    enum status st = os->make_dir(os, folder, err);
    for (i64 i = 0; i < COUNT_OF(files) && !st; i++)
        st = os_publish(os, str_fmt(&scratch, "%.*s/%s", STR_ARG(folder), files[i].name),
                        files[i].text, scratch, err);
    return st;
}

bool bpe_is_in(struct os *os, struct str folder, struct arena scratch)
{
    struct os_stat there;
    return !os->stat(os, str_cat(&scratch, folder, STR("/tokenizer.json")), &there, NULL);
}
