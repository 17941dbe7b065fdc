/* Whole runs in bf16 and fp16: their losses stay near those of fp32, also with micro-batches and
 * recomputation, and what a run tells of its scale. */
#include "base/rng.h"
#include "harness.h"
#include "store/safetensors.h"
#include "support/folder.h"
#include "support/level.h"
#include "train/config.h"
#include "train/train_int.h"

enum { STEPS = 200, WINDOW = 20 };

struct course {
    f64                 losses[STEPS];
    char                precision[16], reason[128];
    struct train_result result;
};

static void on_start(void *context, const struct event_start *t)
{
    struct course *c = context;
    snprintf(c->precision, sizeof c->precision, "%.*s", STR_ARG(t->precision));
    snprintf(c->reason, sizeof c->reason, "%.*s", STR_ARG(t->precision_reason));
}

static void on_step(void *context, const struct event_step *t)
{
    struct course *c = context;
    if (t->step <= STEPS) c->losses[t->step - 1] = t->loss;
}

/* Words drawn by a rule, so that there is something to learn and much that cannot be. */
static struct str text_file(struct arena *perm)
{
    static const char *const words[] = { "when ",    "the ", "of ",     "a ",    "matrix ", "sum ",
                                         "rounds ",  "low ", "type ",   "step ", "is ",     "loss ",
                                         "falls.\n", "and ", "number ", "kept " };
    struct textbuf           b       = textbuf_new(perm);
    u32                      last    = 0;
    for (u64 i = 0; i < 6000; i++) {
        last = (last * 5 + rng_u32((struct rng_key){ .seed = 7 }, i) % 3 + 1) % COUNT_OF(words);
        textbuf_add(&b, str_of(words[last]));
    }
    struct str text = textbuf_str(&b);
    return folder_put(perm, folder_new(perm), "words.txt", text);
}

static const char gpt[] =
    "data: {kind: text, context: 16}\n"
    "model: {kind: gpt, depth: 2, width: 32, heads: 2, norm: rms, positions: "
    "rotary, qk_norm: true, activation: gelu}\n"
    "train: {precision: fp32, optimiser: adamw, lr: 1e-3, clip: 1, decay: 0.1, batch: 8, "
    "schedule: cosine, warmup: 20, steps: 200, eval_batch: 8}\n"
    "";
/* gelu and not relu: at a kink a rounding turns whole paths off and on, and two runs of so small a
 * network part by 6 % in either direction, as two seeds do by 30 %. */
static const char mlp[] = "data: {kind: idx, held_out: 0.1}\n"
                          "model: {layers: [flatten, {dense: 32}, gelu, {dense: 16}, gelu, {dense: "
                          "4}]}\n"
                          "train: {precision: fp32, lr: 0.002, batch: 16, steps: 200}\n";

/* Images of noise whose class shows as a brighter column, not always. */
static struct str image_file(struct arena *perm)
{
    enum { IMAGES = 240, SIDE = 6 };
    static u8  x[16 + IMAGES * SIDE * SIDE] = { 0, 0, 8, 3,    0, 0, 0, IMAGES,
                                                0, 0, 0, SIDE, 0, 0, 0, SIDE };
    static u8  y[8 + IMAGES]                = { 0, 0, 8, 1, 0, 0, 0, IMAGES };
    struct str folder                       = folder_new(perm);
    for (i64 i = 0; i < IMAGES; i++) {
        y[8 + i] = (u8)(i % 4);
        for (i64 k = 0; k < SIDE * SIDE; k++)
            x[16 + i * SIDE * SIDE + k] =
                (u8)(rng_u32((struct rng_key){ .seed = 5 }, (u64)(i * SIDE * SIDE + k)) % 200 +
                     (k % SIDE == y[8 + i] ? 50 : 0));
    }
    folder_put(perm, folder, "y", (struct str){ (const char *)y, sizeof y });
    return folder_put(perm, folder, "x", (struct str){ (const char *)x, sizeof x });
}

