/* page_int.h - what the files of src/page share. */
#ifndef PAGE_PAGE_INT_H
#define PAGE_PAGE_INT_H
#include "base/json_out.h"
#include "page/page.h"
#include "page/series.h"
#include "remote/serve.h"
#include "run/report.h"

/* ---- the ledger, read again when it has changed ---- */
struct runs {
    struct os       *os;
    struct ledger   *ledger;
    struct arena     memory[2]; /* of what is shown, and of what is read next */
    i32              at;        /* which is shown */
    struct run_bill *items;     /* oldest first */
    i64             *changed;   /* generation in which each became what it is */
    u64             *hash;
    i64              count, generation;
    i64              now_wall_ns;
    i64              version; /* of the ledger that was read */
    struct deadline  next;    /* not read again before */
};
enum status            runs_open(struct runs *r, struct os *os, struct str path, struct arena *perm,
                                 struct err *err);
void                   runs_close(struct runs *r);
void                   runs_refresh(struct runs *r); /* what cannot be read now stays as it was */
i64                    runs_place(const struct runs *r, struct str id); /* -1: none */
const struct run_bill *runs_find(const struct runs *r, struct str id);  /* NULL: none */
struct str runs_state(const struct run_bill *b); /* "runs", "killed", or why it stopped */
struct outlook {
    f64 left_s, left_high_s;   /* NaN: not known */
    f64 end_usd, end_high_usd; /* of the whole run */
};
struct outlook runs_outlook(const struct run_bill *b);
void runs_row(struct textbuf *b, const struct run_bill *r, i64 now_wall_ns); /* of the list */
/* The bridge between the bills of runs, "ID,ID,…". */
void runs_compare(struct textbuf *b, const struct runs *r, struct str ids, struct arena scratch);
/* levers.c: NAME=VALUE words for the playground, beside the run's settings. */
enum { RUN_LEVERS_MAX = 8 };
i64  runs_levers(const struct run_bill *r, struct arena *perm, struct str out[RUN_LEVERS_MAX]);
void runs_detail(struct textbuf *b, const struct run_bill *r, i64 now_wall_ns);

/* ---- questions to the playground, which are answered on the server's second thread ---- */
struct questions;
struct questions *questions_new(struct arena *perm, const struct page_play *play);
/* From the words of the request, or of a run with its settings; the answer is put off, or is a 503. */
void questions_play(struct questions *all, const struct serve_request *q, struct serve_answer *a);
void questions_choices(struct questions *all, struct serve_answer *a);
void questions_run(struct questions *all, const struct run_bill *r, struct serve_answer *a);

/* ---- curves ---- */
void curve_point(struct textbuf *b, const struct point *p);
/* Thinned over axis x; `next`: where /api/live goes on. */
void       curve_json(struct textbuf *b, const struct series *s, enum point_value x, i64 buckets,
                      struct str next, struct arena scratch);
bool       page_is_id(struct str s); /* may it name a folder of a run? */
struct str page_events(const struct page_config *c, struct arena *perm); /* their folder */

#endif
