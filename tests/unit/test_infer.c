/* test_infer.c - which token is drawn: the likeliest, the few that are allowed, in the shares they should have; and
 * tokens as text again. */
#include "base/rng.h"
#include "harness.h"
#include "infer/generation_config.h"
#include "infer/prompts.h"
#include "infer/sample.h"
#include "infer/words.h"
#include "support/folder.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const f64 logits[] = { 0, 2, 1, 2, -1 };
enum { COUNT = COUNT_OF(logits), DRAWS = 20000 };

static void draw(const struct sampling *s, i64 *seen, struct arena scratch)
{
    memset(seen, 0, COUNT * sizeof *seen);
    for (i64 i = 0; i < DRAWS; i++) seen[sample_token(s, logits, COUNT, i % 7, i / 7, scratch)]++;
}

/* Each share within 6 standard deviations of a binomial: by chance one seed in 10^8 fails. */
static void check_shares(const struct sampling *s, const f64 *weight, struct arena scratch)
{
    i64 seen[COUNT];
    f64 sum = 0;
    for (i64 i = 0; i < COUNT; i++) sum += weight[i];
    draw(s, seen, scratch);
    for (i64 i = 0; i < COUNT; i++) {
        f64 p = weight[i] / sum;
        CHECK_NEAR((f64)seen[i] / DRAWS, p, 6 * sqrt(p * (1 - p) / DRAWS));
    }
}

TEST(temperature_0_takes_the_first_of_the_likeliest)
{
    u64             seed = test_seed();
    struct sampling s    = { .top_p = 1, .seed = seed };
    for (i64 i = 0; i < 100; i++) CHECK_EQ(sample_token(&s, logits, COUNT, 0, i, scratch), 1);
    s.temperature = 1, s.top_k = 1;
    for (i64 i = 0; i < 100; i++) CHECK_EQ(sample_token(&s, logits, COUNT, 0, i, scratch), 1);
    s.top_k = 0, s.top_p = 0;
    for (i64 i = 0; i < 100; i++) CHECK_EQ(sample_token(&s, logits, COUNT, 0, i, scratch), 1);
}

TEST(tokens_are_drawn_by_their_share)
{
    u64             seed = test_seed();
    struct sampling s    = { 1, 0, 1, seed };
    f64             all[COUNT], cool[COUNT];
    for (i64 i = 0; i < COUNT; i++) all[i] = exp(logits[i]), cool[i] = exp(logits[i] / 2);
    check_shares(&s, all, scratch);
    s.temperature = 2;
    check_shares(&s, cool, scratch);
}

TEST(top_k_and_top_p_leave_the_likeliest)
{
    u64             seed = test_seed();
    struct sampling k = { 1, 3, 1, seed }, p = { 1, 0, 0.75, seed }, both = { 1, 2, 0.5, seed };
    f64             three[COUNT] = { 0, exp(2), exp(1), exp(2), 0 };
    f64             two[COUNT]   = { 0, 1, 0, 1, 0 };
    check_shares(&k, three, scratch);
    check_shares(&p, two, scratch);     /* their shares are 0.39, 0.39, 0.14, 0.05 and 0.02 */
    f64 one[COUNT] = { 0, 1, 0, 0, 0 }; /* of the two that are left, the first has half */
    check_shares(&both, one, scratch);
}

