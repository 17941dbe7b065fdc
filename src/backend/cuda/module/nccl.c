/* nccl.c - collectives between GPUs: NCCL's calls, in the order of the program, on its stream, and so in its graph.
 *
 * Sums are NCCL's: their order is that of its rings and trees, which the machine and the number of ranks decide, so the
 * same machine gives the same bits, and another number of ranks differs by rounding as it does on processors. */
#include "backend/cuda/module/nccl.h"
#include "backend/cuda/module/gpu.h"
#include "base/os.h"
#include "ir/collective.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static struct nccl nccl; /* of the process */

/* --- the library --- */

static bool find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);
    memcpy(to, &symbol, sizeof symbol); /* ISO C has no cast from data to functions */
    return symbol != NULL;
}

/* A rank prepares its programs while others do something else: what NCCL would agree on with them at that moment it
 * does when the link is made (connections), or not at all (buffers of graphs). Who sets these knows better. */
static void set_defaults(void)
{
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    setenv("NCCL_GRAPH_REGISTER", "0", 0);
}

enum status nccl_load(struct err *err)
{
    struct os *os    = os_real();
    struct str given = os->env(os, "FRUGAL_NCCL");
    char       path[4096];
    if (nccl.loaded) return STATUS_OK;
    if (given.len >= (i64)sizeof path)
        return err_set(err, STATUS_USAGE, "FRUGAL_NCCL is longer than a path can be");
    memcpy(path, given.data ? given.data : "", (size_t)given.len);
    path[given.len] = 0;
    set_defaults();
    void *library = dlopen(given.len ? path : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return err_set(err, STATUS_WORLD,
                       "ranks on GPUs need NCCL, which was not found (%.200s): install it (PyPI: "
                       "nvidia-nccl-cu13), name its library in FRUGAL_NCCL, or train.device=cpu",
                       dlerror());
    nccl.loaded = find(library, "ncclGetErrorString", &nccl.error_text);
#define F(field, symbol, arguments) nccl.loaded = nccl.loaded && find(library, symbol, &nccl.field);
    NCCL_FUNCTIONS(F)
#undef F
    find(library, "ncclCommSplit", &nccl.split);
    if (nccl.loaded) return STATUS_OK;
    return err_set(err, STATUS_WORLD,
                   "the NCCL library lacks calls of version 2.4: install a newer one");
}

static enum status failed(const char *what, int result, struct err *err)
{
    int version = 0;
    nccl.version(&version);
    return err_set(err, STATUS_WORLD, "NCCL %d.%d.%d %s: %s (NCCL_DEBUG=WARN says more)",
                   version / 10000, version / 100 % 100, version % 100, what,
                   nccl.error_text(result));
}

enum status nccl_key(struct backend_key *key, struct err *err)
{
    int result = nccl.unique_id(key);
    return result ? failed("finds no network for its ranks", result, err) : STATUS_OK;
}

enum status nccl_link(const struct backend_key *key, i32 rank, i32 ranks, struct err *err)
{
    struct nccl_link *all = &nccl.links[OVER_ALL];
    ASSERT(nccl.loaded && !all->comm);
    int result = nccl.init(&all->comm, ranks, *key, rank);
    if (result) {
        all->comm = NULL;
        return failed("cannot link the GPUs of all ranks", result, err);
    }
    all->rank  = rank;
    all->ranks = ranks;
    return STATUS_OK;
}

enum status nccl_split(enum ranks_over over, i32 group, i32 place, i32 count, struct err *err)
{
    struct nccl_link *to = &nccl.links[over];
    ASSERT(nccl_linked() && !to->comm);
    if (!nccl.split)
        return err_set(err, STATUS_WORLD,
                       "train.shard_over=machine needs NCCL 2.18 or later: install a newer one, or "
                       "train.shard_over=all");
    int result = nccl.split(nccl.links[OVER_ALL].comm, group, place, &to->comm, NULL);
    if (result) {
        to->comm = NULL;
        return failed("cannot link the GPUs of a group of ranks", result, err);
    }
    to->rank  = place;
    to->ranks = count;
    return STATUS_OK;
}

bool nccl_linked(void) { return nccl.links[OVER_ALL].comm != NULL; }

enum status nccl_status(struct err *err)
{
    int bad = nccl.failed;
    for (i32 i = OVER_COUNT - 1; !bad && i >= 0; i--) {
        int now = NCCL_OK;
        if (!nccl.links[i].comm) continue;
        int asked = nccl.async_error(nccl.links[i].comm, &now);
        bad       = asked ? asked : now == NCCL_UNDER_WAY ? NCCL_OK : now;
    }
    if (!nccl_linked() || bad == NCCL_OK || bad == NCCL_UNDER_WAY) return STATUS_OK;
    return failed("lost the link to another rank, or failed", bad, err);
}

/* Groups first: they were made from the link of all. */
static void end_links(int (*end)(void *))
{
    for (i32 i = OVER_COUNT - 1; i >= 0; i--) {
        if (nccl.links[i].comm) end(nccl.links[i].comm);
        nccl.links[i].comm = NULL;
    }
}

/* Where there are groups, all links at once: an abort waits for graphs with calls over its link, which may have calls
 * over another one, too. */
void nccl_abort(void)
{
    bool groups = nccl.links[OVER_MACHINE].comm != NULL;
    if (groups) nccl.group_start();
    end_links(nccl.abort);
    if (groups) nccl.group_end();
}

void nccl_close(void)
{
    end_links(nccl.destroy);
    nccl.failed = NCCL_OK;
}

/* --- kernels --- */

static int type_of_numbers(enum dtype t)
{
    return t == DT_F32 ? NCCL_F32 : t == DT_BF16 ? NCCL_BF16 : t == DT_F16 ? NCCL_F16 : NCCL_I32;
}

static void note(int result)
{
    if (result != NCCL_OK && result != NCCL_UNDER_WAY && !nccl.failed) nccl.failed = result;
}

static bool takes(const struct gpu_call *c)
{
    const struct tensor *x = &c->in[0];
    return x->type.dtype == DT_F32 || x->type.dtype == DT_BF16 || x->type.dtype == DT_F16;
}

static bool takes_any(const struct gpu_call *c)
{
    return takes(c) || c->in[0].type.dtype == DT_I32;
}

static bool takes_f32(const struct gpu_call *c) { return c->in[0].type.dtype == DT_F32; }

static void copy(void *to, const void *from, i64 bytes, const struct gpu_call *c)
{
    if (bytes > 0 && to != from)
        cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, c->gpu->stream);
}

