/* move.cu - values change their place, are repeated or added up along axes; rows of tables. */
#include "backend/cuda/module/device.cuh"
#include <cub/device/device_radix_sort.cuh>

enum { THREADS = 256 };

/* --- bytes change their place; the type matters by its size alone --- */

template <class F> static void with_size(enum dtype t, F f)
{
    i64 bytes = dtype_bytes(t);
    if (bytes == 4) f(u32());
    else if (bytes == 2) f(u16());
    else f(u8());
}

struct strides { /* of the source, by axis of the result */
    i32 rank;
    i64 dim[RANK_MAX], step[RANK_MAX];
};

template <class T> __global__ void gather(T *y, const T *x, i64 count, struct strides s)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x, rest = i, from = 0;
    if (i >= count) return;
    for (i32 axis = s.rank - 1; axis >= 0; axis--) {
        from += rest % s.dim[axis] * s.step[axis];
        rest /= s.dim[axis];
    }
    y[i] = x[from];
}

static void run_TRANSPOSE(const struct gpu_call *c)
{
    struct shape   x = c->in[0].type.shape, y = c->out[0].type.shape;
    struct strides s = {};
    s.rank           = y.rank;
    for (i32 i = 0; i < y.rank; i++) {
        s.dim[i]  = y.dim[i];
        s.step[i] = shape_span(x, (i32)c->at->dims.dim[i] + 1, x.rank);
    }
    if (!c->out[0].count) return;
    with_size(c->out[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        gather<T><<<(unsigned)div_up(c->out[0].count, THREADS), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), c->out[0].count, s);
    });
}

/* A run of `part` elements in every `whole`, from `start` on: where a slice lies in its tensor. */
struct run {
    i64 part, whole, start;
};

template <class T> __global__ void take_runs(T *y, const T *x, i64 count, struct run r)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) y[i] = x[i / r.part * r.whole + r.start + i % r.part];
}

template <class T> __global__ void put_runs(T *y, const T *x, i64 count, struct run r)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) y[i / r.part * r.whole + r.start + i % r.part] = x[i];
}

template <class T> __global__ void put_runs_in_zeros(T *y, const T *x, i64 count, struct run r)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x, at = i % r.whole - r.start;
    if (i < count) y[i] = at >= 0 && at < r.part ? x[i / r.whole * r.part + at] : T(0);
}

static struct run run_of(const struct gpu_call *c, struct shape part, struct shape whole, i64 start)
{
    i32 axis  = (i32)c->at->axis;
    i64 inner = shape_span(whole, axis + 1, whole.rank);
    return { part.dim[axis] * inner, whole.dim[axis] * inner, start * inner };
}

#define MOVE(kernel, count, y, x, r)                                                               \
    do {                                                                                           \
        if (count)                                                                                 \
            with_size((y).type.dtype, [&](auto t) {                                                \
                typedef decltype(t) T;                                                             \
                kernel<T><<<(unsigned)div_up(count, THREADS), THREADS, 0, c->gpu->stream>>>(       \
                    data_of<T>(y), data_of<T>(x), count, r);                                       \
            });                                                                                    \
    } while (0)

static void run_CONCAT(const struct gpu_call *c)
{
    i64 start = 0;
    for (i32 k = 0; k < c->in_count; k++) {
        struct run r = run_of(c, c->in[k].type.shape, c->out[0].type.shape, start);
        MOVE(put_runs, c->in[k].count, c->out[0], c->in[k], r);
        start += c->in[k].type.shape.dim[c->at->axis];
    }
}

static void run_SLICE(const struct gpu_call *c)
{
    struct run r = run_of(c, c->out[0].type.shape, c->in[0].type.shape, c->at->start);
    MOVE(take_runs, c->out[0].count, c->out[0], c->in[0], r);
}

static void run_SLICE_GRAD(const struct gpu_call *c)
{
    struct run r = run_of(c, c->in[0].type.shape, c->out[0].type.shape, c->at->start);
    MOVE(put_runs_in_zeros, c->out[0].count, c->out[0], c->in[0], r);
}

