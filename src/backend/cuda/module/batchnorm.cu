/* batchnorm.cu - batch norm over the columns of [rows, width], twice over memory in each direction.
 *
 * A block has runs of N neighbouring columns, a thread one of them in every `groups`-th row of the block's part
 * of the rows, so that loads are of 16 bytes and neighbours lie side by side; its constants and sums stay in registers:
 *
 *     thread    0 .. units-1 | units .. 2 units-1 | ...        part p: rows [p part_rows, (p + 1) part_rows)
 *     turn 0    row 0        | row 1              |
 *     turn 1    row groups   | row groups + 1     |
 *
 * The second pass walks each part backwards: what the first one read last is still in the L2 cache. Nothing divides
 * inside a loop: a division of whole numbers takes longer than a load.
 *
 * Statistics are taken in one pass. A thread shifts its rows by the first of them, so that squares
 * of large numbers do not cancel; means and squares of parts meet by
 *     mean = sum n_i m_i / n,  M2 = sum M2_i + n_i (m_i - mean)^2                       (Chan, Golub and LeVeque 1983)
 * The number of parts depends on the shape alone, and each sum has one order.
 *
 * With xhat = (x - mean) rstd the gradient is dx = w rstd (dy - m(dy) - xhat m(dy xhat)), m the mean over rows. */
#include "backend/cuda/module/device.cuh"

/* Two blocks on each of an H200's processors, all at once. What counts is how many bytes are on their way: with three
 * blocks of half as many rows ahead a ResNet-50's step took 37.2 ms, so 32.6 (one H200, 2026-11-16). */
enum { THREADS = 256, RESIDENT = 2, BLOCKS = RESIDENT * 132 };
enum { ALONE = 8, PAIRED = 4 }; /* rows on their way at once, of one operand and of each of two */
enum { CHUNK_BYTES = 16 };

struct tile {
    i64 rows, width;
    int units, groups; /* of a block */
    int parts;
    i64 part_rows; /* but the last may have fewer */
};

template <int N> static struct tile tile_of(const struct tensor &x)
{
    struct tile t  = { shape_rows(x.type.shape), shape_last(x.type.shape), 0, 0, 0, 0 };
    i64         of = t.width / N;
    t.units        = (int)MIN(of, THREADS / N);
    t.groups       = THREADS / t.units;
    t.parts = (int)MAX(1, MIN(div_up(BLOCKS, div_up(of, t.units)), t.rows / (t.groups * ALONE)));
    t.part_rows = div_up(t.rows, t.parts);
    t.parts     = (int)div_up(t.rows, t.part_rows);
    return t;
}

template <int N> static dim3 grid_of(const struct tile &t)
{
    return dim3((unsigned)div_up(t.width / N, t.units), (unsigned)t.parts);
}

__device__ inline i64 rows_of_part(const struct tile &t, i64 part)
{
    return min(t.part_rows, t.rows - part * t.part_rows);
}

/* What of the tile is this thread's: N columns from `column` on in `count` rows, the first of them
 * at element `at`, each of the others `step` further on. */
enum walk { FORWARDS, BACKWARDS };
template <int N> struct share {
    i64        column, at, step;
    int        count;
    bool       inside;
    __device__ share(const struct tile &t, enum walk walk)
    {
        int group = (int)threadIdx.x / t.units;
        i64 from  = blockIdx.y * t.part_rows + group;
        column    = ((i64)blockIdx.x * t.units + threadIdx.x % t.units) * N;
        inside    = group < t.groups && column < t.width;
        count = inside ? ((int)rows_of_part(t, blockIdx.y) - group + t.groups - 1) / t.groups : 0;
        step  = t.groups * t.width;
        at    = from * t.width + column;
        if (walk == BACKWARDS && count) at += (count - 1) * step, step = -step;
    }
};

/* The next rows of a share, all on their way at once. */
template <int AHEAD, int N, class T> struct ahead {
    chunk<N, T>     v[AHEAD];
    __device__ void fetch(const T *p, int row, const share<N> &s)
    {
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            if (row + k < s.count) v[k].load(p + s.at + (row + k) * s.step);
    }
};

/* Sum over g of f(g, c), g < groups, for each of a block's columns c < columns: all threads take
 * part, each in a slice of the groups; the result is that of column threadIdx.x, if there is one.
 * `meet` has THREADS numbers. */
