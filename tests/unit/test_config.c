/* test_config.c - settings from their four sources: who wins, where each came from, what is said
 * when something is wrong. */
#include "harness.h"
#include "train/config.h"

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
    CHECK_STR(settings_origins(c, perm), "run.yaml:2\nrun.yaml:5\ncommand line\n"
                                         "environment FRUGAL_TRAIN_LR\ndefault\n");
}

/* The two lists of the ledger speak of the same settings in the same order. */
TEST(every_setting_that_is_kept_has_its_origin)
{
    struct err     err = { 0 };
    struct config *c   = config_new(perm);
    CHECK_EQ(config_add_override(c, perm, STR("train.recipe=modern"), &err), STATUS_OK);
    CHECK_EQ(config_add_override(c, perm, STR("model.kind=gpt"), &err), STATUS_OK);
    CHECK_EQ(config_add_recipe(c, perm, &err), STATUS_OK);
    c->settings.train.out = STR("named.safetensors"); /* as config_resolve_out does */
    struct str values = settings_changed(c, perm), origins = settings_origins(c, perm), v, o;
    i64        recipes = 0, named = 0;
    while (str_cut(&values, '\n', &v)) {
        struct str key;
        CHECK(str_cut(&origins, '\n', &o));
        CHECK(str_cut(&v, '=', &key));
        CHECK_STR(o, config_origin_text(c, option_find(key), perm));
        recipes += str_eq(o, STR("recipe modern"));
        named += str_eq(key, STR("train.out")) && str_eq(o, STR("default"));
    }
    CHECK(!origins.len);
    CHECK(recipes > 0);
    CHECK_EQ(named, 1);
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
               "run.yaml:2: train.batch is \"32\"; expected a whole number of at least 1 or auto, "
               "like 64");
    check_file(perm, "train:\n  batch: [1, 2]\n",
               "run.yaml:2: train.batch is a list; expected a whole number of at least 1 or auto, "
               "like 64");
    check_file(perm, "trian:\n  batch: 1\n", "run.yaml:1: unknown key trian; did you mean train?");
    check_file(perm, "batch: 1\n", "run.yaml:1: unknown key batch; did you mean train.batch?");
    check_file(perm, "train: 5\n", "run.yaml:1: train: expected settings below it, one per line");
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
    CHECK_STR(
        err.text,
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

/* --- settings that are gone --- */

static const struct {
    const char *old, *new, *remedy;
} gone[] = {
#define GONE(old, new, remedy) { old, new, remedy },
#include "train/gone.def"
};

static struct str gone_name; /* the variable that is set */
static struct str gone_at(struct os *os, i64 index)
{
    (void)os;
    return index ? (struct str){ 0 } : gone_name;
}

TEST(settings_that_are_gone_are_refused_with_their_remedy)
{
    for (i64 i = 0; i < COUNT_OF(gone); i++) {
        struct str     key = str_of(gone[i].old), rest = key, section;
        struct config *c    = config_new(perm);
        struct err     err  = { 0 };
        const char    *said = str_z(perm, str_fmt(perm, "%s was %s%s: %s", gone[i].old,
                                               gone[i].new[0] ? "replaced by " : "removed",
                                                  gone[i].new, gone[i].remedy));
        CHECK(!option_find(key));
        CHECK(!gone[i].new[0] || option_find(str_of(gone[i].new)));
        CHECK(str_cut(&rest, '.', &section));
        CHECK_EQ(config_add_override(c, perm, str_fmt(perm, "%s=1", gone[i].old), &err),
                 STATUS_USAGE);
        CHECK_STR(err.text, str_cat(perm, STR("command line: "), str_of(said)));
        struct str text = str_fmt(perm, "%.*s:\n  %.*s: 1\n", STR_ARG(section), STR_ARG(rest));
        CHECK_EQ(config_add_file(c, perm, STR("run.yaml"), text, &err), STATUS_USAGE);
        CHECK_STR(err.text, str_cat(perm, STR("run.yaml:2: "), str_of(said)));
        struct option was = { .key = key };
        struct str    var = option_environment(&was, perm);
        struct os     os  = { .env = no_environment, .env_at = gone_at };
        gone_name         = str_cat(perm, var, STR("=1"));
        CHECK_EQ(config_add_environment(c, &os, perm, &err), STATUS_USAGE);
        CHECK_STR(err.text, str_fmt(perm, "%.*s: %s", STR_ARG(var), said));
    }
}

/* --- settings that would be ignored --- */

/* Makes a fact true or false; false: the atom is a setting. */
static bool fact_set(struct config *c, struct str atom, bool holds)
{
    static const char *const files[][2] = { { "a remote file", "https://host/a" },
                                            { "a .gz file", "a.gz" },
                                            { "a .tar file", "a-{0..3}.tar" } };
    for (i64 i = 0; i < COUNT_OF(files); i++) {
        if (!str_eq(atom, str_of(files[i][0]))) continue;
        c->settings.data.path = str_of(holds ? files[i][1] : "a");
        return true;
    }
    if (!str_starts(atom, STR("frugal "))) return false;
    c->command = holds ? str_sub(atom, STR("frugal ").len, atom.len) : STR("train");
    return true;
}

/* Makes a fact, KEY=a|b, KEY or !KEY true or false. */
static void atom_set(struct config *c, struct str atom, bool holds, struct arena *perm)
{
    struct settings *s = &c->settings;
    if (fact_set(c, atom, holds)) return;
    bool       without = str_starts(atom, STR("!"));
    struct str words = str_sub(atom, without, atom.len), key = words, one, value = STR("");
    bool       listed = str_find(atom, '=') >= 0;
    struct err err;
    if (listed) str_cut(&words, '=', &key);
    const struct option *o = option_find(key);
    CHECK(o != NULL);
    if (!listed) value = holds != without ? o->example : o->initial;
    else if (holds) str_cut(&words, '|', &value);
    else {
        struct str choices = o->allowed;
        while (!value.len && str_cut(&choices, '|', &one)) {
            struct str all = words, word;
            bool       in  = str_eq(one, STR("auto"));
            while (str_cut(&all, '|', &word)) in |= str_eq(one, word);
            if (!in) value = one;
        }
    }
    CHECK_EQ(option_set_text(o, s, value, perm, &err), STATUS_OK);
}

/* The groups of a row's `needs`, each with its first alternative; group `broken` does not hold. */
static i64 needs_set(struct config *c, struct str needs, i64 broken, struct arena *perm)
{
    i64         count = 0;
    const char *rest  = str_z(perm, needs);
    while (rest) {
        const char         *and = strstr(rest, " and ");
        struct str group        = and? (struct str){ rest, and-rest } : str_of(rest);
        rest                    = and? and+5 : NULL;
        const char *alternative = str_z(perm, group);
        for (bool first = true; alternative; first = false) {
            const char * or = strstr(alternative, " or ");
            struct str atom =
                or ? (struct str){ alternative, or -alternative } : str_of(alternative);
            alternative = or ? or +4 : NULL;
            if (count == broken) atom_set(c, atom, false, perm);
            else if (first) atom_set(c, atom, true, perm);
        }
        count++;
    }
    return count;
}

TEST(a_setting_that_would_be_ignored_is_an_error)
{
    i64 rows = 0;
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        const struct option *o      = &options[i];
        i64                  groups = 1;
        if (!o->needs.len) continue;
        rows++;
        for (i64 broken = -1; broken < groups; broken++) {
            struct arena   here = scratch;
            struct config *c    = config_new(&here);
            struct err     err  = { 0 };
            groups              = needs_set(c, o->needs, broken, &here);
            struct str given    = str_fmt(&here, "%.*s=%.*s", STR_ARG(o->key), STR_ARG(o->example));
            CHECK_EQ(config_check_needs(c, os_real(), here, &err), STATUS_OK); /* nobody said it */
            CHECK_EQ(config_add_override(c, &here, given, &err), STATUS_OK);
            enum status st = config_check_needs(c, os_real(), here, &err);
            if ((st == STATUS_OK) != (broken < 0))
                printf("\n  %.*s, group %lld: %s", STR_ARG(o->key), (long long)broken, err.text);
            CHECK_EQ(st, broken < 0 ? STATUS_OK : STATUS_USAGE);
            struct str said =
                str_fmt(&here, "command line: %.*s does nothing with", STR_ARG(o->key));
            CHECK(broken < 0 || str_starts(str_of(err.text), said));
        }
    }
    CHECK(rows > 60); /* or the table is not read as we think */
}

