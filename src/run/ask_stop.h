/* ask_stop.h - one process asks a run in another to stop after its step: a file beside that start's event log.
 *
 *     …/events/RUN/SEGMENT.jsonl      written by the run
 *     …/events/RUN/SEGMENT.stop       made by `frugal watch`, found and removed by the run within a second
 *
 * No process id is involved, so a process that got the number of one that is gone is never reached; a start of the
 * run has a name of its own, so an order that came too late never stops the next one. The folder is private (0700):
 * only the user whose run it is can ask. */
#ifndef RUN_ASK_STOP_H
#define RUN_ASK_STOP_H
#include "base/os.h"

/* Asks that start of the run; `events` is the folder of all event logs. NO: it has none there, so it would not hear. */
enum status ask_stop(struct os *os, struct str events, struct str run, struct str segment,
                     struct arena scratch, struct err *err);
/* Was the run with this event log asked? True once: the order is taken. */
bool ask_stop_taken(struct os *os, struct str log_path, struct arena scratch);

#endif