template <class F> __device__ inline f32 over_groups(f32 *meet, int groups, int columns, F f)
{
    int slices = THREADS / columns, c = (int)threadIdx.x % columns,
        slice = (int)threadIdx.x / columns;
    f32 sum   = 0;
    if (slice < slices)
        for (int g = slice; g < groups; g += slices) sum += f(g, c);
    __syncthreads(); /* who read `meet` before is done */
    meet[threadIdx.x] = sum;
    __syncthreads();
    sum = 0;
    if ((int)threadIdx.x < columns)
        for (int k = 0; k < slices; k++) sum += meet[k * columns + c];
    return sum;
}

/* --- forward --- */

/* part[p][0]: means of a part's columns, part[p][1]: sums of squares around them. */
template <int N, class T>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    column_stats(f32 *part, const T *x, struct tile t)
{
    __shared__ f32     means[THREADS * N], squares[THREADS * N], meet[THREADS], mean_of[THREADS];
    share<N>           s(t, FORWARDS);
    ahead<ALONE, N, T> of_x;
    f32                shift[N] = {}, sum[N] = {}, square[N] = {};
    if (s.count) load_f32<N>(shift, x + s.at);
    for (int row = 0; row < s.count; row += ALONE) {
        of_x.fetch(x, row, s);
#pragma unroll
        for (int k = 0; k < ALONE; k++) {
            if (row + k >= s.count) break;
#pragma unroll
            for (int n = 0; n < N; n++) {
                f32 d = of_x.v[k][n] - shift[n];
                sum[n] += d;
                square[n] += d * d;
            }
        }
    }
    f32 per = s.count ? 1 / (f32)s.count : 0;
#pragma unroll
    for (int n = 0; n < N; n++) {
        means[threadIdx.x * N + n]   = shift[n] + sum[n] * per;
        squares[threadIdx.x * N + n] = square[n] - sum[n] * sum[n] * per;
    }
    __syncthreads();
    /* the first `more` groups have one row more than the others */
    int columns = t.units * N, rows = (int)rows_of_part(t, blockIdx.y), fewest = rows / t.groups,
        more             = rows % t.groups;
    auto rows_of         = [&](int g) { return (f32)(fewest + (g < more)); };
    f32  mean            = over_groups(meet, t.groups, columns,
                                       [&](int g, int c) { return rows_of(g) * means[g * columns + c]; });
    mean_of[threadIdx.x] = mean /= (f32)rows;
    __syncthreads();
    f32 m2     = over_groups(meet, t.groups, columns, [&](int g, int c) {
        f32 d = means[g * columns + c] - mean_of[c];
        return squares[g * columns + c] + rows_of(g) * d * d;
    });
    i64 column = (i64)blockIdx.x * columns + threadIdx.x;
    if ((int)threadIdx.x >= columns || column >= t.width) return;
    part[(2 * (i64)blockIdx.y + 0) * t.width + column] = mean;
    part[(2 * (i64)blockIdx.y + 1) * t.width + column] = m2;
}

