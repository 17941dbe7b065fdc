#include "base/json.h"
#include "base/yaml.h"
#include "harness.h"

/* The tree as JSON: unquoted scalars bare, null as null; with lines: key@line. */
static void write_tree(struct textbuf *b, const struct yaml *v, bool lines)
{
    if (v->kind == YAML_SCALAR) {
        if (v->quoted) json_add_string(b, v->text);
        else textbuf_add(b, v->text.len ? v->text : STR("null"));
        return;
    }
    textbuf_add(b, v->kind == YAML_MAP ? STR("{") : STR("["));
    i64 count = 0;
    for (const struct yaml *c = v->first; c; c = c->next, count++) {
        if (c != v->first) textbuf_add(b, STR(","));
        if (lines) textbuf_fmt(b, "%d@", c->line);
        if (v->kind == YAML_MAP) textbuf_fmt(b, "%.*s:", STR_ARG(c->key));
        write_tree(b, c, lines);
    }
    CHECK_EQ(count, v->count);
    textbuf_add(b, v->kind == YAML_MAP ? STR("}") : STR("]"));
}

static struct str shown(struct arena *perm, const char *text, bool lines)
{
    struct yaml *v;
    struct err   err = { 0 };
    if (yaml_parse(perm, STR("t.yaml"), str_of(text), &v, &err))
        harness_fail(__FILE__, __LINE__, "%s\n%s", err.text, text);
    struct textbuf b = textbuf_new(perm);
    write_tree(&b, v, lines);
    return textbuf_str(&b);
}

TEST(the_part_we_need_is_read)
{
    static const struct {
        const char *text, *tree;
    } rows[] = {
        { "", "null" },
        { "\n# only a comment\n", "null" },
        { "---\na: 1\n", "{a:1}" },
        { "\xEF\xBB\xBF"
          "a: 1",
          "{a:1}" },
        { "plain words here", "plain words here" },
        { "a: 1\nb: two words # comment\nc:\n", "{a:1,b:two words,c:null}" },
        { "a: 1\r\nb:\r\n  c: 2\r\n", "{a:1,b:{c:2}}" },
        { "a: -1.5e-3\nb: +7\nc: .5\nd: 1_000\n", "{a:-1.5e-3,b:+7,c:.5,d:1_000}" },
        { "a: ~\nb: null\nc: \"\"\nd: \"null\"\n", "{a:null,b:null,c:\"\",d:\"null\"}" },
        { "a: x#y\nb: 'it''s # here' # there\nc: \"q # \\\"z\\\"\"\n",
          "{a:x#y,b:\"it's # here\",c:\"q # \\\"z\\\"\"}" },
        { "a: \"\\t\\x41\\u00e9\\U0001F600\\0\"\n",
          "{a:\"\\u0009A\xC3\xA9\xF0\x9F\x98\x80\\u0000\"}" },
        { "url: http://host:80/x?y=1\ntime: 12:30\n", "{url:http://host:80/x?y=1,time:12:30}" },
        { "\"quoted key\": 1\n'other' : 2\n", "{quoted key:1,other:2}" },
        { "- 1\n- two\n-\n- 'four'\n", "[1,two,null,\"four\"]" },
        { "- - 1\n  - 2\n-   - 3\n    - 4\n", "[[1,2],[3,4]]" },
        { "layers:\n  - dense: {units: 128}\n  - conv:\n      filters: 16\n      size: [3, 3]\n"
          "  - relu\n",
          "{layers:[{dense:{units:128}},{conv:{filters:16,size:[3,3]}},relu]}" },
        { "layers:\n- conv:\n    filters: 16\n- name: x\n  units: 2\nlast: 1\n",
          "{layers:[{conv:{filters:16}},{name:x,units:2}],last:1}" },
        { "a:\n- b:\n  - c\n  - d\n- e\nf: 1", "{a:[{b:[c,d]},e],f:1}" },
        { "-\n  a: 1\n  b: 2\n-\n  - x\n", "[{a:1,b:2},[x]]" },
        { "a: [1, 2,\n  # inside\n  three words, # tail\n  'f,o,u,r',\n]\nb: {}\nc: []\n",
          "{a:[1,2,three words,\"f,o,u,r\"],b:{},c:[]}" },
        { "a: {b: {c: [1, {d: 2}]}, \"e\":3, f: , g: h:i}",
          "{a:{b:{c:[1,{d:2}]},e:3,f:null,g:h:i}}" },
        { "{a: 1,\n b: 2}\n", "{a:1,b:2}" },
        { "a:\n  'text below'\nb:\n  [1]\n", "{a:\"text below\",b:[1]}" },
        { "a:\n  ~\n", "{a:null}" },
        { "- b\n", "[b]" },
        { "a: -b\nc: ?d\ne: :f\n", "{a:-b,c:?d,e::f}" },
        { "a b: c\n", "{a b:c}" },
        { "a: 1  \n\n   # far\nb: 2\n# end", "{a:1,b:2}" },
    };
    for (int i = 0; i < COUNT_OF(rows); i++)
        CHECK_STR(shown(perm, rows[i].text, false), rows[i].tree);
}

