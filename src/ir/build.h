/* build.h - shorthands for building graphs by hand: one function an op that models use.
 * Each takes the graph, the node's stable name and its operands, and returns the result's id. */
#ifndef IR_BUILD_H
#define IR_BUILD_H
#include "ir/graph.h"
#include "ir/rope.h"

i32 build_unary(struct graph *g, i32 op, struct str name, i32 x);
i32 build_binary(struct graph *g, i32 op, struct str name, i32 a, i32 b);
i32 build_scale(struct graph *g, struct str name, i32 x, f64 mul, f64 add);
i32 build_cast(struct graph *g, struct str name, i32 x, enum dtype to);
i32 build_reshape(struct graph *g, struct str name, i32 x, struct shape to);
i32 build_transpose(struct graph *g, struct str name, i32 x, struct shape permutation);
i32 build_concat(struct graph *g, struct str name, const i32 *x, i32 count, i32 axis);
i32 build_slice(struct graph *g, struct str name, i32 x, i32 axis, i64 start, i64 count);
i32 build_sum(struct graph *g, struct str name, i32 x, i32 axis, i32 count);
i32 build_broadcast(struct graph *g, struct str name, i32 x, i32 axis, struct shape sizes);
/* bias may be -1. */
i32 build_matmul(struct graph *g, struct str name, i32 a, i32 b, i32 bias, bool ta, bool tb);
i32 build_embedding(struct graph *g, struct str name, i32 table, i32 ids);
i32 build_layernorm(struct graph *g, struct str name, i32 x, i32 w, i32 b, f64 eps);
i32 build_rmsnorm(struct graph *g, struct str name, i32 x, i32 w, f64 eps); /* w may be -1 */
/* Training: statistics of the batch, running ones updated; else the running ones are used. */
i32 build_batchnorm(struct graph *g, struct str name, i32 x, i32 w, i32 b, i32 mean, i32 var,
                    f64 eps, f64 momentum, bool training);
i32 build_conv2d(struct graph *g, struct str name, i32 x, i32 w, i32 bias, i64 stride, i64 pad);
i32 build_pool(struct graph *g, i32 op, struct str name, i32 x, i64 kernel, i64 stride, i64 pad);
/* Which keys a query sees, and how much of what it sees is dropped in training. */
struct seeing {
    bool causal;
    i64  window; /* 0: none */
    f64  dropout;
    f64  scale; /* 0: 1/sqrt(head_dim) */
};
/* given: lens i32[B], or positions i32[B,T] in documents, or -1. */
i32 build_attention(struct graph *g, struct str name, i32 qkv, i32 given, i64 heads, i64 kv_heads,
                    struct seeing how);
/* at: positions i32[B,T]; -1: the index on axis 1. */
i32 build_rope(struct graph *g, struct str name, i32 qkv, i32 at, i64 heads, i64 head_dim, f64 base,
               struct rope_scaling scaling);
i32 build_qknorm(struct graph *g, struct str name, i32 qkv, i64 heads, i64 head_dim, f64 eps);
i32 build_softcap(struct graph *g, struct str name, i32 x, f64 cap);
/* Sequences x i32[B,T] without their padding, by lens i32[B]; g->rows of them, or all there may be. */
struct packed {
    i32 tokens, sample, position; /* i32[rows] */
    i32 offsets;                  /* i32[B+1]; -1: nothing is packed */
    i64 longest;
};
struct packed build_pack(struct graph *g, struct str name, i32 x, i32 lens);
i32 build_attention_packed(struct graph *g, struct str name, i32 qkv, const struct packed *rows,
                           i64 heads, i64 kv_heads, struct seeing how);
/* Rows of sequences that are continued, with what came before them in a cache. */
struct cached {
    i32 sequence, place;   /* i32[rows]; -1: nothing is cached */
    i64 sequences, length; /* that the cache holds, and of each the longest */
};
/* The cache is the graph's VALUE_CACHE NAME.cache. */
i32 build_attention_cached(struct graph *g, struct str name, i32 qkv, const struct cached *rows,
                           i64 heads, i64 kv_heads, i64 window);
/* p == 0 returns x itself. The rng tensor is the graph's scalar "rng". */
i32 build_dropout(struct graph *g, struct str name, i32 x, f64 p);
i32 build_dropout_packed(struct graph *g, struct str name, i32 x, f64 p, const struct packed *rows);
i32 build_xent(struct graph *g, struct str name, i32 logits, i32 targets, f64 smoothing);

#endif
