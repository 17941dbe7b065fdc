/* program_text.c - a program as text and back: docs/formats/program.md.
 *
 *   program train bytes=1024
 *   %0 = input "x" u8[32,28,28,1] @4096
 *   %4, %5 = xent(%2, %3) {smoothing=0} "loss" -> f32[32] @0, output "lse" f32[32] @64 ; kernel=ref …
 *
 * What stands behind ';' is the backend's choice and the table's costs. */
#include "ir/program.h"
#include <stddef.h>
#include <string.h>

static const char *const kind_names[] = {
    [VALUE_PARAM] = "param",   [VALUE_GRAD] = "grad",     [VALUE_STATE] = "state",
    [VALUE_BUFFER] = "buffer", [VALUE_CACHE] = "cache",   [VALUE_SCALAR] = "scalar",
    [VALUE_INPUT] = "input",   [VALUE_OUTPUT] = "output",
};
static const char *const init_names[] = {
    [INIT_ZERO]    = "zero",
    [INIT_CONST]   = "const",
    [INIT_NORMAL]  = "normal",
    [INIT_UNIFORM] = "uniform",
};

enum attr_kind { KIND_I, KIND_F, KIND_S, KIND_T, KIND_C };
static const struct {
    enum attr_kind kind;
    size_t         at;
} attr_fields[ATTR_COUNT] = {
#define ATTR(field, kind) { KIND_##kind, offsetof(struct attrs, field) },
#include "ir/attrs.def"
#undef ATTR
};

static void add_shape(struct textbuf *b, struct shape s)
{
    textbuf_add(b, STR("["));
    for (i32 i = 0; i < s.rank; i++) textbuf_fmt(b, "%s%lld", i ? "," : "", (long long)s.dim[i]);
    textbuf_add(b, STR("]"));
}

static void add_chain(struct textbuf *b, struct chain c)
{
    if (c.keep) textbuf_add(b, STR("keep,"));
    for (i32 i = 0; i < c.count; i++) textbuf_fmt(b, "%s%s", i ? "," : "", op_info(c.op[i])->name);
}

static void add_attrs(struct textbuf *b, const struct attrs *at, u64 mask)
{
    bool first = true;
    if (!at->then.count) mask &= ~(u64)A_then;
    if (at->p == 0 && !at->key) mask &= mask & A_p ? ~(u64)(A_key | A_p) : ~(u64)0;
    if (!mask) return;
    textbuf_add(b, STR(" {"));
    for (i32 i = 0; i < ATTR_COUNT; i++) {
        if (!(mask >> i & 1)) continue;
        const char *field = (const char *)at + attr_fields[i].at;
        textbuf_fmt(b, "%s%.*s=", first ? "" : " ", STR_ARG(attr_name(i)));
        first = false;
        switch (attr_fields[i].kind) {
        case KIND_I: textbuf_fmt(b, "%lld", (long long)*(const i64 *)(const void *)field); break;
        case KIND_F: textbuf_f64(b, *(const f64 *)(const void *)field); break;
        case KIND_S: add_shape(b, *(const struct shape *)(const void *)field); break;
        case KIND_T: textbuf_add(b, dtype_name(*(const enum dtype *)(const void *)field)); break;
        case KIND_C: add_chain(b, *(const struct chain *)(const void *)field); break;
        }
    }
    textbuf_add(b, STR("}"));
}

/* One value's own part: [kind "name"] type [@offset] [flags]. `offset`: by value, or NULL. */
static void add_value(struct textbuf *b, const struct graph *g, const i64 *offset, i32 v)
{
    const struct value *x = &g->values[v];
    if (x->kind != VALUE_TEMP)
        textbuf_fmt(b, "%s \"%.*s\" ", kind_names[x->kind], STR_ARG(x->name));
    textbuf_add(b, dtype_name(x->type.dtype));
    add_shape(b, x->type.shape);
    if (offset) textbuf_fmt(b, " @%lld", (long long)offset[v]);
    if (x->decay) textbuf_add(b, STR(" decay"));
    if (x->frozen) textbuf_add(b, STR(" frozen"));
    if (x->init.kind != INIT_ZERO) {
        textbuf_fmt(b, " %s=", init_names[x->init.kind]);
        textbuf_f64(b, x->init.scale);
    }
}

static void add_given(struct textbuf *b, const struct graph *g, const i64 *offset)
{
    for (i32 v = 0; v < g->value_count; v++) {
        if (g->values[v].kind == VALUE_TEMP || g->values[v].node >= 0) continue;
        textbuf_fmt(b, "%%%d = ", v);
        add_value(b, g, offset, v);
        textbuf_add(b, STR("\n"));
    }
}