TEST(every_node_knows_its_line)
{
    CHECK_STR(shown(perm,
                    "# one\n"
                    "a: 1\n"
                    "b:\n"
                    "  - x\n"
                    "\n"
                    "  -\n"
                    "    c: [1,\n"
                    "      2,\n"
                    "      {d: 3}]\n"
                    "e: 4\n",
                    true),
              "{2@a:1,3@b:[4@x,6@{7@c:[7@1,8@2,9@{9@d:3}]}],10@e:4}");
}

TEST(what_lies_outside_is_refused_with_its_line)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        { "a: &x 1", "t.yaml:1: anchors and aliases (& and *) are not supported" },
        { "b: 1\na: *x", "t.yaml:2: anchors and aliases (& and *) are not supported" },
        { "a: !!int 1", "t.yaml:1: tags (!) are not supported" },
        { "a: |\n  text\n", "t.yaml:1: block scalars (| and >) are not supported; use quotes" },
        { "a: >-\n  text\n", "t.yaml:1: block scalars (| and >) are not supported; use quotes" },
        { "? a\n: b\n", "t.yaml:1: complex keys (?) are not supported" },
        { "%YAML 1.2\n---\na: 1", "t.yaml:1: a value may not begin with %, @ or `; use quotes" },
        { "a: 1\n---\nb: 2",
          "t.yaml:2: more than one document in the file; only one is supported" },
        { "a: 1\n...\n", "t.yaml:2: more than one document in the file; only one is supported" },
        { "a:\n\tb: 1", "t.yaml:2: a tab outside of quotes; use spaces" },
        { "a:\tb", "t.yaml:1: a tab outside of quotes; use spaces" },
        { "a: b\tc", "t.yaml:1: a tab outside of quotes; use spaces" },
        { "a: 1\nb: 2\na: 3", "t.yaml:3: the key a was already given in line 1" },
        { "x: {a: 1, \"a\": 2}", "t.yaml:1: the key a was already given in line 1" },
        { "a: 1\n  b: 2",
          "t.yaml:2: indented by 2 spaces, but the line above by 0: keys of one section "
          "need the same indentation, and a value must end on its line" },
        { "a: one\n two",
          "t.yaml:2: indented by 1 space, but the line above by 0: keys of one section "
          "need the same indentation, and a value must end on its line" },
        { "a:\n    b: 1\n\n # no\n  c: 2",
          "t.yaml:5: indented by 2 spaces, but the line above by 4: keys of "
          "one section need the same indentation" },
        { "  a: 1\nb: 2",
          "t.yaml:2: indented by 0 spaces, but the line above by 2: keys of one section "
          "need the same indentation" },
        { "- a\nb: 1", "t.yaml:2: expected a list item, '- …', as above" },
        { "a: 1\n- b", "t.yaml:2: a list item where a key should be" },
        { "a: 1\nb", "t.yaml:2: expected 'key: value'" },
        { "a: b: c", "t.yaml:1: a second key on the line; begin a new one or use {}" },
        { "a: - b", "t.yaml:1: a list item may not begin here; put it on a line of its own" },
        { "a: 'x", "t.yaml:1: the quote is not closed on this line" },
        { "a: \"x\ny\"", "t.yaml:1: the quote is not closed on this line" },
        { "a: \"\\q\"", "t.yaml:1: an escape that is not supported" },
        { "a: \"\\ud800\"", "t.yaml:1: an escape that is not supported" },
        { "a: \"\\x4\"", "t.yaml:1: an escape that is not supported" },
        { "a: 'x' y", "t.yaml:1: something follows the end of the value" },
        { "a: [1] 2", "t.yaml:1: something follows the end of the value" },
        { "a: [1,\n2", "t.yaml:2: the file ends inside [ ] or { }" },
        { "a: [1 2: 3]", "t.yaml:1: expected ',' or ']'" },
        { "a: {b c}", "t.yaml:1: expected ': ' after the key" },
        { "a: {b:1}", "t.yaml:1: expected ': ' after the key" },
        { "a: [1}", "t.yaml:1: expected ',' or ']'" },
        { "a: [,]", "t.yaml:1: a value is missing before ','" },
        { "a: [?, 1]", "t.yaml:1: complex keys (?) are not supported" },
        { "a: [-]", "t.yaml:1: a list item may not begin here; put it on a line of its own" },
        { "a: {b\n: 1}", "t.yaml:1: expected ': ' after the key" },
        { "a: ]", "t.yaml:1: a bracket that nothing opened" },
        { "a: [x,#y]", "t.yaml:1: a comment needs a space before its '#'" },
        { ": a", "t.yaml:1: a key is missing before ':'" },
        { "'': a", "t.yaml:1: a key is empty" },
        { "a: 1\nb: \xFF", "t.yaml:2: bytes that are not UTF-8" },
        { "a: 1\rb: 2", "t.yaml:1: a control character" },
        { "a: 1\nb: \x01", "t.yaml:2: a control character" },
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        struct yaml *v;
        struct err   err = { 0 };
        enum status  st  = yaml_parse(perm, STR("t.yaml"), str_of(rows[i].text), &v, &err);
        if (!st) harness_fail(__FILE__, __LINE__, "accepted: %s", rows[i].text);
        CHECK_STR(err.text, rows[i].message);
        CHECK_EQ(st, STATUS_USAGE);
        CHECK(!v);
    }
}

