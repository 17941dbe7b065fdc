/* meet.c - mpiexec.hydra and hydra_pmi_proxy, started and waited for; and what the rank beneath them says to us. */
#include "job/meet.h"
#include "ir/collective.h"
#include "run/clock.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Descriptors of the streams that a rank takes over, and of the pipe by which it reports its pid and its exit code. */
static const char streams_name[] = "FRUGAL_RANK_STREAMS";

enum { WORDS_MAX = 1024, COMMAND_MAX = 1 << 17, PATH_MAX_BYTES = 4096 };
static const i64 look_ns = (i64)10000000, again_ns = (i64)200000000, end_ns = (i64)500000000,
                 second_ns = (i64)1000000000;

/* --- in the rank --- */

static int report_fd = -1;

/* What belongs to the processes above: the port is MPICH's own, not one for its ranks; and other launchers', which may
 * have started torchrun. */
static void forget_the_start(void)
{
    static const char *const names[] = { streams_name,           "MPIEXEC_PORT_RANGE",
                                         "MASTER_ADDR",          "SLURM_PROCID",
                                         "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE",
                                         "OMPI_COMM_WORLD_RANK" };
    for (i64 i = 0; i < COUNT_OF(names); i++) unsetenv(names[i]);
}

void meet_adopted(void)
{
    const char *text = getenv(streams_name);
    int         out, err;
    i32         pid = (i32)getpid();
    if (!text || sscanf(text, "%d,%d,%d", &out, &err, &report_fd) != 3) return;
    forget_the_start();
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out);
    close(err);
    fcntl(report_fd, F_SETFD, FD_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* without a parent it is lost to who started it: it saves */
    if (write(report_fd, &pid, sizeof pid) < 0) _exit(STATUS_WORLD);
}

void meet_report(i32 code)
{
    if (report_fd >= 0 && write(report_fd, &code, sizeof code) < 0)
        return; /* nobody is left to hear it */
}

/* --- above it --- */

struct meeting {
    struct os  *os;
    i32         rank, count;
    i64         port, limit_ns;
    const char *launcher;              /* path of mpiexec.hydra */
    const char *proxy[WORDS_MAX];      /* its command */
    const char *server[WORDS_MAX];     /* rank 0's: the launcher's */
    int         reports;               /* the pipe's end */
    pid_t       proxy_pid, server_pid; /* 0: does not run */
    i32         rank_pid, code;        /* 0: not started; -1: not known */
    bool        interrupted;           /* by Ctrl-C, once */
};

static bool number_of(struct os *os, const char *name, i64 *out)
{
    struct str text = os->env(os, name);
    return text.len && str_i64(text, out);
}

/* A job of Slurm may have started torchrun, and announces itself too: then torchrun is the nearer. */
static bool is_nearest(struct os *os)
{
    static const char *const others[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                          "SLURM_STEP_NUM_TASKS" };
    i64                      n        = 0;
    if (os->env(os, "TORCHELASTIC_RUN_ID").len) return true;
    for (i64 i = 0; i < COUNT_OF(others); i++)
        if (number_of(os, others[i], &n) && n > 1) return false;
    return true;
}

bool meet_announced(struct os *os, i32 *rank, i32 *count)
{
    i64 at, n;
    if (!os->env(os, "MASTER_ADDR").len || !number_of(os, "RANK", &at)) return false;
    if (!number_of(os, "WORLD_SIZE", &n) || n <= 1 || at < 0 || at >= n) return false;
    if (!is_nearest(os)) return false;
    *rank  = (i32)MIN(at, INT32_MAX);
    *count = (i32)MIN(n, INT32_MAX);
    return true;
}

/* torchrun itself listens on MASTER_PORT where it says so: then the next one. */
static enum status port_of(struct meeting *m, struct err *err)
{
    bool taken = str_eq(m->os->env(m->os, "TORCHELASTIC_USE_AGENT_STORE"), STR("True"));
    if (!number_of(m->os, "MASTER_PORT", &m->port) || m->port < 1 || m->port + taken > 65535)
        return err_set(err, STATUS_USAGE,
                       "MASTER_PORT=%.*s is not a port that %d ranks can meet at",
                       STR_ARG(m->os->env(m->os, "MASTER_PORT")), m->count);
    m->port += taken;
    return STATUS_OK;
}