/* Those it reaches; NULL: it is alone. A program for one rank needs no link, and has one where its cost is measured. */
static const struct nccl_link *reached(const struct gpu_call *c)
{
    const struct nccl_link *l = &nccl.links[c->at->over];
    ASSERT(l->comm ? c->at->ranks == l->ranks : c->at->ranks == 1);
    return l->comm ? l : NULL;
}

static void run_ALL_REDUCE(const struct gpu_call *c)
{
    const struct tensor    *x = &c->in[0];
    const struct nccl_link *l = reached(c);
    if (!l) return;
    note(nccl.all_reduce(x->data, x->data, (size_t)x->count, type_of_numbers(x->type.dtype),
                         c->at->largest ? NCCL_LARGEST : NCCL_ADD, l->comm, c->gpu->stream));
}

/* All parts have the same size for NCCL: what does not divide is summed from a copy with zeros behind it. */
static i64 work_of_parts(i64 count, i64 ranks, enum dtype dtype)
{
    i64 all = ranks_part(count, ranks) * ranks;
    return all == count ? 0 : all * dtype_bytes(dtype);
}

static i64 work_REDUCE_SCATTER(const struct gpu_call *c)
{
    return work_of_parts(c->in[0].count, c->at->ranks, c->in[0].type.dtype);
}

static void run_REDUCE_SCATTER(const struct gpu_call *c)
{
    const struct tensor    *x     = &c->in[0];
    i64                     bytes = type_bytes(x->type);
    const void             *from  = x->data;
    const struct nccl_link *l     = reached(c);
    if (!l) {
        copy(c->out[0].data, x->data, bytes, c);
        return;
    }
    if (c->work_bytes) {
        copy(c->work, from, bytes, c);
        cudaMemsetAsync((u8 *)c->work + bytes, 0, (size_t)(c->work_bytes - bytes), c->gpu->stream);
        from = c->work;
    }
    note(nccl.reduce_scatter(from, c->out[0].data, (size_t)ranks_part(x->count, l->ranks),
                             type_of_numbers(x->type.dtype), NCCL_ADD, l->comm, c->gpu->stream));
}

/* Parts that lie in their places and differ by one element at most: each goes to all. */
static void run_ALL_GATHER(const struct gpu_call *c)
{
    const struct tensor    *x    = &c->in[0];
    i64                     item = dtype_bytes(x->type.dtype);
    u8                     *data = x->data;
    const struct nccl_link *l    = reached(c);
    if (!l) return;
    i64 part = x->count / l->ranks;
    if (x->count % l->ranks == 0) {
        note(nccl.all_gather(data + l->rank * part * item, data, (size_t)(part * item), NCCL_U8,
                             l->comm, c->gpu->stream));
        return;
    }
    for (i32 i = 0; i < l->ranks; i++) {
        i64 begin = ranks_begin(x->count, l->ranks, i);
        i64 end   = ranks_begin(x->count, l->ranks, i + 1);
        note(nccl.broadcast(data + begin * item, data + begin * item,
                            (size_t)((end - begin) * item), NCCL_U8, i, l->comm, c->gpu->stream));
    }
}

