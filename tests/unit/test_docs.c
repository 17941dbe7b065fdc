/* test_docs.c - the pages in docs/formats agree with the program: the table of settings is that of
 * options.def (UPDATE_GOLDEN=1 writes it), and every field of an event is described. */
#include "base/os.h"
#include "cli/options.h"
#include "harness.h"

static const char heading[] = "from `src/cli/options.def`, and tested against it.\n\n";

/* A cell of the table: bars would end it. */
static void add_cell(struct textbuf *b, struct str s)
{
    for (i64 i = 0; i < s.len; i++) textbuf_fmt(b, s.data[i] == '|' ? "\\%c" : "%c", s.data[i]);
}

static struct str settings_table(struct arena *perm, struct arena scratch)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, "| key | default | expects | |\n|---|---|---|---|\n");
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct arena parts = scratch;
        textbuf_fmt(&b, "| `%.*s` | %.*s | ", STR_ARG(options[i].key), STR_ARG(options[i].initial));
        add_cell(&b, option_expects(&options[i], &parts));
        textbuf_fmt(&b, " | ");
        add_cell(&b, options[i].help);
        textbuf_fmt(&b, " |\n");
    }
    return textbuf_str(&b);
}

TEST(run_yaml_lists_every_setting_as_it_is)
{
    struct str path = STR("docs/formats/run_yaml.md"), page;
    struct err err  = { 0 };
    CHECK_EQ(os_read_all(os_real(), path, perm, &page, &err), STATUS_OK);
    const char *table = strstr(str_z(perm, page), heading);
    CHECK(table);
    table += strlen(heading);
    struct str now = settings_table(perm, scratch);
    if (getenv("UPDATE_GOLDEN")) {
        struct str before = str_sub(page, 0, page.len - (i64)strlen(table));
        CHECK_EQ(os_publish(os_real(), path, str_cat(perm, before, now), *perm, &err), STATUS_OK);
        table = str_z(perm, now);
    }
    CHECK_STR(table, now);
}

/* The keys that a source file gives to event_i64(&b, "key", …) and its kin. */
TEST(json_events_describes_every_field)
{
    static const char *const files[] = { "src/cli/progress.c",   "src/cli/cmd_doctor.c",
                                         "src/cli/cmd_help.c",   "src/cli/say.c",
                                         "src/cli/cmd_prices.c", "src/cli/cmd_show.c",
                                         "src/cli/sweep_show.c" };
    struct str               page, text, line;
    struct err               err    = { 0 };
    i64                      fields = 0;
    CHECK_EQ(os_read_all(os_real(), STR("docs/formats/json_events.md"), perm, &page, &err),
             STATUS_OK);
    const char *described = str_z(perm, page);
    for (i64 f = 0; f < COUNT_OF(files); f++) {
        if (os_read_all(os_real(), str_of(files[f]), perm, &text, &err)) continue;
        while (str_cut(&text, '\n', &line)) {
            struct str rest  = str_trim(line), key;
            bool       field = str_starts(rest, STR("event_")) && str_starts(line, STR("    "));
            if (!field || !str_cut(&rest, '"', &key) || !str_cut(&rest, '"', &key)) continue;
            fields++;
            const char *quoted = str_z(perm, str_fmt(perm, "`%.*s`", STR_ARG(key)));
            if (!strstr(described, quoted)) printf("\n  %s of %s", quoted, files[f]);
            CHECK(strstr(described, quoted));
        }
    }
    CHECK(fields > 40); /* or the sources are not read as we think */
}
