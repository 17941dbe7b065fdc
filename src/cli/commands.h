/* commands.h - the commands as data (commands.def), and what each is handed. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H
#include "base/os.h"
#include "cli/say.h"
#include "run/clock.h"

enum {
#define FLAG(name, argument, help) FLAG_##name,
#include "cli/commands.def"
#undef FLAG
    FLAG_COUNT
};
enum { COMMAND_FLAGS_MAX = 32 }; /* that one command takes */

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
    i16        flags[COMMAND_FLAGS_MAX]; /* those it takes, ended by FLAG_COUNT */
    struct str help, more;
    enum status (*run)(struct cli *c, struct err *err);
};

enum { ARGUMENTS_MAX = 256 };

struct request {
    const struct command *command;
    bool                  given[FLAG_COUNT];
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
bool                  command_takes(const struct command *c, i64 flag);
/* argv without the program's name, ended by NULL. `frugal` alone asks for help with STATUS_USAGE. */
enum status request_parse(char *const *argv, i64 count, struct request *out, struct arena scratch,
                          struct err *err);

#endif
