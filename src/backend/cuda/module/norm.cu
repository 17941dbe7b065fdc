/* norm.cu - layer norm and RMS norm, by rows.
 *
 * With xhat = (x - mean) rstd and g = dy w, all of them have (m: mean over what was normalised)
 *     dx = rstd (g - m(g) - xhat m(g xhat))
 * where RMS norm, which subtracts no mean, lacks the second term. */
#include "backend/cuda/module/device.cuh"
#include "backend/cuda/module/launch.h"

enum { WARPS = 8, THREADS = 32 * WARPS };
enum { CHUNK = 8 }; /* numbers a lane takes at once, where the width allows */

/* Calls f(index, numbers) for each run of N numbers that this lane has in a row. */
template <int N, class F> __device__ inline void lane_runs(i64 width, F f)
{
    for (i64 i = (i64)(threadIdx.x % 32) * N; i < width; i += 32 * N) f(i);
}

struct row_norm {
    i64 rows, width;
    f32 eps;
};

template <int N, class T, class W, bool MEAN>
__global__ void row_norm_forward(T *y, f32 *means, f32 *rstds, const T *x, const W *w, const W *b,
                                 struct row_norm s)
{
    i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= s.rows) return;
    x += row * s.width;
    y += row * s.width;
    f32 sum = 0, square = 0, mean = 0;
    if (MEAN) {
        lane_runs<N>(s.width, [&](i64 i) {
            f32 v[N];
            load_f32<N>(v, x + i);
#pragma unroll
            for (int k = 0; k < N; k++) sum += v[k];
        });
        mean = warp_sum(sum) / (f32)s.width;
    }
    lane_runs<N>(s.width, [&](i64 i) {
        f32 v[N];
        load_f32<N>(v, x + i);
#pragma unroll
        for (int k = 0; k < N; k++) square += (v[k] - mean) * (v[k] - mean);
    });
    f32 rstd = 1 / sqrtf(warp_sum(square) / (f32)s.width + s.eps);
    lane_runs<N>(s.width, [&](i64 i) {
        f32 v[N], scale[N], shift[N];
        load_f32<N>(v, x + i);
        if (w) load_f32<N>(scale, w + i);
        if (b) load_f32<N>(shift, b + i);
#pragma unroll
        for (int k = 0; k < N; k++)
            v[k] = (v[k] - mean) * rstd * (w ? scale[k] : 1) + (b ? shift[k] : 0);
        store_f32<N>(y + i, v);
    });
    if (threadIdx.x % 32) return;
    if (MEAN) means[row] = mean;
    rstds[row] = rstd;
}

/* The same with the row in registers, C runs of CHUNK a lane: it is read once. With ADD the row is that
 * of a + b, which is stored too, and taken as it is stored. */
template <int C, class T, class W, bool MEAN, bool ADD>
__global__ void __launch_bounds__(THREADS, sizeof(T) > 2 ? 1
                                           : C > 4       ? 3
                                           : C > 3       ? 4
                                                         : 5)
    row_norm_held(T *y, f32 *means, f32 *rstds, const T *a, const T *b, T *sums, const W *w,
                  const W *shift, struct row_norm s)
{
    i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= s.rows) return;
    chunk<CHUNK, T> v[C];
    f32             mean = 0, square = 0;
#pragma unroll
    for (int c = 0; c < C; c++) {
        i64 i = (c * 32 + lane) * CHUNK, at = row * s.width + i;
        v[c].clear();
        if (i < s.width) v[c].load(a + at);
        if (ADD && i < s.width) {
            chunk<CHUNK, T> more;
            f32             sum[CHUNK];
            more.load(b + at);
#pragma unroll
            for (int k = 0; k < CHUNK; k++) {
                sum[k]    = v[c][k] + more[k];
                v[c].v[k] = from_f32<T>(sum[k]);
            }
            store_f32<CHUNK>(sums + at, sum);
        }
    }
#pragma unroll
    for (int c = 0; c < C; c++) {
#pragma unroll
        for (int k = 0; MEAN && k < CHUNK; k++) mean += v[c][k];
    }
    mean = MEAN ? warp_sum(mean) / (f32)s.width : 0;
