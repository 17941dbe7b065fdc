/* crash.c - what is printed when a signal says that the program itself is wrong. SIGBUS is not among them: it is a file
 * that shrank (base/os_map.c). */
#include "cli/crash.h"
#include "base/types.h"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <execinfo.h>

enum { CALLS_MAX = 64, STACK_BYTES = 64 << 10 };

static const int faults[] = { SIGSEGV, SIGFPE, SIGILL };

static void crashed(int signal_number, siginfo_t *info, void *context)
{
    static const char text[] = "frugal crashed: this is a bug in frugal. Saved checkpoints are not "
                               "affected. Please report "
                               "it with the lines below:\n";
    void             *calls[CALLS_MAX];
    char              what[80];
    int len = snprintf(what, sizeof what, "signal %d, address %p\n", signal_number, info->si_addr);
    (void)context;
    if (write(STDERR_FILENO, text, sizeof text - 1) > 0 &&
        write(STDERR_FILENO, what, (size_t)len) > 0)
        backtrace_symbols_fd(calls, backtrace(calls, CALLS_MAX), STDERR_FILENO);
    raise(signal_number); /* the handler is gone: SA_RESETHAND */
}

void crash_report(void)
{
    static u8        stack[STACK_BYTES]; /* the own one may be what is full */
    stack_t          other  = { .ss_sp = stack, .ss_size = sizeof stack };
    struct sigaction action = { .sa_sigaction = crashed,
                                .sa_flags =
                                    (int)(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND | SA_NODEFER) };
    sigemptyset(&action.sa_mask);
    if (sigaltstack(&other, NULL)) return;
    for (i64 i = 0; i < COUNT_OF(faults); i++) sigaction(faults[i], &action, NULL);
}

#else
void crash_report(void) {} /* a sanitizer reports more */
#endif