/* Of weights and order: the usual one, or CHECK_SEED. */
static u64 seed(void)
{
    i64 given;
    return str_i64(os_real()->env(os_real(), "CHECK_SEED"), &given) ? (u64)given : 1;
}

/* With further ones, "key=value key=value". */
static const struct settings *settings_of(struct arena *perm, const char *file, struct str data,
                                          const char *more)
{
    struct config *c    = config_new(perm);
    struct str     rest = str_of(more), one;
    struct err     err  = { 0 };
    CHECK_EQ(config_add_file(c, perm, STR("run.yaml"), str_of(file), &err), STATUS_OK);
    c->settings.train.seed = seed();
    c->settings.data.path  = data;
    if (file == mlp) /* beside its images */
        c->settings.data.labels = str_cat(perm, str_sub(data, 0, data.len - 1), STR("y"));
    while (str_cut(&rest, ' ', &one))
        if (one.len && config_add_override(c, perm, one, &err))
            harness_fail(__FILE__, __LINE__, "%s", err.text);
    config_resolve_out(c, perm); /* no weights */
    return &c->settings;
}

static enum status run(struct arena *perm, const char *file, struct str data, const char *more,
                       struct course *course, struct err *err)
{
    struct subscriber l = { .context = course, .on_start = on_start, .on_step = on_step };
    *course             = (struct course){ .losses = { 0 } };
    return train_run(os_real(), settings_of(perm, file, data, more),
                     &(struct train_with){ .to = &l }, &course->result, err);
}

