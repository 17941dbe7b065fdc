/* recipe.c - train.recipe: a row of recipes.def speaks where neither file, environment nor command line
 * did. */
#include "train/config.h"
#include <string.h>

static const struct {
    const char *recipe, *model;
    struct str  key, value, beside;
} rows[] = {
#define RECIPE(recipe, model, key, value, beside)                                                  \
    { #recipe, #model, STR_INIT(#key), STR_INIT(value), STR_INIT(beside) },
#include "train/recipes.def"
};

/* What of recipes.def suits it; NULL: nothing does. */
static const char *model_of(const struct settings *s)
{
    static const char *const kinds[] = { "gpt", "encoder", "ranker" };
    for (i64 i = 0; i < COUNT_OF(kinds); i++)
        if (str_eq(s->model.kind, str_of(kinds[i]))) return kinds[i];
    struct str kind   = data_kind(os_real(), &s->data);
    bool       images = str_eq(kind, STR("idx")) || str_eq(kind, STR("images"));
    return images && str_eq(s->model.kind, STR("layers")) ? "images" : NULL;
}

static bool suits(const char *row, const char *model, const struct config *c)
{
    bool muon = str_eq(c->settings.train.optimiser, STR("muon"));
    return !strcmp(row, model) || (muon && !strcmp(row, "gpt_muon") && !strcmp(model, "gpt"));
}

/* Did anyone but the default or a recipe speak of this key, or of one beside it? */
static bool is_said(const struct config *c, struct str key, struct str beside)
{
    struct str rest = beside, word = key;
    do {
        const struct option *o = option_find(word);
        ASSERT(o);
        if (c->origin[o - options].kind > ORIGIN_RECIPE) return true;
    } while (str_cut(&rest, ' ', &word));
    return false;
}

enum status config_add_recipe(struct config *c, struct arena *perm, struct err *err)
{
    struct str  recipe = c->settings.train.recipe;
    const char *model  = model_of(&c->settings);
    if (str_eq(recipe, STR("none"))) return STATUS_OK;
    if (!model)
        return err_set(
            err, STATUS_USAGE,
            "train.recipe=%.*s: there are recipes for model.kind=gpt, encoder and "
            "ranker, and for layers on images, not for model.kind=%.*s on data of kind %.*s",
            STR_ARG(recipe), STR_ARG(c->settings.model.kind),
            STR_ARG(data_kind(os_real(), &c->settings.data)));
    for (i64 i = 0; i < COUNT_OF(rows); i++) {
        if (!str_eq(recipe, str_of(rows[i].recipe)) || !suits(rows[i].model, model, c) ||
            is_said(c, rows[i].key, rows[i].beside))
            continue;
        const struct option *o  = option_find(rows[i].key);
        enum status          st = option_set_text(o, &c->settings, rows[i].value, perm, err);
        ASSERT(st == STATUS_OK); /* a value that the option's own row refuses */
        c->origin[o - options] = (struct origin){ ORIGIN_RECIPE, 0 };
    }
    return STATUS_OK;
}