/* The draw as it is meant: all choices in their order, and the first whose cumulated weight exceeds the draw. */
struct word {
    f64 logit;
    i64 token;
};
static int by_logit(const void *a, const void *b)
{
    const struct word *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

static i64 plain_draw(const struct sampling *s, const struct word *w, i64 count, i64 index)
{
    struct rng_key key = { .seed = s->seed, .name = str_hash(STR("generate")), .step = (u32)index };
    i64            kept = s->top_k ? MIN(s->top_k, count) : count, end = 0;
    f64            all = 0, sum = 0, draw;
    for (i64 i = 0; i < kept; i++) all += exp((w[i].logit - w[0].logit) / s->temperature);
    while (end < kept && (!end || sum < s->top_p * all))
        sum += exp((w[end++].logit - w[0].logit) / s->temperature);
    draw = rng_uniform(key, 0) * sum;
    for (i64 i = 0; i < end; i++)
        if ((draw -= exp((w[i].logit - w[0].logit) / s->temperature)) < 0) return w[i].token;
    return w[end - 1].token;
}

/* Sums in another order part two draws in 10^12: once in all runs of this test. */
TEST(a_large_vocabulary_is_drawn_from_as_if_it_were_sorted)
{
    enum { WORDS = 3001 };
    static const struct sampling ways[] = { { 1, 0, 1, 0 },    { 0.3, 0, 0.9, 0 },
                                            { 2, 100, 1, 0 },  { 1, 700, 0.5, 0 },
                                            { 5, 0, 0.99, 0 }, { 1, 5000, 1, 0 } };
    u64                          seed   = test_seed();
    f64                         *many   = NEW(&scratch, f64, WORDS);
    struct word                 *sorted = NEW(&scratch, struct word, WORDS);
    for (i64 i = 0; i < WORDS; i++) { /* rounded: some are equal */
        many[i] = floor(64 * rng_uniform((struct rng_key){ .seed = seed, .name = 1 }, (u64)i)) / 8;
        sorted[i] = (struct word){ many[i], i };
    }
    qsort(sorted, WORDS, sizeof *sorted, by_logit);
    for (i64 k = 0; k < COUNT_OF(ways); k++)
        for (i64 i = 0; i < 100; i++) {
            struct sampling s = ways[k];
            s.seed            = seed;
            CHECK_EQ(sample_token(&s, many, WORDS, 0, i, scratch),
                     plain_draw(&s, sorted, WORDS, i));
        }
}

TEST(a_draw_depends_on_seed_and_place_alone)
{
    u64             seed = test_seed();
    struct sampling s = { 3, 0, 1, seed }, other = { 3, 0, 1, seed + 1 };
    i64             differ = 0;
    for (i64 i = 0; i < 100; i++) {
        i64 token = sample_token(&s, logits, COUNT, 2, i, scratch);
        CHECK_EQ(sample_token(&s, logits, COUNT, 2, i, scratch), token);
        differ += sample_token(&other, logits, COUNT, 2, i, scratch) != token;
    }
    CHECK(differ > 0);
}

TEST(text_becomes_tokens_and_text_again)
{
    struct words w;
    struct err   err = { 0 };
    i32          to[8];
    i64          count;
    CHECK(!words_open(&w, os_real(), STR(""), perm, &err));
    CHECK(!words_encode(&w, STR("a\xc3\xa9"), WORDS_WITH_BEFORE, 256, to, &count, scratch, &err));
    CHECK_EQ(count, 3);
    CHECK_EQ(to[2], 0xa9);
    CHECK_STR(words_of(&w, 0xc3, perm), "\xc3");
    CHECK_STR(words_of(&w, 300, perm), "");
    CHECK(!words_ends(&w, 0));
    CHECK_EQ(words_encode(&w, STR("a\xc3\xa9"), WORDS_WITH_BEFORE, 128, to, &count, scratch, &err),
             STATUS_USAGE);
    CHECK(strstr(err.text, "token 195") != NULL);
}

/* A vocabulary of the 256 bytes and two merges. */
TEST(merged_tokens_are_the_bytes_they_were_merged_from)
{
    u32            code[256];
    struct textbuf v = textbuf_new(perm);
    bpe_byte_codes(code);
    textbuf_add(&v, STR("{"));
    for (i32 i = 0; i < 256; i++) {
        char text[8];
        i64  len   = str_utf8_put(text, code[i]);
        bool quote = code[i] == '"' || code[i] == '\\';
        textbuf_fmt(&v, "%s\"%s%.*s\":%d", i ? "," : "", quote ? "\\" : "", (int)len, text, i);
    }
    textbuf_add(&v, STR(",\"ab\":256,\"abc\":257}"));
    struct str   dir = folder_new(perm);
    struct words w;
    struct err   err = { 0 };
    i32          to[32];
    i64          count;
    CHECK(!os_publish(os_real(), str_cat(perm, dir, STR("/vocab.json")), textbuf_str(&v), scratch,
                      &err));
    CHECK(!os_publish(os_real(), str_cat(perm, dir, STR("/merges.txt")),
                      STR("#version: 0.2\na b\nab c\n"), scratch, &err));
    CHECK(!words_open(&w, os_real(), dir, perm, &err));
    CHECK(!words_encode(&w, STR("abcab\n"), WORDS_WITH_BEFORE, 258, to, &count, scratch, &err));
    CHECK_EQ(count, 3);
    CHECK_EQ(to[0], 257);
    CHECK_STR(words_of(&w, 257, perm), "abc");
    CHECK_STR(words_of(&w, to[1], perm), "ab");
    CHECK_STR(words_of(&w, to[2], perm), "\n");
    struct arena little = arena_part(perm, 1 << 12); /* not a table of words each time */
    CHECK(!words_encode(&w, STR("abab"), WORDS_WITH_BEFORE, 258, to, &count, little, &err));
    CHECK(count == 2 && to[0] == 256 && to[1] == 256);
}

static struct str config_of(struct arena *perm, const char *text)
{
    struct generation_config c;
    struct err               err = { 0 };
    struct textbuf           b   = textbuf_new(perm);
    if (generation_config_parse(STR("g"), str_of(text), *perm, &c, &err))
        return str_copy(perm, str_of(err.text));
    for (i64 i = 0; i < c.end_count; i++) textbuf_fmt(&b, "%u ", c.ends[i]);
    textbuf_fmt(&b, "%g %g %lld", c.temperature, c.top_p, (long long)c.top_k);
    return textbuf_str(&b);
}

TEST(a_generation_config_names_ends_and_how_to_draw)
{
    CHECK_STR(config_of(perm, "{}"), "nan nan -1");
    CHECK_STR(config_of(perm, "{\"eos_token_id\":7,\"temperature\":0.5}"), "7 nan nan -1");
    CHECK_STR(config_of(perm, "{\"eos_token_id\":[7,9],\"do_sample\":true,\"temperature\":0.6,"
                              "\"top_p\":0.9,\"top_k\":null}"),
              "7 9 0.6 0.9 -1");
    CHECK_STR(config_of(perm, "{\"eos_token_id\":null,\"do_sample\":true,\"top_k\":20}"),
              "nan nan 20");
    CHECK_STR(config_of(perm, "[]"), "g is not a JSON object");
    CHECK_STR(config_of(perm, "{\"eos_token_id\":\"</s>\"}"),
              "g: \"eos_token_id\" should be a token's number, or a list of them");
    CHECK_STR(config_of(perm, "{\"do_sample\":true,\"top_p\":2}"),
              "g: \"top_p\" should be a number from 0 to 1");
}

TEST(a_folder_without_generation_config_is_asked_elsewhere)
{
    struct str               own = folder_new(perm), base = folder_new(perm);
    struct generation_config c;
    struct err               err = { 0 };
    CHECK(!generation_config_read(os_real(), own, base, *perm, &c, &err));
    CHECK_EQ(c.end_count, 0);
    folder_put(perm, base, "config.json", STR("{\"eos_token_id\":5,\"model_type\":\"gpt2\"}"));
    CHECK(!generation_config_read(os_real(), base, base, *perm, &c, &err));
    CHECK(c.end_count == 1 && c.ends[0] == 5);
    folder_put(perm, base, "generation_config.json", STR("{\"eos_token_id\":6}"));
    CHECK(!generation_config_read(os_real(), own, base, *perm, &c, &err));
    CHECK(c.end_count == 1 && c.ends[0] == 6);
    folder_put(perm, own, "generation_config.json", STR("{\"eos_token_id\":[7,8]}"));
    CHECK(!generation_config_read(os_real(), own, base, *perm, &c, &err));
    CHECK(c.end_count == 2 && c.ends[1] == 8);
    CHECK(!generation_config_read(os_real(), STR(""), STR(""), *perm, &c, &err));
    CHECK_EQ(c.end_count, 0);
}

TEST(prompts_are_texts_lines_or_conversations)
{
    struct str file = folder_put(
        perm, folder_new(perm), "asked.jsonl",
        STR("{\"prompt\":\"one\"}\n\n{\"messages\":[{\"role\":\"user\",\"content\":\"two\"}]}\n"));
    struct chat_form form;
    struct prompts   p;
    struct str       by = STR("{role}:{content}\n");
    struct err       err;
    CHECK(!chat_form_read(STR("c"), STR(""), STR(""), &by, 1, STR(""), perm, &form, &err));
    CHECK(!prompts_read(os_real(), STR("Hi"), PROMPTS_TEXT, perm, &p, &err));
    CHECK(p.count == 1 && !p.chat && prompts_longest(&p) == 2);
    CHECK(!prompts_read(os_real(), STR("Hi"), PROMPTS_CHAT, perm, &p, &err));
    CHECK(p.chat && !prompts_write(&p, &form, perm, &err));
    CHECK_STR(p.items[0].text, "user:Hi\nassistant:");
    CHECK_STR(p.items[0].shown, "Hi");
    CHECK(!prompts_read(os_real(), str_cat(perm, STR("@"), file), PROMPTS_TEXT, perm, &p, &err));
    CHECK(p.count == 2 && p.chat && !prompts_write(&p, &form, perm, &err));
    CHECK_STR(p.items[0].text, "one");
    CHECK_STR(p.items[1].text, "user:two\nassistant:");
    CHECK_EQ(prompts_read(os_real(), STR(""), PROMPTS_TEXT, perm, &p, &err), STATUS_USAGE);
    CHECK_STR(str_of(err.text), "the text is empty: give at least one character");
    file = folder_put(perm, folder_new(perm), "asked.jsonl",
                      STR("{\"prompt\":\"one\"}\n\n{\"prompt\":\"\"}\n"));
    CHECK_EQ(prompts_read(os_real(), str_cat(perm, STR("@"), file), PROMPTS_TEXT, perm, &p, &err),
             STATUS_USAGE);
    CHECK(strstr(err.text, "asked.jsonl:3: the text is empty"));
    CHECK_EQ(prompts_today(os_real(), perm).len, 11);
}
