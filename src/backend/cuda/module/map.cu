/* map.cu - element by element: each is read before it is written, so any operand may be the result. */
#include "backend/cuda/module/early.cuh"
#include "backend/cuda/module/launch.h"
#include "backend/cuda/module/maps.cuh"
#include "backend/cuda/module/random.cuh"

enum { THREADS = 256 };

/* --- one operand --- */

template <class T, class F> __global__ void map1(T *y, const T *x, i64 count, F f)
{
    constexpr int N = pack<T>::N;
    i64           i = ((i64)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i + N <= count) {
        pack<T> v = load_pack(x + i);
#pragma unroll
        for (int k = 0; k < N; k++) v.v[k] = from_f32<T>(f(to_f32(v.v[k])));
        store_pack(y + i, v);
    } else {
        for (; i < count; i++) y[i] = from_f32<T>(f(to_f32(x[i])));
    }
}

template <class F> static void run_map1(const struct gpu_call *c, F f)
{
    i64 count = c->out[0].count;
    if (!count) return;
    with_type(c->out[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        i64                 blocks = div_up(count, (i64)THREADS * pack<T>::N);
        map1<T, F><<<(unsigned)blocks, THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), count, f);
    });
}

/* --- two operands, the second repeated where it is only a tail of the first --- */

template <class T, class F>
__global__ void map2(T *y, const T *a, const T *b, i64 count, i64 b_count, F f)
{
    constexpr int N = pack<T>::N;
    i64           i = ((i64)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i + N <= count && b_count % N == 0) {
        pack<T> v = load_pack(a + i), w = load_pack(b + (b_count == count ? i : i % b_count));
#pragma unroll
        for (int k = 0; k < N; k++) v.v[k] = from_f32<T>(f(to_f32(v.v[k]), to_f32(w.v[k])));
        store_pack(y + i, v);
    } else {
        for (i64 end = min(i + N, count); i < end; i++)
            y[i] = from_f32<T>(f(to_f32(a[i]), to_f32(b[i % b_count])));
    }
}

template <class F> static void run_map2(const struct gpu_call *c, F f)
{
    i64 count = c->out[0].count;
    if (!count) return;
    with_type(c->out[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        i64                 blocks = div_up(count, (i64)THREADS * pack<T>::N);
        map2<T, F><<<(unsigned)blocks, THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), data_of<T>(c->in[1]), count,
            c->in[1].count, f);
    });
}

#define RUN1(name)                                                                                 \
    static void run_##name(const struct gpu_call *c) { run_map1(c, map_##name()); }
#define RUN2(name)                                                                                 \
    static void run_##name(const struct gpu_call *c) { run_map2(c, map_##name()); }
/* clang-format off */
RUN2(ADD) RUN2(SUB) RUN2(MUL) RUN2(DIV) RUN1(RELU) RUN2(RELU_GRAD) RUN1(RELU2) RUN2(RELU2_GRAD)
RUN1(GELU) RUN2(GELU_GRAD) RUN1(GELU_ERF) RUN2(GELU_ERF_GRAD) RUN1(SILU) RUN2(SILU_GRAD) RUN1(TANH)
RUN2(TANH_GRAD) RUN1(SIGMOID) RUN2(SIGMOID_GRAD) RUN1(EXP) RUN1(LOG) RUN1(SQRT)
    /* clang-format on */

    void launch_add(void *y, const void *a, const void *b, enum dtype type, i64 count,
                    cudaStream_t stream)
{
    if (!count) return;
    with_type(type, [&](auto t) {
        typedef decltype(t) T;
        i64                 blocks = div_up(count, (i64)THREADS * pack<T>::N);
        map2<T, map_ADD><<<(unsigned)blocks, THREADS, 0, stream>>>(
            (T *)y, (const T *)a, (const T *)b, count, count, map_ADD());
    });
}

static void run_SCALE(const struct gpu_call *c)
{
    run_map1(c, map_SCALE{ (f32)c->at->mul, (f32)c->at->add });
}
static void run_SOFTCAP(const struct gpu_call *c) { run_map1(c, map_SOFTCAP{ (f32)c->at->cap }); }
static void run_SOFTCAP_GRAD(const struct gpu_call *c)
{
    run_map2(c, map_SOFTCAP_GRAD{ (f32)c->at->cap });
}

/* --- several maps in one pass, for a kernel that does not do them itself --- */

