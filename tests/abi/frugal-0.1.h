/* frugal.h - frugal as a library: a graph of your own, ops of your own, compiled and trained.
 *
 *     static int build(void *context, struct frugal_graph *g, int64_t batch, int training)
 *     {
 *         int x = frugal_input(g, "x", FRUGAL_F32, 2, (int64_t[]){ batch, 4 });
 *         int w = frugal_param(g, "w", 2, (int64_t[]){ 1, 4 }, FRUGAL_NORMAL, 0.1);
 *         int y = frugal_apply(g, "matmul", "dense", (int[]){ x, w }, 2, "tb=1");
 *         ...
 *         frugal_output(g, loss, "loss");          // [1]: the SUM of the rows' losses
 *         return 0;
 *     }
 *
 *     struct frugal_config config = { .batch = 32, .optimiser = "adamw", .lr = 1e-3 };
 *     char                 why[FRUGAL_TEXT_MAX];
 *     struct frugal_run   *run = frugal_start(&config, build, NULL, why);
 *     frugal_put(run, "x", data, bytes);
 *     double loss = frugal_step(run, 32);          // mean over the 32 rows
 *     frugal_stop(run);
 *
 * The ops are those of src/ir/ops.def and any registered with frugal_op_register; attributes are
 * written as in `frugal show`. Values are small numbers, -1 after an error: the first error of a
 * graph is kept and frugal_start reports it. One thread may use a run at a time. Nothing here
 * prints or exits. examples/own_layer.c is a whole program.
 *
 * What stays: a program that was compiled and linked with libfrugal.so.0 runs with every later libfrugal.so.0.
 * Functions and the numbers in the enums keep their meaning. struct frugal_tensor and struct
 * frugal_attributes keep their layout; struct frugal_config and struct frugal_op may get new fields at
 * their end, of which 0 means "as before": set the rest of them to 0, as `= { ... }` does. */
#ifndef FRUGAL_H
#define FRUGAL_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum frugal_dtype { FRUGAL_F32, FRUGAL_BF16, FRUGAL_F16, FRUGAL_F64, FRUGAL_I32, FRUGAL_U8 };
enum frugal_init { FRUGAL_ZERO, FRUGAL_CONST, FRUGAL_NORMAL, FRUGAL_UNIFORM };

#if defined(__GNUC__)
#define FRUGAL_API __attribute__((visibility("default")))
#else
#define FRUGAL_API
#endif

#define FRUGAL_RANK_MAX 6
#define FRUGAL_TEXT_MAX 512 /* room for one sentence */

struct frugal_graph;
struct frugal_run;

FRUGAL_API const char *frugal_version(void); /* of the library that runs: "0.1.0" */

/* --- building: inside the build function --- */

/* Called once for each program (training, evaluation). Returns 0, or anything else to give up. */
typedef int frugal_build_fn(void *context, struct frugal_graph *g, int64_t batch, int training);

FRUGAL_API int frugal_input(struct frugal_graph *g, const char *name, enum frugal_dtype dtype,
                            int rank, const int64_t *dims);
FRUGAL_API int frugal_param(struct frugal_graph *g, const char *name, int rank, const int64_t *dims,
                            enum frugal_init init, double scale);
/* attributes may be NULL. Returns the first result; further ones are numbered after it. */
FRUGAL_API int     frugal_apply(struct frugal_graph *g, const char *op, const char *name,
                                const int *inputs, int count, const char *attributes);
FRUGAL_API void    frugal_output(struct frugal_graph *g, int value, const char *name);
FRUGAL_API int     frugal_rank(struct frugal_graph *g, int value); /* 0 where there is no such */
FRUGAL_API int64_t frugal_dim(struct frugal_graph *g, int value, int axis); /* value or axis */

/* --- ops of your own --- */

struct frugal_tensor {
    enum frugal_dtype dtype;
    int               rank;
    int64_t           dim[FRUGAL_RANK_MAX];
    int64_t           count;
    void             *data; /* NULL in the shape rule */
};

struct frugal_attributes { /* "i0=3 f0=0.5" in frugal_apply */
    int64_t i0;
    double  f0;
};

struct frugal_op {
    const char *name;            /* must outlive the process */
    int         inputs, results; /* results: at most 3 */
    /* Fills dtype, rank and dim of each result; anything but 0: the inputs do not fit. */
    int (*shape)(const struct frugal_tensor *in, struct frugal_tensor *out,
                 const struct frugal_attributes *at);
    /* The naive kernel: called from one thread. */
    void (*run)(const struct frugal_tensor *in, const struct frugal_tensor *out,
                const struct frugal_attributes *at);
    /* Emits the gradient with frugal_apply: dout[i] is the gradient of result i or -1; set din[i]
     * for each input, or leave it -1. NULL: the op cannot lie between a parameter and the loss. */
    void (*grad)(struct frugal_graph *g, const int *in, const int *out, const int *dout, int *din,
                 const struct frugal_attributes *at);
};

/* Called by frugal_op_register: `bytes` is the size of struct frugal_op that the caller was compiled with. */
FRUGAL_API int frugal_op_register_sized(const struct frugal_op *op, size_t bytes, char *why);
/* Returns 0, or writes one sentence to why (which may be NULL). */
static inline int frugal_op_register(const struct frugal_op *op, char *why)
{
    return frugal_op_register_sized(op, sizeof *op, why);
}

/* --- running --- */

struct frugal_config {
    int64_t     batch;
    int64_t     eval_batch; /* 0: no evaluation program */
    int         threads;    /* 0: what the machine has */
    uint64_t    seed;
    const char *optimiser; /* "sgd", "adam", "adamw" (NULL) or "muon" */
    double      lr, beta1, beta2, eps, decay, momentum, clip; /* 0: the usual (lr has none) */
    double      muon_lr; /* of hidden matrices; lr is then that of the rest; 0: 0.02 */
    const char *init;    /* safetensors to start from; NULL: random */
    const char *freeze;  /* glob over parameter names; NULL: none */
};

/* Called by frugal_start: `bytes` is the size of struct frugal_config that the caller was compiled with. */
FRUGAL_API struct frugal_run *frugal_start_sized(const struct frugal_config *config, size_t bytes,
                                                 frugal_build_fn *build, void *context, char *why);
/* Compiles, allocates all memory there will be, sets the weights. NULL: one sentence in why. */
static inline struct frugal_run *frugal_start(const struct frugal_config *config,
                                              frugal_build_fn *build, void *context, char *why)
{
    return frugal_start_sized(config, sizeof *config, build, context, why);
}
/* Inputs in, anything named out (parameters, "NAME.grad", outputs). Returns 0, or -1 where there
 * is no such name or it is smaller than that. */
FRUGAL_API int frugal_put(struct frugal_run *run, const char *name, const void *from, size_t bytes);
FRUGAL_API int frugal_get(struct frugal_run *run, const char *name, void *to, size_t bytes);
FRUGAL_API double frugal_step(struct frugal_run *run,
                              int64_t            rows); /* gradients, update; mean loss */
FRUGAL_API double frugal_evaluate(struct frugal_run *run,
                                  int64_t            rows); /* mean loss; nothing changes */
FRUGAL_API void   frugal_set_lr(struct frugal_run *run, double lr);
FRUGAL_API int frugal_save(struct frugal_run *run, const char *path, char *why); /* safetensors */
FRUGAL_API int64_t frugal_memory_bytes(const struct frugal_run *run); /* planned, exact */
FRUGAL_API void    frugal_stop(struct frugal_run *run);

#ifdef __cplusplus
}
#endif
#endif
