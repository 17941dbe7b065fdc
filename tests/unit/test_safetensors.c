/* test_safetensors.c - what we write we read; each broken rule of the format is named; and halves,
 * brain floats and doubles become f32 as they should. */
#include "base/rng.h"
#include "harness.h"
#include "store/safetensors.h"
#include "store/store_int.h"
#include "support/folder.h"
#include "support/sim_os.h"

static struct str file_of(struct arena *perm, struct str header, i64 data_bytes)
{
    char *p = NEW(perm, char, 8 + header.len + data_bytes);
    memcpy(p, &header.len, 8);
    memcpy(p + 8, header.data, (size_t)header.len);
    for (i64 i = 0; i < data_bytes; i++) p[8 + header.len + i] = (char)i;
    return (struct str){ p, 8 + header.len + data_bytes };
}

static const char *refused(struct arena *perm, const char *header, i64 data_bytes)
{
    static struct err err;
    struct st_file    f = { 0 };
    CHECK_EQ(st_parse(STR("w"), file_of(perm, str_of(header), data_bytes), perm, &f, &err),
             STATUS_USAGE);
    return err.text;
}

static struct st_tensor tensor(const char *name, const char *dtype, struct shape shape,
                               const void *p, i64 bytes)
{
    return (struct st_tensor){ str_of(name), str_of(dtype), shape, { p, bytes } };
}

#define ONE "\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":"

TEST(st_reads_what_it_wrote)
{
    f32              a[6] = { 1, 2, 3, 4, 5, 6 }, b = -0.5f, got[6];
    u8               c[3] = { 7, 8, 9 };
    i64              d    = INT64_MIN;
    struct st_tensor t[]  = {
         tensor("u8", "U8", shape_1(3), c, 3),
         tensor("b.weight", "F32", shape_of(0, NULL), &b, 4),
         tensor("a \"quoted\"\n\xc3\xa9", "F32", shape_2(2, 3), a, 24),
         tensor("step", "I64", shape_1(1), &d, 8),
         tensor("none", "F32", shape_2(0, 5), NULL, 0),
    };
    struct str     path = str_cat(perm, folder_new(perm), STR("/w.safetensors"));
    struct st_file f;
    struct err     err;
    CHECK(!st_save(os_real(), path, t, COUNT_OF(t), scratch, &err));
    CHECK(!st_open(os_real(), path, perm, &f, &err));
    CHECK_EQ(f.count, 5);
    CHECK_STR(f.tensors[0].name, "step");
    CHECK_STR(f.tensors[4].name, "u8");
    for (i64 i = 0; i < COUNT_OF(t); i++) {
        const struct st_tensor *read = st_find(&f, t[i].name);
        CHECK(read != NULL);
        CHECK_STR(read->dtype, t[i].dtype);
        CHECK(shape_eq(read->shape, t[i].shape));
        CHECK(str_eq(read->bytes, t[i].bytes));
    }
    CHECK_EQ((uintptr_t)st_find(&f, STR("step"))->bytes.data % 8, 0);
    CHECK(st_find(&f, STR("absent")) == NULL);
    CHECK(st_to_f32(st_find(&f, t[2].name), got));
    CHECK_EQ(memcmp(got, a, sizeof a), 0);
    CHECK(!st_to_f32(st_find(&f, STR("u8")), got));
    st_close(os_real(), &f);
}

TEST(st_bytes_depend_on_the_tensors_only)
{
    f32              v[2]    = { 1, 2 };
    struct st_tensor t[]     = { tensor("a", "F32", shape_1(1), v, 4),
                                 tensor("b", "F32", shape_1(1), v + 1, 4) };
    struct st_tensor other[] = { t[1], t[0] };
    struct str       dir     = folder_new(perm);
    struct str       one = str_cat(perm, dir, STR("/1")), two = str_cat(perm, dir, STR("/2"));
    struct str       bytes_1, bytes_2;
    CHECK(!st_save(os_real(), one, t, 2, scratch, NULL));
    CHECK(!st_save(os_real(), two, other, 2, scratch, NULL));
    CHECK(!os_read_all(os_real(), one, perm, &bytes_1, NULL));
    CHECK(!os_read_all(os_real(), two, perm, &bytes_2, NULL));
    CHECK_STR(bytes_1, bytes_2);
    CHECK_STR(str_sub(bytes_1, 8, bytes_1.len - 8),
              "{\"__metadata__\":{\"format\":\"pt\"},"
              "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
              "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}      ");
}

TEST(st_says_why_it_cannot_save)
{
    struct err err;
    CHECK_EQ(st_save(os_real(), STR("no/such/folder/w"), NULL, 0, scratch, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "no/such/folder/w"));
}

/* The power goes at each call in turn, and the disk forgets in each of its ways: there is the old
 * file, or the whole new one; the new one for certain once st_save has said so. */
