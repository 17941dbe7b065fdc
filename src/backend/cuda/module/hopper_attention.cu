/* hopper_attention.cu - attention and its gradient on sm_90a, for heads of 64 numbers of 16 bits,
 * whole blocks, no padding. Windows and documents bound what a query sees from below (BOUNDED): tiles that nobody
 * sees are left out, and those at the edge are masked as those on the diagonal are.
 *
 * The gradient computes scores twice, once for dq and once for dk and dv, and keeps them in
 * registers from one product to the next: nothing of their size goes through memory, every sum has
 * one owner, and so the bits repeat. That takes seven products where five are needed; cuDNN's way
 * to the same bits writes all gradients of scores to memory and reads them again, which takes
 * longer.
 *
 * A block has a thread that copies and two warpgroups that compute, each with 64 rows of its own;
 * it goes through the blocks of all heads, so that the next one's tiles are there when the last has
 * ended. The last product of a tile is given to the tensor cores with the first of the next one.
 *
 * What is not finite in v or in the result's gradient spreads to all rows of its tile: a weight of
 * 0 is multiplied too. */
#include "backend/cuda/module/hopper_attention.cuh"

enum { STAGES = 4 };

/* The tiles that a block goes through; a warpgroup needs those from `low` to `high`, the others it only gives back. */
struct walk {
    struct ring at;
    i32         tile, first, past, low, high, left;

    __device__ void begin(i32 from, i32 to, i32 rounds, i32 lowest, i32 highest)
    {
        tile = first = from, past = to, left = rounds * (to - from), low = lowest, high = highest;
    }
    __device__ void step()
    {
        at.next(STAGES);
        left--;
        tile = tile + 1 < past ? tile + 1 : first;
    }
    /* Waits for the next tile that is needed, if there is one. */
    template <class R> __device__ void find(R *m)
    {
        for (; left; step()) {
            barrier_wait(&m->full[at.at], at.parity);
            if (tile >= low && tile <= high) return;
            release(&m->empty[at.at]);
        }
    }
    __device__ i32 needed() const
    {
        return left / (past - first) * (min(past, high + 1) - max(first, low));
    } /* at its begin */
};

/* --- blocks of queries go through their keys: the result, and dq --- */

struct q_room {
    u8  q[2][GROUPS * TILE_BYTES];
    u8  k[STAGES][TILE_BYTES], v[STAGES][TILE_BYTES];
    u64 own_full[2], own_empty[2], full[STAGES], empty[STAGES];
};
struct dq_room : q_room {
    alignas(1024) u8 d_o[2][GROUPS * TILE_BYTES], o[2][GROUPS * TILE_BYTES];
    f32 lse[2][BLOCK], delta[2][BLOCK];
};

__device__ inline i32 tiles_of_queries(const struct sizes &a,
                                       i32 block) /* tiles of keys that a block of queries sees */
{
    return a.causal ? GROUPS * (block + 1) : a.T / TILE;
}

template <bool BOUNDED>
__device__ inline i32 first_tile(const struct sizes &a, i32 batch, i32 block)
{
    return BOUNDED ? first_key(a, batch, block * BLOCK) / TILE : 0;
}

/* Where a block of queries is: the first of its rows that is the warpgroup's. */
struct queries {
    i32 batch, head, block;
    i64 row, line; /* in a list by head and row; in a tensor [B T, …] */
};

__device__ inline struct queries queries_of(i32 round, const struct sizes &a, i32 together,
                                            i32 group)
{
    struct place p     = place_of(turn(round), a, a.H, together);
    i32          block = a.blocks - 1 - p.block,
        first          = block * BLOCK + group * TILE; /* the last blocks see the most */
    return { p.batch, p.head, block, ((i64)p.batch * a.H + p.head) * a.T + first,
             (i64)p.batch * a.T + first };
}

