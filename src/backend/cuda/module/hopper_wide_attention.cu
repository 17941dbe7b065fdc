/* hopper_wide_attention.cu - the gradient of attention on sm_90a for heads of 128 numbers of 16 bits, whole blocks, no
 * padding; windows and documents as hopper_attention.cu has them.
 *
 * A block of 128 keys goes through the tiles of queries that see it, of all heads that share it: five products a
 * visit. dk and dv stay in registers. dq is added up in device memory, in f32, by the copy engine, and its bits repeat
 * because blocks take turns at a tile of it, the first keys first: a number a tile says whose turn it is. A block
 * begins with the last queries, so blocks that begin one after another never meet, and those that begin together wait
 * for each other once. Blocks are given out in that same order, the longest first, to whoever is free: one that waits
 * waits for one that was given out before it, so there is always one that can go on.
 *
 * Two warpgroups compute, each with 64 keys, and for dq with 64 of the head's numbers. Of the third one thread copies
 * and two add to dq by turns, so that nobody waits until a sum is stored. The products for dq and dk of a visit are
 * given to the tensor cores with the scores of the next one, and run while these become probabilities. */
#include "backend/cuda/module/hopper_attention.cuh"

enum {
    HALVES     = 2, /* tiles side by side that have the 128 numbers of a head */
    HEAD       = HALVES * TILE,
    WIDE_BYTES = HALVES * TILE_BYTES,
    PART       = TILE * HEAD, /* numbers of dq that a visit adds to */
    Q_STAGES   = 3,
    O_STAGES   = 2,
    ADDERS     = 2
};

struct room {
    u8  k[GROUPS][WIDE_BYTES], v[GROUPS][WIDE_BYTES];
    u8  q[Q_STAGES][WIDE_BYTES], d_o[O_STAGES][WIDE_BYTES];
    u8  ds[2][GROUPS][TILE_BYTES];
    f32 dq[PART]; /* as registers have it: of each warpgroup, then each four, then each thread */
    f32 lse[Q_STAGES][TILE], delta[O_STAGES][TILE];
    i32 block; /* of all blocks of keys the one at hand; -1: there is none */
    u64 own_full, own_empty, q_full[Q_STAGES], q_empty[Q_STAGES], o_full[O_STAGES],
        o_empty[O_STAGES];
    u64 dq_full[ADDERS], dq_empty;
};

struct list {   /* in device memory, beside dq's sum */
    f32 *stats; /* of each row: the log of its sum in powers of two; then -do . o of each */
    f32 *sum;   /* dq, a part a tile */
    i32 *turn;  /* of each tile: the blocks that have added to it */
    i32 *next;  /* block to give out */
};

/* What a block of keys goes through: tiles of queries from the last on, of each all heads. */
struct visits {
    i32 tile, head, heads, left;

    __device__ void step()
    {
        left--;
        if (++head < heads) return;
        head = 0;
        tile--;
    }
};

template <bool BOUNDED>
__device__ inline struct visits visits_of(const struct sizes &a, const struct place &p)
{
    i32 first = a.causal ? GROUPS * p.block : 0, past = tiles_of_keys<BOUNDED>(a, p.batch, p.block),
        heads = a.H / a.G;
    return { past - 1, 0, heads, (past - first) * heads };
}

/* In lists by head and tile of queries. */
__device__ inline i64 tile_of(const struct sizes &a, const struct place &p, const struct visits &v)
{
    return ((i64)p.batch * a.H + p.head * v.heads + v.head) * (a.T / TILE) + v.tile;
}

__device__ inline void copy_wide(u8 *to, const CUtensorMap *map, i32 head, i32 row, i32 batch,
                                 u64 *full)
{
    for (i32 half = 0; half < HALVES; half++)
        copy_tile(to + half * TILE_BYTES, map, head * HEAD + half * TILE, row, batch, full);
}

