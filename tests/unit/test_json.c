#include "base/json.h"
#include "harness.h"

static struct json *parsed(struct arena *perm, const char *text)
{
    struct json *v;
    struct err   err = { 0 };
    if (json_parse(perm, str_of(text), &v, &err))
        harness_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
    return v;
}

/* The tree written again, to compare it with what was read. */
static void write_tree(struct textbuf *b, const struct json *v)
{
    bool map = v->kind == JSON_MAP;
    if (v->kind == JSON_STRING) json_add_string(b, v->text);
    else if (!map && v->kind != JSON_LIST) textbuf_add(b, v->text);
    if (!map && v->kind != JSON_LIST) return;
    textbuf_add(b, map ? STR("{") : STR("["));
    for (const struct json *c = v->first; c; c = c->next) {
        if (c != v->first) textbuf_add(b, STR(","));
        if (map) json_add_string(b, c->key);
        if (map) textbuf_add(b, STR(":"));
        write_tree(b, c);
    }
    textbuf_add(b, map ? STR("}") : STR("]"));
}

TEST(what_is_read_is_written_again)
{
    static const char *const texts[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "-12.5e+3",
        "1E400",
        "\"\"",
        "[]",
        "{}",
        "{\"a\":[1,2,{\"b\":null}],\"c\":\"x\\\"y\\\\z\\n\"}",
        "[[[[]]],{\"\":{\"\":0}}]",
        "\"\xF0\x9F\x98\x80\xC3\xA9\"",
    };
    for (int i = 0; i < COUNT_OF(texts); i++) {
        struct json   *v = parsed(perm, texts[i]);
        struct textbuf b = textbuf_new(perm);
        write_tree(&b, v);
        CHECK_STR(textbuf_str(&b), texts[i]);
    }
}

TEST(escapes_are_decoded)
{
    CHECK_STR(parsed(perm, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"")->text, "\"\\/\b\f\n\r\t");
    CHECK_STR(parsed(perm, "\"\\u0041\\u00e9\\u20AC\"")->text, "A\xC3\xA9\xE2\x82\xAC");
    CHECK_STR(parsed(perm, "\"x\\uD83D\\uDE00y\"")->text, "x\xF0\x9F\x98\x80y");
    CHECK_EQ(parsed(perm, "\"\\u0000\"")->text.len, 1);
}

TEST(members_are_found_and_numbers_exact)
{
    struct json *v =
        parsed(perm, " { \"a\" : 9223372036854775807 , \"b\" : -1.5e-3, \"c\":1.0 }\r\n");
    i64 i;
    f64 f;
    CHECK_EQ(v->count, 3);
    CHECK(json_i64(json_get(v, STR("a")), &i));
    CHECK_EQ(i, INT64_MAX);
    CHECK(json_f64(json_get(v, STR("b")), &f));
    CHECK_EQ(f, -1.5e-3);
    CHECK(!json_i64(json_get(v, STR("c")), &i));
    CHECK(!json_get(v, STR("d")));
    CHECK(!json_i64(json_get(v, STR("d")), &i));
    CHECK(!json_get(json_get(v, STR("a")), STR("a")));
    CHECK(!json_i64(parsed(perm, "9223372036854775808"), &i));
    CHECK(!json_f64(parsed(perm, "1e999"), &f));
}