#pragma unroll
    for (int c = 0; c < C; c++) {
        bool inside = (c * 32 + lane) * CHUNK < s.width;
#pragma unroll
        for (int k = 0; k < CHUNK; k++) square += inside ? (v[c][k] - mean) * (v[c][k] - mean) : 0;
    }
    f32 rstd = 1 / sqrtf(warp_sum(square) / (f32)s.width + s.eps);
#pragma unroll
    for (int c = 0; c < C; c++) {
        i64 i = (c * 32 + lane) * CHUNK;
        if (i >= s.width) continue;
        f32 scale[CHUNK], move[CHUNK], to[CHUNK];
        if (w) load_f32<CHUNK>(scale, w + i);
        if (shift) load_f32<CHUNK>(move, shift + i);
#pragma unroll
        for (int k = 0; k < CHUNK; k++)
            to[k] = (v[c][k] - mean) * rstd * (w ? scale[k] : 1) + (shift ? move[k] : 0);
        store_f32<CHUNK>(y + row * s.width + i, to);
    }
    if (lane) return;
    if (MEAN) means[row] = mean;
    rstds[row] = rstd;
}

/* dx, and each block's part of dw and db: a thread has N columns of every row that the block takes,
 * and keeps their sums in registers. dx may lie where dy does: a row is read before it is written.
 * `also` is added to dx. */
template <int N, class T, class W, bool MEAN>
__global__ void row_norm_grad(T *dx, f32 *part, const T *dy, const T *x, const W *w, const T *also,
                              const f32 *means, const f32 *rstds, struct row_norm s)
{
    __shared__ float2 meet[2][32]; /* by turns, so that one barrier a row is enough */
    i64               column = (i64)threadIdx.x * N;
    bool              inside = column < s.width;
    int         lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, turn = 0;
    f32         dw[N] = {}, db[N] = {}, scale[N], per = 1 / (f32)s.width;
    chunk<N, T> next_x, next_d,
        next_more; /* of the row to come: on the way while this one is worked on */
    auto fetch = [&](i64 row) {
        if (!inside || row >= s.rows) return;
        next_x.load(x + row * s.width + column);
        next_d.load(dy + row * s.width + column);
        if (also) next_more.load(also + row * s.width + column);
    };
#pragma unroll
    for (int n = 0; n < N; n++) scale[n] = 1;
    if (w && inside) load_f32<N>(scale, w + column);
    next_x.clear();
    next_d.clear();
    next_more.clear();
    fetch(blockIdx.x);
    for (i64 row = blockIdx.x; row < s.rows; row += gridDim.x, turn ^= 1) {
        chunk<N, T> of_x = next_x, of_d = next_d, more = next_more;
        f32 xhat[N], g[N], sum_g = 0, sum_gx = 0, mean = MEAN ? means[row] : 0, rstd = rstds[row];
        fetch(row + gridDim.x);
#pragma unroll
        for (int n = 0; n < N; n++) {
            xhat[n] = inside ? (of_x[n] - mean) * rstd : 0;
            g[n]    = of_d[n];
            dw[n] += g[n] * xhat[n];
            if (MEAN) db[n] += g[n];
            g[n] *= scale[n];
            if (MEAN) sum_g += g[n];
            sum_gx += g[n] * xhat[n];
        }
        sum_g  = MEAN ? warp_sum(sum_g) : 0;
        sum_gx = warp_sum(sum_gx);
        if (!lane) meet[turn][warp] = make_float2(sum_g, sum_gx);
        __syncthreads();
        sum_g = sum_gx = 0;
        for (int k = 0; k < warps; k++) {
            float2 part_of = meet[turn][k];
            sum_g += part_of.x;
            sum_gx += part_of.y;
        }
        if (!inside) continue;
#pragma unroll
        for (int n = 0; n < N; n++) {
            f32 d = rstd * (g[n] - sum_g * per - xhat[n] * (sum_gx * per));
            g[n]  = also ? to_f32(from_f32<T>(d)) + more[n] : d;
        }
        store_f32<N>(dx + row * s.width + column, g);
    }
    if (!inside) return;
    f32 *to = part + (i64)blockIdx.x * 2 * s.width + column;
#pragma unroll
    for (int n = 0; n < N; n++) {
        to[n]           = dw[n];
        to[s.width + n] = db[n];
    }
}

