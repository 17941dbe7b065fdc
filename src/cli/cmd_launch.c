/* cmd_launch.c - frugal launch --hosts A,B RUN.YAML: the launcher of MPI over ssh, and again where a machine was lost.
 *
 * Nothing here speaks to another machine: mpirun starts its daemons there over ssh, and carries signals and output.
 * Open MPI and MPICH are told the same by other words. */
#include "base/family.h"
#include "cli/commands.h"
#include "ir/collective.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum status command_launch(struct cli *c, struct err *err);

enum { WORDS_MAX = ARGUMENTS_MAX + 32 };

struct words {
    const char *list[WORDS_MAX + 1];
    i64         count;
};

static void add(struct words *w, const char *word)
{
    ASSERT(w->count < WORDS_MAX);
    w->list[w->count++] = word;
}

/* How many processes the hosts are asked for: 1 each, or as many as stands behind the colon. */
static enum status count_of(struct str hosts, i64 *out, struct err *err)
{
    struct str host, name;
    *out = 0;
    while (str_cut(&hosts, ',', &host)) {
        i64        n     = 1;
        struct str slots = host;
        str_cut(&slots, ':', &name);
        bool said = name.len < host.len;
        if (!host.len || !name.len || (said && (!str_i64(slots, &n) || n < 1 || n > RANKS_MAX)))
            return err_set(err, STATUS_USAGE, "--hosts: \"%.*s\" is not a host or HOST:N",
                           (int)MIN(host.len, 60), host.data);
        *out += n;
    }
    return STATUS_OK;
}

static enum status number_of(const struct request *r, i32 flag, i64 least, i64 most, i64 *out,
                             struct err *err)
{
    struct str text = r->value[flag];
    if (!r->given[flag] || (str_i64(text, out) && *out >= least && *out <= most)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "--%.*s=%.*s is not a number from %lld to %lld",
                   STR_ARG(flags[flag].name), (int)MIN(text.len, 40), text.data, (long long)least,
                   (long long)most);
}

/* Which of the two is installed: the launcher that is called mpirun, or by Debian's names. */
static enum status find_launcher(struct cli *c, const char **path, bool *open_mpi, struct err *err)
{
    static const char *const names[] = { "mpirun", "mpirun.openmpi", "mpiexec", "mpirun.mpich" };
    struct str               given   = c->os->env(c->os, "FRUGAL_MPIRUN");
    *path                            = given.len ? str_z(c->perm, given) : NULL;
    for (i64 i = 0; !*path && i < COUNT_OF(names); i++)
        *path = os_find_program(c->os, names[i], c->perm);
    if (!*path)
        return err_set(
            err, STATUS_WORLD,
            "there is no mpirun: install Open MPI or MPICH here and on every host, or name "
            "it in FRUGAL_MPIRUN");
    char        line[256] = { 0 };
    const char *ask       = str_z(c->perm, str_fmt(c->perm, "'%s' --version 2>&1", *path));
    FILE       *says      = popen(ask, "r");
    if (says && !fgets(line, sizeof line, says)) line[0] = 0;
    if (says) pclose(says);
    *open_mpi = strstr(line, "Open MPI") || strstr(line, "OpenRTE") || strstr(line, "PRTE");
    return STATUS_OK;
}

/* Names of this process's environment that the run must see on every host. */
static const char *const passed[] = { "FRUGAL_",        "AWS_",
                                      "GOOGLE_",        "STORAGE_EMULATOR_HOST",
                                      "NCCL_",          "XDG_CACHE_HOME",
                                      "XDG_STATE_HOME", "XDG_CONFIG_HOME" };
extern char            **environ;

static void add_environment(struct cli *c, struct words *w, bool open_mpi)
{
    struct textbuf list = textbuf_new(c->perm);
    for (char **e = environ; *e; e++) {
        struct str rest   = str_of(*e), name;
        bool       wanted = false;
        if (!str_cut(&rest, '=', &name)) continue;
        for (i64 i = 0; i < COUNT_OF(passed); i++) wanted |= str_starts(name, str_of(passed[i]));
        if (!wanted || w->count + 40 > WORDS_MAX) continue;
        if (open_mpi) {
            add(w, "-x");
            add(w, str_z(c->perm, name));
        } else textbuf_fmt(&list, "%s%.*s", list.len ? "," : "", STR_ARG(name));
    }
    if (!list.len) return;
    add(w, "-genvlist");
    add(w, str_z(c->perm, textbuf_str(&list)));
}

