/* sweep.h - the parts of `frugal sweep`: which trials there are, how one runs in a process of its own,
 * and what is shown.
 *
 *   sweep_plan.c   sweep.over -> trials, each with its settings and the words for the command line
 *   job/sweep_trial.c    a trial's process: trains, tells of its evaluations, waits at its rung
 *   sweep_show.c   lines and events on the way, the table and the bill at the end
 *   sweep_file.c   results in a file, for a sweep that was interrupted
 *   cmd_sweep.c    the loop: train/asha.h decides, processes run
 */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H
#include "cli/commands.h"
#include "cli/jobs.h"
#include "job/sweep_trial.h"
#include "train/asha.h"

enum { SWEEP_AXES_MAX = 16, SWEEP_TRIALS_MAX = 1000 };

struct sweep {
    struct cli          *cli;
    const struct config *config;
    struct trial        *trials;
    i64                  count;
    struct asha         *asha;
    struct bill         *bill; /* of the whole sweep */
    struct arena         scratch;
    struct str           others; /* lines of sweep.results that belong to other runs */
    i64                  told;   /* trials that ran to a rung or their end */
};

/* The trials, from sweep.over, .count and .seed. */
enum status sweep_plan(struct sweep *s, struct arena *perm, struct err *err);

/* A word as a shell takes it for one. */
void add_shell_word(struct textbuf *b, struct str word);

/* On the way: a line or an event for what a trial told last. At the end: the table and the bill. */
void sweep_show_start(struct sweep *s);
void sweep_show_eval(struct sweep *s, const struct trial *t); /* on a terminal only */
void sweep_show_trial(struct sweep *s, const struct trial *t);
void sweep_show_end(struct sweep *s);

/* sweep.results: fills `known` from the file, where there is one; writes all that is known anew. */
enum status results_read(struct sweep *s, struct arena *perm, struct err *err);
enum status results_write(struct sweep *s, struct err *err);

#endif