/* --- the same for rows of 16-bit numbers, by batches through shared memory ---
 *
 * The next batch is on its way while a block works on one. Warps take the two sums of each row;
 * then a thread has one run of columns, in every G-th row, so that sums over rows take few
 * registers, whatever the width:
 *
 *     thread    0 .. units-1 | units .. 2 units-1 |         A batch is contiguous, and a thread's runs lie
 *     turn 0    row 0        | row 1              |  G = 2  G x units apart. It copies what it reads here
 *     turn 1    row 2        | row 3              |         itself, so it may copy again without a barrier. */
enum { BATCH_WARPS = 16, BATCH_THREADS = 32 * BATCH_WARPS, BATCH_TURNS = 4 };
enum { SUMS = 3 };             /* over rows: dw, db, dx */
enum { BATCH_MEET_MAX = 256 }; /* bytes of shared memory for what is known of rows */

template <class T, class W> struct norm_rows {
    T              *dx;
    const T        *dy, *x, *also; /* no `also`: NULL */
    const W        *w;             /* NULL: ones */
    const f32      *means, *rstds;
    struct row_norm s;
    bool            total; /* is the sum over rows of dx (and `also`) asked for? */
};

/* Has this thread a run in this turn of the batch? */
template <int G> __device__ inline bool has_run(i64 batch, i64 end, int turn, int units)
{
    int group = (int)threadIdx.x / units;
    return group < G && batch + turn * G + group < end;
}

/* To [x, dy, also][row][unit]. */
template <int G, class T, class W>
__device__ inline void fetch_batch(chunk<CHUNK, T> *to, const norm_rows<T, W> &n, i64 batch,
                                   i64 end)
{
    int units = (int)n.s.width / CHUNK, operand = BATCH_TURNS * G * units;
#pragma unroll
    for (int turn = 0; turn < BATCH_TURNS; turn++) {
        int i  = turn * G * units + (int)threadIdx.x;
        i64 at = (batch * units + i) * CHUNK;
        if (!has_run<G>(batch, end, turn, units)) break;
        async_copy(to + i, n.x + at);
        async_copy(to + i + operand, n.dy + at);
        if (n.also) async_copy(to + i + 2 * operand, n.also + at);
    }
    async_group();
}

/* This lane's part of a row's sums of g and g (x - mean); SHARE warps have a row. */
template <int SHARE, bool MEAN, class T>
__device__ inline float2 sums_of_row(const chunk<CHUNK, T> *row, int         operand,
                                     const f32 (&w)[BATCH_TURNS][CHUNK], int unit, int units,
                                     f32 mean)
{
    float2 sum = make_float2(0, 0);
#pragma unroll
    for (int turn = 0; turn < BATCH_TURNS; turn++) {
        int at = unit + turn * SHARE * 32;
        if (at >= units) break;
        chunk<CHUNK, T> of_x = row[at], of_d = row[at + operand];
#pragma unroll
        for (int n = 0; n < CHUNK; n++) {
            f32 g = of_d[n] * w[turn][n];
            if (MEAN) sum.x += g;
            sum.y += g * (of_x[n] - mean);
        }
    }
    return sum;
}

/* A run of dx, stored; what it gives to dw, db and the sum of dx. `is`: mean and rstd; `m`: the
 * row's means of g and g xhat. */
template <class T, class W>
__device__ inline void finish_run(const norm_rows<T, W> &n, i64 at, const chunk<CHUNK, T> *batch,
                                  int operand, const f32 (&w)[CHUNK], float2 is, float2 m,
                                  f32 (&sums)[SUMS][CHUNK])
{
    chunk<CHUNK, T> of_x = batch[0], of_d = batch[operand], result;
    f32             d[CHUNK];
#pragma unroll
    for (int k = 0; k < CHUNK; k++) {
        f32 xhat = (of_x[k] - is.x) * is.y, g = of_d[k];
        sums[0][k] += g * xhat;
        sums[1][k] += g;
        d[k] = is.y * (g * w[k] - m.x - xhat * m.y);
    }
    result.set(d);
    if (n.also) {
        chunk<CHUNK, T> more = batch[2 * operand];
#pragma unroll
        for (int k = 0; k < CHUNK; k++) d[k] = result[k] + more[k];
        result.set(d);
    }
    *reinterpret_cast<chunk<CHUNK, T> *>(n.dx + at) = result;
#pragma unroll
    for (int k = 0; n.total && k < CHUNK; k++) sums[2][k] += result[k];
}

