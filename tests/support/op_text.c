/* op_text.c - a case as a line: its op, the types of its inputs, its attributes. */
#include "support/op_case.h"

struct str op_case_text(const struct op_case *c, struct arena *perm)
{
    struct str          types = STR("");
    struct textbuf      b;
    const struct attrs *at = &c->at;
    for (i32 i = 0; i < c->in_count; i++) {
        struct str t = type_text(perm, c->in[i]);
        types        = str_fmt(perm, "%.*s %.*s", STR_ARG(types), STR_ARG(t));
    }
    b = textbuf_new(perm);
    textbuf_fmt(&b, "%s%.*s", op_info(c->op)->name, STR_ARG(types));
    u64 bits = op_info(c->op)->attrs;
#define SHOW_I(field) textbuf_fmt(&b, " " #field "=%lld", (long long)at->field)
#define SHOW_F(field) textbuf_fmt(&b, " " #field "=%g", at->field)
#define SHOW_S(field) textbuf_fmt(&b, " " #field " of rank %d", at->field.rank)
#define SHOW_C(field) (void)at /* no case has one: test_fuse adds them */
#define SHOW_T(field) textbuf_fmt(&b, " " #field "=%d", (int)at->field)
#define ATTR(field, kind)                                                                          \
    if (bits & A_##field) SHOW_##kind(field);
#include "ir/attrs.def"
#undef ATTR
    return textbuf_str(&b);
}