/* A map's operand is on its way while the map before it is computed. */
template <class T>
__global__ void map_chain(T *y, const T *x, i64 count, const __grid_constant__ struct maps m)
{
    constexpr int N = pack<T>::N;
    i64           i = ((i64)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i + N <= count) {
        pack<T> v = load_pack(x + i), next = v;
        if (m.operand[0]) next = load_pack((const T *)m.operand[0] + i);
        for (int k = 0; k < m.count; k++) {
            pack<T> w = next;
            if (k + 1 < m.count && m.operand[k + 1])
                next = load_pack((const T *)m.operand[k + 1] + i);
            apply<N>(m, m.op[k], v.v, w.v);
        }
        store_pack(y + i, v);
    } else {
        for (; i < count; i++) {
            T v = x[i];
            for (int k = 0; k < m.count; k++)
                apply<1>(m, m.op[k], &v, m.operand[k] ? (const T *)m.operand[k] + i : &v);
            y[i] = v;
        }
    }
}

/* in[0] is what the first map reads; the operands follow. */
static void launch_maps(const struct gpu_call *c, struct maps m, i32 operand)
{
    const struct chain *then  = &c->at->then;
    i64                 count = c->out[0].count;
    m.mul = (f32)c->at->mul, m.add = (f32)c->at->add, m.cap = (f32)c->at->cap;
    for (i32 i = 0; i < then->count; i++) add_map(&m, c, then->op[i], &operand);
    if (!count) return;
    with_type(c->out[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        map_chain<T>
            <<<(unsigned)div_up(count, (i64)THREADS * pack<T>::N), THREADS, 0, c->gpu->stream>>>(
                data_of<T>(c->out[0]), data_of<T>(c->in[0]), count, m);
    });
}

static void run_chain(const struct gpu_call *c) { launch_maps(c, {}, 1); }

/* A map and those that follow it. */
static bool takes_maps(const struct gpu_call *c)
{
    return c->at->then.count && !c->at->then.keep &&
           c->in[c->in_count - 1].count == c->out[0].count;
}

static void run_maps(const struct gpu_call *c)
{
    struct maps m       = {};
    i32         operand = 1;
    add_map(&m, c, c->op, &operand);
    launch_maps(c, m, operand);
}

extern "C" const struct gpu_kernel gpu_kernel_chain = {
    -1, "cuda", NULL, run_chain, NULL, NULL, 0
};

/* --- types change --- */

template <class T, class S> __global__ void cast(T *y, const S *x, i64 count)
{
    constexpr int N = 8;
    i64           i = ((i64)blockIdx.x * THREADS + threadIdx.x) * N;
    if (i + N <= count) {
        f32 v[N];
        load_f32<N>(v, x + i);
        store_f32<N>(y + i, v);
    } else {
        for (; i < count; i++) y[i] = from_f32<T>(to_f32(x[i]));
    }
}

template <class F> static void with_any(enum dtype t, F f)
{
    if (t == DT_I32) f(i32());
    else if (t == DT_U8) f(u8());
    else with_type(t, f);
}

void launch_cast(void *to, enum dtype to_type, const void *from, enum dtype from_type, i64 count,
                 cudaStream_t stream)
{
    if (!count) return;
    with_any(from_type, [&](auto s) {
        with_any(to_type, [&](auto t) {
            typedef decltype(s) S;
            typedef decltype(t) T;
            cast<T, S><<<(unsigned)div_up(count, THREADS * 8), THREADS, 0, stream>>>(
                (T *)to, (const S *)from, count);
        });
    });
}

static bool takes_CAST(const struct gpu_call *c) { return !c->at->stochastic; }

static void run_CAST(const struct gpu_call *c)
{
    launch_cast(c->out[0].data, c->out[0].type.dtype, c->in[0].data, c->in[0].type.dtype,
                c->out[0].count, c->gpu->stream);
}

template <class T> __global__ void fill(T *y, i64 count, f32 value)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) y[i] = from_f32<T>(value);
}

static void run_FILL(const struct gpu_call *c)
{
    i64 count = c->out[0].count;
    if (!count) return;
    with_any(c->out[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        fill<T><<<(unsigned)div_up(count, THREADS), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), count, (f32)c->at->add);
    });
}

/* --- swiglu: rows of x are [gate, value], each as wide as a row of y --- */

template <class T> __global__ void swiglu(T *y, const T *x, i64 count, i64 width)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    i64 at   = i / width * 2 * width + i % width;
    f32 gate = to_f32(x[at]), value = to_f32(x[at + width]);
    y[i] = from_f32<T>(gate * sigmoid(gate) * value);
}