/* The launcher would end without a word. */
static enum status check_port(const struct meeting *m, struct err *err)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((u16)m->port) };
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    bool               busy = false;
    if (fd < 0) return STATUS_OK;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* of a run that has just ended */
    busy = bind(fd, (struct sockaddr *)&at, sizeof at) && errno == EADDRINUSE;
    close(fd);
    if (!busy) return STATUS_OK;
    return err_set(err, STATUS_WORLD,
                   "port %lld, at which the ranks would meet (MASTER_PORT), is in use on this "
                   "machine: free it or set another MASTER_PORT",
                   (long long)m->port);
}

static const char *find_launcher(struct os *os, struct arena *perm)
{
    static const char *const names[] = { "mpiexec.hydra", "mpiexec.mpich" };
    for (i64 i = 0; i < COUNT_OF(names); i++) {
        const char *path = os_find_program(os, names[i], perm);
        if (path) return path;
    }
    return NULL;
}

/* What the launcher would run on a host: its arguments differ by version, so it is asked for them, and ended. */
static struct str ask_launcher(const struct meeting *m, struct arena *perm)
{
    static const i64 limit_ns = (i64)10000000000;
    struct str       said, line;
    const char      *ask = str_z(
             perm, str_fmt(perm,
                           "env -i LD_LIBRARY_PATH=\"$LD_LIBRARY_PATH\" '%s' -launcher manual -hosts a "
                                "-n 1 true 2>/dev/null | { read -r line; echo \"$line\"; kill -KILL 0; }",
                           m->launcher));
    os_output_of(ask, limit_ns, COMMAND_MAX, perm, &said,
                 NULL); /* it was killed: what it said counts */
    if (!str_cut(&said, '\n', &line) || !str_starts(line, STR("HYDRA_LAUNCH: ")))
        return (struct str){ 0 };
    return str_sub(line, STR("HYDRA_LAUNCH: ").len, line.len);
}

static enum status proxy_of(struct meeting *m, struct arena *perm, struct err *err)
{
    struct str  rest   = ask_launcher(m, perm), word;
    const char *before = "";
    i64         count  = 0;
    while (count < WORDS_MAX - 1 && str_cut(&rest, ' ', &word)) {
        if (!word.len) continue;
        if (!strcmp(before, "--control-port"))
            word = str_fmt(perm, "%.*s:%lld", STR_ARG(m->os->env(m->os, "MASTER_ADDR")),
                           (long long)m->port);
        if (!strcmp(before, "--proxy-id")) word = str_fmt(perm, "%d", m->rank);
        before = m->proxy[count++] = str_z(perm, word);
    }
    if (count) return STATUS_OK;
    return err_set(err, STATUS_WORLD,
                   "%s does not start as MPICH's launcher does: install MPICH 4 or later, or start "
                   "the ranks with mpirun",
                   m->launcher);
}

/* Of this very command, a rank a host: each is started by the process that stands for it. */
static enum status server_of(struct meeting *m, struct arena *perm, struct err *err)
{
    static const char *const first[] = { "-launcher", "manual", "-disable-hostname-propagation",
                                         "-hosts" };
    struct textbuf           hosts   = textbuf_new(perm);
    char      *own = NEW(perm, char, COMMAND_MAX), *self = NEW(perm, char, PATH_MAX_BYTES);
    struct str rest  = os_proc_text(STR("/proc/self/cmdline"), own, COMMAND_MAX), word;
    i64        count = 0;
    for (i32 i = 0; i < m->count; i++) textbuf_fmt(&hosts, "%srank%d", i ? "," : "", i);
    m->server[count++] = m->launcher;
    for (i64 i = 0; i < COUNT_OF(first); i++) m->server[count++] = first[i];
    m->server[count++] = str_z(perm, textbuf_str(&hosts));
    m->server[count++] = "-n";
    m->server[count++] = str_z(perm, str_fmt(perm, "%d", m->count));
    if (readlink("/proc/self/exe", self, PATH_MAX_BYTES - 1) < 0)
        return err_set(err, STATUS_WORLD, "the path of this program cannot be read");
    m->server[count++] = self;
    str_cut(&rest, '\0', &word); /* the name by which it was called */
    while (rest.len && count < WORDS_MAX - 1) {
        str_cut(&rest, '\0', &word);
        m->server[count++] = str_z(perm, word);
    }
    return rest.len ? err_set(err, STATUS_USAGE, "the command has too many words for ranks")
                    : STATUS_OK;
}

