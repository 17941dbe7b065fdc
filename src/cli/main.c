/* main.c - from argv to an exit code. What a command does is in its cmd_*.c. */
#include "cli/commands.h"
#include "cli/crash.h"
#include "cli/help.h"
#include "job/machine_here.h"
#include "job/meet.h"
#include <unistd.h>

enum { PERM_BYTES = 256 << 20 }; /* address space; only what is touched costs memory */

/* A misspelt FRUGAL_VECTORS would change the kernels in silence; only help runs with one. */
static enum status command_run(struct cli *cli, struct err *err)
{
    enum status st = machine_check(err);
    if (st && !str_eq(cli->request->command->name, STR("help"))) return st;
    return cli->request->command->run(cli, err);
}

/* Memory for plans and lists, that is; a run's own is asked for whole, and refused with a sentence. */
static void no_memory(i64 bytes)
{
    static const char text[] = "the system refuses more memory: raise `ulimit -v`, or the limit of "
                               "this job or container, or "
                               "take a smaller model or batch\n";
    (void)bytes;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(STATUS_WORLD);
    _exit(STATUS_WORLD);
}

int main(int argc, char **argv)
{
    static struct request request; /* 4 KiB that need not lie on the stack */

    meet_adopted();
    arena_on_refusal(no_memory);
    crash_report();
    struct os   *os   = os_real();
    struct say   say  = say_open(os);
    struct arena perm = arena_open(PERM_BYTES);
    struct cli   cli  = { os, &say, &perm, &request, NULL };
    struct err   err  = { 0 }, lost;
    enum status  st;

    if (!perm.begin) {
        err_set(&err, STATUS_WORLD, "the system refuses %d MiB of address space", PERM_BYTES >> 20);
        say_message(&say, "%s\n", err.text);
        return STATUS_WORLD;
    }
    cli.clock = clock_of_process(&perm, os);
    st        = request_parse(argv + 1, argc - 1, &request, perm, &err);
    say.json  = request.given[FLAG_json];
    if (!st && request.wants_help)
        say_wrapped(&say, help_flag(&perm, request.command, say_columns(&say, HELP_COLUMNS)));
    else if (!st) st = command_run(&cli, &err);

    if (os_maps_check(&lost) && st != STATUS_INTERRUPTED) st = lost.status, err = lost;
    if (st && err.text[0]) say_error(&say, &err, perm);
    if (say_close(&say, &err) && !st) {
        st = err.status;
        say_message(&say, "%s\n", err.text);
    }
    arena_close(&perm);
    meet_report((i32)st);
    return (int)st;
}
