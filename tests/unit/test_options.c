/* test_options.c - the table of settings: complete, consistent, and read and printed exactly. */
#include "base/os.h"
#include "harness.h"
#include "train/options.h"
#include <ctype.h>

/* The names of the fields of `struct NAME { … }` in a header, comments left out. */
static i64 fields_of(struct arena *perm, const char *path, const char *name, struct str *out)
{
    struct str text, line;
    struct err err;
    i64        count  = 0;
    bool       inside = false;
    struct str begin  = str_fmt(perm, "struct %s {", name);
    CHECK_EQ(os_read_all(os_real(), str_of(path), perm, &text, &err), STATUS_OK);
    while (str_cut(&text, '\n', &line)) {
        if (str_eq(line, begin)) inside = true;
        else if (str_starts(line, STR("}"))) inside = false;
        i64 comment = 0;
        while (comment + 1 < line.len && memcmp(line.data + comment, "/*", 2) != 0) comment++;
        if (comment + 1 < line.len) line = str_sub(line, 0, comment);
        i64        end  = str_find(line, ';');
        struct str list = str_sub(line, 0, end), item;
        if (!inside || end < 0) continue;
        while (str_cut(&list, ',', &item)) { /* "i64 mlp[8]", " heads", "struct yaml *layers" */
            i64 bracket = str_find(item, '[');
            if (bracket >= 0) item = str_sub(item, 0, bracket);
            item   = str_trim(item);
            i64 at = item.len;
            while (at > 0 &&
                   (isalnum((unsigned char)item.data[at - 1]) || item.data[at - 1] == '_'))
                at--;
            out[count++] = str_sub(item, at, item.len);
        }
    }
    return count;
}

