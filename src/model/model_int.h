/* model_int.h - what the builders of this room share: the model under construction, and the parts
 * that more than one of them uses. */
#ifndef MODEL_MODEL_INT_H
#define MODEL_MODEL_INT_H
#include "ir/build.h"
#include "model/model.h"

struct builder; /* below */

struct model_kind {
    const char *name;
    const char *data; /* data kinds that suit it */
    enum status (*check)(const struct model *m, struct err *err);
    enum status (*build)(struct builder *b, struct err *err);
};

struct model {
    struct model_config      config;
    struct feeds             feeds;
    const struct model_kind *kind;
    struct model_config      names; /* of matrices that have adapters: lora.h */
};

/* One building of a graph. Parts take values by id and give back ids; the graph's error is
 * sticky, so a part needs no check of its own and an id may be -1 once it is set. */
struct builder {
    const struct model *m;
    struct graph       *g;
    i64                 batch;
    enum graph_mode     mode;
    struct packed rows; /* that x has now instead of [batch, T]; offsets -1: it is not packed */
    struct cached
        cached; /* as rows, of one token each, instead of [batch, T]; sequence -1: not so */
    i32 position; /* i32[batch, T] in documents that attention does not leave; -1: it may see all before it */
    u32 lora_used; /* names of train.lora.on that meant a matrix, a bit each */
};

/* The sizes that a setting or a layer's key may have: large enough for every model, and small
 * enough that the product of any two and a context stays far from 64 bits. */
#define MODEL_COUNT_MAX ((i64)1 << 20)
#define MODEL_DEPTH_MAX 1024
#define LORA_RANK_MAX 1024
#define MODEL_WINDOW_MAX ((i64)1 << 24)      /* the longest data.context */
#define MODEL_PARAM_COUNT_MAX ((i64)1 << 40) /* numbers in one tensor of weights */

/* ---- model.c: checks of settings; the sentence names the option's key */
enum status check_feed(const struct model *m, struct str name, enum dtype dtype, i32 rank,
                       struct err *err); /* rank 0 or 1 */
enum status check_count(const char *key, i64 value, i64 least, i64 most, struct err *err);
enum status check_fraction(const char *key, f64 value, struct err *err); /* [0, 1) */
enum status check_word(const char *key, struct str value, const char *choices, struct err *err);
/* choices: "layer rms" */

/* ---- parts.c */
struct dense {
    i64         units;
    bool        bias;
    struct init init; /* of the weight */
};

struct str   part_name(struct builder *b, struct str path, const char *leaf); /* path.leaf */
struct shape part_sample(const struct builder *b, i32 x); /* shape without the batch axis */
struct init  part_glorot(i64 fan_in, i64 fan_out); /* uniform, Glorot and Bengio 2010, (16) */
i32          part_input(struct builder *b, struct str feed);
i32          part_float(struct builder *b,
                        i32             x); /* in the model's element type; u8 scaled as its feed says */
i32 part_weight(struct builder *b, struct str path, struct shape s, struct init init); /* decays */
i32 part_vector(struct builder *b, struct str path, const char *leaf, i64 count, f64 value);
i32 part_dense(struct builder *b, struct str path, i32 x, struct dense d);
/* The weight of that dense layer is several, one below the other, with so many rows; the third may be 0. */
void part_packed(struct builder *b, struct str path, i64 first, i64 second, i64 third);
i32  part_layernorm(struct builder *b, struct str path, i32 x, f64 eps);
i32  part_rmsnorm(struct builder *b, struct str path, i32 x, f64 eps);
i32  part_batchnorm(struct builder *b, struct str path, i32 x);
i32  part_dropout(struct builder *b, struct str path, i32 x, f64 rate); /* x itself in evaluation */
bool part_activation_find(struct str name, i32 *op);
struct str part_activation_name(i32 index);                  /* data NULL past the last */
void       part_loss_classes(struct builder *b, i32 logits); /* outputs loss and, one target a
                                                              sample, hits */
void       part_loss_clicks(struct builder *b, i32 logits);  /* [batch]; outputs loss, scores */

/* ---- block.c: the halves of a transformer block, from the model's settings */
struct block {
    bool causal;    /* a position reads only those before it */
    f64  out_scale; /* factor on the first values of the matrices that write to the residual */
    f64  eps;       /* of the norms */
    bool values;    /* attention's values get a row of a table by token */
};

enum status block_check(const struct model *m, struct err *err);
void block_pack(struct builder *b); /* from here on x is the rows that are no padding, by lens */
void block_continue(struct builder *b); /* from here on x is new tokens of sequences in a cache */
i32  block_first(struct builder *b, i32 x); /* of each sequence; from here on nothing is packed */
i32  block_embed(struct builder *b);        /* tokens x by wte, and their positions by wpe */
i32  block_norm(struct builder *b, struct str path, i32 x, const struct block *k);
i32  block_attention(struct builder *b, struct str path, i32 x, const struct block *k);
i32  block_mlp(struct builder *b, struct str path, i32 x, const struct block *k);
i64  block_hidden(const struct model_config *c); /* width between the two matrices */
struct init block_init(f64 scale);               /* normal, 0.02 * scale: Radford et al. 2019 */
struct init block_init_or_zero(bool zero, f64 scale);

/* ---- lora.c */
/* The frozen matrix of a dense layer, unpacked from fewer bits; -1: it is kept as it is. */
i32         part_frozen(struct builder *b, struct str path, struct shape s);
i32         part_lora(struct builder *b, struct str path, i32 x,
                      i32 y); /* y, the dense layer of x, and its adapters */
enum status lora_check(const struct model *m, struct err *err);
enum status lora_freeze(struct builder *b, struct err *err); /* once all is built */

/* ---- one file each */
#define MODEL(name, data, check, build)                                                            \
    enum status check(const struct model *m, struct err *err);                                     \
    enum status build(struct builder *b, struct err *err);
#include "model/models.def"
#undef MODEL

#endif
