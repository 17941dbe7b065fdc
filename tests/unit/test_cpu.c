/* test_cpu.c - the cpu backend: programs laid out by hand, run, timed and measured. */
#include "backend/backend.h"
#include "backend/cpu/flush.h"
#include "backend/cpu/kernel.h"
#include "harness.h"
#include "support/level.h"

enum { AT_X = 0, AT_W = 64, AT_Y = 128, AT_Z = 192, ARENA_BYTES = 4096 };

/* z = relu(x . w), x [2,2], w [2,1], every value on its own line of the arena. */
static struct program *program_new(struct arena *perm)
{
    struct program *p = NEW(perm, struct program, 1);
    struct graph   *g = graph_new(perm, STR("test"));
    i32             x = graph_value(g, VALUE_INPUT, STR("x"), type_of(DT_F32, shape_2(2, 2)));
    i32             w = graph_value(g, VALUE_PARAM, STR("w"), type_of(DT_F32, shape_2(2, 1)));
    i32             y = graph_op(g, OP_MATMUL, STR("mm"), (i32[]){ x, w }, 2, NULL);
    i32             z = graph_op(g, OP_RELU, STR("act"), (i32[]){ y }, 1, NULL);
    CHECK_EQ(graph_status(g, NULL), STATUS_OK);
    p->graph       = g;
    p->offset      = NEW(perm, i64, g->value_count);
    p->offset[x]   = AT_X;
    p->offset[w]   = AT_W;
    p->offset[y]   = AT_Y;
    p->offset[z]   = AT_Z;
    p->instr_count = 2;
    p->instrs      = NEW(perm, struct instr, 2);
    for (i32 i = 0; i < 2; i++) p->instrs[i] = (struct instr){ .node = i };
    return p;
}

/* Workspace after the values, as much as the backend asks for; returns the size of the arena. */
static i64 give_workspace(struct backend *b, struct program *p)
{
    struct target t;
    i64           at = AT_Z + 64;
    b->table->describe(b, &t);
    for (i32 i = 0; i < p->instr_count; i++) {
        p->instrs[i].work_offset = at;
        p->instrs[i].work_bytes  = t.work_bytes(&t, p->graph, &p->graph->nodes[i]);
        at += (p->instrs[i].work_bytes + 63) / 64 * 64;
    }
    return at;
}

static struct backend *backend_new(struct arena *perm, enum backend_choice choice)
{
    struct backend *b;
    CHECK_EQ(backend_cpu_open(perm, 2, choice, &b, NULL), STATUS_OK);
    return b;
}

static void check_answers(struct arena *perm, enum backend_choice choice)
{
    struct backend *b = backend_new(perm, choice);
    struct program *p = program_new(perm);
    f32             z[2];
    f64             seconds[2] = { -1, -1 };
    CHECK_EQ(b->table->alloc(b, give_workspace(b, p), NULL), STATUS_OK);
    CHECK_EQ(b->table->prepare(b, p, perm, NULL), STATUS_OK);
    b->table->put(b, AT_X, (f32[]){ 1, 2, 3, -4 }, 16);
    b->table->put(b, AT_W, (f32[]){ 10, 20 }, 8);
    i64 calls = arena_system_calls();
    u8 *begin = perm->begin;
    b->table->wait(b, b->table->run(b, p));
    CHECK_EQ(arena_system_calls(), calls);
    CHECK_EQ(perm->begin, begin);
    b->table->wait(b, b->table->get(b, AT_Z, z, 8));
    CHECK_EQ(z[0], 50);
    CHECK_EQ(z[1], 0);
    b->table->time(b, p, seconds);
    CHECK(seconds[0] >= 0 && seconds[0] < 1);
    CHECK(seconds[1] >= 0 && seconds[1] < 1);
    b->table->close(b);
}

TEST(a_program_gives_its_answer) { check_answers(perm, BACKEND_FAST); }

TEST(the_reference_gives_the_same_answer) { check_answers(perm, BACKEND_REFERENCE); }

/* On every thread (a megabyte is many blocks), and only while a program runs. */
TEST(numbers_too_small_for_a_mantissa_are_zero_while_a_program_runs)
{
    enum { COUNT = 1 << 18 };
    struct backend *b = backend_new(perm, BACKEND_FAST);
    struct program *p = NEW(perm, struct program, 1);
    struct instr    i = { 0 };
    p->graph          = graph_new(perm, STR("tiny"));
    i32 x = graph_value(p->graph, VALUE_INPUT, STR("x"), type_of(DT_F32, shape_1(COUNT)));
    graph_op(p->graph, OP_ADD, STR("add"), (i32[]){ x, x }, 2, NULL);
    p->instrs         = &i;
    p->instr_count    = 1;
    p->offset         = (i64[]){ 0, COUNT * 4 };
    f32         *v    = NEW(perm, f32, COUNT);
    volatile f32 tiny = 1e-39f;
    for (i64 k = 0; k < COUNT; k++) v[k] = tiny;
    CHECK_EQ(b->table->alloc(b, COUNT * 8, NULL), STATUS_OK);
    CHECK_EQ(b->table->prepare(b, p, perm, NULL), STATUS_OK);
    b->table->put(b, 0, v, COUNT * 4);
    b->table->run(b, p);
    b->table->get(b, COUNT * 4, v, COUNT * 4);
    if (FLUSH_BITS)
        for (i64 k = 0; k < COUNT; k++) CHECK_EQ(v[k], 0);
    CHECK(tiny + tiny > 0); /* we compute as before */
    b->table->close(b);
}