static bool counts_a_list(struct str key)
{
#define SCALAR(...)
#define LIST(kind, field, count_field, ...)                                                        \
    if (str_eq(key, STR(#count_field))) return true;
#include "train/options.def"
    return false;
}

/* What the program finds out by itself, or another file says: a model's config.json. */
static bool is_no_setting(struct str key)
{
    static const char
        *const all[] = { "model.file",       "model.family",      "model.vocabulary",
                         "model.head_dim",   "model.places",      "model.context",
                         "model.masked",     "model.eps",         "model.bias_qkv",
                         "model.bias_proj",  "model.bias_mlp",    "model.qk_weights",
                         "model.ask",        "data.remote",       "model.rope_scaling",
                         "data.rows_only",   "data.image_bytes",  "model.lora",
                         "model.types",      "model.first_place", "model.cached",
                         "model.pooler",     "model.classes",     "model.new_head",
                         "data.class_names", "data.class_count",  "data.classes_trained",
                         "train.lora" /* whose fields have rows */ };
    for (i64 i = 0; i < COUNT_OF(all); i++)
        if (str_eq(key, str_of(all[i]))) return true;
    return false;
}

enum { SETTINGS_MAX = 150 };

TEST(every_field_of_the_settings_has_one_row)
{
    static const struct {
        const char *section, *path, *name;
    } structs[] = { { "data", "src/data/data.h", "data_config" },
                    { "loader", "src/data/data.h", "loader_options" },
                    { "model", "src/model/model.h", "model_config" },
                    { "train", "src/train/settings.h", "train_config" },
                    { "train.lora", "src/model/model.h", "lora_config" },
                    { "checkpoint", "src/train/settings.h", "checkpoint_config" },
                    { "sweep", "src/train/settings.h", "sweep_config" },
                    { "spot", "src/run/notice.h", "spot_config" },
                    { "run", "src/run/ledger.h", "run_config" },
                    { "log", "src/run/figures.h", "log_config" },
                    { "profile", "src/run/profile.h", "profile_config" },
                    { "program", "src/run/supervised_config.h", "program_config" } };
    i64 rows    = 0;
    for (i64 s = 0; s < COUNT_OF(structs); s++) {
        struct str names[256];
        i64        count = fields_of(perm, structs[s].path, structs[s].name, names);
        CHECK(count > 1); /* or the header is not read as we think */
        for (i64 i = 0; i < count; i++) {
            struct str key   = str_fmt(perm, "%s.%.*s", structs[s].section, STR_ARG(names[i]));
            bool       known = option_find(key) || counts_a_list(key) || is_no_setting(key);
            if (!known) printf("\n  no row for %.*s", STR_ARG(key));
            CHECK(known);
            rows += option_find(key) != NULL;
        }
    }
    CHECK_EQ(rows, OPTION_COUNT);
    /* 150 of the first 187, and each that came later by its name, with the argument in its commit. */
    static const char *const later[] = {
        "data.windows",       "data.text",          "data.tokenizer",
        "data.template",      "train.lora.rank",    "train.lora.alpha",
        "train.lora.on",      "train.lora.dropout", "train.lora.weights",
        "model.table_dtype",  "train.shard",        "train.join_s",
        "model.value_tables", "train.shard_over",   "model.attention_dropout",
        "data.pieces"
    };
    i64 added = 0;
    for (i64 i = 0; i < COUNT_OF(later); i++) added += option_find(str_of(later[i])) != NULL;
    if (OPTION_COUNT > SETTINGS_MAX + added)
        printf("\n  %d settings: name a new one in `later`, or drop one", OPTION_COUNT);
    CHECK(OPTION_COUNT <= SETTINGS_MAX + added);
    for (i64 i = 0; i < OPTION_COUNT; i++) CHECK_EQ(option_find(options[i].key), &options[i]);
}

/* The row's own text goes in, comes out, and what came out goes in again to the same. */
static void check_round_trip(struct arena *perm, const struct option *o, struct str text)
{
    struct settings *a = NEW(perm, struct settings, 1), *b = NEW(perm, struct settings, 1);
    struct err       err = { 0 };
    if (option_set_text(o, a, text, perm, &err)) printf("\n  %s\n", err.text);
    CHECK_EQ(option_set_text(o, a, text, perm, &err), STATUS_OK);
    struct str once = option_get_text(o, a, perm);
    CHECK_EQ(option_set_text(o, b, once, perm, &err), STATUS_OK);
    CHECK_STR(option_get_text(o, b, perm), once);
}

TEST(defaults_and_examples_are_accepted_by_their_own_rows)
{
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        check_round_trip(perm, &options[i], options[i].initial);
        check_round_trip(perm, &options[i], options[i].example);
    }
}

TEST(rows_are_written_as_the_help_needs_them)
{
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        const struct option *o = &options[i];
        struct interval      range;
        CHECK(o->help.len > 0 && o->help.len <= 76);
        CHECK(o->help.data[o->help.len - 1] != '.');
        CHECK(o->more.len == 0 || o->more.data[o->more.len - 1] == '.');
        CHECK_EQ(interval_parse(o->allowed, &range), option_is_number(o));
        CHECK(option_expects(o, perm).len > 0);
        CHECK(str_find(o->needs, ',') < 0); /* groups are joined by " and " alone */
    }
}

TEST(environment_names_differ)
{
    CHECK_STR(option_environment(option_find(STR("train.batch")), perm), "FRUGAL_TRAIN_BATCH");
    for (i64 i = 0; i < OPTION_COUNT; i++)
        for (i64 j = 0; j < i; j++)
            CHECK(!str_eq(option_environment(&options[i], perm),
                          option_environment(&options[j], perm)));
}

TEST(a_wrong_key_finds_the_one_that_was_meant)
{
    static const char *const meant[][2] = {
        { "train.batchsize", "train.batch" },
        { "train.batch_size", "train.batch" },
        { "train.bacth", "train.batch" },
        { "train.optimizer", "train.optimiser" },
        { "train.learning_rate", "train.lr" },
        { "train.weight_decay", "train.decay" },
        { "train.path", "data.path" },
        { "epochs", "train.epochs" },
        { "model.dimension", NULL },
        { "train.zzzzzzzzz", NULL },
        { "data.file", "data.files" },
        { "model.n_heads", "model.heads" },
        { "train.num_epochs", "train.epochs" },
        { "train.dropout", "model.dropout" },
    };
    for (i64 i = 0; i < COUNT_OF(meant); i++) {
        const struct option *o = option_nearest(str_of(meant[i][0]), scratch);
        CHECK_STR(o ? o->key : STR("none"), str_of(meant[i][1] ? meant[i][1] : "none"));
    }
}

TEST(intervals)
{
    static const struct {
        const char *text;
        f64         value;
        bool        inside;
    } cases[] = { { "[1, inf)", 1, true },    { "[1, inf)", 0.999, false },
                  { "(0, 1)", 0, false },     { "(0, 1)", 1, false },
                  { "[0, 1]", 1, true },      { "[0, 1)", NAN, false },
                  { "(-inf, inf)", -7, true } };
    struct interval range;
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        CHECK(interval_parse(str_of(cases[i].text), &range));
        CHECK_EQ(interval_has(range, cases[i].value), cases[i].inside);
    }
    CHECK(!interval_parse(STR("0, 1"), &range));
    CHECK(!interval_parse(STR("[2, 1]"), &range));
    CHECK(!interval_parse(STR("[a, 1]"), &range));
}