__device__ inline void copy_keys(struct room *m, const struct maps *maps, const struct sizes &a,
                                 const struct place &p)
{
    barrier_expect(&m->own_full, 2 * GROUPS * WIDE_BYTES);
    for (i32 g = 0; g < GROUPS; g++) {
        i32 row = p.block * BLOCK + g * TILE;
        copy_wide(m->k[g], &maps->qkv, a.H + p.head, row, p.batch, &m->own_full);
        copy_wide(m->v[g], &maps->qkv, a.H + a.G + p.head, row, p.batch, &m->own_full);
    }
}

/* By one thread: gives out blocks and copies what they need. */
template <bool BOUNDED>
__device__ inline void copy_all(struct room *m, const struct maps *maps, const struct list &l,
                                const struct sizes &a, i32 together)
{
    struct ring q = {}, o = {};
    i64         count = (i64)a.B * a.H * a.T;
    for (u32 own = 0;; own ^= 1) {
        i32 block = atomicAdd(l.next, 1);
        if (block >= a.B * a.G * a.blocks) {
            barrier_wait(&m->own_empty, own ^ 1);
            m->block = -1;
            barrier_arrive(&m->own_full);
            return;
        }
        struct place  p     = place_of(block, a, a.G, together);
        struct visits v     = visits_of<BOUNDED>(a, p);
        bool          begun = false;
        for (; v.left; v.step(), q.next(Q_STAGES), o.next(O_STAGES)) {
            i32        head = p.head * v.heads + v.head;
            const f32 *rows = l.stats + tile_of(a, p, v) * TILE;
            barrier_wait(&m->q_empty[q.at], q.parity ^ 1);
            barrier_expect(&m->q_full[q.at], WIDE_BYTES + TILE * sizeof(f32));
            copy_wide(m->q[q.at], &maps->qkv, head, v.tile * TILE, p.batch, &m->q_full[q.at]);
            copy_bytes(m->lse[q.at], rows, TILE * sizeof(f32), &m->q_full[q.at]);
            if (!begun) { /* the first queries are on their way while the last block ends */
                begun = true;
                barrier_wait(&m->own_empty, own ^ 1);
                m->block = block;
                copy_keys(m, maps, a, p);
            }
            barrier_wait(&m->o_empty[o.at], o.parity ^ 1);
            barrier_expect(&m->o_full[o.at], WIDE_BYTES + TILE * sizeof(f32));
            copy_wide(m->d_o[o.at], &maps->d_o, head, v.tile * TILE, p.batch, &m->o_full[o.at]);
            copy_bytes(m->delta[o.at], rows + count, TILE * sizeof(f32), &m->o_full[o.at]);
        }
    }
}

__device__ inline void wait_for_turn(const i32 *turn, i32 own)
{
    i32 now;
    do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
    while (now != own);
    asm volatile("fence.proxy.async;" ::: "memory");
}

__device__ inline void pass_turn(i32 *turn, i32 to)
{
    asm volatile(
        "fence.proxy.async;\nfence.acq_rel.gpu;\nst.release.gpu.global.s32 [%0], %1;" ::"l"(turn),
        "r"(to)
        : "memory");
}

/* By one thread: adds what every second visit has for dq. */
template <bool BOUNDED>
__device__ inline void add_all(struct room *m, const struct list &l, const struct sizes &a,
                               i32 together, u32 adder)
{
    u32 seen = 0;
    for (u32 own = 0;; own ^= 1) {
        barrier_wait(&m->own_full, own);
        i32 block = m->block;
        barrier_arrive(&m->own_empty);
        if (block < 0) return;
        struct place p = place_of(block, a, a.G, together);
        for (struct visits v = visits_of<BOUNDED>(a, p); v.left; v.step(), seen++) {
            if (seen % ADDERS != adder) continue;
            i64 at       = tile_of(a, p, v);
            i32 own_turn = p.block - (BOUNDED ? first_key(a, p.batch, v.tile * TILE) / BLOCK : 0);
            if (own_turn) wait_for_turn(l.turn + at, own_turn);
            barrier_wait(&m->dq_full[adder], seen / ADDERS & 1);
            if (own_turn) add_numbers(l.sum + at * PART, m->dq, sizeof m->dq);
            else put_numbers(l.sum + at * PART, m->dq, sizeof m->dq);
            wait_until_read();
            barrier_arrive(&m->dq_empty);
            wait_until_stored();
            pass_turn(l.turn + at, own_turn + 1);
        }
    }
}

