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
        if (command_takes(c, f)) textbuf_fmt(b, " --%.*s", STR_ARG(flags[f].name));
}

static void add_keys(struct textbuf *b)
{
    for (i64 i = 0; i < OPTION_COUNT; i++)
        textbuf_fmt(b, "%s%.*s=", i ? " " : "", STR_ARG(options[i].key));
}

/* The words that a setting may be, between blanks; numbers and files are left to the shell. */
static struct str value_words(struct arena *perm, const struct option *o)
{
    struct textbuf b    = textbuf_new(perm);
    struct str     rest = o->allowed, word;
    bool text = o->kind == OPTION_TEXT || o->kind == OPTION_TEXTS || o->kind == OPTION_TREE;
    if (o->kind == OPTION_BOOL) return STR("true false");
    while (!text && str_cut(&rest, '|', &word)) {
        if (str_find(STR("[("), word.data[0]) >= 0) continue;
        textbuf_fmt(&b, "%s%.*s", b.len ? " " : "", STR_ARG(word));
    }
    return textbuf_str(&b);
}

/* Of a flag's argument: "a|b" has two, FILE has none, "TOKEN|none" has one. */
static struct str flag_words(struct arena *perm, const struct flag *f)
{
    struct textbuf b    = textbuf_new(perm);
    struct str     rest = f->argument, word;
    while (str_find(f->argument, '|') >= 0 && str_cut(&rest, '|', &word))
        if (word.data[0] < 'A' || word.data[0] > 'Z')
            textbuf_fmt(&b, "%s%.*s", b.len ? " " : "", STR_ARG(word));
    return textbuf_str(&b);
}

/* One line for each setting, then for each flag, that has words: "PATTERN) BEFORE'WORDS' ;;". A machine's words are
 * those of the catalogue. */
static void add_values(struct textbuf *b, const char *indent, const char *before, const char *after)
{
    char         room[4096];
    struct arena memory = { (u8 *)room, (u8 *)room + sizeof room, NULL };
    for (i64 i = 0; i < OPTION_COUNT + FLAG_COUNT; i++) {
        struct arena here = memory;
        bool         key  = i < OPTION_COUNT;
        struct str   name = key ? options[i].key : flags[i - OPTION_COUNT].name;
        struct str   words =
            key ? value_words(&here, &options[i]) : flag_words(&here, &flags[i - OPTION_COUNT]);
        if (words.len)
            textbuf_fmt(b, "%s%s%.*s) %s%.*s%s ;;\n", indent, key ? "" : "--", STR_ARG(name),
                        before, STR_ARG(words), after);
    }
    textbuf_fmt(b, "%srun.machine) %s", indent, before);
    completion_names(b, COMPLETE_CLOUD_MACHINES);
    textbuf_fmt(b, "%s ;;\n", after);
}

/* Ids and names of recorded runs. */
static const char run_names[] =
    "frugal runs --csv 2>/dev/null | cut -d, -f1,2 | tail -n +2 | tr , '\\n'";

static bool takes_runs(const struct command *c)
{
    bool file = str_starts(c->arguments, STR("[RUN.YAML"));
    return (str_starts(c->arguments, STR("[RUN")) && !file) ||
           str_starts(c->arguments, STR("MODEL")) || str_eq(c->name, STR("runs"));
}

static bool takes_keys(const struct command *c)
{
    return str_glob(STR("*KEY=VALUE*"), c->arguments);
}

/* Flags whose value is a name. */
static const struct {
    const char     *flag;
    enum completion names;
} named[] = { { "machine", COMPLETE_MACHINES },
              { "on", COMPLETE_CLOUDS },
              { "region", COMPLETE_REGIONS },
              { "gpu", COMPLETE_GPUS } };

/* --machine takes a name with its cloud too. */
static void add_named(struct textbuf *b, i64 i)
{
    completion_names(b, named[i].names);
    if (named[i].names != COMPLETE_MACHINES) return;
    textbuf_fmt(b, " ");
    completion_names(b, COMPLETE_CLOUD_MACHINES);
}

