/* test_cached.c - the next token by a cache of keys and values, and by a pass over the whole text: random models of
 * every kind of block, random texts of different lengths side by side, some of which end and make room for others.
 *
 * In f64 the two differ by rounding alone: 1e-11 of the largest logit is some 10^5 roundings (2^-53) of it, and a wrong
 * position, key or window is off by far more than 1e-3 of it. In f32 both are compared with f64: the cache adds the
 * same terms in another order, so it may be off as far as the whole pass is, with room for chance (4 times). */
#include "base/rng.h"
#include "harness.h"
#include "store/safetensors.h"
#include "support/folder.h"
#include "train/use_int.h"
#include <math.h>

enum { LENGTH = 90, VOCABULARY = 37, SEQUENCES = 3, ROUNDS = 14 };

struct variant {
    const char *name, *norm, *positions, *activation;
    i64         width, heads, kv_heads, window;
    f64         stretch, softcap;
    bool        qk_norm, tied, bias;
    i64         value_tables;
};

static const struct variant variants[] = {
    { "as GPT-2", "layer", "learned", "gelu", 24, 3, 0, 0, 0, 0, false, true, true, 0 },
    { "as Llama", "rms", "rotary", "swiglu", 32, 4, 2, 0, 8, 0, false, false, false, 0 },
    { "window", "rms", "rotary", "swiglu", 48, 6, 1, 7, 0, 0, false, true, false, 0 },
    { "others", "rms", "rotary", "relu2", 20, 2, 2, 70, 0, 15, true, false, false, 0 },
    { "values", "rms", "rotary", "relu2", 24, 3, 1, 0, 0, 15, true, false, false, 2 },
};

static struct settings settings_of(const struct variant *v, enum dtype dtype)
{
    return (struct settings){ .data  = { .context = LENGTH },
                              .model = { .kind         = STR("gpt"),
                                         .depth        = 2,
                                         .width        = v->width,
                                         .heads        = v->heads,
                                         .kv_heads     = v->kv_heads,
                                         .norm         = str_of(v->norm),
                                         .positions    = str_of(v->positions),
                                         .activation   = str_of(v->activation),
                                         .window       = v->window,
                                         .value_tables = v->value_tables,
                                         .softcap      = v->softcap,
                                         .qk_norm      = v->qk_norm,
                                         .tied         = v->tied,
                                         .bias         = v->bias,
                                         .rope_base    = 100,
                                         .rope_scaling = { v->stretch, 0.01, 0.1 },
                                         .dtype        = dtype },
                              .train = { .precision = STR("fp32"),
                                         .device    = STR("cpu"),
                                         .optimiser = STR("adamw"),
                                         .warmup    = STR("0"),
                                         .threads   = 2 } };
}

/* Weights large enough that logits differ, norms near 1. */
static void save_weights(const struct settings *s, u64 seed, struct str path, struct arena scratch)
{
    struct feeds  feeds = { .count = 2 };
    struct model *m;
    struct err    err = { 0 };
    struct graph *g   = graph_new(&scratch, STR("weights"));
    for (i32 i = 0; i < 2; i++)
        feeds.feed[i] =
            (struct feed){ i ? STR("y") : STR("x"), type_of(DT_I32, shape_1(LENGTH)), VOCABULARY };
    CHECK_EQ(model_new(&scratch, &s->model, &feeds, &m, &err), STATUS_OK);
    CHECK_EQ(model_build(m, g, 1, MODE_EVAL, &err), STATUS_OK);
    struct st_tensor *list  = NEW(&scratch, struct st_tensor, g->value_count);
    i64               count = 0;
    for (i32 i = 0; i < g->value_count; i++) {
        const struct value *v = &g->values[i];
        if (v->kind != VALUE_PARAM) continue;
        i64  n    = shape_count(v->type.shape);
        f32 *x    = NEW(&scratch, f32, n);
        bool norm = v->type.shape.rank == 1 && str_ends(v->name, STR(".weight"));
        rng_fill_normal((struct rng_key){ .seed = seed, .name = str_hash(v->name) }, 0, n, 0.2, x);
        for (i64 k = 0; norm && k < n; k++) x[k] += 1;
        list[count++] = (struct st_tensor){
            v->name, STR("F32"), v->type.shape, { (const char *)x, n * (i64)sizeof *x }
        };
    }
    CHECK_EQ(st_save(os_real(), path, list, count, scratch, &err), STATUS_OK);
}