static struct str needs_say(struct arena *perm, const char *command, const char *const *given)
{
    struct config *c   = config_new(perm);
    struct err     err = { .text = "" };
    c->command         = str_of(command);
    for (; *given; given++) CHECK_EQ(config_add_override(c, perm, str_of(*given), &err), STATUS_OK);
    if (!config_check_needs(c, os_real(), *perm, &err)) return STR("");
    return str_copy(perm, str_of(err.text));
}

#define GIVEN(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Whoever looks at a file (show, plan) takes it for any command. */
TEST(a_section_that_the_command_ignores_is_an_error)
{
    static const char *const train[] = { "train", "profile", "sweep", "tune" };
    for (i64 i = 0; i < COUNT_OF(train); i++) {
        struct str said = needs_say(perm, train[i], GIVEN("program.grace_s=9"));
        CHECK_STR(
            said,
            str_fmt(perm,
                    "command line: program.grace_s does nothing under frugal %s: it is for frugal "
                    "run. Leave it out",
                    train[i]));
        CHECK_STR(needs_say(perm, train[i], GIVEN("model.kind=gpt", "train.lr=0.1")), "");
    }
    static const char *const not_run[] = {
        "model.kind=gpt", "data.path=a.bin", "loader.prefetch=4",
        "train.lr=0.1",   "sweep.over=[]",   "profile.active=3"
    };
    for (i64 i = 0; i < COUNT_OF(not_run); i++) {
        CHECK(str_starts(needs_say(perm, "run", GIVEN(not_run[i])), STR("command line: ")));
        CHECK_STR(needs_say(perm, "show", GIVEN(not_run[i], "program.grace_s=9")), "");
    }
    CHECK_STR(needs_say(perm, "run", GIVEN("train.lr=0.1")),
              "command line: train.lr does nothing under frugal run: it is for frugal train. Leave "
              "it out");
    CHECK_STR(needs_say(perm, "run",
                        GIVEN("train.target=1", "train.usd_hour=1", "train.max_dollars=2",
                              "spot.grace_s=9", "program.grace_s=9", "checkpoint.keep=2",
                              "checkpoint.dir=kept")),
              "");
}

