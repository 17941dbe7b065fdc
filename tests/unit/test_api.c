/* The public face: what a caller may get wrong is a sentence from frugal_start, never an abort; and
 * names are the caller's own. */
#include "frugal.h"
#include "harness.h"

typedef void builder(struct frugal_graph *g, int64_t batch);

static int build(void *context, struct frugal_graph *g, int64_t batch, int training)
{
    (void)training;
    (*(builder **)context)(g, batch);
    return 0;
}

static struct frugal_run *start(builder *b, char *why)
{
    struct frugal_config c = { .batch = 2, .optimiser = "adam", .lr = 0.1, .threads = 1 };
    return frugal_start(&c, build, &b, why);
}

static void finish(struct frugal_graph *g, int x) /* the sum of squares */
{
    int square = frugal_apply(g, "mul", "square", (int[]){ x, x }, 2, NULL);
    frugal_output(g, frugal_apply(g, "sum", "sum", &square, 1, "axis=0 count=1"), "loss");
}

static int vector(struct frugal_graph *g, const char *name, int64_t count)
{
    return frugal_param(g, name, 1, &count, FRUGAL_CONST, 1);
}

/* Names that the update program uses for its ranges. */
static void odd_names(struct frugal_graph *g, int64_t batch)
{
    (void)batch;
    int a = vector(g, "params", 3), b = vector(g, "a/b", 3), c = vector(g, "params/rest", 3);
    int s = frugal_apply(g, "add", "s", (int[]){ a, b }, 2, NULL);
    finish(g, frugal_apply(g, "add", "t", (int[]){ s, c }, 2, NULL));
}

TEST(a_parameter_may_have_any_name)
{
    char               why[FRUGAL_TEXT_MAX];
    struct frugal_run *run = start(odd_names, why);
    if (!run) harness_fail(__FILE__, __LINE__, "%s", why);
    CHECK_NEAR(frugal_step(run, 1), 27, 1e-6); /* three times (1 + 1 + 1)^2: exact but for order */
    CHECK(frugal_step(run, 1) < 27);
    float values[3];
    CHECK_EQ(frugal_get(run, "a/b", values, sizeof values), 0);
    CHECK_NEAR(values[0], 0.8, 0.02); /* two steps of Adam, each of about lr = 0.1 */
    CHECK_EQ(frugal_get(run, "a/b", values, (size_t)-1), -1);
    CHECK_EQ(frugal_get(run, "nobody", values, 4), -1);
    frugal_stop(run);
}

/* x . a . b . c: a and b lie before another product, c is the last. */
static void three_products(struct frugal_graph *g, int64_t batch)
{
    static const char *const names[] = { "params[1]/a", "grads", "c" };
    int64_t                  size[] = { batch, 3 }, square[] = { 3, 3 };
    int                      x = frugal_input(g, "x", FRUGAL_F32, 2, size);
    for (int i = 0; i < 3; i++) {
        int w = frugal_param(g, names[i], 2, square, FRUGAL_NORMAL, 1);
        x     = frugal_apply(g, "matmul", names[i], (int[]){ x, w }, 2, "ta=0 tb=0");
    }
    x = frugal_apply(g, "reshape", "flat", &x, 1, "dims=[6]");
    finish(g, x);
}

/* Of a step by Muon all singular values are about lr, so its norm is about lr * sqrt(3); AdamW moves
 * every number by lr. */
