/* A file for llama.cpp, whose tensors are made one by one; tests/oracle/test_gguf.py reads it by its specification. */
#include "base/rng.h"
#include "harness.h"
#include "infer/gguf.h"
#include "support/folder.h"

enum { WIDTH = 32, ROWS = 5, ALIGN = 32, TENSORS = 4 };

static const struct {
    const char *name;
    i64         rank, dim[2];
    bool        transposed; /* there */
} tensors[TENSORS] = { { "transformer.wte.weight", 2, { ROWS, WIDTH }, false },
                       { "transformer.h.0.ln_1.weight", 1, { WIDTH, 0 }, false },
                       { "transformer.h.0.mlp.c_fc.weight", 2, { WIDTH, 3 * WIDTH + 1 }, true },
                       { "transformer.h.0.mlp.c_proj.weight", 2, { 3 * WIDTH + 1, WIDTH }, true } };

struct made {
    u64  seed;
    f32 *room;  /* for one tensor: the last one is gone when the next is asked for */
    i64  large; /* of this tensor a number is beyond f16; -1: of none */
    i64 *asked;
};

static i64 count_of(i64 t) { return tensors[t].dim[0] * MAX(tensors[t].dim[1], 1); }

static f32 value(const struct made *m, i64 t, i64 i)
{
    if (t == m->large && i == count_of(t) - 1) return 65520; /* the first that f16 rounds to inf */
    return (f32)(i64)(rng_mix(m->seed + (u64)(t * 100000 + i)) >> 40) / 4096 - 2048;
}

static struct str bytes_of(const void *context, i64 t)
{
    const struct made *m = context;
    m->asked[t]++;
    memset(m->room, 0xFF, (size_t)count_of(2) * sizeof(f32)); /* the largest */
    for (i64 i = 0; i < count_of(t); i++) m->room[i] = value(m, t, i);
    return (struct str){ (const char *)m->room, count_of(t) * (i64)sizeof(f32) };
}

static enum status save(struct str path, const struct made *m, enum gguf_type type, struct err *err)
{
    struct model_config config = {
        .width = WIDTH, .heads = 2, .depth = 1, .places = 8, .activation = STR("gelu")
    };
    struct gguf_model model = { &config, STR("gpt2"), STR(""), STR("test") };
    struct st_tensor  list[TENSORS];
    struct arena      memory = arena_open((i64)64 << 30);
    for (i64 t = 0; t < TENSORS; t++) {
        struct shape s = tensors[t].rank == 1 ? shape_1(tensors[t].dim[0])
                                              : shape_2(tensors[t].dim[0], tensors[t].dim[1]);
        list[t]        = (struct st_tensor){
                   str_of(tensors[t].name), STR("F32"), s, { NULL, count_of(t) * (i64)sizeof(f32) }
        };
    }
    struct st_made from = { list, TENSORS, bytes_of, m };
    enum status    st   = gguf_save(os_real(), path, &model, &from, type, &memory, err);
    arena_close(&memory);
    return st;
}

static struct made made_new(struct arena *perm, u64 seed, i64 large)
{
    return (struct made){ seed, NEW(perm, f32, count_of(2)), large, NEW(perm, i64, TENSORS) };
}

TEST(each_tensor_is_asked_for_once_and_written_before_the_next)
{
    struct made m    = made_new(perm, test_seed(), -1);
    struct str  path = str_cat(perm, folder_new(perm), STR("/x.gguf")), file;
    struct err  err  = { 0 };
    i64         size = 0;
    CHECK(!save(path, &m, GGUF_F32, &err));
    CHECK(!os_read_all(os_real(), path, perm, &file, &err));
    for (i64 t = 0; t < TENSORS; t++) {
        CHECK_EQ(m.asked[t], 1);
        size += (count_of(t) * 4 + ALIGN - 1) / ALIGN * ALIGN;
    }
    CHECK(file.len > size);
    CHECK_EQ((file.len - size) % ALIGN, 0);
    const char *at = file.data + file.len - size;
    for (i64 t = 0; t < TENSORS; t++) {
        i64 wide = tensors[t].dim[1], high = tensors[t].dim[0], wrong = 0;
        for (i64 i = 0; i < count_of(t); i++) {
            f32 got, want = value(&m, t, tensors[t].transposed ? i % high * wide + i / high : i);
            memcpy(&got, at + i * 4, sizeof got);
            wrong += got != want;
        }
        CHECK_EQ(wrong, 0);
        at += (count_of(t) * 4 + ALIGN - 1) / ALIGN * ALIGN;
    }
}

TEST(numbers_beyond_f16_leave_the_old_file)
{
    u64         seed   = test_seed();
    struct str  folder = folder_new(perm), file, *names;
    struct str  path   = folder_put(perm, folder, "x.gguf", STR("old"));
    struct err  err    = { 0 };
    struct made m      = made_new(perm, seed, 3);
    i64         count;
    CHECK_EQ(save(path, &m, GGUF_F16, &err), STATUS_USAGE);
    CHECK_STR(err.text, "blk.0.ffn_down.weight has numbers beyond those of f16: --dtype f32");
    CHECK(!os_read_all(os_real(), path, perm, &file, &err));
    CHECK_STR(file, "old");
    CHECK(!os_real()->list(os_real(), folder, perm, &names, &count, &err));
    CHECK_EQ(count, 1);
    CHECK(!save(path, &m, GGUF_F32, &err));
    m = made_new(perm, seed, -1);
    CHECK(!save(path, &m, GGUF_F16, &err));
    CHECK(!os_read_all(os_real(), path, perm, &file, &err));
    CHECK(file.len > 1000);
}
