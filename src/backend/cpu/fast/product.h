/* product.h - a matrix product inside another kernel: whichever kernel of op matmul suits it runs.
 * Its workspace is part of the caller's. */
#ifndef BACKEND_CPU_FAST_PRODUCT_H
#define BACKEND_CPU_FAST_PRODUCT_H
#include "backend/cpu/kernel.h"

struct product { /* c = a . b, all of one type; the shapes are those of a and b as they lie */
    void        *c;
    const void  *a, *b;
    struct shape a_shape, b_shape;
    bool         ta, tb;
    enum dtype   dtype;
};

i64  product_work(const struct product *p); /* bytes; of the shapes alone */
void product_run(const struct product *p, struct pool *pool, void *work);

#endif