static bool has_first(const struct command *c)
{
    return str_eq(c->name, STR("plan")) || str_eq(c->name, STR("prices")) ||
           str_eq(c->name, STR("checkpoints"));
}

/* What a command's first argument may be, beside a file. */
static void add_first(struct textbuf *b, const struct command *c)
{
    if (str_eq(c->name, STR("plan"))) completion_names(b, COMPLETE_MODELS);
    if (str_eq(c->name, STR("checkpoints")))
        textbuf_fmt(b, "list verify show prune copy restore lifecycle");
    if (!str_eq(c->name, STR("prices"))) return;
    textbuf_fmt(b, "gpus cpus storage billing import ");
    completion_names(b, COMPLETE_MACHINES);
}

static void bash(struct textbuf *b)
{
    textbuf_fmt(b, "_frugal() {\n"
                   "    case \" ${COMP_WORDS[*]:0:COMP_CWORD} \" in *' -- '*) return ;; esac # of "
                   "another program\n"
                   "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} key= "
                   "before= words=\n"
                   "    case $cur in ?*=*) key=${cur%%%%=*} before=$key= cur=${cur#*=} ;; esac\n"
                   "    [ \"$cur\" = = ] && key=$prev cur=\n"
                   "    [ \"$prev\" = = ] && key=${COMP_WORDS[COMP_CWORD-2]}\n"
                   "    case $prev in --*) key=$prev ;; esac\n"
                   "    case $key in\n");
    add_values(b, "    ", "words='", "'");
    for (i64 i = 0; i < COUNT_OF(named); i++) {
        textbuf_fmt(b, "    --%s) words='", named[i].flag);
        add_named(b, i);
        textbuf_fmt(b, "' ;;\n");
    }
    textbuf_fmt(
        b,
        "    --export) words=$(%s) ;;\n"
        "    esac\n"
        "    if [ -n \"$words\" ]; then\n"
        "        COMPREPLY=($(compgen -P \"$before\" -W \"$words\" -- \"$cur\"))\n"
        "        return\n"
        "    fi\n"
        "    [ \"${key#--}\" != \"$key\" ] || [ -z \"$key\" ] || return # a file, or a number\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        words='",
        run_names);
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
        if (takes_runs(&commands[i])) textbuf_fmt(b, "'$(%s)'", run_names);
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
                   "    if [[ $PREFIX == ?*=* ]]; then\n"
                   "        local key=${PREFIX%%%%=*}\n"
                   "        compset -P '*='\n"
                   "        case $key in\n");
    add_values(b, "        ", "compadd -- ", "");
    textbuf_fmt(b, "        *) _files ;;\n"
                   "        esac\n"
                   "        return\n"
                   "    fi\n"
                   "    case $words[CURRENT-1] in\n");
    add_values(b, "    ", "compadd -- ", "; return");
    textbuf_fmt(b, "    esac\n"
                   "    if (( CURRENT == 2 )); then\n"
                   "        compadd -- --help --version ");
    add_words(b);
    textbuf_fmt(b, "\n        return\n    fi\n    case $words[CURRENT-1] in\n");
    for (i64 i = 0; i < COUNT_OF(named); i++) {
        textbuf_fmt(b, "    --%s) compadd -- ", named[i].flag);
        add_named(b, i);
        textbuf_fmt(b, "; return ;;\n");
    }
    textbuf_fmt(b, "    --export) compadd -- ${(f)\"$(%s)\"}; return ;;\n", run_names);
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
        if (has_first(&commands[i])) {
            textbuf_fmt(b, "\n        compadd -- ");
            add_first(b, &commands[i]);
        }
        if (takes_runs(&commands[i]))
            textbuf_fmt(b, "\n        compadd -- ${(f)\"$(%s)\"}", run_names);
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

