/* data.h - data sets and the loader: batches by number.
 *
 * A data set is opened once, mapped, and can fetch any sample by index into a batch. Order is a
 * pure function of (seed, epoch, index), so the loader's whole state is three integers. */
#ifndef DATA_DATA_H
#define DATA_DATA_H
#include "base/os.h"
#include "ir/feed.h"

struct remote_files;

#define DATA_FILES_MAX 64
#define DATA_COLUMNS_MAX 256

struct data_config {
    struct str
        kind; /* auto | idx | tokens | text | csv | jsonl | lines | chat | images | synthetic_clicks */
    struct str path;                   /* idx: images; tokens, text, csv: the file */
    struct str labels;                 /* idx */
    struct str eval_path, eval_labels; /* held out; empty: `held_out` of the samples */
    f64        held_out;               /* fraction at the end kept for evaluation, default 0.1 */
    i64        samples, eval_samples;  /* at most so many; 0: all */
    i64        context;                /* tokens, text, lines: sequence length */
    struct str token_type;             /* tokens: u16 | u32 */
    i64        vocabulary;             /* tokens: 0 = largest token + 1 */
    struct str documents;              /* tokens, text: cross | separate | the separator's number */
    struct str windows;                /* tokens, text: random | fixed; empty: fixed */
    i64        pieces; /* tokens, text: of a piece, in the first half of a run; 0: one a sequence */
    struct str files[DATA_FILES_MAX]; /* lines: one text file a class, a sample a line */
    i64        file_count;
    struct str text;        /* csv, jsonl: the column of texts, of which label is the class */
    struct str tokenizer;   /* text, chat: folder or file of a tokenizer */
    struct str template[4]; /* chat: how messages are written (chat_form.h) */
    i64        template_count;
    struct str label; /* csv: target column */
    struct str numeric[DATA_COLUMNS_MAX];
    i64        numeric_count;
    struct str categorical[DATA_COLUMNS_MAX]; /* csv: hashed into `buckets` rows */
    i64        categorical_count;
    i64        buckets;      /* rows of each categorical column's table */
    i64        image_size;   /* images: side of the squares that the model sees */
    bool       image_colour; /* false: one channel */
    struct str augment[8];   /* crop, crop=0.25, center, pad=4, flip, flip=0.5, cutout=8, … */
    i64        augment_count;
    struct str image_normalise; /* none | imagenet | half */
    struct str on_error;        /* stop | skip: a sample that cannot be had */
    struct str cache;           /* folder for unpacked .gz and remote files; empty:
                                          ~/.cache/frugal */
    i64        cache_bytes;     /* of remote files; at most so many */
    i64        shuffle_block;   /* shards: samples permuted together; 0: what the cache holds */
    bool image_bytes; /* no setting: the feed says how to normalise, and whoever computes does it */
    bool rows_only;   /* samples come one by one (rows.h), no setting: files are opened
                                          only for what the settings do not say */
    /* What the weights, or a folder of Hugging Face's, say of the classes, no setting: rows then open no files, and
     * labels of texts are numbered by them. NULL: nothing. */
    const struct str *class_names;
    i64               class_count;
    bool classes_trained;        /* with these names: a label that is none of them is an error */
    struct remote_files *remote; /* what reads remote files (remote/files.h), no setting; NULL:
                                          they cannot be read */
};

enum split { SPLIT_TRAIN, SPLIT_EVAL, SPLIT_COUNT };

struct dataset;

struct str  data_kind(struct os                *os,
                      const struct data_config *config);      /* as given, or by its name */
bool        data_is_remote(const struct data_config *config); /* is any of its files? */
enum status dataset_open(struct os *os, const struct data_config *config, struct arena *perm,
                         struct dataset **out, struct err *err);
bool dataset_close(struct dataset *d); /* false: a thread does not let it go, see loader_close */
const struct feeds *dataset_feeds(const struct dataset *d);
i64                 dataset_count(const struct dataset *d, enum split s);
/* How many names of classes there are, and the names in their order; 0: the data only number them. */
i64  dataset_class_names(const struct dataset *d, const struct str **names);
bool dataset_is_binary(const struct dataset *d); /* a text with zero bytes, which no text has */
/* Copies samples index[0..count) into one buffer a feed, batch axis first. Thread-safe. */
void dataset_fetch(const struct dataset *d, enum split s, const i64 *index, i64 count,
                   void *const *to);
/* Training samples as that epoch has them: another epoch may cut the same data at other places. */
void dataset_fetch_epoch(const struct dataset *d, u64 seed, i64 epoch, const i64 *index, i64 count,
                         void *const *to);

/* The same where data.pieces is set, in the part of a run that has sequences of several pieces. */
void dataset_fetch_pieces(const struct dataset *d, u64 seed, i64 epoch, const i64 *index, i64 count,
                          void *const *to);