static struct course course_of(struct arena *perm, const char *file, struct str data,
                               const char *more)
{
    struct course c;
    struct err    err = { 0 };
    if (run(perm, file, data, more, &c, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    return c;
}

/* Largest relative distance of two courses, by means over WINDOW steps. */
static f64 distance(const struct course *a, const struct course *b)
{
    f64 worst = 0;
    for (i32 from = 0; from < STEPS; from += WINDOW) {
        f64 x = 0, y = 0;
        for (i32 i = from; i < from + WINDOW; i++) {
            x += a->losses[i];
            y += b->losses[i];
        }
        worst = fmax(worst, fabs(y / x - 1));
    }
    return worst;
}

/* Which parameters are moved, and by which part of themselves at most. */
struct shaking {
    f64  by;
    bool hidden; /* matrices of hidden layers alone */
};

/* Moves them at random; `kept` gets all as they were. */
static void shake(struct session *s, struct shaking how, struct rng_key key, f32 *kept)
{
    struct backend *b = s->backend;
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *p = &s->set->persistents[i];
        if (p->kind != VALUE_PARAM) continue;
        struct arena here  = s->scratch;
        i64          count = shape_count(p->type.shape), bytes = type_bytes(p->type);
        f32         *x = NEW(&here, f32, count), *u = NEW(&here, f32, count);
        CHECK_EQ(p->type.dtype, DT_F32);
        key.name = (u64)i;
        rng_fill_uniform(key, 0, count, u);
        b->table->wait(b, b->table->get(b, p->offset, kept, bytes));
        bool in_block = str_starts(p->name, STR("h.")) && p->type.shape.rank > 1;
        f32  by       = how.hidden && !in_block ? 0 : (f32)how.by;
        for (i64 k = 0; k < count; k++) x[k] = kept[k] * (1 + by * (2 * u[k] - 1));
        b->table->put(b, p->offset, x, bytes);
        kept += count;
    }
}

static void put_back(struct session *s, const f32 *kept)
{
    for (i32 i = 0; i < s->set->persistent_count; i++) {
        const struct persistent *p = &s->set->persistents[i];
        if (p->kind != VALUE_PARAM) continue;
        s->backend->table->put(s->backend, p->offset, kept, type_bytes(p->type));
        kept += shape_count(p->type.shape);
    }
}

static f64 shaken_step(struct session *s, const struct limits *limits, const struct batch *b, i64 n,
                       struct shaking how, u64 draw, f32 *kept)
{
    enum program_id id   = b->count == s->config.batch ? PROGRAM_TRAIN : PROGRAM_TRAIN_LAST;
    i64             rows = b->count * model_rows(s->model);
    f64             loss;
    shake(s, how, (struct rng_key){ .seed = draw, .step = (u64)n }, kept);
    session_put_scalars(s, n, rows, 0, schedule_lr(&limits->rates, n, limits->steps));
    session_put_batch(s, id, b);
    s->backend->table->run(s->backend, s->set->programs[id]);
    session_get_numbers(s, STR("loss"), &loss, 1);
    put_back(s, kept);
    s->backend->table->run(s->backend, s->set->programs[PROGRAM_UPDATE]);
    return loss / (f64)rows;
}

/* The run in fp32, but each step has the gradients of weights that are moved at random by at most `by` of themselves,
 * and updates the weights as they are: what training in a low type does, whose roundings are others in each step. */
static struct course shaken(const char *file, struct str data, struct shaking how, u64 draw)
{
    struct arena         perm = arena_open((i64)1 << 34);
    struct session       s;
    struct err           err      = { 0 };
    struct course        c        = { .losses = { 0 } };
    struct settings      settings = *settings_of(&perm, file, data, "train.precision=fp32");
    struct loader_config config   = {
          .split = SPLIT_TRAIN, .seed = settings.train.seed, .shuffle = true, .forever = true
    };
    struct loader *loader;
    if (session_open(&s, os_real(), &settings, &perm, &err) || session_start(&s, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    struct limits limits = session_limits(&s);
    config.whole         = session_whole(&s);
    config.batch         = s.config.batch;
    config.options       = settings.loader;
    CHECK_EQ(loader_open(&perm, s.data, &config, &loader, &err), STATUS_OK);
    f32 *kept = NEW(&s.scratch, f32, s.set->persistent_bytes / (i64)sizeof(f32));
    for (i64 n = 0; n < STEPS; n++) {
        const struct batch *b = loader_next(loader);
        c.losses[n]           = shaken_step(&s, &limits, b, n, how, draw, kept);
    }
    loader_close(loader);
    session_close(&s);
    arena_close(&perm);
    return c;
}

/* A derivation cannot follow 200 steps of training, so that the run itself says what errors of a size do to its losses:
 * the farthest of 16 runs in fp32 whose weights are moved in each step. The farthest of 16 draws is at two standard
 * deviations, and a correct run shall pass at four: twice that.
 *
 * bf16 and fp16: by at most one spacing, 2^-7 or 2^-10. In the root mean square that is 2^-7 / sqrt(3), 2.7 times a
 * rounding (2^-8 / sqrt(3) * 0.736: test_muon.c), or as much as 7 independent ones. There are about as many for each
 * matrix in a step: of the matrix, of its operand, of its result, of what a map or a norm makes of it, and of their
 * gradients; 16 for 3 matrices of the mlp, some 64 for 9 of the gpt.
 *
 * fp8: matrices in blocks by at most half a spacing of e4m3, 2^-4: as much as two roundings, of the matrix and of its
 * operand. That gradients are rounded too, to e5m2, moves no loss of this step, and in the update they are means over
 * all rows. */
static f64 bound(const char *file, struct str data, const struct course *wide, struct shaking how)
{
    enum { DRAWS = 16 };
    f64 most = 0;
    for (u64 i = 0; i < DRAWS; i++) {
        struct course c = shaken(file, data, how, i);
        most            = fmax(most, distance(wide, &c));
    }
    return 2 * most;
}

struct bounds {
    f64 bf16, fp16;
};

static struct bounds bounds_of(const char *file, struct str data, const struct course *wide)
{
    struct course still = shaken(file, data, (struct shaking){ 0 }, 0);
    CHECK(!memcmp(still.losses, wide->losses, sizeof still.losses)); /* it is the same run */
    return (struct bounds){ bound(file, data, wide, (struct shaking){ .by = 0x1p-7 }),
                            bound(file, data, wide, (struct shaking){ .by = 0x1p-10 }) };
}

static void check_near(struct arena *perm, const char *file, struct str data,
                       const struct course *wide, struct bounds bounds, const char *more)
{
    struct course low     = course_of(perm, file, data, more);
    f64           off     = distance(wide, &low);
    f64           allowed = !strcmp(low.precision, "fp16") ? bounds.fp16 : bounds.bf16;
    printf("%.3f %% away, %.3f %% allowed: %s\n", 100 * off, 100 * allowed, more);
    if (!(off <= allowed))
        harness_fail(__FILE__, __LINE__, "%s: losses are %.3f %% away, %.3f %% are allowed", more,
                     100 * off, 100 * allowed);
    CHECK(off > 0); /* it was another type */
    CHECK(low.losses[STEPS - 1] < 0.8 * low.losses[0]);
    CHECK_EQ(low.result.arena_bytes_planned, low.result.arena_bytes_used);
}

TEST(a_gpt_in_low_precision_learns_as_in_fp32)
{
    struct str    data   = text_file(perm);
    struct course wide   = course_of(perm, gpt, data, "");
    struct bounds bounds = bounds_of(gpt, data, &wide);
    check_near(perm, gpt, data, &wide, bounds, "train.precision=bf16");
    check_near(perm, gpt, data, &wide, bounds,
               "train.precision=bf16 train.stochastic_rounding=true");
    check_near(perm, gpt, data, &wide, bounds, "train.precision=fp16");
    check_near(perm, gpt, data, &wide, bounds,
               "train.precision=bf16 train.batch=8 train.micro_batch=4");
    check_near(perm, gpt, data, &wide, bounds,
               "train.precision=fp16 train.batch=8 train.micro_batch=4 train.recompute=all");
}

TEST(a_gpt_with_products_of_fp8_learns)
{
    static const char *const ways[] = {
        "train.precision=bf16 train.fp8=on",
        "train.precision=bf16 train.fp8=on train.batch=8 train.micro_batch=4 train.recompute=all"
    };
    struct str    data   = text_file(perm);
    struct course wide   = course_of(perm, gpt, data, ""), c;
    f64           fp8    = bound(gpt, data, &wide, (struct shaking){ 0x1p-4, true });
    struct bounds bounds = { fp8, fp8 };
    struct err    err    = { 0 };
    for (i32 i = 0; i < COUNT_OF(ways); i++) check_near(perm, gpt, data, &wide, bounds, ways[i]);
    CHECK_EQ(run(perm, gpt, data, "train.fp8=on train.precision=fp32", &c, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "train.precision=bf16"));
}

TEST(an_mlp_in_low_precision_learns_as_in_fp32)
{
    struct str    data   = image_file(perm);
    struct course wide   = course_of(perm, mlp, data, "");
    struct bounds bounds = bounds_of(mlp, data, &wide);
    check_near(perm, mlp, data, &wide, bounds, "train.precision=bf16");
    check_near(perm, mlp, data, &wide, bounds, "train.precision=fp16");
}

TEST(bf16_takes_less_memory_and_recomputing_there_changes_no_bit)
{
    struct str    data = text_file(perm);
    struct course wide = course_of(perm, gpt, data, "train.steps=20");
    struct course low  = course_of(perm, gpt, data, "train.steps=20 train.precision=bf16");
    struct course again =
        course_of(perm, gpt, data, "train.steps=20 train.precision=bf16 train.recompute=all");
    CHECK(low.result.arena_bytes_planned < wide.result.arena_bytes_planned);
    CHECK(again.result.arena_bytes_planned < low.result.arena_bytes_planned);
    CHECK(!memcmp(low.losses, again.losses, sizeof low.losses));
}

/* --- what a run tells --- */

TEST(a_run_tells_its_precision_and_why)
{
    struct str    data = image_file(perm);
    struct course c    = course_of(perm, mlp, data, "train.steps=1");
    CHECK_STR(str_of(c.precision), "fp32");
    CHECK_STR(str_of(c.reason), "");
    CHECK(isnan(c.result.scaling.scale));
    level_set(ISA_AVX2);
    c = course_of(perm, mlp, data, "train.steps=1 train.precision=default");
    CHECK_STR(str_of(c.precision), "fp32");
    CHECK_STR(str_of(c.reason), "this processor has no bf16 instructions");
    c = course_of(perm, mlp, data, "train.steps=1 train.precision=bf16");
    CHECK_STR(str_of(c.precision), "bf16");
    CHECK(strstr(c.reason, "slower here than fp32"));
    level_restore();
}

TEST(steps_that_overflow_are_left_out_and_counted)
{
    struct str    data = image_file(perm);
    struct course c =
        course_of(perm, mlp, data, "train.steps=30 train.precision=fp16 train.loss_scale=1e9");
    i64 bad = c.result.scaling.skipped;
    CHECK(bad > 3 && bad < 30);
    CHECK_NEAR(c.result.scaling.scale, 1e9 * pow(0.5, (f64)bad), 1e-6 * 1e9); /* an f32 */
    CHECK(c.losses[29] < c.losses[0]);
    /* nothing but overflows: nothing is learned, in words the user can act on */
    struct train_scaling lost = { .scale = 0x1p-11 };
    struct err           err  = { 0 };
    CHECK_EQ(scaling_check(lost, 99, &err), STATUS_NO);
    CHECK(strstr(err.text, "after step 99") && strstr(err.text, "train.precision=bf16"));
}

/* What train.gradients writes are the true ones. Of 3 layers, 6 casts of weights and images, 5 results on the way
 * forward and 5 on the way back are rounded, each by 2^-11 at most. */
TEST(gradients_are_written_without_the_scale)
{
    struct str        data = image_file(perm);
    struct st_file    f[2];
    static const char name[]  = "dense1.weight";
    struct err        err     = { 0 };
    f32               norm[2] = { 0 }, off = 0;
    for (i32 i = 0; i < 2; i++) {
        struct str path = str_fmt(perm, "%.*s.%d", STR_ARG(data), i);
        course_of(perm, mlp, data,
                  str_z(perm, str_fmt(perm, "train.steps=1 train.precision=%s train.gradients=%.*s",
                                      i ? "fp16" : "fp32", STR_ARG(path))));
        CHECK_EQ(st_open(os_real(), path, perm, &f[i], &err), STATUS_OK);
    }
    const struct st_tensor *a = st_find(&f[0], str_of(name)), *b = st_find(&f[1], str_of(name));
    CHECK(a && b);
    for (i64 i = 0; i < shape_count(a->shape); i++) {
        f32 x = ((const f32 *)(const void *)a->bytes.data)[i];
        f32 y = ((const f32 *)(const void *)b->bytes.data)[i];
        norm[0] += x * x;
        norm[1] += y * y;
        off += (x - y) * (x - y);
    }
    CHECK(norm[0] > 0);
    CHECK_NEAR(sqrt((f64)off), 0, 16 * 0x1p-11 * sqrt((f64)norm[0]));
    for (i32 i = 0; i < 2; i++) st_close(os_real(), &f[i]);
}

TEST(a_low_precision_and_f64_contradict_each_other)
{
    struct course c;
    struct err    err = { 0 };
    CHECK_EQ(run(perm, mlp, image_file(perm), "train.precision=bf16 model.dtype=f64", &c, &err),
             STATUS_USAGE);
    CHECK(strstr(err.text, "model.dtype=f64"));
}