/* Sum over parts of f(part), for the column of each thread: PART_THREADS, a column each threadIdx.x. */
template <class F> __device__ inline f32 over_parts(int parts, F f)
{
    __shared__ f32 meet[32][PART_COLUMNS + 1], sums[PART_COLUMNS];
    f32            sum = 0;
#pragma unroll 4
    for (int p = threadIdx.y; p < parts; p += 32) sum += f(p);
    meet[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = warp_sum(meet[threadIdx.x][threadIdx.y]);
    if (!threadIdx.x) sums[threadIdx.y] = sum;
    __syncthreads();
    return sums[threadIdx.x];
}

struct stats {
    f32 *mean, *rstd, *running_mean, *running_var;
    f32  eps, momentum;
};

__global__ void finish_stats(const f32 *part, struct stats s, struct tile t)
{
    i64  column = (i64)blockIdx.x * PART_COLUMNS + threadIdx.x;
    bool inside = column < t.width;
    f32  rows   = (f32)t.rows;
    auto at     = [&](int p, int which) {
        return inside ? part[(2 * (i64)p + which) * t.width + column] : 0;
    };
    f32 mean =
        over_parts(t.parts, [&](int p) { return (f32)rows_of_part(t, p) * at(p, 0); }) / rows;
    f32 m2 = over_parts(t.parts, [&](int p) {
        f32 d = at(p, 0) - mean;
        return at(p, 1) + (f32)rows_of_part(t, p) * d * d;
    });
    if (threadIdx.y || !inside) return;
    s.mean[column]         = mean;
    s.rstd[column]         = 1 / sqrtf(m2 / rows + s.eps);
    s.running_mean[column] = (1 - s.momentum) * s.running_mean[column] + s.momentum * mean;
    s.running_var[column] =
        (1 - s.momentum) * s.running_var[column] + s.momentum * (m2 / fmaxf(1, rows - 1));
}

template <class T, class W, class S> struct normalised { /* `also` is added to it; then relu */
    T       *y;
    const T *x, *also;
    const W *w, *b;
    const S *mean, *spread; /* of which rstd is itself, or with var != 0 the variance */
    f32      eps;
    bool     var, relu;
};

/* Each number is rounded as often as it would be stored without the maps that follow. */
template <int N, bool ADDS, class T, class W, class S>
__global__ void __launch_bounds__(THREADS, RESIDENT) normalise(normalised<T, W, S> a, struct tile t)
{
    constexpr int      AHEAD = ADDS ? PAIRED : ALONE;
    share<N>           s(t, BACKWARDS);
    ahead<AHEAD, N, T> of_x, more;
    f32                mean[N], scale[N], shift[N];
    if (!s.count) return;
    load_f32<N>(mean, a.mean + s.column);
    load_f32<N>(scale, a.spread + s.column);
    load_f32<N>(shift, a.w + s.column);
#pragma unroll
    for (int n = 0; n < N; n++)
        scale[n] = (a.var ? 1 / sqrtf(scale[n] + a.eps) : scale[n]) * shift[n];
    load_f32<N>(shift, a.b + s.column);
    for (int row = 0; row < s.count; row += AHEAD) {
        of_x.fetch(a.x, row, s);
        if (ADDS) more.fetch(a.also, row, s);
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (row + k >= s.count) break;
            f32 v[N];
#pragma unroll
            for (int n = 0; n < N; n++) {
                v[n] = (of_x.v[k][n] - mean[n]) * scale[n] + shift[n];
                if (ADDS) v[n] = to_f32(from_f32<T>(v[n])) + more.v[k][n];
                if (a.relu) v[n] = v[n] < 0 ? 0 : v[n];
            }
            store_f32<N>(a.y + s.at + (row + k) * s.step, v);
        }
    }
}

/* --- backward --- */

/* part[p][0]: sums of dy (x - mean) of a part's columns, part[p][1]: of dy. */
template <int N, class T>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    column_grads(f32 *part, const T *dy, const T *x, const f32 *means, struct tile t)
{
    __shared__ f32      meet[2][THREADS * N], total[THREADS];
    share<N>            s(t, FORWARDS);
    ahead<PAIRED, N, T> of_x, of_d;
    f32                 mean[N], a[N] = {}, b[N] = {};
    if (s.inside) load_f32<N>(mean, means + s.column);
    for (int row = 0; row < s.count; row += PAIRED) {
        of_x.fetch(x, row, s);
        of_d.fetch(dy, row, s);
#pragma unroll
        for (int k = 0; k < PAIRED; k++) {
            if (row + k >= s.count) break;
#pragma unroll
            for (int n = 0; n < N; n++) {
                f32 d = of_d.v[k][n];
                a[n] += d * (of_x.v[k][n] - mean[n]);
                b[n] += d;
            }
        }
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        meet[0][threadIdx.x * N + n] = a[n];
        meet[1][threadIdx.x * N + n] = b[n];
    }
    __syncthreads();
    int columns = t.units * N;
    f32 sum_a   = over_groups(total, t.groups, columns,
                              [&](int g, int c) { return meet[0][g * columns + c]; });
    f32 sum_b   = over_groups(total, t.groups, columns,
                              [&](int g, int c) { return meet[1][g * columns + c]; });
    i64 column  = (i64)blockIdx.x * columns + threadIdx.x;
    if ((int)threadIdx.x >= columns || column >= t.width) return;
    part[(2 * (i64)blockIdx.y + 0) * t.width + column] = sum_a;
    part[(2 * (i64)blockIdx.y + 1) * t.width + column] = sum_b;
}

/* dw and db; and what dx takes from them, in f32: m(dy (x - mean)) rstd^2 and m(dy). */
template <class W>
__global__ void finish_grads(W *dw, W *db, f32 *slope, f32 *level, const f32 *part,
                             const f32 *rstds, struct tile t)
{
    i64  column = (i64)blockIdx.x * PART_COLUMNS + threadIdx.x;
    bool inside = column < t.width;
    auto at     = [&](int p, int which) {
        return inside ? part[(2 * (i64)p + which) * t.width + column] : 0;
    };
    f32 a = over_parts(t.parts, [&](int p) { return at(p, 0); });
    f32 b = over_parts(t.parts, [&](int p) { return at(p, 1); });
    if (threadIdx.y || !inside) return;
    f32 rstd      = rstds[column];
    dw[column]    = from_f32<W>(a * rstd);
    db[column]    = from_f32<W>(b);
    slope[column] = a * rstd * rstd / (f32)t.rows;
    level[column] = b / (f32)t.rows;
}

