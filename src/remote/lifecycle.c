/* lifecycle.c - merging rules. */
#include "remote/lifecycle.h"
#include "remote/xml.h"

enum { RULES_MAX = 1000 }; /* S3 user guide */

static struct str rule_id(struct arena *perm, const char *what, struct str prefix)
{
    return str_fmt(perm, "frugal-%s %.*s", what, (int)MIN(prefix.len, 200), prefix.data);
}

static void add_head(struct textbuf *b, struct str id)
{
    textbuf_add(b, STR("<Rule><ID>"));
    xml_escape(b, id);
    textbuf_add(b, STR("</ID><Filter>"));
}

static void add_prefix(struct textbuf *b, struct str prefix)
{
    textbuf_add(b, STR("<Prefix>"));
    xml_escape(b, prefix);
    textbuf_add(b, STR("</Prefix>"));
}

/* Two, because a rule that goes by tags may not speak of unfinished uploads, which have none. */
static void add_ours(struct textbuf *b, const struct lifecycle *c, struct str uploads,
                     struct str retired)
{
    add_head(b, uploads);
    add_prefix(b, c->prefix);
    textbuf_fmt(
        b,
        "</Filter><Status>Enabled</Status><AbortIncompleteMultipartUpload><DaysAfterInitiation>"
        "%lld</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>",
        (long long)c->abort_days);
    add_head(b, retired);
    textbuf_add(b, STR("<And>"));
    add_prefix(b, c->prefix);
    textbuf_fmt(
        b,
        "<Tag><Key>frugal</Key><Value>retired</Value></Tag></And></Filter><Status>Enabled</Status>"
        "<Transition><Days>%lld</Days><StorageClass>%.*s</StorageClass></Transition></Rule>",
        (long long)c->cold_days, STR_ARG(c->storage_class));
}

enum status lifecycle_merge(struct arena *perm, struct str there, const struct lifecycle *c,
                            struct str *out, i64 *others, struct err *err)
{
    struct arena text         = arena_part(perm, 4 * there.len + 16384);
    struct str   uploads      = rule_id(perm, "uploads", c->prefix),
               retired        = rule_id(perm, "retired", c->prefix);
    struct textbuf b          = textbuf_new(&text);
    struct xml     root       = { 0 }, rule;
    bool           understood = !str_trim(there).len ||
                      (xml_next(&there, &root) && str_eq(root.name, STR("LifecycleConfiguration")));
    *others = 0;
    textbuf_add(&b,
                STR("<LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"));
    for (struct str rest = root.inner; understood && xml_next(&rest, &rule);) {
        struct str id = xml_text(perm, xml_child(rule.inner, STR("ID")));
        understood    = str_eq(rule.name, STR("Rule"));
        if (str_eq(id, uploads) || str_eq(id, retired)) continue;
        textbuf_add(&b, rule.whole);
        *others += 1;
    }
    if (!understood)
        return err_set(err, STATUS_WORLD,
                       "frugal does not understand the bucket's lifecycle rules, so it "
                       "did not change them");
    if (*others + 2 > RULES_MAX)
        return err_set(err, STATUS_WORLD,
                       "the bucket has %lld lifecycle rules, and at most %d are allowed",
                       (long long)*others, RULES_MAX);
    add_ours(&b, c, uploads, retired);
    textbuf_add(&b, STR("</LifecycleConfiguration>"));
    *out = textbuf_str(&b);
    return STATUS_OK;
}
