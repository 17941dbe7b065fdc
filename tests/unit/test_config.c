/* test_config.c - settings from their four sources: who wins, where each came from, what is said
 * when something is wrong. */
#include "cli/config.h"
#include "harness.h"

static struct str no_environment(struct os *os, const char *name)
{
    (void)os;
    (void)name;
    return (struct str){ 0 };
}

static struct str lr_from_environment(struct os *os, const char *name)
{
    (void)os;
    if (strcmp(name, "FRUGAL_TRAIN_LR") == 0) return STR("0.5");
    if (strcmp(name, "FRUGAL_TRAIN_SEED") == 0) return STR("7");
    return (struct str){ 0 };
}

static struct str nothing_at(struct os *os, i64 index)
{
    (void)os;
    (void)index;
    return (struct str){ 0 };
}

static struct str misspelt_at(struct os *os, i64 index)
{
    static const char *const all[] = { "HOME=/", "FRUGAL_HOME=x", "FRUGAL_TRAIN_LR=1",
                                       "FRUGAL_TRAIN_BACTH=64" };
    (void)os;
    return index < COUNT_OF(all) ? str_of(all[index]) : (struct str){ 0 };
}

static struct str wrong_environment(struct os *os, const char *name)
{
    (void)os;
    return strcmp(name, "FRUGAL_TRAIN_LR") == 0 ? STR("fast") : (struct str){ 0 };
}

static struct str origin(struct arena *perm, const struct config *c, const char *key)
{
    return config_origin_text(c, option_find(str_of(key)), perm);
}

TEST(later_sources_win_and_are_remembered)
{
    struct os      os   = { .env = lr_from_environment, .env_at = nothing_at };
    struct err     err  = { 0 };
    struct config *c    = config_new(perm);
    struct str     text = STR("data:\n  path: a.idx\ntrain:\n  lr: 0.1\n  batch: 8\n  seed: 3\n");
    CHECK_EQ(config_add_file(c, perm, STR("run.yaml"), text, &err), STATUS_OK);
    CHECK_EQ(config_add_environment(c, &os, perm, &err), STATUS_OK);
    CHECK_EQ(config_add_override(c, perm, STR("train.seed=11"), &err), STATUS_OK);

    CHECK_STR(c->settings.data.path, "a.idx");
    CHECK_EQ(c->settings.train.batch, 8);
    CHECK_EQ(c->settings.train.lr, 0.5);
    CHECK_EQ(c->settings.train.seed, 11u);
    CHECK_EQ(c->settings.train.beta1, 0.9);
    CHECK_STR(c->settings.model.file, "run.yaml");

    CHECK_STR(origin(perm, c, "data.path"), "run.yaml:2");
    CHECK_STR(origin(perm, c, "train.batch"), "run.yaml:5");
    CHECK_STR(origin(perm, c, "train.lr"), "environment FRUGAL_TRAIN_LR");
    CHECK_STR(origin(perm, c, "train.seed"), "command line");
    CHECK_STR(origin(perm, c, "train.beta1"), "default");
}

static void check_file(struct arena *perm, const char *text, const char *sentence)
{
    struct err     err = { 0 };
    struct config *c   = config_new(perm);
    CHECK_EQ(config_add_file(c, perm, STR("run.yaml"), str_of(text), &err), STATUS_USAGE);
    CHECK_STR(err.text, sentence);
}

TEST(what_is_wrong_in_the_file_is_said_with_its_line)
{
    check_file(perm, "data:\n  path: x\ntrain:\n  batchsize: 32\n",
               "run.yaml:4: unknown key train.batchsize; did you mean train.batch?");
    check_file(perm, "train:\n  lr: fast\n",
               "run.yaml:2: train.lr is fast; expected a number above 0, like 3e-4");
    check_file(perm, "train:\n  batch: \"32\"\n",
               "run.yaml:2: train.batch is \"32\"; expected a whole number of at least 1 or auto, like 64");
    check_file(perm, "train:\n  batch: [1, 2]\n",
               "run.yaml:2: train.batch is a list; expected a whole number of at least 1 or auto, like 64");
    check_file(perm, "trian:\n  batch: 1\n", "run.yaml:1: unknown key trian; did you mean train?");
    check_file(perm, "batch: 1\n", "run.yaml:1: unknown key batch; did you mean train.batch?");
    check_file(perm, "train: 5\n", "run.yaml:1: train: expected settings below it, a line each");
    check_file(perm, "- train\n", "run.yaml:1: expected the sections data:, model: and train:");
    check_file(
        perm, "model:\n  layers: dense\n",
        "run.yaml:2: model.layers is dense; expected a list, like [flatten, {dense: 128}, relu, "
        "{dense: 10}]");
}

TEST(what_is_wrong_on_the_command_line_and_in_the_environment)
{
    struct os      os  = { .env = wrong_environment, .env_at = nothing_at };
    struct err     err = { 0 };
    struct config *c   = config_new(perm);
    CHECK_EQ(config_add_override(c, perm, STR("train.batch"), &err), STATUS_USAGE);
    CHECK_STR(err.text, "expected key=value, like train.batch=64, but found train.batch");
    CHECK_EQ(config_add_override(c, perm, STR("train.bach=1"), &err), STATUS_USAGE);
    CHECK_STR(err.text, "command line: unknown key train.bach; did you mean train.batch?");
    CHECK_EQ(config_add_override(c, perm, STR("train.batch=x"), &err), STATUS_USAGE);
    CHECK_STR(err.text,
              "command line: train.batch is x; expected a whole number of at least 1 or auto, like 64");
    CHECK_EQ(config_add_environment(c, &os, perm, &err), STATUS_USAGE);
    CHECK_STR(err.text, "FRUGAL_TRAIN_LR: train.lr is fast; expected a number above 0, like 3e-4");
    os = (struct os){ .env = lr_from_environment, .env_at = misspelt_at };
    CHECK_EQ(config_add_environment(c, &os, perm, &err), STATUS_USAGE);
    CHECK_STR(err.text, "FRUGAL_TRAIN_BACTH: unknown key train.bacth; did you mean train.batch?");
}

TEST(an_empty_file_and_an_empty_section_leave_the_defaults)
{
    struct err     err = { 0 };
    struct os      os  = { .env = no_environment, .env_at = nothing_at };
    struct config *c   = config_new(perm);
    CHECK_EQ(config_add_file(c, perm, STR("run.yaml"), STR("# nothing\n"), &err), STATUS_OK);
    CHECK_EQ(config_add_file(c, perm, STR("run.yaml"), STR("train:\n"), &err), STATUS_OK);
    CHECK_EQ(config_add_environment(c, &os, perm, &err), STATUS_OK);
    CHECK_EQ(c->settings.train.batch, 32);
}

TEST(every_setting_printed_is_a_setting_read)
{
    struct err               err = { 0 };
    struct config           *c = config_new(perm), *again = config_new(perm);
    static const char *const some[] = { "train.batch=7", "data.files=a,b", "model.layers=[relu]",
                                        "train.target=0.5", "data.label=a b: c" };
    for (i64 i = 0; i < COUNT_OF(some); i++)
        CHECK_EQ(config_add_override(c, perm, str_of(some[i]), &err), STATUS_OK);
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct str text = option_get_text(&options[i], &c->settings, perm);
        struct str line = str_fmt(perm, "%.*s=%.*s", STR_ARG(options[i].key), STR_ARG(text));
        CHECK_EQ(config_add_override(again, perm, line, &err), STATUS_OK);
        CHECK_STR(option_get_text(&options[i], &again->settings, perm), text);
    }
}