/* Without the end of its line. */
static void add_node(struct textbuf *b, const struct graph *g, const i64 *offset,
                     const struct node *n)
{
    i32 results = node_results(n);
    for (i32 i = 0; i < results; i++) textbuf_fmt(b, "%s%%%d", i ? ", " : "", n->out + i);
    textbuf_fmt(b, "%s%s(", results ? " = " : "", op_info(n->op)->name);
    for (i32 i = 0; i < n->in_count; i++) textbuf_fmt(b, "%s%%%d", i ? ", " : "", n->in[i]);
    textbuf_add(b, STR(")"));
    add_attrs(b, &n->at, op_attrs(n->op, &n->at));
    textbuf_fmt(b, " \"%.*s\"", STR_ARG(n->name));
    if (n->block) textbuf_fmt(b, " block=%d", n->block);
    for (i32 i = 0; i < results; i++) {
        textbuf_add(b, i ? STR(", ") : STR(" -> "));
        add_value(b, g, offset, n->out + i);
    }
}

static void add_instr(struct textbuf *b, const struct graph *g, const struct instr *ins,
                      struct arena scratch)
{
    struct sig  s = graph_sig(g, &g->nodes[ins->node], &scratch);
    struct cost c = op_cost(&s);
    textbuf_fmt(b, " ; kernel=%.*s work=%lld@%lld flops=%.0f bytes=%.0f",
                STR_ARG(ins->kernel.len ? ins->kernel : STR("-")), (long long)ins->work_bytes,
                (long long)ins->work_offset, c.flops, c.bytes);
    if (ins->queue) textbuf_fmt(b, " queue=%d", ins->queue);
}

struct str program_print(const struct program *p, struct arena *perm, struct arena scratch)
{
    struct textbuf      b   = textbuf_new(perm);
    const struct graph *g   = p->graph;
    i32                 ins = 0;
    textbuf_fmt(&b, "program %.*s bytes=%lld\n", STR_ARG(g->name), (long long)p->bytes);
    add_given(&b, g, p->offset);
    for (i32 i = 0; i < g->node_count; i++) {
        bool works = ins < p->instr_count && p->instrs[ins].node == i;
        add_node(&b, g, p->offset, &g->nodes[i]);
        if (works) add_instr(&b, g, &p->instrs[ins++], scratch);
        textbuf_add(&b, STR("\n"));
    }
    return textbuf_str(&b);
}

struct str graph_print(const struct graph *g, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    add_given(&b, g, NULL);
    for (i32 i = 0; i < g->node_count; i++) {
        add_node(&b, g, NULL, &g->nodes[i]);
        textbuf_add(&b, STR("\n"));
    }
    return textbuf_str(&b);
}

static const i64 ARENA_BYTES_MAX = TENSOR_BYTES_MAX * GRAPH_VALUES_MAX;

/* --- reading ------------------------------------------------------------------------------- */

struct reader {
    struct arena   *perm;
    struct program *p;
    struct str      line; /* what is left of it */
    i32             number;
    struct err     *err;
    enum status     status;
};

static void bad(struct reader *r, const char *what)
{
    if (!r->status)
        r->status = err_set(r->err, STATUS_USAGE, "program text, line %d: %s at \"%.20s\"",
                            r->number, what, str_z(r->perm, str_sub(r->line, 0, 20)));
}

static void skip_blanks(struct reader *r)
{
    while (r->line.len && r->line.data[0] == ' ') r->line = str_sub(r->line, 1, r->line.len);
}

static bool accept(struct reader *r, struct str word)
{
    skip_blanks(r);
    if (r->status || !str_starts(r->line, word)) return false;
    r->line = str_sub(r->line, word.len, r->line.len);
    return true;
}

static void expect(struct reader *r, struct str word)
{
    if (!accept(r, word)) bad(r, "unexpected text");
}

/* Letters, digits and what numbers and names are made of, up to one of `stop`. */
static struct str word_until(struct reader *r, const char *stop)
{
    skip_blanks(r);
    i64 n = 0;
    while (n < r->line.len && !strchr(stop, r->line.data[n])) n++;
    struct str w = str_sub(r->line, 0, n);
    r->line      = str_sub(r->line, n, r->line.len);
    return w;
}

static i64 read_int(struct reader *r, const char *stop)
{
    i64 v = 0;
    if (!str_i64(word_until(r, stop), &v)) bad(r, "a whole number was expected");
    return v;
}

