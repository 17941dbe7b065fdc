/* family.c - the family of a program, from /proc. Orphans become our children (PR_SET_CHILD_SUBREAPER),
 * so that the family is always all that descends from us. */
#include "base/family.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMBERS_MAX = 4096, PROCESSES_MAX = 1 << 16, KILL_ROUNDS = 100 };

/* --- starting and ending ------------------------------------------------------------------------ */

/* Only what is safe between fork and exec. Does not return. */
static void become(const char *const *argv, int out, int why, pid_t parent)
{
    struct sigaction plain = { .sa_handler = SIG_DFL };
    sigset_t         none;
    sigemptyset(&none);
    sigaction(SIGPIPE, &plain, NULL); /* we ignore it, and that would be inherited */
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(STATUS_INTERRUPTED); /* we went before that was said */
    if (out >= 0) dup2(out, STDOUT_FILENO);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    int reason = errno;
    if (write(why, &reason, sizeof reason) < 0) {} /* nothing is left to be done about it */
    _exit(127);
}

enum status family_start(struct family *p, const char *const *argv, enum family_output out,
                         struct err *err)
{
    int   stream[2] = { -1, -1 }, why[2] = { -1, -1 }, reason = 0;
    bool  read_it = out == FAMILY_OUTPUT_READ;
    pid_t parent = getpid(), pid = -1;
    *p = (struct family){ 0, { -1 } };
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (pipe2(why, O_CLOEXEC) || (read_it && pipe2(stream, O_CLOEXEC))) reason = errno;
    if (!reason) pid = fork();
    if (pid == 0) become(argv, stream[1], why[1], parent);
    if (pid < 0 && !reason) reason = errno;
    if (stream[1] >= 0) close(stream[1]);
    if (why[1] >= 0) close(why[1]);
    if (pid > 0) { /* the pipe closes when the program has taken the process over */
        ssize_t got;
        do got = read(why[0], &reason, sizeof reason);
        while (got < 0 && errno == EINTR);
        if (got <= 0) reason = 0;
        if (reason) waitpid(pid, NULL, 0);
    }
    if (why[0] >= 0) close(why[0]);
    if (reason) {
        if (stream[0] >= 0) close(stream[0]);
        return err_set(err, STATUS_WORLD, "cannot start %.200s: %s", argv[0], strerror(reason));
    }
    *p = (struct family){ pid, { stream[0] } };
    return STATUS_OK;
}

bool family_ended(struct family *p, struct family_end *end)
{
    int   status;
    pid_t pid;
    bool  ended = false;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != p->pid) continue; /* an orphan of the family */
        end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        end->code   = end->signal ? 128 + end->signal : WEXITSTATUS(status);
        ended       = true;
    }
    if (ended) p->pid = 0;
    return ended;
}

/* --- the family --------------------------------------------------------------------------------- */

struct process {
    pid_t pid, parent;
};

/* A small file of /proc/PID, with a zero byte behind it; false: the process is gone. */
static bool read_proc(pid_t pid, const char *name, char *text, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int     fd  = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, bytes - 1);
    if (fd >= 0) close(fd);
    text[MAX(got, 0)] = '\0';
    return got > 0;
}

/* 0: gone, or dead and not yet buried. */
static pid_t parent_of(pid_t pid)
{
    char  text[1024], state = 'Z';
    int   parent = 0;
    char *name_end; /* the name may hold brackets and blanks itself */
    if (!read_proc(pid, "stat", text, sizeof text)) return 0;
    name_end = strrchr(text, ')');
    if (!name_end || sscanf(name_end + 1, " %c %d", &state, &parent) != 2) return 0;
    return state == 'Z' ? 0 : parent;
}

static i64 all_processes(struct process *out)
{
    DIR           *d = opendir("/proc");
    struct dirent *e;
    i64            count = 0;
    while (d && count < PROCESSES_MAX && (e = readdir(d))) {
        if (!isdigit((unsigned char)e->d_name[0])) continue;
        struct process p = { .pid = (pid_t)strtol(e->d_name, NULL, 10) };
        p.parent         = parent_of(p.pid);
        if (p.parent) out[count++] = p;
    }
    if (d) closedir(d);
    return count;
}

/* All that descend from us, parents before children. */
static i64 members(pid_t *pids)
{
    struct arena    memory = arena_open((i64)PROCESSES_MAX * (i64)sizeof(struct process) + 4096);
    i64             count  = 0, all_count;
    pid_t           from   = getpid();
    struct process *all;
    if (!memory.begin) return 0;
    all       = NEW(&memory, struct process, PROCESSES_MAX);
    all_count = all_processes(all);
    for (i64 next = -1; next < count; next++) {
        if (next >= 0) from = pids[next];
        for (i64 i = 0; i < all_count && count < MEMBERS_MAX; i++)
            if (all[i].parent == from) pids[count++] = all[i].pid;
    }
    arena_close(&memory);
    return count;
}

