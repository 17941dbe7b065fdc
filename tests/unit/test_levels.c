/* test_levels.c - which kernel each op gets at each level of vector instructions, on the cases that a
 * fixed seed draws: tests/golden/kernels_by_level.txt, a line for each op and type.
 *
 * The file is compared up to this processor's own level, reached without a cap, and each lower one,
 * reached by FRUGAL_VECTORS: so a cap gives what a processor of that level would have.
 * UPDATE_GOLDEN=1 build/test_levels_amx writes it anew, on a processor with avx512bf16, where the tiles
 * of AMX are in software. */
#include "base/os.h"
#include "harness.h"
#include "support/level.h"
#include "support/op_case.h"

enum { DRAWS = 24, NAMES_MAX = 8 };

static const char *const path = "tests/golden/kernels_by_level.txt";

/* Drawn the same for every level: only types, of which a third are those of a real model. */
static const struct kernel *chosen(const struct op_case *c, struct arena scratch)
{
    struct tensor *in  = NEW(&scratch, struct tensor, MAX(1, c->in_count));
    struct tensor *out = NEW(&scratch, struct tensor, OP_OUT_MAX);
    for (i32 i = 0; i < c->in_count; i++)
        in[i] = (struct tensor){ NULL, c->in[i], shape_count(c->in[i].shape) };
    for (i32 i = 0; i < op_info(c->op)->out_count; i++)
        out[i] = (struct tensor){ NULL, c->out[i], shape_count(c->out[i].shape) };
    struct call          call = { c->op, &c->at, in, c->in_count, out, NULL, 0, NULL, NULL };
    const struct kernel *k    = kernel_choose(&call, false);
    if (k->isa > kernel_isa())
        harness_fail(__FILE__, __LINE__, "%s of %s needs %s, the level is %s", k->name,
                     op_info(c->op)->name, isa_word(k->isa), isa_word(kernel_isa()));
    return k;
}

/* "winograd_avx2+direct_avx2": what the draws get, in the order in which they come up. */
static void add_names(struct textbuf *line, i32 op, enum dtype d, struct arena scratch)
{
    const char *names[NAMES_MAX];
    i32         count = 0;
    struct draw draw  = { .state = 7, .types_only = true };
    for (i32 i = 0; i < DRAWS; i++) {
        struct arena    here = scratch;
        struct op_case *c    = NEW(&here, struct op_case, 1);
        i32             k    = 0;
        draw.large           = i % 3 == 2;
        op_case_draw(c, op, d, &draw, &here);
        const char *name = chosen(c, here)->name;
        while (k < count && strcmp(names[k], name)) k++;
        if (k < count) continue;
        ASSERT(count < NAMES_MAX);
        names[count++] = name;
    }
    for (i32 i = 0; i < count; i++) textbuf_fmt(line, "%s%s", i ? "+" : "", names[i]);
}

/* "conv2d f32: none=winograd_any+direct_any avx2=...", up to the level `last`. */
static struct str line_of(i32 op, enum dtype d, enum isa last, struct arena *perm,
                          struct arena scratch)
{
    struct textbuf line = textbuf_new(perm);
    textbuf_fmt(&line, "%s %.*s:", op_info(op)->name, STR_ARG(dtype_name(d)));
    for (i32 level = 0; level <= (i32)last; level++) {
        if (level < (i32)processor_isa()) level_set((enum isa)level);
        else unsetenv("FRUGAL_VECTORS");
        textbuf_fmt(&line, " %s=", isa_word((enum isa)level));
        add_names(&line, op, d, scratch);
    }
    level_restore();
    return textbuf_str(&line);
}

/* The kept line as far as this machine can be compared. */
static struct str up_to(struct str line, enum isa last, struct arena *perm)
{
    if (last == ISA_AMX) return line;
    struct str next = str_fmt(perm, " %s=", isa_word((enum isa)(last + 1)));
    for (i64 i = 0; i + next.len <= line.len; i++)
        if (str_eq(str_sub(line, i, i + next.len), next)) return str_sub(line, 0, i);
    return line;
}

TEST(choices_follow_from_the_level_as_the_golden_file_says)
{
    enum isa       last = kernel_isa();
    struct str     kept = STR(""), line;
    struct err     err;
    struct textbuf now    = textbuf_new(perm);
    bool           update = getenv("UPDATE_GOLDEN") && last == ISA_AMX;
    if (!update) CHECK_EQ(os_read_all(os_real(), str_of(path), perm, &kept, &err), STATUS_OK);
    for (i32 op = 0; op < OP_COUNT; op++)
        for (enum dtype d = DT_F32; d <= DT_F16; d++) {
            struct arena here = scratch, room = arena_part(&here, 1 << 16);
            struct str   found = line_of(op, d, last, &room, here);
            if (update) textbuf_fmt(&now, "%.*s\n", STR_ARG(found));
            else CHECK(str_cut(&kept, '\n', &line));
            if (!update) CHECK_STR(found, up_to(line, last, &room));
        }
    CHECK(!kept.len);
    if (update)
        CHECK_EQ(os_publish(os_real(), str_of(path), textbuf_str(&now), *perm, &err), STATUS_OK);
}