/* A column's sums are in G threads: they meet, and the block's part is stored. */
template <int G>
__device__ inline void store_part(f32 *to, f32 *meet, const f32 (&sums)[SUMS][CHUNK], int width)
{
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SUMS; k++) {
        if ((int)threadIdx.x * CHUNK < G * width)
            meet_f32<CHUNK>(meet + k * G * width + threadIdx.x * CHUNK, sums[k]);
    }
    __syncthreads();
    for (int k = 0; k < SUMS; k++) {
        for (int i = threadIdx.x; i < width; i += BATCH_THREADS) {
            f32 sum = 0;
#pragma unroll
            for (int g = 0; g < G; g++) sum += meet[(k * G + g) * width + i];
            to[k * width + i] = sum;
        }
    }
}

template <int G, class T, class W, bool MEAN>
__global__ void __launch_bounds__(BATCH_THREADS, 1)
    row_norm_grad_streamed(norm_rows<T, W> n, f32 *part)
{
    constexpr int     ROWS = BATCH_TURNS * G, SHARE = BATCH_WARPS / ROWS;
    extern __shared__ __align__(32) u8 ahead[]; /* two batches */
    __shared__ float2                  meet[ROWS][SHARE],
        known[ROWS]; /* parts of a row's means; its mean and rstd */
    auto *batches = reinterpret_cast<chunk<CHUNK, T> *>(ahead);
    int   units = (int)n.s.width / CHUNK, operand = ROWS * units, which = 0;
    int   warp = threadIdx.x / 32, row = warp / SHARE, unit = warp % SHARE * 32 + threadIdx.x % 32;
    i64   from = n.s.rows * blockIdx.x / gridDim.x, to = n.s.rows * (blockIdx.x + 1) / gridDim.x;
    f32   sums[SUMS][CHUNK] = {}, w[CHUNK], row_w[BATCH_TURNS][CHUNK], per = 1 / (f32)n.s.width,
        mean = 0, rstd = 0;
    auto load_w = [&](f32 *to_w, int at) {
#pragma unroll
        for (int k = 0; k < CHUNK; k++) to_w[k] = 1;
        if (n.w && at < units) load_f32<CHUNK>(to_w, n.w + at * CHUNK);
    };
    auto look_up = [&](i64 at) { /* a batch ahead */
                                 if (MEAN && at < to) mean = n.means[at];
                                 if (at < to) rstd = n.rstds[at];
    };
    fetch_batch<G>(batches, n, from, to);
    fetch_batch<G>(batches + 3 * operand, n, from + ROWS, to);
    look_up(from + row);
    load_w(w, (int)threadIdx.x % units);
#pragma unroll
    for (int turn = 0; turn < BATCH_TURNS; turn++) load_w(row_w[turn], unit + turn * SHARE * 32);
    for (i64 batch = from; batch < to; batch += ROWS, which ^= 1) {
        auto  *here = batches + which * 3 * operand;
        float2 is = make_float2(mean, rstd), sum = make_float2(0, 0);
        look_up(batch + ROWS + row);
        async_wait<1>();
        __syncthreads();
        if (batch + row < to)
            sum = sums_of_row<SHARE, MEAN>(here + row * units, operand, row_w, unit, units, is.x);
        sum = make_float2(MEAN ? warp_sum(sum.x) * per : 0, warp_sum(sum.y) * per * is.y);
        if (threadIdx.x % 32 == 0) meet[row][warp % SHARE] = sum;
        if (unit == 0) known[row] = is;
        __syncthreads();
#pragma unroll
        for (int turn = 0; turn < BATCH_TURNS; turn++) {
            int    i = turn * G * units + (int)threadIdx.x, r = turn * G + (int)threadIdx.x / units;
            float2 m = make_float2(0, 0);
            if (!has_run<G>(batch, to, turn, units)) break;
#pragma unroll
            for (int k = 0; k < SHARE; k++) m = make_float2(m.x + meet[r][k].x, m.y + meet[r][k].y);
            finish_run(n, (batch * units + i) * CHUNK, here + i, operand, w, known[r], m, sums);
        }
        fetch_batch<G>(here, n, batch + 2 * ROWS, to);
    }
    store_part<G>(part + (i64)blockIdx.x * SUMS * n.s.width, reinterpret_cast<f32 *>(ahead), sums,
                  (int)n.s.width);
}

