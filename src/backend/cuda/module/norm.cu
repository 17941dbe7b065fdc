/* norm.cu - layer norm and RMS norm, a warp a row; batch norm, columns summed in parts.
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
__global__ void __launch_bounds__(THREADS, sizeof(T) > 2 ? 1 : C > 4 ? 3 : C > 3 ? 4 : 5)
row_norm_held(T *y, f32 *means, f32 *rstds, const T *a, const T *b, T *sums, const W *w, const W *shift,
              struct row_norm s)
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
    int               lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, turn = 0;
    f32               dw[N] = {}, db[N] = {}, scale[N], per = 1 / (f32)s.width;
    chunk<N, T>       next_x, next_d, next_more; /* of the row to come: on the way while this one is worked on */
    auto              fetch = [&](i64 row) {
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
        f32         xhat[N], g[N], sum_g = 0, sum_gx = 0, mean = MEAN ? means[row] : 0, rstd = rstds[row];
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

/* A run of 16 bytes from shared memory, even if the compiler has it still: registers are needed for sums. */
template <class T> __device__ inline chunk<CHUNK, T> read_again(const chunk<CHUNK, T> *from)
{
    union {
        unsigned        word[4];
        chunk<CHUNK, T> run;
    } to;
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to.word[0]), "=r"(to.word[1]), "=r"(to.word[2]), "=r"(to.word[3])
                 : "r"((unsigned)__cvta_generic_to_shared(from)));
    return to.run;
}

/* The sums of a block's warps: one after another adds its own to what lies in `sums`, and the last one stores them in
 * `to`. Barriers come first: whatever the threads had in `sums` is done with. */
template <int C, bool MEAN>
__device__ inline void meet_sums(f32 (&dw)[C][CHUNK], f32 (&db)[C][CHUNK], f32 *sums, f32 *to, int width)
{
    int  lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto meet = [&](f32 *mine, int at) {
        f32 so_far[CHUNK] = {};
        if (warp) load_f32<CHUNK>(so_far, sums + at);
#pragma unroll
        for (int n = 0; n < CHUNK; n++) so_far[n] += mine[n];
        store_f32<CHUNK>((warp == WARPS - 1 ? to : sums) + at, so_far);
    };
    for (int turn = 0; turn < WARPS; turn++) {
        __syncthreads();
        if (turn != warp) continue;
#pragma unroll
        for (int c = 0; c < C; c++) {
            int column = (c * 32 + lane) * CHUNK;
            if (column >= width) continue;
            meet(dw[c], column);
            if (MEAN) meet(db[c], width + column);
        }
    }
}

/* The same for rows of 16-bit numbers, a warp a row and C runs a lane: the next row is on its way into shared memory
 * while the warp works on this one. Lanes copy what they read themselves, and dw and db stay in registers, so that
 * no warp waits for another before the end, when the block's sums meet. */
