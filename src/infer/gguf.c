/* gguf.c - the file: keys, tensors by llama.cpp's names, their bytes.
 *
 * llama.cpp turns pairs of neighbours for the architecture llama, and pairs half a head apart for the others: the rows
 * of queries and keys of Llama and Mistral are put in that order. */
#include "base/half.h"
#include "infer/gguf_int.h"
#include "model/hf.h"
#include <math.h>
#include <string.h>

enum { ALIGN = 32, VERSION = 3, QUANTISATION_VERSION = 2 };

/* --- keys --- */

static void add_bytes(struct textbuf *b, const void *data, i64 bytes)
{
    textbuf_add(b, (struct str){ data, bytes });
}

static void add_u32(struct textbuf *b, u32 v) { add_bytes(b, &v, sizeof v); }
static void add_u64(struct textbuf *b, u64 v) { add_bytes(b, &v, sizeof v); }

static void add_text(struct textbuf *b, struct str s)
{
    add_u64(b, (u64)s.len);
    textbuf_add(b, s);
}

static void add_key(struct gguf_keys *k, const char *key, enum gguf_kind kind)
{
    struct str name = str_of(key), before = key[0] == '.' ? k->prefix : STR("");
    add_u64(&k->bytes, (u64)(before.len + name.len));
    textbuf_add(&k->bytes, before);
    textbuf_add(&k->bytes, name);
    add_u32(&k->bytes, kind);
    k->count++;
}

void gguf_u32(struct gguf_keys *k, const char *key, i64 value)
{
    add_key(k, key, KIND_U32);
    add_u32(&k->bytes, (u32)value);
}

void gguf_f32(struct gguf_keys *k, const char *key, f64 value)
{
    f32 v = (f32)value;
    add_key(k, key, KIND_F32);
    add_bytes(&k->bytes, &v, sizeof v);
}

void gguf_flag(struct gguf_keys *k, const char *key, bool value)
{
    u8 v = value;
    add_key(k, key, KIND_BOOL);
    add_bytes(&k->bytes, &v, sizeof v);
}

void gguf_text(struct gguf_keys *k, const char *key, struct str value)
{
    add_key(k, key, KIND_STRING);
    add_text(&k->bytes, value);
}

void gguf_list(struct gguf_keys *k, const char *key, enum gguf_kind kind, i64 count)
{
    add_key(k, key, KIND_ARRAY);
    add_u32(&k->bytes, kind);
    add_u64(&k->bytes, (u64)count);
}

void gguf_item(struct gguf_keys *k, const void *value, i64 bytes)
{
    add_bytes(&k->bytes, value, bytes);
}

void gguf_item_text(struct gguf_keys *k, struct str value) { add_text(&k->bytes, value); }

/* --- what a model is --- */

static bool is(struct str s, const char *word) { return str_eq(s, str_of(word)); }

/* llama.cpp knows Mistral as a llama. */
static struct str architecture(const struct gguf_model *m)
{
    return is(m->type, "mistral") ? STR("llama") : m->type;
}

static enum status check_model(const struct gguf_model *m, struct err *err)
{
    static const char *const   known[] = { "gpt2", "llama", "mistral", "qwen2", "qwen3" };
    const struct model_config *c       = m->config;
    bool                       found   = false;
    for (i64 i = 0; i < COUNT_OF(known); i++) found |= is(m->type, known[i]);
    if (!found)
        return err_set(err, STATUS_USAGE,
                       "a model of type %.*s is not written as GGUF: gpt2, llama, mistral, qwen2 "
                       "and qwen3 are",
                       STR_ARG(m->type));
    if (is(m->type, "gpt2") && !is(c->activation, "gelu"))
        return err_set(err, STATUS_USAGE,
                       "llama.cpp computes GPT-2 with gelu_new, and this model has %.*s",
                       STR_ARG(c->activation));
    if (c->rope_scaling.high > 0 && !is(architecture(m), "llama"))
        return err_set(err, STATUS_USAGE, "llama.cpp has no rope scaling of type llama3 for %.*s",
                       STR_ARG(m->type));
    if (c->softcap > 0)
        return err_set(err, STATUS_USAGE, "llama.cpp has no soft cap on logits for %.*s",
                       STR_ARG(m->type));
    return STATUS_OK;
}