/* Rows too wide or too odd for that: a warp a row, and a thread a column. */
template <class T, class W, bool MEAN>
__global__ void row_norm_dx(T *dx, const T *dy, const T *x, const W *w, const f32 *means,
                            const f32 *rstds, struct row_norm s)
{
    i64 row = (i64)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= s.rows) return;
    x += row * s.width;
    dy += row * s.width;
    dx += row * s.width;
    f32 mean = MEAN ? means[row] : 0, rstd = rstds[row], sum_g = 0, sum_gx = 0;
    lane_runs<1>(s.width, [&](i64 i) {
        f32 g = to_f32(dy[i]) * (w ? to_f32(w[i]) : 1);
        sum_g += g;
        sum_gx += g * (to_f32(x[i]) - mean) * rstd;
    });
    f32 mean_g  = MEAN ? warp_sum(sum_g) / (f32)s.width : 0;
    f32 mean_gx = warp_sum(sum_gx) / (f32)s.width;
    lane_runs<1>(s.width, [&](i64 i) {
        f32 g = to_f32(dy[i]) * (w ? to_f32(w[i]) : 1), xhat = (to_f32(x[i]) - mean) * rstd;
        dx[i] = from_f32<T>(rstd * (g - mean_g - xhat * mean_gx));
    });
}

/* dw and db in parts of the rows. Runs before dx, which may take over dy's memory. */
template <class T, bool MEAN>
__global__ void row_norm_dw(f32 *part, const T *dy, const T *x, const f32 *means, const f32 *rstds,
                            struct row_norm s, i64 each)
{
    i64 column = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= s.width) return;
    i64 from = blockIdx.y * each, to = min(s.rows, from + each);
    f32 dw = 0, db = 0;
    for (i64 row = from; row < to; row++) {
        f32 d = to_f32(dy[row * s.width + column]), v = to_f32(x[row * s.width + column]);
        dw += d * (v - (MEAN ? means[row] : 0)) * rstds[row];
        db += d;
    }
    part[(2 * blockIdx.y + 0) * s.width + column] = dw;
    part[(2 * blockIdx.y + 1) * s.width + column] = db;
}

template <class W>
struct added { /* sums in `parts` parts, [part][sum][width]; NULL: not asked for */
    W  *to[SUMS];
    i64 count, width, parts;
};

template <class W> __global__ void add_sums(const f32 *part, struct added<W> a)
{
    i64 first = (i64)blockIdx.x * PART_COLUMNS, column = first + threadIdx.x;
    W  *to = a.to[blockIdx.y];
    if (!to) return;
    f32 sum = sum_parts(part + blockIdx.y * a.width + column, a.count * a.width, a.parts,
                        column < a.width);
    if (!threadIdx.x && first + threadIdx.y < a.width) to[first + threadIdx.y] = from_f32<W>(sum);
}

template <class W> static void launch_add_sums(const struct gpu_call *c, struct added<W> a)
{
    dim3 grid((unsigned)div_up(a.width, PART_COLUMNS), (unsigned)a.count);
    add_sums<W><<<grid, PART_THREADS, 0, c->gpu->stream>>>((f32 *)c->work, a);
}

/* dw and, where there is one, db. */
template <class W>
static void launch_add_pairs(const struct gpu_call *c, W *dw, W *db, i64 width, i64 parts)
{
    launch_add_sums<W>(c, { { dw, db, NULL }, 2, width, parts });
}

static i64 parts_of(i64 rows)
{
    return MAX(1, MIN(264, rows / 32));
} /* twice an H200's processors */

static i64 work_row_norm_grad(const struct gpu_call *c)
{
    i64 width = shape_last(c->in[1].type.shape), rows = shape_rows(c->in[1].type.shape);
    return 2 * parts_of(rows) * width * (i64)sizeof(f32);
}

/* Calls f(N, T(), W()): as many numbers at once as the width allows. */
template <class F> static void by_width(const struct tensor &x, enum dtype w, i64 width, F f)
{
    with_types(x.type.dtype, w, [&](auto t, auto v) {
        if (width % CHUNK == 0) f(std::integral_constant<int, CHUNK>(), t, v);
        else f(std::integral_constant<int, 1>(), t, v);
    });
}

