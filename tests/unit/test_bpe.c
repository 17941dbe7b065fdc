/* test_bpe.c - merging, added tokens, what is refused, and learning. (tests/oracle/test_tokenize.py compares
 * with Hugging Face's.) */
#include "base/json.h"
#include "base/rng.h"
#include "data/bpe_train.h"
#include "harness.h"

static u64 draw(u64 *state) { return rng_mix((*state)++); }

/* A vocabulary learned from a few words that have much in common, so that many merges compete. */
static struct bpe *learned(struct arena *perm, u64 *state, i64 tokens)
{
    struct bpe_count        words[40];
    struct bpe_learned      l;
    struct bpe_train_config config = { .vocabulary = tokens, .special = STR("<|endoftext|>") };
    struct err              err    = { 0 };
    struct textbuf          vocab  = textbuf_new(perm), merges;
    struct bpe             *b;
    for (i64 w = 0; w < COUNT_OF(words); w++) {
        i64   len  = 2 + (i64)(draw(state) % 20);
        char *text = NEW(perm, char, len);
        for (i64 i = 0; i < len; i++) text[i] = (char)('a' + draw(state) % 3);
        words[w] = (struct bpe_count){ { text, len }, 1 + (i64)(draw(state) % 9) };
    }
    CHECK_EQ(bpe_learn(words, COUNT_OF(words), &config, perm, &l, &err), STATUS_OK);
    vocab = textbuf_new(perm);
    for (i64 i = 0; i < l.token_count; i++) {
        textbuf_add(&vocab, i ? STR(",") : STR("{"));
        json_add_string(&vocab, l.tokens[i]);
        textbuf_fmt(&vocab, ":%lld", (long long)i);
    }
    textbuf_add(&vocab, STR("}"));
    merges = textbuf_new(perm);
    for (i64 i = 0; i < l.merge_count; i++)
        textbuf_fmt(&merges, "%.*s %.*s\n", STR_ARG(l.tokens[l.merges[i] >> 32]),
                    STR_ARG(l.tokens[l.merges[i] & UINT32_MAX]));
    CHECK_EQ(
        bpe_parse_vocabulary(STR("v"), textbuf_str(&vocab), textbuf_str(&merges), perm, &b, &err),
        STATUS_OK);
    CHECK_EQ(b->vocabulary, l.token_count);
    return b;
}

/* By the definition: the pair of the lowest rank, the leftmost of equals, until there is none. */
static i64 merge_slowly(const struct bpe *b, struct str word, u32 *to)
{
    i64 len = word.len;
    for (i64 i = 0; i < len; i++) to[i] = b->byte_id[(u8)word.data[i]];
    for (;;) {
        const struct bpe_merge *best = NULL;
        i64                     at   = 0;
        for (i64 i = 0; i + 1 < len; i++) {
            const struct bpe_merge *m = bpe_merge_slot(b, (u64)to[i] << 32 | to[i + 1]);
            if (m->pair == UINT64_MAX || (best && m->rank >= best->rank)) continue;
            best = m;
            at   = i;
        }
        if (!best) return len;
        to[at] = best->id;
        memmove(to + at + 1, to + at + 2, (size_t)(len - at - 2) * sizeof *to);
        len--;
    }
}

TEST(words_of_any_length_are_merged_by_the_definition)
{
    u64 state = test_seed();
    for (i64 round = 0; round < 20; round++) {
        struct arena      s = scratch;
        struct bpe       *b = learned(&s, &state, 257 + (i64)(draw(&state) % 200));
        struct bpe_coder *c = bpe_coder_new(&s, b);
        for (i64 n = 0; n < 60; n++) {
            static u32  tokens[2000], expected[2000];
            static char text[400];
            struct err  err  = { 0 };
            struct str  word = { text, 1 + (i64)(draw(&state) % (n % 3 ? 30 : 400)) };
            i64         count;
            for (i64 i = 0; i < word.len; i++) text[i] = (char)('a' + draw(&state) % 3);
            CHECK_EQ(bpe_encode(c, word, true, tokens, &count, &err), STATUS_OK);
            CHECK_EQ(count, merge_slowly(b, word, expected));
            CHECK(!memcmp(tokens, expected, (size_t)count * sizeof *tokens));
        }
    }
}

/* Quadratic work would take an hour. */
TEST(a_word_of_a_quarter_million_bytes_is_merged_in_good_time)
{
    u64               state = 1;
    struct bpe       *b     = learned(perm, &state, 400);
    struct bpe_coder *c     = bpe_coder_new(perm, b);
    i64               len = 1 << 18, count, bytes = 0;
    char             *text   = NEW(perm, char, len);
    u32              *tokens = NEW(perm, u32, tokens_max(len));
    struct err        err    = { 0 };
    for (i64 i = 0; i < len; i++) text[i] = (char)('a' + draw(&state) % 3);
    CHECK_EQ(bpe_encode(c, (struct str){ text, len }, true, tokens, &count, &err), STATUS_OK);
    CHECK(count > 0 && count < len / 2);
    for (i64 i = 0; i < count; i++) bytes += tokens[i] < b->vocabulary;
    CHECK_EQ(bytes, count);
}

