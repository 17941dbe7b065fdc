/* join.h - kernels of one new row that do the work of instructions around them: fewer launches to a token. */
#ifndef BACKEND_CUDA_MODULE_JOIN_H
#define BACKEND_CUDA_MODULE_JOIN_H
#include "backend/cuda/module/gpu.h"
#include "ir/program.h"
#ifdef __cplusplus
extern "C" {
#endif

/* What an instruction's kernel does besides: the instruction that makes its first operand (a norm, a rotation), and the
 * swiglu of its result. -1: no such thing. */
struct join {
    i32 before, gate;
};

/* May the kernel at `index` do the one at `before`, whose operands it then reads itself? Nobody else reads what that
 * makes, and its operands are still there. */
bool join_before(const struct program *p, i32 before, i32 index);
/* May it write what the swiglu at `gate` would, that much earlier? `before`: what else it does, or -1. */
bool join_gate(const struct program *p, i32 index, i32 gate, i32 before);
/* The one that makes operand 0 of `index`; the only one that reads its result, a swiglu. -1: there is none. */
i32 join_maker(const struct program *p, i32 index);
i32 join_reader(const struct program *p, i32 index);

/* Shapes that the kernels do it for; all else of the call is taken. */
bool gemv_takes_norm(const struct gpu_call *c, const struct gpu_call *norm);
bool gemv_takes_gate(const struct gpu_call *c);
bool cached_takes_turn(const struct gpu_call *c, const struct gpu_call *turn);

#ifdef __cplusplus
}
#endif
#endif