/* Offsets and sizes in the arena: their sums stay below 2^63. */
static i64 read_bytes(struct reader *r, const char *stop, i64 least)
{
    i64 v = read_int(r, stop);
    if (v < least || v > ARENA_BYTES_MAX) bad(r, "no place in an arena");
    return v;
}

static f64 read_float(struct reader *r, const char *stop)
{
    f64 v = 0;
    if (!str_f64(word_until(r, stop), &v)) bad(r, "a number was expected");
    return v;
}

static struct str read_name(struct reader *r)
{
    expect(r, STR("\""));
    struct str s = word_until(r, "\"");
    expect(r, STR("\""));
    return str_copy(r->perm, s);
}

static i32 read_id(struct reader *r)
{
    expect(r, STR("%"));
    i64 v = read_int(r, " ,)=");
    if (v < 0 || v >= GRAPH_VALUES_MAX) bad(r, "no such value");
    return r->status ? 0 : (i32)v;
}

static struct shape read_shape(struct reader *r)
{
    struct shape s = { 0 };
    expect(r, STR("["));
    while (!r->status && !accept(r, STR("]"))) {
        if (s.rank == RANK_MAX) {
            bad(r, "too many axes");
            break;
        }
        s.dim[s.rank++] = read_int(r, ",]");
        accept(r, STR(","));
    }
    if (!type_fits(type_of(DT_U8, s))) bad(r, "sizes below 0 or beyond any memory");
    return s;
}

static enum dtype read_dtype(struct reader *r, const char *stop)
{
    enum dtype t = DT_F32;
    if (!dtype_parse(word_until(r, stop), &t)) bad(r, "an element type was expected");
    return t;
}

static struct chain read_chain(struct reader *r, const char *stop)
{
    struct chain c    = { 0 };
    struct str   list = word_until(r, stop), word;
    while (str_cut(&list, ',', &word)) {
        if (!c.count && !c.keep && str_eq(word, STR("keep"))) c.keep = true;
        else if (c.count < THEN_MAX && op_find(word, &c.op[c.count])) c.count++;
        else bad(r, "no list of maps");
    }
    if (!c.count) bad(r, "a map was expected");
    return c;
}

static void read_attr(struct reader *r, struct attrs *at, u64 allowed)
{
    struct str key = word_until(r, "=");
    expect(r, STR("="));
    for (i32 i = 0; i < ATTR_COUNT; i++) {
        if (!(allowed >> i & 1) || !str_eq(key, attr_name(i))) continue;
        void *field = (char *)at + attr_fields[i].at;
        switch (attr_fields[i].kind) {
        case KIND_I: *(i64 *)field = read_int(r, " }"); return;
        case KIND_F: *(f64 *)field = read_float(r, " }"); return;
        case KIND_S: *(struct shape *)field = read_shape(r); return;
        case KIND_T: *(enum dtype *)field = read_dtype(r, " }"); return;
        case KIND_C: *(struct chain *)field = read_chain(r, " }"); return;
        }
    }
    bad(r, "an attribute the op does not have");
}

enum status attrs_parse(struct arena *perm, struct str text, u64 allowed, struct attrs *at,
                        struct err *err)
{
    struct reader r = { .perm = perm, .line = str_trim(text), .number = 1, .err = err };
    *at             = (struct attrs){ 0 };
    for (; !r.status && r.line.len; skip_blanks(&r)) read_attr(&r, at, allowed);
    return r.status;
}

/* Value ids are kept, so the array must reach as far as the largest. */
static struct value *value_at(struct reader *r, i32 v)
{
    struct graph *g = r->p->graph;
    while (g->value_count <= v) {
        graph_reserve(g);
        g->values[g->value_count++] = (struct value){ .kind = VALUE_TEMP, .node = -1 };
    }
    return &g->values[v];
}

static void read_value(struct reader *r, i32 v, i32 node, i64 *offset)
{
    struct value x = { .kind = VALUE_TEMP, .node = node };
    for (i32 k = 0; k < VALUE_TEMP; k++) {
        struct str kind = str_of(kind_names[k]);
        if (!accept(r, kind)) continue;
        x.kind = (enum value_kind)k;
        x.name = read_name(r);
        break;
    }
    x.type.dtype = read_dtype(r, "[");
    x.type.shape = read_shape(r);
    expect(r, STR("@"));
    offset[v] = read_bytes(r, " ,;", -1);
    x.decay   = accept(r, STR("decay"));
    x.frozen  = accept(r, STR("frozen"));
    for (i32 k = INIT_CONST; k <= INIT_UNIFORM; k++) {
        if (!accept(r, str_of(init_names[k]))) continue;
        expect(r, STR("="));
        x.init = (struct init){ (enum init_kind)k, read_float(r, " ,;") };
    }
    if (!r->status) *value_at(r, v) = x;
}