/* --- processes --- */

static pid_t start(const char *const *argv, char *const *environment)
{
    struct sigaction plain  = { .sa_handler = SIG_DFL };
    pid_t            parent = getpid(), pid = fork();
    if (pid) return pid < 0 ? 0 : pid;
    setpgid(0, 0); /* Ctrl-C reaches us, and we hand it on, once */
    sigaction(SIGPIPE, &plain, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int none = open("/dev/null", O_RDWR);
    if (getppid() != parent || none < 0) _exit(STATUS_WORLD);
    for (int i = 0; i <= STDERR_FILENO; i++) dup2(none, i);
    execve(argv[0], (char *const *)(uintptr_t)argv, environment);
    _exit(127);
}

/* Its environment would go to all ranks, over their own. */
static void start_server(struct meeting *m, struct arena *perm)
{
    struct str  libraries = m->os->env(m->os, "LD_LIBRARY_PATH");
    const char *range     = str_z(perm, str_fmt(perm, "MPIEXEC_PORT_RANGE=%lld:%lld",
                                                (long long)m->port, (long long)m->port));
    const char *path      = str_z(perm, str_fmt(perm, "LD_LIBRARY_PATH=%.*s", STR_ARG(libraries)));
    const char *all[]     = { range, libraries.len ? path : NULL, NULL };
    m->server_pid         = start(m->server, (char *const *)(uintptr_t)all);
}

static enum status open_reports(struct meeting *m, struct err *err)
{
    int  ends[2], out = dup(STDOUT_FILENO), errors = dup(STDERR_FILENO);
    char text[64];
    if (out < 0 || errors < 0 || pipe(ends))
        return err_set(err, STATUS_WORLD, "cannot open a pipe: %s", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    snprintf(text, sizeof text, "%d,%d,%d", out, errors, ends[1]);
    setenv(streams_name, text, 1);
    m->reports = ends[0];
    return STATUS_OK;
}

static void take_reports(struct meeting *m)
{
    i32 word;
    while (read(m->reports, &word, sizeof word) == sizeof word)
        if (!m->rank_pid) m->rank_pid = word;
        else m->code = word;
}

static void bury(pid_t *pid)
{
    if (*pid && waitpid(*pid, NULL, WNOHANG) == *pid) *pid = 0;
}

static void end_processes(struct meeting *m)
{
    if (m->proxy_pid) kill(m->proxy_pid, SIGKILL);
    if (m->server_pid) kill(m->server_pid, SIGKILL);
}

static struct meeting *of_handler; /* the one that a second Ctrl-C ends */
/* In a handler of signals. The rank is ended first: it would be asked to save when its proxy is gone. One whose pid we
 * have not read yet finds the pipe closed. */
static void end_at_once(void)
{
    take_reports(of_handler);
    if (of_handler->rank_pid > 0 && of_handler->code < 0) kill(of_handler->rank_pid, SIGKILL);
    end_processes(of_handler);
}

/* --- waiting --- */

/* False: there is no rank yet that could take it. */
static bool hand_on(const struct meeting *m, enum os_signal s)
{
    static const int numbers[OS_SIGNAL_COUNT] = { [OS_SIGNAL_INT]  = SIGINT,
                                                  [OS_SIGNAL_TERM] = SIGTERM,
                                                  [OS_SIGNAL_HUP]  = SIGHUP,
                                                  [OS_SIGNAL_USR1] = SIGUSR1 };
    if (!numbers[s]) return true;
    return m->rank_pid > 0 && !kill(m->rank_pid, numbers[s]);
}

/* Rank 0 speaks; where it is the one that does not come, rank 1 does, a second later (cli/late.c). */
static enum status late(const struct meeting *m, struct err *err)
{
    if (m->rank > 1) return STATUS_WORLD;
    return err_set(err, STATUS_WORLD,
                   "another rank has not come for %.0f s (train.join_s), so all %d end",
                   (f64)m->limit_ns * 1e-9, m->count);
}

/* What has happened since the last look; false: a signal came that no rank could take. */
static bool look(struct meeting *m)
{
    m->os->sleep_ns(m->os, look_ns);
    bury(&m->proxy_pid);
    bury(&m->server_pid);
    take_reports(m);
    enum os_signal s = m->os->signal_take(m->os);
    m->interrupted |= s == OS_SIGNAL_INT;
    return hand_on(m, s);
}

/* Until the rank runs. A proxy that finds nobody at the address ends, and is started again. */
static enum status wait_for_rank(struct meeting *m, struct err *err)
{
    struct deadline late_at = deadline_in(m->os, m->limit_ns + MIN(m->rank, 2) * second_ns);
    struct deadline again   = deadline_in(m->os, 0);
    while (!m->rank_pid) {
        if (!m->proxy_pid && !deadline_left_ns(&again)) {
            m->proxy_pid = start(m->proxy, environ);
            again        = deadline_in(m->os, again_ns);
        }
        if (!look(m)) return STATUS_INTERRUPTED;
        if (!m->rank && !m->server_pid)
            return err_set(err, STATUS_WORLD, "%s ended before the ranks had met", m->launcher);
        if (!deadline_left_ns(&late_at)) return late(m, err);
    }
    return STATUS_OK;
}

/* Until it is over for all: the proxy stays until the last of the ranks has ended. Where one has failed they have a
 * moment to end by themselves; those that still wait to meet it end with the launcher. */
static enum status wait_for_end(struct meeting *m, struct err *err)
{
    struct deadline end = deadline_in(m->os, end_ns);
    while ((m->proxy_pid || m->server_pid) && deadline_left_ns(&end)) {
        (void)look(m);
        if (m->proxy_pid && m->code != STATUS_WORLD) end = deadline_in(m->os, end_ns);
    }
    if (m->code >= 0) return (enum status)m->code;
    if (m->interrupted) return STATUS_INTERRUPTED; /* its second Ctrl-C has reached another first */
    if (m->rank) return STATUS_WORLD;
    return err_set(err, STATUS_WORLD,
                   "a rank has ended, so all %d end; start them again to resume from the newest "
                   "checkpoint",
                   m->count);
}

/* Where the launcher has its library beside it, as in an environment of Python, the loader does not look for it. */
static void name_library(const struct meeting *m, struct arena *perm)
{
    i64 end = (i64)strlen(m->launcher);
    while (end && m->launcher[end - 1] != '/') end--;
    const char *path = str_z(perm, str_fmt(perm, "%.*s../lib/libmpi.so.12", (int)end, m->launcher));
    if (!access(path, R_OK)) setenv("FRUGAL_MPI", path, 0);
}

static enum status prepare(struct meeting *m, struct arena *perm, struct err *err)
{
    m->launcher = find_launcher(m->os, perm);
    if (!m->launcher)
        return err_set(err, STATUS_WORLD,
                       "%d processes with torchrun's environment meet by MPICH's launcher, and "
                       "there is no mpiexec.hydra: install MPICH (apt install mpich, or pip "
                       "install mpich), or start the ranks with mpirun or srun",
                       m->count);
    if (m->count > RANKS_MAX)
        return err_set(err, STATUS_USAGE, "%d ranks are more than %d", m->count, RANKS_MAX);
    name_library(m, perm);
    enum status st = port_of(m, err);
    if (!st) st = proxy_of(m, perm, err);
    if (!st && !m->rank) st = check_port(m, err);
    if (!st && !m->rank) st = server_of(m, perm, err);
    return st ? st : open_reports(m, err);
}

enum status meet_run(struct os *os, f64 join_s, struct arena *perm, struct err *err)
{
    struct meeting *m = NEW(perm, struct meeting, 1);
    *m                = (struct meeting){ .os = os, .limit_ns = (i64)(join_s * 1e9), .code = -1 };
    bool several      = meet_announced(os, &m->rank, &m->count);
    ASSERT(several);
    os_signals_catch();
    enum status st    = prepare(m, perm, err);
    i64         local = 0;
    if (st && number_of(os, "LOCAL_RANK", &local) && local > 0)
        err_set(err, st, "%s", ""); /* once a machine */
    if (st) return st;
    of_handler = m;
    os_on_second_interrupt(end_at_once);
    if (!m->rank) start_server(m, perm);
    st = wait_for_rank(m, err);
    if (!st) st = wait_for_end(m, err);
    os_on_second_interrupt(NULL);
    end_processes(m);
    return st;
}