static i64 head_dim(const struct model_config *c)
{
    return c->head_dim ? c->head_dim : c->width / c->heads;
}

/* llama.cpp reads no window of Mistral: up to its length there is no difference. */
static i64 context_of(const struct model_config *c)
{
    i64 most = c->places ? c->places : c->context;
    return c->window ? MIN(c->window, most) : most;
}

static void add_model(struct gguf_keys *k, const struct gguf_model *m, i64 hidden, i64 vocabulary)
{
    const struct model_config *c    = m->config;
    bool                       gpt2 = is(m->type, "gpt2");
    f64                        eps  = c->eps > 0 ? c->eps : 1e-5;
    gguf_u32(k, ".vocab_size", vocabulary);
    gguf_u32(k, ".context_length", context_of(c));
    gguf_u32(k, ".embedding_length", c->width);
    gguf_u32(k, ".block_count", c->depth);
    gguf_u32(k, ".feed_forward_length", hidden);
    gguf_u32(k, ".attention.head_count", c->heads);
    gguf_u32(k, ".attention.head_count_kv", c->kv_heads ? c->kv_heads : c->heads);
    gguf_f32(k, gpt2 ? ".attention.layer_norm_epsilon" : ".attention.layer_norm_rms_epsilon", eps);
    if (gpt2) return;
    gguf_u32(k, ".attention.key_length", head_dim(c));
    gguf_u32(k, ".attention.value_length", head_dim(c));
    gguf_u32(k, ".rope.dimension_count", head_dim(c));
    gguf_f32(k, ".rope.freq_base", c->rope_base);
    if (c->rope_scaling.stretch > 0 && !(c->rope_scaling.high > 0)) {
        gguf_text(k, ".rope.scaling.type", STR("linear"));
        gguf_f32(k, ".rope.scaling.factor", c->rope_scaling.stretch);
    }
}

/* --- tensors --- */

static const struct {
    const char *theirs, *name; /* % is the number of the block */
} renamed[] = {
    { "embed_tokens", "token_embd" },
    { "norm", "output_norm" },
    { "lm_head", "output" },
    { "layers.%.input_layernorm", "blk.%.attn_norm" },
    { "layers.%.self_attn.q_proj", "blk.%.attn_q" },
    { "layers.%.self_attn.k_proj", "blk.%.attn_k" },
    { "layers.%.self_attn.v_proj", "blk.%.attn_v" },
    { "layers.%.self_attn.o_proj", "blk.%.attn_output" },
    { "layers.%.self_attn.q_norm", "blk.%.attn_q_norm" },
    { "layers.%.self_attn.k_norm", "blk.%.attn_k_norm" },
    { "layers.%.post_attention_layernorm", "blk.%.ffn_norm" },
    { "layers.%.mlp.gate_proj", "blk.%.ffn_gate" },
    { "layers.%.mlp.up_proj", "blk.%.ffn_up" },
    { "layers.%.mlp.down_proj", "blk.%.ffn_down" },
    { "wte", "token_embd" },
    { "wpe", "position_embd" },
    { "ln_f", "output_norm" },
    { "h.%.ln_1", "blk.%.attn_norm" },
    { "h.%.attn.c_attn", "blk.%.attn_qkv" },
    { "h.%.attn.c_proj", "blk.%.attn_output" },
    { "h.%.ln_2", "blk.%.ffn_norm" },
    { "h.%.mlp.c_fc", "blk.%.ffn_up" },
    { "h.%.mlp.c_proj", "blk.%.ffn_down" },
};