static i64 work_GATHER_PARTS(const struct gpu_call *c)
{
    return work_of_parts(c->out[0].count, c->at->ranks, c->out[0].type.dtype);
}

static void run_GATHER_PARTS(const struct gpu_call *c)
{
    const struct tensor    *x = &c->in[0], *y = &c->out[0];
    i64                     bytes = type_bytes(y->type);
    void                   *to    = c->work_bytes ? c->work : y->data;
    const struct nccl_link *l     = reached(c);
    if (!l) {
        copy(y->data, x->data, bytes, c);
        return;
    }
    note(nccl.all_gather(x->data, to, (size_t)type_bytes(x->type), NCCL_U8, l->comm,
                         c->gpu->stream));
    copy(y->data, to, bytes, c);
}

static void run_RANK_BROADCAST(const struct gpu_call *c)
{
    const struct tensor    *x = &c->in[0];
    const struct nccl_link *l = reached(c);
    if (!l) return;
    note(nccl.broadcast(x->data, x->data, (size_t)type_bytes(x->type), NCCL_U8, (int)c->at->start,
                        l->comm, c->gpu->stream));
}

/* --- rows of a table: all of all ranks, joined in their order --- */

struct rows {
    struct tensor            join[4]; /* rows, index, and those of another rank */
    struct gpu_call          call;
    const struct gpu_kernel *kernel;
    i64                      rows, index; /* bytes of one rank's */
    i64                      all_rows;    /* where they begin in the workspace; index: at 0 */
    i64                      work;        /* where the kernel's begins */
};

static i64 room(i64 bytes) { return (bytes + 255) / 256 * 256; }

static void rows_of(const struct gpu_call *c, struct rows *r)
{
    for (i32 i = 0; i < 4; i++) r->join[i] = c->in[i % 2];
    r->call = (struct gpu_call){
        .op = OP_ROWS_JOIN, .at = c->at, .in = r->join, .in_count = 4, .gpu = c->gpu
    };
    r->kernel          = gpu_kernel_choose(&r->call);
    r->rows            = type_bytes(c->in[0].type);
    r->index           = type_bytes(c->in[1].type);
    r->all_rows        = room(c->at->ranks * r->index);
    r->work            = r->all_rows + room(c->at->ranks * r->rows);
    r->call.work_bytes = r->kernel && r->kernel->work ? r->kernel->work(&r->call) : 0;
}

static bool takes_rows(const struct gpu_call *c)
{
    struct rows r;
    rows_of(c, &r);
    return takes_f32(c) && r.kernel;
}

static i64 work_ROWS_REDUCE(const struct gpu_call *c)
{
    struct rows r;
    rows_of(c, &r);
    return c->at->ranks > 1 ? r.work + r.call.work_bytes : 0;
}

static void run_ROWS_REDUCE(const struct gpu_call *c)
{
    struct rows r;
    u8         *work = c->work;
    rows_of(c, &r);
    const struct nccl_link *l = reached(c);
    if (!l || !work) return;
    note(nccl.all_gather(c->in[1].data, work, (size_t)r.index, NCCL_U8, l->comm, c->gpu->stream));
    note(nccl.all_gather(c->in[0].data, work + r.all_rows, (size_t)r.rows, NCCL_U8, l->comm,
                         c->gpu->stream));
    copy(c->in[1].data, work, r.index, c);
    copy(c->in[0].data, work + r.all_rows, r.rows, c);
    r.call.work = work + r.work;
    for (i32 i = 1; i < l->ranks; i++) {
        r.join[2].data = work + r.all_rows + i * r.rows;
        r.join[3].data = work + i * r.index;
        r.kernel->run(&r.call);
    }
}

extern const struct gpu_kernel gpu_kernels_nccl[];
const struct gpu_kernel        gpu_kernels_nccl[] = {
           { OP_ALL_REDUCE, "nccl", takes, run_ALL_REDUCE, NULL, NULL, 0 },
           { OP_REDUCE_SCATTER, "nccl", takes, run_REDUCE_SCATTER, work_REDUCE_SCATTER, NULL, 0 },
           { OP_ALL_GATHER, "nccl", takes_any, run_ALL_GATHER, NULL, NULL, 0 },
           { OP_GATHER_PARTS, "nccl", takes_any, run_GATHER_PARTS, work_GATHER_PARTS, NULL, 0 },
           { OP_RANK_BROADCAST, "nccl", takes_any, run_RANK_BROADCAST, NULL, NULL, 0 },
           { OP_ROWS_REDUCE, "nccl_joined", takes_rows, run_ROWS_REDUCE, work_ROWS_REDUCE, NULL, 0 },
};
extern const i32 gpu_kernels_nccl_count;
const i32        gpu_kernels_nccl_count = (i32)COUNT_OF(gpu_kernels_nccl);
