/* maps.cuh - the functions of ops that map element by element, and a list of them to apply one after the other: for
 * map.cu, and for kernels that do the maps of a chain themselves. */
#ifndef BACKEND_CUDA_MODULE_MAPS_CUH
#define BACKEND_CUDA_MODULE_MAPS_CUH
#include "backend/cuda/module/device.cuh"

/* Comparisons stand so that a NaN goes through. */

#define GELU_SCALE 0.79788456080286535588f
#define GELU_CUBIC 0.044715f

__device__ inline f32 gelu_tanh(f32 x) { return tanhf(GELU_SCALE * (x + GELU_CUBIC * x * x * x)); }
__device__ inline f32 gelu(f32 x) { return 0.5f * x * (1 + gelu_tanh(x)); }
__device__ inline f32 gelu_slope(f32 x)
{
    f32 t = gelu_tanh(x);
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * GELU_SCALE * (1 + 3 * GELU_CUBIC * x * x);
}
__device__ inline f32 gelu_erf_slope(f32 x)
{
    return normcdff(x) + x * 0.3989422804f * expf(-0.5f * x * x);
}
__device__ inline f32 sigmoid(f32 x) { return 1 / (1 + expf(-x)); }
__device__ inline f32 silu_slope(f32 x)
{
    f32 s = sigmoid(x);
    return s * (1 + x * (1 - s));
}

#define MAP1(name, f)                                                                              \
    struct map_##name {                                                                            \
        __device__ f32 operator()(f32 x) const { return (f); }                                     \
    };
#define MAP2(name, a, b, f)                                                                        \
    struct map_##name {                                                                            \
        __device__ f32 operator()(f32 a, f32 b) const { return (f); }                              \
    };
MAP2(ADD, a, b, a + b)
MAP2(SUB, a, b, a - b)
MAP2(MUL, a, b, (a * b))
MAP2(DIV, a, b, a / b)
MAP1(RELU, x < 0 ? 0 : x)
MAP2(RELU_GRAD, dy, y, y <= 0 ? 0 : dy)
MAP1(RELU2, x < 0 ? 0 : x * x)
MAP2(RELU2_GRAD, dy, x, x < 0 ? 0 : 2 * x * dy)
MAP1(GELU, gelu(x))
MAP2(GELU_GRAD, dy, x, gelu_slope(x) * dy)
MAP1(GELU_ERF, x *normcdff(x))
MAP2(GELU_ERF_GRAD, dy, x, gelu_erf_slope(x) * dy)
MAP1(SILU, x / (1 + expf(-x)))
MAP2(SILU_GRAD, dy, x, silu_slope(x) * dy)
MAP1(TANH, tanhf(x))
MAP2(TANH_GRAD, dy, y, (1 - y * y) * dy)
MAP1(SIGMOID, sigmoid(x))
MAP2(SIGMOID_GRAD, dy, y, (1 - y) * y * dy)
MAP1(EXP, expf(x))
MAP1(LOG, logf(x))
MAP1(SQRT, sqrtf(x))
#undef MAP1
#undef MAP2

struct map_SCALE {
    f32            mul, add;
    __device__ f32 operator()(f32 x) const { return add + x * mul; }
};
struct map_SOFTCAP {
    f32            cap;
    __device__ f32 operator()(f32 x) const { return tanhf(x / cap) * cap; }
};
struct map_SOFTCAP_GRAD {
    f32            cap;
    __device__ f32 operator()(f32 dy, f32 y) const { return (1 - y / cap * (y / cap)) * dy; }
};

/* --- several maps in one pass --- */

struct maps {
    i32         count, op[1 + THEN_MAX];
    const void *operand[1 + THEN_MAX]; /* NULL: of one operand */
    f32         mul, add, cap;
};

/* v = f(v) or f(v, w), each number rounded as it would be if it were stored. */
template <int N, class T, class F> __device__ inline void each(T *v, F f)
{
#pragma unroll
    for (int n = 0; n < N; n++) v[n] = from_f32<T>(f(n, to_f32(v[n])));
}

/* One map of N numbers: which one is asked once for all of them. */
template <int N, class T>
__device__ inline void apply(const struct maps &m, i32 op, T *v, const T *w)
{
    /* clang-format off */
    switch (op) {
#define AS_MAP1(name) case OP_##name: return each<N>(v, [&](int, f32 x) { return map_##name()(x); });
#define AS_MAP2(name) case OP_##name: return each<N>(v, [&](int n, f32 x) { return map_##name()(x, to_f32(w[n])); });
    AS_MAP2(ADD) AS_MAP2(SUB) AS_MAP2(MUL) AS_MAP2(DIV) AS_MAP1(RELU) AS_MAP2(RELU_GRAD) AS_MAP1(RELU2)
    AS_MAP2(RELU2_GRAD) AS_MAP1(GELU) AS_MAP2(GELU_GRAD) AS_MAP1(GELU_ERF) AS_MAP2(GELU_ERF_GRAD)
    AS_MAP1(SILU) AS_MAP2(SILU_GRAD) AS_MAP1(TANH)
    AS_MAP2(TANH_GRAD) AS_MAP1(SIGMOID) AS_MAP2(SIGMOID_GRAD) AS_MAP1(EXP) AS_MAP1(LOG) AS_MAP1(SQRT)
    case OP_SCALE: return each<N>(v, [&](int, f32 x) { return map_SCALE{ m.mul, m.add }(x); });
    case OP_SOFTCAP: return each<N>(v, [&](int, f32 x) { return map_SOFTCAP{ m.cap }(x); });
    case OP_SOFTCAP_GRAD: return each<N>(v, [&](int n, f32 x) { return map_SOFTCAP_GRAD{ m.cap }(x, to_f32(w[n])); });
    default: return each<N>(v, [&](int, f32) { return NAN; });
    }
    /* clang-format on */
}

static inline void add_map(struct maps *m, const struct gpu_call *c, i32 op, i32 *operand)
{
    m->op[m->count]        = op;
    m->operand[m->count++] = op_info(op)->in_min == 2 ? c->in[(*operand)++].data : NULL;
}

#endif
