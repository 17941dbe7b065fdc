/* table.cu - the gradient of a table of rows: of all rows, or of those that a step reads; and the optimisers of these.
 *
 * Ids are sorted with their places (a stable sort, so the order of addition is fixed), and each row adds up its own
 * run: some lanes of a warp do, or the whole block where the run is long. */
#include "backend/cuda/module/device.cuh"
#include "backend/cuda/module/random.cuh"
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

enum { THREADS = 256 };

enum { RUN_THREADS = 512, RUN_SHORT = 32, RUN_AHEAD = 4 };

__global__ void count_up(i32 *places, i64 count)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) places[i] = (i32)i;
}

/* Where the run of each row begins, and where the last one ends. */
__global__ void find_starts(i32 *starts, const i32 *sorted, i64 count, i64 rows)
{
    i64 row = (i64)blockIdx.x * THREADS + threadIdx.x, low = 0, high = count;
    if (row > rows) return;
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (sorted[middle] < row) low = middle + 1;
        else high = middle;
    }
    starts[row] = (i32)low;
}

/* Every step-th place from `from` on: the numbers there. */
template <int N, class S>
__device__ inline void add_places(f32 (&sum)[N], const S *dy, const i32 *places, int from, int to,
                                  int step, i64 width)
{
    for (int i = from; i < to; i += RUN_AHEAD * step) {
        chunk<N, S> v[RUN_AHEAD];
#pragma unroll
        for (int k = 0; k < RUN_AHEAD; k++) {
            v[k].clear();
            if (i + k * step < to) v[k].load(dy + places[i + k * step] * width);
        }
#pragma unroll
        for (int k = 0; k < RUN_AHEAD; k++) {
#pragma unroll
            for (int n = 0; n < N; n++) sum[n] += v[k][n];
        }
    }
}

template <int N, class T> __device__ inline void add_run(f32 (&sum)[N], const T *also)
{
    f32 v[N];
    load_f32<N>(v, also);
#pragma unroll
    for (int n = 0; n < N; n++) sum[n] += v[n];
}

/* By the whole block: `groups` threads share a run of columns. */
template <int N, class T, class S>
__device__ inline void add_long_run(T *row, const T *also, const S *dy, const i32 *places, int from,
                                    int to, i64 width)
{
    __shared__ f32 meet[RUN_THREADS * N];
    int units = (int)(width / N), tile = min(units, RUN_THREADS), groups = RUN_THREADS / tile;
    int group = (int)threadIdx.x / tile;
    for (int base = 0; base < units; base += tile) {
        int unit   = base + (int)threadIdx.x % tile;
        f32 sum[N] = {};
        if (group < groups && unit < units)
            add_places(sum, dy + unit * N, places, from + group, to, groups, width);
        __syncthreads();
        meet_f32<N>(meet + threadIdx.x * N, sum);
        __syncthreads();
        if (group || unit >= units) continue;
        for (int g = 1; g < groups; g++) {
#pragma unroll
            for (int n = 0; n < N; n++) sum[n] += meet[(g * tile + threadIdx.x) * N + n];
        }
        if (also) add_run<N>(sum, also + unit * N);
        store_f32<N>(row + unit * N, sum);
    }
}

/* `lanes` threads, a power of two, have a row: few where it is short, so that more rows are on their way at once.
 * `also` is added, where it is not NULL; if that is the table itself, rows without a run stay as they are. */
template <int N, class T, class S>
__global__ void __launch_bounds__(RUN_THREADS)
    add_runs(T *table, const T *also, const S *dy, const i32 *places, const i32 *starts, i64 rows,
             i64 width, int lanes)
{
    int count = RUN_THREADS / lanes, lane = (int)threadIdx.x % lanes;
    i64 first = (i64)blockIdx.x * count, row = first + (int)threadIdx.x / lanes;
    int from = row < rows ? starts[row] : 0, to = row < rows ? starts[row + 1] : 0;
    if (row < rows && to - from <= RUN_SHORT && (from < to || also != table)) {
        for (i64 column = (i64)lane * N; column < width; column += (i64)lanes * N) {
            f32 sum[N] = {};
            add_places(sum, dy + column, places, from, to, 1, width);
            if (also) add_run<N>(sum, also + row * width + column);
            store_f32<N>(table + row * width + column, sum);
        }
    }
    if (!__syncthreads_or(to - from > RUN_SHORT)) return;
    for (row = first; row < min(rows, first + count); row++) {
        from = starts[row], to = starts[row + 1];
        if (to - from > RUN_SHORT)
            add_long_run<N>(table + row * width, also ? also + row * width : NULL, dy, places, from,
                            to, width);
    }
}

