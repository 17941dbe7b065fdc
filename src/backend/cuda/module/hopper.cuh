/* hopper.cuh - the instructions of sm_90a that CUDA C has no words for: barriers that count bytes, tiles copied by
 * the copy engine, products of a warpgroup (four warps) on tiles in shared memory.
 *
 * A tile is 64 rows of 64 numbers of 16 bits: 128 bytes a row, its 16-byte pieces permuted by the row (the
 * "128-byte swizzle"), on a boundary of 1024 bytes. */
#ifndef BACKEND_CUDA_MODULE_HOPPER_CUH
#define BACKEND_CUDA_MODULE_HOPPER_CUH
#include "backend/cuda/module/device.cuh"
#include <cuda.h>

enum { TILE = 64, TILE_BYTES = TILE * TILE * 2 };

/* Bodies of kernels that use these stand between #ifdef HOPPER and #endif: the other architectures get empty ones. */
#if !defined __CUDA_ARCH__ || defined __CUDA_ARCH_FEAT_SM90_ALL
#define HOPPER
#endif
#ifdef FRUGAL_SM90A /* of cmake/cuda.cmake: sm_90a is among those that are built */
enum { BUILT_FOR_HOPPER = true };
#else
enum { BUILT_FOR_HOPPER = false };
#endif

__device__ inline u32 shared_at(const void *p) { return (u32)__cvta_generic_to_shared(p); }

/* --- barriers in shared memory; a phase ends when `arrivals` and the bytes that were announced are there --- */

__device__ inline void barrier_init(u64 *b, u32 arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_at(b)), "r"(arrivals));
}
__device__ inline void barrier_arrive(u64 *b)
{
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_at(b)) : "memory");
}
__device__ inline void barrier_expect(u64 *b, u32 bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_at(b)), "r"(bytes)
                 : "memory");
}
/* Waits for the end of the phase of that parity. */
__device__ inline void barrier_wait(u64 *b, u32 parity)
{
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(shared_at(b)),
                 "r"(parity)
                 : "memory");
}
__device__ inline void barriers_are_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::
                     : "memory");
}

/* --- the copy engine --- */

__device__ inline void copy_tile(void *to, const CUtensorMap *map, i32 column, i32 row, i32 batch,
                                 u64 *b)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_at(to)),
                 "l"(map), "r"(column), "r"(row), "r"(batch), "r"(shared_at(b))
                 : "memory");
}
__device__ inline void copy_bytes(void *to, const void *from, u32 bytes, u64 *b)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_at(to)),
        "l"(from), "r"(bytes), "r"(shared_at(b))
        : "memory");
}

/* Adds numbers in shared memory to as many in device memory, or puts them there; in order for one thread's waits. */
__device__ inline void add_numbers(f32 *to, const f32 *from, u32 bytes)
{
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
        "r"(shared_at(from)), "r"(bytes)
        : "memory");
}
__device__ inline void put_numbers(f32 *to, const f32 *from, u32 bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                 "r"(shared_at(from)), "r"(bytes)
                 : "memory");
}
/* Until the thread's adds and puts have read what they store; until all can see it. */
__device__ inline void wait_until_read()
{
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ inline void wait_until_stored()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
/* What was written to shared memory is there for products and copies. */
__device__ inline void shared_ready()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* --- products --- */

/* A warpgroup that only copies leaves registers to those that compute. */
template <int N> __device__ inline void registers_down()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> __device__ inline void registers_up()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* What a product is told of a tile: where it lies, 1024 bytes between its groups of eight rows, the swizzle. */
__device__ inline u64 tile_words(const void *tile)
{
    return (u64)(shared_at(tile) >> 4 & 0x3fff) | (u64)1 << 16 | (u64)(1024 >> 4) << 32 |
           (u64)1 << 62;
}
enum {
    STEP_ALONG = 32 >> 4,
    STEP_DOWN  = 2048 >> 4
}; /* to the next 16 numbers of each row; to the next 16 rows */

/* What was written to registers is there for products that follow. */
__device__ inline void registers_ready() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void products_group()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

#define HOPPER_D                                                                                   \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%" \
    "25,%26,%27,%28,%29,%30,%31}"
#define HOPPER_8(d, i)                                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define HOPPER_32(d) HOPPER_8(d, 0), HOPPER_8(d, 8), HOPPER_8(d, 16), HOPPER_8(d, 24)
/* All but the last N groups are done: d may be read. The compiler must not read it before, hence it
 * passes through here. */
template <int N> __device__ inline void products_wait(f32 (&d)[32])
{
    asm volatile("wgmma.wait_group.sync.aligned %32;" : HOPPER_32(d) : "n"(N) : "memory");
}

#define HOPPER_MULTIPLY(type)                                                                      \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." type " " HOPPER_D                   \
                 ", {%32,%33,%34,%35}, %36, add, 1, 1, %38;\n}"                                    \
                 : HOPPER_32(d)                                                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((u32)add), "n"(DOWN))

