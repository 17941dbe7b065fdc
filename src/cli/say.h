/* say.h - how frugal speaks: results on stdout, messages on stderr, one JSON object a line on
 * stdout where that was asked for. Only main and the commands use it; no other room prints. */
#ifndef CLI_SAY_H
#define CLI_SAY_H
#include "base/err.h"
#include "base/os.h"
#include "base/quantity.h"
#include <stdio.h>

struct say {
    FILE *results, *messages;
    bool  json;          /* --json */
    bool  live;          /* messages go to a terminal: a line may be redrawn */
    bool  bold;          /* results go to one, and NO_COLOR is not set */
    i32   columns;       /* of the terminal that shows messages */
    i32   table_columns; /* of the terminal that shows results; 0: they go to a file or a pipe */
    int   failed;        /* errno of the first result that could not be written; 0: none */
    bool  open_line;     /* a live line stands and must be ended before anything else */
    FILE *loud[2];       /* results and messages, while it says nothing; NULL: it speaks */
};

struct say say_open(struct os *os);
void       say_nothing(struct say *s, bool on); /* of several ranks one speaks */

void say_result(struct say *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void say_heading(struct say *s, const char *text); /* a result of its own line, bold */
void say_text(struct say *s, struct str text);     /* a result, as it is */
/* Lines of text; those wider than the terminal are broken between words. */
void say_wrapped(struct say *s, struct str text);
i64  say_columns(const struct say *s, i64 most); /* of the terminal that shows results */
/* A result behind a label of 12 columns; broken at spaces where it is wider than the terminal. */
void say_labelled(struct say *s, const char *label, struct str text);
void say_flush(struct say *s); /* results so far are written, not only kept to be */
void say_message(struct say *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void say_live(struct say *s, struct str line); /* replaces the line that stands; not plain */
void say_error(struct say *s, const struct err *err, struct arena scratch);
enum status say_close(struct say *s, struct err *err); /* WORLD: stdout could not take it all */

/* A table. Columns that do not fit the terminal are left out, those of the highest rank first; rank 0 stays. */
struct say_column {
    const char *head;
    i32         width; /* below 0: to the left */
    i32         rank;
};
struct say_table {
    const struct say_column *columns;
    i64                      count;
    const char              *indent, *gap;
};
bool say_fits(const struct say *s, const struct say_table *t); /* with all of its columns */
void say_row(struct say *s, const struct say_table *t,
             const struct str *cells); /* NULL: the heads */

/* A JSON object on one line: begin, fields, end. */
struct textbuf event_begin(struct arena *perm, const char *event);
void           event_i64(struct textbuf *b, const char *key, i64 value);
void           event_f64(struct textbuf *b, const char *key, f64 value); /* NaN becomes null */
void           event_bool(struct textbuf *b, const char *key, bool value);
void           event_str(struct textbuf *b, const char *key, struct str value);
void           say_line(struct say *s, struct textbuf *b); /* an event that is whole, and at once */
void           event_end(struct textbuf *b, struct say *s);

/* Quantities as people read them; counts, times and dollars: base/quantity.h. */
struct str text_bytes(struct arena *perm, f64 bytes);                   /* 4.1 MB */
struct str text_si(struct arena *perm, f64 value);                      /* 1.2 G */
struct str text_metric(struct arena *perm, struct str name, f64 value); /* 84.1 % for accuracy */

#endif
