/* loopback_only.c - preloaded into every test: a connection to anywhere but this machine ends the program
 * that tries it. Tests must not depend on a network, and must never ask the metadata service of the
 * cloud that they happen to run in. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_here(const struct sockaddr *to)
{
    if (to->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)to)->sin_addr.s_addr) >> 24 == 127;
    if (to->sa_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)to)->sin6_addr;
        return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
    }
    return 1; /* a socket of this machine's, or none at all */
}

int connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
    if (!is_here(to)) {
        char        text[INET6_ADDRSTRLEN] = "?";
        const void *address                = to->sa_family == AF_INET
                                                 ? (const void *)&((const struct sockaddr_in *)to)->sin_addr
                                                 : (const void *)&((const struct sockaddr_in6 *)to)->sin6_addr;
        inet_ntop(to->sa_family, address, text, sizeof text);
        fprintf(stderr, "a test connects to %s; tests connect to loopback only\n", text);
        abort();
    }
    return (int)syscall(SYS_connect, fd, to, bytes);
}