/* d (+)= 16 columns of a, which is in registers, times 16 of each row of b, or 16 rows of it (DOWN). */
template <class T, int DOWN>
__device__ inline void multiply(f32 (&d)[32], const u32 *a, u64 b, bool add)
{
    if constexpr (std::is_same<T, bf16>::value) HOPPER_MULTIPLY("bf16.bf16");
    else HOPPER_MULTIPLY("f16.f16");
}
#define HOPPER_MULTIPLY_TILES(type)                                                                \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"                                  \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." type " " HOPPER_D                   \
                 ", %32, %33, add, 1, 1, %35, %36;\n}"                                             \
                 : HOPPER_32(d)                                                                    \
                 : "l"(a), "l"(b), "r"((u32)add), "n"(A_DOWN), "n"(B_DOWN))

/* The same with 16 columns of a, or 16 rows of it (A_DOWN), in shared memory too. */
template <class T, int A_DOWN, int B_DOWN>
__device__ inline void multiply_tiles(f32 (&d)[32], u64 a, u64 b, bool add)
{
    if constexpr (std::is_same<T, bf16>::value) HOPPER_MULTIPLY_TILES("bf16.bf16");
    else HOPPER_MULTIPLY_TILES("f16.f16");
}
#define HOPPER_D2                                                                                  \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%" \
    "25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%" \
    "48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
#define HOPPER_ADD_WIDE(type)                                                                      \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type " " HOPPER_D2                 \
                 ", {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"                                           \
                 : HOPPER_32(d[0]), HOPPER_32(d[1])                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define HOPPER_ADD_WIDE_TILES(type)                                                                \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type " " HOPPER_D2                 \
                 ", %64, %65, 1, 1, 1, 0, 1;"                                                      \
                 : HOPPER_32(d[0]), HOPPER_32(d[1])                                                \
                 : "l"(a), "l"(b))

/* Of two tiles side by side, the second behind the first. */
__device__ inline u64 wide_words(const void *tiles)
{
    return tile_words(tiles) + ((u64)((TILE_BYTES >> 4) - 1) << 16);
}
/* d += 16 columns of a, in registers or in shared memory, times 16 rows of two tiles side by side. */
template <class T> __device__ inline void add_wide(f32 (&d)[2][32], const u32 *a, u64 b)
{
    if constexpr (std::is_same<T, bf16>::value) HOPPER_ADD_WIDE("bf16.bf16");
    else HOPPER_ADD_WIDE("f16.f16");
}
template <class T> __device__ inline void add_wide_tiles(f32 (&d)[2][32], u64 a, u64 b)
{
    if constexpr (std::is_same<T, bf16>::value) HOPPER_ADD_WIDE_TILES("bf16.bf16");
    else HOPPER_ADD_WIDE_TILES("f16.f16");
}
/* d = a b^T */
template <class T> __device__ inline void product(f32 (&d)[32], const u32 (&a)[16], u64 b)
{
    registers_ready();
#pragma unroll
    for (int k = 0; k < 4; k++) multiply<T, 0>(d, a + 4 * k, b + k * STEP_ALONG, k > 0);
}
/* d += a b */
template <class T> __device__ inline void add_product(f32 (&d)[32], const u32 (&a)[16], u64 b)
{
    registers_ready();
#pragma unroll
    for (int k = 0; k < 4; k++) multiply<T, 1>(d, a + 4 * k, b + k * STEP_DOWN, true);
}

/* A tile in the registers of a warpgroup, as a product takes it. */
__device__ inline void hold_tile(u32 (&a)[16], const u8 *tile)
{
    i32 t = threadIdx.x % 128, row = t / 32 * 16 + t % 16, chunk = t % 32 / 16;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        u32 at = shared_at(tile + row * 128 + ((2 * k + chunk) ^ row % 8) * 16);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(a[4 * k]), "=r"(a[4 * k + 1]), "=r"(a[4 * k + 2]), "=r"(a[4 * k + 3])
                     : "r"(at)
                     : "memory");
    }
}

/* The way back. */
__device__ inline void stow_tile(u8 *tile, const u32 (&a)[16])
{
    i32 t = threadIdx.x % 128, row = t / 32 * 16 + t % 16, chunk = t % 32 / 16;
    u32 at = shared_at(tile + row * 128 + (chunk ^ row % 8) * 16);
#pragma unroll
    for (int k = 0; k < 4; k++)
        asm volatile(
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%4], {%0,%1,%2,%3};" ::"r"(a[4 * k]),
            "r"(a[4 * k + 1]), "r"(a[4 * k + 2]), "r"(a[4 * k + 3]), "r"(at ^ 32 * k)
            : "memory");
}

/* Of a result each thread has 16 numbers of two rows: where its i-th lies. */
__device__ inline i32 row_of(int i)
{
    return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8;
}
__device__ inline i32 column_of(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

template <class T> __device__ inline u32 two(f32 a, f32 b)
{
    u32 x;
    if constexpr (std::is_same<T, bf16>::value)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(b), "f"(a));
    else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(b), "f"(a));
    return x;
}
/* Volatile, so that it is not put off until products that it could run beside are done. */
__device__ inline f32 power_of_two(f32 x)
{
    f32 y;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