template <class T, class S>
static void launch_runs(T *to, const T *also, const S *dy, const i32 *order, const i32 *starts,
                        i64 rows, i64 width, cudaStream_t stream)
{
    auto f     = width % 8 ? add_runs<1, T, S> : add_runs<8, T, S>;
    i64  units = width % 8 ? width : width / 8;
    int  lanes = 1;
    while (lanes < 32 && lanes < units) lanes *= 2;
    f<<<(unsigned)div_up(rows, RUN_THREADS / lanes), RUN_THREADS, 0, stream>>>(
        to, also, dy, order, starts, rows, width, lanes);
}

/* --- of all rows --- */

struct
    sorted { /* three lists of ids or places, where the rows' runs begin, then what the sort needs */
    i64    count, list_bytes, rows, start_bytes;
    size_t sort_bytes;
    int    bits;
};

static struct sorted sorted_of(const struct gpu_call *c)
{
    struct sorted s = {};
    s.count         = c->in[1].count;
    s.list_bytes    = div_up(s.count * (i64)sizeof(i32), 256) * 256;
    s.rows          = c->out[0].type.shape.dim[0];
    s.start_bytes   = div_up((s.rows + 1) * (i64)sizeof(i32), 256) * 256;
    while (s.bits < 31 && (i64)1 << s.bits < s.rows) s.bits++;
    cub::DeviceRadixSort::SortPairs(NULL, s.sort_bytes, (i32 *)NULL, (i32 *)NULL, (i32 *)NULL,
                                    (i32 *)NULL, (int)s.count, 0, MAX(1, s.bits));
    return s;
}

static i64 work_EMBEDDING_GRAD(const struct gpu_call *c)
{
    struct sorted s = sorted_of(c);
    return 3 * s.list_bytes + s.start_bytes + (i64)s.sort_bytes;
}

static void run_EMBEDDING_GRAD(const struct gpu_call *c)
{
    struct sorted s      = sorted_of(c);
    i64           width  = c->out[0].type.shape.dim[1];
    u8           *work   = (u8 *)c->work;
    i32          *places = (i32 *)work, *ids = (i32 *)(work + s.list_bytes);
    i32 *order = (i32 *)(work + 2 * s.list_bytes), *starts = (i32 *)(work + 3 * s.list_bytes);
    auto stream = c->gpu->stream;
    if (!c->out[0].count) return;
    if (s.count) {
        count_up<<<(unsigned)div_up(s.count, THREADS), THREADS, 0, stream>>>(places, s.count);
        cub::DeviceRadixSort::SortPairs(work + 3 * s.list_bytes + s.start_bytes, s.sort_bytes,
                                        data_of<i32>(c->in[1]), ids, places, order, (int)s.count, 0,
                                        MAX(1, s.bits), stream);
    }
    find_starts<<<(unsigned)div_up(s.rows + 1, THREADS), THREADS, 0, stream>>>(starts, ids, s.count,
                                                                               s.rows);
    with_type(c->in[0].type.dtype, [&](auto d) {
        with_type(c->out[0].type.dtype, [&](auto t) {
            typedef decltype(t) T;
            launch_runs<T>(data_of<T>(c->out[0]), c->in_count > 2 ? data_of<T>(c->in[2]) : NULL,
                           data_of<decltype(d)>(c->in[0]), order, starts, s.rows, width, stream);
        });
    });
}

/* --- of the rows that a step reads --- */

/* An id of -1, which is none, comes last. */
__global__ void mark_heads(i32 *head, const i32 *ids, i64 count)
{
    i64 i = (i64)blockIdx.x * THREADS + threadIdx.x;
    if (i < count) head[i] = ids[i] >= 0 && (!i || ids[i] != ids[i - 1]);
}

/* number[i]: heads up to there. Where the runs begin, and whose they are; behind the last they are empty and -1. */
__global__ void place_heads(i32 *starts, i32 *index, const i32 *ids, const i32 *number, i64 count,
                            i64 rows)
{
    i64 i    = (i64)blockIdx.x * THREADS + threadIdx.x;
    i64 used = count ? number[count - 1] : 0;
    if (i < count && ids[i] >= 0 && (!i || ids[i] != ids[i - 1])) {
        starts[number[i] - 1] = (i32)i;
        index[number[i] - 1]  = ids[i];
    }
    if (i < used || i > rows) return;
    i64 low = 0, high = count; /* the first that is none */
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (ids[middle] >= 0) low = middle + 1;
        else high = middle;
    }
    starts[i] = (i32)low;
    if (i < rows) index[i] = -1;
}

