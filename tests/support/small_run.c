/* small_run.c - files of images or a text, and settings to train on them. */
#include "support/small_run.h"
#include "base/rng.h"
#include "support/folder.h"
#include <math.h>

enum { SIDE = 6, CLASSES = 4 };

static struct str bytes_of(const u8 *head, i64 head_bytes, const u8 *data, i64 bytes,
                           struct arena *perm)
{
    return str_cat(perm, (struct str){ (const char *)head, head_bytes },
                   (struct str){ (const char *)data, bytes });
}

/* Images whose class shows as a bright column. */
struct settings small_run(struct arena *perm, const char *folder, const char *layers)
{
    static u8       x[SMALL_SAMPLES * SIDE * SIDE], y[SMALL_SAMPLES];
    struct err      err = { 0 };
    struct settings s   = { 0 };
    u8 image_head[]     = { 0, 0, 8, 3, 0, 0, 0, SMALL_SAMPLES, 0, 0, 0, SIDE, 0, 0, 0, SIDE };
    u8 label_head[]     = { 0, 0, 8, 1, 0, 0, 0, SMALL_SAMPLES };
    for (i64 i = 0; i < SMALL_SAMPLES; i++) {
        y[i] = (u8)(i % CLASSES);
        for (i64 k = 0; k < SIDE * SIDE; k++)
            x[i * SIDE * SIDE + k] =
                (u8)(rng_u32((struct rng_key){ .seed = 5 }, (u64)(i * 36 + k)) % 100 +
                     (k % SIDE == y[i] ? 100 : 0));
    }
    s.data.kind     = STR("idx");
    s.data.path     = folder_put(perm, str_of(folder), "x",
                                 bytes_of(image_head, sizeof image_head, x, sizeof x, perm));
    s.data.labels   = folder_put(perm, str_of(folder), "y",
                                 bytes_of(label_head, sizeof label_head, y, sizeof y, perm));
    s.data.held_out = 0.15;
    s.model.kind    = STR("layers");
    s.model.file    = STR("test");
    ASSERT(!yaml_parse(perm, STR("test"), str_of(layers), &s.model.layers, &err));
    s.train = (struct train_config){ .epochs        = 3,
                                     .batch         = 16,
                                     .eval_batch    = 8,
                                     .shuffle       = STR("true"),
                                     .seed          = 3,
                                     .keep_best     = STR("auto"),
                                     .optimiser     = STR("adamw"),
                                     .lr            = 0.01,
                                     .beta1         = 0.9,
                                     .beta2         = 0.999,
                                     .eps           = 1e-8,
                                     .decay         = 0.01,
                                     .clip          = 1,
                                     .schedule      = STR("cosine"),
                                     .target_metric = STR("auto"),
                                     .target        = NAN,
                                     .max_seconds   = NAN,
                                     .max_dollars   = NAN,
                                     .precision     = STR("fp32"),
                                     .usd_hour      = NAN,
                                     .threads       = 2 };
    return s;
}

/* A walk over few letters. */
static struct str some_text(struct arena *perm, u64 seed)
{
    char *text = NEW(perm, char, 3000);
    for (i64 i = 0; i < 3000; i++)
        text[i] =
            (char)('a' + (i * 7 + rng_u32((struct rng_key){ .seed = seed }, (u64)i) % 3) % 13);
    return (struct str){ text, 3000 };
}

struct settings small_text_run(struct arena *perm, const char *folder, const char *positions,
                               u64 text_seed)
{
    struct settings s = small_run(perm, folder, "- flatten\n- dense: 4\n");
    s.data            = (struct data_config){ .kind = STR("text"), .context = 16, .held_out = 0.1 };
    s.data.windows    = STR("random");
    s.data.path       = folder_put(perm, str_of(folder), "text", some_text(perm, text_seed));
    s.model           = (struct model_config){ .kind       = STR("gpt"),
                                               .depth      = 2,
                                               .width      = 16,
                                               .heads      = 2,
                                               .kv_heads   = 2,
                                               .norm       = STR("rms"),
                                               .positions  = str_of(positions),
                                               .activation = STR("relu2"),
                                               .qk_norm    = true,
                                               .rope_base  = 10000,
                                               .dropout    = 0.1 };
    s.train.steps     = 25;
    s.train.batch     = 12;
    s.train.epochs    = 0;
    s.train.eval_every = 7;
    return s;
}