struct repeat { /* y is [outer, times, inner], x is [outer, inner] */
    i64 times, inner;
};

template <class T> __global__ void repeat_runs(T *y, const T *x, i64 count, struct repeat r)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) y[i] = x[i / r.inner / r.times * r.inner + i % r.inner];
}

static void run_BROADCAST(const struct gpu_call *c)
{
    struct shape  y     = c->out[0].type.shape;
    i32           first = (i32)c->at->axis, past = first + c->at->dims.rank;
    struct repeat r     = { shape_count(c->at->dims), shape_span(y, past, y.rank) };
    MOVE(repeat_runs, c->out[0].count, c->out[0], c->in[0], r);
}

/* --- sums: x is [outer, middle, inner], y [outer, inner] --- */

template <class T, class S>
__global__ void sum_rows(T *y, const S *x, i64 outer, i64 middle) /* inner 1: a block a row */
{
    f32 sum = 0;
    for (i64 i = threadIdx.x; i < middle; i += blockDim.x)
        sum += to_f32(x[(i64)blockIdx.x * middle + i]);
    sum = block_sum(sum);
    if (!threadIdx.x) y[blockIdx.x] = from_f32<T>(sum);
}

/* One on each of an H200's processors at most, all at once: a few more would wait for those, and run almost alone. */
enum { SUM_BLOCKS = 132, SUM_THREADS = 1024, SUM_ROWS_MIN = 64, SUM_GROUPS_MAX = 64 };

struct around { /* the middle axis in parts, the inner one in tiles: a block has one of each, and `groups` rows at a time */
    i64 outer, middle, inner, parts;
    i32 tiles, tile, groups; /* a tile's width in runs of N numbers, which a thread has */
};

template <class S, int N>
__global__ void __launch_bounds__(SUM_THREADS, 1) sum_columns(f32 *part, const S *x, struct around a)
{
    constexpr int  AHEAD = 16 / sizeof(S); /* loads on their way */
    __shared__ f32 meet[SUM_THREADS * N];
    i64 p = blockIdx.y, outer = blockIdx.z, from = a.middle * p / a.parts, to = a.middle * (p + 1) / a.parts;
    i64 first = (i64)blockIdx.x * a.tile * N, column = first + threadIdx.x % a.tile * N, step = a.groups * a.inner;
    int group = (int)threadIdx.x / a.tile, left = group < a.groups && column < a.inner ? (int)(to - from) - group : 0;
    f32 sum[N] = {};
    x += (outer * a.middle + from + group) * a.inner + column;
    for (; left > 0; left -= AHEAD * a.groups, x += AHEAD * step) {
        chunk<N, S> v[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            v[k].clear();
            if (k * a.groups < left) v[k].load(x + k * step);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
#pragma unroll
            for (int n = 0; n < N; n++) sum[n] += v[k][n];
        }
    }
#pragma unroll
    for (int n = 0; n < N; n++) meet[threadIdx.x * N + n] = sum[n];
    __syncthreads();
    for (int k = threadIdx.x; k < a.tile * N && first + k < a.inner; k += SUM_THREADS) {
        f32 all = 0;
        for (int g = 0; g < a.groups; g++) all += meet[g * a.tile * N + k];
        part[(outer * a.parts + p) * a.inner + first + k] = all;
    }
}

template <class T> __global__ void add_parts(T *y, const f32 *part, i64 inner, i64 parts)
{
    i64 first = (i64)blockIdx.x * PART_COLUMNS, column = first + threadIdx.x, outer = blockIdx.y;
    f32 sum   = sum_parts(part + outer * parts * inner + column, inner, parts, column < inner);
    if (!threadIdx.x && first + threadIdx.y < inner) y[outer * inner + first + threadIdx.y] = from_f32<T>(sum);
}

static i64 numbers_of(i64 inner) { return inner % 8 ? 1 : 8; } /* a thread takes at once */

