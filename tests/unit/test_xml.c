#include "harness.h"
#include "remote/xml.h"

TEST(elements_are_found_by_level)
{
    struct str s =
        STR("<?xml version=\"1.0\"?>\n<!-- <a> --><s3:List xmlns=\"x\"><Prefix>p/</Prefix>"
            "<Common><Prefix>deep</Prefix></Common><Empty/><Key>a&amp;b &lt;&quot;</Key>"
            "</s3:List> tail");
    struct xml list, x;
    CHECK(xml_next(&s, &list));
    CHECK_STR(list.name, "List");
    CHECK_STR(xml_child(list.inner, STR("Prefix")), "p/");
    CHECK_STR(xml_child(xml_child(list.inner, STR("Common")), STR("Prefix")), "deep");
    CHECK_STR(xml_text(perm, xml_child(list.inner, STR("Key"))), "a&b <\"");
    CHECK(!xml_child(list.inner, STR("Absent")).data);
    CHECK(xml_child(list.inner, STR("Empty")).data && !xml_child(list.inner, STR("Empty")).len);
    CHECK(!xml_next(&s, &x));
}

TEST(the_same_name_inside_itself)
{
    struct str s = STR("<a><a>1</a><b>2</b></a><a>3</a>");
    struct xml x;
    CHECK(xml_next(&s, &x));
    CHECK_STR(x.whole, "<a><a>1</a><b>2</b></a>");
    CHECK(xml_next(&s, &x));
    CHECK_STR(x.inner, "3");
}

TEST(what_is_not_whole_is_nothing)
{
    static const char *const broken[] = { "",          "<",       "<a",         "<a>",
                                          "<a></b>",   "</a>",    "<a><b></a>", "<!-- a",
                                          "<![CDATA[", "<?xml ?", "text" };
    for (i64 i = 0; i < COUNT_OF(broken); i++) {
        struct str s = str_of(broken[i]);
        struct xml x;
        CHECK(!xml_next(&s, &x));
    }
}

TEST(what_is_escaped_comes_back)
{
    struct textbuf b = textbuf_new(perm);
    xml_escape(&b, STR("a<b>&\"c'"));
    CHECK_STR(textbuf_str(&b), "a&lt;b&gt;&amp;&quot;c&apos;");
    CHECK_STR(xml_text(perm, textbuf_str(&b)), "a<b>&\"c'");
}