static void read_instr(struct reader *r, i32 node)
{
    struct instr ins = { .node = node };
    if (!accept(r, STR(";"))) return;
    expect(r, STR("kernel="));
    if (!accept(r, STR("- "))) ins.kernel = str_copy(r->perm, word_until(r, " "));
    expect(r, STR("work="));
    ins.work_bytes = read_bytes(r, "@", 0);
    expect(r, STR("@"));
    ins.work_offset                   = read_bytes(r, " ", 0);
    ins.queue                         = str_ends(r->line, STR(" queue=1"));
    r->p->instrs[r->p->instr_count++] = ins;
    r->line.len                       = 0; /* costs follow from the table */
}

static void read_node(struct reader *r, const i32 *out, i32 out_count)
{
    struct graph *g = r->p->graph;
    struct node   n = { .out = out_count ? out[0] : 0 };
    i32           in[OP_IN_MAX];
    if (!op_find(word_until(r, "("), &n.op)) bad(r, "unknown op");
    expect(r, STR("("));
    while (!r->status && !accept(r, STR(")"))) {
        if (n.in_count == OP_IN_MAX) bad(r, "too many operands");
        else in[n.in_count++] = read_id(r);
        accept(r, STR(","));
    }
    if (accept(r, STR("{"))) {
        while (!r->status && !accept(r, STR("}"))) read_attr(r, &n.at, op_attrs(n.op, &n.at));
    }
    n.name = read_name(r);
    if (accept(r, STR("block="))) {
        i64 block = read_int(r, " -;");
        if (block < 0 || block > INT32_MAX) bad(r, "no such block");
        n.block = r->status ? 0 : (i32)block;
    }
    if (!r->status && node_results(&n) != out_count) bad(r, "wrong number of results");
    for (i32 i = 0; i < out_count && !r->status; i++) {
        expect(r, i ? STR(",") : STR("->"));
        if (out[i] != out[0] + i) bad(r, "results must be numbered in a row");
        read_value(r, out[i], g->node_count, r->p->offset);
    }
    if (r->status) return;
    n.in = NEW(r->perm, i32, MAX(n.in_count, 1));
    memcpy(n.in, in, (size_t)n.in_count * sizeof *in);
    graph_reserve(g);
    g->nodes[g->node_count++] = n;
    read_instr(r, g->node_count - 1);
}

static void read_line(struct reader *r)
{
    i32 out[OP_OUT_MAX], count = 0;
    if (r->p->graph->node_count == GRAPH_NODES_MAX) bad(r, "too many operations");
    while (!r->status && str_starts(r->line, STR("%")) && count < OP_OUT_MAX) {
        out[count++] = read_id(r);
        if (!accept(r, STR(","))) break;
        skip_blanks(r);
    }
    if (count) expect(r, STR("="));
    skip_blanks(r);
    i64 paren = str_find(r->line, '('), quote = str_find(r->line, '"');
    if (count == 1 && (paren < 0 || (quote >= 0 && quote < paren)))
        read_value(r, out[0], -1, r->p->offset);
    else read_node(r, out, count);
    skip_blanks(r);
    if (r->line.len) bad(r, "text left over");
}

enum status program_parse(struct arena *perm, struct str text, struct program **out,
                          struct err *err)
{
    struct reader   r = { .perm = perm, .err = err };
    struct program *p = r.p = NEW(perm, struct program, 1);
    p->offset               = NEW(perm, i64, GRAPH_VALUES_MAX);
    p->instrs               = NEW(perm, struct instr, GRAPH_NODES_MAX);
    memset(p->offset, 0xff, GRAPH_VALUES_MAX * sizeof *p->offset);
    str_cut(&text, '\n', &r.line);
    r.number = 1;
    expect(&r, STR("program"));
    p->graph = graph_new(perm, str_copy(perm, word_until(&r, " ")));
    expect(&r, STR("bytes="));
    p->bytes = read_bytes(&r, " ", 0);
    while (!r.status && str_cut(&text, '\n', &r.line)) {
        r.number++;
        if (r.line.len) read_line(&r);
    }
    *out = p;
    return r.status;
}
