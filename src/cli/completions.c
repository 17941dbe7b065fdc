/* completions.c - what the Tab key offers in bash, zsh and fish, from the tables. */
#include "cli/help.h"

static void add_words(struct textbuf *b) /* commands, between blanks */
{
    for (i64 i = 0; i < COMMAND_COUNT; i++)
        textbuf_fmt(b, "%s%.*s", i ? " " : "", STR_ARG(commands[i].name));
}

static void add_topics(struct textbuf *b) /* all that `frugal help` knows */
{
    add_words(b);
    textbuf_fmt(b, " options");
    for (i64 i = 0; i < topic_count; i++) textbuf_fmt(b, " %.*s", STR_ARG(topics[i].name));
    for (i64 i = 0; i < OPTION_COUNT; i++) textbuf_fmt(b, " %.*s", STR_ARG(options[i].key));
}

/* The flags a command takes, with their dashes. */
static void add_flags(struct textbuf *b, const struct command *c)
{
    textbuf_fmt(b, "--help");
    for (i64 f = 0; f < FLAG_COUNT; f++)
        if (c->flags & ((u64)1 << f)) textbuf_fmt(b, " --%.*s", STR_ARG(flags[f].name));
}

static void add_keys(struct textbuf *b)
{
    for (i64 i = 0; i < OPTION_COUNT; i++)
        textbuf_fmt(b, "%s%.*s=", i ? " " : "", STR_ARG(options[i].key));
}

static bool takes_keys(const struct command *c)
{
    return str_starts(c->arguments, STR("RUN.YAML"));
}

/* Flags whose value is a name. */
static const struct {
    const char     *flag;
    enum completion names;
} named[] = { { "machine", COMPLETE_MACHINES },
              { "on", COMPLETE_CLOUDS },
              { "region", COMPLETE_REGIONS },
              { "gpu", COMPLETE_GPUS } };

/* What a command's first argument may be, beside a file. */
static void add_first(struct textbuf *b, const struct command *c)
{
    if (str_eq(c->name, STR("plan"))) completion_names(b, COMPLETE_MODELS);
    if (!str_eq(c->name, STR("prices"))) return;
    textbuf_fmt(b, "gpus cpus storage billing import ");
    completion_names(b, COMPLETE_MACHINES);
}

static void bash(struct textbuf *b)
{
    textbuf_fmt(b, "_frugal() {\n"
                   "    local cur=${COMP_WORDS[COMP_CWORD]} words=\n"
                   "    case ${COMP_WORDS[COMP_CWORD-1]} in\n");
    for (i64 i = 0; i < COUNT_OF(named); i++) {
        textbuf_fmt(b, "    --%s) words='", named[i].flag);
        completion_names(b, named[i].names);
        textbuf_fmt(b, "'; COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); return ;;\n");
    }
    textbuf_fmt(b, "    esac\n"
                   "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                   "        words='");
    add_words(b);
    textbuf_fmt(b, " --help --version'\n    else\n        case ${COMP_WORDS[1]} in\n");
    for (i64 i = 0; i < COMMAND_COUNT; i++) {
        textbuf_fmt(b, "        %.*s) words='", STR_ARG(commands[i].name));
        add_flags(b, &commands[i]);
        textbuf_fmt(b, " ");
        if (takes_keys(&commands[i])) add_keys(b);
        if (str_eq(commands[i].name, STR("help"))) add_topics(b);
        textbuf_fmt(b, " ");
        add_first(b, &commands[i]);
        textbuf_fmt(b, "' ;;\n");
    }
    textbuf_fmt(b, "        esac\n"
                   "    fi\n"
                   "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                   "    case ${COMPREPLY[0]} in *=) compopt -o nospace ;; esac\n"
                   "}\n"
                   "complete -o default -F _frugal frugal\n");
}