/* What the files of a setting are known again by (fingerprint.c); the data set is open. */
#define FINGERPRINTS_MAX 6 /* five of data, and model.path */
struct fingerprint {
    const char *key;  /* "data.path" */
    struct str  text; /* "47040016 bytes, 9f86d081884c7d65" */
};
enum fingerprint_match {
    FINGERPRINT_SAME,
    FINGERPRINT_OTHER,
    FINGERPRINT_UNKNOWN /* names and sizes are the same, and the content was not compared */
};
enum fingerprint_match fingerprint_compare(struct str was, struct str now);
/* Of local files that are no data set. */
enum status fingerprint_files(struct os *os, const struct str *paths, i64 count, struct arena *perm,
                              struct str *out, struct err *err);
enum status dataset_fingerprints(const struct dataset *d, const struct data_config *config,
                                 struct arena *perm, struct fingerprint out[FINGERPRINTS_MAX],
                                 i64 *count, struct err *err);

f64 dataset_best_auc(const struct dataset *d); /* the best any model can do on the held-out
                                           samples, where the truth is known; else NaN */

/* What a sample of a format with stages (data/stage.h) goes through. */
enum stage { STAGE_READ, STAGE_DECODE, STAGE_AUGMENT, STAGE_COUNT };
#define LOADER_WORKERS_MAX 256 /* threads in a stage at once */
#define LOADER_PREFETCH_MAX 64 /* batches */

/* How batches are made ahead; never which. 0: found while it runs, docs/decisions/loader.md. */
struct loader_options {
    i64 workers[STAGE_COUNT]; /* threads that read, decode, augment at once; one number: for each */
    i64 workers_count;
    i64 prefetch;    /* batches ready or being made */
    f64 memory_gib;  /* for samples on their way, batches and kept samples; NaN or 0: half of
                              what is free */
    struct str keep; /* auto | on | off: decoded samples in memory for later epochs */
};

/* Batches in order, made ahead into a bounded ring of buffers: by one thread where samples are mapped
 * memory, else by stages on many. */
struct loader;

struct loader_config {
    enum split split;
    u64        seed;
    bool       shuffle; /* false: 0, 1, 2, …; then group is 0 */
    i64  whole;   /* an epoch ends with the last whole group of so many samples; 0: with the last */
    bool forever; /* after the last batch of an epoch comes the next epoch */
    bool skip;    /* a sample that cannot be had gives its place to the next that can; else the
                             batch that it belongs to ends the loader */
    i64  batch;
    i64  part,
        parts; /* of several ranks each gets its part of every batch, equal to one sample; parts 0: all */
    i64 group;        /* samples of a step, which shall be of similar length; 0: as they come */
    i64 epoch, index; /* where to start: sample `index` of `epoch` */
    i64 epochs;       /* that will be asked for; 0: nobody knows */
    i64 in_pieces;    /* samples of the run, from its first, that dataset_fetch_pieces has */
    i64 queue;        /* samples that may wait before a stage; 0: found while it runs */
    i64 cpu;          /* cores that the stages may keep busy; 0: all */
    struct loader_options options;
};

struct batch {
    i64   epoch, index; /* of the first sample of all ranks' parts */
    i64   all;          /* samples of all ranks: `batch`, or fewer in the last of an epoch */
    i64   first, count; /* this rank's: from which of them on, and how many; one rank: all */
    bool  ends_epoch;
    void *data[FEEDS_MAX]; /* by feed */
};

struct loader_stage_stats {
    i64 workers;
    i64 samples; /* done */
    i64 busy_ns,
        cpu_ns; /* over its threads: in the stage, and computing there; the rest is waiting for
                            a disk, a network, or a core */
};

/* Since it was opened. */
struct loader_stats {
    i64                       waited_ns;        /* that loader_next kept its caller */
    i64                       batches, samples; /* given */
    i64                       skipped;  /* samples that could not be had, in the batches given */
    i64                       prefetch; /* batches, now */
    i64                       kept, kept_bytes; /* decoded samples in memory */
    i64                       stages;           /* 0: mapped memory, none of its own */
    struct loader_stage_stats stage[STAGE_COUNT];
};

enum { LOADER_LINE_MAX = 240 };

/* Training samples that are shuffled together, where the order depends on it; 0: all of them. */
i64  dataset_block(const struct dataset *d);
bool dataset_says(struct dataset *d, char line[LOADER_LINE_MAX]); /* as loader_says */

enum status loader_open(struct arena *perm, struct dataset *d, const struct loader_config *c,
                        struct loader **out, struct err *err);
bool loader_ready(struct loader *l, i64 until_ns); /* would loader_next return soon? Waits for
                                                               that, until then at the latest */
struct batch *loader_next(struct loader *l);       /* valid until the next call; NULL at the end */
enum status   loader_failed(struct loader *l, struct err *err); /* why loader_next gave NULL; OK: it
                                                                   was the last */
bool loader_says(struct loader *l, char line[LOADER_LINE_MAX]); /* what it has decided since;
                                                                            false: nothing more */
struct loader_stats loader_stats(struct loader *l);
/* Returns soon, whatever its threads wait for. False: one is still inside a read that does not end; it
 * keeps the data set, and `perm` and what the data set was opened with must not be freed. */
bool loader_close(struct loader *l);

#endif
