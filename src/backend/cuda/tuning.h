/* tuning.h - which of the libraries' algorithms was the fastest for each matrix product and convolution, as text.
 *
 * Choices are kept in the user's cache folder, one file a kind of GPU and version of the library,
 * so that only the first run of a shape is slowed by trying; the same text may travel in a checkpoint.
 * The library's documentation allows an algorithm to be stored as it is for the same version of it.
 * This file is of the program and of the CUDA module alike. docs/formats/tuning.md has the text. */
#ifndef BACKEND_CUDA_TUNING_H
#define BACKEND_CUDA_TUNING_H
#include "base/err.h"
#include "base/os.h"
#include "ir/op.h"

struct product { /* what a choice depends on; without padding, compared as bytes */
    i64        M, N, K, batch;
    i64        ta, tb;
    i64        fp8;           /* 0: not; else 1 + `format` of op matmul_fp8, and `in` is u8 */
    enum dtype in, out, bias; /* bias DT_COUNT: none */
    i32        then;          /* the map done inside: OP_ADD, OP_GELU, OP_GELU_GRAD; -1: none */
};

_Static_assert(sizeof(struct product) == 7 * 8 + 4 * 4, "no padding");

enum { ALGO_WORDS = 8 }; /* cublasLtMatmulAlgo_t */
enum { TUNED_MAX = 2048 };

struct tuned {
    struct product product;
    i64            tried; /* algorithms it was chosen from */
    f64            us;    /* it took */
    u64            algo[ALGO_WORDS];
    bool           used; /* in this process; no part of the text */
};

/* A convolution, with what follows it in the same graph; without padding, compared as bytes. */
struct conv_kind {
    i64 op, N, H, W, C, O, OH, OW, KH, KW, stride, pad;
    i64 in, out, bias; /* dtypes; bias DT_COUNT: none */
    i64 any_order;     /* of sums */
    i64 map_count, maps[THEN_MAX];
};

/* How it is done: by one of cuDNN's engines; as a matrix product; in the low type, with a cast behind it; by a
 * convolution without the maps, which follow. */
#define WAYS(W) W(ENGINE, "engine") W(PRODUCT, "product") W(LOW, "low") W(APART, "apart")
enum way {
#define WAY(name, text) WAY_##name,
    WAYS(WAY)
#undef WAY
        WAY_COUNT
};

enum { TUNED_CONVS_MAX = 1024, KNOBS_MAX = 64 }; /* cuDNN 9 has 44 types of knobs */

struct knob { /* of an engine, in cuDNN's numbers */
    i64 type, value;
};

struct tuned_conv {
    struct conv_kind kind;
    i64              library; /* cuDNN's version */
    enum way         way;
    i64              tried; /* engines it was chosen from */
    f64              us;
    i64              engine; /* WAY_ENGINE; else 0 */
    struct knob      knobs[KNOBS_MAX];
    i32              knob_count;
    bool             used;
    bool             exact; /* of the run that is resumed: taken for its bits, whatever it takes */
};

struct tuning {
    struct str        gpu;     /* its name, one line */
    i64               library; /* version */
    struct tuned      list[TUNED_MAX];
    i32               count;
    struct tuned_conv convs[TUNED_CONVS_MAX];
    i32               conv_count;
    bool              changed; /* since it was read or written */
    bool              exact;   /* what is parsed now is of a checkpoint */
};

/* NULL: not known, or chosen from fewer than `tried`. */
struct tuned *tuning_find(struct tuning *t, const struct product *p, i64 tried);
void          tuning_add(struct tuning *t,
                         struct tuned   choice); /* in place of what there was; full: nothing */

struct tuned_conv *tuning_find_conv(struct tuning *t, const struct conv_kind *k, i64 library,
                                    i64 tried);
void               tuning_add_conv(struct tuning *t, const struct tuned_conv *choice);

/* Which of cuDNN's engines to try for a kind: straight, those that store the result in its own type; low, those that
 * store it in the operands' type and have a cast behind them. `kept`: the choice for this kind, or NULL. `low`: low is
 * possible.
 *
 * A 16-bit weight gradient stored in f32 is tried straight only where low is not possible. cuDNN 9.19 has one engine
 * for it, on Hopper alone, and compiles it when the plan is made. Of the 38 plans that it compiled for a ResNet-50, 22
 * were of this engine: half of the 20 s of core time in a first run. None of the network's 23 weight gradients chose
 * it (bench/results/gpu-2026-11-18.txt). */
bool tuning_tries_straight(const struct conv_kind *k, const struct tuned_conv *kept, bool low);
bool tuning_tries_low(const struct conv_kind *k, const struct tuned_conv *kept);

struct str tuning_print(const struct tuning *t, struct arena *perm);
struct str tuning_print_used(const struct tuning *t, struct arena *perm);
/* Adds what the text holds, if it is for the same GPU and library. STATUS_USAGE: it is not, or is no such
 * text; then nothing is added. */
enum status tuning_parse(struct tuning *t, struct str text, struct arena scratch, struct err *err);

/* $XDG_CACHE_HOME/frugal/gemm-GPU-VERSION.txt; empty: there is no home. */
struct str tuning_path(struct os *os, const struct tuning *t, struct arena *perm);
/* A file that is not there is empty; one that cannot be read has its sentence. */
enum status tuning_load(struct tuning *t, struct os *os, struct arena scratch, struct err *err);
/* Adds ours to what others wrote meanwhile. */
enum status tuning_save(struct tuning *t, struct os *os, struct arena scratch, struct err *err);

#endif
