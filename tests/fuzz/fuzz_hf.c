/* fuzz_hf.c - any bytes as a config.json, as an index of shards or as a config of adapters: refused with a sentence; or
 * a model that is built or refused; or a list of files that stay in their folder; or settings of adapters. */
#include "model/lora.h"
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

/* What was read is written, and read again as the same. */
static void adapters(struct str text, struct arena *perm)
{
    struct model_config names = { .path = STR("folder"), .dtype = DT_F32 };
    struct lora_config  again;
    struct str          base, other;
    struct err          err = { 0 };
    struct str          llama =
        STR("{\"model_type\": \"llama\", \"vocab_size\": 9, \"num_hidden_layers\": 1, "
            "\"hidden_size\": 8, \"num_attention_heads\": 2, \"intermediate_size\": 8}");
    if (lora_config_read(STR("fuzz"), text, perm, &names.lora, &base, &err)) {
        ASSERT(err.text[0]);
        return;
    }
    struct lora_config first = names.lora;
    ASSERT(first.rank >= 1 && first.dropout >= 0 && first.dropout < 1 && first.alpha > 0);
    ASSERT(!hf_config_read(STR("llama"), llama, perm, &names, &err));
    names.lora         = first;
    bool       on      = first.on_count == 0;
    struct str written = lora_config_write(&names, base, perm);
    for (i64 i = 0; i < first.on_count; i++) on |= str_eq(first.on[i], STR("q_proj"));
    if (!on) return; /* it may mean no matrix of a llama */
    ASSERT(!lora_config_read(STR("written"), written, perm, &again, &other, &err));
    ASSERT(again.rank == first.rank && again.alpha == first.alpha && again.on_count >= 1);
    ASSERT(again.dropout == first.dropout && str_eq(base, other));
}

/* Names of classes that were read are written, and read again as the same. */
static void classes(struct str text, const struct model_config *c, struct arena *perm)
{
    const struct str *names, *again;
    struct str        written;
    struct err        err   = { 0 };
    i64               count = hf_class_names(text, perm, &names);
    struct hf_written how   = { STR("float32"), names, count };
    if (!count || !hf_is_encoder(c) || c->classes != count || c->new_head) return;
    ASSERT(!hf_config_write(c, text, &how, perm, &written, &err));
    ASSERT(hf_class_names(written, perm, &again) == count);
    for (i64 i = 0; i < count; i++) ASSERT(str_eq(names[i], again[i]));
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
    if (!hf_config_read(STR("fuzz"), text, &perm, &c, &err)) {
        build(&c, &perm, &err);
        classes(text, &c, &perm);
    } else ASSERT(err.text[0]);
    perm = all;
    adapters(text, &perm);
    perm = all;
    err  = (struct err){ 0 };
    if (st_index_parse(STR("fuzz"), text, &perm, &index, &err)) {
        ASSERT(err.text[0]);
        return 0;
    }
    for (i64 i = 0; i < index.count; i++) ASSERT(str_find(index.entries[i].file, '/') < 0);
    return 0;
}