/* The text that stands for % in `pattern`, which is all of `name` otherwise. */
static bool matches(struct str name, struct str pattern, struct str *number)
{
    i64 at  = str_find(pattern, '%');
    *number = (struct str){ 0 };
    if (at < 0) return str_eq(name, pattern);
    struct str before = str_sub(pattern, 0, at), after = str_sub(pattern, at + 1, pattern.len);
    if (!str_starts(name, before) || !str_ends(name, after)) return false;
    *number = str_sub(name, before.len, name.len - after.len);
    for (i64 i = 0; i < number->len; i++)
        if (number->data[i] < '0' || number->data[i] > '9') return false;
    return number->len > 0;
}

/* Empty: there is no such tensor there. */
static struct str new_name(struct str theirs, struct arena *memory)
{
    static const char *const bodies[] = { "model.", "transformer." };
    static const char *const leaves[] = { ".weight", ".bias" };
    for (i64 i = 0; i < COUNT_OF(bodies); i++)
        if (str_starts(theirs, str_of(bodies[i])))
            theirs = str_sub(theirs, str_of(bodies[i]).len, theirs.len);
    for (i64 l = 0; l < COUNT_OF(leaves); l++) {
        struct str leaf = str_of(leaves[l]), number;
        if (!str_ends(theirs, leaf)) continue;
        struct str body = str_sub(theirs, 0, theirs.len - leaf.len);
        for (i64 i = 0; i < COUNT_OF(renamed); i++) {
            if (!matches(body, str_of(renamed[i].theirs), &number)) continue;
            struct str to = str_of(renamed[i].name);
            i64        at = str_find(to, '%');
            if (at < 0) return str_cat(memory, to, leaf);
            return str_fmt(memory, "%.*s%.*s%.*s%.*s", (int)at, to.data, STR_ARG(number),
                           (int)(to.len - at - 1), to.data + at + 1, STR_ARG(leaf));
        }
    }
    return (struct str){ 0 };
}

static const f32 *transposed(const f32 *from, i64 rows, i64 columns, struct arena *memory)
{
    f32 *to = NEW(memory, f32, rows * columns);
    for (i64 r = 0; r < rows; r++)
        for (i64 c = 0; c < columns; c++) to[c * rows + r] = from[r * columns + c];
    return to;
}

/* Rows i and i + D/2 of each head become 2i and 2i + 1. */
static const f32 *paired(const f32 *from, i64 rows, i64 each, i64 heads, struct arena *memory)
{
    i64  D = rows / heads, half = D / 2;
    f32 *to = NEW(memory, f32, rows * each);
    for (i64 r = 0; r < rows; r++) {
        i64 h = r / D, i = r % D;
        i64 row = h * D + (i < half ? 2 * i : 2 * (i - half) + 1);
        memcpy(to + row * each, from + r * each, (size_t)each * sizeof *to);
    }
    return to;
}

void gguf_q8_0(const f32 *from, i64 count, u8 *to)
{
    for (i64 b = 0; b < count / GGUF_BLOCK; b++, from += GGUF_BLOCK, to += GGUF_BLOCK_BYTES) {
        f32 top = 0;
        for (i32 i = 0; i < GGUF_BLOCK; i++) top = fmaxf(top, fabsf(from[i]));
        f32 d = top / 127, over = d > 0 ? 1 / d : 0;
        u16 low = f16_from_f32(d);
        memcpy(to, &low, sizeof low);
        for (i32 i = 0; i < GGUF_BLOCK; i++) to[2 + i] = (u8)(i8)roundf(from[i] * over);
    }
}

struct entry { /* a tensor of the file */
    struct str     name;
    i64            from;  /* which of those given; -1: the frequencies */
    struct shape   shape; /* of the given one */
    enum gguf_type type;
    i64            bytes;
    bool           transposed;
    i64            paired_heads; /* 0: rows stay where they are */
};

struct writing {
    const struct gguf_model *model;
    const struct st_made    *from;
    struct arena            *memory;
    enum gguf_type           type;
    struct textbuf           infos;
    struct entry            *entries;
    i64                      count, offset;
    const f32               *frequencies;
    struct str               header;
    struct arena             scratch; /* of the tensor at hand */
    struct err              *err;
};

static const char zeros[ALIGN];

