/* top.h - runs in a terminal, as `frugal top` shows them: the same figures as the page, and a small curve. */
#ifndef PAGE_TOP_H
#define PAGE_TOP_H
#include "page/page.h"

struct top;

enum status top_open(struct top **out, struct os *os, const struct page_config *config,
                     struct arena *perm, struct err *err);
/* One screen: `rows` lines of at most `columns` characters, without the last line's end. `run`: the one whose curve is
 * drawn, as the beginning of its id or its name; empty: the newest, of those that are active if there are any. */
struct str top_frame(struct top *t, struct str run, i64 columns, i64 rows, struct arena *perm);
void       top_close(struct top *t); /* NULL is none */

#endif
