/* follow.h - somebody else's training loop that reports to us, as run/events.def has it:
 *
 *     its process ──── start, part, step, eval, checkpoint, interruption, note, done ────► follow
 *                 ◄─── open, order, note, …: the run's stream, with time and dollars ─────
 *
 * The loop says what only it can know: steps, losses, samples, what it does next. Time, dollars, rates,
 * utilisation, caps, target, forecast and notices are ours, so that its bill and its end are those of
 * `frugal train`. supervise.h is for programs that report nothing. docs/python.md is the user's side of it. */
#ifndef SUPERVISE_FOLLOW_H
#define SUPERVISE_FOLLOW_H
#include "run/bill.h"
#include "run/events.h"
#include "run/notice.h"
#include "run/stop.h"

struct follow_config {
    const struct spot_config *spot;
    struct stop_config        stop;
    struct bill              *bill;   /* of the whole run, its price set */
    struct str                run;    /* its id where it resumes one; empty: a new one */
    const struct subscriber  *events; /* hear the run's stream, on the thread of the caller */
};

struct follow_result {
    enum stop_reason stopped; /* STOP_NONE: the program died */
    bool             started; /* the program said what it trains */
    bool             target_reached;
    i64              deadline_ns; /* of a notice, on the clock of now_ns; 0: none came */
};

struct follow;
struct follow *follow_new(struct os *os, struct arena *perm, const struct follow_config *c);
/* More of what the program reports: whole lines or parts of them. USAGE: a line is no event, or too long; it is
 * passed over. */
enum status follow_take(struct follow *f, struct str bytes, struct err *err);
/* What comes by itself: signals, notices, caps. To be called some times a second. */
void follow_look(struct follow *f);
bool follow_is_done(const struct follow *f); /* the program has said so */
/* Emits `done`. INTERRUPTED: a signal or a notice ended it; NO: it died, or its caps had been used up before. */
enum status follow_end(struct follow *f, struct follow_result *result, struct err *err);

/* All of it, from a stream that ends when the program does. */
enum status follow_run(struct os *os, struct file in, const struct follow_config *c,
                       struct follow_result *result, struct err *err);

#endif