/* d (+)= a b^T, d += a b over tiles as wide as a head. */
template <class T>
__device__ inline void wide_product(f32 (&d)[32], const u8 *a, const u8 *b, bool add)
{
    registers_ready();
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            multiply_tiles<T, 0, 0>(d, tile_words(a + half * TILE_BYTES) + k * STEP_ALONG,
                                    tile_words(b + half * TILE_BYTES) + k * STEP_ALONG,
                                    add || half + k > 0);
    }
}
template <class T>
__device__ inline void add_wide_product(f32 (&d)[HALVES][32], const u32 (&a)[16], const u8 *b)
{
    registers_ready();
#pragma unroll
    for (int k = 0; k < 4; k++) add_wide<T>(d, a + 4 * k, wide_words(b) + k * STEP_DOWN);
}

/* A number a column, for a product to be added to: cheaper than to subtract it afterwards. */
__device__ inline void begin_columns(f32 (&d)[32], const f32 *number)
{
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 x = *(const float2 *)(number + column_of(4 * j));
        d[4 * j] = d[4 * j + 2] = x.x;
        d[4 * j + 1] = d[4 * j + 3] = x.y;
    }
}

/* What a warpgroup has of a block of keys. */
template <class T> struct sums {
    f32 dk[HALVES][32], dv[HALVES][32], s[32], x[32];
    u32 ps[16];

    __device__ void begin()
    {
#pragma unroll
        for (int i = 0; i < HALVES * 32; i++) dk[i / 32][i % 32] = dv[i / 32][i % 32] = 0;
    }
    /* It has run beside other work; ptxas keeps no product running from round to round. */
    __device__ void wait_dv()
    {
        products_wait<0>(dv[0]);
        products_wait<0>(dv[1]);
    }
    /* dq of a visit, its half of the head's numbers: of all the block's keys. */
    __device__ void multiply_dq(struct room *m, i32 buffer, i32 group)
    {
        registers_ready();
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
#pragma unroll
            for (int k = 0; k < 4; k++)
                multiply_tiles<T, 1, 1>(x, tile_words(m->ds[buffer][g]) + k * STEP_DOWN,
                                        tile_words(m->k[g] + group * TILE_BYTES) + k * STEP_DOWN,
                                        g + k > 0);
        }
    }
    __device__ void multiply_dk(struct room *m, i32 buffer, i32 group, const u8 *q)
    {
        registers_ready();
#pragma unroll
        for (int k = 0; k < 4; k++)
            add_wide_tiles<T>(dk, tile_words(m->ds[buffer][group]) + k * STEP_ALONG,
                              wide_words(q) + k * STEP_DOWN);
    }
    /* To whoever adds it. */
    __device__ void hand_dq(struct room *m, i32 group, u32 visit)
    {
        barrier_wait(&m->dq_empty, (visit & 1) ^ 1);
        float4 *to = (float4 *)m->dq + group * 8 * 128 + threadIdx.x % 128;
#pragma unroll
        for (int j = 0; j < 8; j++)
            to[j * 128] = make_float4(x[4 * j], x[4 * j + 1], x[4 * j + 2], x[4 * j + 3]);
        shared_ready();
        release(&m->dq_full[visit % ADDERS]);
    }
};

/* A number that all threads of a warp have, in a way that lets the compiler know it. */
__device__ inline i32 uniform(i32 x) { return __shfl_sync(~0u, x, 0); }

__device__ inline void both_groups()
{
    asm volatile("bar.sync 1, %0;" ::"n"(128 * GROUPS) : "memory");
}

