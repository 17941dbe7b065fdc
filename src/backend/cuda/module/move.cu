/* move.cu - values change their place, are repeated or added up along axes; rows of tables. */
#include "backend/cuda/module/device.cuh"

enum { THREADS = 256 };

/* --- elements change their place: `to` and `from` say where the i-th goes, and where it comes from (-1: it is 0) ---
 *
 * The type matters by its size alone. Where places allow it, an element is 16 bytes. */

struct in_place {
    __device__ i64 to(i64 i) const { return i; }
    __device__ i64 from(i64 i) const { return i; }
};

struct strides : in_place { /* of the source, by axis of the result */
    i32            rank;
    i64            dim[RANK_MAX], step[RANK_MAX];
    __device__ i64 from(i64 i) const
    {
        i64 at = 0;
#pragma unroll
        for (i32 axis = RANK_MAX - 1; axis >= 0; axis--) {
            if (axis >= rank) continue;
            at += i % dim[axis] * step[axis];
            i /= dim[axis];
        }
        return at;
    }
    bool widen(i64 by) /* to elements `by` times as large; false: they would not fit */
    {
        bool fits = rank > 0 && step[rank - 1] == 1 && dim[rank - 1] % by == 0;
        for (i32 axis = 0; axis < rank - 1; axis++) fits &= step[axis] % by == 0;
        for (i32 axis = 0; fits && axis < rank - 1; axis++) step[axis] /= by;
        if (fits) dim[rank - 1] /= by;
        return fits;
    }
};

/* A run of `part` elements in every `whole`, from `start` on: where a slice lies in its tensor. */
struct run : in_place {
    i64            part, whole, start;
    __device__ i64 outside(i64 i) const { return i / part * whole + start + i % part; }
    bool           widen(i64 by)
    {
        if (part % by || whole % by || start % by) return false;
        part /= by, whole /= by, start /= by;
        return true;
    }
};

struct taken : run {
    __device__ i64 from(i64 i) const { return outside(i); }
};

struct put : run {
    __device__ i64 to(i64 i) const { return outside(i); }
};

struct put_in_zeros : run {
    __device__ i64 from(i64 i) const
    {
        i64 at = i % whole - start;
        return at >= 0 && at < part ? i / whole * part + at : -1;
    }
};

struct repeated : in_place { /* y is [outer, times, inner], x is [outer, inner] */
    i64            times, inner;
    __device__ i64 from(i64 i) const { return i / inner / times * inner + i % inner; }
    bool           widen(i64 by) { return inner % by ? false : (inner /= by, true); }
};

struct looked_up : in_place { /* rows of a table */
    const i32     *ids;
    i64            width;
    __device__ i64 from(i64 i) const { return ids[i / width] * width + i % width; }
    bool           widen(i64 by) { return width % by ? false : (width /= by, true); }
};

enum { MOVES = 4 }; /* of a thread */

template <class T, class P> __global__ void move(T *y, const T *x, i64 count, P place)
{
    i64 first = (i64)blockIdx.x * THREADS * MOVES + threadIdx.x;
    T   v[MOVES];
#pragma unroll
    for (int k = 0; k < MOVES; k++) {
        i64 i = first + k * THREADS, from = i < count ? place.from(i) : -1;
        v[k] = from >= 0 ? x[from] : T();
    }
#pragma unroll
    for (int k = 0; k < MOVES; k++) {
        i64 i = first + k * THREADS;
        if (i < count) y[place.to(i)] = v[k];
    }
}

template <class P>
static void launch_move(const struct gpu_call *c, const struct tensor &y, const struct tensor &x,
                        i64 count, P place)
{
    i64  bytes = dtype_bytes(y.type.dtype), by = 16 / bytes;
    bool aligned = ((uintptr_t)y.data | (uintptr_t)x.data) % 16 == 0;
    auto launch  = [&](auto t) {
        typedef decltype(t) T;
        unsigned            blocks = (unsigned)div_up(count, THREADS * MOVES);
        move<T, P>
            <<<blocks, THREADS, 0, c->gpu->stream>>>(data_of<T>(y), data_of<T>(x), count, place);
    };
    if (!count) return;
    if (aligned && count % by == 0 && place.widen(by)) {
        count /= by;
        launch(uint4());
    } else if (bytes == 4) launch(u32());
    else if (bytes == 2) launch(u16());
    else launch(u8());
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
    launch_move(c, c->out[0], c->in[0], c->out[0].count, s);
}

template <class P>
static P run_of(const struct gpu_call *c, struct shape part, struct shape whole, i64 start)
{
    i32 axis    = (i32)c->at->axis;
    i64 inner   = shape_span(whole, axis + 1, whole.rank);
    P   place   = {};
    place.part  = part.dim[axis] * inner;
    place.whole = whole.dim[axis] * inner;
    place.start = start * inner;
    return place;
}

