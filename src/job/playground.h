/* playground.h - the planner under somebody's hands: levers in, a bill out, as often as they are moved.
 *
 *     words ─► plan_ask ─► compiled before? ─► plan_search, once for the answer and once for each lever ─► JSON
 *
 * `frugal watch` answers /api/play with it. Unlike `frugal plan` it keeps machines and compiled programs between two
 * questions, and records no prediction. One thread. docs/formats/page.md has the words and the answer. */
#ifndef JOB_PLAYGROUND_H
#define JOB_PLAYGROUND_H
#include "job/plan_question.h"

struct playground;

/* run_file: may be planned as `what=run`; empty: known models alone. */
enum status playground_open(struct playground **out, struct os *os, struct str run_file,
                            struct str prices, struct arena *perm, struct err *err);
/* From KEY=VALUE words of anybody. The answer is JSON; where it is no plan, it has an `error`. */
struct str playground_answer(struct playground *p, const struct str *words, i64 count,
                             struct arena *perm);
/* The same of a run in the ledger: its settings, KEY=VALUE a line, in the place of a run file. Its data must be
 * here. */
struct str playground_run(struct playground *p, struct str settings, const struct str *words,
                          i64 count, struct arena *perm);
/* What can be chosen: models, machines, clouds, regions. JSON. */
struct str playground_choices(struct playground *p, struct arena *perm);
void       playground_close(struct playground *p); /* NULL is none */

#endif