/* The visit that is next: how many there were before it, which says its buffers but for the one of q. */
struct at {
    struct ring q;
    u32         visit;

    __device__ void step() { q.next(Q_STAGES), visit++; }
    __device__ i32  o() const { return visit % O_STAGES; }
    __device__ u32  o_parity() const { return visit / O_STAGES & 1; }
    __device__ i32  last_ds() const { return (visit - 1) & 1; }
    __device__ i32  last_q() const { return q.at ? q.at - 1 : Q_STAGES - 1; }
};

/* dk and dv; the block's own buffers are given back. */
template <class T>
__device__ inline void store_keys(struct room *m, const struct sums<T> &r, T *dqkv,
                                  const struct sizes &a, i32 together)
{
    struct place p = place_of(m->block, a, a.G, together);
    release(&m->own_empty);
    i64 W   = (i64)(a.H + 2 * a.G) * HEAD;
    i64 row = (i64)p.batch * a.T + p.block * BLOCK + own_group() * TILE;
    T  *dk  = dqkv + row * W + (a.H + p.head) * HEAD;
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        store_tile(dk + half * TILE, W, r.dk[half], a.scale);
        store_tile(dk + a.G * HEAD + half * TILE, W, r.dv[half], 1);
    }
}

/* A visit asks for scores, weighs them, multiplies by them and holds their gradients; dq and dk of the last one are
 * finished beside the next. Registers are scarce: what can be found again is not kept. */
template <bool BOUNDED, class T>
__device__ inline void wide_block(struct room *m, struct at &at, T *dqkv, const struct sizes &a,
                                  i32 together)
{
    struct sums<T> r;
    i32            group = own_group();
    struct place   p     = place_of(uniform(m->block), a, a.G, together);
    struct visits  v     = visits_of<BOUNDED>(a, p);
    i32            keys  = p.block * GROUPS + group;
    r.begin();
    auto ask = [&] {
        barrier_wait(&m->q_full[at.q.at], at.q.parity);
        wide_product<T>(r.s, m->k[group], m->q[at.q.at], false);
        products_group();
    };
    auto weigh = [&] {
        by_key(r.s, m->lse[at.q.at], a.scale2, a.causal ? keys - v.tile : -1);
        if (BOUNDED) mask_queries(r.s, a, p.batch, v.tile, keys * TILE);
        pack_pairs<T>(r.ps, r.s);
    };
    auto multiply = [&] {
        barrier_wait(&m->o_full[at.o()], at.o_parity());
        begin_columns(r.x, m->delta[at.o()]);
        wide_product<T>(r.x, m->v[group], m->d_o[at.o()], true);
        products_group();
        add_wide_product<T>(r.dv, r.ps, m->d_o[at.o()]);
        products_group();
        products_wait<1>(r.x);
    };
    auto hold = [&] {
        u32 ds[16];
#pragma unroll
        for (int i = 0; i < 32; i++) r.s[i] *= r.x[i];
        pack_pairs<T>(ds, r.s);
        stow_tile(m->ds[at.visit & 1][group], ds);
        shared_ready();
        r.wait_dv();
        release(&m->o_empty[at.o()]);
        at.step();
        v.step();
    };
    auto finish = [&] {
        both_groups();
        r.multiply_dq(m, at.last_ds(), group);
        products_group();
        r.multiply_dk(m, at.last_ds(), group, m->q[at.last_q()]);
        products_group();
    };
    ask();
    products_wait<0>(r.s);
    weigh();
    multiply();
    hold();
    while (uniform(v.left)) {
        ask();
        finish();
        products_wait<2>(r.s);
        weigh();
        products_wait<1>(r.x);
        r.hand_dq(m, group, at.visit - 1);
        multiply();
        release(&m->q_empty[at.last_q()]);
        hold();
    }
    finish();
    products_wait<1>(r.x);
    r.hand_dq(m, group, at.visit - 1);
#pragma unroll
    for (int half = 0; half < HALVES; half++) products_wait<0>(r.dk[half]);
    release(&m->q_empty[at.last_q()]);
    store_keys<T>(m, r, dqkv, a, together);
}

