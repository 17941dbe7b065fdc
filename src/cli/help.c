/* help.c - help texts from the tables. */
#include "cli/help.h"

enum { NAME_COLUMNS = 30, CLAIMS_BYTES = 1 << 18 };

static const char lint_text[] =
    "Settings that work but are probably a mistake are reported on stderr before the first step, "
    "as an event of --json, and by `frugal doctor RUN.YAML`, which then exits with 1. Each warning "
    "ends with the name of its rule; train.allow=NAME silences it.\n"
#define RULE(name, about) "\n  " #name "\n    " about
#include "train/lint.def"
    "\n\nloader_bound is reported by doctor, and by a run after 100 steps. There is no rule for a "
    "loss that is not divided by the number of micro-batches: frugal always divides it by all rows "
    "of a step, and refuses a graph (frugal.h) whose loss is a mean already.";

const struct topic topics[] = {
#define TOPIC(name, title, help, text)                                                             \
    { STR_INIT(name), STR_INIT(title), STR_INIT(help), STR_INIT(text) },
#include "cli/topics.def"
    { STR_INIT("lint"),
      STR_INIT("WARNINGS"),
      STR_INIT("mistakes that frugal warns about"),
      { lint_text, sizeof lint_text - 1 } },
};
const i64 topic_count = COUNT_OF(topics);

static void indent_by(struct textbuf *b, i64 columns)
{
    for (i64 i = 0; i < columns; i++) textbuf_fmt(b, " ");
}

/* Words from column `at` on; further lines begin behind `indent` blanks. */
static void fill_line(struct textbuf *b, struct str line, i64 indent, i64 at, i64 columns)
{
    struct str word;
    bool       first = true;
    while (str_cut(&line, ' ', &word)) {
        if (!first && at + 1 + word.len > columns) {
            textbuf_fmt(b, "\n");
            indent_by(b, indent);
            at    = indent;
            first = true;
        }
        textbuf_fmt(b, first ? "%.*s" : " %.*s", STR_ARG(word));
        at += word.len + !first;
        first = false;
    }
    textbuf_fmt(b, "\n");
}

/* Fills paragraphs; lines that begin with a blank stay as they are. */
static void fill(struct textbuf *b, struct str text, i64 columns)
{
    struct str line;
    while (str_cut(&text, '\n', &line)) {
        if (str_starts(line, STR(" "))) textbuf_fmt(b, "%.*s\n", STR_ARG(line));
        else fill_line(b, line, 0, 0, columns);
    }
}

/* "  name      help", the help on its own line where the name is too long. */
static void add_row(struct textbuf *b, struct str name, struct str help, i32 name_columns,
                    i64 columns)
{
    i64 room = MIN(name_columns, columns / 2), indent = room + 2;
    textbuf_fmt(b, "  %-*.*s", (int)room, STR_ARG(name));
    if (name.len + 1 > room) {
        textbuf_fmt(b, "\n");
        indent_by(b, indent);
    }
    fill_line(b, help, indent, indent, columns);
}

static struct str synopsis(struct arena *perm, const struct command *c)
{
    return str_fmt(perm, "%.*s%s%.*s", STR_ARG(c->name), c->arguments.len ? " " : "",
                   STR_ARG(c->arguments));
}

struct str help_overview(struct arena *perm, i64 columns)
{
    struct arena   parts = arena_part(perm, 1 << 16);
    struct textbuf b     = textbuf_new(perm);
    textbuf_fmt(&b,
                "frugal %s: trains models on the hardware at hand and shows the bill\n\n"
                "usage: frugal COMMAND [ARGUMENT...]\n\ncommands:\n",
                FRUGAL_VERSION);
    for (i64 i = 0; i < COMMAND_COUNT; i++)
        add_row(&b, synopsis(&parts, &commands[i]), commands[i].help, NAME_COLUMNS, columns);
    textbuf_fmt(&b, "\ntopics:\n");
    add_row(&b, STR("options"), STR("every setting of a run"), NAME_COLUMNS, columns);
    for (i64 i = 0; i < topic_count; i++)
        add_row(&b, topics[i].name, topics[i].help, NAME_COLUMNS, columns);
    textbuf_fmt(&b, "\n");
    fill(&b,
         STR("`frugal help TOPIC` explains a command, a topic or a setting, like "
             "train.batch. `frugal COMMAND --help` works too."),
         columns);
    return textbuf_str(&b);
}

struct str help_command(struct arena *perm, const struct command *c, i64 columns)
{
    struct arena   parts = arena_part(perm, 1 << 12);
    struct textbuf b     = textbuf_new(perm);
    textbuf_fmt(&b, "usage: frugal %.*s", STR_ARG(synopsis(&parts, c)));
    i64 names = b.len;
    for (i64 f = 0; f < FLAG_COUNT; f++)
        if (command_takes(c, f)) textbuf_fmt(&b, " [--%.*s]", STR_ARG(flags[f].name));
    if (b.len > HELP_COLUMNS) { /* they all follow below */
        b.len = names;
        textbuf_fmt(&b, " [FLAG...]");
    }
    textbuf_fmt(&b, "\n\n");
    fill(&b, c->help, columns);
    if (c->more.len) {
        textbuf_fmt(&b, "\n");
        fill(&b, c->more, columns);
    }
    textbuf_fmt(&b, "\n");
    for (i64 f = 0; f < FLAG_COUNT; f++) {
        if (!command_takes(c, f)) continue;
        struct str name =
            str_fmt(&parts, "--%.*s %.*s", STR_ARG(flags[f].name), STR_ARG(flags[f].argument));
        add_row(&b, name, flags[f].help, NAME_COLUMNS, columns);
    }
    add_row(&b, STR("--help, -h"), STR("print this"), NAME_COLUMNS, columns);
    return textbuf_str(&b);
}

