/* test_model.c - the models: known parameter counts, names, the graphs in tests/golden, and the
 * sentences for settings that do not fit. Every example of docs/formats/layers.md must build. */
#include "base/os.h"
#include "harness.h"
#include "model/model.h"

/* ---- feeds as the data room gives them */

static void feed_add(struct feeds *f, struct str name, enum dtype dtype, struct shape s, i64 range)
{
    f->feed[f->count++] = (struct feed){ name, type_of(dtype, s), range };
}

static struct feeds images(i64 height, i64 width, i64 channels, i64 classes)
{
    struct feeds f = { 0 };
    feed_add(&f, STR("x"), DT_U8, shape_3(height, width, channels), 0);
    feed_add(&f, STR("y"), DT_I32, shape_of(0, NULL), classes);
    return f;
}

static struct feeds tokens(i64 context, i64 vocabulary)
{
    struct feeds f = { 0 };
    feed_add(&f, STR("x"), DT_I32, shape_1(context), vocabulary);
    feed_add(&f, STR("y"), DT_I32, shape_1(context), vocabulary);
    return f;
}

static struct feeds lines(i64 context, i64 vocabulary, i64 classes)
{
    struct feeds f = { 0 };
    feed_add(&f, STR("x"), DT_I32, shape_1(context), vocabulary);
    feed_add(&f, STR("lens"), DT_I32, shape_of(0, NULL), context + 1);
    feed_add(&f, STR("y"), DT_I32, shape_of(0, NULL), classes);
    return f;
}

static struct feeds clicks(i64 columns, i64 rows, i64 numbers)
{
    struct feeds f = { 0 };
    if (columns) feed_add(&f, STR("x"), DT_I32, shape_1(columns), rows);
    if (numbers) feed_add(&f, STR("dense"), DT_F32, shape_1(numbers), 0);
    feed_add(&f, STR("y"), DT_F32, shape_of(0, NULL), 0);
    return f;
}

/* ---- settings */

static struct model_config settings(const char *kind)
{
    return (struct model_config){ .kind        = str_of(kind),
                                  .file        = STR("run.yaml"),
                                  .depth       = 2,
                                  .width       = 64,
                                  .heads       = 4,
                                  .norm        = STR("layer"),
                                  .positions   = STR("learned"),
                                  .activation  = STR("gelu"),
                                  .tied        = true,
                                  .bias        = true,
                                  .rope_base   = 10000,
                                  .table_width = 16,
                                  .mlp         = { 64, 32 },
                                  .mlp_count   = 2,
                                  .dtype       = DT_F32 };
}

