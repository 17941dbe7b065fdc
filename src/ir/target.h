/* target.h - a machine as compile and plan see it: how much, how fast, and what its backend must
 * be told. Backends describe the one at hand; the catalogue describes the others. */
#ifndef IR_TARGET_H
#define IR_TARGET_H
#include "ir/graph.h"

struct target {
    struct str name;
    i64        memory_bytes;         /* usable for the arena */
    f64        flops_s[DT_COUNT];    /* of matrix products by element type; 0 = unknown */
    f64        bandwidth_bytes_s;    /* 0 = unknown */
    enum dtype low;                  /* in which products run faster than in f32; F32: in none */
    const char *low_by;              /* what makes them so, or what is missing for it */
    i32        threads;
    i64        align_bytes;          /* of every tensor in the arena */
    /* What the kernel that will run this node needs besides its operands. */
    i64 (*work_bytes)(const struct target *, const struct graph *, const struct node *);
    /* Name of that kernel, for the program's text. */
    const char *(*kernel_name)(const struct target *, const struct graph *, const struct node *);
    /* Seconds of that kernel, tried out when first asked for; 0: not known. */
    f64 (*seconds)(const struct target *, const struct graph *, const struct node *);
    void *backend;
};

/* Seconds of a node: measured or, where nobody can, by the rates above; for rates that are not known
 * those of two common cores are taken. */
f64 target_seconds(const struct target *t, const struct graph *g, const struct node *n,
                   struct arena scratch);

#endif