TEST(st_save_survives_a_power_cut_at_every_call)
{
    f32              v[2] = { 1, 2 };
    struct st_tensor t[]  = { tensor("a", "F32", shape_1(1), v, 4),
                              tensor("b", "F32", shape_1(1), v + 1, 4) };
    struct str       path = STR("w");
    for (i32 survive = 0; survive < SIM_SURVIVE_COUNT; survive++) {
        i64 kill = 0;
        for (bool done = false; !done;) {
            struct sim_os *sim = sim_os_new(perm);
            struct st_file f;
            sim_os_put(sim, path, STR("the old one"));
            sim->kill_at = ++kill;
            done         = !st_save(&sim->os, path, t, 2, scratch, NULL);
            sim_os_crash(sim, (enum sim_survive)survive);
            if (str_eq(sim_os_look(sim, path), STR("the old one"))) {
                CHECK(!done);
                continue;
            }
            CHECK(!st_open(&sim->os, path, perm, &f, NULL));
            CHECK_EQ(f.count, 2);
            CHECK(str_eq(st_find(&f, STR("b"))->bytes, t[1].bytes));
        }
        CHECK(kill > 7);
    }
}

/* A call that fails is told, and leaves neither half a file nor its temporary name. */
TEST(st_save_tells_of_every_failure)
{
    struct st_tensor t    = tensor("a", "F32", shape_1(1), (f32[]){ 1 }, 4);
    struct str       path = STR("w");
    for (i64 fail = 2;; fail++) { /* the first call only looks for what others left */
        struct sim_os *sim = sim_os_new(perm);
        struct err     err = { 0 };
        sim_os_put(sim, path, STR("the old one"));
        sim->fail_at = fail;
        if (!st_save(&sim->os, path, &t, 1, scratch, &err)) {
            CHECK_EQ(fail, 9); /* create, write twice, sync, close, rename, sync the folder */
            break;
        }
        CHECK(err.text[0] != '\0');
        CHECK(!sim_os_look(sim, os_part_name(perm, STR("w"))).data);
        if (fail < 7) CHECK_STR(sim_os_look(sim, path), "the old one");
    }
}

TEST(st_reads_any_order_and_padding)
{
    struct st_file f     = { 0 };
    struct str     bytes = file_of(
            perm, STR("{\"b\":{" ONE "[4,8]}, \"a\":{" ONE "[0,4]}, \"__metadata__\":{}}   "), 8);
    CHECK(!st_parse(STR("w"), bytes, perm, &f, NULL));
    CHECK_EQ(f.count, 2);
    CHECK_STR(f.tensors[0].name, "a");
    CHECK_STR(f.tensors[1].name, "b");
    f = (struct st_file){ 0 };
    CHECK(!st_parse(STR("w"), file_of(perm, STR("{}"), 0), perm, &f, NULL));
    CHECK_EQ(f.count, 0);
}

TEST(st_refuses_each_broken_rule)
{
    CHECK(strstr(refused(perm, "{\"a\":{" ONE "[0,4]},\"b\":{" ONE "[8,12]}}", 12),
                 "w: no tensor holds the bytes from 4 on, of 12"));
    CHECK(
        strstr(refused(perm, "{\"a\":{" ONE "[4,8]}}", 8), "no tensor holds the bytes from 0 on"));
    CHECK(strstr(refused(perm, "{\"a\":{" ONE "[0,4]}}", 5), "the bytes from 4 on, of 5"));
    CHECK(strstr(refused(perm, "{}", 1), "the bytes from 0 on, of 1"));
    CHECK(strstr(refused(perm, "{\"a\":{" ONE "[0,4]},\"b\":{" ONE "[2,6]}}", 6),
                 "w: tensor b overlaps tensor a"));
    CHECK(strstr(refused(perm, "{\"a\":{" ONE "[0,4]},\"b\":{" ONE "[0,4]}}", 4), "overlaps"));
    CHECK(strstr(refused(perm, "{\"a\":{" ONE "[0,8]}}", 8),
                 "tensor a has 8 bytes, but its shape and type need 4"));
    CHECK(strstr(refused(perm, "{\"a\":{" ONE "[0,4]}}", 3), "is at bytes 0 to 4 of 3"));
    CHECK(strstr(refused(perm, "{\"a\":{" ONE "[4,0]}}", 4), "is at bytes 4 to 0 of 4"));
    CHECK(strstr(refused(perm, "{\"a\":{" ONE "[0,4]},\"a\":{" ONE "[0,4]}}", 4), "given before"));
    CHECK(strstr(refused(perm, "{\"a\":{" ONE "[0,4],\"more\":1}}", 4), "is not described by"));
    CHECK(
        strstr(refused(perm, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4), "not described by"));
    CHECK(strstr(refused(perm, "{\"a\":{" ONE "[0]}}", 4), "no \"data_offsets\" of two"));
    CHECK(strstr(refused(perm, "{\"a\":{" ONE "[-1,3]}}", 4), "no \"data_offsets\" of two"));
    CHECK(strstr(refused(perm, "{\"a\":{" ONE "[0,4e0]}}", 4), "no \"data_offsets\" of two"));
    CHECK(strstr(refused(perm, "{\"a\":[]}", 0), "is not described by"));
    CHECK(strstr(refused(perm, "{\"__metadata__\":{\"k\":1}}", 0), "not a map of strings"));
    CHECK(strstr(refused(perm, "{\"__metadata__\":[]}", 0), "not a map of strings"));
}

