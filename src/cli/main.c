/* main.c - from argv to an exit code. What a command does is in its cmd_*.c. */
#include "cli/commands.h"
#include "cli/help.h"

enum { PERM_BYTES = 256 << 20 }; /* address space; only what is touched costs memory */

int main(int argc, char **argv)
{
    static struct request request; /* 4 KiB that need not lie on the stack */

    struct os   *os   = os_real();
    struct say   say  = say_open(os);
    struct arena perm = arena_open(PERM_BYTES);
    struct cli   cli  = { os, &say, &perm, &request };
    struct err   err  = { 0 };
    enum status  st;

    if (!perm.begin) {
        err_set(&err, STATUS_WORLD, "the system refuses %d MiB of address space", PERM_BYTES >> 20);
        say_message(&say, "%s\n", err.text);
        return STATUS_WORLD;
    }
    st       = request_parse(argv + 1, argc - 1, &request, perm, &err);
    say.json = request.flags & FLAG_json;
    if (!st && request.wants_help) say_text(&say, help_command(&perm, request.command));
    else if (!st) st = request.command->run(&cli, &err);

    if (st && err.text[0]) say_error(&say, &err, perm);
    if (say_close(&say, &err) && !st) {
        st = err.status;
        say_message(&say, "%s\n", err.text);
    }
    arena_close(&perm);
    return (int)st;
}