template <bool MEAN> static void run_forward(const struct gpu_call *c)
{
    struct row_norm s = { shape_rows(c->in[0].type.shape), shape_last(c->in[0].type.shape),
                          (f32)c->at->eps };
    if (!s.rows) return;
    enum dtype weight = c->in_count > 1 ? c->in[1].type.dtype : DT_F32;
    by_width(c->in[0], weight, s.width, [&](auto n, auto t, auto v) {
        typedef decltype(t) T;
        typedef decltype(v) W;
        row_norm_forward<decltype(n)::value, T, W, MEAN>
            <<<(unsigned)div_up(s.rows, WARPS), THREADS, 0, c->gpu->stream>>>(
                data_of<T>(c->out[0]), MEAN ? data_of<f32>(c->out[1]) : NULL,
                data_of<f32>(c->out[MEAN ? 2 : 1]), data_of<T>(c->in[0]),
                c->in_count > 1 ? data_of<W>(c->in[1]) : NULL,
                c->in_count > 2 ? data_of<W>(c->in[2]) : NULL, s);
    });
}

enum { HELD_WIDTH_MAX = 8 * 32 * CHUNK };

static bool takes_held(const struct gpu_call *c)
{
    i64 width = shape_last(c->in[0].type.shape);
    return width % CHUNK == 0 && width <= HELD_WIDTH_MAX;
}

/* Operands: (a, b or x), weight, bias -> y, mean where there is one, rstd (, a + b). */
template <bool MEAN, bool ADD> static void run_held(const struct gpu_call *c)
{
    struct row_norm s     = { shape_rows(c->in[0].type.shape), shape_last(c->in[0].type.shape),
                              (f32)c->at->eps };
    i32             first = ADD ? 2 : 1, past = MEAN ? 3 : 2;
    if (!s.rows) return;
    enum dtype weight = c->in_count > first ? c->in[first].type.dtype : DT_F32;
    with_types(c->in[0].type.dtype, weight, [&](auto t, auto v) {
        typedef decltype(t) T;
        typedef decltype(v) W;
        auto                launch = [&](auto n) {
            row_norm_held<decltype(n)::value, T, W, MEAN, ADD>
                <<<(unsigned)div_up(s.rows, WARPS), THREADS, 0, c->gpu->stream>>>(
                    data_of<T>(c->out[0]), MEAN ? data_of<f32>(c->out[1]) : NULL,
                    data_of<f32>(c->out[MEAN ? 2 : 1]), data_of<T>(c->in[0]),
                    ADD ? data_of<T>(c->in[1]) : NULL, ADD ? data_of<T>(c->out[past]) : NULL,
                    c->in_count > first ? data_of<W>(c->in[first]) : NULL,
                    c->in_count > first + 1 ? data_of<W>(c->in[first + 1]) : NULL, s);
        };
        i64 runs = div_up(
            s.width,
            32 * CHUNK); /* no more registers than the models at hand need: more warps find room */
        if (runs <= 3) launch(std::integral_constant<int, 3>());
        else if (runs <= 4) launch(std::integral_constant<int, 4>());
        else if (runs <= 7) launch(std::integral_constant<int, 7>());
        else launch(std::integral_constant<int, 8>());
    });
}

/* A sum of any width: added first, then read back. */
template <bool MEAN> static void run_add_forward(const struct gpu_call *c)
{
    i32                  past = MEAN ? 3 : 2;
    const struct tensor *sum  = &c->out[past];
    launch_add(sum->data, c->in[0].data, c->in[1].data, sum->type.dtype, sum->count,
               c->gpu->stream);
    struct tensor   in[3] = { *sum };
    struct gpu_call norm  = *c;
    for (i32 i = 2; i < c->in_count; i++) in[i - 1] = c->in[i];
    norm.in       = in;
    norm.in_count = c->in_count - 1;
    run_forward<MEAN>(&norm);
}

enum { COLUMNS_MAX = 1024 * CHUNK }; /* a block has 1024 threads at most */

static bool in_registers(i64 width)
{
    return width > 0 && width % CHUNK == 0 && width <= COLUMNS_MAX;
}

/* Blocks, each with its part of the sums: eight on each of an H200's processors. */
static i64 blocks_of(i64 rows) { return MAX(1, MIN(1056, rows / 16)); }

static i64 work_rows(const struct gpu_call *c)
{
    i64 width = shape_last(c->in[1].type.shape), rows = shape_rows(c->in[1].type.shape);
    return 2 * blocks_of(rows) * width * (i64)sizeof(f32);
}

