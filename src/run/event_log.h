/* event_log.h - a run's events as JSON lines in a file beside the ledger, one file a start of the run:
 *
 *     …/events/RUN/SEGMENT.jsonl      {"event":"step",…,"wall_ns":1794847131568806200}
 *
 * The run's thread only writes into memory; the ledger's thread (recorder.h) appends to the file with its heartbeats
 * and carries it to the object store with the ledger's rows. The file is bounded: steps are written at most once a
 * second, and each a thousandth of the run's age after the one before, so that a month has some ten thousand of them,
 * beside those that an evaluation or a checkpoint follows; evaluations likewise once the file has a quarter of its
 * EVENT_LOG_BYTES, and beyond these only the end. Read again and emitted, it is the run's stream. */
#ifndef RUN_EVENT_LOG_H
#define RUN_EVENT_LOG_H
#include "run/events.h"

enum { EVENT_LOG_BYTES = 16 << 20, EVENT_LOG_BUFFER = 1 << 18 };

struct event_log; /* lives in `perm` */

struct event_log *event_log_new(struct arena *perm,
                                struct os    *os); /* in memory, until it is known where to */
/* The file, made with its folder when the first lines are written. */
void              event_log_to(struct event_log *l, struct str path);
struct subscriber event_log_subscriber(struct event_log *l, const struct subscriber *next);
/* Appends what has come since the last time. What cannot be written waits for the next. */
enum status event_log_flush(struct event_log *l, struct err *err);
void        event_log_close(struct event_log *l); /* NULL is none */
/* All that is in the file, in perm. */
enum status event_log_text(struct event_log *l, struct arena *perm, struct str *text,
                           struct err *err);
struct str  event_log_path(const struct event_log *l);
i64         event_log_bytes(struct event_log *l);   /* of the file */
i64         event_log_dropped(struct event_log *l); /* lines that found no room */

/* Emits each line of a log, *wall_ns (which may be NULL) set to when it came. Lines of a newer frugal are passed over,
 * as is a last line that a kill has cut off. */
enum status event_log_replay(struct str lines, const struct subscriber *to, i64 *wall_ns,
                             struct arena scratch, struct err *err);

#endif
