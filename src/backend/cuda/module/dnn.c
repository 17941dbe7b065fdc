/* dnn.c - cuDNN's backend interface behind a few plain functions. */
#include "backend/cuda/module/dnn.h"
#include <dlfcn.h>
#include <string.h>

enum { CANDIDATES = 16 };

struct dnn {
    cudnnHandle_t handles[DNN_THREADS_MAX + 1]; /* of one thread each, opened when it first asks */
    bool          tried, loaded;
    cudnnStatus_t (*create)(cudnnHandle_t *);
    size_t (*version)(void);
    cudnnStatus_t (*set_stream)(cudnnHandle_t, cudaStream_t);
    cudnnStatus_t (*new)(cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *);
    cudnnStatus_t (*free)(cudnnBackendDescriptor_t);
    cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t);
    cudnnStatus_t (*set)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                         cudnnBackendAttributeType_t, int64_t, const void *);
    cudnnStatus_t (*get)(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                         cudnnBackendAttributeType_t, int64_t, int64_t *, void *);
    cudnnStatus_t (*execute)(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t);
};

static struct dnn dnn; /* of the process: loading takes a second, and streams are set at each use */

static bool open_handle(i32 thread)
{
    return dnn.handles[thread] || dnn.create(&dnn.handles[thread]) == CUDNN_STATUS_SUCCESS;
}

static bool find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);
    memcpy(to, &symbol, sizeof symbol); /* ISO C has no cast from data to functions */
    return symbol != NULL;
}

static bool load(void)
{
    if (dnn.tried) return dnn.loaded;
    dnn.tried     = true;
    void *library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_GLOBAL);
    if (!library) return false;
    if (!find(library, "cudnnCreate", &dnn.create) ||
        !find(library, "cudnnGetVersion", &dnn.version) ||
        !find(library, "cudnnSetStream", &dnn.set_stream) ||
        !find(library, "cudnnBackendCreateDescriptor", &dnn.new) ||
        !find(library, "cudnnBackendDestroyDescriptor", &dnn.free) ||
        !find(library, "cudnnBackendFinalize", &dnn.finalize) ||
        !find(library, "cudnnBackendSetAttribute", &dnn.set) ||
        !find(library, "cudnnBackendGetAttribute", &dnn.get) ||
        !find(library, "cudnnBackendExecute", &dnn.execute))
        return false;
    return dnn.loaded = open_handle(0);
}

i64 dnn_version(void) { return load() ? (i64)dnn.version() : 0; }

bool dnn_begin_on(struct dnn_sketch *s, struct gpu *gpu, i32 thread)
{
    ASSERT(thread < DNN_THREADS_MAX);
    bool ready = load() && open_handle(thread);
    *s         = (struct dnn_sketch){ .gpu = gpu, .next_id = 1 << 20 };
    s->handle  = dnn.handles[thread];
    return ready;
}

bool dnn_begin(struct dnn_sketch *s, struct gpu *gpu) { return dnn_begin_on(s, gpu, 0); }

/* --- descriptors --- */

static dnn_desc make(struct dnn_sketch *s, cudnnBackendDescriptorType_t type)
{
    dnn_desc d = NULL;
    if (s->made_count == DNN_DESCRIPTORS_MAX || dnn.new(type, &d) != CUDNN_STATUS_SUCCESS) {
        s->wrong = true;
        return NULL;
    }
    return s->made[s->made_count++] = d;
}

static void set(struct dnn_sketch *s, dnn_desc d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, i64 count, const void *value)
{
    if (!s->wrong && dnn.set(d, name, type, count, value) != CUDNN_STATUS_SUCCESS) s->wrong = true;
}