struct
    norm_grad { /* operands: dy, x, w, mean, rstd of a layer norm, dy, x, rstd (, w) of an RMS norm */
    const struct tensor *dy, *x, *w, *also;
    const f32           *means, *rstds;
    struct row_norm      s;
    i64                  parts;
};

template <bool MEAN> static struct norm_grad norm_grad_of(const struct gpu_call *c)
{
    struct norm_grad n = {};
    n.dy               = &c->in[0];
    n.x                = &c->in[1];
    n.w                = MEAN ? &c->in[2] : c->in_count == 4 ? &c->in[3] : NULL;
    n.also             = c->at->then.count ? &c->in[c->in_count] : NULL;
    n.means            = MEAN ? data_of<f32>(c->in[3]) : NULL;
    n.rstds            = data_of<f32>(c->in[MEAN ? 4 : 2]);
    n.s                = { shape_rows(n.x->type.shape), shape_last(n.x->type.shape), 0 };
    n.parts            = parts_of(n.s.rows);
    return n;
}

template <bool MEAN> static void run_grad_in_registers(const struct gpu_call *c)
{
    struct norm_grad n      = norm_grad_of<MEAN>(c);
    i64              blocks = blocks_of(n.s.rows), threads = div_up(n.s.width, 32 * CHUNK) * 32;
    if (!n.s.rows) return;
    with_types(n.x->type.dtype, c->out[1].type.dtype, [&](auto t, auto v) {
        typedef decltype(t) T;
        typedef decltype(v) W;
        row_norm_grad<CHUNK, T, W, MEAN>
            <<<(unsigned)blocks, (unsigned)threads, 0, c->gpu->stream>>>(
                data_of<T>(c->out[0]), (f32 *)c->work, data_of<T>(*n.dy), data_of<T>(*n.x),
                n.w ? data_of<W>(*n.w) : NULL, n.also ? data_of<T>(*n.also) : NULL, n.means,
                n.rstds, n.s);
        launch_add_pairs<W>(c, data_of<W>(c->out[1]), MEAN ? data_of<W>(c->out[2]) : NULL,
                            n.s.width, blocks);
    });
}

/* Rows side by side in a batch: as many as the threads have runs for. */
static i64 groups_of(i64 width)
{
    i64 groups = BATCH_THREADS * CHUNK / width;
    return groups >= 4 ? 4 : groups >= 2 ? 2 : groups;
}

/* Of two batches, three operands each. */
static i64 streamed_bytes(i64 width) { return 2 * 3 * BATCH_TURNS * groups_of(width) * width * 2; }

/* One on each of an H200's processors; a batch each at least. */
static i64 streamed_blocks(const struct row_norm &s)
{
    return MAX(1, MIN(132, s.rows / (BATCH_TURNS * groups_of(s.width))));
}

template <bool MEAN> static i64 work_streamed(const struct gpu_call *c)
{
    struct row_norm s = norm_grad_of<MEAN>(c).s;
    return SUMS * streamed_blocks(s) * s.width * (i64)sizeof(f32);
}

template <bool MEAN> static void run_grad_streamed(const struct gpu_call *c)
{
    struct norm_grad n      = norm_grad_of<MEAN>(c);
    i64              blocks = streamed_blocks(n.s), bytes = streamed_bytes(n.s.width);
    with_types(n.x->type.dtype, c->out[1].type.dtype, [&](auto t, auto v) {
        typedef decltype(t) T;
        typedef decltype(v) W;
        norm_rows<T, W>     rows   = { data_of<T>(c->out[0]),
                                       data_of<T>(*n.dy),
                                       data_of<T>(*n.x),
                                 n.also ? data_of<T>(*n.also) : NULL,
                                 n.w ? data_of<W>(*n.w) : NULL,
                                       n.means,
                                       n.rstds,
                                       n.s,
                                       c->sum != NULL };
        auto                launch = [&](auto groups) {
            auto f = row_norm_grad_streamed<decltype(groups)::value, T, W, MEAN>;
            cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
            f<<<(unsigned)blocks, BATCH_THREADS, (size_t)bytes, c->gpu->stream>>>(rows,
                                                                                  (f32 *)c->work);
        };
        if constexpr (sizeof(T) == 2) {
            switch (groups_of(n.s.width)) {
            case 4: launch(std::integral_constant<int, 4>()); break;
            case 2: launch(std::integral_constant<int, 2>()); break;
            default: launch(std::integral_constant<int, 1>());
            }
        }
        launch_add_sums<W>(c, { { data_of<W>(c->out[1]), MEAN ? data_of<W>(c->out[2]) : NULL,
                                  c->sum ? data_of<W>(*c->sum) : NULL },
                                SUMS,
                                n.s.width,
                                blocks });
    });
}

