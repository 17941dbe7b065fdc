/* test_st_parts.c - tensors of which several files hold ranges. */
#include "harness.h"
#include "store/st_parts.h"
#include "support/folder.h"
#include <string.h>

static struct err err;

#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        err = (struct err){ 0 };                                                                   \
        if (call) harness_fail(__FILE__, __LINE__, "%s: %s", #call, err.text);                     \
    } while (0)

enum { ROWS = 5, COLUMNS = 3, NUMBERS = ROWS * COLUMNS };

/* A tensor's numbers [from, from + count) as one of its ranges. */
static struct st_tensor range_of(struct arena *perm, const char *name, const f32 *whole, i64 from,
                                 i64 count)
{
    struct shape shape = shape_2(ROWS, COLUMNS);
    return (struct st_tensor){ st_range_name(perm, str_of(name), shape, from),
                               STR("F32"),
                               shape_1(count),
                               { (const char *)(whole + from), count * (i64)sizeof *whole } };
}

static struct st_tensor *tensors(struct arena *perm, struct st_tensor a, struct st_tensor b)
{
    struct st_tensor *t = NEW(perm, struct st_tensor, 2);
    t[0]                = a;
    t[1]                = b;
    return t;
}

/* Two files: a and half of b; the rest of b and c, which is whole. */
struct pair {
    f32            a[NUMBERS], b[NUMBERS], c[4];
    struct st_file files[2];
};

static struct pair *pair_new(struct arena *perm, i64 cut, i64 again)
{
    struct pair *p = NEW(perm, struct pair, 1);
    for (i32 i = 0; i < NUMBERS; i++) p->a[i] = (f32)i, p->b[i] = (f32)(100 + i);
    for (i32 i = 0; i < 4; i++) p->c[i] = (f32)(1000 + i);
    struct st_tensor c = { STR("c"), STR("F32"), shape_1(4), { (const char *)p->c, sizeof p->c } };
    p->files[0] = (struct st_file){ .tensors = tensors(perm, range_of(perm, "a", p->a, 0, NUMBERS),
                                                       range_of(perm, "b", p->b, 0, cut)),
                                    .count   = 2 };
    p->files[1] = (struct st_file){
        .tensors = tensors(perm, range_of(perm, "b", p->b, again, NUMBERS - again), c), .count = 2
    };
    return p;
}

TEST(ranges_of_several_files_become_tensors)
{
    for (i64 cut = 0; cut <= NUMBERS; cut++) {
        struct pair    *p = pair_new(perm, cut, cut);
        struct st_parts all;
        CHECK_OK(st_parts_join(STR("x"), p->files, 2, perm, &all, &err));
        CHECK_EQ(all.count, 3);
        CHECK(!st_parts_find(&all, STR("d")));
        const struct st_whole *b = st_parts_find(&all, STR("b"));
        CHECK(b && shape_eq(b->shape, shape_2(ROWS, COLUMNS)));
        CHECK_EQ(b->bytes, (i64)sizeof p->b);
        for (i64 from = 0; from < NUMBERS; from++)
            for (i64 count = 0; from + count <= NUMBERS; count++) {
                f32 got[NUMBERS + 1] = { 0 };
                st_whole_read(b, from * 4, count * 4, got);
                CHECK(!memcmp(got, p->b + from, (size_t)count * 4));
                CHECK_EQ(got[count], 0.0f);
            }
        struct st_file flat = st_parts_flat(&all, perm);
        CHECK(!memcmp(st_find(&flat, STR("a"))->bytes.data, p->a, sizeof p->a));
        CHECK(!memcmp(st_find(&flat, STR("b"))->bytes.data, p->b, sizeof p->b));
        CHECK(!memcmp(st_find(&flat, STR("c"))->bytes.data, p->c, sizeof p->c));
    }
}