template <class T> __global__ void swiglu_grad(T *dx, const T *dy, const T *x, i64 count, i64 width)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    i64 at = i / width * 2 * width + i % width;
    f32 d = to_f32(dy[i]), gate = to_f32(x[at]), value = to_f32(x[at + width]);
    dx[at]         = from_f32<T>(d * value * silu_slope(gate));
    dx[at + width] = from_f32<T>(d * gate * sigmoid(gate));
}

static void run_SWIGLU(const struct gpu_call *c)
{
    i64 count = c->out[0].count;
    if (!count) return;
    with_type(c->out[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        swiglu<T><<<(unsigned)div_up(count, THREADS), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), count, shape_last(c->out[0].type.shape));
    });
}

static void run_SWIGLU_GRAD(const struct gpu_call *c)
{
    i64 count = c->in[0].count;
    if (!count) return;
    with_type(c->out[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        swiglu_grad<T><<<(unsigned)div_up(count, THREADS), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), data_of<T>(c->in[1]), count,
            shape_last(c->in[0].type.shape));
    });
}

/* A sigmoid as exact as 16 bits need: off by some units in the last place of f32. Under load the clock falls by a
 * quarter, and these kernels wait for arithmetic instead of memory: what an intrinsic does for numbers below 2^-126
 * is left out. */
template <class T> __device__ inline f32 sigmoid_of(f32 x)
{
    if (sizeof(T) != 2) return sigmoid(x);
    f32 e, s;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.44269504f)); /* log2 e */
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(s) : "f"(1 + e));
    return s;
}

/* Eight numbers of 16 bits a thread (four of 32), where rows are made of whole packs. */
template <class T> __global__ void swiglu_packs(T *y, const T *x, u32 packs, u32 row_packs)
{
    constexpr int N = pack<T>::N;
    u32           i = blockIdx.x * THREADS + threadIdx.x, row = i / row_packs;
    early_go();
    if (i >= packs) return;
    i64 at = ((i64)i + (i64)row * row_packs) * N;
    f32 gate[N], value[N];
    early_wait();
    load_f32<N>(gate, x + at);
    load_f32<N>(value, x + at + (i64)row_packs * N);
#pragma unroll
    for (int k = 0; k < N; k++) value[k] *= gate[k] * sigmoid_of<T>(gate[k]);
    store_f32<N>(y + (i64)i * N, value);
}

template <class T>
__global__ void swiglu_grad_packs(T *dx, const T *dy, const T *x, u32 packs, u32 row_packs)
{
    constexpr int N = pack<T>::N;
    u32           i = blockIdx.x * THREADS + threadIdx.x, row = i / row_packs;
    if (i >= packs) return;
    i64 at = ((i64)i + (i64)row * row_packs) * N, width = (i64)row_packs * N;
    f32 d[N], gate[N], value[N];
    load_f32<N>(d, dy + (i64)i * N);
    load_f32<N>(gate, x + at);
    load_f32<N>(value, x + at + width);
#pragma unroll
    for (int k = 0; k < N; k++) {
        f32 s = sigmoid_of<T>(gate[k]), silu = gate[k] * s;
        gate[k]  = d[k] * value[k] * (s + silu * (1 - s));
        value[k] = d[k] * silu;
    }
    store_f32<N>(dx + at, gate);
    store_f32<N>(dx + at + width, value);
}

static i64 pack_numbers(const struct gpu_call *c) { return 16 / dtype_bytes(c->out[0].type.dtype); }

/* `y` has the width of one half. */
static bool takes_packs(const struct gpu_call *c, const struct tensor *y)
{
    i64 n = pack_numbers(c);
    return y->count && shape_last(y->type.shape) % n == 0 && y->count / n <= INT32_MAX;
}
static bool takes_swiglu(const struct gpu_call *c) { return takes_packs(c, &c->out[0]); }
static bool takes_swiglu_grad(const struct gpu_call *c) { return takes_packs(c, &c->in[0]); }

static void run_swiglu_packs(const struct gpu_call *c)
{
    u32 packs     = (u32)(c->out[0].count / pack_numbers(c));
    u32 row_packs = (u32)(shape_last(c->out[0].type.shape) / pack_numbers(c));
    with_type(c->out[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        launch_rows(c->gpu, shape_rows(c->out[0].type.shape), swiglu_packs<T>,
                    dim3((unsigned)div_up(packs, THREADS)), THREADS, data_of<T>(c->out[0]),
                    data_of<T>(c->in[0]), packs, row_packs);
    });
}

static void run_swiglu_grad_packs(const struct gpu_call *c)
{
    u32 packs     = (u32)(c->in[0].count / pack_numbers(c));
    u32 row_packs = (u32)(shape_last(c->in[0].type.shape) / pack_numbers(c));
    with_type(c->out[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        swiglu_grad_packs<T><<<(unsigned)div_up(packs, THREADS), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), data_of<T>(c->in[1]), packs, row_packs);
    });
}

