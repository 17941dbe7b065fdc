/* test_presplit.c - words as the regular expressions of vocabularies cut them, and cuts that change none.
 * (tests/oracle/test_tokenize.py compares with the expressions themselves.) */
#include "base/rng.h"
#include "data/presplit.h"
#include "harness.h"

/* The words with bars between them. */
static struct str words_of(struct arena *perm, enum presplit p, const u8 *classes, struct str text)
{
    struct textbuf b = textbuf_new(perm);
    for (i64 at = 0, end; at < text.len; at = end) {
        end = presplit_end(p, classes, text, at);
        CHECK(end > at && end <= text.len);
        if (at) textbuf_add(&b, STR("|"));
        textbuf_add(&b, str_sub(text, at, end));
    }
    return textbuf_str(&b);
}

TEST(words_are_cut_as_gpt2_llama3_qwen2_and_smollm_cut_them)
{
    static const struct {
        enum presplit p;
        const char   *text, *words;
    } rows[] = {
        { PRESPLIT_GPT2, "Hello there's  a\n\n b", "Hello| there|'s| | a|\n\n| b" },
        { PRESPLIT_GPT2, "don't DON'T we'll x're", "don|'t| DON|'|T| we|'ll| x|'re" },
        { PRESPLIT_GPT2, "a1234 5+6!?", "a|1234| 5|+|6|!?" },
        { PRESPLIT_GPT2, "\xC2\xA0x  ", "\xC2\xA0|x|  " },
        { PRESPLIT_GPT2, " 's", " '|s" },
        { PRESPLIT_GPT2, "\xE6\x97\xA5\xE2\x85\xA3 \xF0\x9F\x99\x82",
          "\xE6\x97\xA5|\xE2\x85\xA3| \xF0\x9F\x99\x82" },
        { PRESPLIT_LLAMA3, "DON'T 12345 (x) y!\n\nz", "DON|'T| |123|45| (|x|)| y|!\n\n|z" },
        { PRESPLIT_LLAMA3, "a  \n \n  b", "a|  \n \n| | b" },
        { PRESPLIT_LLAMA3, "\tx \xC5\xBF'\xC5\xBFx", "\tx| \xC5\xBF|'\xC5\xBF|x" },
        { PRESPLIT_LLAMA3, "\nx", "\n|x" },
        { PRESPLIT_QWEN2, "12 x'LLy", "1|2| x|'LL|y" },
        { PRESPLIT_SMOLLM, "a 12  3 b1's\n4.5", "a| |1|2|  |3| b|1|'s|\n|4|.|5" },
        { PRESPLIT_SMOLLM, "  x \xE2\x85\xA3 don't  ", " | x| |\xE2\x85\xA3| don|'t|  " },
    };
    const u8 *classes = char_classes(perm);
    for (i64 i = 0; i < COUNT_OF(rows); i++)
        CHECK_STR(words_of(perm, rows[i].p, classes, str_of(rows[i].text)), rows[i].words);
}

TEST(an_expression_is_known_by_its_exact_text)
{
    enum presplit p;
    for (i32 i = 0; i < PRESPLIT_COUNT; i++) {
        CHECK(presplit_find(presplit_regex((enum presplit)i), &p));
        CHECK_EQ((i32)p, i);
    }
    CHECK(!presplit_find(STR("\\s+"), &p));
}

static u64 draw(u64 *state) { return rng_mix((*state)++); }

static struct str random_text(struct arena *perm, u64 *state)
{
    static const char *const bits[] = { "a",
                                        "b",
                                        "Z",
                                        " ",
                                        " ",
                                        "\n",
                                        "\r",
                                        "\t",
                                        "'",
                                        "s",
                                        "LL",
                                        "1",
                                        "2",
                                        ".",
                                        "\xC2\xA0",
                                        "\xE3\x80\x80",
                                        "\xC3\xA9",
                                        "\xE6\x97\xA5",
                                        "\xF0\x9F\x99\x82",
                                        "\xC5\xBF",
                                        "\xFF",
                                        "\xE6\x97",
                                        "\xC2\x85" };
    struct textbuf           b      = textbuf_new(perm);
    i64                      len    = (i64)(draw(state) % 60);
    for (i64 i = 0; i < len; i++) textbuf_add(&b, str_of(bits[draw(state) % COUNT_OF(bits)]));
    return str_copy(perm, textbuf_str(&b));
}

/* The words of both sides of a cut, each side made sound by itself. */
TEST(a_cut_changes_no_word)
{
    const u8 *classes   = char_classes(perm);
    u64       state     = test_seed();
    i64       cuts_seen = 0;
    for (i64 round = 0; round < 20000; round++) {
        struct arena         s    = scratch;
        struct str           text = random_text(&s, &state);
        struct presplit_cuts cuts = { round & 1, round & 2 };
        i64                  cut  = presplit_cut(&cuts, classes, text, (i64)(draw(&state) % 40));
        CHECK(cut <= text.len);
        if (cut == text.len) continue;
        cuts_seen++;
        i64        bad   = 0;
        char      *room  = NEW(&s, char, 12 * text.len + 16);
        struct str all   = utf8_repair(text, room, &bad);
        struct str left  = utf8_repair(str_sub(text, 0, cut), room + 3 * text.len, &bad);
        struct str right = utf8_repair(str_sub(text, cut, text.len), room + 6 * text.len, &bad);
        for (i32 p = 0; p < PRESPLIT_COUNT; p++) {
            struct arena t     = s;
            struct str   whole = words_of(&t, (enum presplit)p, classes, all);
            struct str   a     = words_of(&t, (enum presplit)p, classes, left);
            struct str   b     = words_of(&t, (enum presplit)p, classes, right);
            CHECK_STR(str_fmt(&t, "%.*s|%.*s", STR_ARG(a), STR_ARG(b)), whole);
        }
    }
    CHECK(cuts_seen > 500);
}

TEST(what_is_not_utf8_becomes_one_sign_for_each_beginning_of_a_character)
{
    static const struct {
        const char *text;
        i64         bad;
        const char *sound;
    } rows[] = {
        { "a\xFF"
          "b",
          1,
          "a\xEF\xBF\xBD"
          "b" },
        { "\xE6\x97"
          "b",
          1,
          "\xEF\xBF\xBD"
          "b" },
        { "\xED\xA0\x80", 3, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" }, /* a surrogate */
        { "\xF0\x9F\x99", 1, "\xEF\xBF\xBD" },
        { "\xC0\x80", 2, "\xEF\xBF\xBD\xEF\xBF\xBD" },
        { "plain and \xC3\xA9", 0, "plain and \xC3\xA9" },
    };
    for (i64 i = 0; i < COUNT_OF(rows); i++) {
        i64        bad  = 0;
        struct str text = str_of(rows[i].text);
        CHECK_STR(utf8_repair(text, NEW(perm, char, 64), &bad), rows[i].sound);
        CHECK_EQ(bad, rows[i].bad);
        CHECK_EQ(utf8_valid(text), rows[i].bad == 0);
    }
}