TEST(the_machine_is_described)
{
    struct backend *b = backend_new(perm, BACKEND_FAST);
    struct target   t;
    b->table->describe(b, &t);
    CHECK(t.name.len > 0);
    CHECK(t.memory_bytes > 1 << 20);
    CHECK_EQ(t.threads, 2);
    CHECK_EQ(t.align_bytes, 64);
    b->table->close(b);
}

TEST(the_reference_alone_is_used_when_asked_for)
{
    struct backend *b = backend_new(perm, BACKEND_REFERENCE);
    struct program *p = program_new(perm);
    struct target   t;
    b->table->describe(b, &t);
    for (i32 i = 0; i < p->instr_count; i++) {
        CHECK_STR(t.kernel_name(&t, p->graph, &p->graph->nodes[i]), "ref");
        CHECK_EQ(t.work_bytes(&t, p->graph, &p->graph->nodes[i]), 0);
    }
    b->table->close(b);
}

TEST(used_bytes_is_the_end_of_what_was_written)
{
    struct backend *b     = backend_new(perm, BACKEND_FAST);
    i64             bytes = 9 << 20; /* more than one block of the fill, and a part of one */
    CHECK_EQ(b->table->alloc(b, bytes + 17, NULL), STATUS_OK);
    CHECK_EQ(b->table->used_bytes(b), 0);
    b->table->put(b, 1000, "x", 1);
    CHECK_EQ(b->table->used_bytes(b), 1001);
    b->table->put(b, 10, "xyz", 3);
    CHECK_EQ(b->table->used_bytes(b), 1001);
    b->table->put(b, bytes + 16, "x", 1);
    CHECK_EQ(b->table->used_bytes(b), bytes + 17);
    b->table->close(b);
}

TEST(memory_that_nobody_wrote_reads_as_nan)
{
    struct backend *b = backend_new(perm, BACKEND_FAST);
    f32             v;
    CHECK_EQ(b->table->alloc(b, ARENA_BYTES, NULL), STATUS_OK);
    b->table->get(b, 64, &v, sizeof v);
    CHECK(isnan(v));
    b->table->close(b);
}

TEST(an_arena_that_cannot_be_had_is_refused_with_its_size)
{
    struct backend *b   = backend_new(perm, BACKEND_FAST);
    struct err      err = { 0 };
    CHECK_EQ(b->table->alloc(b, (i64)1 << 60, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "1152921504606846976"));
    b->table->close(b);
}

static void busy(const struct call *c) { memset(c->work, 0, (size_t)c->work_bytes); }
static i64  hundred_bytes(const struct sig *s) { return s->in_count * 100; }

TEST(a_program_without_room_for_a_kernels_workspace_is_refused)
{
    struct backend *b   = backend_new(perm, BACKEND_FAST);
    struct program *p   = program_new(perm);
    struct op_info  row = *op_info(OP_RELU);
    struct err      err = { 0 };
    row.name            = "busy";
    row.run             = busy;
    row.work            = hundred_bytes;
    CHECK_EQ(op_register(&row, &p->graph->nodes[1].op, &err), STATUS_OK);
    CHECK_EQ(b->table->alloc(b, give_workspace(b, p), NULL), STATUS_OK);
    CHECK_EQ(p->instrs[1].work_bytes, 100);
    p->instrs[1].work_bytes = 99;
    CHECK_EQ(b->table->prepare(b, p, perm, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "busy needs 100 bytes"));
    p->instrs[1].work_bytes = 100;
    CHECK_EQ(b->table->prepare(b, p, perm, &err), STATUS_OK);
    b->table->close(b);
}

TEST(the_environment_caps_the_instruction_set_and_never_raises_it)
{
    for (i32 i = 0; i < ISA_LEVELS; i++) {
        level_set((enum isa)i);
        CHECK_EQ(kernel_isa(), MIN(processor_isa(), (enum isa)i));
    }
    setenv("FRUGAL_VECTORS", "", 1); /* as if it were not set */
    CHECK_EQ(kernel_isa(), processor_isa());
    level_restore();
}

TEST(an_unknown_level_opens_no_backend)
{
    struct backend *b;
    struct err      err = { 0 };
    setenv("FRUGAL_VECTORS", "sse", 1);
    CHECK_EQ(backend_cpu_open(perm, 1, BACKEND_FAST, &b, &err), STATUS_USAGE);
    CHECK_STR(err.text,
              "FRUGAL_VECTORS is sse; expected one of none, avx2, avx512, avx512bf16, amx");
    level_restore();
}

TEST(the_environment_leaves_only_the_reference)
{
    const struct kernel *k;
    struct tensor        t    = { NULL, type_of(DT_F32, shape_2(64, 64)), 4096 };
    struct tensor        in[] = { t, t };
    struct attrs         at   = { 0 };
    struct call          c    = { OP_MATMUL, &at, in, 2, &t, NULL, 0, NULL, NULL };
    setenv("FRUGAL_KERNELS", "ref", 1);
    k = kernel_choose(&c, false);
    unsetenv("FRUGAL_KERNELS");
    CHECK_STR(k->name, "ref");
}