static void set_desc(struct dnn_sketch *s, dnn_desc d, cudnnBackendAttributeName_t name,
                     dnn_desc value)
{
    if (value) set(s, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void end(struct dnn_sketch *s, dnn_desc d)
{
    if (!s->wrong && dnn.finalize(d) != CUDNN_STATUS_SUCCESS) s->wrong = true;
}

static void add_op(struct dnn_sketch *s, dnn_desc op)
{
    end(s, op);
    if (s->op_count == DNN_OPS_MAX) s->wrong = true;
    else s->ops[s->op_count++] = op;
}

dnn_desc dnn_tensor(struct dnn_sketch *s, struct dnn_tensor t)
{
    dnn_desc d     = make(s, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    i64      align = 16, id = t.id ? t.id : s->next_id++;
    bool     yes = true;
    if (!t.stride[3]) {
        t.stride[3] = 1;
        for (i32 i = 2; i >= 0; i--) t.stride[i] = t.stride[i + 1] * t.dim[i + 1];
    }
    set(s, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &t.type);
    set(s, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, t.dim);
    set(s, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, t.stride);
    set(s, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(s, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (!t.id) set(s, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (t.by_value) set(s, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    end(s, d);
    return d;
}

void dnn_matmul(struct dnn_sketch *s, dnn_desc a, dnn_desc b, dnn_desc c)
{
    cudnnDataType_t f32_type = CUDNN_DATA_FLOAT;
    dnn_desc        how      = make(s, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    dnn_desc        op       = make(s, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set(s, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32_type);
    end(s, how);
    set_desc(s, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_desc(s, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_desc(s, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_desc(s, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    add_op(s, op);
}

void dnn_reduce(struct dnn_sketch *s, cudnnReduceTensorOp_t how, dnn_desc x, dnn_desc y)
{
    cudnnDataType_t f32_type = CUDNN_DATA_FLOAT;
    dnn_desc        d        = make(s, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    dnn_desc        op       = make(s, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set(s, d, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    set(s, d, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32_type);
    end(s, d);
    set_desc(s, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_desc(s, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    set_desc(s, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, d);
    add_op(s, op);
}

void dnn_reshape(struct dnn_sketch *s, dnn_desc x, dnn_desc y)
{
    dnn_desc op = make(s, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_desc(s, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_desc(s, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add_op(s, op);
}

static void map(struct dnn_sketch *s, dnn_desc how, dnn_desc x, dnn_desc b, dnn_desc t, dnn_desc y)
{
    dnn_desc op = make(s, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    end(s, how);
    set_desc(s, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_desc(s, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_desc(s, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_desc(s, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    set_desc(s, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_op(s, op);
}

static dnn_desc pointwise(struct dnn_sketch *s, cudnnPointwiseMode_t f, cudnnDataType_t compute)
{
    dnn_desc how = make(s, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(s, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &f);
    set(s, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    return how;
}

void dnn_map(struct dnn_sketch *s, cudnnPointwiseMode_t f, dnn_desc x, dnn_desc b, dnn_desc t,
             dnn_desc y, cudnnDataType_t compute)
{
    map(s, pointwise(s, f, compute), x, b, t, y);
}

void dnn_map_grad(struct dnn_sketch *s, cudnnPointwiseMode_t f, dnn_desc dy, dnn_desc x,
                  dnn_desc dx, cudnnDataType_t compute)
{
    dnn_desc how = pointwise(s, f, compute);
    dnn_desc op  = make(s, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    end(s, how);
    set_desc(s, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_desc(s, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_desc(s, op, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dy);
    set_desc(s, op, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx);
    add_op(s, op);
}

void dnn_index(struct dnn_sketch *s, dnn_desc x, i64 axis, dnn_desc y)
{
    dnn_desc how = pointwise(s, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT);
    set(s, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    map(s, how, x, NULL, NULL, y);
}

/* --- convolution --- */

static const struct {
    cudnnBackendDescriptorType_t op;
    cudnnBackendAttributeName_t  x, w, y, how, alpha, beta;
} convolutions[] = {
    [DNN_CONV]        = { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
    [DNN_CONV_GRAD_X] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
    [DNN_CONV_GRAD_W] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
};

void dnn_convolve(struct dnn_sketch *s, enum dnn_conv which, dnn_desc x, dnn_desc w, dnn_desc y,
                  i64 stride, i64 pad)
{
    cudnnDataType_t        f32_type = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode     = CUDNN_CROSS_CORRELATION; /* taps are not turned round */
    i64      axes = 2, strides[] = { stride, stride }, pads[] = { pad, pad }, near[] = { 1, 1 };
    f32      alpha = 1, beta = 0;
    dnn_desc how = make(s, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    dnn_desc op  = make(s, convolutions[which].op);
    set(s, how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32_type);
    set(s, how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(s, how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes);
    set(s, how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, pads);
    set(s, how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, pads);
    set(s, how, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, near);
    set(s, how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides);
    end(s, how);
    set_desc(s, op, convolutions[which].x, x);
    set_desc(s, op, convolutions[which].w, w);
    set_desc(s, op, convolutions[which].y, y);
    set_desc(s, op, convolutions[which].how, how);
    set(s, op, convolutions[which].alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    set(s, op, convolutions[which].beta, CUDNN_TYPE_FLOAT, 1, &beta);
    add_op(s, op);
}

/* --- plans --- */

static bool plan_of(struct dnn_sketch *s, dnn_desc engine, struct dnn_plan *out)
{
    dnn_desc plan  = NULL;
    i64      count = 0;
    if (dnn.new(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) != CUDNN_STATUS_SUCCESS)
        return false;
    if (!dnn.set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &s->handle) &&
        !dnn.set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                 &engine) &&
        !dnn.finalize(plan) &&
        !dnn.get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                 &out->work_bytes)) {
        out->plan   = plan;
        out->handle = s->handle;
        return true;
    }
    dnn.free(plan);
    return false;
}

static bool read_knob(dnn_desc choice, struct knob *to)
{
    cudnnBackendKnobType_t type;
    i64                    count = 0;
    if (dnn.get(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &count, &type) ||
        dnn.get(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &count, &to->value))
        return false;
    to->type = (i64)type;
    return true;
}

/* The library fills as many descriptors as it is given room for: asked with room for none, it tells of none. */
static bool read_knobs(dnn_desc config, struct dnn_plan *out)
{
    dnn_desc choices[KNOBS_MAX] = { NULL };
    i64      count              = 0;
    bool     ok                 = true;
    for (i32 i = 0; ok && i < KNOBS_MAX; i++)
        ok = !dnn.new(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &choices[i]);
    ok = ok &&
         !dnn.get(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  KNOBS_MAX, &count, choices) &&
         count <= KNOBS_MAX;
    for (i64 i = 0; ok && i < count; i++) ok = read_knob(choices[i], &out->knobs[i]);
    out->knob_count = ok ? (i32)count : -1;
    for (i32 i = 0; i < KNOBS_MAX; i++)
        if (choices[i]) dnn.free(choices[i]);
    return ok;
}

static bool read_notes(dnn_desc engine, u32 *notes)
{
    cudnnBackendNumericalNote_t list[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    i64                         count = 0;
    if (dnn.get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, list))
        return false;
    for (i64 i = 0; i < MIN(count, CUDNN_NUMERICAL_NOTE_TYPE_COUNT); i++)
        if (list[i] < 32) *notes |= 1u << list[i];
    return true;
}

/* The number of the configuration's engine and its notes; false: it does not tell. */
static bool identify(struct dnn_sketch *s, dnn_desc config, struct dnn_plan *out)
{
    dnn_desc engine = make(s, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    i64      count  = 0;
    return engine &&
           !dnn.get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                    &engine) &&
           !dnn.get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count,
                    &out->engine) &&
           read_notes(engine, &out->notes);
}

/* The engines that a ranking of the library's names, in its order. */
static i32 ranked_plans(struct dnn_sketch *s, dnn_desc graph, cudnnBackendHeurMode_t mode,
                        struct dnn_rules rules, struct dnn_plan *out, i32 max)
{
    dnn_desc rank  = make(s, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), found[CANDIDATES];
    i64      count = 0;
    i32      plans = 0;
    set_desc(s, rank, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(s, rank, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    end(s, rank);
    for (i32 i = 0; i < CANDIDATES; i++) found[i] = make(s, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (s->wrong || dnn.get(rank, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                            CANDIDATES, &count, found))
        return 0;
    for (i64 i = 0; i < MIN(count, CANDIDATES) && plans < max; i++) {
        struct dnn_plan *p = &out[plans];
        *p                 = (struct dnn_plan){ 0 };
        if (!identify(s, found[i], p) || p->notes & rules.notes_off || !plan_of(s, found[i], p))
            continue;
        (void)read_knobs(found[i], p); /* without them it can be used, but not kept */
        if (p->work_bytes <= rules.work_bytes_max) plans++;
        else dnn_drop(p);
    }
    return plans;
}

static dnn_desc whole_graph(struct dnn_sketch *s)
{
    dnn_desc graph = make(s, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(s, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, s->op_count,
        s->ops);
    set(s, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &s->handle);
    end(s, graph);
    return graph;
}

void dnn_drop(struct dnn_plan *p)
{
    if (p->plan) dnn.free(p->plan);
    *p = (struct dnn_plan){ 0 };
}

static void free_made(struct dnn_sketch *s)
{
    for (i32 i = s->made_count - 1; i >= 0; i--) dnn.free(s->made[i]);
}

i32 dnn_end_many(struct dnn_sketch *s, struct dnn_rules rules, struct dnn_plan *out, i32 max)
{
    dnn_desc graph = whole_graph(s);
    i32      count = 0;
    if (!s->wrong) count = ranked_plans(s, graph, CUDNN_HEUR_MODE_A, rules, out, max);
    if (!s->wrong && !count) count = ranked_plans(s, graph, CUDNN_HEUR_MODE_B, rules, out, max);
    if (!s->wrong && !count)
        count = ranked_plans(s, graph, CUDNN_HEUR_MODE_FALLBACK, rules, out, max);
    free_made(s);
    return count;
}

static i64 knob_value(const struct knob *knobs, i32 count, i64 type, i64 otherwise)
{
    for (i32 i = 0; i < count; i++)
        if (knobs[i].type == type) return knobs[i].value;
    return otherwise;
}

/* Does the configuration, once it is made, say what it was asked to be? */
static bool is_as(struct dnn_sketch *s, dnn_desc config, const struct tuned_conv *as,
                  struct dnn_plan *out)
{
    if (!identify(s, config, out) || !read_knobs(config, out) || out->engine != as->engine)
        return false;
    for (i32 i = 0; i < as->knob_count; i++) {
        i64 value = as->knobs[i].value;
        if (knob_value(out->knobs, out->knob_count, as->knobs[i].type, value + 1) != value)
            return false;
    }
    return out->knob_count >= as->knob_count;
}

static dnn_desc knob_choice(struct dnn_sketch *s, const struct knob *k)
{
    cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)k->type;
    dnn_desc               d    = make(s, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    set(s, d, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    set(s, d, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &k->value);
    end(s, d);
    return d;
}

bool dnn_end_as(struct dnn_sketch *s, struct dnn_rules rules, const struct tuned_conv *as,
                struct dnn_plan *out)
{
    dnn_desc graph = whole_graph(s), engine = make(s, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    dnn_desc config = make(s, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR), choices[KNOBS_MAX];
    *out            = (struct dnn_plan){ 0 };
    set_desc(s, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    set(s, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &as->engine);
    end(s, engine);
    for (i32 i = 0; i < as->knob_count; i++) choices[i] = knob_choice(s, &as->knobs[i]);
    set_desc(s, config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (as->knob_count)
        set(s, config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            as->knob_count, choices);
    end(s, config);
    bool made = !s->wrong && is_as(s, config, as, out) && !(out->notes & rules.notes_off) &&
                plan_of(s, config, out);
    if (made && out->work_bytes > rules.work_bytes_max) {
        dnn_drop(out);
        made = false;
    }
    free_made(s);
    return made;
}

bool dnn_end(struct dnn_sketch *s, struct dnn_plan *out)
{
    return dnn_end_many(s, (struct dnn_rules){ 0, INT64_MAX }, out, 1) == 1;
}

static bool run_with(cudnnHandle_t handle, const struct gpu_call *c, const struct dnn_plan *p,
                     const struct dnn_bound *bound, i32 count, void *work)
{
    dnn_desc pack = NULL;
    i64      ids[DNN_BOUND_MAX];
    void    *data[DNN_BOUND_MAX];
    ASSERT(count <= DNN_BOUND_MAX);
    for (i32 i = 0; i < count; i++) {
        ids[i]  = bound[i].id;
        data[i] = bound[i].data;
    }
    if (dnn.new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack)) return false;
    bool done =
        !dnn.set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids) &&
        !dnn.set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data) &&
        !dnn.set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &work) &&
        !dnn.finalize(pack) && !dnn.set_stream(handle, c->gpu->stream) &&
        !dnn.execute(handle, p->plan, pack);
    dnn.free(pack);
    return done;
}

bool dnn_run(const struct gpu_call *c, const struct dnn_plan *p, const struct dnn_bound *bound,
             i32 count, void *work)
{
    return run_with(p->handle, c, p, bound, count, work);
}

bool dnn_run_amid(const struct gpu_call *c, const struct dnn_plan *p, const struct dnn_bound *bound,
                  i32 count, void *work)
{
    return open_handle(DNN_THREADS_MAX) &&
           run_with(dnn.handles[DNN_THREADS_MAX], c, p, bound, count, work);
}