struct listed { /* lists of ids or places, where runs begin, then what sort and sum need */
    i64    count, list_bytes, rows, start_bytes;
    size_t tool_bytes;
};

static struct listed listed_of(i64 count, i64 rows)
{
    struct listed l    = {};
    size_t        sort = 0, scan = 0;
    l.count       = count;
    l.list_bytes  = div_up(count * (i64)sizeof(i32), 256) * 256;
    l.rows        = rows;
    l.start_bytes = div_up((rows + 1) * (i64)sizeof(i32), 256) * 256;
    cub::DeviceRadixSort::SortPairs(NULL, sort, (u32 *)NULL, (u32 *)NULL, (i32 *)NULL, (i32 *)NULL,
                                    (int)count);
    cub::DeviceScan::InclusiveSum(NULL, scan, (i32 *)NULL, (i32 *)NULL, (int)count);
    l.tool_bytes = MAX(sort, scan);
    return l;
}

static i64 bytes_of(const struct listed &l)
{
    return 3 * l.list_bytes + l.start_bytes + (i64)l.tool_bytes;
}

/* The rows that ids name, each the sum of its own of dy. `to` and `index` may be where dy and ids were copied from. */
template <class T, class S>
static void add_up(T *to, i32 *index, const S *dy, const i32 *ids, const struct listed &l,
                   i64 width, u8 *work, cudaStream_t stream)
{
    i32 *places = (i32 *)work, *sorted = (i32 *)(work + l.list_bytes),
        *order    = (i32 *)(work + 2 * l.list_bytes);
    i32   *starts = (i32 *)(work + 3 * l.list_bytes);
    u8    *tool   = work + 3 * l.list_bytes + l.start_bytes;
    auto   grid   = [](i64 count) { return (unsigned)div_up(MAX(count, 1), THREADS); };
    size_t bytes  = l.tool_bytes;
    if (l.count) {
        count_up<<<grid(l.count), THREADS, 0, stream>>>(places, l.count);
        cub::DeviceRadixSort::SortPairs(tool, bytes, (const u32 *)ids, (u32 *)sorted, places, order,
                                        (int)l.count, 0, 32, stream);
        mark_heads<<<grid(l.count), THREADS, 0, stream>>>(places, sorted, l.count);
        bytes = l.tool_bytes;
        cub::DeviceScan::InclusiveSum(tool, bytes, places, places, (int)l.count, stream);
    }
    place_heads<<<grid(MAX(l.count, l.rows + 1)), THREADS, 0, stream>>>(starts, index, sorted,
                                                                        places, l.count, l.rows);
    launch_runs<T>(to, NULL, dy, order, starts, l.rows, width, stream);
}

static struct listed rows_of(const struct gpu_call *c)
{
    return listed_of(c->in[1].count, c->at->count);
}

static i64 work_EMBEDDING_ROWS(const struct gpu_call *c) { return bytes_of(rows_of(c)); }

static void run_EMBEDDING_ROWS(const struct gpu_call *c)
{
    with_type(c->in[0].type.dtype, [&](auto d) {
        with_type(c->out[0].type.dtype, [&](auto t) {
            add_up(data_of<decltype(t)>(c->out[0]), data_of<i32>(c->out[1]),
                   data_of<decltype(d)>(c->in[0]), data_of<i32>(c->in[1]), rows_of(c),
                   c->out[0].type.shape.dim[1], (u8 *)c->work, c->gpu->stream);
        });
    });
}

/* Both lists one behind the other, in a copy. */
static struct listed joined_of(const struct gpu_call *c)
{
    return listed_of(c->in[1].count + c->in[3].count, c->in[1].count);
}

static i64 copy_bytes(const struct gpu_call *c)
{
    return div_up((c->in[0].count + c->in[2].count) * dtype_bytes(c->in[0].type.dtype), 256) * 256;
}

static i64 work_ROWS_JOIN(const struct gpu_call *c)
{
    struct listed l = joined_of(c);
    return copy_bytes(c) + l.list_bytes + bytes_of(l);
}

