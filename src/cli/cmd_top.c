/* cmd_top.c - frugal top [RUN]: runs and a curve in the terminal, drawn each second; without one, a single screen. */
#include "cli/bills.h"
#include "page/top.h"
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum status command_top(struct cli *c, struct err *err);

enum { COLUMNS = 80, ROWS = 24 };
static const i64 again_ns = (i64)1000000000;

static void size_of(i64 *columns, i64 *rows)
{
    struct winsize w = { 0 };
    *columns         = COLUMNS;
    *rows            = ROWS;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_col || !w.ws_row) return;
    *columns = w.ws_col;
    *rows    = w.ws_row;
}

/* From the top left, each line's rest and the rest of the screen emptied: nothing flickers. */
static void draw(struct cli *c, struct str frame)
{
    struct str line;
    fprintf(c->say->results, "\033[H");
    while (str_cut(&frame, '\n', &line))
        fprintf(c->say->results, "%.*s\033[K%s", STR_ARG(line), frame.len ? "\r\n" : "");
    fprintf(c->say->results, "\033[J");
    fflush(c->say->results);
}

/* A mistyped name is not a reason to show another run. */
static enum status check_run(struct cli *c, struct str run, struct err *err)
{
    struct run_bill *one;
    struct bills     b;
    enum status      st = bills_open(&b, c, err);
    if (!st) st = report_find(b.items, b.count, run, &one, err);
    bills_close(&b);
    return st;
}

enum status command_top(struct cli *c, struct err *err)
{
    struct page_config config = { .ledger = bills_path(c) };
    struct str         run    = c->request->argument_count ? c->request->arguments[0] : STR("");
    struct top        *top    = NULL;
    bool               live   = isatty(STDOUT_FILENO);
    if (!config.ledger.len)
        return err_set(err, STATUS_USAGE,
                       "there is no ledger: FRUGAL_RUN_LEDGER is none, or HOME is not set");
    enum status st = run.len ? check_run(c, run, err) : STATUS_OK;
    if (!st) st = top_open(&top, c->os, &config, c->perm, err);
    if (st) return st;
    if (live) os_signals_catch();
    if (live) fprintf(c->say->results, "\033[?25l\033[2J");
    do {
        struct arena here = *c->perm;
        i64          columns, rows;
        size_of(&columns, &rows);
        struct str frame = top_frame(top, run, columns, rows, &here);
        if (live) draw(c, frame);
        else say_result(c->say, "%.*s\n", STR_ARG(frame));
        if (live) c->os->sleep_ns(c->os, again_ns);
    } while (live && c->os->signal_take(c->os) == OS_SIGNAL_NONE);
    if (live) fprintf(c->say->results, "\033[?25h\r\n");
    top_close(top);
    return STATUS_OK;
}