#define SHAPED(dtype, shape)                                                                       \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[0,4]}}"

TEST(st_refuses_shapes_and_headers_it_cannot_read)
{
    struct st_file f = { 0 };
    struct err     err;
    CHECK(strstr(refused(perm, SHAPED("F4", "[1]"), 4), "has the unknown type \"F4\""));
    CHECK(strstr(refused(perm, SHAPED("F32", "7"), 4), "has no list \"shape\""));
    CHECK(strstr(refused(perm, SHAPED("F32", "[1.0]"), 4), "not a whole number"));
    CHECK(strstr(refused(perm, SHAPED("F32", "[1,1,1,1,1,1,1]"), 4),
                 "has 7 dimensions; at most 6 are supported"));
    CHECK(
        strstr(refused(perm, SHAPED("F32", "[4294967296,4294967296]"), 4), "larger than any file"));
    CHECK(strstr(refused(perm, SHAPED("F32", "[4294967296,4294967296,0]"), 4), "need 0"));
    CHECK(strstr(refused(perm, " {}", 0), "not one JSON map"));
    CHECK(strstr(refused(perm, "{}\n", 0), "not one JSON map"));
    CHECK(strstr(refused(perm, "{\"a\"}", 0), "the header is not JSON: line 1, byte 4"));

    CHECK(st_parse(STR("w"), STR("\1\0\0"), perm, &f, &err));
    CHECK(strstr(err.text, "w: 3 bytes are too few for a safetensors file"));
    CHECK(st_parse(STR("w"), STR("\xff\0\0\0\0\0\0\0{}"), perm, &f, &err));
    CHECK(strstr(err.text, "announces a header of 255 bytes, of which 2 follow"));
    CHECK(st_parse(STR("w"), STR("\xff\xff\xff\xff\xff\xff\xff\xff{}"), perm, &f, &err));
    CHECK(strstr(err.text, "a header of 18446744073709551615 bytes"));
}

static f32 one_f32(const char *dtype, const void *bits, i64 bytes)
{
    f32 got = 0;
    CHECK(st_to_f32(&(struct st_tensor){ .dtype = str_of(dtype),
                                         .shape = shape_1(1),
                                         .bytes = { bits, bytes } },
                    &got));
    return got;
}

/* Every half there is, against its definition: (-1)^s 2^(e-15) 1.f, or 2^-14 0.f. */
TEST(st_halves_become_f32_exactly)
{
    for (u32 h = 0; h < 65536; h++) {
        u16 bits     = (u16)h;
        f32 got      = one_f32("F16", &bits, 2);
        i32 exponent = (i32)(h >> 10 & 31);
        f64 fraction = (f64)(h & 1023) / 1024, sign = h >> 15 ? -1 : 1;
        if (exponent == 31 && fraction != 0) {
            CHECK(isnan(got));
            continue;
        }
        f64 want = exponent == 31  ? sign * (f64)INFINITY
                   : exponent == 0 ? sign * ldexp(fraction, -14)
                                   : sign * ldexp(1 + fraction, exponent - 15);
        CHECK_EQ((f64)got, want);
        CHECK_EQ(!!signbit(got), h >> 15);
    }
}

TEST(st_brain_floats_and_doubles_become_f32)
{
    for (u32 h = 0; h < 65536; h++) {
        u16 bits = (u16)h;
        u32 back;
        f32 got = one_f32("BF16", &bits, 2);
        memcpy(&back, &got, 4);
        CHECK_EQ(back, h << 16);
    }
    static const struct {
        f64 from;
        f32 to;
    } cases[] = { { 0.1, 0.1f },
                  { -0.0, -0.0f },
                  { 1e300, INFINITY },
                  { -INFINITY, -INFINITY },
                  { 0x1p-149, 0x1p-149f },
                  { 0x1p-150, 0 },
                  { 0x1.8p-150, 0x1p-149f },
                  { 1 + 0x1p-24, 1 },
                  { 1 + 0x1.8p-23, 1 + 0x1p-22f } };
    for (i64 i = 0; i < COUNT_OF(cases); i++) {
        f32 got = one_f32("F64", &cases[i].from, 8);
        CHECK_EQ(got, cases[i].to);
        CHECK_EQ(!!signbit(got), !!signbit(cases[i].to));
    }
    f64 nan = NAN;
    CHECK(isnan(one_f32("F64", &nan, 8)));
}