static void run_ROWS_JOIN(const struct gpu_call *c)
{
    struct listed l    = joined_of(c);
    u8           *rows = (u8 *)c->work, *ids = rows + copy_bytes(c);
    i64           item = dtype_bytes(c->in[0].type.dtype);
    auto          copy = [&](u8 *to, const struct tensor &t, i64 bytes) {
        cudaMemcpyAsync(to, t.data, (size_t)(t.count * bytes), cudaMemcpyDeviceToDevice,
                                 c->gpu->stream);
    };
    copy(rows, c->in[0], item);
    copy(rows + c->in[0].count * item, c->in[2], item);
    copy(ids, c->in[1], sizeof(i32));
    copy(ids + c->in[1].count * sizeof(i32), c->in[3], sizeof(i32));
    with_type(c->in[0].type.dtype, [&](auto t) {
        typedef decltype(t) T;
        add_up(data_of<T>(c->in[0]), data_of<i32>(c->in[1]), (T *)rows, (i32 *)ids, l,
               c->in[0].type.shape.dim[1], ids + l.list_bytes, c->gpu->stream);
    });
}

/* --- optimisers of rows: a warp has one --- */

struct sweep {
    void      *p;
    f32       *state[2];
    const f32 *rows, *hyper, *factor;
    const i32 *index, *rng; /* rng: of a table that is rounded at random */
    u64        name;
    i64        count, width;
    f32        eps;
};

enum { SWEEP_WARPS = THREADS / 32, SWEEP_BLOCKS = 8 }; /* the latter a processor */

template <int N>
__device__ inline void store_numbers(const struct sweep &, f32 *p, i64 at, const f32 (&x)[N])
{
    store_f32<N>(p + at, x);
}
/* The generator gives four words at a time, for the numbers at 4n to 4n + 3 of the table. */
template <int N>
__device__ inline void store_numbers(const struct sweep &s, bf16 *p, i64 at, const f32 (&x)[N])
{
    u32 word[4];
    f32 y[N];
    random_block(word, s.rng, s.name, 0, (u64)at / 4);
#pragma unroll
    for (int k = 0; k < N; k++) {
        int n    = (int)(at % 4) + k;
        u32 mine = n == 0 ? word[0] : n == 1 ? word[1] : n == 2 ? word[2] : word[3];
        y[k]     = to_f32(round_at_random(bf16(), x[k], mine >> 16));
    }
    store_f32<N>(p + at, y);
}

/* N numbers of the row from `at` on; sum: of this row, adagrad's. */
template <i32 OP, int N, class T>
__device__ inline void step_numbers(const struct sweep &s, i64 g_at, i64 at, f32 lr, f32 factor,
                                    f32 sum)
{
    f32 p[N], g[N], m[N], v[N], beta1 = s.hyper[1], beta2 = s.hyper[2];
    load_f32<N>(p, (const T *)s.p + at);
    load_f32<N>(g, s.rows + g_at);
    if (OP == OP_ROWS_ADAM) load_f32<N>(m, s.state[0] + at), load_f32<N>(v, s.state[1] + at);
#pragma unroll
    for (int k = 0; k < N; k++) {
        f32 x = factor * g[k];
        if (OP == OP_ROWS_ADAM) {
            m[k] = beta1 * m[k] + (1 - beta1) * x;
            v[k] = beta2 * v[k] + (1 - beta2) * x * x;
            x    = m[k] / (sqrtf(v[k]) + s.eps);
        }
        if (OP == OP_ROWS_ADAGRAD) x /= sqrtf(sum) + s.eps;
        p[k] -= lr * x;
    }
    store_numbers(s, (T *)s.p, at, p);
    if (OP == OP_ROWS_ADAM) store_f32<N>(s.state[0] + at, m), store_f32<N>(s.state[1] + at, v);
}

/* What Adam's correction of its moments leaves of the rate: powers take longer than a row, so each thread has many. */
template <i32 OP> __device__ inline f32 rate_of(const struct sweep &s)
{
    if (OP != OP_ROWS_ADAM) return s.hyper[0];
    f64 step = s.hyper[3], high = 1 - pow((f64)s.hyper[2], step),
        low = 1 - pow((f64)s.hyper[1], step);
    return (f32)((f64)s.hyper[0] * sqrt(high) / low);
}

