/* target.h - a machine as compile and plan see it: how much, how fast, and what its backend must
 * be told. Backends describe the one at hand; the catalogue describes the others. */
#ifndef IR_TARGET_H
#define IR_TARGET_H
#include "ir/graph.h"

/* What compile does in one pass over memory: the patterns of compile/fuse.c. */
#define FUSIONS(FUSION)                                                                            \
    FUSION(EPILOGUE, "epilogue", "maps that follow a product or convolution")                      \
    FUSION(BATCHNORM, "batchnorm", "maps that follow a batch norm")                                \
    FUSION(RESIDUAL, "residual", "a sum and the norm of it; a norm's gradient and its sum")        \
    FUSION(CHAIN, "chain", "maps that follow each other")                                          \
    FUSION(LOSS, "loss", "the loss over a vocabulary and its gradient, in parts")

enum fusion_index {
#define FUSION(id, name, what) FUSION_##id,
    FUSIONS(FUSION)
#undef FUSION
        FUSION_COUNT
};
enum fusion { /* bits of a set */
#define FUSION(id, name, what) FUSE_##id = 1 << FUSION_##id,
              FUSIONS(FUSION)
#undef FUSION
                  FUSE_ALL = (1 << FUSION_COUNT) - 1
};

/* What holds of every target of a kind, at hand or in the catalogue. */
enum { TARGET_CPU_ALIGN_BYTES = 64 };  /* a cache line, and the widest vector */
enum { TARGET_GPU_ALIGN_BYTES = 256 }; /* what cuBLASLt and cuDNN like best */
/* Products of fewer rows would leave processors idle (bench/results/gpu-profile-2026-11-18.txt). */
#define TARGET_GPU_LOSS_PART_BYTES ((i64)5 << 29)

struct target {
    struct str  name;
    struct str  bus_id;            /* of a GPU, as its driver writes it; empty: none */
    i64         memory_bytes;      /* usable for the arena */
    f64         flops_s[DT_COUNT]; /* of matrix products by element type; 0 = unknown */
    f64         bandwidth_bytes_s; /* 0 = unknown */
    bool        fp8;               /* has units for products of 8-bit floats */
    enum dtype  low;               /* in which products run faster than in f32; F32: in none */
    bool        low_conv;          /* convolutions run faster in it, too */
    const char *low_by;            /* what makes them so, or what is missing for it */
    i32         threads;
    i32         gpus;        /* that it holds; 0: it is a processor */
    i32         queues;      /* of its instructions; 2: collectives run beside others; 0: one */
    i64         align_bytes; /* of every tensor in the arena */
    i64  loss_part_bytes;    /* logits at a time where a loss and its gradient are taken at once;
                                        0: they are not */
    bool copies; /* weights that products read in a low type stay in it, too, between updates */
    u32  fusions_off; /* set of enum fusion that its backend lacks or loses by */
    /* What the kernel that will run this node needs besides its operands. */
    i64 (*work_bytes)(const struct target *, const struct graph *, const struct node *);
    /* Name of that kernel, for the program's text. */
    const char *(*kernel_name)(const struct target *, const struct graph *, const struct node *);
    /* Seconds of that kernel, tried out when first asked for; 0: not known. */
    f64 (*seconds)(const struct target *, const struct graph *, const struct node *);
    /* Seconds of a copy inside its memory that moves so many bytes, half of them read and half
     * written: measured when first asked for. NULL, or 0: not known, go by bandwidth_bytes_s. */
    f64 (*copy_s)(const struct target *, f64 bytes);
    void *backend;
};

/* Seconds of a node: measured or, where nobody can, by the rates above; for rates that are not known
 * those of two common cores are taken. */
f64 target_seconds(const struct target *t, const struct graph *g, const struct node *n,
                   struct arena scratch);

#endif