/* Which texts are taken, and the sentence where they are not. */
static void check_refused(struct arena *perm, const char *key, const char *text, const char *why)
{
    struct settings *s   = NEW(perm, struct settings, 1);
    struct err       err = { 0 };
    CHECK_EQ(option_set_text(option_find(str_of(key)), s, str_of(text), perm, &err), STATUS_USAGE);
    CHECK_STR(err.text, why);
}

TEST(wrong_values_are_refused_with_what_was_expected)
{
    check_refused(perm, "train.batch", "many",
                  "train.batch is many; expected a whole number of at least 1 or auto, like 64");
    check_refused(perm, "train.batch", "0",
                  "train.batch is 0; expected a whole number of at least 1 or auto, like 64");
    check_refused(perm, "train.batch", "1.5",
                  "train.batch is 1.5; expected a whole number of at least 1 or auto, like 64");
    check_refused(perm, "train.batch", "",
                  "train.batch is empty; expected a whole number of at least 1 or auto, like 64");
    check_refused(perm, "train.lr", "0", "train.lr is 0; expected a number above 0, like 3e-4");
    check_refused(perm, "train.beta1", "1",
                  "train.beta1 is 1; expected a number from 0 to below 1, like 0.9");
    check_refused(perm, "train.nesterov", "perhaps",
                  "train.nesterov is perhaps; expected true or false, like true");
    check_refused(
        perm, "train.optimiser", "adagrad",
        "train.optimiser is adagrad; expected one of sgd|adam|adamw|muon|auto, like adamw");
    check_refused(perm, "train.target", "high",
                  "train.target is high; expected a number or none, like 0.97");
    check_refused(
        perm, "model.mlp", "64, x",
        "model.mlp is a list; expected a list of whole numbers of at least 1, 8 of them at "
        "most, like [256, 128]");
    check_refused(
        perm, "model.mlp", "1,2,3,4,5,6,7,8,9",
        "model.mlp is a list; expected a list of whole numbers of at least 1, 8 of them at "
        "most, like [256, 128]");
}

TEST(values_land_in_their_fields)
{
    struct settings          s        = { 0 };
    struct err               err      = { 0 };
    static const char *const set[][2] = {
        { "train.batch", "10_000" },
        { "train.lr", "1e-3" },
        { "train.nesterov", "yes" },
        { "train.target", "none" },
        { "data.files", "a, \"b, c\"" },
        { "model.mlp", "[3, 4]" },
        { "model.layers", "[flatten, {dense: 10}]" },
        { "train.steps", "1e6" },
        { "model.dtype", "f64" },
        { "train.shuffle", "no" },
    };
    for (i64 i = 0; i < COUNT_OF(set); i++)
        CHECK_EQ(option_set_text(option_find(str_of(set[i][0])), &s, str_of(set[i][1]), perm, &err),
                 STATUS_OK);
    CHECK_EQ(s.train.batch, 10000);
    CHECK_EQ(s.train.lr, 1e-3);
    CHECK_EQ(s.train.nesterov, true);
    CHECK(isnan(s.train.target));
    CHECK_EQ(s.data.file_count, 2);
    CHECK_STR(s.data.files[1], "b, c");
    CHECK_EQ(s.model.mlp_count, 2);
    CHECK_EQ(s.model.mlp[1], 4);
    CHECK_EQ(s.model.layers->count, 2);
    CHECK_EQ(s.train.steps, 1000000);
    CHECK_EQ(s.model.dtype, DT_F64);
    CHECK_STR(s.train.shuffle, "false");
    CHECK_STR(option_get_text(option_find(STR("data.files")), &s, perm), "[a, \"b, c\"]");
    CHECK_STR(option_get_text(option_find(STR("model.layers")), &s, perm),
              "[flatten, {dense: 10}]");
}

TEST(any_number_prints_so_that_it_reads_back_the_same)
{
    u64                  state = test_seed();
    const struct option *o     = option_find(STR("train.target")); /* takes any finite number */
    for (i64 i = 0; i < 20000; i++) {
        struct arena    part = *perm;
        struct settings s = { 0 }, again = { 0 };
        state    = state * 6364136223846793005u + 1442695040888963407u;
        u64 bits = state ^ (state >> 29);
        memcpy(&s.train.target, &bits, sizeof bits);
        if (!isfinite(s.train.target)) continue;
        struct str text = option_get_text(o, &s, &part);
        CHECK_EQ(option_set_text(o, &again, text, &part, NULL), STATUS_OK);
        CHECK_EQ(again.train.target, s.train.target);
    }
}
