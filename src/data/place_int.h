/* place_int.h - the two kinds of place: place_folder.c, place_shards.c. */
#ifndef DATA_PLACE_INT_H
#define DATA_PLACE_INT_H
#include "base/hash.h"
#include "data/order.h"
#include "data/place.h"
#include "data/stage.h"
#include "remote/files.h"

/* A fingerprint under way (fingerprint.c). */
struct print {
    struct xxh64 what;           /* names and sizes, without the folder, and content */
    struct xxh64 where, version; /* of remote files */
    i64          remote, unversioned, content; /* how many of each */
};
void print_name(struct print *p, struct str path, i64 bytes);
void print_remote(struct print *p, struct str path, const struct remote_file *version);
/* Of `count` files the content of so many, and which is the i-th of these. */
i64  print_samples(i64 count);
i64  print_sample(i64 count, i64 i);
void print_content(struct print *p, struct os *os, struct str path, i64 bytes, i64 count,
                   struct arena scratch);

struct place_kind {
    /* Fills count, classes, order and state. When it fails, close is called on what there is. */
    enum status (*open)(struct place *p, const struct data_config *config, struct str path,
                        struct err *err);
    void (*close)(struct place *p); /* state may be NULL or half filled */
    i64 (*class)(const struct place *p, i64 n);
    struct str (*name)(const struct place *p, i64 n, struct arena *perm);
    enum status (*read)(const struct place *p, i64 n, struct buffer *to, const atomic_bool *stop,
                        struct err *err);
    void (*fingerprint)(const struct place *p, struct print *to);
    /* The loader has come to that index; NULL: that is of no interest. */
    void (*ahead)(const struct place *p, i64 count, u64 seed, i64 epoch, i64 index);
    bool (*says)(struct place *p, char line[LOADER_LINE_MAX]); /* NULL: it never does */
    const struct str *(*class_names)(const struct place *p, struct arena *perm); /* NULL: none */
};
extern const struct place_kind place_folder, place_shards;

struct place {
    const struct place_kind *kind;
    struct os               *os;
    struct arena             own; /* holds what grows with the data set */
    i64                      count, classes;
    struct order            *order;
    i64                      block; /* of it; 0: all samples are one */
    void                    *state;
};

/* What a pattern stands for: name-{000..123}.tar, {train,more}.tar, several braces in a row. */
enum { PLACE_SHARDS_MAX = 1 << 20, PLACE_PATH_MAX = 2048 };
enum status pattern_expand(struct str pattern, struct arena *perm, struct str **out, i64 *count,
                           struct err *err);

/* The first `bytes` bytes of a file, or from `at` on, whole. */
enum status read_range(struct os *os, struct str path, i64 at, i64 bytes, void *to,
                       struct err *err);

#endif
