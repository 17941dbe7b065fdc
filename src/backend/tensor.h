/* tensor.h - a value in memory, as kernels of any backend see it. */
#ifndef BACKEND_TENSOR_H
#define BACKEND_TENSOR_H
#include "ir/type.h"

struct tensor {
    void       *data;
    struct type type;
    i64         count; /* elements */
};

#endif