/* ---- tokenizer.json ---- */

static struct str tokenizer_json(struct arena *perm, const char *head, const char *model)
{
    struct textbuf b = textbuf_new(perm);
    u32            code[256];
    bpe_byte_codes(code);
    textbuf_fmt(&b, "{%s,\"model\":{%s\"vocab\":{", head, model);
    for (i32 i = 0; i < 256; i++) {
        char       text[4];
        struct str s = { text, str_utf8_put(text, code[i]) };
        json_add_string(&b, s);
        textbuf_fmt(&b, ":%d,", i);
    }
    textbuf_fmt(
        &b,
        "\"ab\":256,\"bc\":257,\"abc\":258},\"merges\":[\"b c\",[\"a\",\"b\"],[\"ab\",\"c\"]]}}");
    return textbuf_str(&b);
}

/* A model without a type is the oldest form; `model` may give one. */
#define BYTE_LEVEL "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"

static struct str encoded(struct arena *perm, struct str json, struct str text)
{
    struct bpe *b;
    struct err  err    = { 0 };
    u32        *tokens = NEW(perm, u32, tokens_max(text.len));
    i64         count;
    if (bpe_parse_tokenizer(STR("t.json"), json, perm, &b, &err))
        return str_copy(perm, str_of(err.text));
    struct bpe_coder *c = bpe_coder_new(perm, b);
    CHECK_EQ(bpe_encode(c, text, true, tokens, &count, &err), STATUS_OK);
    struct textbuf out = textbuf_new(perm);
    for (i64 i = 0; i < count; i++) textbuf_fmt(&out, "%s%u", i ? " " : "", tokens[i]);
    return textbuf_str(&out);
}

TEST(tokenizer_json_says_how_words_and_pieces_are_made)
{
    CHECK_STR(encoded(perm, tokenizer_json(perm, BYTE_LEVEL, ""), STR("abc ab")), "97 257 32 256");
    CHECK_STR(
        encoded(perm, tokenizer_json(perm, BYTE_LEVEL, "\"ignore_merges\":true,"), STR("abc ab")),
        "258 32 256");
    CHECK_STR(encoded(perm, tokenizer_json(perm, "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}", ""),
                      STR("ab")),
              "32 256");
    const char *added =
        BYTE_LEVEL ",\"added_tokens\":[{\"id\":259,\"content\":\"<e>\",\"special\":true},"
                   "{\"id\":260,\"content\":\"<e><\",\"normalized\":false},"
                   "{\"id\":261,\"content\":\"b<\",\"normalized\":true}]";
    /* the longest at the leftmost place; what is normalised only where the others left something */
    CHECK_STR(encoded(perm, tokenizer_json(perm, added, ""), STR("ab<e><ab<e>b<")),
              "256 260 256 259 261");
}

/* Characters, a blank that is U+2581, bytes where a character is no token; a text that begins behind <s>. */
TEST(sentencepiece_writes_blanks_and_falls_back_to_bytes)
{
#define SENTENCES                                                                                  \
    "\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"normalized\":false}],\"model\":{\"type\":"  \
    "\"BPE\","                                                                                     \
    "\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,\"vocab\":{\"<unk>\":0,\"<"  \
    "s>\":1,"                                                                                      \
    "\"<0xC3>\":2,\"<0xA9>\":3,\"\xE2\x96\x81\":4,\"a\":5,\"\xE2\x96\x81"                          \
    "a\":6},"                                                                                      \
    "\"merges\":[[\"\xE2\x96\x81\",\"a\"]]}}"
    static const char llama[] =
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
        "\"\xE2\x96\x81\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":"
        "\"\xE2\x96\x81\"}]}," SENTENCES;
    static const char mistral[] =
        "{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\","
        "\"prepend_scheme\":\"first\",\"split\":false}," SENTENCES;
    CHECK_STR(encoded(perm, str_of(llama), STR("a a\xC3\xA9zz<s>a")), "6 6 2 3 0 1 6");
    CHECK_STR(encoded(perm, str_of(llama), STR(" a")), "4 6");
    CHECK_STR(encoded(perm, str_of(mistral), STR("a<s>a")), "6 1 5");
    CHECK_STR(encoded(perm, str_of(mistral), STR(" a")), "6");
}

TEST(word_pieces_are_the_longest_and_know_no_accents)
{
    static const char bert[] =
        "{\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":"
        "\"BertPreTokenizer\"},"
        "\"added_tokens\":[{\"id\":1,\"content\":\"[M]\",\"lstrip\":true}],\"model\":{\"type\":"
        "\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\",\"vocab\":{\"["
        "UNK]\":0,"
        "\"[M]\":1,\"cafe\":2,\"##s\":3,\",\":4,\"ca\":5,\"##fes\":6,\"\xE6\x97\xA5\":7}}}";
    CHECK_STR(encoded(perm, str_of(bert), STR("CAF\xC3\x89S,")), "2 3 4");
    CHECK_STR(encoded(perm, str_of(bert), STR("cafex \xE6\x97\xA5\xE6\x97\xA5 [M]ca")),
              "0 7 7 1 5");
}