template <bool BOUNDED, class R>
__device__ inline void copy_for_queries(R *m, const struct maps *maps, const f32 *lse,
                                        struct sizes a, i32 together)
{
    constexpr bool grad = std::is_same<R, struct dq_room>::value;
    struct ring    own = {}, at = {};
    for (i32 round = 0; turn(round) < a.B * a.H * a.blocks; round++, own.next(2)) {
        struct queries p    = queries_of(round, a, together, 0);
        i32            g    = p.head / (a.H / a.G);
        u64           *full = &m->own_full[own.at];
        barrier_wait(&m->own_empty[own.at], own.parity ^ 1);
        barrier_expect(full,
                       (grad ? 3 : 1) * GROUPS * TILE_BYTES + (grad ? BLOCK * sizeof(f32) : 0));
        for (i32 half = 0; half < GROUPS; half++) {
            i32 row = p.block * BLOCK + half * TILE, to = half * TILE_BYTES;
            copy_tile(m->q[own.at] + to, &maps->qkv, p.head * TILE, row, p.batch, full);
            if constexpr (grad) {
                copy_tile(m->d_o[own.at] + to, &maps->d_o, p.head * TILE, row, p.batch, full);
                copy_tile(m->o[own.at] + to, &maps->o, p.head * TILE, row, p.batch, full);
            }
        }
        if constexpr (grad) copy_bytes(m->lse[own.at], lse + p.row, BLOCK * sizeof(f32), full);
        for (i32 i = first_tile<BOUNDED>(a, p.batch, p.block); i < tiles_of_queries(a, p.block);
             i++, at.next(STAGES)) {
            barrier_wait(&m->empty[at.at], at.parity ^ 1);
            barrier_expect(&m->full[at.at], 2 * TILE_BYTES);
            copy_tile(m->k[at.at], &maps->qkv, (a.H + g) * TILE, i * TILE, p.batch,
                      &m->full[at.at]);
            copy_tile(m->v[at.at], &maps->qkv, (a.H + a.G + g) * TILE, i * TILE, p.batch,
                      &m->full[at.at]);
        }
    }
}

/* do . o of a warpgroup's 64 rows, two threads a row, into `delta` and the list that the keys will read. */
template <class T>
__device__ inline void row_deltas(f32 *delta, f32 *list, const u8 *d_o, const u8 *o)
{
    i32 t = threadIdx.x % 128, row = t / 2;
    f32 sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        i32 at = row * 128 + ((t % 2 * 4 + i) ^ row % 8) * 16;
        f32 x[8], y[8];
        load_f32<8>(x, (const T *)(d_o + at));
        load_f32<8>(y, (const T *)(o + at));
#pragma unroll
        for (int k = 0; k < 8; k++) sum += x[k] * y[k];
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    if (t % 2) return;
    delta[row] = sum;
    list[row]  = sum;
}

__device__ inline void group_barrier()
{
    asm volatile("bar.sync %0, 128;" ::"r"(1 + GROUPS + own_group()) : "memory");
}

/* Of a warpgroup's queries: the first keys that a thread's two rows see, and that the last of all rows sees. */
struct edge {
    i32 first[2], last;

    __device__ void find(const struct sizes &a, i32 batch, i32 row)
    {
        first[0] = first_key(a, batch, row + row_of(0));
        first[1] = first_key(a, batch, row + row_of(2));
        last     = first_key(a, batch, row + TILE - 1);
    }
    /* Scores of a tile of keys become `to` before the edge. */
    __device__ void mask(f32 (&s)[32], i32 tile, f32 to) const
    {
        if (tile * TILE >= last) return;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            if (tile * TILE + column_of(i) < first[i / 2 % 2]) s[i] = to;
        }
    }
};

/* Scores of queries (rows) by keys to probabilities; lse of both of a thread's rows, in powers of two. */
__device__ inline void by_query(f32 (&s)[32], const f32 (&lse)[2], f32 scale2, bool diagonal)
{
#pragma unroll
    for (int i = 0; i < 32; i++) s[i] = power_of_two(s[i] * scale2 - lse[i / 2 % 2]);
    if (!diagonal) return;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        if (column_of(i) > row_of(i)) s[i] = 0;
    }
}

