/* use.h - a trained model opened to be used: evaluated on held-out data, asked for classes, asked for the next token.
 *
 * The same data, graph, kernels and weights as in training, and no memory for gradients. The weights are those of
 * train.init, or with model.kind=hf and without it those of the folder. */
#ifndef TRAIN_USE_H
#define TRAIN_USE_H
#include "train/train.h"

struct use;

/* A folder of adapters in the place of a model's becomes the model's folder, train.init and train.lora. */
enum status use_settings(struct os *os, struct settings *settings, struct arena *perm,
                         struct err *err);

enum use_kind { USE_EVALUATE, USE_PREDICT, USE_ROWS };
/* With the settings' data; the caller's settings need not live on. USE_ROWS opens no files of data where the settings,
 * the model, or the names of classes in the weights say what a row becomes and how many classes there are. */
enum status use_open(struct os *os, const struct settings *settings, enum use_kind kind,
                     struct use **out, struct err *err);
/* Of a model of classes, opened with USE_PREDICT: how many held-out samples of each class, a row, were taken for each,
 * a column. */
struct use_confusion {
    i64         classes;
    i64        *counts; /* [classes][classes] */
    struct str *names;  /* of the classes; empty where one has only its number */
};
enum status use_confuse(struct use *u, struct use_confusion *out, struct arena *perm,
                        struct err *err);

/* Whether keys and values of what was read are kept for the tokens to come, or each token costs a pass over the whole
 * sequence. AUTO: they are. */
enum use_cache { USE_CACHE_AUTO, USE_CACHE_ON, USE_CACHE_OFF };
/* Without data: to continue sequences of up to `length` tokens, several at a time; of a model of tokens. length 0: as
 * long as it can. */
struct use_next_config {
    i64            length, sequences;
    enum use_cache cache;
    struct session *
        now; /* a run whose weights are taken as they are, on the processor; NULL: those of the settings */
};
enum status use_open_next(struct os *os, const struct settings *settings,
                          const struct use_next_config *config, struct use **out, struct err *err);
void        use_close(struct use *u); /* NULL: nothing. After a failure to open, too */

/* Loss and metrics on the held-out samples: what training's last evaluation says. */
enum status use_evaluate(struct use *u, struct train_eval *out, struct err *err);

struct str use_class_name(const struct use *u, i64 class); /* empty: it has only its number */
/* Each held-out sample in turn: the probability of each class, of clicks that of a click alone. */
typedef void use_answer(void *context, i64 sample, const f64 *probability, i64 count);
enum status  use_predict(struct use *u, use_answer *answer, void *context, struct err *err);
/* Opened with USE_ROWS: the same for each line of a stream (data/rows.h), when it has come, until the stream ends or a
 * line is refused. Lines that are there together are answered together, up to train.eval_batch of them. */
enum status use_rows(struct use *u, struct file in, use_answer *answer, void *context,
                     struct err *err);

struct train_loaded use_loaded(const struct use *u); /* its weights, from their files */
bool use_must_stop(struct use *u); /* the run whose weights it took, or we, were asked to stop */
/* Of a run that goes on, for who opens another with its weights. */
const struct settings *use_run_settings(const struct session *now);
struct os             *use_run_os(const struct session *now);

i64 use_length(const struct use *u);     /* of a sequence, at most */
i64 use_vocabulary(const struct use *u); /* tokens that may come next */
i64 use_sequences(const struct use *u);  /* at a time */

struct use_text {
    const i32 *tokens; /* those of earlier calls, and at least one more */
    i64        count;  /* 1 to use_length; 0: this one is not asked */
};
/* The logits of the next token of each of use_sequences texts, [sequences][vocabulary]. */
void use_next(struct use *u, const struct use_text *texts, f64 *logits);
/* The likeliest next token of each text that is asked, the first of equal ones. */
void use_likeliest(struct use *u, const struct use_text *texts, i32 *tokens);
void use_forget(struct use *u, i64 index); /* the text there is another one from now on */

#endif
