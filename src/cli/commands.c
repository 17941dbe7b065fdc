/* commands.c - the table of commands, and reading the command line against it. */
#include "cli/commands.h"

#define COMMAND(name, ...) enum status command_##name(struct cli *c, struct err *err);
#include "cli/commands.def"
#undef COMMAND

#define LIST(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__, FLAG_COUNT                                                                    \
    }
const struct command commands[COMMAND_COUNT] = {
#define COMMAND(name, arguments, flags, help, more)                                                \
    { STR_INIT(#name), STR_INIT(arguments), LIST flags,                                            \
      STR_INIT(help),  STR_INIT(more),      command_##name },
#include "cli/commands.def"
#undef COMMAND
};
#undef LIST

const struct flag flags[FLAG_COUNT] = {
#define FLAG(name, argument, help) { STR_INIT(#name), STR_INIT(argument), STR_INIT(help) },
#include "cli/commands.def"
#undef FLAG
};

const struct command *command_find(struct str name)
{
    for (i64 i = 0; i < COMMAND_COUNT; i++)
        if (str_eq(commands[i].name, name)) return &commands[i];
    return NULL;
}

bool command_takes(const struct command *c, i64 flag)
{
    for (i64 i = 0; c->flags[i] != FLAG_COUNT; i++)
        if (c->flags[i] == flag) return true;
    return false;
}

static enum status unknown_command(struct str name, struct arena scratch, struct err *err)
{
    const struct command *best   = NULL;
    i64                   best_d = 3; /* a slip of the finger or two */
    for (i64 i = 0; i < COMMAND_COUNT && name.len < 32; i++) {
        i64 d = str_distance(commands[i].name, name, scratch);
        if (d < best_d) {
            best   = &commands[i];
            best_d = d;
        }
    }
    int len = (int)MIN(name.len, 80);
    if (best)
        return err_set(err, STATUS_USAGE, "there is no command %.*s; did you mean %.*s?", len,
                       name.data, STR_ARG(best->name));
    return err_set(err, STATUS_USAGE, "there is no command %.*s; `frugal help` lists them", len,
                   name.data);
}

static bool takes_command_line(const struct command *c)
{
    struct str rest = c->arguments, word;
    while (str_cut(&rest, ' ', &word))
        if (str_eq(word, STR("--"))) return true;
    return false;
}

/* --shard-bytes is --shard_bytes. */
static bool is_flag(struct str flag, struct str name)
{
    if (flag.len != name.len) return false;
    for (i64 i = 0; i < flag.len; i++)
        if (flag.data[i] != (name.data[i] == '-' ? '_' : name.data[i])) return false;
    return true;
}

/* --name, --name=value or --name value; moves *i past the value. */
static enum status flag_parse(char *const *argv, i64 count, i64 *i, struct request *r,
                              struct err *err)
{
    struct str name = str_of(argv[*i] + 2), value = { 0 };
    i64        equals = str_find(name, '=');
    if (equals >= 0) {
        value = str_sub(name, equals + 1, name.len);
        name  = str_sub(name, 0, equals);
    }
    for (i64 f = 0; f < FLAG_COUNT; f++) {
        if (!is_flag(flags[f].name, name) || !command_takes(r->command, f)) continue;
        bool takes = flags[f].argument.len > 0;
        if (takes && !value.data && *i + 1 < count) value = str_of(argv[++*i]);
        if (takes != (value.data != NULL))
            return err_set(err, STATUS_USAGE, "--%.*s %s%.*s", STR_ARG(name),
                           !takes                                  ? "takes no value"
                           : str_find(flags[f].argument, '|') >= 0 ? "takes one of "
                                                                   : "needs a value: ",
                           STR_ARG(flags[f].argument));
        r->given[f] = true;
        r->value[f] = value;
        return STATUS_OK;
    }
    return err_set(err, STATUS_USAGE, "frugal %.*s has no flag --%.*s; see `frugal help %.*s`",
                   STR_ARG(r->command->name), (int)MIN(name.len, 80), name.data,
                   STR_ARG(r->command->name));
}

enum status request_parse(char *const *argv, i64 count, struct request *out, struct arena scratch,
                          struct err *err)
{
    *out = (struct request){ .command = command_find(STR("help")) };
    if (count == 0) return STATUS_OK; /* help, as git, docker and cargo do */

    struct str first = str_of(argv[0]);
    if (str_eq(first, STR("--version"))) first = STR("version");
    if (str_eq(first, STR("--help")) || str_eq(first, STR("-h"))) first = STR("help");
    out->command = command_find(first);
    if (!out->command) return unknown_command(first, scratch, err);

    for (i64 i = 1; i < count; i++) {
        struct str a = str_of(argv[i]);
        if (str_eq(a, STR("--help")) || str_eq(a, STR("-h"))) {
            out->wants_help = true;
        } else if (str_eq(a, STR("--")) && takes_command_line(out->command)) {
            out->command_line = argv + i + 1;
            break;
        } else if (str_starts(a, STR("-")) && a.len > 1) {
            if (!str_starts(a, STR("--")))
                return err_set(err, STATUS_USAGE, "there is no flag %.*s; see `frugal help %.*s`",
                               (int)MIN(a.len, 80), a.data, STR_ARG(out->command->name));
            enum status st = flag_parse(argv, count, &i, out, err);
            if (st) return st;
        } else if (out->argument_count == ARGUMENTS_MAX) {
            return err_set(err, STATUS_USAGE, "more than %d arguments", ARGUMENTS_MAX);
        } else {
            out->arguments[out->argument_count++] = a;
        }
    }
    return STATUS_OK;
}