TEST(ranges_that_do_not_make_a_tensor_are_refused)
{
    struct st_parts all;
    struct pair    *p = pair_new(perm, 4, 5);
    CHECK_EQ(st_parts_join(STR("x"), p->files, 2, perm, &all, &err), STATUS_USAGE);
    CHECK_STR(err.text, "x: elements of tensor b are missing before 5");
    p = pair_new(perm, 5, 4);
    CHECK_EQ(st_parts_join(STR("x"), p->files, 2, perm, &all, &err), STATUS_USAGE);
    CHECK_STR(err.text, "x: elements of tensor b are there twice before 4");
    p                 = pair_new(perm, 4, 4);
    p->files[1].count = 0;
    CHECK_EQ(st_parts_join(STR("x"), p->files, 2, perm, &all, &err), STATUS_USAGE);
    CHECK_STR(err.text, "x: tensor b has 16 bytes in all ranges, not 60");
    p                            = pair_new(perm, 4, 4);
    p->files[1].tensors[0].dtype = STR("I32");
    CHECK_EQ(st_parts_join(STR("x"), p->files, 2, perm, &all, &err), STATUS_USAGE);
    CHECK_STR(err.text, "x: ranges of tensor b differ in shape or type");
}

/* A file that says nothing of parts is one, whatever its tensors are called; names that are no ranges stay. */
TEST(names_are_ranges_in_sets_only)
{
    static const char *const plain[] = { "b#1", "b[2,3]", "b[2,x]#0", "[3]#", "b[2]#9", "b[2]#-1" };
    struct pair             *p       = pair_new(perm, 4, 4);
    struct st_parts          all;
    CHECK_OK(st_parts_join(STR("x"), p->files, 1, perm, &all, &err));
    CHECK(st_parts_find(&all, STR("b[5,3]#0")) != NULL);
    for (i64 i = 0; i < COUNT_OF(plain); i++) {
        p                           = pair_new(perm, NUMBERS, NUMBERS);
        p->files[1].tensors[0].name = str_of(plain[i]);
        CHECK_OK(st_parts_join(STR("x"), p->files, 2, perm, &all, &err));
        CHECK(st_parts_find(&all, str_of(plain[i])) != NULL);
    }
    CHECK(st_is_part(STR("weights-00002-of-00004.safetensors")));
    CHECK(!st_is_part(STR("weights.safetensors")));
    CHECK(!st_is_part(STR("out-of-4.safetensors")));
    CHECK_STR(st_part_name(perm, STR("w"), 1, 4), "w");
    CHECK_STR(st_part_name(perm, STR("w"), 2, 4), "w-00002-of-00004");
}

/* As a save lays it out, with the number of files in its metadata. */
static void put_file(struct arena *perm, struct str path, struct st_file *f, i64 parts)
{
    i64               bytes = st_lay_out(f->tensors, f->count, parts, NULL, *perm);
    struct st_tensor *from  = NEW(perm, struct st_tensor, f->count);
    u8               *to    = NEW(perm, u8, bytes);
    memcpy(from, f->tensors, (size_t)f->count * sizeof *from);
    st_lay_out(f->tensors, f->count, parts, to, *perm);
    for (i64 i = 0; i < f->count; i++)
        memcpy((u8 *)(uintptr_t)f->tensors[i].bytes.data, from[i].bytes.data,
               (size_t)from[i].bytes.len);
    CHECK(!os_publish(os_real(), path, (struct str){ (const char *)to, bytes }, *perm, NULL));
}

TEST(a_file_brings_those_beside_it)
{
    struct str      folder = folder_new(perm);
    struct str      first  = str_cat(perm, folder, STR("/w.safetensors"));
    struct str      second = str_cat(perm, folder, STR("/w-00002-of-00002.safetensors"));
    struct pair    *p      = pair_new(perm, 7, 7);
    struct st_parts all;
    put_file(perm, first, &p->files[0], 2);
    CHECK(st_parts_open(os_real(), first, perm, &all, &err));
    CHECK(strstr(err.text, "w-00002-of-00002.safetensors"));
    put_file(perm, second, &p->files[1], 1);
    CHECK_OK(st_parts_open(os_real(), first, perm, &all, &err));
    CHECK_EQ(all.count, 3);
    CHECK_EQ(all.file_count, 2);
    f32 got[NUMBERS];
    st_whole_read(st_parts_find(&all, STR("b")), 0, sizeof got, got);
    CHECK(!memcmp(got, p->b, sizeof got));
    st_parts_close(os_real(), &all);
}
