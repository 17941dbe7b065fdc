/* lora.c - adapters: which matrices have them, what they are called, and their part of the graph. */
#include "model/lora.h"
#include "base/nf4.h"
#include "model/hf_int.h"
#include "model/model_int.h"
#include <math.h>
#include <string.h>

static const char mark[] = ".lora_";

static i64 mark_at(struct str name)
{
    for (i64 i = 0; i + (i64)sizeof mark - 1 <= name.len; i++)
        if (!memcmp(name.data + i, mark, sizeof mark - 1)) return i;
    return -1;
}

bool lora_is_adapter(struct str param) { return mark_at(param) >= 0; }

static struct str layer_of(struct str adapter) { return str_sub(adapter, 0, mark_at(adapter)); }

struct str lora_matrix(struct str adapter, struct arena *perm)
{
    return str_cat(perm, layer_of(adapter), STR(".weight"));
}

f64 lora_scale(const struct lora_config *l)
{
    return isnan(l->alpha) ? 1 : l->alpha / (f64)l->rank;
}

struct model_config lora_names(const struct model_config *c)
{
    struct model_config n = *c;
    struct err          why;
    n.hidden = block_hidden(c);
    if (n.family || !hf_family_of(&n, &why)) return n;
    n.family   = str_eq(c->activation, STR("swiglu")) ? &hf_family_llama : &hf_family_gpt2;
    n.kv_heads = c->kv_heads ? c->kv_heads : c->heads;
    n.head_dim = c->head_dim ? c->head_dim : c->width / MAX(c->heads, 1);
    return n;
}

/* "q_proj" and "self_attn.q_proj" are meant by …self_attn.q_proj.weight, as PEFT has it. */
static bool means(struct str word, struct str tensor)
{
    struct str module = str_sub(tensor, 0, tensor.len - STR(".weight").len);
    return str_eq(word, module) || (str_ends(module, word) && word.len < module.len &&
                                    module.data[module.len - word.len - 1] == '.');
}

u32 lora_parts(const struct model_config *names, const struct hf_source *matrix, struct str ours,
               u32 *used)
{
    const struct lora_config *l    = &names->lora;
    u32                       bits = l->on_count ? 0 : (1u << matrix->count) - 1;
    for (i32 i = 0; i < matrix->count; i++)
        for (i64 k = 0; k < l->on_count; k++) {
            if (!means(l->on[k], matrix->name[i]) && !means(l->on[k], ours)) continue;
            bits |= 1u << i;
            if (used) *used |= 1u << k;
        }
    return bits;
}

/* The matrix of a layer as others keep it. The rows of a gated one follow from the config. */
static bool matrix_source(const struct model_config *names, struct str ours, struct arena *perm,
                          i64 rows, struct hf_source *out)
{
    if (!str_starts(ours, STR("h."))) return false;
    return hf_source(names, ours, shape_2(rows ? rows : 2 * names->hidden, 1), perm, out);
}

bool lora_source(const struct model_config *names, struct str adapter, struct shape shape,
                 struct arena *perm, struct hf_source *out)
{
    struct str       ours = lora_matrix(adapter, perm), leaf;
    struct hf_source m;
    if (!lora_is_adapter(adapter) || !matrix_source(names, ours, perm, 0, &m)) return false;
    u32  bits = lora_parts(names, &m, ours, NULL);
    bool is_a = str_ends(adapter, STR(".lora_A.weight"));
    leaf      = is_a ? STR("lora_A.weight") : STR("lora_B.weight");
    *out      = (struct hf_source){ 0 };
    for (i32 i = 0; i < m.count; i++) {
        if (!(bits >> i & 1)) continue;
        struct str module     = str_sub(m.name[i], 0, m.name[i].len - STR("weight").len);
        out->rows[out->count] = is_a ? names->lora.rank : m.count == 1 ? shape.dim[0] : m.rows[i];
        out->name[out->count++] =
            str_fmt(perm, "base_model.model.%.*s%.*s", STR_ARG(module), STR_ARG(leaf));
    }
    return out->count > 0;
}

/* --- the graph --- */

static i32 zeros(struct builder *b, struct str path, i64 rows, i64 columns)
{
    struct attrs at = { .dims = shape_2(rows, columns), .dtype = b->m->config.dtype };
    return graph_op(b->g, OP_FILL, part_name(b, path, "zero"), NULL, 0, &at);
}

/* B of several parts as one matrix [rows of all, rank of all]: each part's own block, and zeros around them. */
static i32 spread(struct builder *b, struct str path, i32 B, const struct hf_source *m, u32 bits)
{
    i64 rank = b->m->config.lora.rank, all = 0, from = 0, at = 0;
    i32 part[HF_PARTS_MAX];
    for (i32 i = 0; i < m->count; i++) all += bits >> i & 1 ? rank : 0;
    if (m->count == 1) return B;
    for (i32 i = 0; i < m->count; i++) {
        i64 rows  = m->rows[i];
        i32 in[3] = { 0 }, count = 0;
        if (!(bits >> i & 1)) {
            part[i] = zeros(b, path, rows, all);
            continue;
        }
        if (at) in[count++] = zeros(b, path, rows, at);
        in[count++] = build_slice(b->g, part_name(b, path, "part"), B, 0, from, rows);
        from += rows;
        at += rank;
        if (at < all) in[count++] = zeros(b, path, rows, all - at);
        part[i] =
            count == 1 ? in[0] : build_concat(b->g, part_name(b, path, "block"), in, count, 1);
    }
    return build_concat(b->g, part_name(b, path, "spread"), part, m->count, 0);
}