static enum status words_of(struct cli *c, struct words *w, struct err *err)
{
    const struct request *r = c->request;
    const char           *path;
    bool                  open_mpi   = false;
    char                  self[4096] = { 0 };
    i64                   ranks      = 0;
    struct str            hosts = r->value[FLAG_hosts], ssh = c->os->env(c->os, "FRUGAL_SSH");
    if (!hosts.len || !r->argument_count)
        return err_set(err, STATUS_USAGE,
                       "expected hosts and a run file: frugal launch --hosts a,b run.yaml");
    enum status st = count_of(hosts, &ranks, err);
    if (!st) st = number_of(r, FLAG_ranks, 1, RANKS_MAX, &ranks, err);
    if (!st) st = find_launcher(c, &path, &open_mpi, err);
    if (st) return st;
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return err_set(err, STATUS_WORLD, "the path of this program cannot be read");
    add(w, path);
    add(w, "-n");
    add(w, str_z(c->perm, str_fmt(c->perm, "%lld", (long long)ranks)));
    add(w, open_mpi ? "--host" : "-hosts");
    add(w, str_z(c->perm, hosts));
    if (open_mpi && !geteuid()) add(w, "--allow-run-as-root");
    if (open_mpi) { /* by itself it binds each of two ranks to one core of its machine */
        add(w, "--bind-to");
        add(w, "none");
    }
    if (ssh.len) {
        add(w, open_mpi ? "--mca" : "-launcher-exec");
        if (open_mpi) add(w, "plm_rsh_agent");
        add(w, str_z(c->perm, ssh));
    }
    add_environment(c, w, open_mpi);
    add(w, self[0] ? str_z(c->perm, str_of(self)) : "frugal");
    add(w, "train");
    if (r->given[FLAG_json]) add(w, "--json");
    for (i64 i = 0; i < r->argument_count; i++) add(w, str_z(c->perm, r->arguments[i]));
    w->list[w->count] = NULL;
    return STATUS_OK;
}

/* Until it has ended. Open MPI's mpirun ends its ranks a second after SIGTERM, whatever they still have to save, and
 * exits with 1; SIGUSR1 it passes on at once, to every host, and waits: FRUGAL_LAUNCHED tells the ranks that this asks
 * them to end. A second signal does not wait for them. */
static enum status run_once(struct cli *c, const struct words *w, i32 *code, bool *stopped,
                            struct err *err)
{
    static const i64  look_ns = (i64)20000000;
    struct family     p       = { 0 };
    struct family_end end     = { 0 };
    i64               asked   = 0;
    os_signals_catch();
    enum status st = family_start(&p, w->list, FAMILY_OUTPUT_OURS, err);
    while (!st && !family_ended(&p, &end)) {
        if (c->os->signal_take(c->os) != OS_SIGNAL_NONE) {
            if (*stopped) family_signal(SIGTERM);
            *stopped = true;
        }
        if (*stopped && !asked) asked = family_signal(SIGUSR1); /* 0: it is not ready for signals */
        c->os->sleep_ns(c->os, look_ns);
    }
    *code = end.code;
    return st;
}

/* Codes above frugal's own are the launcher's: 137 (Open MPI) or 9 (MPICH) where a rank was killed, 205 or 255 where a
 * machine went away. */
static bool is_lost(i32 code) { return code == STATUS_WORLD || code > STATUS_INTERRUPTED; }

enum status command_launch(struct cli *c, struct err *err)
{
    struct words w        = { 0 };
    i64          restarts = 0;
    i32          code     = 0;
    bool         stopped  = false;
    enum status  st       = setenv("FRUGAL_LAUNCHED", "1", 1)
                                ? err_set(err, STATUS_WORLD, "the environment cannot be changed")
                                : words_of(c, &w, err);
    if (!st) st = number_of(c->request, FLAG_restarts, 0, 1000000, &restarts, err);
    for (i64 i = 0; !st; i++) {
        st = run_once(c, &w, &code, &stopped, err);
        if (st || stopped || !is_lost(code) || i >= restarts) break;
        say_message(c->say,
                    "frugal: the run ended with exit code %d; started again (%lld of %lld)\n", code,
                    (long long)i + 1, (long long)restarts);
    }
    if (!st && stopped && code != STATUS_USAGE && code != STATUS_WORLD) return STATUS_INTERRUPTED;
    if (st || !code) return st;
    if (code <= STATUS_INTERRUPTED) return (enum status)code; /* frugal itself has said why */
    return err_set(err, STATUS_WORLD, "%s ended with exit code %d", w.list[0], code);
}
