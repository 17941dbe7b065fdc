/* clicks.c - synthetic_clicks: made-up advertising data whose truth is known, so that a ranker can be
 * judged against the best possible AUC.
 *
 * Sample `index` is a pure function of (seed, split, index) through base/rng, and so is the world it
 * comes from; nothing is read and nothing but the world's tables is stored.
 *
 *     26 categories   column j has n_j values, n_0 = 10 up to n_25 = `buckets` in a geometric row;
 *                     value v comes with chance ln((v + 2) / (v + 1)) / ln(n_j + 1), close to Zipf
 *     13 numbers      uniform, mean 0, variance 1
 *     logit           bias + sum of the values' effects + weights . numbers
 *                     + for four pairs of columns, a product of an effect of each
 *     y               1 with chance 1 / (1 + exp(-logit)), else 0
 *
 * Effects are normal numbers, centred and scaled to variance 1 under the chances of their column,
 * so that every world has the same spread of logits, and with it about the same best AUC, 0.80.
 * Feeds as csv: "dense" f32[13], "x" i32[26], column j's rows from j * buckets on, "y" f32. */
#include "base/rng.h"
#include "data/data_int.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CATEGORIES = 26, NUMBERS = 13, PAIRS = 4, WORDS = 40 }; /* words of a sample: + its label */
enum { TABLES = CATEGORIES + 2 * PAIRS };

static const u64 world_seed      = 0;  /* there is one world */
static const i64 values_min      = 10; /* of the first column */
static const i64 buckets_max     = 1 << 24;
static const i64 samples_default = 1000000, eval_samples_default = 100000;

/* The logit's variance and where it comes from; bias and variance give 27 % clicks and the AUC. */
static const f64 bias = -1.32, variance = 1.90;
static const f64 share_categories = 0.65, share_numbers = 0.20, share_pairs = 0.15;

struct clicks_state {
    u64          seed;
    i64          buckets;
    i64          values[CATEGORIES];     /* n_j */
    f64          log_values[CATEGORIES]; /* ln(n_j + 1) */
    f64         *effect[TABLES];         /* [n_j]: of every column, then of the pairs' columns */
    f64          weight[NUMBERS];
    struct arena own; /* holds the effects */
};

/* Of table t, whose column is t itself or, for the pairs, t - CATEGORIES: the short columns, whose
 * pairs of values all come often enough to be learned. */
static i32 column_of(i32 table) { return table < CATEGORIES ? table : table - CATEGORIES; }

static struct rng_key key_of(const struct clicks_state *state, struct str what, u64 step,
                             u64 sample)
{
    return (struct rng_key){ state->seed, str_hash(what), step, sample };
}

/* Normal numbers, made mean 0 and variance `spread` under the chances of the values. */
static void fill_effects(struct clicks_state *state, i32 table, f64 spread)
{
    struct rng_key key  = key_of(state, STR("clicks.effect"), (u64)table, 0);
    i32            j    = column_of(table);
    f64            mean = 0, square = 0, *effect = state->effect[table];
    for (i64 v = 0; v < state->values[j]; v++) {
        f64 chance = log((f64)(v + 2) / (f64)(v + 1)) / state->log_values[j];
        effect[v]  = rng_normal(key, (u64)v);
        mean += chance * effect[v];
        square += chance * effect[v] * effect[v];
    }
    f64 scale = sqrt(spread / (square - mean * mean));
    for (i64 v = 0; v < state->values[j]; v++) effect[v] = (effect[v] - mean) * scale;
}

static void fill_world(struct clicks_state *state)
{
    f64 norm = 0;
    for (i32 t = 0; t < TABLES; t++)
        fill_effects(state, t,
                     t < CATEGORIES ? variance * share_categories / CATEGORIES
                                    : sqrt(variance * share_pairs / PAIRS));
    for (i32 i = 0; i < NUMBERS; i++) {
        state->weight[i] = rng_normal(key_of(state, STR("clicks.weight"), 0, 0), (u64)i);
        norm += state->weight[i] * state->weight[i];
    }
    for (i32 i = 0; i < NUMBERS; i++) state->weight[i] *= sqrt(variance * share_numbers / norm);
}

