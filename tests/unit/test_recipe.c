/* test_recipe.c - recipes speak only where nobody did, for the models they are for; their rows against
 * the table of settings and the page that gives the reasons. */
#include "base/os.h"
#include "harness.h"
#include "train/config.h"

static const struct {
    const char *recipe, *model, *key, *value, *beside;
} rows[] = {
#define RECIPE(recipe, model, key, value, beside) { #recipe, #model, #key, value, beside },
#include "train/recipes.def"
};

static struct config *read(struct arena *perm, const char *text, struct err *err)
{
    struct config *c = config_new(perm);
    CHECK_EQ(config_add_file(c, perm, STR("run.yaml"), str_of(text), err), STATUS_OK);
    return config_add_recipe(c, perm, err) ? NULL : c;
}

static struct str origin(struct arena *perm, const struct config *c, const char *key)
{
    return config_origin_text(c, option_find(str_of(key)), perm);
}

TEST(a_recipe_fills_in_what_nobody_said)
{
    struct err     err = { 0 };
    struct config *c   = read(
          perm, "model:\n  kind: gpt\n  softcap: 15\ntrain:\n  recipe: modern\n  lr: 0.5\n", &err);
    CHECK(c);
    CHECK_STR(c->settings.model.norm, "rms");
    CHECK(c->settings.model.zero_init && !c->settings.model.tied);
    CHECK_EQ(c->settings.model.softcap, 15);
    CHECK_EQ(c->settings.train.lr, 0.5);
    CHECK_STR(origin(perm, c, "model.norm"), "recipe modern");
    CHECK_STR(origin(perm, c, "train.lr"), "run.yaml:6");
    CHECK_STR(origin(perm, c, "train.momentum"), "default");
    c = read(perm, "model: {kind: gpt}\n", &err);
    CHECK_STR(origin(perm, c, "model.norm"), "default");
}

/* 50 steps of warm-up must not become 50 percent, nor another optimiser get this one's rate. */
TEST(a_recipe_is_silent_beside_what_was_said)
{
    struct err     err = { 0 };
    struct config *c   = read(
          perm, "model: {kind: gpt}\ntrain: {recipe: plain, warmup: 50, optimiser: sgd}\n", &err);
    CHECK_STR(c->settings.train.warmup, "50");
    CHECK_STR(origin(perm, c, "train.lr"), "default");
    CHECK_STR(origin(perm, c, "train.clip"), "recipe plain");
    c = read(perm, "data: {path: x-ubyte}\ntrain: {recipe: modern, lr: 0.2}\n", &err);
    CHECK_EQ(c->settings.train.lr_batch, 0);
    CHECK_STR(c->settings.train.schedule, "one_cycle");
}

TEST(models_without_a_recipe_are_told_so)
{
    struct err err = { 0 };
    CHECK(!read(perm, "data: {path: a.txt}\ntrain: {recipe: modern}\n", &err)); /* layers on text */
    CHECK_STR(err.text,
              "train.recipe=modern: there are recipes for model.kind=gpt, encoder and ranker, and "
              "for layers on images, not for model.kind=layers on data of kind text");
}

/* Their matrices are Muon's, and the other optimisers do not get its rates. */
TEST(encoders_and_rankers_have_recipes)
{
    static const char *const kinds[] = { "encoder", "ranker" };
    for (i64 i = 0; i < COUNT_OF(kinds); i++) {
        struct err     err = { 0 };
        struct config *c   = read(
              perm,
              str_z(perm, str_fmt(perm, "model: {kind: %s}\ntrain: {recipe: modern}\n", kinds[i])),
              &err);
        CHECK(c);
        CHECK_STR(c->settings.train.optimiser, "muon");
        CHECK_STR(origin(perm, c, "train.muon_lr"), "recipe modern");
        c = read(
            perm,
            str_z(perm,
                  str_fmt(perm, "model: {kind: %s}\ntrain: {recipe: modern, optimiser: adam}\n",
                          kinds[i])),
            &err);
        CHECK_STR(origin(perm, c, "train.lr"), "default");
    }
}

TEST(every_row_is_a_setting_that_takes_its_value)
{
    for (i64 i = 0; i < COUNT_OF(rows); i++) {
        struct config       *c    = config_new(perm);
        struct err           err  = { 0 };
        struct str           rest = str_of(rows[i].beside), word;
        const struct option *o    = option_find(str_of(rows[i].key));
        CHECK(o);
        CHECK_EQ(option_set_text(o, &c->settings, str_of(rows[i].value), perm, &err), STATUS_OK);
        while (str_cut(&rest, ' ', &word)) CHECK(option_find(word));
        o = option_find(STR("train.recipe"));
        CHECK_EQ(option_set_text(o, &c->settings, str_of(rows[i].recipe), perm, &err), STATUS_OK);
    }
}

/* Both that it is there and what it is: "| `train.lr` | 0.002 |". */
TEST(every_row_is_explained)
{
    struct str text;
    struct err err = { 0 };
    if (os_read_all(os_real(), STR("docs/decisions/recipes.md"), perm, &text, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    for (i64 i = 0; i < COUNT_OF(rows); i++) {
        struct str line = str_fmt(perm, "| `%s` | %s |", rows[i].key, rows[i].value);
        if (!strstr(str_z(perm, text), str_z(perm, line)))
            harness_fail(__FILE__, __LINE__, "docs/decisions/recipes.md lacks %.*s", STR_ARG(line));
    }
}
