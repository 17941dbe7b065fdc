/* os_child.c - a second process of ours, and a stream of messages to it. */
#include "base/os.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STREAMS_MAX = 1024 };

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
        if (ends[1] > 3) close_range(3, (unsigned)ends[1] - 1, 0);
        close_range((unsigned)ends[1] + 1, ~0u, 0);
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