/* The list under `layers`, or under `model: layers`. */
static struct model_config layers(struct arena *perm, struct str text)
{
    struct yaml        *root;
    struct err          err = { 0 };
    struct model_config c   = settings("layers");
    if (yaml_parse(perm, c.file, text, &root, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    struct yaml *model = yaml_get(root, STR("model"));
    c.layers           = yaml_get(model ? model : root, STR("layers"));
    return c;
}

static struct graph *built(struct arena *perm, struct model_config c, struct feeds f, i64 batch,
                           enum graph_mode mode)
{
    struct model *m;
    struct err    err = { 0 };
    struct graph *g   = graph_new(perm, STR("model"));
    enum status   st  = model_new(perm, &c, &f, &m, &err);
    if (!st) st = model_build(m, g, batch, mode, &err);
    if (!st) st = graph_verify(g, *perm, &err);
    if (st) harness_fail(__FILE__, __LINE__, "%s", err.text);
    return g;
}

static const char *refused(struct arena *perm, struct model_config c, struct feeds f)
{
    struct model *m;
    struct err   *err = NEW(perm, struct err, 1);
    if (model_new(perm, &c, &f, &m, err) != STATUS_USAGE)
        harness_fail(__FILE__, __LINE__, "it was accepted");
    CHECK_EQ(m, NULL);
    return err->text;
}

static i64 param_count(const struct graph *g)
{
    i64 count = 0;
    for (i32 i = 0; i < g->value_count; i++) {
        if (g->values[i].kind == VALUE_PARAM) count += shape_count(g->values[i].type.shape);
    }
    return count;
}

static const struct value *named(const struct graph *g, const char *name)
{
    i32 v = graph_find(g, str_of(name));
    if (v < 0) harness_fail(__FILE__, __LINE__, "there is no %s", name);
    return &g->values[v];
}

static i64 op_uses(const struct graph *g, i32 op)
{
    i64 count = 0;
    for (i32 i = 0; i < g->node_count; i++) count += g->nodes[i].op == op;
    return count;
}

/* ---- the graph as text, one line a tensor that persists and a node */

static void write_value(struct textbuf *b, const struct value *v)
{
    static const char *const kinds[] = { "param",  "grad",  "state",  "buffer", "cache",
                                         "scalar", "input", "output", "temp" };
    static const char *const inits[] = { "0", "const", "normal", "uniform" };
    char                     room[128];
    struct arena             scratch = { .begin = (u8 *)room, .end = (u8 *)room + sizeof room };
    struct str               type    = type_text(&scratch, v->type);
    textbuf_fmt(b, "%-6s %.*s %.*s", kinds[v->kind], STR_ARG(v->name), STR_ARG(type));
    if (v->kind == VALUE_PARAM || v->kind == VALUE_BUFFER)
        textbuf_fmt(b, " %s %.6g%s", inits[v->init.kind], v->init.scale, v->decay ? " decay" : "");
    textbuf_add(b, STR("\n"));
}

static struct str graph_text(struct arena *perm, const struct graph *g)
{
    struct textbuf b = textbuf_new(perm);
    for (i32 i = 0; i < g->value_count; i++) {
        if (g->values[i].kind != VALUE_TEMP) write_value(&b, &g->values[i]);
    }
    for (i32 i = 0; i < g->node_count; i++) {
        const struct node *n = &g->nodes[i];
        char               room[128];
        struct arena       scratch = { .begin = (u8 *)room, .end = (u8 *)room + sizeof room };
        struct str         type    = type_text(&scratch, g->values[n->out].type);
        textbuf_fmt(&b, "%%%d = %s %.*s %.*s (", n->out, op_info(n->op)->name, STR_ARG(n->name),
                    STR_ARG(type));
        for (i32 k = 0; k < n->in_count; k++) textbuf_fmt(&b, "%s%%%d", k ? " " : "", n->in[k]);
        textbuf_add(&b, STR(")\n"));
    }
    return textbuf_str(&b);
}

/* UPDATE_GOLDEN=1 in the environment writes the files anew; git shows what changed. */
static void check_golden(struct arena *perm, const char *name, const struct graph *g)
{
    struct os *os   = os_real();
    struct str path = str_fmt(perm, "tests/golden/model_%s.txt", name);
    struct str kept, now = graph_text(perm, g);
    struct err err = { 0 };
    if (getenv("UPDATE_GOLDEN")) CHECK_EQ(os_publish(os, path, now, *perm, &err), STATUS_OK);
    if (os_read_all(os, path, perm, &kept, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    struct str a, b;
    for (i32 line = 1; now.len || kept.len; line++) {
        bool more = str_cut(&now, '\n', &a), was = str_cut(&kept, '\n', &b);
        if (more != was || !str_eq(a, b))
            harness_fail(path.data, line, "now: %.*s\n  was: %.*s", STR_ARG(a), STR_ARG(b));
    }
}

static const char classifier[] = "layers: [flatten, {dense: 128}, relu, {dense: 10}]";

TEST(golden_graphs)
{
    struct model_config small = settings("gpt"), modern = settings("gpt"),
                        bert = settings("encoder");
    small.depth = modern.depth = bert.depth = 1;
    small.dropout = bert.dropout = 0.1;
    modern.kv_heads              = 2;
    modern.norm                  = STR("rms");
    modern.positions             = STR("rotary");
    modern.activation            = STR("swiglu");
    modern.qk_norm               = true;
    modern.tied = modern.bias = false;
    modern.softcap            = 30;
    struct feeds words        = tokens(32, 256);
    check_golden(perm, "gpt", built(perm, small, words, 8, MODE_TRAIN));
    check_golden(perm, "gpt_modern", built(perm, modern, words, 8, MODE_TRAIN));
    check_golden(perm, "encoder", built(perm, bert, lines(24, 257, 5), 8, MODE_TRAIN));
    check_golden(perm, "ranker",
                 built(perm, settings("ranker"), clicks(26, 9999, 13), 8, MODE_TRAIN));
    struct model_config c = layers(perm, str_of(classifier));
    check_golden(perm, "layers", built(perm, c, images(28, 28, 1, 10), 32, MODE_TRAIN));
    c = layers(perm, STR("layers: [{conv: 4}, {residual: [{conv: {filters: 8, stride: 2, "
                         "bias: false}}, batchnorm]}, global_avgpool, {dense: 10}]"));
    check_golden(perm, "residual", built(perm, c, images(28, 28, 1, 10), 32, MODE_EVAL));
}

/* ---- sizes that others published */

TEST(gpt2_has_its_124_million_parameters)
{
    struct model_config c = settings("gpt");
    c.depth               = 12;
    c.width               = 768;
    c.heads               = 12;
    struct graph *g       = built(perm, c, tokens(1024, 50257), 1, MODE_TRAIN);
    CHECK_EQ(param_count(g), 124439808);
    CHECK(graph_find(g, STR("head.weight")) < 0);
    CHECK(named(g, "wte.weight")->decay);
    CHECK(!named(g, "h.11.ln_2.weight")->decay);
    CHECK(!named(g, "h.11.mlp.down.bias")->decay);
    CHECK_NEAR(named(g, "h.0.mlp.up.weight")->init.scale, 0.02, 0);
    CHECK_NEAR(named(g, "h.0.mlp.down.weight")->init.scale, 0.02 / sqrt(24), 1e-12); /* rounding */
    c.tied = false;
    CHECK_EQ(param_count(built(perm, c, tokens(1024, 50257), 1, MODE_TRAIN)),
             124439808 + 50257 * 768);
}

TEST(bert_base_has_its_110_million_parameters)
{
    struct model_config c = settings("encoder");
    c.depth               = 12;
    c.width               = 768;
    c.heads               = 12;
    i64 segments = 2 * 768, classifier_count = 2 * 768 + 2; /* the first is not ours */
    CHECK_EQ(param_count(built(perm, c, lines(512, 30522, 2), 1, MODE_TRAIN)),
             109482240 - segments + classifier_count);
}

/* The third block of yaml in the documentation of layers that holds a repeat. */
static struct str example_with(struct arena *perm, const char *word);

TEST(resnet20_has_its_parameters)
{
    struct model_config c = layers(perm, example_with(perm, "times: 9"));
    struct graph       *g = built(perm, c, images(32, 32, 3, 10), 2, MODE_TRAIN);
    /* As torch counts conv 3x3 without bias, batch norm, and two 1x1 shortcuts with batch norm:
     * He et al. say 0.27M; their parameter-free shortcuts have 2752 fewer. */
    CHECK_EQ(param_count(g), 272474);
    CHECK_EQ(op_uses(g, OP_CONV2D), 21);
    CHECK_EQ(op_uses(g, OP_BATCHNORM), 21);
    CHECK_EQ(op_uses(g, OP_ADD), 9);
    CHECK(shape_eq(named(g, "residual4.conv1.weight")->type.shape, shape_4(32, 3, 3, 16)));
    CHECK(shape_eq(named(g, "residual7.shortcut.conv.weight")->type.shape, shape_4(64, 1, 1, 32)));
    CHECK_EQ(named(g, "residual9.batchnorm2.running_var")->kind, VALUE_BUFFER);
    CHECK_NEAR(named(g, "residual9.batchnorm2.running_var")->init.scale, 1, 0);
    CHECK(graph_find(g, STR("residual5.shortcut.conv.weight")) < 0);
}

TEST(the_classifier_and_the_ranker_have_their_parameters)
{
    struct model_config c = layers(perm, str_of(classifier));
    CHECK_EQ(param_count(built(perm, c, images(28, 28, 1, 10), 32, MODE_TRAIN)), 101770);
    CHECK_EQ(param_count(built(perm, settings("ranker"), clicks(26, 10000, 13), 4, MODE_TRAIN)),
             10000 * 16 + (26 * 16 + 13 + 1) * 64 + 65 * 32 + 33);
    CHECK_EQ(param_count(built(perm, settings("ranker"), clicks(26, 10000, 0), 4, MODE_TRAIN)),
             10000 * 16 + (26 * 16 + 1) * 64 + 65 * 32 + 33);
}

/* ---- what a model says of itself */

static struct model *made(struct arena *perm, struct model_config c, struct feeds f)
{
    struct model *m;
    struct err    err = { 0 };
    if (model_new(perm, &c, &f, &m, &err)) harness_fail(__FILE__, __LINE__, "%s", err.text);
    return m;
}

TEST(rows_and_metric_follow_from_the_target)
{
    struct model *gpt    = made(perm, settings("gpt"), tokens(32, 256));
    struct model *bert   = made(perm, settings("encoder"), lines(24, 257, 5));
    struct model *ranker = made(perm, settings("ranker"), clicks(26, 10000, 13));
    CHECK_EQ(model_rows(gpt), 32);
    CHECK_STR(model_metric(gpt), "perplexity");
    CHECK_EQ(model_rows(bert), 1);
    CHECK_STR(model_metric(bert), "accuracy");
    CHECK_EQ(model_rows(ranker), 1);
    CHECK_STR(model_metric(ranker), "auc");
}

TEST(outputs_are_sums_and_scores)
{
    struct graph *bert   = built(perm, settings("encoder"), lines(24, 257, 5), 8, MODE_EVAL);
    struct graph *ranker = built(perm, settings("ranker"), clicks(26, 10000, 13), 8, MODE_EVAL);
    struct graph *gpt    = built(perm, settings("gpt"), tokens(32, 256), 8, MODE_EVAL);
    CHECK(shape_eq(named(bert, "loss")->type.shape, shape_1(1)));
    CHECK(shape_eq(named(bert, "hits")->type.shape, shape_1(1)));
    CHECK(shape_eq(named(ranker, "scores")->type.shape, shape_1(8)));
    CHECK(graph_find(gpt, STR("hits")) < 0); /* would read all logits for a number nobody asks */
}

TEST(doubles_all_the_way_when_asked)
{
    struct model_config c = settings("ranker");
    c.dtype               = DT_F64;
    struct graph *g       = built(perm, c, clicks(3, 30, 2), 4, MODE_TRAIN);
    for (i32 i = 0; i < g->value_count; i++)
        CHECK(g->values[i].kind == VALUE_INPUT || g->values[i].type.dtype == DT_F64);
    c       = layers(perm, str_of(classifier));
    c.dtype = DT_F64;
    CHECK_EQ(named(built(perm, c, images(28, 28, 1, 10), 4, MODE_TRAIN), "loss")->type.dtype,
             DT_F64);
}

TEST(evaluation_neither_drops_nor_smooths_nor_counts)
{
    struct model_config c = settings("gpt");
    c.dropout = c.smoothing = 0.1;
    struct graph *train     = built(perm, c, tokens(32, 256), 8, MODE_TRAIN);
    struct graph *eval      = built(perm, c, tokens(32, 256), 8, MODE_EVAL);
    CHECK_EQ(op_uses(train, OP_DROPOUT), 1 + 2 * 2);
    CHECK_EQ(op_uses(eval, OP_DROPOUT), 0);
    for (i32 i = 0; i < eval->node_count; i++) CHECK_EQ(eval->nodes[i].at.smoothing, 0);
    c = layers(perm, STR("layers: [flatten, batchnorm, {dense: 10}]"));
    CHECK_EQ(op_uses(built(perm, c, images(8, 8, 1, 10), 8, MODE_TRAIN), OP_BATCHNORM), 1);
    CHECK_EQ(op_uses(built(perm, c, images(8, 8, 1, 10), 8, MODE_EVAL), OP_BATCHNORM_EVAL), 1);
}

/* Which weights begin at 0: those whose names end in one of these. */
static bool begins_at_zero(struct str name, const struct model_config *c)
{
    bool out = str_ends(name, STR(".proj.weight")) || str_ends(name, STR(".down.weight"));
    return str_ends(name, STR(".bias")) || (c->zero_init && out);
}

TEST(zero_init_begins_with_nothing_on_the_residual)
{
    for (i32 k = 0; k < 4; k++) {
        struct model_config c = settings("gpt");
        c.zero_init           = k & 1;
        c.tied                = k >> 1;
        struct graph *g       = built(perm, c, tokens(8, 32), 1, MODE_TRAIN);
        for (i32 i = 0; i < g->value_count; i++) {
            const struct value *v = &g->values[i];
            if (v->kind == VALUE_PARAM)
                CHECK_EQ(v->init.kind == INIT_ZERO, begins_at_zero(v->name, &c));
        }
    }
}

TEST(repeat_is_the_same_as_writing_it_out)
{
    struct model_config a = layers(perm, STR("layers: [flatten, {repeat: {times: 3, layers: "
                                             "[{dense: [9, 8]}, relu]}}, {dense: 4}]"));
    struct model_config b =
        layers(perm, STR("layers: [flatten, {dense: 9}, relu, {dense: 8}, relu, "
                         "{dense: 8}, relu, {dense: 4}]"));
    CHECK_STR(graph_text(perm, built(perm, a, images(4, 4, 1, 4), 2, MODE_TRAIN)),
              graph_text(perm, built(perm, b, images(4, 4, 1, 4), 2, MODE_TRAIN)));
}

/* ---- what is refused, and in which words */

static const char *layers_refused(struct arena *perm, const char *text, struct feeds f)
{
    return refused(perm, layers(perm, str_of(text)), f);
}

TEST(wrong_layers_are_named_with_their_line)
{
    struct feeds f = images(28, 28, 1, 10), words = tokens(16, 100), click = clicks(0, 0, 13);
    CHECK_STR(layers_refused(perm, "layers:\n- flatten\n- dense: 128\n- conv: 8\n", f),
              "run.yaml:4: conv needs an image [H,W,C], but dense above gives [128]; put it before "
              "flatten");
    CHECK_STR(layers_refused(perm, "layers:\n- flatten\n- dence: 128\n", f),
              "run.yaml:3: there is no layer 'dence'; did you mean dense?");
    CHECK_STR(layers_refused(perm, "layers:\n- transmogrify\n", f),
              "run.yaml:2: there is no layer 'transmogrify'");
    CHECK_STR(layers_refused(perm, "layers:\n- flatten\n- dense: {unit: 4}\n", f),
              "run.yaml:3: dense has no key 'unit'; did you mean units?");
    CHECK_STR(layers_refused(perm, "layers:\n- dense\n", f), "run.yaml:2: dense needs units");
    CHECK_STR(layers_refused(perm, "layers:\n- flatten: 3\n", f),
              "run.yaml:2: flatten takes no value");
    CHECK_STR(layers_refused(perm, "layers:\n- relu: 3\n", f), "run.yaml:2: relu takes no value");
    CHECK_STR(layers_refused(perm, "layers:\n- dense: 12x\n", f),
              "run.yaml:2: units must be a whole number from 1 to 1048576, not '12x'");
    CHECK_STR(layers_refused(perm, "layers:\n- dense: 8\n  activation: relu\n", f),
              "run.yaml:2: one entry is one layer, as in dense: {units: 128, activation: relu}");
    CHECK_STR(layers_refused(perm, "layers:\n- conv: {filters: 8, kernel: 2}\n", f),
              "run.yaml:2: padding: same needs an odd kernel, not 2");
    CHECK_STR(layers_refused(perm, "layers:\n- dropout: 1\n", f),
              "run.yaml:2: rate must be at least 0 and below 1, not '1'");
    CHECK_STR(
        layers_refused(perm, "layers:\n- dense: 8\n", words),
        "run.yaml:2: dense needs numbers, but the data gives tokens; put embedding before it");
    CHECK_STR(layers_refused(perm, "layers:\n- embedding: 8\n", f),
              "run.yaml:2: embedding needs tokens, but the data gives numbers [28,28,1]");
    CHECK_STR(layers_refused(perm, "layers:\n- embedding: {width: 8, vocab: 9}\n", words),
              "run.yaml:2: vocab: 9 is too small, the data has 100 different tokens");
    CHECK_STR(layers_refused(perm, "layers:\n- global_avgpool\n- global_avgpool\n", f),
              "run.yaml:3: global_avgpool needs an image [H,W,C] or a sequence [T,C], but "
              "global_avgpool above gives [1]");
    CHECK_STR(layers_refused(perm, "layers:\n- maxpool: 64\n", f),
              "run.yaml:2: maxpool: maxpool1 (maxpool): the window is larger than the image, not "
              "f32[1,28,28,1]");
    CHECK_STR(layers_refused(perm, "layers:\n- dense: 1\n- sigmoid\n", click),
              "run.yaml:3: sigmoid is part of the loss here; leave it out at the end");
}

TEST(wrong_ends_are_named_with_their_line)
{
    struct feeds f = images(28, 28, 1, 10), words = tokens(16, 100), click = clicks(0, 0, 13);
    CHECK_STR(layers_refused(perm, "layers:\n- flatten\n- dense: 12\n", f),
              "run.yaml:3: the last layer gives [12], but the target has 10 classes; end with "
              "dense: 10");
    CHECK_STR(layers_refused(perm, "layers:\n- embedding: 8\n- flatten\n- dense: 100\n", words),
              "run.yaml:4: the last layer gives [100], but the target has 100 classes at every "
              "position; leave out flatten and global_avgpool, and end with dense: 100");
    CHECK_STR(layers_refused(perm, "layers:\n- dense: 10\n", f),
              "run.yaml:2: the last layer gives [28,28,10], but the target has 10 classes; end "
              "with flatten (or global_avgpool) and dense: 10");
    CHECK_STR(layers_refused(perm, "layers:\n- conv: 1\n", images(1, 1, 13, 10)),
              "run.yaml:2: the last layer gives [1,1,1], but the target has 10 classes; end with "
              "flatten (or global_avgpool) and dense: 10");
    CHECK_STR(layers_refused(perm, "layers:\n- dense: 2\n", click),
              "run.yaml:2: the last layer gives [2], but the target is one number; end with "
              "dense: 1");
    CHECK_STR(
        layers_refused(perm, "layers:\n- flatten\n- dense: {units: 10, activation: softmax}\n", f),
        "run.yaml:3: softmax is part of the loss here; leave it out");
    CHECK_STR(layers_refused(perm, "layers:\n- flatten\n- softmax\n", f),
              "run.yaml:3: softmax is part of the loss here; leave it out");
    CHECK_STR(layers_refused(perm, "layers:\n- flatten\n", words),
              "run.yaml:2: the layers leave the tokens as they are; begin with embedding");
}

/* The shortcut's stride is that of all layers of the block, one after the other, not what sizes suggest: from 9 to 3
 * with strides of 2 and 2 it is 4. */
TEST(a_shortcut_has_the_stride_of_its_block)
{
    static const struct {
        const char *layers;
        i64         size, stride;
    } blocks[] = {
        { "[{conv: {filters: 4, stride: 2}}]", 8, 2 },
        { "[{conv: {filters: 4, stride: 2}}, {conv: {filters: 4, stride: 2}}]", 9, 4 },
        { "[maxpool, {conv: {filters: 4}}]", 8, 2 },
        { "[{residual: [{conv: {filters: 4, stride: 2}}]}, {conv: {filters: 4, stride: 2}}]", 16,
          4 },
    };
    for (i64 i = 0; i < COUNT_OF(blocks); i++) {
        struct str text = str_fmt(perm, "layers:\n- residual: %s\n- global_avgpool\n- dense: 10\n",
                                  blocks[i].layers);
        struct graph *g = built(perm, layers(perm, text),
                                images(blocks[i].size, blocks[i].size, 1, 10), 2, MODE_TRAIN);
        i64           found = 0;
        for (i32 n = 0; n < g->node_count; n++)
            if (str_eq(g->nodes[n].name, STR("residual1.shortcut.conv")))
                found = g->nodes[n].at.stride;
        CHECK_EQ(found, blocks[i].stride);
    }
}

TEST(wrong_nests_are_named_with_their_line)
{
    struct feeds f = images(28, 28, 1, 10);
    CHECK_STR(layers_refused(perm, "layers:\n- flatten\n- residual:\n  - dense: 8\n", f),
              "run.yaml:3: residual cannot add its input [784] to its layers' result [8]");
    CHECK_STR(
        layers_refused(perm, "layers:\n- residual: {shortcut: identity, layers: [{conv: 8}]}\n", f),
        "run.yaml:2: residual cannot add its input [28,28,1] to its layers' result [28,28,8]");
    CHECK_STR(
        layers_refused(perm, "layers:\n- residual: [{conv: {filters: 4, stride: 2, padding: 0}}]\n",
                       images(8, 8, 1, 10)), /* a stride of 3 would fit, and is not the block's */
        "run.yaml:2: residual cannot add its input [8,8,1] to its layers' result [3,3,4]: with "
        "their stride of 2 its "
        "shortcut gives [4,4,4], and so do layers with padding: same");
    CHECK_STR(layers_refused(perm, "layers:\n- residual: 3\n", f),
              "run.yaml:2: residual needs a list of layers");
    CHECK_STR(
        layers_refused(perm, "layers:\n- dense: [8, 9]\n", f),
        "run.yaml:2: units is a list, one value per repetition, but it is not inside a repeat");
    CHECK_STR(
        layers_refused(
            perm, "layers:\n- repeat:\n    times: 2\n    layers:\n    - dense: [8, 9, 3]\n", f),
        "run.yaml:5: units has 3 values for 2 repetitions");
    CHECK_STR(layers_refused(perm, "layers:\n- repeat:\n    times: 1e6\n    layers: [relu]\n", f),
              "run.yaml:4: the network has more than 4096 layers");
    CHECK_STR(layers_refused(perm, "layers: []", f),
              "model.kind=layers needs model.layers, a list of layers");
}

TEST(wrong_settings_are_named_by_their_key)
{
    struct feeds        words = tokens(32, 256);
    struct model_config c     = settings("gpt");
    c.heads                   = 5;
    CHECK_STR(refused(perm, c, words), "model.heads=5 does not divide model.width=64");
    c          = settings("gpt");
    c.kv_heads = 3;
    CHECK_STR(refused(perm, c, words), "model.kv_heads=3 does not divide model.heads=4");
    c      = settings("gpt");
    c.norm = STR("batch");
    CHECK_STR(refused(perm, c, words), "model.norm=batch must be one of: layer rms");
    c       = settings("gpt");
    c.depth = 0;
    CHECK_STR(refused(perm, c, words), "model.depth=0 must be between 1 and 1024");
    c         = settings("gpt");
    c.dropout = 1;
    CHECK_STR(refused(perm, c, words), "model.dropout=1 must be at least 0 and below 1");
    c.dropout = 0, c.attention_dropout = 1;
    CHECK_STR(refused(perm, c, words), "model.attention_dropout=1 must be at least 0 and below 1");
    CHECK_STR(refused(perm, settings("gtp"), words),
              "model.kind=gtp must be one of: layers gpt encoder ranker hf");
    CHECK_STR(refused(perm, settings("gpt"), images(28, 28, 1, 10)),
              "model.kind=gpt cannot use this data: x is u8[28,28,1], not i32[n]; use data of "
              "kind text or tokens");
    CHECK_STR(refused(perm, settings("encoder"), words),
              "model.kind=encoder cannot use this data, which has no lens; use data of "
              "kind lines, or csv or jsonl with data.text");
    CHECK_STR(refused(perm, settings("ranker"), clicks(0, 0, 13)),
              "model.kind=ranker needs columns of categories: set data.categorical, or use "
              "model.kind=layers for numbers alone");
    CHECK_STR(refused(perm, layers(perm, str_of(classifier)), clicks(26, 99, 13)),
              "model.kind=layers reads one feed, but this data has x and dense; model.kind=ranker "
              "reads both");
    words.feed[1].range = 255;
    CHECK_STR(refused(perm, settings("gpt"), words),
              "model.tied=true needs one vocabulary, but x has 256 values and y 255");
}

/* ---- the documentation */

/* The next ```yaml block; false at the end. */
static bool next_example(struct str *rest, struct str *example)
{
    struct str line;
    bool       inside = false;
    while (str_cut(rest, '\n', &line)) {
        if (str_eq(line, STR("```yaml"))) {
            inside   = true;
            *example = (struct str){ rest->data, 0 };
        } else if (inside && str_eq(line, STR("```"))) {
            return true;
        } else if (inside) {
            example->len += line.len + 1;
        }
    }
    return false;
}

static struct str manual(struct arena *perm)
{
    struct str text;
    CHECK_EQ(os_read_all(os_real(), STR("docs/formats/layers.md"), perm, &text, NULL), STATUS_OK);
    return text;
}

static struct str example_with(struct arena *perm, const char *word)
{
    struct str rest = manual(perm), example;
    while (next_example(&rest, &example)) {
        if (strstr(str_z(perm, example), word)) return example;
    }
    harness_fail(__FILE__, __LINE__, "no example has %s", word);
}

/* The data an example is for, from its first line. */
static struct feeds example_feeds(struct arena *perm, struct str example)
{
    const char *text = str_z(perm, example);
    long long   a, b, c, classes;
    if (sscanf(text, "# images %lldx%lldx%lld, %lld classes", &a, &b, &c, &classes) == 4)
        return images(a, b, c, classes);
    if (sscanf(text, "# tokens %lld of %lld, %lld classes", &a, &b, &classes) == 3)
        return lines(a, b, classes);
    if (sscanf(text, "# tokens %lld of %lld, next", &a, &b) == 2) return tokens(a, b);
    if (sscanf(text, "# numbers %lld, click", &a) == 1) return clicks(0, 0, a);
    harness_fail(__FILE__, __LINE__, "which data is this for?\n%s", text);
}

TEST(every_example_of_the_manual_builds)
{
    struct str rest  = manual(perm), example;
    i64        count = 0;
    for (; next_example(&rest, &example); count++)
        built(perm, layers(perm, example), example_feeds(perm, example), 2, MODE_TRAIN);
    CHECK(count >= 6);
}

TEST(every_layer_and_key_is_in_the_manual_with_its_default)
{
    const char *text   = str_z(perm, manual(perm));
    struct str  keys[] = {
#define LAYER(name, build, takes, alone, keys) STR(#name " " keys),
#include "model/layers.def"
#undef LAYER
    };
    for (i64 i = 0; i < COUNT_OF(keys); i++) {
        struct str rest = keys[i], word, name, value;
        while (str_cut(&rest, ' ', &word)) {
            i64 equals = str_find(word, '=');
            name       = equals < 0 ? word : str_sub(word, 0, equals);
            value      = equals < 0 ? STR("") : str_sub(word, equals + 1, word.len);
            bool plain = strstr(text, str_z(perm, str_fmt(perm, "`%.*s`", STR_ARG(name))));
            bool said =
                value.len && strstr(text, str_z(perm, str_fmt(perm, "`%.*s: %.*s`", STR_ARG(name),
                                                              STR_ARG(value))));
            bool aside =
                value.len && strstr(text, str_z(perm, str_fmt(perm, "`%.*s` (%.*s)", STR_ARG(name),
                                                              STR_ARG(value))));
            if (!(value.len ? said || aside : plain))
                harness_fail("docs/formats/layers.md", 1, "%.*s is missing", STR_ARG(word));
        }
    }
}

/* h.11.ln_1.weight -> h.i.ln_1.weight */
static struct str table_name(struct arena *perm, struct str name)
{
    struct textbuf b = textbuf_new(perm);
    struct str     part;
    i64            number;
    while (str_cut(&name, '.', &part)) {
        if (str_i64(part, &number)) part = STR("i");
        textbuf_fmt(&b, "%s%.*s", b.len ? "." : "", STR_ARG(part));
    }
    return textbuf_str(&b);
}

/* The name itself, or its last part behind another of the same path: `ln_f.weight`, `.bias`. */
static bool in_table(struct arena *perm, const char *text, struct str name)
{
    i64 dot = name.len - 1;
    while (name.data[dot] != '.') dot--;
    struct str  path = str_sub(name, 0, dot), leaf = str_sub(name, dot, name.len);
    const char *row = strstr(text, str_z(perm, str_fmt(perm, "`%.*s.", STR_ARG(path))));
    return row && strstr(row, str_z(perm, str_fmt(perm, "%.*s`", STR_ARG(leaf))));
}

TEST(every_weight_is_in_its_table)
{
    struct str          text;
    struct model_config untied = settings("gpt");
    untied.tied                = false;
    struct graph *graphs[]     = { built(perm, untied, tokens(32, 256), 1, MODE_TRAIN),
                                   built(perm, settings("encoder"), lines(24, 257, 5), 1, MODE_TRAIN),
                                   built(perm, settings("ranker"), clicks(26, 99, 13), 1, MODE_TRAIN) };
    CHECK_EQ(os_read_all(os_real(), STR("docs/formats/weights.md"), perm, &text, NULL), STATUS_OK);
    for (i64 k = 0; k < COUNT_OF(graphs); k++) {
        for (i32 i = 0; i < graphs[k]->value_count; i++) {
            if (graphs[k]->values[i].kind != VALUE_PARAM) continue;
            struct str name = table_name(perm, graphs[k]->values[i].name);
            if (!in_table(perm, str_z(perm, text), name))
                harness_fail("docs/formats/weights.md", 1, "%.*s is missing", STR_ARG(name));
        }
    }
}
