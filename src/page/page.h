/* page.h - the page of `frugal watch`: runs as they happen, in dollars.
 *
 *     ledger ──► runs.c: the list, a run's bill ──┐
 *     event logs ──► series.c: curves, messages ──┼─► page.c: /api/… as JSON, /api/live as server-sent events
 *     src/page/web ──► assets: HTML, CSS, modules ┘        │ remote/serve.h: who may ask
 *                                                          ▼ 127.0.0.1
 *
 * It reads the ledger and the event logs beside it, which runs in other processes go on writing, and writes nothing
 * but the order to stop after a step (run/ask_stop.h), for who brings the token.
 * All of it happens on the server's thread, but for what the playground is asked (questions.c), which has the second.
 * What is answered: docs/formats/page.md. */
#ifndef PAGE_PAGE_H
#define PAGE_PAGE_H
#include "base/os.h"

struct page;

/* What a lower room cannot answer: the playground. From NAME=VALUE words of anybody to JSON, all on one thread that is
 * not the server's. */
struct page_play {
    void *context;
    struct str (*answer)(void *context, const struct str *words, i64 count, struct arena *perm);
    struct str (*choices)(void *context, struct arena *perm);
    /* Of a run of the ledger, from its settings (KEY=VALUE a line) and such words. */
    struct str (*run)(void *context, struct str settings, const struct str *words, i64 count,
                      struct arena *perm);
};

struct page_config {
    struct str       ledger; /* file */
    struct str       events; /* folder of the event logs; empty: the one beside the ledger */
    struct str       listen; /* address; empty: 127.0.0.1 */
    i32              port;   /* 0: any that is free */
    bool             copied; /* the runs are another machine's: they cannot be stopped from here */
    struct page_play play;   /* answer NULL: there is no playground */
};

enum status page_open(struct os *os, const struct page_config *config, struct arena *perm,
                      struct page **out, struct err *err);
/* Those runs as one HTML file that needs no server; texts in perm. */
enum status page_report(struct os *os, const struct page_config *config, const struct str *ids,
                        i64 count, struct arena *perm, struct str *html, struct err *err);
struct str  page_address(const struct page *p); /* http://127.0.0.1:PORT/?token=TOKEN */
/* In the browser of the desktop, at "#/run/ID"; false: there is none. */
bool page_show(const struct page *p, struct str at);
void page_close(struct page *p); /* NULL is none */

#endif
