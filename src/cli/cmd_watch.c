/* cmd_watch.c - frugal watch: serves the page until a signal comes. */
#include "cli/bills.h"
#include "job/checkpoint_cost.h"
#include "job/mirror.h"
#include "job/playground.h"
#include "page/page.h"

enum status command_watch(struct cli *c, struct err *err);

static const i64 look_ns = (i64)500000000; /* a signal ends the sleep */

/* What is held open while the page is served. */
struct watched {
    struct mirror     *mirror; /* of an object store */
    struct playground *play;
    struct page       *page;
    struct str         begin; /* "#/run/ID": where the page begins */
};

static enum status port_of(const struct request *r, i32 *port, struct err *err)
{
    struct str text = r->value[FLAG_port];
    i64        n    = 0;
    if (r->given[FLAG_port] && (!str_i64(text, &n) || n < 1 || n > 65535))
        return err_set(err, STATUS_USAGE, "--port=%.*s is not a port from 1 to 65535",
                       (int)MIN(text.len, 40), text.data);
    *port = (i32)n;
    return STATUS_OK;
}

static struct str play_answer(void *context, const struct str *words, i64 count, struct arena *perm)
{
    return playground_answer(context, words, count, perm);
}

static struct str play_run(void *context, struct str settings, const struct str *words, i64 count,
                           struct arena *perm)
{
    return playground_run(context, settings, words, count, perm);
}

static struct str play_choices(void *context, struct arena *perm)
{
    return playground_choices(context, perm);
}

/* RUN...: the page begins with it, or with their comparison. */
static enum status begin_of(struct cli *c, struct watched *w, struct err *err)
{
    const struct request *r     = c->request;
    struct arena          texts = arena_part(c->perm, 1 << 16);
    struct textbuf        b     = textbuf_new(&texts);
    struct bills          bills;
    enum status           st = bills_open(&bills, c, err);
    textbuf_fmt(&b, r->argument_count > 1 ? "#/compare?runs=" : "#/run/");
    for (i64 i = 0; i < r->argument_count && !st; i++) {
        struct run_bill *run;
        st = report_find(bills.items, bills.count, r->arguments[i], &run, err);
        if (!st) textbuf_fmt(&b, "%s%.*s", i ? "," : "", STR_ARG(run->row.id));
    }
    w->begin = textbuf_str(&b);
    bills_close(&bills);
    return st;
}

/* Whose runs: this machine's, those of a folder's ledger, or those of an object store. */
static enum status ledger_of(struct cli *c, struct watched *w, struct str *ledger, struct err *err)
{
    const struct request *r    = c->request;
    struct str            what = r->argument_count ? r->arguments[0] : STR("");
    struct str            file = str_cat(c->perm, what, STR("/ledger.db"));
    *ledger                    = bills_path(c);
    if (object_store_is(what)) {
        enum status st = mirror_open(&w->mirror, c->os, what, c->perm, err);
        if (!st) *ledger = mirror_ledger(w->mirror);
        return st;
    }
    if (what.len && os_is_file(c->os, file)) {
        *ledger = file;
        return STATUS_OK;
    }
    if (!ledger->len)
        return err_set(err, STATUS_USAGE,
                       "there is no ledger: FRUGAL_RUN_LEDGER is none, or HOME is not set");
    return what.len ? begin_of(c, w, err) : STATUS_OK;
}

static void watched_close(struct watched *w)
{
    page_close(w->page);
    playground_close(w->play);
    mirror_close(w->mirror);
}

enum status command_watch(struct cli *c, struct err *err)
{
    const struct request *r      = c->request;
    struct watched        w      = { 0 };
    struct page_config    config = { .listen = r->value[FLAG_listen] };
    enum status           st     = port_of(r, &config.port, err);
    if (r->given[FLAG_play]) w.begin = STR("#/play?what=run");
    if (!st) st = ledger_of(c, &w, &config.ledger, err);
    if (!st)
        st = playground_open(&w.play, c->os, r->value[FLAG_play], r->value[FLAG_prices], c->perm,
                             err);
    config.copied = w.mirror != NULL;
    config.play   = (struct page_play){ w.play, play_answer, play_choices, play_run };
    if (!st) st = page_open(c->os, &config, c->perm, &w.page, err);
    if (!st) {
        say_result(c->say, "%.*s%.*s\n", STR_ARG(page_address(w.page)), STR_ARG(w.begin));
        fflush(c->say->results);
        if (!r->given[FLAG_no_open]) page_show(w.page, w.begin);
        os_signals_catch();
        while (c->os->signal_take(c->os) == OS_SIGNAL_NONE) c->os->sleep_ns(c->os, look_ns);
    }
    watched_close(&w);
    return st;
}
