/* fuzz_page.c - any bytes as what the page's server is sent and reads: the Host, Origin and Cookie of a request, the
 * levers of the playground, and an event log, which becomes points and lines that are thinned and written as JSON. */
#include "base/json.h"
#include "job/playground_int.h"
#include "page/page_int.h"
#include "support/sim_os.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void read_head(struct str text, struct arena *perm)
{
    struct str host = text, origin = str_cat(perm, STR("http://"), text);
    bool       ours = serve_host_is_ours(text, STR(""), 8080);
    if (ours)
        ASSERT(text.len <= 14 && str_find(text, ':') > 0); /* localhost:8080, 127.0.0.1:8080 */
    ASSERT(!text.len || serve_origin_is_ours(origin, host));
    ASSERT(serve_cookie(text, STR("frugal_8080")).len <= text.len);
}

static void read_levers(struct str text)
{
    enum { WORDS = 64 };
    struct str    words[WORDS], word;
    struct levers l;
    struct err    err   = { 0 };
    i64           count = 0;
    while (count < WORDS && str_cut(&text, '&', &word)) words[count++] = word;
    if (play_levers(&l, words, count, &err)) ASSERT(err.text[0]);
    else ASSERT(l.what.len > 0 && !(l.tokens < 1e3) && !(l.gpus > PLAN_GPUS_MAX));
}

static void read_log(struct str text, struct arena *perm)
{
    struct sim_os *sim = sim_os_new(perm);
    struct json   *root;
    sim->os.make_dir(&sim->os, STR("/r"), NULL);
    sim_os_put(sim, STR("/r/a.jsonl"), text);
    struct series *s = series_open(&sim->os, STR("/r"));
    series_update(s);
    struct arena   scratch = arena_part(perm, 8 << 20);
    struct textbuf b       = textbuf_new(perm);
    curve_json(&b, s, POINT_dollars, 2, STR("0.0.0"), scratch);
    ASSERT(!json_parse(&scratch, out_whole(&b), &root, NULL));
    series_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena perm = arena_open((i64)256 << 20);
    struct str   text = { (const char *)data, (i64)bytes };
    read_head(text, &perm);
    read_levers(text);
    read_log(text, &perm);
    arena_close(&perm);
    return 0;
}
