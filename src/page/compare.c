/* compare.c - the way from one run's bill to another's, as `frugal report` has it. */
#include "page/page_int.h"
#include "run/comparison.h"
#include <math.h>

enum { COMPARED_MAX = 8 };

void runs_compare(struct textbuf *b, const struct runs *r, struct str ids, struct arena scratch)
{
    struct run_bill  **picked = NEW(&scratch, struct run_bill *, COMPARED_MAX);
    struct comparison *c      = NEW(&scratch, struct comparison, 1);
    struct str         id;
    struct err         err   = { 0 };
    i64                count = 0;
    enum status        st    = STATUS_OK;
    while (str_cut(&ids, ',', &id) && count < COMPARED_MAX && !st) {
        i64 at = runs_place(r, id);
        if (at < 0) st = err_set(&err, STATUS_NO, "there is no such run");
        else picked[count++] = &r->items[at];
    }
    if (!st && count < 2) st = err_set(&err, STATUS_NO, "two runs or more can be compared");
    if (!st)
        st = comparison_make(c, picked, count, r->items, r->count, r->now_wall_ns, &scratch, &err);
    out_open(b, NULL, '{');
    if (st) {
        out_text(b, "error", str_of(err.text));
    } else {
        out_f64(b, "before", (f64)picked[0]->nusd * 1e-9);
        out_f64(b, "after", (f64)picked[count - 1]->nusd * 1e-9);
        out_f64(b, "target", c->target);
        out_f64(b, "runs_per_month", c->runs_per_month);
        out_open(b, "levers", '[');
        for (i64 i = 0; i < c->lever_count; i++) {
            out_open(b, NULL, '{');
            out_text(b, "what", c->levers[i].what);
            out_f64(b, "dollars", (f64)c->levers[i].nusd * 1e-9);
            out_close(b, '}');
        }
        out_close(b, ']');
    }
    out_close(b, '}');
}