static void run_CONCAT(const struct gpu_call *c)
{
    i64 start = 0;
    for (i32 k = 0; k < c->in_count; k++) {
        struct shape part = c->in[k].type.shape;
        launch_move(c, c->out[0], c->in[k], c->in[k].count,
                    run_of<put>(c, part, c->out[0].type.shape, start));
        start += part.dim[c->at->axis];
    }
}

static void run_SLICE(const struct gpu_call *c)
{
    launch_move(c, c->out[0], c->in[0], c->out[0].count,
                run_of<taken>(c, c->out[0].type.shape, c->in[0].type.shape, c->at->start));
}

static void run_SLICE_GRAD(const struct gpu_call *c)
{
    launch_move(c, c->out[0], c->in[0], c->out[0].count,
                run_of<put_in_zeros>(c, c->in[0].type.shape, c->out[0].type.shape, c->at->start));
}

static void run_BROADCAST(const struct gpu_call *c)
{
    struct shape    y     = c->out[0].type.shape;
    i32             first = (i32)c->at->axis, past = first + c->at->dims.rank;
    struct repeated r = {};
    r.times           = shape_count(c->at->dims);
    r.inner           = shape_span(y, past, y.rank);
    launch_move(c, c->out[0], c->in[0], c->out[0].count, r);
}

static void run_EMBEDDING(const struct gpu_call *c)
{
    struct looked_up rows = {};
    rows.ids              = data_of<i32>(c->in[1]);
    rows.width            = c->in[0].type.shape.dim[1];
    launch_move(c, c->out[0], c->in[0], c->out[0].count, rows);
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

/* One on each of an H200's processors, all at once: a few more would wait for those, and run almost
 * alone. (More tiles than that are as many blocks.) */
enum { SUM_BLOCKS = 132, SUM_THREADS = 1024, SUM_ROWS_MIN = 64, SUM_GROUPS_MAX = 64 };

/* The middle axis in parts, the inner one in tiles: a block has one of each, and `groups` rows at a
 * time. */
struct around {
    i64 outer, middle, inner, parts;
    i32 tiles, tile, groups; /* a tile's width in runs of N numbers, which a thread has */
};

template <class S, int N>
__global__ void __launch_bounds__(SUM_THREADS, 1)
    sum_columns(f32 *part, const S *x, struct around a)
{
    constexpr int  AHEAD = 16 / sizeof(S); /* loads on their way */
    __shared__ f32 meet[SUM_THREADS * N];
    i64            p = blockIdx.y, outer = blockIdx.z, from = a.middle * p / a.parts,
        to    = a.middle * (p + 1) / a.parts;
    i64 first = (i64)blockIdx.x * a.tile * N, column = first + threadIdx.x % a.tile * N,
        step   = a.groups * a.inner;
    int group  = (int)threadIdx.x / a.tile,
        left   = group < a.groups && column < a.inner ? (int)(to - from) - group : 0;
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
    f32 sum = sum_parts(part + outer * parts * inner + column, inner, parts, column < inner);
    if (!threadIdx.x && first + threadIdx.y < inner)
        y[outer * inner + first + threadIdx.y] = from_f32<T>(sum);
}

static i64 numbers_of(i64 inner) { return inner % 8 ? 1 : 8; } /* a thread takes at once */

static struct around sum_of(const struct gpu_call *c)
{
    struct shape  x    = c->in[0].type.shape;
    i32           from = (i32)c->at->axis, to = from + (i32)c->at->count;
    struct around a = {
        shape_span(x, 0, from), shape_span(x, from, to), shape_span(x, to, x.rank), 1, 1, 1, 1
    };
    i64 runs = a.inner / numbers_of(a.inner);
    a.tiles =
        (i32)MAX(1, div_up(runs, SUM_THREADS / 4)); /* narrow ones: then there are fewer parts */
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

extern "C" const struct gpu_kernel gpu_kernels_move[] = {
    { OP_TRANSPOSE, "cuda", NULL, run_TRANSPOSE, NULL, NULL, 0 },
    { OP_CONCAT, "cuda", NULL, run_CONCAT, NULL, NULL, 0 },
    { OP_SLICE, "cuda", NULL, run_SLICE, NULL, NULL, 0 },
    { OP_SLICE_GRAD, "cuda", NULL, run_SLICE_GRAD, NULL, NULL, 0 },
    { OP_BROADCAST, "cuda", NULL, run_BROADCAST, NULL, NULL, 0 },
    { OP_SUM, "cuda", NULL, run_SUM, work_SUM, NULL, 0 },
    { OP_EMBEDDING, "cuda", NULL, run_EMBEDDING, NULL, NULL, 0 },
};
GPU_FAMILY(move)