static i64 bytes_of(i64 count, enum gguf_type type)
{
    if (type == GGUF_Q8_0) return count / GGUF_BLOCK * GGUF_BLOCK_BYTES;
    return count * (type == GGUF_F32 ? 4 : 2);
}

static i64 padding(i64 bytes) { return (ALIGN - bytes % ALIGN) % ALIGN; }

/* In the file's type. */
static struct str stored(const struct writing *w, const struct entry *t, const f32 *x,
                         struct arena *memory)
{
    i64 count = shape_count(t->shape);
    if (t->type == GGUF_F32) return (struct str){ (const char *)x, t->bytes };
    if (t->type == GGUF_Q8_0) {
        u8 *to = NEW(memory, u8, t->bytes);
        gguf_q8_0(x, count, to);
        return (struct str){ (const char *)to, t->bytes };
    }
    u16 *to = NEW(memory, u16, count);
    for (i64 i = 0; i < count; i++) {
        to[i] = f16_from_f32(x[i]);
        if ((to[i] & 0x7FFF) != 0x7C00) continue;
        err_set(w->err, STATUS_USAGE, "%.*s has numbers beyond those of f16: --dtype f32",
                STR_ARG(t->name));
        return (struct str){ NULL, -1 };
    }
    return (struct str){ (const char *)to, t->bytes };
}

static void add_tensor(struct writing *w, struct entry t)
{
    struct shape s     = t.transposed ? shape_2(t.shape.dim[1], t.shape.dim[0]) : t.shape;
    bool         whole = shape_last(s) % GGUF_BLOCK == 0;
    t.type             = w->type == GGUF_Q8_0 && !whole ? GGUF_F16 : w->type;
    if (s.rank == 1 || str_starts(t.name, STR("position_embd"))) t.type = GGUF_F32;
    t.bytes = bytes_of(shape_count(s), t.type);
    add_text(&w->infos, t.name);
    add_u32(&w->infos, (u32)s.rank);
    for (i32 i = s.rank - 1; i >= 0; i--) add_u64(&w->infos, (u64)s.dim[i]);
    add_u32(&w->infos, t.type);
    add_u64(&w->infos, (u64)w->offset);
    w->offset += t.bytes + padding(t.bytes);
    w->entries[w->count++] = t;
}

static struct str tensor_bytes(const struct writing *w, const struct entry *t)
{
    struct arena scratch = w->scratch;
    const f32   *x       = w->frequencies;
    i64          rows    = t->shape.dim[0];
    if (t->from >= 0) x = (const f32 *)(const void *)w->from->bytes(w->from->context, t->from).data;
    if (t->paired_heads)
        x = paired(x, rows, shape_count(t->shape) / rows, t->paired_heads, &scratch);
    if (t->transposed) x = transposed(x, rows, t->shape.dim[1], &scratch);
    return stored(w, t, x, &scratch);
}

/* The header, then each tensor and zeros behind it. */
static struct str piece_at(const void *context, i64 i)
{
    const struct writing *w = context;
    if (!i) return w->header;
    const struct entry *t = &w->entries[(i - 1) / 2];
    return i % 2 ? tensor_bytes(w, t) : (struct str){ zeros, padding(t->bytes) };
}

/* The weight or the bias of it. */
static bool is_of(struct str name, const char *layer)
{
    i64 leaf = str_ends(name, STR(".bias")) ? STR(".bias").len : STR(".weight").len;
    return str_ends(str_sub(name, 0, name.len - leaf), str_of(layer));
}

static enum status add_theirs(struct writing *w, i64 from)
{
    const struct model_config *c    = w->model->config;
    const struct st_tensor    *t    = &w->from->tensors[from];
    struct str                 name = new_name(t->name, w->memory);
    struct entry               e    = { .name = name, .from = from, .shape = t->shape };
    if (!name.len)
        return err_set(w->err, STATUS_USAGE, "llama.cpp has no tensor %.*s in a model of type %.*s",
                       STR_ARG(t->name), STR_ARG(w->model->type));
    ASSERT(str_eq(t->dtype, STR("F32")));
    bool query = is_of(name, ".attn_q"), key = is_of(name, ".attn_k");
    i64  kv = c->kv_heads ? c->kv_heads : c->heads;
    if (is(architecture(w->model), "llama") && (query || key))
        e.paired_heads = query ? c->heads : kv;
    e.transposed =
        is(w->model->type, "gpt2") && t->shape.rank == 2 && str_starts(name, STR("blk."));
    add_tensor(w, e);
    return STATUS_OK;
}

