#include "base/rng.h"
#include "harness.h"

TEST(strings_compare_and_split)
{
    CHECK(str_eq(STR(""), (struct str){ 0 }));
    CHECK(!str_eq(STR("ab"), STR("ac")));
    CHECK(str_starts(STR("abc"), STR("ab")) && !str_starts(STR("a"), STR("ab")));
    CHECK(str_ends(STR("abc"), STR("bc")) && !str_ends(STR("c"), STR("bc")));
    CHECK_EQ(str_find(STR("abc"), 'c'), 2);
    CHECK_EQ(str_find(STR("abc"), 'x'), -1);
    CHECK_STR(str_sub(STR("abcdef"), 2, 4), "cd");
    CHECK_STR(str_sub(STR("abc"), -5, 99), "abc");
    CHECK_STR(str_sub(STR("abc"), 2, 1), "");
    CHECK_STR(str_trim(STR(" \t a b\r\n")), "a b");
    CHECK_STR(str_trim(STR(" \n")), "");
    CHECK_EQ(str_of(NULL).len, 0);

    struct str rest = STR("a,,b"), head;
    CHECK(str_cut(&rest, ',', &head));
    CHECK_STR(head, "a");
    CHECK(str_cut(&rest, ',', &head));
    CHECK_STR(head, "");
    CHECK(str_cut(&rest, ',', &head));
    CHECK_STR(head, "b");
    CHECK(!str_cut(&rest, ',', &head));
}

TEST(copies_end_in_a_zero_byte)
{
    struct str cat = str_cat(perm, STR("ab"), STR("cd"));
    CHECK_STR(cat, "abcd");
    CHECK_EQ(cat.data[4], '\0');
    CHECK_STR(str_z(perm, str_sub(cat, 1, 3)), "bc");
    CHECK_STR(str_copy(perm, (struct str){ 0 }), "");
    CHECK_STR(str_fmt(perm, "%d-%.*s", 7, STR_ARG(STR("x"))), "7-x");
}

TEST(integers_are_read_whole)
{
    static const struct {
        const char *text;
        bool        ok;
        i64         value;
    } rows[] = {
        { "0", true, 0 },
        { "-7", true, -7 },
        { "+7", true, 7 },
        { "1_000_000", true, 1000000 },
        { "1e6", true, 1000000 },
        { "1.5e3", true, 1500 },
        { "2E+2", true, 200 },
        { "0e999999999999", true, 0 },
        { "9223372036854775807", true, INT64_MAX },
        { "-9223372036854775808", true, INT64_MIN },
        { "9223372036854775808", false, 0 },
        { "-9223372036854775809", false, 0 },
        { "1e19", false, 0 },
        { "1.5", false, 0 },
        { "1.0", false, 0 },
        { "1.55e1", false, 0 },
        { "1e-1", false, 0 },
        { "", false, 0 },
        { "-", false, 0 },
        { "e5", false, 0 },
        { "1e", false, 0 },
        { "_1", false, 0 },
        { "1_", false, 0 },
        { "1__0", false, 0 },
        { "1_e5", false, 0 },
        { " 1", false, 0 },
        { "1 ", false, 0 },
        { "0x10", false, 0 },
        { "1k", false, 0 },
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        i64  value = 0;
        bool ok    = str_i64(str_of(rows[i].text), &value);
        if (ok != rows[i].ok || value != rows[i].value)
            harness_fail(__FILE__, __LINE__, "\"%s\" gives %d, %lld", rows[i].text, ok,
                         (long long)value);
    }
}

TEST(floats_are_read_as_the_c_library_reads_them)
{
    f64 value;
    CHECK(str_f64(STR("1_000.5"), &value) && value == 1000.5);
    CHECK(str_f64(STR(".5"), &value) && value == 0.5);
    CHECK(str_f64(STR("5."), &value) && value == 5);
    CHECK(str_f64(STR("-0"), &value) && signbit(value));
    CHECK(str_f64(STR("1e-400"), &value) && value == 0);
    static const char *const bad[] = { "",    ".",     "-",     "1e",  "nan",
                                       "inf", "1e400", "0x1p3", "1,5", "1.2.3" };
    for (int i = 0; i < COUNT_OF(bad); i++) CHECK(!str_f64(str_of(bad[i]), &value));

    struct rng_key key = { .seed = test_seed() };
    for (u64 i = 0; i < 20000; i++) { /* any bit pattern comes back from its 17 digits */
        union {
            u64 bits;
            f64 value;
        } x = { (u64)rng_u32(key, 2 * i) << 32 | rng_u32(key, 2 * i + 1) };
        if (!isfinite(x.value)) continue;
        char text[64];
        snprintf(text, sizeof text, i % 2 ? "%.17g" : "%.16e", x.value);
        CHECK(str_f64(str_of(text), &value));
        CHECK_EQ(value, x.value);
    }
}