static void zsh(struct textbuf *b)
{
    textbuf_fmt(b, "#compdef frugal\n"
                   "_frugal() {\n"
                   "    if (( CURRENT == 2 )); then\n"
                   "        compadd -- --help --version ");
    add_words(b);
    textbuf_fmt(b, "\n        return\n    fi\n    case $words[CURRENT-1] in\n");
    for (i64 i = 0; i < COUNT_OF(named); i++) {
        textbuf_fmt(b, "    --%s) compadd -- ", named[i].flag);
        completion_names(b, named[i].names);
        textbuf_fmt(b, "; return ;;\n");
    }
    textbuf_fmt(b, "    esac\n    case $words[2] in\n");
    for (i64 i = 0; i < COMMAND_COUNT; i++) {
        textbuf_fmt(b, "    %.*s)\n        compadd -- ", STR_ARG(commands[i].name));
        add_flags(b, &commands[i]);
        if (takes_keys(&commands[i])) {
            textbuf_fmt(b, "\n        compadd -S '' -- ");
            add_keys(b);
        }
        if (str_eq(commands[i].name, STR("help"))) {
            textbuf_fmt(b, "\n        compadd -- ");
            add_topics(b);
        }
        if (str_eq(commands[i].name, STR("plan")) || str_eq(commands[i].name, STR("prices"))) {
            textbuf_fmt(b, "\n        compadd -- ");
            add_first(b, &commands[i]);
        }
        if (commands[i].arguments.len) textbuf_fmt(b, "\n        _files");
        textbuf_fmt(b, " ;;\n");
    }
    textbuf_fmt(b, "    esac\n}\n_frugal \"$@\"\n");
}

static void add_quoted(struct textbuf *b, struct str s) /* as fish reads it */
{
    textbuf_fmt(b, "'");
    for (i64 i = 0; i < s.len; i++)
        textbuf_fmt(b, s.data[i] == '\'' || s.data[i] == '\\' ? "\\%c" : "%c", s.data[i]);
    textbuf_fmt(b, "'");
}

static void fish_row(struct textbuf *b, struct str command, const char *what, struct str word,
                     const char *after, struct str help)
{
    textbuf_fmt(b, "complete -c frugal -n '__fish_seen_subcommand_from %.*s' %s %.*s%s -d ",
                STR_ARG(command), what, STR_ARG(word), after);
    add_quoted(b, help);
    textbuf_fmt(b, "\n");
}

static void fish_names(struct textbuf *b, const struct command *c)
{
    for (i64 i = 0; i < COUNT_OF(named); i++) {
        for (i64 f = 0; f < FLAG_COUNT; f++) {
            if (!str_eq(flags[f].name, str_of(named[i].flag)) || !(c->flags & (u64)1 << f))
                continue;
            textbuf_fmt(b, "complete -c frugal -n '__fish_seen_subcommand_from %.*s' -l %s -x -a '",
                        STR_ARG(c->name), named[i].flag);
            completion_names(b, named[i].names);
            textbuf_fmt(b, "'\n");
        }
    }
    if (!str_eq(c->name, STR("plan")) && !str_eq(c->name, STR("prices"))) return;
    textbuf_fmt(b, "complete -c frugal -n '__fish_seen_subcommand_from %.*s' -a '",
                STR_ARG(c->name));
    add_first(b, c);
    textbuf_fmt(b, "'\n");
}

static void fish(struct textbuf *b)
{
    for (i64 i = 0; i < COMMAND_COUNT; i++) {
        const struct command *c = &commands[i];
        textbuf_fmt(b, "complete -c frugal -f -n __fish_use_subcommand -a %.*s -d ",
                    STR_ARG(c->name));
        add_quoted(b, c->help);
        textbuf_fmt(b, "\n");
        for (i64 f = 0; f < FLAG_COUNT; f++)
            if (c->flags & ((u64)1 << f))
                fish_row(b, c->name, "-l", flags[f].name, "", flags[f].help);
        fish_names(b, c);
        bool helps = str_eq(c->name, STR("help"));
        for (i64 o = 0; o < OPTION_COUNT && (helps || takes_keys(c)); o++)
            fish_row(b, c->name, "-a", options[o].key, helps ? "" : "=", options[o].help);
        for (i64 t = 0; t < topic_count && helps; t++)
            fish_row(b, c->name, "-a", topics[t].name, "", topics[t].help);
    }
}

struct str help_completions(struct arena *perm, struct str shell)
{
    static const struct {
        const char *name;
        void (*write)(struct textbuf *);
    } shells[]       = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0; i < COUNT_OF(shells); i++)
        if (str_eq(str_of(shells[i].name), shell)) shells[i].write(&b);
    return textbuf_str(&b);
}
