/* late.c - an alarm, and a sentence that was written before it is needed: a handler of signals may do little more. */
#include "cli/late.h"
#include "base/err.h"
#include "job/meet.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static char sentence[160]; /* empty: another rank says it */

static void end_all(int signal_number)
{
    (void)signal_number;
    meet_report(STATUS_WORLD);
    if (write(STDERR_FILENO, sentence, strlen(sentence)) < 0) _exit(STATUS_WORLD);
    _exit(STATUS_WORLD);
}

/* Rank 0 speaks. Where it is the one that does not come, rank 1 does, a second later: until then the launcher has ended
 * it, as it ends all others when one has failed. */
void late_begin(f64 limit_s, i32 rank, i32 count)
{
    struct sigaction action = { .sa_handler = end_all };
    struct itimerval timer  = { .it_value = { .tv_sec  = (time_t)limit_s + MIN(rank, 2),
                                              .tv_usec = 1 } };
    sentence[0]             = 0;
    if (rank < 2)
        snprintf(sentence, sizeof sentence,
                 "another rank has not come for %.0f s (train.join_s), so all %d end\n", limit_s,
                 count);
    sigemptyset(&action.sa_mask);
    if (!sigaction(SIGALRM, &action, NULL)) setitimer(ITIMER_REAL, &timer, NULL);
}

void late_end(void)
{
    setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
    signal(SIGALRM, SIG_DFL);
}
