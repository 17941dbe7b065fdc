/* test_docs.c - the pages in docs/formats agree with the program: the table of settings is that of
 * options.def and those of the ledger those of columns.h (UPDATE_GOLDEN=1 writes them), and every
 * field of an event is described. */
#include "base/os.h"
#include "harness.h"
#include "run/columns.h"
#include "run/events.h"
#include "run/figures.h"
#include "train/options.h"

/* A cell of the table: bars would end it. */
static void add_cell(struct textbuf *b, struct str s)
{
    for (i64 i = 0; i < s.len; i++) textbuf_fmt(b, s.data[i] == '|' ? "\\%c" : "%c", s.data[i]);
}

static struct str settings_table(struct arena *perm, struct arena scratch)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b,
                "| key | default | expects | | needs | on resume |\n|---|---|---|---|---|---|\n");
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct arena parts = scratch;
        textbuf_fmt(&b, "| `%.*s` | %.*s | ", STR_ARG(options[i].key), STR_ARG(options[i].initial));
        add_cell(&b, option_expects(&options[i], &parts));
        textbuf_fmt(&b, " | ");
        add_cell(&b, options[i].help);
        textbuf_fmt(&b, " | ");
        add_cell(&b, options[i].needs);
        textbuf_fmt(&b, " | %.*s", STR_ARG(option_resume_text(&options[i])));
        textbuf_fmt(&b, " |\n");
    }
    return textbuf_str(&b);
}

/* The page says behind `mark` what the program says now. */
static void check_page(struct str path, const char *mark, struct str now, struct arena scratch)
{
    struct str page;
    struct err err = { 0 };
    CHECK_EQ(os_read_all(os_real(), path, &scratch, &page, &err), STATUS_OK);
    const char *table = strstr(page.data, mark);
    CHECK(table);
    table += strlen(mark);
    if (getenv("UPDATE_GOLDEN")) {
        struct str before = str_sub(page, 0, page.len - (i64)strlen(table));
        struct str all    = str_cat(&scratch, before, now);
        CHECK_EQ(os_publish(os_real(), path, all, scratch, &err), STATUS_OK);
        table = str_z(&scratch, now);
    }
    CHECK_STR(table, now);
}

TEST(run_yaml_lists_every_setting_as_it_is)
{
    check_page(STR("docs/formats/run_yaml.md"),
               "from `src/train/options.def`, and tested against it.\n\n",
               settings_table(perm, scratch), scratch);
}

TEST(ledger_lists_every_column_as_it_is)
{
    struct textbuf b = textbuf_new(perm);
#define COLUMN(kind, name, since, meaning)                                                         \
    textbuf_fmt(&b, "| `%s` | %s | %d | %s |\n", #name, #kind, since, meaning);
#define TABLE(name, since, meaning)                                                                \
    textbuf_fmt(&b, "\n### %s: %s\n\n| column | kind | since | |\n|---|---|---|---|\n", #name,     \
                meaning);                                                                          \
    LEDGER_##name(COLUMN)
    LEDGER_TABLES(TABLE)
    check_page(STR("docs/formats/ledger.md"), "from `src/run/columns.h`, and tested against it.\n",
               textbuf_str(&b), scratch);
}

TEST(events_lists_every_field_as_it_is)
{
    static const char *const kinds[] = { "integer",
                                         "integer or null",
                                         "number or null",
                                         "true or false",
                                         "true or false, or left out",
                                         "text",
                                         "word",
                                         "word",
                                         "map of numbers",
                                         "map of integers",
                                         "map of integers",
                                         "list of integers",
                                         "list of maps" };
    struct textbuf           b       = textbuf_new(perm);
    for (i64 k = 0; k < EVENT_COUNT; k++) {
        const struct event_row *row = &event_rows[k];
        if (!row->field_count) continue;
        textbuf_fmt(&b, "\n## %s\n\n%s.\n\n| field | kind | meaning |\n|---|---|---|\n", row->name,
                    row->when);
        for (i64 i = 0; i < row->field_count; i++)
            textbuf_fmt(&b, "| `%s` | %s | %s |\n", row->fields[i].name, kinds[row->fields[i].kind],
                        row->fields[i].meaning);
    }
    check_page(STR("docs/formats/events.md"),
               "from `src/run/events.def`, and are tested against it.\n", textbuf_str(&b), scratch);
}

/* The keys that a source file of cli gives to event_i64(&b, "key", …) and its kin. */
TEST(json_events_describes_every_field)
{
    struct str page, text, line, *files;
    struct err err    = { 0 };
    i64        fields = 0, count;
    CHECK_EQ(os_read_all(os_real(), STR("docs/formats/json_events.md"), perm, &page, &err),
             STATUS_OK);
    const char *described = str_z(perm, page);
    CHECK_EQ(os_real()->list(os_real(), STR("src/cli"), perm, &files, &count, &err), STATUS_OK);
    for (i64 f = 0; f < count; f++) {
        if (!str_ends(files[f], STR(".c"))) continue;
        struct str path = str_cat(perm, STR("src/cli/"), files[f]);
        CHECK_EQ(os_read_all(os_real(), path, perm, &text, &err), STATUS_OK);
        while (str_cut(&text, '\n', &line)) {
            struct str rest  = str_trim(line), key;
            bool       field = str_starts(rest, STR("event_")) && str_starts(line, STR("    "));
            if (!field || !str_cut(&rest, '"', &key) || !str_cut(&rest, '"', &key)) continue;
            fields++;
            const char *quoted = str_z(perm, str_fmt(perm, "`%.*s`", STR_ARG(key)));
            if (!strstr(described, quoted)) printf("\n  %s of %.*s", quoted, STR_ARG(files[f]));
            CHECK(strstr(described, quoted));
        }
    }
    CHECK(fields > 200); /* or the sources are not read as we think */
}

TEST(figures_lists_every_figure)
{
    static const char *const names[] = {
#define FIGURE(name, metric, help) #name,
        FIGURES(FIGURE)
#undef FIGURE
    };
    struct str page;
    struct err err;
    CHECK_EQ(os_read_all(os_real(), STR("docs/formats/figures.md"), perm, &page, &err), STATUS_OK);
    for (i64 i = 0; i < FIGURE_COUNT; i++) {
        struct str word = str_fmt(perm, "`%s`", i == FIGURE_eval_value ? "eval_METRIC" : names[i]);
        if (!strstr(page.data, str_z(perm, word)))
            harness_fail(__FILE__, __LINE__, "lacks %s", word.data);
    }
}