TEST(depth_and_count_are_bounded)
{
    struct textbuf deep = textbuf_new(perm);
    struct yaml   *v;
    for (int i = 0; i < 65; i++) textbuf_add(&deep, STR("["));
    CHECK_EQ(yaml_parse(perm, STR("t"), textbuf_str(&deep), &v, NULL), STATUS_USAGE);
    deep = textbuf_new(perm);
    for (int i = 0; i < 65; i++) textbuf_add(&deep, STR("- "));
    CHECK_EQ(yaml_parse(perm, STR("t"), textbuf_str(&deep), &v, NULL), STATUS_USAGE);

    struct textbuf wide = textbuf_new(perm);
    for (int i = 0; i < 10000; i++) textbuf_fmt(&wide, "k%d: 1\n", i);
    CHECK_EQ(yaml_parse(perm, STR("t"), textbuf_str(&wide), &v, NULL), STATUS_OK);
    textbuf_add(&wide, STR("one: more"));
    CHECK_EQ(yaml_parse(perm, STR("t"), textbuf_str(&wide), &v, NULL), STATUS_USAGE);
}

TEST(members_are_found)
{
    struct yaml *v;
    CHECK_EQ(yaml_parse(perm, STR("t"), STR("a: 1\nb: {c: 2}"), &v, NULL), STATUS_OK);
    CHECK_STR(yaml_get(yaml_get(v, STR("b")), STR("c"))->text, "2");
    CHECK(!yaml_get(v, STR("c")));
    CHECK(!yaml_get(yaml_get(v, STR("a")), STR("c")));
    CHECK(!yaml_get(NULL, STR("c")));
}