TEST(muon_updates_matrices_between_two_others_whatever_their_names)
{
    struct frugal_config c = {
        .batch = 2, .optimiser = "muon", .lr = 0.5, .muon_lr = 0.01, .threads = 1
    };
    char               why[FRUGAL_TEXT_MAX];
    builder           *b   = three_products;
    struct frugal_run *run = frugal_start(&c, build, &b, why);
    float              x[] = { 1, 2, 3, -1, 0, 1 }, before[9], after[9];
    if (!run) harness_fail(__FILE__, __LINE__, "%s", why);
    CHECK_EQ(frugal_put(run, "x", x, sizeof x), 0);
    for (int i = 0; i < 3; i++) {
        const char *name = i == 0 ? "params[1]/a" : i == 1 ? "grads" : "c";
        double      norm = 0;
        frugal_get(run, name, before, sizeof before);
        frugal_step(run, 2);
        frugal_get(run, name, after, sizeof after);
        for (int k = 0; k < 9; k++) norm += pow((double)after[k] - (double)before[k], 2);
        if (i < 2) CHECK(sqrt(norm) > 0.005 && sqrt(norm) < 0.025);
        else CHECK(sqrt(norm) > 0.1);
    }
    frugal_stop(run);
    b = odd_names; /* vectors only */
    CHECK(!frugal_start(&c, build, &b, why));
    CHECK(strstr(why, "train.optimiser=muon needs hidden matrices"));
}

static void outputs_of_one_value(struct frugal_graph *g, int64_t batch)
{
    (void)batch;
    int w = vector(g, "w", 4);
    int v = frugal_apply(g, "reshape", "v", &w, 1, "dims=[2,2]");
    frugal_output(g, w, "as it is");
    frugal_output(g, v, "square");
    frugal_output(g, v, "again");
    CHECK_EQ(frugal_rank(g, v), 2);
    CHECK_EQ(frugal_dim(g, v, 1), 2);
    CHECK_EQ(frugal_dim(g, v, 2) + frugal_dim(g, v, -1) + frugal_dim(g, 99, 0), 0);
    CHECK_EQ(frugal_rank(g, -1), 0);
    finish(g, w);
}

TEST(one_value_may_be_several_outputs)
{
    char               why[FRUGAL_TEXT_MAX];
    struct frugal_run *run     = start(outputs_of_one_value, why);
    const char        *names[] = { "as it is", "square", "again" };
    if (!run) harness_fail(__FILE__, __LINE__, "%s", why);
    frugal_step(run, 1);
    for (i64 i = 0; i < COUNT_OF(names); i++) {
        float values[4] = { 0 };
        CHECK_EQ(frugal_get(run, names[i], values, sizeof values), 0);
        CHECK_EQ(values[3], 1.0f);
    }
    frugal_stop(run);
}

static void many_axes(struct frugal_graph *g, int64_t batch)
{
    finish(g, frugal_param(g, "w", 7, (int64_t[]){ batch, 1, 1, 1, 1, 1, 1 }, FRUGAL_ZERO, 0));
}

static void no_value(struct frugal_graph *g, int64_t batch)
{
    (void)batch;
    frugal_output(g, 7, "loss");
}

static void huge(struct frugal_graph *g, int64_t batch) { finish(g, vector(g, "w", batch << 60)); }

static void state_name(struct frugal_graph *g, int64_t batch)
{
    finish(g, vector(g, "adam.m", batch));
}

static void no_op(struct frugal_graph *g, int64_t batch)
{
    int w = vector(g, "w", batch);
    frugal_apply(g, "spin", "s", &w, 1, NULL);
}

static void scaled(struct frugal_graph *g, int64_t batch, double factor)
{
    char at[64];
    int  w = vector(g, "w", batch), sum = frugal_apply(g, "sum", "sum", &w, 1, "axis=0 count=1");
    snprintf(at, sizeof at, "mul=%.17g", factor);
    frugal_output(g, frugal_apply(g, "scale", "scaled", &sum, 1, at), "loss");
}

static void mean(struct frugal_graph *g, int64_t batch) { scaled(g, batch, 1 / (double)batch); }

static void half(struct frugal_graph *g, int64_t batch) { scaled(g, batch, 0.5); }

TEST(half_of_a_sum_is_no_mean_though_the_batch_is_two)
{
    char               why[FRUGAL_TEXT_MAX];
    struct frugal_run *run = start(half, why);
    if (!run) harness_fail(__FILE__, __LINE__, "%s", why);
    frugal_stop(run);
}

