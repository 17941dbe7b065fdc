/* report_html.c - runs as one HTML file that needs no server: the page's own files and what they would have asked for.
 *
 * The modules are joined: a line that imports is left out, and `export` before a declaration, so that their names are
 * those of one module. A policy allows that script and that style by their hashes, and nothing else. */
#include "base/hash.h"
#include "page/assets.h"
#include "page/page_int.h"

enum { BUCKETS = 1500, TEXT_MIB = 256, SCRIPT_MIB = 8 };

static const char *const modules[] = { "/base.js",    "/chart.js",   "/data.js",
                                       "/runs.js",    "/learned.js", "/run.js",
                                       "/compare.js", "/play.js",    "/app.js" };

static struct str asset(const char *path)
{
    for (i64 i = 0; i < page_asset_count; i++)
        if (str_eq(str_of(page_assets[i].path), str_of(path)))
            return (struct str){ page_assets[i].data, page_assets[i].bytes };
    ASSERT(!"an asset of that name");
    return STR("");
}

static struct str script(struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; i < COUNT_OF(modules); i++) {
        struct str text = asset(modules[i]), line;
        while (str_cut(&text, '\n', &line)) {
            if (str_starts(line, STR("import "))) continue;
            if (str_starts(line, STR("export "))) line = str_sub(line, 7, line.len);
            textbuf_add(&b, line);
            textbuf_fmt(&b, "\n");
        }
    }
    return textbuf_str(&b);
}

static struct str hash_of(struct str text, struct arena *perm)
{
    struct sha256 s;
    u8            digest[32];
    sha256_init(&s);
    sha256_add(&s, text);
    sha256_end(&s, digest);
    return str_base64(perm, (struct str){ (const char *)digest, sizeof digest });
}

/* No text of a run may end the element that it stands in. */
static void add_embedded(struct textbuf *b, struct str json)
{
    i64 from = 0;
    for (i64 i = 0; i < json.len; i++) {
        if (json.data[i] != '<') continue;
        textbuf_add(b, str_sub(json, from, i));
        textbuf_fmt(b, "\\u003c");
        from = i + 1;
    }
    textbuf_add(b, str_sub(json, from, json.len));
}

static void add_run(struct textbuf *b, const struct run_bill *r, struct str events, struct os *os,
                    i64 now_wall_ns, struct arena scratch)
{
    struct str     folder = str_fmt(&scratch, "%.*s/%.*s", STR_ARG(events), STR_ARG(r->row.id));
    struct series *s      = series_open(os, folder);
    textbuf_fmt(b, "\"/api/run?run=%.*s\":", STR_ARG(r->row.id));
    runs_detail(b, r, now_wall_ns);
    textbuf_fmt(b, "\"/api/curve?run=%.*s\":", STR_ARG(r->row.id));
    if (s) series_update(s);
    if (s) curve_json(b, s, POINT_step, BUCKETS, STR("0.0.0"), scratch);
    if (s) series_close(s);
}

static struct str ids_of(const struct str *ids, i64 count, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; i < count; i++) textbuf_fmt(&b, "%s%.*s", i ? "," : "", STR_ARG(ids[i]));
    return textbuf_str(&b);
}

/* All that the page asks for, by the address that it asks at. */
static struct str data_of(struct runs *all, struct str events, const struct str *ids, i64 count,
                          struct arena *perm, struct arena scratch)
{
    struct str     joined = ids_of(ids, count, &scratch);
    struct textbuf b      = textbuf_new(perm);
    out_open(&b, NULL, '{');
    out_text(&b, "start",
             count == 1 ? str_fmt(&scratch, "#/run/%.*s", STR_ARG(joined))
                        : str_fmt(&scratch, "#/compare?runs=%.*s", STR_ARG(joined)));
    textbuf_fmt(&b, "\"/api/runs\":{\"generation\":0,\"runs\":[");
    for (i64 i = 0; i < count; i++) runs_row(&b, runs_find(all, ids[i]), all->now_wall_ns);
    out_close(&b, ']');
    out_close(&b, '}');
    for (i64 i = 0; i < count; i++)
        add_run(&b, runs_find(all, ids[i]), events, all->os, all->now_wall_ns, scratch);
    if (count > 1) {
        textbuf_fmt(&b, "\"/api/compare?runs=%.*s\":", STR_ARG(joined));
        runs_compare(&b, all, joined, scratch);
    }
    out_close(&b, '}');
    return out_whole(&b);
}

enum status page_report(struct os *os, const struct page_config *config, const struct str *ids,
                        i64 count, struct arena *perm, struct str *html, struct err *err)
{
    struct runs  all;
    struct arena scratch = arena_part(perm, (i64)TEXT_MIB << 20);
    struct arena texts   = arena_part(perm, (i64)TEXT_MIB << 20);
    enum status  st      = runs_open(&all, os, config->ledger, perm, err);
    for (i64 i = 0; i < count && !st; i++)
        if (!runs_find(&all, ids[i]))
            st =
                err_set(err, STATUS_WORLD, "the run %.*s is gone from the ledger", STR_ARG(ids[i]));
    if (!st) {
        struct str style = asset("/app.css"), code = script(&texts);
        struct str style_hash = hash_of(style, &texts), code_hash = hash_of(code, &texts);
        struct str data  = data_of(&all, page_events(config, &texts), ids, count, &texts, scratch);
        struct textbuf b = textbuf_new(perm);
        textbuf_fmt(&b,
                    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
                    "name=\"viewport\" "
                    "content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" "
                    "content=\"light dark\">\n"
                    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                    "script-src 'sha256-%.*s'; "
                    "style-src 'sha256-%.*s'; img-src data:; base-uri 'none'; form-action "
                    "'none'\">\n<title>frugal</title>\n<style>",
                    STR_ARG(code_hash), STR_ARG(style_hash));
        textbuf_add(&b, style);
        textbuf_fmt(&b, "</style>\n</head>\n<body>\n<header class=\"top\"><a class=\"brand\" "
                        "href=\"#/\"><span class=\"mark\" "
                        "aria-hidden=\"true\">$</span>frugal</a><nav aria-label=\"Pages\" "
                        "id=\"nav\"></nav><span class=\"link-state\" id=\"link\" "
                        "role=\"status\"></span></header>\n<main id=\"main\" "
                        "tabindex=\"-1\"></main>\n<div class=\"hidden\" "
                        "aria-live=\"polite\" id=\"say\"></div>\n<script type=\"application/json\" "
                        "id=\"embedded\">");
        add_embedded(&b, data);
        textbuf_fmt(&b, "</script>\n<script type=\"module\">");
        textbuf_add(&b, code);
        textbuf_fmt(&b, "</script>\n</body>\n</html>\n");
        *html = textbuf_str(&b);
    }
    runs_close(&all);
    return st;
}