static bool handles(pid_t pid, i32 signal)
{
    char               text[8192], *line;
    unsigned long long mask = 0;
    if (!read_proc(pid, "status", text, sizeof text)) return false;
    line = strstr(text, "\nSigCgt:");
    if (line) mask = strtoull(line + 8, NULL, 16);
    return mask >> (signal - 1) & 1;
}

static const struct {
    const char *name, *full;
    i32         number;
} signals[] = { { "term", "SIGTERM", SIGTERM }, { "int", "SIGINT", SIGINT },
                { "usr1", "SIGUSR1", SIGUSR1 }, { "usr2", "SIGUSR2", SIGUSR2 },
                { "hup", "SIGHUP", SIGHUP },    { "quit", "SIGQUIT", SIGQUIT } };

i32 signal_number(struct str name)
{
    for (i64 i = 0; i < COUNT_OF(signals); i++)
        if (str_eq(name, str_of(signals[i].name))) return signals[i].number;
    return 0;
}

const char *signal_name(i32 number)
{
    for (i64 i = 0; i < COUNT_OF(signals); i++)
        if (signals[i].number == number) return signals[i].full;
    return "a signal";
}

i64 family_signal(i32 signal)
{
    pid_t pids[MEMBERS_MAX];
    i64   count = members(pids), sent = 0;
    for (i64 i = 0; i < count; i++) sent += handles(pids[i], signal) && kill(pids[i], signal) == 0;
    return sent;
}

void family_kill(struct family *p)
{
    pid_t pids[MEMBERS_MAX];
    for (i64 round = 0; round < KILL_ROUNDS; round++) { /* they may have children meanwhile */
        i64 count = members(pids);
        for (i64 i = 0; i < count; i++) kill(pids[i], SIGKILL);
        while (waitpid(-1, NULL, WNOHANG) > 0) {}
        if (!count) break;
        usleep(10000);
    }
    p->pid = 0;
}

/* --- open files --------------------------------------------------------------------------------- */

static bool opened_to_write(pid_t pid, const char *fd)
{
    char         name[64], text[512], *line;
    unsigned int mode = 0;
    snprintf(name, sizeof name, "fdinfo/%.20s", fd);
    if (!read_proc(pid, name, text, sizeof text)) return false;
    line = strstr(text, "flags:");
    if (line) mode = (unsigned)strtoul(line + 6, NULL, 8);
    return (mode & O_ACCMODE) != O_RDONLY;
}

static bool process_writes(pid_t pid, struct str path)
{
    char           folder[64], target[PATH_MAX];
    struct dirent *e;
    bool           found = false;
    snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(folder);
    while (d && !found && (e = readdir(d))) {
        ssize_t len = readlinkat(dirfd(d), e->d_name, target, sizeof target);
        found =
            len > 0 && str_eq((struct str){ target, len }, path) && opened_to_write(pid, e->d_name);
    }
    if (d) closedir(d);
    return found;
}

bool family_writes(struct str path)
{
    pid_t pids[MEMBERS_MAX];
    i64   count = members(pids);
    for (i64 i = 0; i < count; i++)
        if (process_writes(pids[i], path)) return true;
    return false;
}

/* --- processor time ----------------------------------------------------------------------------- */

/* Fields 14 to 17 of its stat: in itself, in the kernel, and the same of children it has buried. */
static i64 ticks_of(pid_t pid)
{
    char      text[1024];
    long long own[2] = { 0 }, buried[2] = { 0 };
    if (!read_proc(pid, "stat", text, sizeof text)) return 0;
    char *name_end = strrchr(text, ')');
    if (!name_end ||
        sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %lld %lld",
               &own[0], &own[1], &buried[0], &buried[1]) != 4)
        return 0;
    return own[0] + own[1] + buried[0] + buried[1];
}

static i64 ns_of(i64 ticks) { return ticks * (1000000000 / MAX(sysconf(_SC_CLK_TCK), 1)); }

i64 family_cpu_ns(void)
{
    pid_t pids[MEMBERS_MAX];
    i64   count = members(pids), ticks = 0;
    for (i64 i = 0; i < count; i++) ticks += ticks_of(pids[i]);
    return ns_of(ticks);
}

i64 parent_cpu_ns(void) { return ns_of(ticks_of(getppid())); }