static i32 frozen_param(struct builder *b, struct str name, struct type type)
{
    return graph_param(b->g, name, type, (struct init){ INIT_ZERO, 0 }, false);
}

/* Each of their matrices is packed by itself: one of whose numbers no whole groups can be made stays as it is. */
static bool packs(const struct builder *b, struct str matrix, struct shape s)
{
    struct hf_source m;
    if (s.dim[1] % NF4_BLOCK || !matrix_source(&b->m->names, matrix, b->g->perm, s.dim[0], &m))
        return false;
    for (i32 i = 0; i < m.count; i++)
        if (m.rows[i] * s.dim[1] % NF4_GROUP) return false;
    return true;
}

i32 part_frozen(struct builder *b, struct str path, struct shape s)
{
    const struct lora_config *l = &b->m->config.lora;
    bool       nf4 = str_eq(l->weights, STR("nf4")), fp8 = str_eq(l->weights, STR("fp8"));
    struct str name = part_name(b, path, "weight");
    if (!l->rank || (!nf4 && !fp8) || b->g->err.status || !packs(b, name, s)) return -1;
    i64          count = shape_count(s), width = nf4 ? s.dim[1] / 2 : s.dim[1];
    struct shape scales = nf4 ? shape_2(count / NF4_GROUP, NF4_SCALES) : shape_1(s.dim[0]);
    struct attrs at     = { .format = fp8, .dtype = b->m->config.dtype };
    i32          in[3], n = 0;
    in[n++] = frozen_param(b, name, type_of(DT_U8, shape_2(s.dim[0], width)));
    if (nf4)
        in[n++] = frozen_param(b, part_name(b, name, "sizes"),
                               type_of(DT_U8, shape_1(count / NF4_BLOCK)));
    in[n++] = frozen_param(b, part_name(b, name, "scales"), type_of(DT_F32, scales));
    return graph_op(b->g, OP_UNPACK, name, in, n, &at);
}

i32 part_lora(struct builder *b, struct str path, i32 x, i32 y)
{
    const struct lora_config *l      = &b->m->config.lora;
    struct graph             *g      = b->g;
    struct str                matrix = part_name(b, path, "weight");
    struct hf_source          m;
    if (!l->rank || g->err.status) return y;
    i64 width = shape_last(part_sample(b, x)), units = shape_last(part_sample(b, y));
    if (!matrix_source(&b->m->names, matrix, g->perm, units, &m)) return y;
    u32 bits  = lora_parts(&b->m->names, &m, matrix, &b->lora_used);
    i64 count = 0, rows = 0;
    for (i32 i = 0; i < m.count; i++)
        if (bits >> i & 1) count++, rows += m.rows[i];
    if (!count) return y;
    enum dtype  dtype = b->m->config.dtype;
    struct init first = { INIT_UNIFORM, 1 / sqrt((f64)width) }; /* kaiming_uniform_(a=sqrt(5)) */
    i32         A     = graph_param(g, part_name(b, path, "lora_A.weight"),
                                    type_of(dtype, shape_2(count * l->rank, width)), first, true);
    i32         B =
        graph_param(g, part_name(b, path, "lora_B.weight"), type_of(dtype, shape_2(rows, l->rank)),
                    (struct init){ INIT_ZERO, 0 }, true);
    struct str lora = part_name(b, path, "lora");
    i32 u = build_matmul(g, part_name(b, lora, "A"), part_dropout(b, lora, x, l->dropout), A, -1,
                         false, true);
    if (lora_scale(l) != 1) u = build_scale(g, part_name(b, lora, "scale"), u, lora_scale(l), 0);
    u = build_matmul(g, part_name(b, lora, "B"), u, spread(b, lora, B, &m, bits), -1, false, true);
    return build_binary(g, OP_ADD, lora, y, u);
}

enum status lora_check(const struct model *m, struct err *err)
{
    const struct lora_config *l    = &m->config.lora;
    bool                      kind = str_eq(m->config.kind, STR("gpt")) || m->config.family;
    if (!l->rank) return STATUS_OK;
    if (!kind)
        return err_set(err, STATUS_USAGE, "train.lora needs model.kind=hf or gpt, not %.*s",
                       STR_ARG(m->config.kind));
    if (hf_is_encoder(&m->config))
        return err_set(
            err, STATUS_USAGE,
            "train.lora is not supported with a classifier: its head would be frozen, too");
    if (l->weights.len && !str_eq(l->weights, STR("full")) && m->config.dtype == DT_F64)
        return err_set(err, STATUS_USAGE, "train.lora.weights=%.*s needs model.dtype=f32",
                       STR_ARG(l->weights));
    enum status st = check_count("train.lora.rank", l->rank, 1, LORA_RANK_MAX, err);
    return st ? st : check_fraction("train.lora.dropout", l->dropout, err);
}

/* Everything but the adapters is frozen; a name of train.lora.on that means nothing is an error. */
enum status lora_freeze(struct builder *b, struct err *err)
{
    const struct lora_config *l = &b->m->config.lora;
    if (!l->rank) return STATUS_OK;
    for (i32 i = 0; i < b->g->value_count; i++) {
        struct value *v = &b->g->values[i];
        if (v->kind == VALUE_PARAM) v->frozen = !lora_is_adapter(v->name);
    }
    for (i64 i = 0; i < l->on_count; i++)
        if (!(b->lora_used >> i & 1))
            return err_set(err, STATUS_USAGE,
                           "train.lora.on: the model has no matrix %.*s in its blocks",
                           STR_ARG(l->on[i]));
    return STATUS_OK;
}