/* --- dropout --- */

/* Which sample each row of packed ones is of, and which stretch of it; NULL: a row is a sample. */
struct dropped_rows {
    const i32 *sample, *position;
};

/* Four elements of one sample a thread: one call of the generator; or one each where a packed row does not begin
 * with the four that belong together, its width being no multiple of 4. */
template <class T>
__global__ void dropout(T *y, const T *x, i64 samples, i64 size, const i32 *rng, u64 name, f64 p,
                        struct dropped_rows rows)
{
    i64 blocks = (size + 3) / 4, i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i >= samples * blocks) return;
    i64 row = i / blocks, sample = rows.sample ? rows.sample[row] : row, from = i % blocks * 4;
    u64 address = (u64)(u32)rng[3] + (u64)sample, first = (u64)from;
    u32 word[4], other[4];
    if (rows.sample) first += (u64)rows.position[row] * (u64)size;
    random_block(word, rng, name, address, first / 4);
    for (int k = 0; k < 4 && from + k < size; k++) {
        i64 at = row * size + from + k;
        if (first % 4) {
            random_block(other, rng, name, address, (first + (u64)k) / 4);
            word[k] = other[(first + (u64)k) % 4];
        }
        bool keep = sample >= 0 && (f64)word[k] * 0x1p-32 >= p;
        y[at]     = from_f32<T>(keep ? to_f32(x[at]) / (f32)(1 - p) : 0);
    }
}

static void run_DROPOUT(const struct gpu_call *c)
{
    i64 samples = MAX(1, c->in[0].type.shape.dim[0]), size = c->in[0].count / samples;
    struct dropped_rows rows = {};
    if (!size) return;
    if (c->in_count == 4) rows = { data_of<i32>(c->in[2]), data_of<i32>(c->in[3]) };
    with_type(c->out[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        dropout<T>
            <<<(unsigned)div_up(samples * div_up(size, 4), THREADS), THREADS, 0, c->gpu->stream>>>(
                data_of<T>(c->out[0]), data_of<T>(c->in[0]), samples, size, data_of<i32>(c->in[1]),
                (u64)c->at->key, c->at->p, rows);
    });
}

#define ROW(name) { OP_##name, "cuda", NULL, run_##name, NULL, NULL, 0 },
#define MAPS(name) { OP_##name, "cuda_chain", takes_maps, run_maps, NULL, NULL, DOES_CHAIN },
/* clang-format off */
extern "C" const struct gpu_kernel gpu_kernels_map[] = {
    MAPS(ADD) MAPS(SUB) MAPS(MUL) MAPS(DIV) MAPS(SCALE) MAPS(RELU) MAPS(RELU_GRAD) MAPS(RELU2)
    MAPS(RELU2_GRAD) MAPS(GELU) MAPS(GELU_GRAD) MAPS(GELU_ERF) MAPS(GELU_ERF_GRAD)
    MAPS(SILU) MAPS(SILU_GRAD) MAPS(TANH) MAPS(TANH_GRAD)
    MAPS(SIGMOID) MAPS(SIGMOID_GRAD) MAPS(EXP) MAPS(LOG) MAPS(SQRT) MAPS(SOFTCAP) MAPS(SOFTCAP_GRAD)
    ROW(ADD) ROW(SUB) ROW(MUL) ROW(DIV) ROW(SCALE) ROW(RELU) ROW(RELU_GRAD) ROW(RELU2)
    ROW(RELU2_GRAD) ROW(GELU) ROW(GELU_GRAD) ROW(GELU_ERF) ROW(GELU_ERF_GRAD)
    ROW(SILU) ROW(SILU_GRAD) ROW(TANH) ROW(TANH_GRAD)
    ROW(SIGMOID) ROW(SIGMOID_GRAD) ROW(EXP) ROW(LOG) ROW(SQRT) ROW(SOFTCAP) ROW(SOFTCAP_GRAD)
    { OP_SWIGLU, "cuda_packs", takes_swiglu, run_swiglu_packs, NULL, NULL, 0 },
    { OP_SWIGLU_GRAD, "cuda_packs", takes_swiglu_grad, run_swiglu_grad_packs, NULL, NULL, 0 },
    ROW(SWIGLU) ROW(SWIGLU_GRAD) ROW(FILL) ROW(DROPOUT)
    { OP_CAST, "cuda", takes_CAST, run_CAST, NULL, NULL, 0 },
};
/* clang-format on */
GPU_FAMILY(map)