TEST(what_is_not_json_is_refused_with_its_place)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        { "", "line 1, byte 0: the text ends where a value should be" },
        { "[1,\n 2,\n x]", "line 3, byte 9: expected a value" },
        { "{\"a\":1,\n\"b\":2,\n\"a\":3}", "line 3, byte 15: this key was given before" },
        { "{\"a\":1,\"\\u0061\":2}", "line 1, byte 7: this key was given before" },
        { "[1] 2", "line 1, byte 4: something follows the end of the value" },
        { "\"\\x\"", "line 1, byte 1: an escape that JSON does not have" },
        { "\"\\u12\"", "line 1, byte 1: an escape that JSON does not have" },
        { "\"a\\uD800\"", "line 1, byte 2: half of a surrogate pair" },
        { "\"\\uD800\\u0041\"", "line 1, byte 1: half of a surrogate pair" },
        { "\"\\uDC00\"", "line 1, byte 1: half of a surrogate pair" },
        { "\"ab\xC0\x80\"", "line 1, byte 3: bytes that are not UTF-8" },
        { "\"\xED\xA0\x80\"", "line 1, byte 1: bytes that are not UTF-8" },
        { "\"\xF4\x90\x80\x80\"", "line 1, byte 1: bytes that are not UTF-8" },
        { "\"a\nb\"", "line 1, byte 2: a control character in a string; write it as an escape" },
        { "\"abc", "line 1, byte 0: the string is not closed" },
        { "\"abc\\\"", "line 1, byte 0: the string is not closed" },
        { "01", "line 1, byte 1: something follows the end of the value" },
        { "-", "line 1, byte 1: expected a digit" },
        { "1.", "line 1, byte 2: expected a digit" },
        { "1e+", "line 1, byte 3: expected a digit" },
        { "+1", "line 1, byte 0: expected a value" },
        { "[1,]", "line 1, byte 3: expected a value" },
        { "[1 2]", "line 1, byte 3: expected ',' or ']'" },
        { "{\"a\" 1}", "line 1, byte 5: expected ':' after the key" },
        { "{\"a\":1,}", "line 1, byte 7: expected a key in quotes" },
        { "{\"a\":1]", "line 1, byte 6: expected ',' or '}'" },
        { "nul", "line 1, byte 0: expected a value" },
        { "NaN", "line 1, byte 0: expected a value" },
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        struct json *v;
        struct err   err = { 0 };
        CHECK_EQ(json_parse(perm, str_of(rows[i].text), &v, &err), STATUS_USAGE);
        CHECK_STR(err.text, rows[i].message);
        CHECK_EQ(err.status, STATUS_USAGE);
        CHECK(!v);
    }
}

TEST(depth_is_bounded)
{
    for (int depth = 64; depth <= 65; depth++) {
        struct textbuf b = textbuf_new(perm);
        struct json   *v;
        for (int i = 0; i < depth; i++) textbuf_add(&b, STR("["));
        for (int i = 0; i < depth; i++) textbuf_add(&b, STR("]"));
        CHECK_EQ(json_parse(perm, textbuf_str(&b), &v, NULL),
                 depth == 64 ? STATUS_OK : STATUS_USAGE);
    }
}

TEST(many_keys_are_checked_in_good_time)
{
    for (int twice = 0; twice < 2; twice++) {
        struct textbuf b = textbuf_new(perm);
        struct json   *v;
        textbuf_add(&b, STR("{"));
        for (int i = 0; i < 200000; i++) textbuf_fmt(&b, "\"key%d\":%d,", i, i);
        textbuf_fmt(&b, "\"key%s\":0}", twice ? "77777" : "");
        CHECK_EQ(json_parse(perm, textbuf_str(&b), &v, NULL), twice ? STATUS_USAGE : STATUS_OK);
    }
}

TEST(too_little_memory_is_an_error_not_an_end)
{
    struct textbuf b = textbuf_new(perm);
    struct json   *v;
    struct err     err;
    textbuf_add(&b, STR("["));
    for (int i = 0; i < 1000; i++) textbuf_add(&b, STR("{\"a\":\"\\n\"},"));
    textbuf_add(&b, STR("0]"));
    for (i64 bytes = 0; bytes < 300000; bytes += 997) {
        struct arena again = *perm;
        struct arena small = arena_part(&again, bytes);
        if (!json_parse(&small, textbuf_str(&b), &v, &err)) return;
        CHECK(str_ends(str_of(err.text), STR("too large for memory")));
    }
    CHECK(!"it fits in the end");
}

TEST(numbers_are_written_so_that_they_come_back)
{
    struct textbuf b = textbuf_new(perm);
    f64            back;
    json_add_f64(&b, 0.1);
    CHECK(json_f64(parsed(perm, str_z(perm, textbuf_str(&b))), &back));
    CHECK_EQ(back, 0.1);
    b = textbuf_new(perm);
    json_add_f64(&b, NAN);
    json_add_f64(&b, -INFINITY);
    CHECK_STR(textbuf_str(&b), "nullnull");
    b = textbuf_new(perm);
    json_add_string(&b, STR("a\xFF\x01\"b"));
    CHECK_STR(textbuf_str(&b), "\"a\xEF\xBF\xBD\\u0001\\\"b\"");
    b = textbuf_new(perm); /* DEL, U+0080, U+009B, U+009F; what follows them is text */
    json_add_string(&b, STR("\x7F\xC2\x80\xC2\x9B"
                            "31m\xC2\x9F\xC2\xA0\xC3\x9B"));
    CHECK_STR(textbuf_str(&b), "\"\\u007f\\u0080\\u009b31m\\u009f\xC2\xA0\xC3\x9B\"");
}