static struct use *open_use(struct settings s, struct str path, enum use_cache cache)
{
    struct use_next_config how = { .sequences = SEQUENCES, .cache = cache };
    struct use            *u;
    struct err             err = { 0 };
    s.train.init               = path;
    if (use_open_next(os_real(), &s, &how, &u, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    CHECK_EQ(use_length(u), LENGTH);
    CHECK_EQ(use_vocabulary(u), VOCABULARY);
    return u;
}

static f64 far(const f64 *a, const f64 *b, const struct use_text *texts)
{
    f64 most = 0;
    for (i64 i = 0; i < SEQUENCES * VOCABULARY; i++)
        if (texts[i / VOCABULARY].count) most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

enum { TRUTH, CACHED, WHOLE_LOW, CACHED_LOW, GREEDY, GREEDY_WIDE, GREEDY_WHOLE, USES };

struct round {
    struct use_text texts[SEQUENCES];
    i32             tokens[SEQUENCES][LENGTH];
    u64             seed;
    i64             drawn;
};

static i64 draw_to(struct round *r, i64 n)
{
    return (i64)(rng_uniform((struct rng_key){ .seed = r->seed }, (u64)r->drawn++) * (f64)n);
}

/* Each text grows by a few tokens or by many, rests, or is another one; in the end they are full. */
static void grow(struct round *r, struct use **uses, bool last)
{
    for (i64 i = 0; i < SEQUENCES; i++) {
        i64 had = 0, what = draw_to(r, 8);
        while (had < LENGTH && r->tokens[i][had] >= 0) had++;
        if (what == 0 || (had == LENGTH && !last)) {
            for (i32 u = 0; u < USES; u++) use_forget(uses[u], i);
            for (had = 0; had < LENGTH; had++) r->tokens[i][had] = -1;
            had = 0;
        }
        i64 more = what == 1 ? 0 : what < 6 ? 1 : 1 + draw_to(r, LENGTH);
        if (!had) more = MAX(more, 1);
        if (last) more = LENGTH;
        i64 end     = MIN(LENGTH, had + more);
        r->texts[i] = (struct use_text){ r->tokens[i], end > had ? end : 0 };
        for (; had < end; had++) r->tokens[i][had] = (i32)draw_to(r, VOCABULARY);
    }
}

/* The same programs give the same logits: the first of their largest is the token. */
static void check_greedy(struct use *u, const struct use_text *texts, const f64 *logits)
{
    i32 tokens[SEQUENCES];
    use_likeliest(u, texts, tokens);
    for (i64 i = 0; i < SEQUENCES; i++) {
        i64 best = 0;
        for (i64 k = 1; k < VOCABULARY; k++)
            if (logits[i * VOCABULARY + k] > logits[i * VOCABULARY + best]) best = k;
        if (texts[i].count) CHECK_EQ(tokens[i], best);
    }
}

static void check_variant(const struct variant *v, u64 seed, struct str path, struct arena scratch)
{
    struct settings wide = settings_of(v, DT_F64), low = settings_of(v, DT_F32);
    struct round    r = { .seed = seed };
    f64            *logits[USES], size = 0, worst = 0, worst_low[2] = { 0 };
    save_weights(&low, seed, path, scratch);
    struct use *uses[USES] = {
        open_use(wide, path, USE_CACHE_OFF), open_use(wide, path, USE_CACHE_ON),
        open_use(low, path, USE_CACHE_OFF),  open_use(low, path, USE_CACHE_ON),
        open_use(low, path, USE_CACHE_ON),   open_use(wide, path, USE_CACHE_ON),
        open_use(low, path, USE_CACHE_OFF)
    };
    memset(r.tokens, 0xff, sizeof r.tokens);
    for (i32 u = 0; u < USES; u++) logits[u] = NEW(&scratch, f64, SEQUENCES * VOCABULARY);
    for (i32 round = 0; round <= ROUNDS; round++) {
        grow(&r, uses, round == ROUNDS);
        for (i32 u = 0; u < GREEDY; u++) use_next(uses[u], r.texts, logits[u]);
        check_greedy(uses[GREEDY], r.texts, logits[CACHED_LOW]);
        check_greedy(uses[GREEDY_WIDE], r.texts, logits[CACHED]);
        check_greedy(uses[GREEDY_WHOLE], r.texts, logits[WHOLE_LOW]);
        for (i64 i = 0; i < SEQUENCES * VOCABULARY; i++) size = fmax(size, fabs(logits[TRUTH][i]));
        worst        = fmax(worst, far(logits[TRUTH], logits[CACHED], r.texts));
        worst_low[0] = fmax(worst_low[0], far(logits[TRUTH], logits[WHOLE_LOW], r.texts));
        worst_low[1] = fmax(worst_low[1], far(logits[TRUTH], logits[CACHED_LOW], r.texts));
    }
    for (i32 u = 0; u < USES; u++) use_close(uses[u]);
    if (size > 0.5 && worst <= 1e-11 * size && worst_low[1] <= 4 * worst_low[0]) return;
    harness_fail(__FILE__, __LINE__, "%s: f64 off by %g of %g; f32 by %g, the whole pass by %g",
                 v->name, worst, size, worst_low[1], worst_low[0]);
}

TEST(a_cache_gives_the_logits_of_the_whole_text)
{
    struct str path = str_cat(perm, folder_new(perm), STR("/weights.safetensors"));
    u64        seed = test_seed();
    for (i64 i = 0; i < COUNT_OF(variants); i++) check_variant(&variants[i], seed, path, scratch);
}

/* Used in bf16 a model keeps its matrices as products read them, and the rest in f32. Its logits are off by the
 * roundings of some 20 numbers on the way, 2^-9 each; 10 % of the largest is 50 of them, and a wrong matrix is off by
 * all of it. */
TEST(a_model_used_in_bf16_keeps_its_matrices_in_bf16)
{
    struct str      path = str_cat(perm, folder_new(perm), STR("/weights.safetensors"));
    struct settings full = settings_of(&variants[1], DT_F32), low = full;
    i32             tokens[]         = { 3, 1, 4, 1, 5, 9, 2, 6 };
    struct use_text texts[SEQUENCES] = { { tokens, COUNT_OF(tokens) } };
    f64             logits[2][SEQUENCES * VOCABULARY], size = 0;
    low.train.precision = STR("bf16");
    save_weights(&full, test_seed(), path, scratch);
    struct use *uses[] = { open_use(full, path, USE_CACHE_ON), open_use(low, path, USE_CACHE_ON) };
    for (i32 u = 0; u < 2; u++) use_next(uses[u], texts, logits[u]);
    for (i64 i = 0; i < VOCABULARY; i++) size = fmax(size, fabs(logits[0][i]));
    CHECK(far(logits[0], logits[1], texts) <= 0.1 * size);
    CHECK(far(logits[0], logits[1], texts) > 0);
    for (i32 i = 0; i < uses[1]->s.set->persistent_count; i++) {
        const struct persistent *t = &uses[1]->s.set->persistents[i];
        if (t->kind == VALUE_PARAM)
            CHECK_EQ(t->type.dtype, t->type.shape.rank > 1 ? DT_BF16 : DT_F32);
    }
    for (i32 u = 0; u < 2; u++) use_close(uses[u]);
}
