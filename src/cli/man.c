/* man.c - the manual page, in roff's man macros, from the same tables as the help. */
#include "cli/help.h"

/* Text that roff takes for what it is: dashes stay dashes, a dot at the start is no macro. */
static void add_roff(struct textbuf *b, struct str s)
{
    for (i64 i = 0; i < s.len; i++) {
        bool starts = i == 0 || s.data[i - 1] == '\n';
        if (starts && (s.data[i] == '.' || s.data[i] == '\'')) textbuf_fmt(b, "\\&");
        switch (s.data[i]) {
        case '\\': textbuf_fmt(b, "\\e"); break;
        case '-': textbuf_fmt(b, "\\-"); break;
        case '`': textbuf_fmt(b, "\\(ga"); break;
        case '~': textbuf_fmt(b, "\\(ti"); break;
        default: textbuf_fmt(b, "%c", s.data[i]);
        }
    }
}

/* Paragraphs, and lines that stay as they are. */
static void add_paragraphs(struct textbuf *b, struct str text)
{
    struct str line;
    bool       literal = false, wants_break = false;
    while (str_cut(&text, '\n', &line)) {
        bool keeps = str_starts(line, STR(" "));
        if (keeps != literal) textbuf_fmt(b, keeps ? ".RS 2\n.nf\n" : ".fi\n.RE\n");
        literal = keeps;
        if (line.len && wants_break && !keeps) textbuf_fmt(b, ".PP\n");
        wants_break = line.len == 0;
        if (!line.len) continue;
        add_roff(b, keeps ? str_sub(line, 2, line.len) : line);
        textbuf_fmt(b, "\n");
    }
    if (literal) textbuf_fmt(b, ".fi\n.RE\n");
}

static void add_term(struct textbuf *b, struct str bold, struct str rest)
{
    textbuf_fmt(b, ".TP\n\\fB");
    add_roff(b, bold);
    textbuf_fmt(b, "\\fR");
    if (rest.len) textbuf_fmt(b, " ");
    add_roff(b, rest);
    textbuf_fmt(b, "\n");
}

static void add_sentence(struct textbuf *b, struct str s)
{
    add_roff(b, s);
    textbuf_fmt(b, ".\n");
}

static void add_commands(struct textbuf *b)
{
    textbuf_fmt(b, ".SH COMMANDS\n");
    for (i64 i = 0; i < COMMAND_COUNT; i++) {
        add_term(b, commands[i].name, commands[i].arguments);
        add_sentence(b, commands[i].help);
        if (commands[i].more.len) {
            add_roff(b, commands[i].more);
            textbuf_fmt(b, "\n");
        }
    }
    textbuf_fmt(b, ".SH OPTIONS\n");
    for (i64 f = 0; f < FLAG_COUNT; f++) {
        struct arena parts = arena_part(b->perm, 256);
        struct str   name  = str_cat(&parts, STR("--"), flags[f].name);
        add_term(b, name, flags[f].argument);
        for (i64 i = 0, n = 0; i < COMMAND_COUNT; i++)
            if (command_takes(&commands[i], f))
                textbuf_fmt(b, "%s%.*s", n++ ? ", " : "", STR_ARG(commands[i].name));
        textbuf_fmt(b, ": ");
        add_sentence(b, flags[f].help);
    }
}

static void add_settings(struct textbuf *b, struct arena *parts)
{
    textbuf_fmt(b, ".SH SETTINGS\nKeys of the run file, of the command line (KEY=VALUE) and, in "
                   "capitals, of the environment.\n");
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        const struct option *o       = &options[i];
        struct arena         scratch = *parts;
        struct str           section = option_section(o);
        if (i == 0 || !str_eq(section, option_section(&options[i - 1])))
            textbuf_fmt(b, ".SS %.*s\n", STR_ARG(section));
        struct str initial = o->initial.len ? o->initial : STR("empty");
        add_term(b, o->key, str_fmt(&scratch, "(%.*s)", STR_ARG(initial)));
        add_sentence(b, o->help);
        textbuf_fmt(b, "Expects ");
        add_sentence(b, option_expects(o, &scratch));
        if (o->needs.len) {
            textbuf_fmt(b, "Needs ");
            add_sentence(b, option_needs_text(o, &scratch));
        }
        if (o->more.len) {
            add_roff(b, o->more);
            textbuf_fmt(b, "\n");
        }
    }
}

struct str help_man(struct arena *perm)
{
    struct arena   parts = arena_part(perm, 1 << 19);
    struct textbuf b     = textbuf_new(perm);
    textbuf_fmt(&b, ".TH FRUGAL 1 \"\" \"frugal %s\" \"User Commands\"\n", FRUGAL_VERSION);
    textbuf_fmt(&b, ".SH NAME\nfrugal \\- train models on the hardware at hand and show the bill\n"
                    ".SH SYNOPSIS\n");
    for (i64 i = 0; i < COMMAND_COUNT; i++) {
        textbuf_fmt(&b, "%s\\fBfrugal %.*s\\fR ", i ? ".br\n" : "", STR_ARG(commands[i].name));
        add_roff(&b, commands[i].arguments);
        textbuf_fmt(&b, "\n");
    }
    add_commands(&b);
    for (i64 i = 0; i < topic_count; i++) {
        textbuf_fmt(&b, ".SH \"%.*s\"\n", STR_ARG(topics[i].title));
        add_paragraphs(&b, help_topic_text(&parts, &topics[i]));
    }
    add_settings(&b, &parts);
    return textbuf_str(&b);
}
