/* fuzz_safetensors.c - any bytes as a safetensors file: refused with a sentence, or its tensors
 * cover the data, can be converted, and have different names. The same as one of two files that hold ranges. */
#include "store/st_parts.h"
#include "store/store_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct arena memory;
    if (!memory.begin) memory = arena_open((i64)1 << 30);
    struct arena   perm = memory;
    struct st_file f    = { 0 };
    struct err     err  = { 0 };
    struct str     in   = { (const char *)data, (i64)bytes };
    if (st_parse(STR("fuzz"), in, &perm, &f, &err)) {
        ASSERT(err.text[0] != '\0');
        return 0;
    }
    const char *at = f.count ? f.tensors[0].bytes.data : NULL;
    for (i64 i = 0; i < f.count; i++) {
        const struct st_tensor *t = &f.tensors[i];
        ASSERT(t->bytes.data == at);
        at += t->bytes.len;
        ASSERT(st_find(&f, t->name) == t);
        st_to_f32(t, NEW(&perm, f32, shape_count(t->shape)));
    }
    ASSERT(!f.count || at == in.data + in.len);
    struct st_file  two[] = { f, { 0 } };
    struct st_parts joined;
    if (st_parts_join(STR("fuzz"), two, 2, &perm, &joined, &err)) {
        ASSERT(err.text[0] != '\0');
        return 0;
    }
    for (i64 i = 0; i < joined.count; i++) {
        const struct st_whole *t = &joined.tensors[i];
        ASSERT(st_parts_find(&joined, t->name) == t);
        st_whole_read(t, 0, t->bytes, NEW(&perm, u8, t->bytes));
    }
    return 0;
}