template <class T, class W> struct grads {
    T         *dx;
    const T   *dy, *x;
    const W   *w;
    const f32 *mean, *rstd, *slope, *level;
};

template <int N, class T, class W>
__global__ void __launch_bounds__(THREADS, RESIDENT) batchnorm_dx(grads<T, W> a, struct tile t)
{
    share<N>            s(t, BACKWARDS);
    ahead<PAIRED, N, T> of_x, of_d;
    f32                 mean[N], slope[N], level[N], scale[N];
    if (!s.count) return;
    load_f32<N>(mean, a.rstd + s.column);
    load_f32<N>(scale, a.w + s.column);
#pragma unroll
    for (int n = 0; n < N; n++) scale[n] *= mean[n];
    load_f32<N>(mean, a.mean + s.column);
    load_f32<N>(slope, a.slope + s.column);
    load_f32<N>(level, a.level + s.column);
    for (int row = 0; row < s.count; row += PAIRED) {
        of_x.fetch(a.x, row, s);
        of_d.fetch(a.dy, row, s);
#pragma unroll
        for (int k = 0; k < PAIRED; k++) {
            if (row + k >= s.count) break;
            f32 v[N];
#pragma unroll
            for (int n = 0; n < N; n++)
                v[n] = scale[n] * (of_d.v[k][n] - level[n] - (of_x.v[k][n] - mean[n]) * slope[n]);
            store_f32<N>(a.dx + s.at + (row + k) * s.step, v);
        }
    }
}

/* --- launches --- */

/* Calls f(N): runs of columns as long as the width allows. */
template <class T, class F> static void by_width(const struct tensor &x, F f)
{
    constexpr int N = CHUNK_BYTES / sizeof(T);
    if (shape_last(x.type.shape) % N == 0) f(std::integral_constant<int, N>());
    else f(std::integral_constant<int, 1>());
}

static i64 part_numbers(const struct gpu_call *c)
{
    i64 count = 0;
    with_type(c->in[0].type.dtype, [&](auto x) {
        by_width<decltype(x)>(c->in[0], [&](auto n) {
            struct tile t = tile_of<decltype(n)::value>(c->in[0]);
            count         = 2 * t.parts * t.width;
        });
    });
    return count;
}

static i64 work_BATCHNORM(const struct gpu_call *c)
{
    return c->in[0].count ? part_numbers(c) * (i64)sizeof(f32) : 0;
}

static i64 work_BATCHNORM_GRAD(const struct gpu_call *c)
{
    i64 width = shape_last(c->in[0].type.shape);
    return c->in[0].count ? (part_numbers(c) + 2 * width) * (i64)sizeof(f32) : 0;
}

static unsigned part_blocks(const struct tile &t)
{
    return (unsigned)div_up(t.width, PART_COLUMNS);
}

template <bool CHAIN, class T, class W, class S>
static void launch_normalise(const struct gpu_call *c, const void *mean, const void *spread,
                             bool var)
{
    struct chain        then = CHAIN ? c->at->then : (struct chain){};
    bool                add  = then.count && then.op[0] == OP_ADD;
    normalised<T, W, S> a    = {
           data_of<T>(c->out[0]), data_of<T>(c->in[0]), add ? data_of<T>(c->in[c->in_count]) : NULL,
           data_of<W>(c->in[1]),  data_of<W>(c->in[2]), (const S *)mean,
           (const S *)spread,     (f32)c->at->eps,      var,
           then.count > add
    };
    by_width<T>(c->in[0], [&](auto n) {
        constexpr int N = decltype(n)::value;
        struct tile   t = tile_of<N>(c->in[0]);
        dim3          g = grid_of<N>(t);
        if (add) normalise<N, CHAIN, T, W, S><<<g, THREADS, 0, c->gpu->stream>>>(a, t);
        else normalise<N, false, T, W, S><<<g, THREADS, 0, c->gpu->stream>>>(a, t);
    });
}

