/* ir_int.h - the rules behind the op table, shared inside this room only. */
#ifndef IR_IR_INT_H
#define IR_IR_INT_H
#include "ir/graph.h"

/* shapes.c: declared by name so that a row can point at them. */
shape_rule shape_binary, shape_map, shape_same, shape_as_in1, shape_swiglu, shape_cast, shape_fill,
    shape_reshape, shape_transpose, shape_concat, shape_slice, shape_dims, shape_embedding_grad,
    shape_sum, shape_broadcast, shape_matmul, shape_quantise, shape_unpack, shape_matmul_fp8,
    shape_fp8_advance, shape_embedding, shape_layernorm, shape_layernorm_grad, shape_rmsnorm,
    shape_rmsnorm_grad, shape_add_norm, shape_batchnorm, shape_batchnorm_grad, shape_conv2d,
    shape_conv2d_grad, shape_maxpool, shape_avgpool, shape_attention, shape_attention_grad,
    shape_pack, shape_attention_packed, shape_attention_cached, shape_rope, shape_heads,
    shape_qknorm, shape_dropout, shape_xent, shape_xent_both, shape_bce, shape_loss_grad,
    shape_hits, shape_scalar, shape_clip, shape_unscale, shape_accumulate, shape_ranks,
    shape_ranks_part, shape_gather_parts, shape_rows_reduce, shape_sgd, shape_adam, shape_muon,
    shape_embedding_rows, shape_rows_join, shape_rows_sgd, shape_rows_adagrad, shape_rows_adam;

/* costs.c */
cost_rule cost_gather, cost_gather_parts, cost_reduce, cost_rows_reduce, cost_map, cost_tanh,
    cost_free, cost_matmul, cost_quantise, cost_matmul_fp8, cost_embedding, cost_norm,
    cost_add_norm, cost_conv2d, cost_conv2d_grad_x, cost_conv2d_grad_w, cost_pool, cost_attention,
    cost_attention_grad, cost_attention_packed, cost_attention_cached, cost_attention_packed_grad,
    cost_xent, cost_muon, cost_rows;
work_rule work_none, work_muon, work_ranks, work_rows_reduce;

/* grads.c; the table says NULL for grad_none */
grad_rule grad_add, grad_sub, grad_mul, grad_div, grad_scale, grad_relu, grad_relu2, grad_gelu,
    grad_gelu_erf, grad_silu, grad_tanh, grad_sigmoid, grad_exp, grad_log, grad_sqrt, grad_softcap,
    grad_swiglu, grad_cast, grad_reshape, grad_transpose, grad_concat, grad_slice, grad_sum,
    grad_broadcast, grad_matmul, grad_embedding, grad_layernorm, grad_rmsnorm, grad_batchnorm,
    grad_conv2d, grad_maxpool, grad_avgpool, grad_softmax, grad_attention, grad_rope, grad_qknorm,
    grad_dropout, grad_xent, grad_bce;
#define grad_none NULL

#endif