template <bool BOUNDED, class T>
__device__ inline void dq_block(struct dq_room *m, struct walk &w, struct ring own, T *dq,
                                i64 stride, f32 *stats, struct sizes a, struct edge e)
{
    i32 group = own_group(), row = row_of(0), held = -1, count = w.needed();
    f32 lse[2], delta[2], sum[32] = {}, s[32], dp[32];
    u32 q[16], d_o[16], ds[16];
    barrier_wait(&m->own_full[own.at], own.parity);
    hold_tile(q, m->q[own.at] + group * TILE_BYTES);
    hold_tile(d_o, m->d_o[own.at] + group * TILE_BYTES);
    f32 *deltas = m->delta[own.at] + group * TILE;
    row_deltas<T>(deltas, stats + (i64)a.B * a.H * a.T, m->d_o[own.at] + group * TILE_BYTES,
                  m->o[own.at] + group * TILE_BYTES);
    for (int r = 0; r < 2; r++) lse[r] = m->lse[own.at][group * TILE + row + 8 * r] * LOG2_E;
    if (threadIdx.x % 4 == 0) stats[row] = lse[0], stats[row + 8] = lse[1];
    group_barrier();
    release(&m->own_empty[own.at]);
    for (int r = 0; r < 2; r++) delta[r] = deltas[row + 8 * r];
    for (; count; count--, w.step()) {
        w.find(m);
        if (held >= 0) add_product<T>(sum, ds, tile_words(m->k[held]));
        product<T>(s, q, tile_words(m->k[w.at.at]));
        products_group();
        product<T>(dp, d_o, tile_words(m->v[w.at.at]));
        products_group();
        products_wait<1>(s);
        if (held >= 0) release(&m->empty[held]);
        held = w.at.at;
        by_query(s, lse, a.scale2, a.causal && w.tile == w.high);
        if (BOUNDED) e.mask(s, w.tile, 0);
        products_wait<0>(dp);
#pragma unroll
        for (int n = 0; n < 32; n++) s[n] *= dp[n] - delta[n / 2 % 2];
        pack_pairs<T>(ds, s);
    }
    w.find(m);
    add_product<T>(sum, ds, tile_words(m->k[held]));
    products_group();
    products_wait<0>(sum);
    release(&m->empty[held]);
    store_tile(dq, stride, sum, a.scale);
}

/* Scores to weights relative to a maximum, which is raised only when they outgrow it by 2^8: `old`
 * is what the sum so far must be multiplied by, 1 in most steps. */
