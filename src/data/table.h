/* table.h - what files of rows share: arrays to parse them into, and the data set made of those. */
#ifndef DATA_TABLE_H
#define DATA_TABLE_H
#include "data/data_int.h"

struct table {
    i64          rows;  /* so far: a parser fills row number `rows`, then counts it */
    f32         *dense; /* [rows, numeric] */
    i32         *x;     /* [rows, categorical] */
    f32         *y;     /* [rows] */
    i64          numeric, categorical, buckets;
    struct arena own; /* holds them; to be closed also after a failure, where begin is not NULL */
};

struct table_where { /* for messages: "clicks.csv:7: ... in column "price" ..." */
    struct str path;
    i64        line;
    struct str column;
};

/* Room for so many rows, and for more_bytes of the parser's own in t->own. */
enum status table_init(struct table *t, struct str path, const struct data_config *config, i64 rows,
                       i64 more_bytes, struct err *err);
/* Into the row under way; blanks around a value do not count. */
enum status table_label(struct table *t, const struct table_where *w, struct str s,
                        struct err *err);
enum status table_number(struct table *t, const struct table_where *w, i64 slot, struct str s,
                         struct err *err);
void        table_category(struct table *t, i64 slot, struct str s);

/* A whole file into a table; rows_max 0: all. For the fuzzer, too. */
typedef enum status table_parse(struct str path, struct str text, const struct data_config *config,
                                i64 rows_max, struct table *out, struct err *err);
table_parse         csv_parse, jsonl_parse;

/* The same a line at a time, without labels; the line's number is for messages. t->own is a row's scratch. */
struct csv_columns;
enum status csv_header(struct str path, struct str line, i64 number,
                       const struct data_config *config, struct arena *perm,
                       struct csv_columns **out, struct err *err);
enum status csv_row(struct csv_columns *c, struct str line, i64 number, struct table *t,
                    struct err *err);
enum status jsonl_row(struct str path, struct str line, i64 number,
                      const struct data_config *config, struct table *t, struct err *err);

/* The data set, for the formats. */
enum status table_open(struct dataset *d, const struct data_config *config, table_parse *parse,
                       struct arena *perm, struct err *err);
void        table_fetch(const struct dataset *d, enum split s, const i64 *index, i64 count,
                        void *const *to);
void        table_close(struct dataset *d);
enum status table_rows_open(struct rows *r, struct arena *perm, struct err *err);
enum status table_row(struct rows *r, struct str line, void *const *to, struct err *err);

#endif
