/* figures_int.h - the two kinds of files and the server behind figures.h; inside this room only. */
#ifndef RUN_FIGURES_INT_H
#define RUN_FIGURES_INT_H
#include "remote/serve.h"
#include "run/figures.h"
#include <pthread.h>

/* A file that rows go to. Opened at a step: rows of later ones are taken away, or marked as void. */
struct sink {
    struct os  *os;
    struct str  path;   /* TensorBoard: the folder */
    struct str  metric; /* of eval_value */
    struct file file;   /* -1: closed */
    i64         opened; /* how often */
};

/* figures_csv.c: keeps what is there up to that step; a file with other columns is left alone. */
enum status csv_sink_open(struct sink *s, i64 step, struct arena scratch, struct err *err);
enum status csv_sink_put(struct sink *s, const struct figures *f, struct arena scratch,
                         struct err *err);
/* Of a file with this header, it and the rows up to that step; a last row without a line end was torn. */
struct str csv_sink_kept(struct str text, struct str header, i64 step);
/* figures_tb.c: a new file; its readers forget what older ones have of later steps. */
enum status tb_sink_open(struct sink *s, i64 step, struct arena scratch, struct err *err);
enum status tb_sink_put(struct sink *s, const struct figures *f, struct arena scratch,
                        struct err *err);

/* figures_web.c: answers GET /metrics with the newest of each figure, on the server's thread. */
struct figures_web {
    struct str      run, metric;
    struct server  *server; /* NULL: none */
    pthread_mutex_t lock;   /* of what follows */
    struct figures  now;
    bool            any; /* row was there */
};
/* NO: this build has no libmicrohttpd. */
enum status figures_web_open(struct figures_web *w, struct os *os, i32 port, struct arena *perm,
                             struct err *err);
void        figures_web_put(struct figures_web *w, const struct figures *f);
void        figures_web_close(struct figures_web *w);
struct str  figures_web_text(const struct figures_web *w,
                             struct arena             *perm); /* the page: no lock is taken */

const char *figure_name(enum figure f);

#endif