static void add_option(struct textbuf *b, const struct option *o, i64 columns, struct arena parts)
{
    textbuf_fmt(b, "%.*s: ", STR_ARG(o->key));
    fill_line(b, o->help, 0, o->key.len + 2, columns);
    textbuf_fmt(b, "\n");
    if (o->more.len) {
        fill(b, o->more, columns);
        textbuf_fmt(b, "\n");
    }
    add_row(b, STR("expects"), option_expects(o, &parts), 13, columns);
    textbuf_fmt(b, "  default      %.*s\n", STR_ARG(o->initial.len ? o->initial : STR("empty")));
    if (o->needs.len) add_row(b, STR("needs"), option_needs_text(o, &parts), 13, columns);
    textbuf_fmt(b, "  on resume    %.*s\n", STR_ARG(option_resume_text(o)));
    textbuf_fmt(b, "  example      %.*s=%.*s\n", STR_ARG(o->key), STR_ARG(o->example));
    textbuf_fmt(b, "  environment  %.*s\n", STR_ARG(option_environment(o, &parts)));
}

/* The settings of one section, or all where it is empty; a line each. */
static void add_section(struct textbuf *b, struct str section, i64 columns)
{
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct str of = option_section(&options[i]);
        if (section.len && !str_eq(of, section)) continue;
        bool first = i == 0 || !str_eq(of, option_section(&options[i - 1]));
        if (first) textbuf_fmt(b, "%s%.*s:\n", i && !section.len ? "\n" : "", STR_ARG(of));
        add_row(b, options[i].key, options[i].help, NAME_COLUMNS - 6, columns);
    }
}

static bool is_section(struct str word)
{
    for (i64 i = 0; i < OPTION_COUNT; i++)
        if (str_eq(option_section(&options[i]), word)) return true;
    return false;
}

/* The words of model.layers, from the table that the model reads them by. */
static void add_layers(struct textbuf *b)
{
    static const char *const layers[][3] = {
#define LAYER(name, build, takes, alone, keys) { #name, keys, #alone },
#include "model/layers.def"
#undef LAYER
    };
    static const char *const keys[][2] = {
#define KEY(name, reader, must) { #name, must },
#include "model/layers.def"
#undef KEY
    };
    textbuf_fmt(b, "\n\nLayers and their settings. One with = is optional, and is inferred "
                   "if no value follows; one with * may be given alone: "
                   "`dense: 128` is `dense: {units: 128}`.\n\n");
    for (i64 i = 0; i < COUNT_OF(layers); i++) {
        struct str rest = str_of(layers[i][1]), alone = str_of(layers[i][2]), key;
        i64        line_at = b->len;
        textbuf_fmt(b, rest.len ? "  %-14s" : "  %s", layers[i][0]);
        while (str_cut(&rest, ' ', &key)) {
            i64  equals = str_find(key, '=');
            bool marked = str_eq(alone, str_sub(key, 0, equals < 0 ? key.len : equals));
            if (b->len + 2 + key.len - line_at > HELP_COLUMNS) {
                line_at = b->len + 1;
                textbuf_fmt(b, "\n  %-14s", "");
            }
            textbuf_fmt(b, marked ? " *%.*s" : " %.*s", STR_ARG(key));
        }
        textbuf_fmt(b, "\n");
    }
    textbuf_fmt(b, "\nWhat the settings may be:\n\n");
    for (i64 i = 0; i < COUNT_OF(keys); i++) textbuf_fmt(b, "  %-15s %s\n", keys[i][0], keys[i][1]);
}

struct str help_topic_text(struct arena *perm, const struct topic *t)
{
    bool           claims  = str_eq(t->name, STR("claims"));
    struct arena   scratch = arena_part(perm, claims ? CLAIMS_BYTES : 0);
    struct textbuf b       = textbuf_new(perm);
    textbuf_add(&b, t->text);
    if (str_eq(t->name, STR("layers"))) add_layers(&b);
    if (claims) claims_add(&b, scratch);
    return textbuf_str(&b);
}

struct str help_flag(struct arena *perm, const struct command *c, i64 columns)
{
    struct arena   parts = arena_part(perm, 1 << 16);
    struct textbuf b     = textbuf_new(perm);
    textbuf_add(&b, help_command(&parts, c, columns));
    for (i64 i = 0; i < topic_count; i++)
        if (str_eq(topics[i].name, c->name))
            textbuf_fmt(&b, "\n`frugal help %.*s` says more.\n", STR_ARG(c->name));
    return textbuf_str(&b);
}

struct str help_word(struct arena *perm, struct str word, i64 columns)
{
    struct arena          parts = arena_part(perm, 1 << 19);
    struct textbuf        b     = textbuf_new(perm);
    const struct command *c     = command_find(word);
    const struct option  *o     = option_find(word);

    if (o) add_option(&b, o, columns, parts);
    if (c) textbuf_add(&b, help_command(&parts, c, columns));
    for (i64 i = 0; i < topic_count; i++) {
        if (!str_eq(topics[i].name, word)) continue;
        if (b.len) textbuf_fmt(&b, "\n");
        fill(&b, help_topic_text(&parts, &topics[i]), columns);
    }
    if (is_section(word) || str_eq(word, STR("options"))) {
        if (b.len) textbuf_fmt(&b, "\n");
        add_section(&b, is_section(word) ? word : STR(""), columns);
    }
    return textbuf_str(&b);
}
