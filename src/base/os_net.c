/* os_net.c - streams: TCP to a host by name, and listening for others. */
#include "base/os_int.h"
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const i64 accepted_limit_ns = (i64)10 * 1000000000;
static const int backlog           = 64;

static i64 now_ns(void) { return os_clock_ns(CLOCK_MONOTONIC); }

/* Until fd is ready: 1, 0 when the time is over, -1 with errno. */
static int wait_ready(int fd, short events, i64 until_ns)
{
    struct pollfd p       = { .fd = fd, .events = events };
    i64           left_ms = until_ns < 0 ? -1 : MAX(0, (until_ns - now_ns() + 999999) / 1000000);
    return poll(&p, 1, (int)MIN(left_ms, INT32_MAX));
}

static void set_limits(int fd, i64 limit_ns)
{
    int            yes = 1;
    i64            us  = limit_ns < 0 ? 0 : MAX(limit_ns / 1000, 1); /* 0 means for ever */
    struct timeval t   = { us / 1000000, us % 1000000 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static enum status resolve(struct str host, i32 port, int flags, struct addrinfo **out,
                           struct err *err)
{
    char name[256], service[16];
    if (host.len >= (i64)sizeof name || port < 0 || port > 65535)
        return err_set(err, STATUS_USAGE, "%.*s:%d is not an address", (int)MIN(host.len, 255),
                       host.data, port);
    snprintf(name, sizeof name, "%.*s", STR_ARG(host));
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = { .ai_flags = flags | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
    int             code  = getaddrinfo(name, service, &hints, out);
    if (code)
        return err_set(err, STATUS_WORLD, "cannot find the host %s: %s", name, gai_strerror(code));
    return STATUS_OK;
}

/* The socket connected, or -1 with errno. */
static int connect_one(const struct addrinfo *a, i64 until_ns)
{
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0) return -1;
    int       reason = connect(fd, a->ai_addr, a->ai_addrlen) ? errno : 0;
    socklen_t bytes  = sizeof reason;
    if (reason == EINPROGRESS) {
        int ready;
        do ready = wait_ready(fd, POLLOUT, until_ns);
        while (ready < 0 && errno == EINTR);
        if (ready < 0) reason = errno;
        else if (ready == 0) reason = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &bytes)) reason = errno;
    }
    if (!reason && fcntl(fd, F_SETFL, 0) == 0) return fd; /* blocking from here on */
    close(fd);
    errno = reason ? reason : errno;
    return -1;
}

enum status os_net_connect(struct os *os, struct str host, i32 port, i64 limit_ns, struct file *f,
                           struct err *err)
{
    (void)os;
    struct addrinfo *all;
    i64              until_ns = limit_ns < 0 ? -1 : now_ns() + limit_ns;
    f->fd                     = -1;
    enum status st            = resolve(host, port, 0, &all, err);
    if (st) return st;
    for (struct addrinfo *a = all; a && f->fd < 0; a = a->ai_next) f->fd = connect_one(a, until_ns);
    int reason = errno;
    freeaddrinfo(all);
    if (f->fd < 0)
        return err_set(err, STATUS_WORLD, "cannot connect to %.*s:%d: %s", STR_ARG(host), port,
                       strerror(reason));
    set_limits(f->fd, limit_ns);
    return STATUS_OK;
}

static int listen_one(const struct addrinfo *a)
{
    int yes = 1;
    int fd  = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); /* a restart need not wait */
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, backlog) == 0) return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

enum status os_net_listen(struct os *os, struct str host, i32 port, struct file *f, struct err *err)
{
    (void)os;
    struct addrinfo *all;
    f->fd          = -1;
    enum status st = resolve(host, port, AI_PASSIVE, &all, err);
    if (st) return st;
    for (struct addrinfo *a = all; a && f->fd < 0; a = a->ai_next) f->fd = listen_one(a);
    int reason = errno;
    freeaddrinfo(all);
    if (f->fd < 0)
        return err_set(err, STATUS_WORLD, "cannot listen on %.*s:%d: %s", STR_ARG(host), port,
                       strerror(reason));
    return STATUS_OK;
}

i32 os_net_port_of(struct os *os, struct file f)
{
    (void)os;
    struct sockaddr_storage at    = { 0 };
    socklen_t               bytes = sizeof at;
    if (getsockname(f.fd, (struct sockaddr *)&at, &bytes)) return -1;
    if (at.ss_family == AF_INET) return ntohs(((struct sockaddr_in *)&at)->sin_port);
    if (at.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)&at)->sin6_port);
    return -1;
}

enum status os_net_accept(struct os *os, struct file listener, i64 limit_ns, struct file *f,
                          struct err *err)
{
    (void)os;
    i64 until_ns = limit_ns < 0 ? -1 : now_ns() + limit_ns;
    f->fd        = -1;
    for (;;) {
        int ready = wait_ready(listener.fd, POLLIN, until_ns);
        if (ready == 0) return err_set(err, STATUS_NO, "no connection within the time limit");
        if (ready < 0 && errno == EINTR)
            return err_set(err, STATUS_INTERRUPTED, "interrupted while waiting for a connection");
        if (ready > 0) f->fd = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC);
        if (f->fd >= 0) break;
        if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) continue; /* it went away */
        return err_set(err, STATUS_WORLD, "cannot accept a connection: %s", strerror(errno));
    }
    set_limits(f->fd, accepted_limit_ns);
    return STATUS_OK;
}