/* The sample, without the columns' offsets; returns its true logit. */
static f64 draw(const struct clicks_state *state, enum split s, i64 index, i32 *x, f32 *dense,
                f32 *y)
{
    struct rng_key key = key_of(state, STR("clicks.sample"), (u64)s, (u64)index);
    u32            word[WORDS];
    f64            logit = bias;
    for (i32 block = 0; block < WORDS / 4; block++) rng_block(key, (u64)block, word + 4 * block);
    for (i32 j = 0; j < CATEGORIES; j++) {
        i64 v = (i64)exp(word[j] * 0x1p-32 * state->log_values[j]) - 1;
        x[j]  = (i32)MIN(v, state->values[j] - 1);
        logit += state->effect[j][x[j]];
    }
    for (i32 i = 0; i < NUMBERS; i++) {
        dense[i] = (f32)((word[CATEGORIES + i] * 0x1p-31 - 1) * 1.7320508075688772); /* sqrt(3) */
        logit += state->weight[i] * (f64)dense[i];
    }
    for (i32 t = CATEGORIES; t < TABLES; t += 2)
        logit += state->effect[t][x[column_of(t)]] * state->effect[t + 1][x[column_of(t + 1)]];
    *y = word[WORDS - 1] * 0x1p-32 < 1 / (1 + exp(-logit)) ? 1.0f : 0.0f;
    return logit;
}

static enum status open_clicks(struct dataset *d, const struct data_config *config,
                               struct arena *perm, struct err *err)
{
    struct clicks_state *state = d->state = NEW(perm, struct clicks_state, 1);
    i64                  buckets          = config->buckets;
    if (buckets < values_min || buckets > buckets_max)
        return err_set(err, STATUS_USAGE,
                       "data.buckets is %lld; synthetic_clicks need %lld to %lld",
                       (long long)buckets, (long long)values_min, (long long)buckets_max);
    state->own = arena_open((TABLES * buckets + 1024) * (i64)sizeof(f64));
    if (!state->own.begin)
        return err_set(err, STATUS_WORLD, "no memory for %lld buckets", (long long)buckets);
    state->seed    = world_seed;
    state->buckets = buckets;
    for (i32 j = 0; j < CATEGORIES; j++) {
        f64 step             = pow((f64)buckets / (f64)values_min, (f64)j / (CATEGORIES - 1));
        state->values[j]     = (i64)round((f64)values_min * step);
        state->log_values[j] = log((f64)state->values[j] + 1);
    }
    for (i32 t = 0; t < TABLES; t++)
        state->effect[t] = NEW(&state->own, f64, state->values[column_of(t)]);
    fill_world(state);

    d->count[SPLIT_TRAIN] = config->samples > 0 ? config->samples : samples_default;
    d->count[SPLIT_EVAL]  = config->eval_samples > 0 ? config->eval_samples : eval_samples_default;
    dataset_add_feed(d, STR("dense"), type_of(DT_F32, shape_1(NUMBERS)), 0);
    dataset_add_feed(d, STR("x"), type_of(DT_I32, shape_1(CATEGORIES)), CATEGORIES * buckets);
    dataset_add_feed(d, STR("y"), type_of(DT_F32, shape_of(0, NULL)), 0);
    return STATUS_OK;
}

static void fetch_clicks(const struct dataset *d, enum split s, const i64 *index, i64 count,
                         void *const *to)
{
    const struct clicks_state *state = d->state;
    for (i64 i = 0; i < count; i++) {
        i32 *x = (i32 *)to[1] + i * CATEGORIES;
        draw(state, s, index[i], x, (f32 *)to[0] + i * NUMBERS, (f32 *)to[2] + i);
        for (i32 j = 0; j < CATEGORIES; j++) x[j] += (i32)(j * state->buckets);
    }
}

static void close_clicks(struct dataset *d)
{
    struct clicks_state *state = d->state;
    if (state && state->own.begin) arena_close(&state->own);
}

struct scored {
    f64 logit;
    f32 y;
};

static int by_logit(const void *a, const void *b)
{
    f64 x = ((const struct scored *)a)->logit, y = ((const struct scored *)b)->logit;
    return (x > y) - (x < y);
}

/* The share of (click, no click) pairs that the true logit puts in order. */
static f64 best_auc(const struct dataset *d)
{
    i64            count  = d->count[SPLIT_EVAL];
    struct arena   memory = arena_open((count + 1) * (i64)sizeof(struct scored));
    struct scored *row    = memory.begin ? NEW(&memory, struct scored, count) : NULL;
    f64            others = 0, clicks = 0, pairs = 0;
    i32            x[CATEGORIES];
    f32            dense[NUMBERS];
    if (!row) return NAN;
    for (i64 i = 0; i < count; i++)
        row[i].logit = draw(d->state, SPLIT_EVAL, i, x, dense, &row[i].y);
    qsort(row, (size_t)count, sizeof *row, by_logit);
    for (i64 i = 0; i < count; i++) {
        if (row[i].y > 0) pairs += others, clicks++;
        else others++;
    }
    arena_close(&memory);
    return pairs / (clicks * others); /* NaN where all rows are alike */
}

const struct format format_clicks = { .kind     = { "synthetic_clicks", 16 },
                                      .open     = open_clicks,
                                      .fetch    = fetch_clicks,
                                      .close    = close_clicks,
                                      .best_auc = best_auc };
