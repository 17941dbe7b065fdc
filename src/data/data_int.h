/* data_int.h - what the formats share: a row each in the table of data.c, and sources of bytes.
 *
 * A new format is one file that defines a `struct format`, and one row in data.c. */
#ifndef DATA_DATA_INT_H
#define DATA_DATA_INT_H
#include "data/data.h"
#include "data/stage.h"

struct format;

struct dataset {
    const struct format *format;
    struct os           *os;
    struct feeds         feeds;
    i64                  count[SPLIT_COUNT];
    void                *state; /* the format's own, in perm */
    const struct str    *class_names;
    i64                  class_count; /* of these names; 0: none */
    bool fresh;    /* training samples differ from epoch to epoch even in the order of the data */
    bool keepable; /* decode looks at nothing of the epoch: its result may be kept */
    bool binary;   /* a text that has zero bytes, which no text has */
    bool held;     /* by a thread that does not end: it can never be closed */
};

struct place;
struct rows; /* rows_int.h */

struct format {
    struct str kind;
    /* Fills feeds, count and state. When it fails, close is called on what there is. */
    enum status (*open)(struct dataset *d, const struct data_config *config, struct arena *perm,
                        struct err *err);
    /* Samples that are mapped memory, straight into the batch; NULL: it has stages (stage.h). */
    void (*fetch)(const struct dataset *d, enum split s, const i64 *index, i64 count,
                  void *const *to);
    /* The same of training samples, where an epoch's samples are not the next one's; NULL: fetch. */
    void (*fetch_epoch)(const struct dataset *d, u64 seed, i64 epoch, const i64 *index, i64 count,
                        void *const *to);
    void (*fetch_pieces)(const struct dataset *d, u64 seed, i64 epoch, const i64 *index, i64 count,
                         void *const *to); /* data.pieces; NULL: it has none */
    enum status (*read)(const struct dataset *d, struct sample *s, struct err *err); /* may block */
    enum status (*decode)(const struct dataset *d, struct sample *s, struct err *err);
    enum status (*augment)(const struct dataset *d, struct sample *s, struct err *err);
    void (*collate)(const struct dataset *d, const struct collation *c);
    /* Which sample stands at `index` of the epoch's shuffled order; NULL: rng_permute. */
    i64 (*order)(const struct dataset *d, enum split s, u64 seed, i64 epoch, i64 index);
    /* Of a sample, where samples have different ones; NULL: they have not. */
    i64 (*length)(const struct dataset *d, enum split s, i64 number);
    /* See dataset_block and dataset_says; NULL: 0, and nothing. */
    i64 (*block)(const struct dataset *d);
    bool (*says)(struct dataset *d, char line[LOADER_LINE_MAX]);
    /* One line from outside its files as a sample, into its place in the batch (rows.h): NO: the line holds none.
     * NULL: its samples are not lines. rows_open, where there is one, sets rows->state. */
    enum status (*rows_open)(struct rows *r, struct arena *perm, struct err *err);
    enum status (*row)(struct rows *r, struct str line, void *const *to, struct err *err);
    const struct place *(*place)(const struct dataset *d,
                                 enum split            s); /* of its samples; NULL: mapped files */
    void (*close)(struct dataset *d);           /* state may be NULL or half filled */
    f64 (*best_auc)(const struct dataset *d);   /* NULL: nobody knows */
};

extern const struct format format_idx, format_tokens, format_text, format_csv, format_jsonl,
    format_lines, format_clicks, format_images, format_chat, format_labelled_texts;

/* The bytes of a file: mapped, and unpacked first where its name ends in .gz. */
struct source {
    struct str   bytes;
    struct str   mapped; /* what to unmap; empty: `own` holds the bytes */
    struct arena own;
    bool         pinned; /* a remote file, held in its cache by: */
    struct file  pin;
};

enum status source_open(struct os *os, struct str path, const struct data_config *config,
                        struct arena scratch, struct source *out, struct err *err);
void        source_close(struct os *os, struct source *s); /* zeroed or opened */

/* The folder of config, or frugal's in the user's cache folder; empty where there is none. */
struct str cache_dir(struct os *os, struct str wanted, struct arena *perm);

void dataset_add_feed(struct dataset *d, struct str name, struct type type, i64 range);

enum status check_context(const struct data_config *config, struct err *err); /* 1 to 2^24 */

/* Moves the last `held_out` of the training samples, at least one where that is not 0, to the held-out
 * ones; returns the number of the first moved. */
i64 hold_out_last(struct dataset *d, const struct data_config *config);
/* By a hash of the text: about that share of any set of texts, and always the same ones. */
bool held_out_by_text(struct str text, f64 share);
/* Whatever is predicted is right. Without samples: OK, others say so. */
enum status refuse_one_class(struct str path, i64 count, struct err *err);

i64  limit_count(i64 count, i64 max);                                   /* max 0: no limit */
void limit_counts(struct dataset *d, const struct data_config *config); /* samples, eval_samples */

/* The parsers, on memory, for the fuzzer. `path` is for messages. */
#define IDX_RANK_MAX 4

struct idx {
    i32       rank;
    i64       dim[IDX_RANK_MAX];
    const u8 *data;
};
enum status idx_parse(struct str path, struct str bytes, struct idx *out, struct err *err);

#endif
