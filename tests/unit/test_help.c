/* test_help.c - help texts against tests/golden/help_*.txt (UPDATE_GOLDEN=1 writes them anew; git
 * shows what changed), and the command line's own grammar. */
#include "cli/help.h"
#include "harness.h"

static void check_golden(struct arena *perm, const char *name, struct str now)
{
    struct str path = str_fmt(perm, "tests/golden/help_%s.txt", name), kept;
    struct os *os   = os_real();
    struct err err  = { 0 };
    CHECK(now.len > 0);
    if (getenv("UPDATE_GOLDEN")) CHECK_EQ(os_publish(os, path, now, *perm, &err), STATUS_OK);
    CHECK_EQ(os_read_all(os, path, perm, &kept, &err), STATUS_OK);
    if (!str_eq(now, kept)) printf("\n  %.*s differs", STR_ARG(path));
    CHECK(str_eq(now, kept));
}

TEST(golden_help)
{
    check_golden(perm, "overview", help_overview(perm, HELP_COLUMNS));
    check_golden(perm, "options", help_word(perm, STR("options"), HELP_COLUMNS));
    check_golden(perm, "train.optimiser", help_word(perm, STR("train.optimiser"), HELP_COLUMNS));
    for (i64 i = 0; i < COMMAND_COUNT; i++)
        check_golden(perm, str_z(perm, str_cat(perm, STR("command_"), commands[i].name)),
                     help_command(perm, &commands[i], HELP_COLUMNS));
    for (i64 i = 0; i < topic_count; i++)
        check_golden(perm, str_z(perm, str_cat(perm, STR("topic_"), topics[i].name)),
                     help_word(perm, topics[i].name, HELP_COLUMNS));
}

TEST(help_fits_in_eighty_columns)
{
    struct str line, texts[64];
    i64        count = 0;
    texts[count++]   = help_overview(perm, HELP_COLUMNS);
    texts[count++]   = help_word(perm, STR("options"), HELP_COLUMNS);
    for (i64 i = 0; i < COMMAND_COUNT; i++)
        texts[count++] = help_command(perm, &commands[i], HELP_COLUMNS);
    for (i64 i = 0; i < topic_count; i++)
        texts[count++] = help_word(perm, topics[i].name, HELP_COLUMNS);
    for (i64 i = 0; i < count; i++)
        while (str_cut(&texts[i], '\n', &line)) {
            if (line.len > 80) printf("\n  %.*s", STR_ARG(line));
            CHECK(line.len <= 80);
        }
}

TEST(completions_offer_machines_clouds_and_models)
{
    static const char *const shells[] = { "bash", "zsh", "fish" };
    static const char *const words[]  = { " p5.48xlarge ", " mixtral-8x7b ", " lambda ",
                                          " us-central1", " A100-80 " };
    for (i64 s = 0; s < COUNT_OF(shells); s++) {
        const char *all = str_z(perm, help_completions(perm, str_of(shells[s])));
        for (i64 w = 0; w < COUNT_OF(words); w++) CHECK(strstr(all, words[w]));
        CHECK(strstr(all, strcmp(shells[s], "fish") ? "--machine)" : "-l machine -x -a"));
        CHECK(strstr(all,
                     strcmp(shells[s], "fish") ? "--export)" : "-l export -x -a \"(frugal runs"));
        CHECK(strstr(all, "verify show prune"));
        CHECK(!strstr(all, "RANK MODEL")); /* stands for a value */
    }
}

TEST(fish_offers_values_of_settings_and_flags)
{
    const char *all = str_z(perm, help_completions(perm, STR("fish")));
    CHECK(strstr(all, "from train' -a train.precision=bf16 "));
    CHECK(strstr(all, "from train' -a 'run.machine="));
    CHECK(strstr(all, " run.machine=aws/p5.48xlarge "));
    CHECK(strstr(all, "from prices' -l sort -x -a 'price spot gpu age' -d "));
    CHECK(strstr(all, "from plan' -l context -r -d "));
    CHECK(strstr(all, "from plan' -l spot -d "));
    CHECK(strstr(all, "from help' -a options -d "));
    CHECK(strstr(all, "from help' -a plan -d "));
}

TEST(every_setting_is_in_the_manual_and_the_completions)
{
    static const char *const shells[] = { "bash", "zsh", "fish" };
    const char              *man      = str_z(perm, help_man(perm));
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        const char *key = str_z(perm, options[i].key);
        CHECK(strstr(man, key));
        for (i64 s = 0; s < COUNT_OF(shells); s++)
            CHECK(strstr(str_z(perm, help_completions(perm, str_of(shells[s]))), key));
    }
    CHECK_EQ(help_completions(perm, STR("csh")).len, 0);
    CHECK_EQ(help_word(perm, STR("no such word"), HELP_COLUMNS).len, 0);
}

static enum status parse(struct arena *perm, struct request *r, struct err *err, const char *line)
{
    char      *argv[16];
    i64        count = 0;
    struct str rest  = str_of(line), word;
    while (str_cut(&rest, ' ', &word)) argv[count++] = (char *)str_z(perm, word);
    return request_parse(argv, count, r, *perm, err);
}

TEST(the_command_line_is_read)
{
    struct request r;
    struct err     err = { 0 };
    CHECK_EQ(parse(perm, &r, &err, "doctor run.yaml train.batch=1 --json"), STATUS_OK);
    CHECK_STR(r.command->name, "doctor");
    for (i64 f = 0; f < FLAG_COUNT; f++) CHECK_EQ(r.given[f], f == FLAG_json);
    CHECK_EQ(r.argument_count, 2);
    CHECK_STR(r.arguments[1], "train.batch=1");
    CHECK_EQ(parse(perm, &r, &err, "help --completions zsh"), STATUS_OK);
    CHECK_STR(r.value[FLAG_completions], "zsh");
    CHECK_EQ(parse(perm, &r, &err, "help --completions=fish"), STATUS_OK);
    CHECK_STR(r.value[FLAG_completions], "fish");
    CHECK_EQ(parse(perm, &r, &err, "--help"), STATUS_OK);
    CHECK_STR(r.command->name, "help");
    CHECK_EQ(parse(perm, &r, &err, "--version"), STATUS_OK);
    CHECK_STR(r.command->name, "version");
    CHECK_EQ(parse(perm, &r, &err, "doctor -h"), STATUS_OK);
    CHECK_EQ(r.wants_help, true);
}

static void check_refused(struct arena *perm, const char *line, const char *sentence)
{
    struct request r;
    struct err     err = { 0 };
    CHECK_EQ(parse(perm, &r, &err, line), STATUS_USAGE);
    CHECK_STR(err.text, sentence);
}

TEST(a_wrong_command_line_is_said_with_the_remedy)
{
    check_refused(perm, "docter", "there is no command docter; did you mean doctor?");
    check_refused(perm, "xyzzyxyzzy", "there is no command xyzzyxyzzy; `frugal help` lists them");
    check_refused(perm, "version --man",
                  "frugal version has no flag --man; see `frugal help version`");
    check_refused(perm, "version -x", "there is no flag -x; see `frugal help version`");
    check_refused(perm, "help --completions", "--completions takes one of bash|zsh|fish");
    check_refused(perm, "version --json=1", "--json takes no value");
}