__device__ inline void open_room(struct room *m)
{
    if (threadIdx.x == 0) {
        barrier_init(&m->own_full, 1);
        barrier_init(&m->own_empty, WARPS + ADDERS);
        init_pairs(m->q_full, m->q_empty);
        init_pairs(m->o_full, m->o_empty);
        for (i32 i = 0; i < ADDERS; i++) barrier_init(&m->dq_full[i], WARPS);
        barrier_init(&m->dq_empty, 1);
        barriers_are_ready();
    }
    __syncthreads();
}

template <bool BOUNDED, class T>
__global__ void __launch_bounds__(THREADS, 1)
    hopper_wide_grad(const __grid_constant__ struct maps maps, T *dqkv, struct list l,
                     struct sizes a, i32 together)
{
#ifdef HOPPER
    extern __shared__ u8 raw[];
    struct room         *m = room_of<struct room>(raw);
    open_room(m);
    if (threadIdx.x < 32 * WARPS) {
        registers_up<232>(); /* with the others' 40 as many as there were: 3 x 168 */
        struct at at = {};
        for (u32 own = 0;; own ^= 1) {
            barrier_wait(&m->own_full, own);
            if (uniform(m->block) < 0) return;
            wide_block<BOUNDED, T>(m, at, dqkv, a, together);
        }
    } else {
        registers_down<40>();
        u32 warp = threadIdx.x / 32 - WARPS;
        if (threadIdx.x % 32) return;
        if (warp == 0) copy_all<BOUNDED>(m, &maps, l, a, together);
        else if (warp <= ADDERS) add_all<BOUNDED>(m, l, a, together, warp - 1);
    }
#endif
}

/* --- before it and after it --- */

enum { ROW_LANES = HEAD / 8, ROWS_AT_ONCE = TILE / 16 };

/* A tile of rows a block: what keys will read of them; nobody has added to their dq. */
template <class T>
__global__ void __launch_bounds__(TILE *ROW_LANES / ROWS_AT_ONCE)
    wide_stats(struct list l, const T *d_o, const T *o, const f32 *lse, struct sizes a)
{
    i64 count = (i64)a.B * a.H * a.T, first = (i64)blockIdx.x * TILE;
    i64 head = first / a.T, batch = head / a.H;
    i32 lane = threadIdx.x % ROW_LANES;
    f32 x[ROWS_AT_ONCE][8], y[ROWS_AT_ONCE][8];
    if (threadIdx.x == 0) l.turn[blockIdx.x] = 0;
    if (threadIdx.x == 0 && blockIdx.x == 0) *l.next = 0;
#pragma unroll
    for (int n = 0; n < ROWS_AT_ONCE; n++) {
        i64 row  = first % a.T + n * 16 + threadIdx.x / ROW_LANES;
        i64 from = ((batch * a.T + row) * a.H + head % a.H) * HEAD + lane * 8;
        load_f32<8>(x[n], d_o + from);
        load_f32<8>(y[n], o + from);
    }
#pragma unroll
    for (int n = 0; n < ROWS_AT_ONCE; n++) {
        i64 row = first + n * 16 + threadIdx.x / ROW_LANES;
        f32 sum = 0;
#pragma unroll
        for (int k = 0; k < 8; k++) sum += x[n][k] * y[n][k];
#pragma unroll
        for (int k = ROW_LANES / 2; k; k /= 2) sum += __shfl_xor_sync(~0u, sum, k);
        if (lane == 0) l.stats[row] = lse[row] * LOG2_E, l.stats[count + row] = -sum;
    }
}