TEST(globs_match_as_a_shell_does)
{
    static const struct {
        const char *pattern, *text;
        bool        yes;
    } rows[] = {
        { "", "", true },          { "*", "", true },        { "?", "", false },
        { "a*c", "abbbc", true },  { "a*c", "abbb", false }, { "*.bin", "x.bin", true },
        { "l?.w", "l1.w", true },  { "**", "xyz", true },    { "a*b*c", "aXbYbZc", true },
        { "a*b*c", "acb", false }, { "abc", "abcd", false }, { "*aab", "aaaaaaab", true },
    };
    for (int i = 0; i < COUNT_OF(rows); i++)
        CHECK_EQ(str_glob(str_of(rows[i].pattern), str_of(rows[i].text)), rows[i].yes);
}

TEST(edit_distance_counts_changes)
{
    CHECK_EQ(str_distance(STR("kitten"), STR("sitting"), scratch), 3);
    CHECK_EQ(str_distance(STR(""), STR("abc"), scratch), 3);
    CHECK_EQ(str_distance(STR("lr"), STR("lr"), scratch), 0);
    CHECK_EQ(str_distance(STR("momentun"), STR("momentum"), scratch), 1);
}

TEST(the_hash_is_fnv_1a_for_ever) /* test vectors of the FNV authors */
{
    CHECK_EQ(str_hash(STR("")), 0xcbf29ce484222325u);
    CHECK_EQ(str_hash(STR("a")), 0xaf63dc4c8601ec8cu);
    CHECK_EQ(str_hash(STR("foobar")), 0x85944171f73967e8u);
}

TEST(utf8_is_what_the_table_says)
{
    char character[4];
    for (u32 code = 0; code <= 0x10FFFF; code++) { /* every code comes back, surrogates never */
        i64 len = str_utf8_put(character, code);
        i64 end = str_utf8_end((struct str){ character, len }, 0);
        if (end != (code >= 0xD800 && code < 0xE000 ? -1 : len))
            harness_fail(__FILE__, __LINE__, "U+%04X ends at %lld", code, (long long)end);
    }
    CHECK_EQ(str_utf8_end(STR("\xC0\x80"), 0), -1);
    CHECK_EQ(str_utf8_end(STR("\xE0\x9F\x80"), 0), -1);
    CHECK_EQ(str_utf8_end(STR("\xF0\x8F\x80\x80"), 0), -1);
    CHECK_EQ(str_utf8_end(STR("\xE2\x82"), 0), -1);
    CHECK_EQ(str_utf8_end(STR("a\x80"), 1), -1);
}

TEST(a_textbuf_grows_in_place_or_moves)
{
    struct textbuf b = textbuf_new(perm);
    CHECK_STR(textbuf_str(&b), "");
    for (int i = 0; i < 1000; i++) {
        textbuf_fmt(&b, "%d,", i % 10);
        if (i == 500) NEW(perm, u8, 1); /* somebody else takes: it moves, and loses nothing */
    }
    CHECK_EQ(b.len, 2000);
    for (int i = 0; i < 1000; i++) CHECK_EQ(b.data[2 * i], '0' + i % 10);
    CHECK_EQ(b.data[b.len], '\0');
}

TEST(a_textbuf_uses_an_arena_to_its_end)
{
    struct arena   small = arena_part(perm, 100);
    struct textbuf b     = textbuf_new(&small);
    for (int i = 0; i < 99; i++) textbuf_add(&b, STR("x"));
    CHECK_EQ(small.begin, small.end);
}

/* RFC 4648, section 10. */
TEST(base64_gives_the_published_texts)
{
    CHECK_STR(str_base64(perm, STR("")), "");
    CHECK_STR(str_base64(perm, STR("f")), "Zg==");
    CHECK_STR(str_base64(perm, STR("fo")), "Zm8=");
    CHECK_STR(str_base64(perm, STR("foo")), "Zm9v");
    CHECK_STR(str_base64(perm, STR("foob")), "Zm9vYg==");
    CHECK_STR(str_base64(perm, STR("fooba")), "Zm9vYmE=");
    CHECK_STR(str_base64(perm, STR("foobar")), "Zm9vYmFy");
    CHECK_STR(str_base64(perm, STR("\xff\xfe\xfd")), "//79");
}

TEST(what_steers_a_terminal_is_written_out)
{
    static const char *const pairs[][2] = {
        { "plain \xC3\xA9 \xE2\x82\xAC", "plain \xC3\xA9 \xE2\x82\xAC" },
        { "\033[2J\a", "\\x1b[2J\\x07" },
        { "a\nb\tc\rd\x7F", "a\\x0ab\\x09c\\x0dd\\x7f" },
        { "\xC2\x9B"
          "31m",
          "\\xc2\\x9b31m" }, /* C1: the same as ESC [ */
        { "\xE2\x80\xAE"
          "gpj",
          "\\xe2\\x80\\xaegpj" }, /* right to left from here */
        { "\xFF\xC3", "\\xff\\xc3" },
    };
    for (i64 i = 0; i < COUNT_OF(pairs); i++)
        CHECK_STR(str_printable(perm, str_of(pairs[i][0])), pairs[i][1]);
    CHECK_STR(str_printable_lines(perm, STR("a\nb\tc\r\033")), "a\nb\tc\\x0d\\x1b");
    CHECK_STR(str_printable(perm, (struct str){ "a\0b", 3 }), "a\\x00b");
    CHECK_EQ(str_printable(perm, STR("")).len, 0);
}