/* The sum of a row's squares so far, this step's mean of them with it. */
__device__ inline f32 add_squares(const struct sweep &s, i64 i, i64 row, i64 lane, f32 factor)
{
    f32 sum = 0;
    for (i64 k = lane; k < s.width; k += 32) {
        f32 x = factor * s.rows[i * s.width + k];
        sum += x * x;
    }
    sum = s.state[0][row] + warp_sum(sum) / (f32)s.width;
    __syncwarp();
    if (!lane) s.state[0][row] = sum;
    return sum;
}

template <i32 OP, int N, class T>
__global__ void __launch_bounds__(THREADS) step_rows(struct sweep s)
{
    i64 i = (i64)blockIdx.x * SWEEP_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    i64 step = (i64)gridDim.x * SWEEP_WARPS, next = i < s.count ? s.index[i] : -1;
    f32 factor = *s.factor, lr = rate_of<OP>(s), sum = 0;
    if (s.hyper[3] <= 0) return;
    for (; i < s.count && next >= 0; i += step) { /* behind the last row all are -1 */
        i64 row = next;
        next    = i + step < s.count ? s.index[i + step] : -1;
        if (OP == OP_ROWS_ADAGRAD) sum = add_squares(s, i, row, lane, factor);
        for (i64 k = lane * N; k < s.width; k += 32 * N)
            step_numbers<OP, N, T>(s, i * s.width + k, row * s.width + k, lr, factor, sum);
    }
}

/* rng comes last, where a table of bf16 is rounded at random. */
static bool is_low(const struct gpu_call *c) { return c->in[c->in_count - 1].type.dtype == DT_I32; }

static bool takes_sweep(const struct gpu_call *c)
{
    i32 own = c->in_count - is_low(c);
    for (i32 i = 1; i < own; i++)
        if (c->in[i].type.dtype != (i == 2 ? DT_I32 : DT_F32)) return false;
    return c->in[0].type.dtype == (is_low(c) ? DT_BF16 : DT_F32);
}

template <i32 OP> static void run_sweep(const struct gpu_call *c)
{
    i32          states = c->in_count - is_low(c) - 5;
    struct sweep s      = {};
    s.p                 = c->in[0].data;
    s.rng               = is_low(c) ? data_of<i32>(c->in[c->in_count - 1]) : NULL;
    s.name              = (u64)c->at->key;
    s.rows              = data_of<f32>(c->in[1]);
    s.index             = data_of<i32>(c->in[2]);
    s.count             = c->in[2].count;
    s.width             = c->in[0].type.shape.dim[1];
    s.hyper             = data_of<f32>(c->in[3 + states]);
    s.factor            = data_of<f32>(c->in[4 + states]);
    s.eps               = (f32)c->at->eps;
    for (i32 i = 0; i < states; i++) s.state[i] = data_of<f32>(c->in[3 + i]);
    auto f = s.width % 4     ? step_rows<OP, 1, f32>
             : s.width < 128 ? step_rows<OP, 2, f32>
                             : step_rows<OP, 4, f32>;
    if (is_low(c)) f = s.width % 4 ? step_rows<OP, 1, bf16> : step_rows<OP, 4, bf16>;
    i64 blocks = MIN(div_up(s.count, SWEEP_WARPS), (i64)SWEEP_BLOCKS * c->gpu->processors);
    if (s.count) f<<<(unsigned)blocks, THREADS, 0, c->gpu->stream>>>(s);
}

extern "C" const struct gpu_kernel gpu_kernels_table[] = {
    { OP_EMBEDDING_GRAD, "cuda_sorted", NULL, run_EMBEDDING_GRAD, work_EMBEDDING_GRAD, NULL, 0 },
    { OP_EMBEDDING_ROWS, "cuda_sorted", NULL, run_EMBEDDING_ROWS, work_EMBEDDING_ROWS, NULL, 0 },
    { OP_ROWS_JOIN, "cuda_sorted", NULL, run_ROWS_JOIN, work_ROWS_JOIN, NULL, 0 },
    { OP_ROWS_SGD, "cuda", takes_sweep, run_sweep<OP_ROWS_SGD>, NULL, NULL, 0 },
    { OP_ROWS_ADAGRAD, "cuda", takes_sweep, run_sweep<OP_ROWS_ADAGRAD>, NULL, NULL, 0 },
    { OP_ROWS_ADAM, "cuda", takes_sweep, run_sweep<OP_ROWS_ADAM>, NULL, NULL, 0 },
};
GPU_FAMILY(table)
