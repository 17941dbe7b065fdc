/* rows_int.h - what the formats need to read a line. */
#ifndef DATA_ROWS_INT_H
#define DATA_ROWS_INT_H
#include "data/data_int.h"
#include "data/image.h"
#include "data/rows.h"

struct rows {
    const struct dataset     *d;
    const struct data_config *config;
    struct str                path;
    i64                       line;    /* its number, from 1 */
    struct arena              perm;    /* for as long as there are rows */
    struct arena              scratch; /* for one */
    void                     *state;   /* the format's */
};

/* "standard input:7: " before what went wrong. */
enum status rows_failed(const struct rows *r, enum status st, const struct err *why,
                        struct err *err);
/* The bytes of a file that a line names, and what they say of themselves; then a part of it as pixels. */
enum status rows_picture(const struct rows *r, struct str path, struct arena *memory,
                         struct str *file, struct image_info *info, struct err *err);
enum status rows_pixels(const struct rows *r, struct str path, struct str file,
                        const struct image_info *info, const struct image_want *want,
                        struct arena *memory, struct image *out, struct err *err);

#endif
