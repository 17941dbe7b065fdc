/* run_op.c - one op, forward and backward, for the oracle tests:
 *
 *     run_op OP "ATTRIBUTES" in.safetensors out.safetensors
 *
 * in: F32 or I32 tensors in0, in1, … (the F32 ones are differentiated) and w, shaped like the
 * result. out: out0, and in0.grad, … of the sum of out0 * w. */
#include "backend/backend.h"
#include "compile/compile.h"
#include "ir/build.h"
#include "store/safetensors.h"
#include <stdio.h>
#include <stdlib.h>

struct job {
    i32            op;
    struct str     attributes;
    struct st_file in;
    i32            count;
};

static void must(enum status st, const struct err *err)
{
    if (!st) return;
    fprintf(stderr, "run_op: %s\n", err->text);
    exit(3);
}

static struct str input_name(struct arena *perm, i32 i) { return str_fmt(perm, "in%d", i); }

static enum status build(void *context, struct graph *g, i64 batch, enum graph_mode mode,
                         struct err *err)
{
    const struct job *j = context;
    struct attrs      at;
    i32               in[OP_IN_MAX];
    (void)batch;
    (void)mode;
    for (i32 i = 0; i < j->count; i++) {
        struct str              name  = input_name(g->perm, i);
        const struct st_tensor *t     = st_find(&j->in, name);
        bool                    whole = str_eq(t->dtype, STR("I32"));
        in[i]                         = graph_value(g, whole ? VALUE_INPUT : VALUE_PARAM, name,
                                                    type_of(whole ? DT_I32 : DT_F32, t->shape));
    }
    enum status st = attrs_parse(g->perm, j->attributes, op_info(j->op)->attrs, &at, err);
    if (st) return st;
    i32 out = graph_op(g, j->op, STR("op"), in, j->count, &at);
    i32 w   = graph_value(g, VALUE_INPUT, STR("w"), graph_type(g, out));
    i32 sum = build_binary(g, OP_MUL, STR("weighted"), out, w);
    if (sum >= 0) {
        graph_output(g, build_sum(g, STR("sum"), sum, 0, graph_type(g, sum).shape.rank),
                     STR("loss"));
        graph_output(g, out, STR("out0"));
    }
    return graph_status(g, err);
}

static void put(struct backend *b, const struct program_set *set, struct str name, const void *data)
{
    const struct persistent *t = program_set_find(set, name);
    if (t) b->table->put(b, t->offset, data, type_bytes(t->type));
}

static i64 collect(struct backend *b, const struct program_set *set, struct st_tensor *list,
                   struct arena *perm)
{
    i64 count = 0;
    for (i32 i = 0; i < set->persistent_count; i++) {
        const struct persistent *t = &set->persistents[i];
        if (t->kind != VALUE_GRAD && !str_eq(t->name, STR("out0"))) continue;
        i64   bytes = type_bytes(t->type);
        char *copy  = NEW(perm, char, bytes);
        b->table->get(b, t->offset, copy, bytes);
        list[count++] = (struct st_tensor){ t->name, STR("F32"), t->type.shape, { copy, bytes } };
    }
    return count;
}

int main(int argc, char **argv)
{
    struct arena          perm = arena_open(1ll << 34), scratch = arena_open(1ll << 34);
    struct err            err    = { 0 };
    struct job            job    = { 0 };
    struct compile_config config = { .batch = 1 };
    struct target         target;
    struct backend       *b;
    struct program_set   *set;
    if (argc != 5 || !op_find(str_of(argv[1]), &job.op)) return 2;
    job.attributes = str_of(argv[2]);
    must(st_open(os_real(), str_of(argv[3]), &perm, &job.in, &err), &err);
    while (st_find(&job.in, input_name(&perm, job.count))) job.count++;
    must(backend_cpu_open(&perm, 2, BACKEND_FAST, &b, &err), &err);
    b->table->describe(b, &target);
    must(compile(&perm, &target, &config, build, &job, &set, scratch, &err), &err);
    must(b->table->alloc(b, set->arena_bytes, &err), &err);
    must(b->table->prepare(b, set->programs[PROGRAM_TRAIN], &perm, &err), &err);
    for (i64 i = 0; i < job.in.count; i++)
        put(b, set, job.in.tensors[i].name, job.in.tensors[i].bytes.data);
    put(b, set, STR("loss_seed"), &(f32){ 1 });
    b->table->run(b, set->programs[PROGRAM_TRAIN]);
    struct st_tensor *list  = NEW(&perm, struct st_tensor, set->persistent_count);
    i64               count = collect(b, set, list, &perm);
    must(st_save(os_real(), str_of(argv[4]), list, count, scratch, &err), &err);
    return 0;
}