static struct around sum_of(const struct gpu_call *c)
{
    struct shape  x    = c->in[0].type.shape;
    i32           from = (i32)c->at->axis, to = from + (i32)c->at->count;
    struct around a    = { shape_span(x, 0, from), shape_span(x, from, to), shape_span(x, to, x.rank), 1, 1, 1, 1 };
    i64           runs = a.inner / numbers_of(a.inner);
    a.tiles  = (i32)MAX(1, div_up(runs, SUM_THREADS / 4)); /* narrow ones: then there are fewer parts */
    a.tile   = (i32)MAX(1, div_up(runs, a.tiles));
    a.groups = MIN(SUM_GROUPS_MAX, SUM_THREADS / a.tile);
    a.parts  = MAX(1, MIN(SUM_BLOCKS / MAX(1, a.tiles * a.outer), a.middle / SUM_ROWS_MIN));
    return a;
}

/* One part in f32 is the result. */
static bool in_one_pass(const struct gpu_call *c, const struct around &a)
{
    return a.inner == 1 || (a.parts == 1 && c->out[0].type.dtype == DT_F32);
}

static i64 work_SUM(const struct gpu_call *c)
{
    struct around a = sum_of(c);
    return in_one_pass(c, a) ? 0 : a.outer * a.parts * a.inner * (i64)sizeof(f32);
}

static void run_SUM(const struct gpu_call *c)
{
    struct around a   = sum_of(c);
    bool          one = in_one_pass(c, a);
    if (!c->out[0].count) return;
    ASSERT(a.outer < 65536 || a.inner == 1);
    with_type(c->in[0].type.dtype, [&](auto s) {
        with_type(c->out[0].type.dtype, [&](auto t) {
            typedef decltype(s) S;
            typedef decltype(t) T;
            if (a.inner == 1) {
                int threads = a.middle >= 1024 ? 1024 : a.middle >= 128 ? 128 : 32;
                sum_rows<T, S><<<(unsigned)a.outer, threads, 0, c->gpu->stream>>>(
                    data_of<T>(c->out[0]), data_of<S>(c->in[0]), a.outer, a.middle);
                return;
            }
            dim3 grid((unsigned)a.tiles, (unsigned)a.parts, (unsigned)a.outer);
            f32 *to = (f32 *)(one ? c->out[0].data : c->work);
            auto f  = numbers_of(a.inner) == 8 ? sum_columns<S, 8> : sum_columns<S, 1>;
            f<<<grid, SUM_THREADS, 0, c->gpu->stream>>>(to, data_of<S>(c->in[0]), a);
            if (one) return;
            dim3 ends((unsigned)div_up(a.inner, PART_COLUMNS), (unsigned)a.outer);
            add_parts<T><<<ends, PART_THREADS, 0, c->gpu->stream>>>(
                data_of<T>(c->out[0]), (f32 *)c->work, a.inner, a.parts);
        });
    });
}

/* --- rows of tables --- */

template <class T> __global__ void embedding(T *y, const T *table, const i32 *ids, i64 width)
{
    const T *from = table + (i64)ids[blockIdx.x] * width;
    T       *to   = y + (i64)blockIdx.x * width;
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) to[i] = from[i];
}

static void run_EMBEDDING(const struct gpu_call *c)
{
    i64 width = c->in[0].type.shape.dim[1];
    if (!c->out[0].count) return;
    with_type(c->out[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        embedding<T><<<(unsigned)c->in[1].count, (unsigned)MIN(256, div_up(width, 32) * 32), 0,
                       c->gpu->stream>>>(data_of<T>(c->out[0]), data_of<T>(c->in[0]),
                                         data_of<i32>(c->in[1]), width);
    });
}

/* The gradient: ids are sorted with their places (a stable sort, so the order of addition is
 * fixed), and each row of the table adds up its own run. */

__global__ void count_up(i32 *places, i64 count)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) places[i] = (i32)i;
}

__device__ inline i64 first_not_below(const i32 *sorted, i64 count, i32 id)
{
    i64 low = 0, high = count;
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (sorted[middle] < id) low = middle + 1;
        else high = middle;
    }
    return low;
}