TEST(mistakes_are_sentences)
{
    static const struct {
        builder    *build;
        const char *why;
    } cases[] = {
        { many_axes, "w: there is no tensor of type 0 with 7 axes" },
        { no_value, "output loss: 7 is not a value" },
        { huge,
          "w would be f32[2305843009213693952], more than 64 TiB; a smaller batch or model fits" },
        { state_name, "tensor adam.m has the name of the optimiser's state; give it another" },
        { no_op, "no op is called spin" },
        { mean, "the loss is a mean over the batch: give the sum of the rows' losses, which "
                "frugal_step divides by the rows" },
    };
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        char why[FRUGAL_TEXT_MAX] = "";
        CHECK(!start(cases[i].build, why));
        CHECK_STR(why, cases[i].why);
    }
}

TEST(a_run_without_a_batch_is_refused)
{
    char                 why[FRUGAL_TEXT_MAX];
    builder             *b = odd_names;
    struct frugal_config c = { .lr = 0.1 };
    CHECK(!frugal_start(&c, build, &b, why));
    CHECK_STR(why, "batch must be at least 1, eval_batch and threads at least 0");
    CHECK(!frugal_start(&c, build, &b, NULL));
}

static int no_shape(const struct frugal_tensor *in, struct frugal_tensor *out,
                    const struct frugal_attributes *at)
{
    (void)in;
    (void)at;
    out[0].rank = 99;
    return 0;
}

static void nothing(const struct frugal_tensor *in, const struct frugal_tensor *out,
                    const struct frugal_attributes *at)
{
    (void)in;
    (void)out;
    (void)at;
}

static void apply_own(struct frugal_graph *g, int64_t batch)
{
    int w = vector(g, "w", batch);
    finish(g, frugal_apply(g, "own", "o", &w, 1, NULL));
}

TEST(an_op_that_is_not_whole_is_refused)
{
    char             why[FRUGAL_TEXT_MAX];
    struct frugal_op op = { .name = "own", .inputs = 1, .results = 1, .run = nothing };
    CHECK_EQ(frugal_op_register(&op, why), -1); /* no shape rule */
    op.shape   = no_shape;
    op.results = -1;
    CHECK_EQ(frugal_op_register(&op, why), -1);
    op.results = 1;
    op.name    = "add";
    CHECK_EQ(frugal_op_register(&op, why), -1);
    CHECK_STR(why, "an op named add exists already");
    op.name = "own";
    CHECK_EQ(frugal_op_register(&op, why), 0);
    CHECK(!start(apply_own, why));
    CHECK_STR(why, "o (own): its shape rule gave result 0 no type");
}

/* Programs keep the size of their header's struct. */
TEST(a_struct_of_an_older_header_lacks_its_last_fields_and_of_a_newer_one_they_must_be_zero)
{
    char     why[FRUGAL_TEXT_MAX];
    builder *b = odd_names;
    struct longer {
        struct frugal_config config;
        i64                  more[2];
    } c = { .config = { .batch = 2, .optimiser = "adam", .lr = 0.1, .threads = 1, .freeze = "*" } };
    size_t             older = offsetof(struct frugal_config, muon_lr);
    struct frugal_run *run   = frugal_start_sized(&c.config, older, build, &b, why);
    CHECK(run); /* freeze is beyond its end: with it nothing would be left to train */
    frugal_stop(run);
    CHECK(!frugal_start_sized(&c.config, sizeof c.config, build, &b, why));
    c.config.freeze = NULL;
    run             = frugal_start_sized(&c.config, sizeof c, build, &b, why);
    CHECK(run);
    frugal_stop(run);
    c.more[1] = 1;
    CHECK(!frugal_start_sized(&c.config, sizeof c, build, &b, why));
    CHECK_STR(why, "the program was compiled for a newer libfrugal and uses what " FRUGAL_VERSION
                   " lacks");
    struct frugal_op op[2] = { { .name = "from the future" }, { .name = "x" } };
    CHECK_EQ(frugal_op_register_sized(op, sizeof op, why), -1);
}