/* dq from its sum: a block has a tile, one of the two halves of its numbers. */
template <class T>
__global__ void __launch_bounds__(128) wide_dq(T *dqkv, const f32 *sum, struct sizes a)
{
    i64           tile = blockIdx.x / HALVES, half = blockIdx.x % HALVES, tiles = a.T / TILE;
    i64           head = tile / tiles, row = head / a.H * a.T + tile % tiles * TILE;
    i64           W    = (i64)(a.H + 2 * a.G) * HEAD;
    const float4 *from = (const float4 *)(sum + tile * PART) + half * 8 * 128 + threadIdx.x;
    f32           d[32];
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float4 x = __ldcs(from + j * 128);
        d[4 * j] = x.x, d[4 * j + 1] = x.y, d[4 * j + 2] = x.z, d[4 * j + 3] = x.w;
    }
    store_tile(dqkv + row * W + head % a.H * HEAD + half * TILE, W, d, a.scale);
}

/* --- as a kernel of the table --- */

static i64 room_bytes(void) { return (i64)sizeof(struct room) + 1024; }

static bool takes_grad(const struct gpu_call *c)
{
    const struct type *qkv = &c->in[1].type;
    i64                H = c->at->heads, G = c->at->kv_heads, T = qkv->shape.dim[1];
    return is_whole(c, 4) && BUILT_FOR_HOPPER && c->gpu->capability == 90 && c->at->scale > 0 &&
           qkv->shape.dim[2] == (H + 2 * G) * HEAD && H % G == 0 && T % BLOCK == 0 &&
           qkv->shape.dim[0] * T > 0 && dtype_bytes(qkv->dtype) == 2 &&
           room_bytes() <= c->gpu->shared_bytes && find_encoder();
}

/* Where they lie in the workspace; *bytes: of all. */
static struct list list_of(const struct gpu_call *c, i64 *bytes)
{
    i64         rows = c->in[3].count, tiles = rows / TILE;
    struct list l;
    l.sum   = (f32 *)c->work;
    l.stats = l.sum + rows * HEAD;
    l.turn  = (i32 *)(l.stats + 2 * rows);
    l.next  = l.turn + tiles;
    *bytes  = (u8 *)(l.next + 1) - (u8 *)l.sum;
    return l;
}

static i64 work_grad(const struct gpu_call *c)
{
    i64 rows = c->in[3].count;
    return (rows * (HEAD + 2) + rows / TILE + 1) * (i64)sizeof(f32);
}

static void run_grad(const struct gpu_call *c)
{
    struct sizes a = sizes_of(c, &c->in[1].type);
    struct maps  maps;
    i64          bytes;
    struct list  l     = list_of(c, &bytes);
    i32          tiles = a.B * a.H * (a.T / TILE), room = (i32)room_bytes();
    must(draw_map(&maps.d_o, &c->in[0], a.B, a.T) && draw_map(&maps.qkv, &c->in[1], a.B, a.T));
    maps.o = maps.d_o; /* not read */
    by_kind(a, c->in[1].type.dtype, [&](auto b, auto t) {
        typedef decltype(t) T;
        auto                grad = hopper_wide_grad<decltype(b)::value, T>;
        T                  *dqkv = data_of<T>(c->out[0]);
        wide_stats<T><<<(unsigned)tiles, TILE * ROW_LANES / ROWS_AT_ONCE, 0, c->gpu->stream>>>(
            l, data_of<T>(c->in[0]), data_of<T>(c->in[2]), data_of<f32>(c->in[3]), a);
        cudaFuncSetAttribute(grad, cudaFuncAttributeMaxDynamicSharedMemorySize, room);
        grad<<<(unsigned)MIN(c->gpu->processors, a.B * a.G * a.blocks), THREADS, (size_t)room,
               c->gpu->stream>>>(maps, dqkv, l, a, MAX(1, c->gpu->processors / 8));
        wide_dq<T><<<(unsigned)(tiles * HALVES), 128, 0, c->gpu->stream>>>(dqkv, l.sum, a);
    });
}

extern "C" const struct gpu_kernel gpu_kernels_hopper_wide_attention[] = {
    { OP_ATTENTION_GRAD, "hopper", takes_grad, run_grad, work_grad, NULL, 0 },
};
GPU_FAMILY(hopper_wide_attention)