template <bool MEAN> static void run_grad(const struct gpu_call *c)
{
    struct norm_grad n = norm_grad_of<MEAN>(c);
    if (!n.s.rows) return;
    with_types(n.x->type.dtype, c->out[1].type.dtype, [&](auto t, auto v) {
        typedef decltype(t) T;
        typedef decltype(v) W;
        dim3                grid((unsigned)div_up(n.s.width, 128), (unsigned)n.parts);
        row_norm_dw<T, MEAN><<<grid, 128, 0, c->gpu->stream>>>((f32 *)c->work, data_of<T>(*n.dy),
                                                               data_of<T>(*n.x), n.means, n.rstds,
                                                               n.s, div_up(n.s.rows, n.parts));
        launch_add_pairs<W>(c, data_of<W>(c->out[1]), MEAN ? data_of<W>(c->out[2]) : NULL,
                            n.s.width, n.parts);
        row_norm_dx<T, W, MEAN><<<(unsigned)div_up(n.s.rows, WARPS), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(*n.dy), data_of<T>(*n.x),
            n.w ? data_of<W>(*n.w) : NULL, n.means, n.rstds, n.s);
    });
}

/* No chain, or one tensor that is added. */
static bool takes_grad(const struct gpu_call *c)
{
    const struct chain *then = &c->at->then;
    bool adds = !then->count || (then->count == 1 && !then->keep && then->op[0] == OP_ADD);
    return adds && in_registers(shape_last(c->in[1].type.shape));
}

static bool takes_grad_streamed(const struct gpu_call *c)
{
    i64 width = shape_last(c->in[1].type.shape);
    return takes_grad(c) && c->in[1].count && dtype_bytes(c->in[1].type.dtype) == 2 &&
           groups_of(width) && streamed_bytes(width) + BATCH_MEET_MAX <= c->gpu->shared_bytes;
}

extern "C" const struct gpu_kernel gpu_kernels_norm[] = {
    { OP_LAYERNORM, "cuda_held", takes_held, run_held<true, false>, NULL, NULL, 0 },
    { OP_RMSNORM, "cuda_held", takes_held, run_held<false, false>, NULL, NULL, 0 },
    { OP_ADD_LAYERNORM, "cuda_held", takes_held, run_held<true, true>, NULL, NULL, 0 },
    { OP_ADD_RMSNORM, "cuda_held", takes_held, run_held<false, true>, NULL, NULL, 0 },
    { OP_ADD_LAYERNORM, "cuda", NULL, run_add_forward<true>, NULL, NULL, 0 },
    { OP_ADD_RMSNORM, "cuda", NULL, run_add_forward<false>, NULL, NULL, 0 },
    { OP_LAYERNORM, "cuda", NULL, run_forward<true>, NULL, NULL, 0 },
    { OP_RMSNORM, "cuda", NULL, run_forward<false>, NULL, NULL, 0 },
    { OP_LAYERNORM_GRAD, "cuda_streamed", takes_grad_streamed, run_grad_streamed<true>,
      work_streamed<true>, NULL, DOES_CHAIN | DOES_SUM },
    { OP_RMSNORM_GRAD, "cuda_streamed", takes_grad_streamed, run_grad_streamed<false>,
      work_streamed<false>, NULL, DOES_CHAIN | DOES_SUM },
    { OP_LAYERNORM_GRAD, "cuda_rows", takes_grad, run_grad_in_registers<true>, work_rows, NULL,
      DOES_CHAIN },
    { OP_RMSNORM_GRAD, "cuda_rows", takes_grad, run_grad_in_registers<false>, work_rows, NULL,
      DOES_CHAIN },
    { OP_LAYERNORM_GRAD, "cuda", NULL, run_grad<true>, work_row_norm_grad, NULL, 0 },
    { OP_RMSNORM_GRAD, "cuda", NULL, run_grad<false>, work_row_norm_grad, NULL, 0 },
};
GPU_FAMILY(norm)