TEST(what_a_cpu_or_a_plain_file_ignores_is_an_error)
{
    CHECK_STR(needs_say(perm, "train", GIVEN("train.compile=max-autotune", "train.device=cpu")),
              "command line: train.compile does nothing with train.device=cpu; it needs "
              "train.device=auto or cuda. Leave "
              "it out; train.compile=default resets it");
    CHECK_STR(needs_say(perm, "train", GIVEN("train.compile=max-autotune")),
              ""); /* a note, where there is no GPU */
    CHECK_STR(needs_say(perm, "train", GIVEN("data.path=text", "data.cache=c")),
              "command line: data.cache does nothing without a .gz file or a .tar file or a remote "
              "file. Leave it out; "
              "data.cache= resets it");
    CHECK_STR(needs_say(perm, "train",
                        GIVEN("data.kind=idx", "data.path=a", "data.labels=b.gz", "data.cache=c")),
              "");
    CHECK_STR(
        needs_say(perm, "train", GIVEN("data.files=[a, \"s3://b/c\"]", "data.cache_bytes=1e9")),
        "");
    CHECK_STR(needs_say(perm, "train", GIVEN("profile.wait=2")),
              "command line: profile.wait does nothing without profile.active or frugal profile. "
              "Leave it out; "
              "profile.wait=default resets it");
    CHECK_STR(needs_say(perm, "profile", GIVEN("profile.wait=2")), "");
}

