/* sweep.h - the parts of `frugal sweep`: which trials there are, how one runs in a process of its own,
 * and what is shown.
 *
 *   sweep_plan.c   sweep.over -> trials, each with its settings and the words for the command line
 *   sweep_trial.c  a trial's process: trains, tells of its evaluations, waits at its rung
 *   sweep_show.c   lines and events on the way, the table and the bill at the end
 *   sweep_file.c   results in a file, for a sweep that was interrupted
 *   cmd_sweep.c    the loop: train/asha.h decides, processes run
 */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H
#include "cli/commands.h"
#include "cli/config.h"
#include "train/asha.h"
#include "train/train.h"

enum { SWEEP_AXES_MAX = 16, SWEEP_TRIALS_MAX = 1000 };

/* What a trial's process tells; one message. */
enum note_kind { NOTE_EVAL, NOTE_RUNG, NOTE_END };
struct note {
    enum note_kind   kind; /* an evaluation on the way; at a rung, and waits; the end */
    enum status      status; /* of the end */
    i64              step, steps;
    f64              seconds;  /* without those it waited */
    f64              begin_s;  /* of them, until the first step was done */
    f64              loss, value; /* of the last evaluation; value: of the metric */
    char             metric[16]; /* its name */
    bool             target_reached;
    enum stop_reason stopped;
    char             text[512]; /* the end: why */
};

struct trial {
    i64             number;   /* from 1 */
    struct str      words;    /* "train.lr=0.01 train.batch=32" */
    struct settings settings;
    struct os_child child;
    struct note     last;
    struct note     known[ASHA_RUNGS_MAX]; /* by rung, now or in sweep.results; steps 0: not known */
};

struct sweep {
    struct cli          *cli;
    const struct config *config;
    struct trial        *trials;
    i64                  count;
    struct asha         *asha;
    i64                  begin_ns;
    struct arena         scratch;
    struct str           others; /* lines of sweep.results that belong to other runs */
    i64                  told; /* trials that ran to a rung or their end */
};

/* The trials, from sweep.over, .count and .seed. */
enum status sweep_plan(struct sweep *s, struct arena *perm, struct err *err);

/* Starts a trial's process, to run until `part` of its run. */
enum status trial_start(struct trial *t, f64 part, struct err *err);
enum status trial_go_on(struct trial *t, f64 part, struct err *err);
/* Its next message; false: its process is gone. */
bool        trial_read(struct trial *t, struct note *n);
/* Its value at a rung or the end such that less is better; INFINITY: it failed. */
f64         note_value(const struct note *n);

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
