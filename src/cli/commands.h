/* commands.h - the commands as data (commands.def), and what each is handed. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H
#include "base/os.h"
#include "cli/say.h"
#include "run/clock.h"

enum {
#define FLAG(name, argument, help) FLAG_INDEX_##name,
#include "cli/commands.def"
#undef FLAG
    FLAG_COUNT
};
__extension__ enum { /* wider than an int, which C11 does not have yet */
#define FLAG(name, argument, help) FLAG_##name = (u64)1 << FLAG_INDEX_##name,
#include "cli/commands.def"
#undef FLAG
};

_Static_assert(FLAG_COUNT <= 64, "a request's flags are bits of a u64");

struct flag {
    struct str name; /* without the dashes */
    struct str argument, help;
};

struct request;
struct cli {
    struct os            *os;
    struct say           *say;
    struct arena         *perm;
    const struct request *request;
    struct clock         *clock; /* of the process */
};

struct command {
    struct str name, arguments;
    u64        flags; /* those it takes */
    struct str help, more;
    enum status (*run)(struct cli *c, struct err *err);
};

enum { ARGUMENTS_MAX = 256 };

struct request {
    const struct command *command;
    u64                   flags;
    struct str            value[FLAG_COUNT]; /* of flags that take an argument */
    bool                  wants_help;        /* --help, -h */
    struct str            arguments[ARGUMENTS_MAX];
    i64                   argument_count;
    char *const          *command_line; /* what stands behind `--`, ended by NULL; NULL: nothing */
};

enum {
    COMMAND_COUNT = 0
#define COMMAND(...) +1
#include "cli/commands.def"
#undef COMMAND
};

extern const struct command commands[COMMAND_COUNT];
extern const struct flag    flags[FLAG_COUNT];

const struct command *command_find(struct str name); /* NULL: none */
/* argv without the program's name, ended by NULL. `frugal` alone asks for help with STATUS_USAGE. */
enum status request_parse(char *const *argv, i64 count, struct request *out, struct arena scratch,
                          struct err *err);

#endif