/* What each frequency is divided by. */
static void add_frequencies(struct writing *w)
{
    const struct model_config *c    = w->model->config;
    i64                        half = head_dim(c) / 2;
    f32                       *x    = NEW(w->memory, f32, half);
    if (!(c->rope_scaling.high > 0)) return;
    for (i64 i = 0; i < half; i++) {
        f64 f = pow(c->rope_base, -(f64)i / (f64)half);
        x[i]  = (f32)(f / rope_scaled(f, c->rope_scaling));
    }
    w->frequencies = x;
    add_tensor(
        w, (struct entry){ .name = STR("rope_freqs.weight"), .from = -1, .shape = shape_1(half) });
}

static i64 size_of(const struct st_tensor *tensors, i64 count, const char *name,
                   struct arena *memory)
{
    for (i64 i = 0; i < count; i++)
        if (str_eq(new_name(tensors[i].name, memory), str_of(name)))
            return shape_count(tensors[i].shape);
    return 0;
}

static enum status add_keys(struct writing *w, struct os *os, struct gguf_keys *k, i64 vocabulary,
                            i64 hidden)
{
    gguf_text(k, "general.architecture", architecture(w->model));
    gguf_text(k, "general.name", w->model->name);
    gguf_u32(k, "general.alignment", ALIGN);
    gguf_u32(k, "general.quantization_version", QUANTISATION_VERSION);
    gguf_u32(k, "general.file_type", w->type == GGUF_Q8_0 ? 7 : w->type); /* MOSTLY_Q8_0 */
    add_model(k, w->model, hidden, vocabulary);
    return gguf_tokenizer(k, os, w->model->folder, vocabulary, w->memory, w->err);
}

static struct str header(struct writing *w, const struct gguf_keys *k)
{
    struct textbuf b = textbuf_new(w->memory);
    textbuf_add(&b, STR("GGUF"));
    add_u32(&b, VERSION);
    add_u64(&b, (u64)w->count);
    add_u64(&b, (u64)k->count);
    textbuf_add(&b, textbuf_str(&k->bytes));
    textbuf_add(&b, textbuf_str(&w->infos));
    add_bytes(&b, zeros, padding(b.len));
    return textbuf_str(&b);
}

enum status gguf_save(struct os *os, struct str path, const struct gguf_model *model,
                      const struct st_made *from, enum gguf_type type, struct arena *memory,
                      struct err *err)
{
    struct writing w   = { .model = model, .from = from, .memory = memory, .type = type };
    struct arena infos = arena_part(memory, (i64)1 << 30), keys = arena_part(memory, (i64)1 << 32);
    struct gguf_keys           k  = { textbuf_new(&keys), 0, architecture(model) };
    const struct model_config *c  = model->config;
    enum status                st = check_model(model, err);
    if (st) return st;
    w.err      = err;
    w.infos    = textbuf_new(&infos);
    w.entries  = NEW(memory, struct entry, from->count + 1);
    i64 hidden = size_of(from->tensors, from->count, "blk.0.ffn_up.weight", memory) / c->width;
    i64 rows   = size_of(from->tensors, from->count, "token_embd.weight", memory) / c->width;
    for (i64 i = 0; !st && i < from->count; i++) st = add_theirs(&w, i);
    if (!st) add_frequencies(&w);
    if (!st) st = add_keys(&w, os, &k, rows, hidden);
    if (st) return st;
    w.header                = header(&w, &k);
    w.scratch               = arena_part(memory, (memory->end - memory->begin) / 2);
    struct os_pieces pieces = { piece_at, &w, 1 + 2 * w.count };
    return os_publish_from(os, path, &pieces, *memory, err);
}
