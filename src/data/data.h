/* data.h - data sets and the loader: batches by number.
 *
 * A data set is opened once, mapped, and can fetch any sample by index into a batch. Order is a
 * pure function of (seed, epoch, index), so the loader's whole state is three integers. */
#ifndef DATA_DATA_H
#define DATA_DATA_H
#include "base/os.h"
#include "ir/feed.h"

#define DATA_FILES_MAX 64
#define DATA_COLUMNS_MAX 256

struct data_config {
    struct str kind;   /* auto | idx | tokens | text | csv | lines | synthetic_clicks */
    struct str path;   /* idx: images; tokens, text, csv: the file */
    struct str labels; /* idx */
    struct str eval_path, eval_labels; /* held out; empty: `held_out` of the samples */
    f64        held_out;               /* fraction at the end kept for evaluation, default 0.1 */
    i64        samples, eval_samples;  /* at most so many; 0: all */
    i64        context;                /* tokens, text, lines: sequence length */
    struct str token_type;             /* tokens: u16 | u32 */
    i64        vocabulary;             /* tokens: 0 = largest token + 1 */
    struct str files[DATA_FILES_MAX];  /* lines: one text file a class, a sample a line */
    i64        file_count;
    struct str label;                  /* csv: target column */
    struct str numeric[DATA_COLUMNS_MAX];
    i64        numeric_count;
    struct str categorical[DATA_COLUMNS_MAX]; /* csv: integers or words, hashed into `buckets` rows */
    i64        categorical_count;
    i64        buckets;                /* rows of each categorical column's table */
    u64        seed;                   /* synthetic_clicks: which of its worlds */
    struct str cache;                  /* folder for unpacked .gz; empty: ~/.cache/frugal */
};

enum split { SPLIT_TRAIN, SPLIT_EVAL, SPLIT_COUNT };

struct dataset;

struct str   data_kind(const struct data_config *config); /* its format: as given, or by its name */
enum status  dataset_open(struct os *os, const struct data_config *config, struct arena *perm,
                          struct dataset **out, struct err *err);
void         dataset_close(struct dataset *d);
const struct feeds *dataset_feeds(const struct dataset *d);
i64          dataset_count(const struct dataset *d, enum split s);
/* Copies samples index[0..count) into one buffer a feed, batch axis first. Thread-safe. */
void         dataset_fetch(const struct dataset *d, enum split s, const i64 *index, i64 count,
                           void *const *to);

f64          dataset_best_auc(const struct dataset *d); /* the best any model can do on the held-out
                                           samples, where the truth is known; else NaN */

/* Batches in order, made ahead by one thread into a bounded ring of buffers. */
struct loader;

struct loader_config {
    enum split split;
    u64        seed;
    bool       shuffle;   /* false: 0, 1, 2, … */
    bool       drop_last;
    bool       forever;   /* after the last batch of an epoch comes the next epoch */
    i64        batch;
    i64        epoch, index; /* where to start: sample `index` of `epoch` */
};

struct batch {
    i64   epoch, index; /* of its first sample */
    i64   count;        /* samples: `batch`, or fewer in the last of an epoch */
    bool  ends_epoch;
    void *data[FEEDS_MAX]; /* by feed */
};

enum status   loader_open(struct arena *perm, struct dataset *d, const struct loader_config *c,
                          struct loader **out, struct err *err);
struct batch *loader_next(struct loader *l); /* valid until the next call; NULL at the end */
void          loader_close(struct loader *l);

#endif