TEST(what_is_not_supported_is_named)
{
    static const struct {
        const char *head, *model, *says;
    } rows[] = {
        { BYTE_LEVEL ",\"normalizer\":{\"type\":\"Lowercase\"}", "",
          "only the normalizer NFC is supported, not Lowercase" },
        { "\"pre_tokenizer\":{\"type\":\"Whitespace\"}", "", "not pre_tokenizer Whitespace" },
        { BYTE_LEVEL ",\"post_processor\":{\"type\":\"New\"}", "",
          "a post_processor of this type is not supported: New" },
        { "\"pre_tokenizer\":null", "", "not pre_tokenizer none" },
        { "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
          "\"pattern\":{\"Regex\":"
          "\"x+\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\"}]}",
          "", "is not supported: x+" },
        { BYTE_LEVEL, "\"type\":\"BPE\",\"dropout\":0.1,", "model.dropout" },
        { BYTE_LEVEL, "\"type\":\"Unigram\",", "only BPE is supported, not model Unigram" },
        { BYTE_LEVEL, "\"end_of_word_suffix\":\"</w>\",", "end_of_word_suffix are not" },
        { BYTE_LEVEL ",\"added_tokens\":[{\"id\":259,\"content\":\"<m>\",\"single_word\":true}]",
          "", "single_word is not supported, which has the added token <m>" },
        { BYTE_LEVEL ",\"added_tokens\":[{\"id\":300,\"content\":\"<m>\"}]", "",
          "another number to the added token <m>" },
    };
    for (i64 i = 0; i < COUNT_OF(rows); i++) {
        struct str said =
            encoded(perm, tokenizer_json(perm, rows[i].head, rows[i].model), STR("a"));
        if (!strstr(said.data, rows[i].says)) CHECK_STR(said, rows[i].says);
    }
}

TEST(a_vocabulary_that_contradicts_itself_is_refused)
{
    static const char *const rows[][2] = {
        { "{\"a\":0}", "lacks the token" },
        { "{\"a\":0,\"b\":0}", "two tokens have the same number" },
        { "{\"a\":-1}", "not a whole number" },
        { "[]", "not a map of tokens" },
        { "{\"a\":0", "line 1" },
    };
    struct bpe *b;
    for (i64 i = 0; i < COUNT_OF(rows); i++) {
        struct err err = { 0 };
        CHECK_EQ(bpe_parse_vocabulary(STR("v"), str_of(rows[i][0]), STR(""), perm, &b, &err),
                 STATUS_USAGE);
        CHECK(strstr(err.text, rows[i][1]));
        CHECK(!b);
    }
}

/* ---- learning ---- */

static struct bpe_learned learn(struct arena *perm, const struct bpe_count *words, i64 count,
                                i64 tokens)
{
    struct bpe_learned      l;
    struct err              err    = { 0 };
    struct bpe_train_config config = { .vocabulary = tokens };
    CHECK_EQ(bpe_learn(words, count, &config, perm, &l, &err), STATUS_OK);
    return l;
}

TEST(the_most_frequent_pair_is_merged_and_of_equals_the_one_of_smaller_tokens)
{
    static const struct bpe_count words[] = { { STR_INIT("cd"), 2 },
                                              { STR_INIT("ab"), 2 },
                                              { STR_INIT("cab"), 1 } };
    struct bpe_learned            l       = learn(perm, words, 3, 300);
    /* ab 3, then cd 2 before (c, ab) 1 */
    CHECK_EQ(l.token_count, 259);
    CHECK_STR(l.tokens[256], "ab");
    CHECK_STR(l.tokens[257], "cd");
    CHECK_STR(l.tokens[258], "cab");
    static const struct bpe_count equal[] = { { STR_INIT("zy"), 1 },
                                              { STR_INIT("ax"), 1 },
                                              { STR_INIT("aw"), 1 } };
    l                                     = learn(perm, equal, 3, 259);
    CHECK_STR(l.tokens[256], "aw");
    CHECK_STR(l.tokens[257], "ax");
    CHECK_STR(l.tokens[258], "zy");
}

TEST(a_vocabulary_has_room_for_every_byte)
{
    struct bpe_learned      l;
    struct err              err    = { 0 };
    struct bpe_train_config config = { .vocabulary = 256, .special = STR("<s>") };
    CHECK_EQ(bpe_learn(NULL, 0, &config, perm, &l, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "a vocabulary has 257 to"));
    CHECK_STR(learn(perm, NULL, 0, 256).tokens[0], "!"); /* the first of the alphabet */
}