template <bool BOUNDED>
__device__ inline void to_weights(f32 (&s)[32], f32 (&top)[2], f32 (&all)[2], f32 (&old)[2],
                                  f32 scale2, bool diagonal)
{
    if (diagonal) {
#pragma unroll
        for (int i = 0; i < 32; i++) {
            if (column_of(i) > row_of(i)) s[i] = -INFINITY;
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        f32 most = -INFINITY, sum = 0;
#pragma unroll
        for (int i = 0; i < 16; i++) most = fmaxf(most, s[i / 2 * 4 + 2 * r + i % 2]);
        most   = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most   = scale2 * fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        old[r] = 1;
        if (most > top[r] + 8) {
            old[r] = power_of_two(top[r] - most);
            top[r] = most;
        }
        f32 base = BOUNDED && top[r] == -INFINITY ? 0 : top[r]; /* a row may have seen no key yet */
#pragma unroll
        for (int i = 0; i < 16; i++) {
            int n = i / 2 * 4 + 2 * r + i % 2;
            s[n]  = power_of_two(s[n] * scale2 - base);
            sum += s[n];
        }
        all[r] = all[r] * old[r] + sum;
    }
}

template <bool BOUNDED, class T>
__device__ inline void o_block(struct q_room *m, struct walk &w, struct ring own, T *o, f32 *lse,
                               struct sizes a, struct edge e)
{
    i32 group = own_group(), row = row_of(0), held, count = w.needed();
    f32 sum[32] = {}, s[32], top[2] = { -INFINITY, -INFINITY }, all[2] = {}, old[2];
    u32 q[16], ps[16];
    barrier_wait(&m->own_full[own.at], own.parity);
    hold_tile(q, m->q[own.at] + group * TILE_BYTES);
    release(&m->own_empty[own.at]);
    auto scores = [&] {
        w.find(m);
        product<T>(s, q, tile_words(m->k[w.at.at]));
        products_group();
    };
    auto weights = [&] {
        if (BOUNDED) e.mask(s, w.tile, -INFINITY);
        to_weights<BOUNDED>(s, top, all, old, a.scale2, a.causal && w.tile == w.high);
    };
    auto hold = [&] {
        pack_pairs<T>(ps, s);
        held = w.at.at;
        w.step();
    };
    scores();
    products_wait<0>(s);
    weights();
    hold();
    for (; count > 1; count--) {
        scores();
        add_product<T>(sum, ps, tile_words(m->v[held]));
        products_group();
        products_wait<1>(s);
        weights();
        if (__any_sync(~0u, all[0] < 0))
            break; /* never: keeps the compiler from waiting before the weights are there */
        products_wait<0>(sum);
        release(&m->empty[held]);
        if (__any_sync(~0u, old[0] != 1 || old[1] != 1)) {
#pragma unroll
            for (int n = 0; n < 32; n++) sum[n] *= old[n / 2 % 2];
        }
        hold();
    }
    w.find(m);
    add_product<T>(sum, ps, tile_words(m->v[held]));
    products_group();
    products_wait<0>(sum);
    release(&m->empty[held]);
    for (int r = 0; r < 2; r++) {
        all[r] += __shfl_xor_sync(~0u, all[r], 1);
        all[r] += __shfl_xor_sync(~0u, all[r], 2);
        if (threadIdx.x % 4 == 0) lse[row + 8 * r] = top[r] / LOG2_E + logf(all[r]);
        all[r] = 1 / all[r];
    }
#pragma unroll
    for (int n = 0; n < 32; n++) sum[n] *= all[n / 2 % 2];
    store_tile(o, a.H * TILE, sum, 1);
}

template <class R> __device__ inline void open_room(R *m)
{
    if (threadIdx.x == 0) {
        init_pairs(m->own_full, m->own_empty);
        init_pairs(m->full, m->empty);
        barriers_are_ready();
    }
    __syncthreads();
}

/* The warpgroup that copies: does it by one thread, and returns true. */
template <class F> __device__ inline bool copies(F copy)
{
    if (threadIdx.x < 32 * WARPS) {
        registers_up<240>();
        return false;
    }
    registers_down<24>();
    if (threadIdx.x == 32 * WARPS) copy();
    return true;
}

/* The tiles of keys that a warpgroup's queries see; its edge. */
template <bool BOUNDED>
__device__ inline struct edge begin_keys(struct walk &w, const struct sizes &a,
                                         const struct queries &p)
{
    i32         row = p.block * BLOCK + own_group() * TILE;
    struct edge e   = {};
    if (BOUNDED) e.find(a, p.batch, row);
    w.begin(first_tile<BOUNDED>(a, p.batch, p.block), tiles_of_queries(a, p.block), 1,
            BOUNDED ? first_key(a, p.batch, row) / TILE : 0, a.causal ? row / TILE : a.T);
    return e;
}

template <bool BOUNDED, class T>
__global__ void __launch_bounds__(THREADS, 1)
    hopper_o(const __grid_constant__ struct maps maps, T *o, f32 *lse, struct sizes a, i32 together)
{
#ifdef HOPPER
    extern __shared__ u8 raw[];
    struct q_room       *m = room_of<struct q_room>(raw);
    open_room(m);
    if (copies([&] { copy_for_queries<BOUNDED>(m, &maps, NULL, a, together); })) return;
    struct ring own = {};
    struct walk w   = {};
    for (i32 round = 0; turn(round) < a.B * a.H * a.blocks; round++, own.next(2)) {
        struct queries p = queries_of(round, a, together, own_group());
        struct edge    e = begin_keys<BOUNDED>(w, a, p);
        o_block<BOUNDED, T>(m, w, own, o + (p.line * a.H + p.head) * TILE, lse + p.row, a, e);
    }
#endif
}

template <bool BOUNDED, class T>
__global__ void __launch_bounds__(THREADS, 1)
    hopper_dq(const __grid_constant__ struct maps maps, T *dqkv, const f32 *lse, f32 *stats,
              struct sizes a, i32 together)
{
#ifdef HOPPER
    extern __shared__ u8 raw[];
    struct dq_room      *m = room_of<struct dq_room>(raw);
    open_room(m);
    if (copies([&] { copy_for_queries<BOUNDED>(m, &maps, lse, a, together); })) return;
    struct ring own = {};
    struct walk w   = {};
    i64         W   = (i64)(a.H + 2 * a.G) * TILE;
    for (i32 round = 0; turn(round) < a.B * a.H * a.blocks; round++, own.next(2)) {
        struct queries p = queries_of(round, a, together, own_group());
        struct edge    e = begin_keys<BOUNDED>(w, a, p);
        dq_block<BOUNDED, T>(m, w, own, dqkv + p.line * W + p.head * TILE, W, stats + p.row, a, e);
    }
#endif
}

/* --- dk and dv: a block of keys goes through the queries that see it, of all heads that share it --- */

struct kv_room {
    u8  k[2][GROUPS * TILE_BYTES], v[2][GROUPS * TILE_BYTES];
    u8  q[STAGES][TILE_BYTES], d_o[STAGES][TILE_BYTES];
    f32 lse[STAGES][TILE], delta[STAGES][TILE];
    u64 own_full[2], own_empty[2], full[STAGES], empty[STAGES];
};

template <bool BOUNDED>
__device__ inline void copy_for_keys(struct kv_room *m, const struct maps *maps, const f32 *stats,
                                     struct sizes a, i32 together)
{
    struct ring own = {}, at = {};
    i64         count = (i64)a.B * a.H * a.T;
    for (i32 round = 0; turn(round) < a.B * a.G * a.blocks; round++) {
        struct place p = place_of(turn(round), a, a.G, together);
        barrier_wait(&m->own_empty[own.at], own.parity ^ 1);
        barrier_expect(&m->own_full[own.at], 2 * GROUPS * TILE_BYTES);
        for (i32 half = 0; half < GROUPS; half++) {
            i32  row = p.block * BLOCK + half * TILE, to = half * TILE_BYTES;
            u64 *full = &m->own_full[own.at];
            copy_tile(m->k[own.at] + to, &maps->qkv, (a.H + p.head) * TILE, row, p.batch, full);
            copy_tile(m->v[own.at] + to, &maps->qkv, (a.H + a.G + p.head) * TILE, row, p.batch,
                      full);
        }
        own.next(2);
        i32 shared_by = a.H / a.G, past = tiles_of_keys<BOUNDED>(a, p.batch, p.block);
        for (i32 h = p.head * shared_by; h < (p.head + 1) * shared_by; h++) {
            for (i32 i = a.causal ? GROUPS * p.block : 0; i < past; i++, at.next(STAGES)) {
                u64       *full = &m->full[at.at];
                const f32 *rows = stats + ((i64)p.batch * a.H + h) * a.T + i * TILE;
                barrier_wait(&m->empty[at.at], at.parity ^ 1);
                barrier_expect(full, 2 * TILE_BYTES + 2 * TILE * sizeof(f32));
                copy_tile(m->q[at.at], &maps->qkv, h * TILE, i * TILE, p.batch, full);
                copy_bytes(m->lse[at.at], rows, TILE * sizeof(f32), full);
                copy_tile(m->d_o[at.at], &maps->d_o, h * TILE, i * TILE, p.batch, full);
                copy_bytes(m->delta[at.at], rows + count, TILE * sizeof(f32), full);
            }
        }
    }
}

template <bool BOUNDED, class T>
__device__ inline void kv_block(struct kv_room *m, struct walk &w, struct ring own, T *dk,
                                i64 stride, struct sizes a, i32 batch, i32 key)
{
    i32 group = own_group(), held = -1, count = w.needed();
    f32 k_sum[32] = {}, v_sum[32] = {}, s[32], dp[32];
    u32 k[16], v[16], ps[16], ds[16];
    barrier_wait(&m->own_full[own.at], own.parity);
    hold_tile(k, m->k[own.at] + group * TILE_BYTES);
    hold_tile(v, m->v[own.at] + group * TILE_BYTES);
    release(&m->own_empty[own.at]);
    auto add = [&] {
        add_product<T>(v_sum, ps, tile_words(m->d_o[held]));
        add_product<T>(k_sum, ds, tile_words(m->q[held]));
    };
    for (; count; count--, w.step()) {
        w.find(m);
        if (held >= 0) add();
        product<T>(s, k, tile_words(m->q[w.at.at]));
        products_group();
        product<T>(dp, v, tile_words(m->d_o[w.at.at]));
        products_group();
        products_wait<1>(s);
        if (held >= 0) release(&m->empty[held]);
        held = w.at.at;
        by_key(s, m->lse[held], a.scale2, a.causal && w.tile == w.low ? 0 : -1);
        if (BOUNDED) mask_queries(s, a, batch, w.tile, key);
        pack_pairs<T>(ps, s);
        products_wait<0>(dp);
        times_excess(s, dp, m->delta[held]);
        pack_pairs<T>(ds, s);
    }
    w.find(m);
    add();
    products_group();
    products_wait<0>(k_sum);
    products_wait<0>(v_sum);
    release(&m->empty[held]);
    store_tile(dk, stride, k_sum, a.scale);
    store_tile(dk + a.G * TILE, stride, v_sum, 1);
}

template <bool BOUNDED, class T>
__global__ void __launch_bounds__(THREADS, 1)
    hopper_dkv(const __grid_constant__ struct maps maps, T *dqkv, const f32 *stats, struct sizes a,
               i32 together)
{
#ifdef HOPPER
    extern __shared__ u8 raw[];
    struct kv_room      *m = room_of<struct kv_room>(raw);
    open_room(m);
    if (copies([&] { copy_for_keys<BOUNDED>(m, &maps, stats, a, together); })) return;
    struct ring own = {};
    struct walk w   = {};
    i64         W   = (i64)(a.H + 2 * a.G) * TILE;
    for (i32 round = 0; turn(round) < a.B * a.G * a.blocks; round++, own.next(2)) {
        struct place p     = place_of(turn(round), a, a.G, together);
        i32          first = p.block * GROUPS, tile = first + own_group();
        w.begin(a.causal ? first : 0, tiles_of_keys<BOUNDED>(a, p.batch, p.block), a.H / a.G,
                a.causal ? tile : 0,
                BOUNDED ? last_query(a, p.batch, tile * TILE + TILE - 1) / TILE : a.T);
        T *dk = dqkv + ((i64)p.batch * a.T + tile * TILE) * W + (a.H + p.head) * TILE;
        kv_block<BOUNDED, T>(m, w, own, dk, W, a, p.batch, tile * TILE);
    }
#endif
}

/* --- as a kernel of the table --- */

static i64 room_bytes(void)
{
    return (i64)MAX(sizeof(struct dq_room), sizeof(struct kv_room)) + 1024;
}

static bool takes_heads(const struct gpu_call *c, const struct type *qkv)
{
    i64 H = c->at->heads, G = c->at->kv_heads, T = qkv->shape.dim[1];
    return BUILT_FOR_HOPPER && c->gpu->capability == 90 && c->at->scale > 0 &&
           qkv->shape.dim[2] == (H + 2 * G) * TILE && H % G == 0 && T % BLOCK == 0 &&
           qkv->shape.dim[0] * T > 0 && dtype_bytes(qkv->dtype) == 2 &&
           room_bytes() <= c->gpu->shared_bytes && find_encoder();
}
static bool takes(const struct gpu_call *c)
{
    return is_whole(c, 1) && takes_heads(c, &c->in[0].type);
}
static bool takes_grad(const struct gpu_call *c)
{
    return is_whole(c, 4) && takes_heads(c, &c->in[1].type);
}

static i64 work_grad(const struct gpu_call *c) { return 2 * c->in[3].count * (i64)sizeof(f32); }

template <class F, class... A>
static void launch(const struct gpu_call *c, F f, i32 blocks, A... arguments)
{
    i32 bytes = (i32)room_bytes();
    cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    f<<<(unsigned)MIN(c->gpu->processors, blocks), THREADS, (size_t)bytes, c->gpu->stream>>>(
        arguments...);
}

static void run(const struct gpu_call *c)
{
    struct sizes a = sizes_of(c, &c->in[0].type);
    struct maps  maps;
    must(draw_map(&maps.qkv, &c->in[0], a.B, a.T));
    by_kind(a, c->in[0].type.dtype, [&](auto b, auto t) {
        typedef decltype(t) T;
        launch(c, hopper_o<decltype(b)::value, T>, a.B * a.H * a.blocks, maps,
               data_of<T>(c->out[0]), data_of<f32>(c->out[1]), a, MAX(1, c->gpu->processors / 2));
    });
}

static void run_grad(const struct gpu_call *c)
{
    struct sizes a = sizes_of(c, &c->in[1].type);
    struct maps  maps;
    must(draw_map(&maps.d_o, &c->in[0], a.B, a.T) && draw_map(&maps.qkv, &c->in[1], a.B, a.T) &&
         draw_map(&maps.o, &c->in[2], a.B, a.T));
    by_kind(a, c->in[1].type.dtype, [&](auto b, auto t) {
        typedef decltype(t) T;
        T                  *dqkv  = data_of<T>(c->out[0]);
        f32                *stats = (f32 *)c->work;
        launch(c, hopper_dq<decltype(b)::value, T>, a.B * a.H * a.blocks, maps, dqkv,
               data_of<f32>(c->in[3]), stats, a, MAX(1, c->gpu->processors / 2));
        launch(c, hopper_dkv<decltype(b)::value, T>, a.B * a.G * a.blocks, maps, dqkv, stats, a,
               2 * c->gpu->processors);
    });
}

extern "C" const struct gpu_kernel gpu_kernels_hopper_attention[] = {
    { OP_ATTENTION, "hopper", takes, run, NULL, NULL, 0 },
    { OP_ATTENTION_GRAD, "hopper", takes_grad, run_grad, work_grad, NULL, 0 },
};
GPU_FAMILY(hopper_attention)
