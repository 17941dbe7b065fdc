/* dnn.h - cuDNN's graphs from C: tensors and operations are added to a sketch, which becomes a plan
 * if the library has an engine for it.
 *
 * The library is loaded when it is first asked for and called through pointers, so the module
 * starts without it. Errors are sticky: a sketch that went wrong gives no plan, and whoever asked
 * takes another kernel. */
#ifndef BACKEND_CUDA_MODULE_DNN_H
#define BACKEND_CUDA_MODULE_DNN_H
#include "backend/cuda/module/gpu.h"
#include "backend/cuda/tuning.h"
#include <cudnn_graph.h>

enum { DNN_OPS_MAX = 40, DNN_DESCRIPTORS_MAX = 256, DNN_BOUND_MAX = 16 };
/* That make plans at once: those of ResNet-50 took 5.0 s with 4 threads, 2.7 with 8, 3.1 to 4.6 with 16 (beside an
 * H200, 16 hardware threads of 8 cores). */
enum { DNN_THREADS_MAX = 8 };

typedef cudnnBackendDescriptor_t dnn_desc;

struct dnn_sketch {
    struct gpu   *gpu;
    cudnnHandle_t handle;
    dnn_desc      ops[DNN_OPS_MAX];
    i32           op_count;
    dnn_desc      made[DNN_DESCRIPTORS_MAX]; /* freed once there is a plan */
    i32           made_count;
    i64           next_id; /* of tensors that nobody binds */
    bool          wrong;
};

struct dnn_plan {
    dnn_desc      plan;
    cudnnHandle_t handle; /* it was made with, and runs with */
    i64           work_bytes;
    i64           engine; /* the library's number of it */
    struct knob   knobs[KNOBS_MAX];
    i32           knob_count; /* below 0: they could not be read */
    u32           notes;      /* 1 << CUDNN_NUMERICAL_NOTE_... */
};

/* Four axes; strides NULL: dense. id 0: an intermediate without memory. */
struct dnn_tensor {
    cudnnDataType_t type;
    i64             dim[4], stride[4];
    i64             id;
    bool            by_value; /* one number in host memory */
};

/* What is bound to an id when a plan runs. */
struct dnn_bound {
    i64   id;
    void *data;
};

bool dnn_begin(struct dnn_sketch *s, struct gpu *gpu); /* false: no cuDNN here */
/* The same on one of several threads, each with a number of its own; dnn_version was called before. */
bool     dnn_begin_on(struct dnn_sketch *s, struct gpu *gpu, i32 thread);
dnn_desc dnn_tensor(struct dnn_sketch *s, struct dnn_tensor t);
void     dnn_matmul(struct dnn_sketch *s, dnn_desc a, dnn_desc b, dnn_desc c);
void     dnn_reduce(struct dnn_sketch *s, cudnnReduceTensorOp_t how, dnn_desc x, dnn_desc y);
void     dnn_reshape(struct dnn_sketch *s, dnn_desc x, dnn_desc y);
/* y = f(x), f(x, b) or f(x, b, t); what is not there is NULL. */
void dnn_map(struct dnn_sketch *s, cudnnPointwiseMode_t f, dnn_desc x, dnn_desc b, dnn_desc t,
             dnn_desc y, cudnnDataType_t compute);
/* dx = f'(x) dy. */
void dnn_map_grad(struct dnn_sketch *s, cudnnPointwiseMode_t f, dnn_desc dy, dnn_desc x,
                  dnn_desc dx, cudnnDataType_t compute);
void dnn_index(struct dnn_sketch *s, dnn_desc x, i64 axis, dnn_desc y);
/* Images [N,C,H,W] and weights [O,C,KH,KW], whatever their strides; one of the three is the result. */
enum dnn_conv { DNN_CONV, DNN_CONV_GRAD_X, DNN_CONV_GRAD_W };
void dnn_convolve(struct dnn_sketch *s, enum dnn_conv which, dnn_desc x, dnn_desc w, dnn_desc y,
                  i64 stride, i64 pad);
/* The library's first choice that can be made into a plan; false: there is none. */
bool dnn_end(struct dnn_sketch *s, struct dnn_plan *out);
/* Its first choices, at most `max`, without those that carry a numerical note of the set or need more
 * workspace; returns how many there are. */
struct dnn_rules {
    u32 notes_off; /* 1 << CUDNN_NUMERICAL_NOTE_... */
    i64 work_bytes_max;
};
i32 dnn_end_many(struct dnn_sketch *s, struct dnn_rules rules, struct dnn_plan *out, i32 max);
/* The engine with just these knobs; false: this library does not make it, makes another, or by other rules. */
bool dnn_end_as(struct dnn_sketch *s, struct dnn_rules rules, const struct tuned_conv *as,
                struct dnn_plan *out);
void dnn_drop(struct dnn_plan *p);
i64  dnn_version(void); /* 0: no library */
bool dnn_run(const struct gpu_call *c, const struct dnn_plan *p, const struct dnn_bound *bound,
             i32 count, void *work);
/* The same with a handle that makes no plans: by one thread, while others make plans with the plan's own. */
bool dnn_run_amid(const struct gpu_call *c, const struct dnn_plan *p, const struct dnn_bound *bound,
                  i32 count, void *work);

#endif
