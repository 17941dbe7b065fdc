/* os_child.c - a second process of ours, and a stream of messages to it. */
#include "base/os_int.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STREAMS_MAX = 1024, FILES_MAX = 1024 };

/* As close_range(2), which Linux has since 5.9 and glibc since 2.34. */
static void close_between(unsigned first, unsigned last)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, last, 0) == 0) return;
#endif
    long most = sysconf(_SC_OPEN_MAX);
    for (unsigned fd = first; fd <= last && fd < (unsigned long)MAX(most, FILES_MAX); fd++)
        close((int)fd);
}

enum status os_child_start(struct os_child *c, os_child_fn *work, void *context, struct err *err)
{
    int   ends[2];
    pid_t parent = getpid();
    *c           = (struct os_child){ 0, { -1 } };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return err_set(err, STATUS_WORLD, "cannot open a stream to a new process: %s",
                       strerror(errno));
    pid_t pid = fork();
    if (pid == 0) { /* it keeps the standard streams and its own; the ends of others' are ours */
        if (ends[1] > 3) close_between(3, (unsigned)ends[1] - 1);
        close_between((unsigned)ends[1] + 1, ~0u);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent) _exit(STATUS_INTERRUPTED); /* it went before we said so */
        _exit(work(context, (struct file){ ends[1] }));
    }
    close(ends[1]);
    if (pid < 0) {
        err_set(err, STATUS_WORLD, "cannot start a process: %s", strerror(errno));
        close(ends[0]);
        return STATUS_WORLD;
    }
    *c = (struct os_child){ pid, { ends[0] } };
    return STATUS_OK;
}

void os_child_end(struct os_child *c)
{
    if (!c->pid) return;
    kill((pid_t)c->pid, SIGTERM);
    close(c->stream.fd);
    while (waitpid((pid_t)c->pid, NULL, 0) < 0 && errno == EINTR) {}
    *c = (struct os_child){ 0, { -1 } };
}

i64 os_wait_any(const struct file *streams, i64 count, i64 limit_ns)
{
    struct pollfd p[STREAMS_MAX];
    ASSERT(count > 0 && count <= STREAMS_MAX);
    for (i64 i = 0; i < count; i++) p[i] = (struct pollfd){ streams[i].fd, POLLIN, 0 };
    if (poll(p, (nfds_t)count, (int)(limit_ns / 1000000)) <= 0) return -1;
    for (i64 i = 0; i < count; i++)
        if (p[i].revents) return i;
    return -1;
}

/* --- somebody else's program ---------------------------------------------------------------------- */

/* With no signal blocked or ignored, whatever the thread has; a group of its own, to be killed whole. */
static int spawn_shell(const char *command, int out, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t          how;
    sigset_t                   none, all;
    const char                *argv[] = { "sh", "-c", command, NULL };
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                       POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    int reason = posix_spawn(pid, "/bin/sh", &files, &how, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return reason;
}

/* Until its end is closed; false: the time was over. */
static bool read_until(int in, i64 until_ns, i64 bytes_max, struct textbuf *b)
{
    char part[4096];
    for (;;) {
        struct pollfd p    = { in, POLLIN, 0 };
        i64           left = (until_ns - os_clock_ns(CLOCK_MONOTONIC)) / 1000000;
        int           n    = left > 0 ? poll(&p, 1, (int)left) : 0;
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        ssize_t got = read(in, part, sizeof part);
        if (got <= 0) return got == 0;
        textbuf_add(b, (struct str){ part, MIN((i64)got, bytes_max - b->len) });
    }
}

enum status os_output_of(const char *command, i64 limit_ns, i64 bytes_max, struct arena *perm,
                         struct str *out, struct err *err)
{
    int            ends[2], status = 0;
    pid_t          pid;
    struct textbuf b = textbuf_new(perm);
    if (pipe2(ends, O_CLOEXEC))
        return err_set(err, STATUS_WORLD, "cannot open a pipe: %s", strerror(errno));
    int reason = spawn_shell(command, ends[1], &pid);
    close(ends[1]);
    bool in_time =
        !reason && read_until(ends[0], os_clock_ns(CLOCK_MONOTONIC) + limit_ns, bytes_max, &b);
    close(ends[0]);
    *out = textbuf_str(&b);
    if (reason) return err_set(err, STATUS_WORLD, "cannot start sh: %s", strerror(reason));
    if (!in_time) kill(-pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue; /* or others have buried it */
    if (!in_time) return err_set(err, STATUS_WORLD, "it took more than %g s", (f64)limit_ns * 1e-9);
    if (!status) return STATUS_OK;
    return err_set(err, STATUS_WORLD, "it exited with %d",
                   WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

const char *os_find_program(struct os *os, const char *name, struct arena *perm)
{
    struct str all = os->env(os, "PATH"), folder;
    while (str_cut(&all, ':', &folder)) {
        const char *path = str_z(perm, str_fmt(perm, "%.*s/%s", STR_ARG(folder), name));
        if (!access(path, X_OK)) return path;
    }
    return NULL;
}