template <int C, class T, class W, bool MEAN>
__global__ void __launch_bounds__(THREADS, C <= 3 ? 2 : 1)
row_norm_grad_streamed(T *dx, f32 *part, const T *dy, const T *x, const W *w, const T *also,
                       const f32 *means, const f32 *rstds, struct row_norm s)
{
    extern __shared__ __align__(32) u8 rows_ahead[]; /* [warp][turn][x, dy, also][C][lane] */
    typedef chunk<CHUNK, T> run;
    int  lane = threadIdx.x % 32, warp = threadIdx.x / 32, width = (int)s.width, turn = 0;
    run *mine = reinterpret_cast<run *>(rows_ahead) + warp * (2 * 3 * C * 32) + lane;
    f32  dw[C][CHUNK] = {}, db[C][CHUNK] = {}, scale[C][CHUNK], next_mean = 0, next_rstd = 0;
    auto slot   = [&](int which, int operand, int c) { return mine + ((which * 3 + operand) * C + c) * 32; };
    auto column = [&](int c) { return (c * 32 + lane) * CHUNK; };
    auto fetch  = [&](i64 row, int which) {
        if (row < s.rows) {
#pragma unroll
            for (int c = 0; c < C; c++) {
                i64 at = row * width + column(c);
                if (column(c) >= width) continue;
                async_copy(slot(which, 0, c), x + at);
                async_copy(slot(which, 1, c), dy + at);
                if (also) async_copy(slot(which, 2, c), also + at);
            }
            next_mean = MEAN ? means[row] : 0;
            next_rstd = rstds[row];
        }
        async_group();
    };
#pragma unroll
    for (int c = 0; c < C; c++) {
#pragma unroll
        for (int n = 0; n < CHUNK; n++) scale[c][n] = 1;
        if (w && column(c) < width) load_f32<CHUNK>(scale[c], w + column(c));
        for (int k = 0; k < 6 && column(c) >= width; k++) slot(k / 3, k % 3, c)->clear(); /* never copied to */
    }
    i64 step = (i64)gridDim.x * WARPS, first = (i64)blockIdx.x * WARPS + warp;
    fetch(first, 0);
    for (i64 row = first; row < s.rows; row += step, turn ^= 1) {
        f32 mean = next_mean, rstd = next_rstd, sum_g = 0, sum_gx = 0;
        fetch(row + step, turn ^ 1);
        async_wait<1>();
#pragma unroll
        for (int c = 0; c < C; c++) {
            run of_x = *slot(turn, 0, c), of_d = *slot(turn, 1, c);
#pragma unroll
            for (int n = 0; n < CHUNK; n++) {
                f32 xhat = (of_x[n] - mean) * rstd, g = of_d[n];
                dw[c][n] += g * xhat;
                if (MEAN) db[c][n] += g;
                g *= scale[c][n];
                if (MEAN) sum_g += g;
                sum_gx += g * xhat;
            }
        }
        sum_g  = MEAN ? warp_sum(sum_g) / (f32)width : 0;
        sum_gx = warp_sum(sum_gx) / (f32)width;
#pragma unroll
        for (int c = 0; c < C; c++) {
            if (column(c) >= width) continue;
            run of_x = read_again(slot(turn, 0, c)), of_d = read_again(slot(turn, 1, c));
            run more = *slot(turn, 2, c);
            f32 d[CHUNK];
#pragma unroll
            for (int n = 0; n < CHUNK; n++) {
                f32 xhat = (of_x[n] - mean) * rstd;
                d[n]     = rstd * (of_d[n] * scale[c][n] - sum_g - xhat * sum_gx);
                if (also) d[n] = to_f32(from_f32<T>(d[n])) + more[n];
            }
            store_f32<CHUNK>(dx + row * width + column(c), d);
        }
    }
    async_wait<0>();
    meet_sums<C, MEAN>(dw, db, reinterpret_cast<f32 *>(rows_ahead), part + (i64)blockIdx.x * 2 * width, width);
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

/* Adds the parts: blockIdx.y 0 those of dw, 1 those of db. */
template <class W>
__global__ void add_pairs(W *dw, W *db, const f32 *part, i64 width, i64 parts)
{
    i64  column = (i64)blockIdx.x * 32 + threadIdx.x;
    bool inside = column < width;
    f32  sum    = sum_parts(part + blockIdx.y * width + column, 2 * width, parts, inside);
    if (inside && !threadIdx.y) (blockIdx.y ? db : dw)[column] = from_f32<W>(sum);
}

template <class W>
static void launch_add_pairs(const struct gpu_call *c, W *dw, W *db, i64 width, i64 parts)
{
    dim3 grid((unsigned)div_up(width, 32), db ? 2 : 1);
    add_pairs<W><<<grid, PART_THREADS, 0, c->gpu->stream>>>(dw, db, (f32 *)c->work, width, parts);
}

static i64 parts_of(i64 rows) { return MAX(1, MIN(264, rows / 32)); } /* twice an H200's processors */

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
    struct row_norm s = { shape_rows(c->in[0].type.shape), shape_last(c->in[0].type.shape),
                          (f32)c->at->eps };
    i32 first = ADD ? 2 : 1, past = MEAN ? 3 : 2;
    if (!s.rows) return;
    enum dtype weight = c->in_count > first ? c->in[first].type.dtype : DT_F32;
    with_types(c->in[0].type.dtype, weight, [&](auto t, auto v) {
        typedef decltype(t) T;
        typedef decltype(v) W;
        auto launch = [&](auto n) {
            row_norm_held<decltype(n)::value, T, W, MEAN, ADD>
                <<<(unsigned)div_up(s.rows, WARPS), THREADS, 0, c->gpu->stream>>>(
                    data_of<T>(c->out[0]), MEAN ? data_of<f32>(c->out[1]) : NULL,
                    data_of<f32>(c->out[MEAN ? 2 : 1]), data_of<T>(c->in[0]),
                    ADD ? data_of<T>(c->in[1]) : NULL, ADD ? data_of<T>(c->out[past]) : NULL,
                    c->in_count > first ? data_of<W>(c->in[first]) : NULL,
                    c->in_count > first + 1 ? data_of<W>(c->in[first + 1]) : NULL, s);
        };
        i64 runs = div_up(s.width, 32 * CHUNK); /* no more registers than the models at hand need: more warps find room */
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
    const struct tensor *sum = &c->out[past];
    launch_add(sum->data, c->in[0].data, c->in[1].data, sum->type.dtype, sum->count, c->gpu->stream);
    struct tensor   in[3] = { *sum };
    struct gpu_call norm  = *c;
    for (i32 i = 2; i < c->in_count; i++) in[i - 1] = c->in[i];
    norm.in       = in;
    norm.in_count = c->in_count - 1;
    run_forward<MEAN>(&norm);
}

enum { COLUMNS_MAX = 1024 * CHUNK }; /* a block has 1024 threads at most */

static bool in_registers(i64 width) { return width % CHUNK == 0 && width <= COLUMNS_MAX; }

/* Blocks, each with its part of the sums: eight on each of an H200's processors. */
static i64 blocks_of(i64 rows) { return MAX(1, MIN(1056, rows / 16)); }

static i64 work_rows(const struct gpu_call *c)
{
    i64 width = shape_last(c->in[1].type.shape), rows = shape_rows(c->in[1].type.shape);
    return 2 * blocks_of(rows) * width * (i64)sizeof(f32);
}

struct norm_grad { /* operands: dy, x, w, mean, rstd of a layer norm, dy, x, rstd (, w) of an RMS norm */
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

enum { STREAMED_RUNS_MAX = 7 }; /* of a lane: 1792 columns */

static i64 runs_of(i64 width) /* of a lane, in sizes that there are kernels for */
{
    i64 runs = MAX(3, div_up(width, 32 * CHUNK));
    return runs == 6 ? 7 : runs;
}

static i64 streamed_bytes(i64 width) { return WARPS * 2 * 3 * runs_of(width) * 32 * 16; }

/* One or two on each of an H200's processors; two rows a warp at least. */
static i64 streamed_blocks(const struct row_norm &s)
{
    return MAX(1, MIN(runs_of(s.width) == 3 ? 264 : 132, s.rows / (2 * WARPS)));
}

template <bool MEAN> static i64 work_streamed(const struct gpu_call *c)
{
    struct row_norm s = norm_grad_of<MEAN>(c).s;
    return 2 * streamed_blocks(s) * s.width * (i64)sizeof(f32);
}

template <bool MEAN> static void run_grad_streamed(const struct gpu_call *c)
{
    struct norm_grad n      = norm_grad_of<MEAN>(c);
    i64              blocks = streamed_blocks(n.s), bytes = streamed_bytes(n.s.width);
    if (!n.s.rows) return;
    with_types(n.x->type.dtype, c->out[1].type.dtype, [&](auto t, auto v) {
        typedef decltype(t) T;
        typedef decltype(v) W;
        auto launch = [&](auto runs) {
            auto f = row_norm_grad_streamed<decltype(runs)::value, T, W, MEAN>;
            cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
            f<<<(unsigned)blocks, THREADS, (size_t)bytes, c->gpu->stream>>>(
                data_of<T>(c->out[0]), (f32 *)c->work, data_of<T>(*n.dy), data_of<T>(*n.x),
                n.w ? data_of<W>(*n.w) : NULL, n.also ? data_of<T>(*n.also) : NULL, n.means, n.rstds,
                n.s);
            launch_add_pairs<W>(c, data_of<W>(c->out[1]), MEAN ? data_of<W>(c->out[2]) : NULL,
                                n.s.width, blocks);
        };
        if constexpr (sizeof(T) == 2) {
            switch (runs_of(n.s.width)) {
            case 3: launch(std::integral_constant<int, 3>()); break;
            case 4: launch(std::integral_constant<int, 4>()); break;
            case 5: launch(std::integral_constant<int, 5>()); break;
            default: launch(std::integral_constant<int, 7>());
            }
        }
    });
}

template <bool MEAN> static void run_grad(const struct gpu_call *c)
{
    struct norm_grad n = norm_grad_of<MEAN>(c);
    if (!n.s.rows) return;
    with_types(n.x->type.dtype, c->out[1].type.dtype, [&](auto t, auto v) {
        typedef decltype(t) T;
        typedef decltype(v) W;
        dim3 grid((unsigned)div_up(n.s.width, 128), (unsigned)n.parts);
        row_norm_dw<T, MEAN><<<grid, 128, 0, c->gpu->stream>>>(
            (f32 *)c->work, data_of<T>(*n.dy), data_of<T>(*n.x), n.means, n.rstds, n.s,
            div_up(n.s.rows, n.parts));
        launch_add_pairs<W>(c, data_of<W>(c->out[1]), MEAN ? data_of<W>(c->out[2]) : NULL,
                            n.s.width, n.parts);
        row_norm_dx<T, W, MEAN>
            <<<(unsigned)div_up(n.s.rows, WARPS), THREADS, 0, c->gpu->stream>>>(
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
    return takes_grad(c) && dtype_bytes(c->in[1].type.dtype) == 2 &&
           width <= STREAMED_RUNS_MAX * 32 * CHUNK && streamed_bytes(width) <= c->gpu->shared_bytes;
}

/* --- batch norm: columns of [rows, width] --- */

enum { MOMENT_SUM, MOMENT_SQUARE, MOMENT_GRAD };

/* Parts of, by column: sum x | sum (x - mean)^2 | sum dy and sum dy xhat. */
template <class T, int MOMENT>
__global__ void column_moment(f32 *part, const T *x, const T *dy, const f32 *mean, const f32 *rstd,
                              i64 rows, i64 width, i64 each)
{
    i64 column = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    i64 from = blockIdx.y * each, to = min(rows, from + each);
    f32 a = 0, b = 0, m = MOMENT == MOMENT_SUM ? 0 : mean[column];
#pragma unroll 4
    for (i64 row = from; row < to; row++) {
        f32 v = to_f32(x[row * width + column]) - m;
        if (MOMENT == MOMENT_GRAD) {
            f32 d = to_f32(dy[row * width + column]);
            a += d * v * rstd[column];
            b += d;
        } else {
            a += MOMENT == MOMENT_SQUARE ? v * v : v;
        }
    }
    part[(2 * blockIdx.y + 0) * width + column] = a;
    part[(2 * blockIdx.y + 1) * width + column] = b;
}

struct finish { /* what becomes of the sums of a column */
    f32       *mean, *rstd;
    void      *running_mean, *running_var;
    f32        eps, momentum;
    i64        rows, width, parts;
};

template <class R>
__global__ void finish_moments(const f32 *part, struct finish f, bool square)
{
    i64 column = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= f.width) return;
    f32 sum = 0;
    for (i64 p = 0; p < f.parts; p++) sum += part[2 * p * f.width + column];
    f32 value = sum / (f32)f.rows;
    R  *to    = (R *)(square ? f.running_var : f.running_mean) + column;
    if (square) f.rstd[column] = 1 / sqrtf(value + f.eps);
    else f.mean[column] = value;
    if (square) value = value * (f32)f.rows / (f32)max((i64)1, f.rows - 1);
    *to = from_f32<R>((1 - f.momentum) * to_f32(*to) + f.momentum * value);
}

template <class T, class W>
__global__ void normalise(T *y, const T *x, const W *w, const W *b, const f32 *mean,
                          const f32 *rstd, i64 count, i64 width)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x, k = i % width;
    if (i >= count) return;
    y[i] = from_f32<T>((to_f32(x[i]) - mean[k]) * rstd[k] * to_f32(w[k]) + to_f32(b[k]));
}

template <class T, class W>
__global__ void normalise_eval(T *y, const T *x, const W *w, const W *b, const W *mean,
                               const W *var, f32 eps, i64 count, i64 width)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x, k = i % width;
    if (i >= count) return;
    f32 rstd = 1 / sqrtf(to_f32(var[k]) + eps);
    y[i] = from_f32<T>((to_f32(x[i]) - to_f32(mean[k])) * rstd * to_f32(w[k]) + to_f32(b[k]));
}

template <class T, class W>
__global__ void batchnorm_dx(T *dx, const T *dy, const T *x, const W *w, const f32 *mean,
                             const f32 *rstd, const W *dw, const W *db, i64 count, i64 width)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x, k = i % width;
    if (i >= count) return;
    f32 rows = (f32)(count / width), xhat = (to_f32(x[i]) - mean[k]) * rstd[k];
    f32 d = to_f32(dy[i]) - (to_f32(db[k]) + xhat * to_f32(dw[k])) / rows;
    dx[i] = from_f32<T>(d * to_f32(w[k]) * rstd[k]);
}

static i64 work_batchnorm(const struct gpu_call *c)
{
    i64 width = shape_last(c->in[0].type.shape), rows = shape_rows(c->in[0].type.shape);
    return 2 * parts_of(rows) * width * (i64)sizeof(f32);
}

static void run_BATCHNORM(const struct gpu_call *c)
{
    const struct tensor *x = &c->in[0];
    struct finish        f = { data_of<f32>(c->out[1]), data_of<f32>(c->out[2]), c->in[3].data,
                               c->in[4].data, (f32)c->at->eps, (f32)c->at->momentum,
                               shape_rows(x->type.shape), shape_last(x->type.shape), 0 };
    f.parts                = parts_of(f.rows);
    i64   each             = div_up(f.rows, f.parts);
    f32  *part             = (f32 *)c->work;
    dim3  grid((unsigned)div_up(f.width, 128), (unsigned)f.parts);
    auto  s = c->gpu->stream;
    if (!x->count) return;
    with_type(x->type.dtype, [&](auto t) {
        typedef decltype(t) T;
        unsigned columns = (unsigned)div_up(f.width, 128);
        column_moment<T, MOMENT_SUM><<<grid, 128, 0, s>>>(part, data_of<T>(*x), NULL, NULL, NULL,
                                                          f.rows, f.width, each);
        finish_moments<f32><<<columns, 128, 0, s>>>(part, f, false);
        column_moment<T, MOMENT_SQUARE><<<grid, 128, 0, s>>>(part, data_of<T>(*x), NULL, f.mean,
                                                             NULL, f.rows, f.width, each);
        finish_moments<f32><<<columns, 128, 0, s>>>(part, f, true);
        with_type(c->in[1].type.dtype, [&](auto v) {
            typedef decltype(v) W;
            normalise<T, W><<<(unsigned)div_up(x->count, THREADS), THREADS, 0, s>>>(
                data_of<T>(c->out[0]), data_of<T>(*x), data_of<W>(c->in[1]), data_of<W>(c->in[2]),
                f.mean, f.rstd, x->count, f.width);
        });
    });
}

static void run_BATCHNORM_EVAL(const struct gpu_call *c)
{
    i64 count = c->in[0].count;
    if (!count) return;
    with_types(c->in[0].type.dtype, c->in[1].type.dtype, [&](auto t, auto v) {
        typedef decltype(t) T;
        typedef decltype(v) W;
        normalise_eval<T, W><<<(unsigned)div_up(count, THREADS), THREADS, 0, c->gpu->stream>>>(
            data_of<T>(c->out[0]), data_of<T>(c->in[0]), data_of<W>(c->in[1]),
            data_of<W>(c->in[2]), data_of<W>(c->in[3]), data_of<W>(c->in[4]),
            (f32)c->at->eps, count, shape_last(c->in[0].type.shape));
    });
}

static void run_BATCHNORM_GRAD(const struct gpu_call *c)
{
    const struct tensor *dy = &c->in[0], *x = &c->in[1];
    i64   rows = shape_rows(x->type.shape), width = shape_last(x->type.shape);
    i64   parts = parts_of(rows), each = div_up(rows, parts);
    f32  *part = (f32 *)c->work, *mean = data_of<f32>(c->in[3]), *rstd = data_of<f32>(c->in[4]);
    dim3  grid((unsigned)div_up(width, 128), (unsigned)parts);
    auto  s = c->gpu->stream;
    if (!x->count) return;
    with_types(x->type.dtype, c->in[2].type.dtype, [&](auto t, auto v) {
        typedef decltype(t) T;
        typedef decltype(v) W;
        column_moment<T, MOMENT_GRAD><<<grid, 128, 0, s>>>(
            part, data_of<T>(*x), data_of<T>(*dy), mean, rstd, rows, width, each);
        launch_add_pairs<W>(c, data_of<W>(c->out[1]), data_of<W>(c->out[2]), width, parts);
        batchnorm_dx<T, W><<<(unsigned)div_up(x->count, THREADS), THREADS, 0, s>>>(
            data_of<T>(c->out[0]), data_of<T>(*dy), data_of<T>(*x), data_of<W>(c->in[2]), mean,
            rstd, data_of<W>(c->out[1]), data_of<W>(c->out[2]), x->count, width);
    });
}

/* The running statistics and the saved ones are f32. */
static bool takes_batchnorm(const struct gpu_call *c) { return c->in[3].type.dtype == DT_F32; }

extern "C" const struct gpu_kernel gpu_kernels_norm[] = {
    { OP_LAYERNORM, "cuda_held", takes_held, run_held<true, false>, NULL, NULL, false },
    { OP_RMSNORM, "cuda_held", takes_held, run_held<false, false>, NULL, NULL, false },
    { OP_ADD_LAYERNORM, "cuda_held", takes_held, run_held<true, true>, NULL, NULL, false },
    { OP_ADD_RMSNORM, "cuda_held", takes_held, run_held<false, true>, NULL, NULL, false },
    { OP_ADD_LAYERNORM, "cuda", NULL, run_add_forward<true>, NULL, NULL, false },
    { OP_ADD_RMSNORM, "cuda", NULL, run_add_forward<false>, NULL, NULL, false },
    { OP_LAYERNORM, "cuda", NULL, run_forward<true>, NULL, NULL, false },
    { OP_RMSNORM, "cuda", NULL, run_forward<false>, NULL, NULL, false },
    { OP_LAYERNORM_GRAD, "cuda_streamed", takes_grad_streamed, run_grad_streamed<true>,
      work_streamed<true>, NULL, true },
    { OP_RMSNORM_GRAD, "cuda_streamed", takes_grad_streamed, run_grad_streamed<false>,
      work_streamed<false>, NULL, true },
    { OP_LAYERNORM_GRAD, "cuda_rows", takes_grad, run_grad_in_registers<true>, work_rows, NULL, true },
    { OP_RMSNORM_GRAD, "cuda_rows", takes_grad, run_grad_in_registers<false>, work_rows, NULL, true },
    { OP_LAYERNORM_GRAD, "cuda", NULL, run_grad<true>, work_row_norm_grad, NULL, false },
    { OP_RMSNORM_GRAD, "cuda", NULL, run_grad<false>, work_row_norm_grad, NULL, false },
    { OP_BATCHNORM, "cuda", takes_batchnorm, run_BATCHNORM, work_batchnorm, NULL, false },
    { OP_BATCHNORM_EVAL, "cuda", NULL, run_BATCHNORM_EVAL, NULL, NULL, false },
    { OP_BATCHNORM_GRAD, "cuda", NULL, run_BATCHNORM_GRAD, work_batchnorm, NULL, false },
};
GPU_FAMILY(norm)