/* -l NAME with the words that its value may be; -r: a value that nobody knows. */
static void fish_flag(struct textbuf *b, const struct command *c, const struct flag *f)
{
    char         room[1024];
    struct arena memory = { (u8 *)room, (u8 *)room + sizeof room, NULL };
    struct str   words  = flag_words(&memory, f);
    i64          i      = 0;
    while (i < COUNT_OF(named) && !str_eq(f->name, str_of(named[i].flag))) i++;
    textbuf_fmt(b, "complete -c frugal -n '__fish_seen_subcommand_from %.*s' -l %.*s",
                STR_ARG(c->name), STR_ARG(f->name));
    if (i < COUNT_OF(named)) {
        textbuf_fmt(b, " -x -a '");
        add_named(b, i);
        textbuf_fmt(b, "'");
    } else if (str_eq(f->name, STR("export"))) textbuf_fmt(b, " -x -a \"(%s)\"", run_names);
    else if (words.len) textbuf_fmt(b, " -x -a '%.*s'", STR_ARG(words));
    else if (f->argument.len) textbuf_fmt(b, " -r");
    textbuf_fmt(b, " -d ");
    add_quoted(b, f->help);
    textbuf_fmt(b, "\n");
}

static void fish_first(struct textbuf *b, const struct command *c)
{
    if (!has_first(c)) return;
    textbuf_fmt(b, "complete -c frugal -n '__fish_seen_subcommand_from %.*s' -a '",
                STR_ARG(c->name));
    add_first(b, c);
    textbuf_fmt(b, "'\n");
}

/* KEY=, and KEY=VALUE for each word that it may be. */
static void fish_option(struct textbuf *b, const struct command *c, const struct option *o,
                        bool helps)
{
    char         room[1024];
    struct arena memory = { (u8 *)room, (u8 *)room + sizeof room, NULL };
    struct str   rest   = value_words(&memory, o), word;
    fish_row(b, c->name, "-a", o->key, helps ? "" : "=", o->help);
    while (!helps && rest.len && str_cut(&rest, ' ', &word)) {
        struct arena here = memory;
        fish_row(b, c->name, "-a", o->key, str_z(&here, str_cat(&here, STR("="), word)), o->help);
    }
}

static void fish_machines(struct textbuf *b, const struct command *c)
{
    struct arena   scratch = arena_part(b->perm, 1 << 20);
    struct textbuf names   = textbuf_new(&scratch);
    struct str     rest, word;
    completion_names(&names, COMPLETE_CLOUD_MACHINES);
    rest = textbuf_str(&names);
    textbuf_fmt(b, "complete -c frugal -n '__fish_seen_subcommand_from %.*s' -a '",
                STR_ARG(c->name));
    while (str_cut(&rest, ' ', &word))
        textbuf_fmt(b, "run.machine=%.*s%s", STR_ARG(word), rest.len ? " " : "'\n");
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
            if (command_takes(c, f)) fish_flag(b, c, &flags[f]);
        fish_first(b, c);
        if (takes_runs(c))
            textbuf_fmt(b, "complete -c frugal -n '__fish_seen_subcommand_from %.*s' -a \"(%s)\"\n",
                        STR_ARG(c->name), run_names);
        bool helps = str_eq(c->name, STR("help"));
        for (i64 o = 0; o < OPTION_COUNT && (helps || takes_keys(c)); o++)
            fish_option(b, c, &options[o], helps);
        if (takes_keys(c)) fish_machines(b, c);
        for (i64 t = 0; t < topic_count && helps; t++)
            fish_row(b, c->name, "-a", topics[t].name, "", topics[t].help);
        for (i64 k = 0; k < COMMAND_COUNT && helps; k++)
            fish_row(b, c->name, "-a", commands[k].name, "", commands[k].help);
        if (helps) fish_row(b, c->name, "-a", STR("options"), "", STR("every setting of a run"));
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
