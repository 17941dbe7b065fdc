/* Any list of layers, on images, tokens and clicks: model_new gives a model or a sentence with the
 * run file's line, and the model it gives can be built. */
#include "base/yaml.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const struct feed feeds_of[][2] = {
    { { { "x", 1 }, { DT_U8, { 3, { 8, 8, 3 } } }, 0 }, { { "y", 1 }, { DT_I32, { 0 } }, 10 } },
    { { { "x", 1 }, { DT_I32, { 1, { 6 } } }, 50 }, { { "y", 1 }, { DT_I32, { 1, { 6 } } }, 50 } },
    { { { "dense", 5 }, { DT_F32, { 1, { 4 } } }, 0 }, { { "y", 1 }, { DT_F32, { 0 } }, 0 } },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena        perm   = arena_open((i64)1 << 30);
    struct model_config config = { .kind = STR("layers"), .file = STR("f"), .dtype = DT_F32 };
    struct str          text   = { (const char *)data, (i64)bytes };
    struct err          err    = { 0 };
    bool                parsed = !yaml_parse(&perm, config.file, text, &config.layers, &err);
    for (i64 i = 0; parsed && i < COUNT_OF(feeds_of); i++) {
        struct arena  again = perm;
        struct feeds  feeds = { .feed = { feeds_of[i][0], feeds_of[i][1] }, .count = 2 };
        struct model *m;
        enum status   st = model_new(&again, &config, &feeds, &m, &err);
        ASSERT(st == STATUS_OK || st == STATUS_USAGE);
        ASSERT(st ? !m && err.text[0] : m != NULL);
        if (m) st = model_build(m, graph_new(&again, STR("g")), 2, MODE_EVAL, &err);
        ASSERT(!m || !st);
    }
    arena_close(&perm);
    return 0;
}
