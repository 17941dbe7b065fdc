/* fuzz_hf.c - any bytes as a config.json or as an index of shards: refused with a sentence; or a model that is built or
 * refused; or a list of files that stay in their folder. */
#include "model/hf.h"
#include "store/st_folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct feed tokens(struct str name, i64 range)
{
    return (struct feed){ name, { DT_I32, { .rank = 1, .dim = { 8 } } }, range };
}

static void build(struct model_config *c, struct arena *perm, struct err *err)
{
    struct feeds     feeds = { .count = 2 };
    struct model    *m;
    struct hf_source from;
    i64              range = MIN(c->vocabulary, 64);
    feeds.feed[0]          = tokens(STR("x"), range);
    feeds.feed[1]          = tokens(STR("y"), range);
    ASSERT(c->vocabulary >= 1 && c->depth >= 1 && c->heads >= 1 && c->head_dim >= 0);
    ASSERT(!hf_source(c, STR("h.0.none"), shape_1(4), perm, &from));
    ASSERT(hf_source(c, STR("h.0.attn.qkv.weight"), shape_2(4, 4), perm, &from));
    if (c->depth <= 48 && model_new(perm, c, &feeds, &m, err)) ASSERT(err->text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena all;
    if (!all.begin) all = arena_open((i64)1 << 30);
    struct arena        perm = all;
    struct model_config c    = { .path = STR("folder"), .dtype = DT_F32 };
    struct st_index     index;
    struct err          err  = { 0 };
    struct str          text = { (const char *)data, (i64)bytes };
    if (!hf_config_read(STR("fuzz"), text, &perm, &c, &err)) build(&c, &perm, &err);
    else ASSERT(err.text[0]);
    perm = all;
    err  = (struct err){ 0 };
    if (st_index_parse(STR("fuzz"), text, &perm, &index, &err)) {
        ASSERT(err.text[0]);
        return 0;
    }
    for (i64 i = 0; i < index.count; i++) ASSERT(str_find(index.entries[i].file, '/') < 0);
    return 0;
}
