/* observe.h - steps, losses and metrics of a program that does not know us: from lines that it
 * prints, by regular expressions or as JSON objects, or from TensorBoard's event files.
 *
 * Lines end at \n or, as progress bars redraw themselves, at \r. What cannot be read says nothing. */
#ifndef SUPERVISE_OBSERVE_H
#define SUPERVISE_OBSERVE_H
#include "base/os.h"
#include "run/supervised_config.h"

/* One line, or one event. A value without a step belongs to the last step that was seen. */
struct observed {
    i64 step;         /* -1: none was seen yet */
    f64 loss, metric; /* NaN: not in this one */
};
typedef void observed_fn(void *context, const struct observed *);

struct observer;
/* USAGE: an expression that is none. *out is NULL where nothing is to be read. */
enum status observer_new(struct arena *perm, const struct program_config *c, observed_fn *tell,
                         void *context, struct observer **out, struct err *err);
void        observer_release(struct observer *o);               /* NULL too */
bool        observer_reads_lines(const struct observer *o);     /* of standard output; NULL: no */
void        observer_add(struct observer *o, struct str bytes); /* more of standard output */
void        observer_look(struct observer *o, struct os *os);   /* is there more in event files? */
/* The settings of which nothing was found, one a call ("loss" of program.loss); NULL: no more. *next begins at 0. */
const char *observer_missed(const struct observer *o, i64 *next);

#endif