template <class T, class S>
__global__ void add_runs(T *table, const S *dy, const i32 *ids, const i32 *places, i64 count,
                         i64 width)
{
    i64 row = blockIdx.x;
    i64 from = first_not_below(ids, count, (i32)row), to = first_not_below(ids, count, (i32)row + 1);
    for (i64 k = threadIdx.x; k < width; k += blockDim.x) {
        f32 sum = 0;
#pragma unroll 4
        for (i64 i = from; i < to; i++) sum += to_f32(dy[(i64)places[i] * width + k]);
        table[row * width + k] = from_f32<T>(sum);
    }
}

struct sorted { /* four lists of ids or places, then what the sort needs */
    i64    count, list_bytes;
    size_t sort_bytes;
    int    bits;
};

static struct sorted sorted_of(const struct gpu_call *c)
{
    struct sorted s = {};
    s.count         = c->in[1].count;
    s.list_bytes    = div_up(s.count * (i64)sizeof(i32), 256) * 256;
    while (s.bits < 31 && (i64)1 << s.bits < c->out[0].type.shape.dim[0]) s.bits++;
    cub::DeviceRadixSort::SortPairs(NULL, s.sort_bytes, (i32 *)NULL, (i32 *)NULL, (i32 *)NULL,
                                    (i32 *)NULL, (int)s.count, 0, MAX(1, s.bits));
    return s;
}

static i64 work_EMBEDDING_GRAD(const struct gpu_call *c)
{
    struct sorted s = sorted_of(c);
    return 3 * s.list_bytes + (i64)s.sort_bytes;
}

static void run_EMBEDDING_GRAD(const struct gpu_call *c)
{
    struct sorted s      = sorted_of(c);
    i64           width  = c->out[0].type.shape.dim[1];
    u8           *work   = (u8 *)c->work;
    i32          *places = (i32 *)work, *ids = (i32 *)(work + s.list_bytes);
    i32          *order  = (i32 *)(work + 2 * s.list_bytes);
    if (!c->out[0].count) return;
    if (s.count) {
        count_up<<<(unsigned)div_up(s.count, THREADS), THREADS, 0, c->gpu->stream>>>(places, s.count);
        cub::DeviceRadixSort::SortPairs(work + 3 * s.list_bytes, s.sort_bytes,
                                        data_of<i32>(c->in[1]), ids, places, order, (int)s.count, 0,
                                        MAX(1, s.bits), c->gpu->stream);
    }
    with_type(c->in[0].type.dtype, [&](auto d) {
        with_type(c->out[0].type.dtype, [&](auto t) {
            typedef decltype(d) S;
            typedef decltype(t) T;
            add_runs<T, S><<<(unsigned)c->out[0].type.shape.dim[0],
                             (unsigned)MIN(256, div_up(width, 32) * 32), 0, c->gpu->stream>>>(
                data_of<T>(c->out[0]), data_of<S>(c->in[0]), ids, order, s.count, width);
        });
    });
}

extern "C" const struct gpu_kernel gpu_kernels_move[] = {
    { OP_TRANSPOSE, "cuda", NULL, run_TRANSPOSE, NULL, NULL, 0 },
    { OP_CONCAT, "cuda", NULL, run_CONCAT, NULL, NULL, 0 },
    { OP_SLICE, "cuda", NULL, run_SLICE, NULL, NULL, 0 },
    { OP_SLICE_GRAD, "cuda", NULL, run_SLICE_GRAD, NULL, NULL, 0 },
    { OP_BROADCAST, "cuda", NULL, run_BROADCAST, NULL, NULL, 0 },
    { OP_SUM, "cuda", NULL, run_SUM, work_SUM, NULL, 0 },
    { OP_EMBEDDING, "cuda", NULL, run_EMBEDDING, NULL, NULL, 0 },
    { OP_EMBEDDING_GRAD, "cuda_sorted", NULL, run_EMBEDDING_GRAD, work_EMBEDDING_GRAD, NULL, 0 },
};
GPU_FAMILY(move)