static struct str variables[3];
static struct str variable(struct os *os, const char *name)
{
    (void)os;
    for (i64 i = 0; i < COUNT_OF(variables); i++)
        if (str_starts(variables[i], str_of(name)) && variables[i].data[strlen(name)] == '=')
            return str_sub(variables[i], (i64)strlen(name) + 1, variables[i].len);
    return (struct str){ 0 };
}
static struct str variable_at(struct os *os, i64 index)
{
    (void)os;
    return index < COUNT_OF(variables) ? variables[index] : (struct str){ 0 };
}

/* It is set once, for all commands and runs of a machine. */
TEST(the_environment_of_a_machine_may_say_what_a_run_ignores)
{
    struct config *c   = config_new(perm);
    struct os      os  = *os_real();
    struct err     err = { .text = "" };
    os.env             = variable;
    os.env_at          = variable_at;
    c->command         = STR("train");
    variables[0]       = STR("FRUGAL_SPOT_GRACE_S=30");
    variables[1]       = STR("FRUGAL_PROGRAM_GRACE_S=25");
    variables[2]       = STR("FRUGAL_TRAIN_SEED=3");
    CHECK_EQ(config_add_environment(c, &os, perm, &err), STATUS_OK);
    CHECK_EQ(c->settings.program.grace_s, 25);
    CHECK_EQ(config_check_needs(c, &os, *perm, &err), STATUS_OK);
    variables[2] = STR("FRUGAL_TRAIN_MOMENTUM=0.9"); /* of this run, as ever */
    CHECK_EQ(config_add_environment(c, &os, perm, &err), STATUS_OK);
    CHECK_EQ(config_check_needs(c, &os, *perm, &err), STATUS_USAGE);
}

TEST(what_would_be_ignored_is_said_with_its_place)
{
    struct err     err  = { 0 };
    struct config *c    = config_new(perm);
    struct str     text = STR("data: {kind: idx}\ntrain:\n  momentum: 0.9\n");
    CHECK_EQ(config_add_file(c, perm, STR("run.yaml"), text, &err), STATUS_OK);
    CHECK_EQ(config_check_needs(c, os_real(), *perm, &err), STATUS_USAGE);
    CHECK_STR(err.text,
              "run.yaml:3: train.momentum does nothing with train.optimiser=adam; it needs "
              "train.optimiser=sgd. Leave it out; train.momentum=default resets it");
    CHECK_EQ(config_add_override(c, perm, STR("train.momentum=default"), &err), STATUS_OK);
    CHECK_EQ(config_check_needs(c, os_real(), *perm, &err), STATUS_OK);
    CHECK_EQ(config_add_override(c, perm, STR("checkpoint.every=10min"), &err), STATUS_OK);
    CHECK_EQ(config_check_needs(c, os_real(), *perm, &err), STATUS_USAGE);
    CHECK_STR(err.text, "command line: checkpoint.every does nothing without checkpoint.dir or "
                        "checkpoint.to. Leave it "
                        "out; checkpoint.every=auto resets it");
    CHECK_EQ(config_add_override(c, perm, STR("checkpoint.every=auto"), &err),
             STATUS_OK); /* a text's default */
    CHECK_EQ(config_check_needs(c, os_real(), *perm, &err), STATUS_OK);
    CHECK_EQ(config_add_override(c, perm, STR("sweep.over=[{train.optimiser: [sgd, adam]}]"), &err),
             STATUS_OK);
    CHECK_EQ(config_add_override(c, perm, STR("train.momentum=0.8"), &err),
             STATUS_OK); /* for some trials */
    CHECK_EQ(config_check_needs(c, os_real(), *perm, &err), STATUS_OK);
}