template <bool CHAIN> static void run_BATCHNORM(const struct gpu_call *c)
{
    struct stats s    = { data_of<f32>(c->out[1]), data_of<f32>(c->out[2]), data_of<f32>(c->in[3]),
                          data_of<f32>(c->in[4]),  (f32)c->at->eps,         (f32)c->at->momentum };
    f32         *part = (f32 *)c->work;
    if (!c->in[0].count) return;
    with_types(c->in[0].type.dtype, c->in[1].type.dtype, [&](auto x, auto w) {
        typedef decltype(x) T;
        by_width<T>(c->in[0], [&](auto n) {
            constexpr int N = decltype(n)::value;
            struct tile   t = tile_of<N>(c->in[0]);
            column_stats<N, T>
                <<<grid_of<N>(t), THREADS, 0, c->gpu->stream>>>(part, data_of<T>(c->in[0]), t);
            finish_stats<<<part_blocks(t), PART_THREADS, 0, c->gpu->stream>>>(part, s, t);
        });
        launch_normalise<CHAIN, T, decltype(w), f32>(c, s.mean, s.rstd, false);
    });
}

template <bool CHAIN> static void run_BATCHNORM_EVAL(const struct gpu_call *c)
{
    if (!c->in[0].count) return;
    with_types(c->in[0].type.dtype, c->in[1].type.dtype, [&](auto x, auto w) {
        launch_normalise<CHAIN, decltype(x), decltype(w), decltype(w)>(c, c->in[3].data,
                                                                       c->in[4].data, true);
    });
}

static void run_BATCHNORM_GRAD(const struct gpu_call *c)
{
    const struct tensor *dy = &c->in[0], *x = &c->in[1];
    f32 *part = (f32 *)c->work, *mean = data_of<f32>(c->in[3]), *rstd = data_of<f32>(c->in[4]);
    if (!x->count) return;
    f32 *slope = part + part_numbers(c), *level = slope + shape_last(x->type.shape);
    with_types(x->type.dtype, c->in[2].type.dtype, [&](auto v, auto u) {
        typedef decltype(v) T;
        typedef decltype(u) W;
        by_width<T>(*x, [&](auto n) {
            constexpr int N = decltype(n)::value;
            struct tile   t = tile_of<N>(*x);
            column_grads<N, T><<<grid_of<N>(t), THREADS, 0, c->gpu->stream>>>(
                part, data_of<T>(*dy), data_of<T>(*x), mean, t);
            finish_grads<W><<<part_blocks(t), PART_THREADS, 0, c->gpu->stream>>>(
                data_of<W>(c->out[1]), data_of<W>(c->out[2]), slope, level, part, rstd, t);
            grads<T, W> a = { data_of<T>(c->out[0]),
                              data_of<T>(*dy),
                              data_of<T>(*x),
                              data_of<W>(c->in[2]),
                              mean,
                              rstd,
                              slope,
                              level };
            batchnorm_dx<N, T, W><<<grid_of<N>(t), THREADS, 0, c->gpu->stream>>>(a, t);
        });
    });
}

/* No maps, or a sum, or relu, or a sum and relu of it. */
static bool takes_chain(const struct gpu_call *c)
{
    const struct chain *then = &c->at->then;
    bool                add  = then->count && then->op[0] == OP_ADD;
    return !then->keep && then->count <= 1 + add &&
           (then->count == add || then->op[add] == OP_RELU);
}

/* The running statistics and the saved ones are f32. */
static bool takes_BATCHNORM(const struct gpu_call *c) { return c->in[3].type.dtype == DT_F32; }
static bool takes_BATCHNORM_chain(const struct gpu_call *c)
{
    return takes_BATCHNORM(c) && takes_chain(c);
}

extern "C" const struct gpu_kernel gpu_kernels_batchnorm[] = {
    { OP_BATCHNORM, "cuda", takes_BATCHNORM_chain, run_BATCHNORM<true>, work_BATCHNORM, NULL,
      DOES_CHAIN },
    { OP_BATCHNORM, "cuda", takes_BATCHNORM, run_BATCHNORM<false>, work_BATCHNORM, NULL, 0 },
    { OP_BATCHNORM_EVAL, "cuda", takes_chain, run_BATCHNORM_EVAL<true>, NULL, NULL, DOES_CHAIN },
    { OP_BATCHNORM_EVAL, "cuda", NULL, run_BATCHNORM_EVAL<false>, NULL, NULL, 0 },
    { OP_BATCHNORM_GRAD, "cuda", NULL, run_BATCHNORM_GRAD, work_BATCHNORM_GRAD, NULL, 0 },
};
GPU_FAMILY(batchnorm)
