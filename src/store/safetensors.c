/* safetensors.c - reading and writing the format of Hugging Face's safetensors.
 *
 *     u64 N | N bytes of JSON, padded with spaces | the tensors' bytes, no holes, no overlap
 *
 * The reader trusts nothing: each rule of the format that a file breaks is one sentence. */
#include "store/safetensors.h"
#include "base/json.h"
#include "store/store_int.h"
#include <stdlib.h>
#include <string.h>

static const i64 header_bytes_max = 100000000; /* the format's own limit */

/* In the order in which Python's writer lays out tensors, so that each begins aligned. */
static const struct st_dtype {
    const char *name;
    i64         bytes;
} dtypes[] = {
    { "U64", 8 },     { "I64", 8 },     { "F64", 8 }, { "F32", 4 }, { "U32", 4 },
    { "I32", 4 },     { "BF16", 2 },    { "F16", 2 }, { "U16", 2 }, { "I16", 2 },
    { "F8_E4M3", 1 }, { "F8_E5M2", 1 }, { "I8", 1 },  { "U8", 1 },  { "BOOL", 1 },
};

static const struct st_dtype *dtype_find(struct str name)
{
    for (i64 i = 0; i < COUNT_OF(dtypes); i++)
        if (str_eq(name, str_of(dtypes[i].name))) return &dtypes[i];
    return NULL;
}

/* Bytes of so many elements, or -1 where that is more than any file has. */
static i64 bytes_of(struct shape shape, i64 element_bytes)
{
    i64 bytes = element_bytes;
    for (i32 i = 0; i < shape.rank; i++)
        if (shape.dim[i] == 0) return 0;
    for (i32 i = 0; i < shape.rank; i++) {
        if (bytes > INT64_MAX / shape.dim[i]) return -1;
        bytes *= shape.dim[i];
    }
    return bytes;
}

/* A whole number written with digits only: 7.0 and 1e1 are not what the format asks for. */
static bool whole_number(const struct json *v, i64 *out)
{
    if (!v || v->kind != JSON_NUMBER) return false;
    for (i64 i = 0; i < v->text.len; i++)
        if (v->text.data[i] < '0' || v->text.data[i] > '9') return false;
    return str_i64(v->text, out);
}

struct reader {
    struct str    path;
    struct str    data; /* behind the header */
    struct arena *perm;
    struct err   *err;
};

static enum status bad_tensor(const struct reader *r, struct str name, const char *what)
{
    return err_set(r->err, STATUS_USAGE, "%.*s: tensor %.*s %s", STR_ARG(r->path), STR_ARG(name),
                   what);
}

static enum status parse_shape(const struct reader *r, const struct json *v, struct st_tensor *t)
{
    if (!v || v->kind != JSON_LIST) return bad_tensor(r, t->name, "has no list \"shape\"");
    if (v->count > RANK_MAX)
        return err_set(r->err, STATUS_USAGE,
                       "%.*s: tensor %.*s has %lld dimensions; at most %d are supported",
                       STR_ARG(r->path), STR_ARG(t->name), (long long)v->count, RANK_MAX);
    for (const struct json *item = v->first; item; item = item->next)
        if (!whole_number(item, &t->shape.dim[t->shape.rank++]))
            return bad_tensor(r, t->name, "has a dimension that is not a whole number");
    return STATUS_OK;
}

/* Where the bytes lie, and that there are as many as dtype and shape ask for. */
static enum status parse_offsets(const struct reader *r, const struct json *v, i64 element_bytes,
                                 struct st_tensor *t)
{
    i64 begin, end, need = bytes_of(t->shape, element_bytes);
    if (!v || v->kind != JSON_LIST || v->count != 2 || !whole_number(v->first, &begin) ||
        !whole_number(v->first->next, &end))
        return bad_tensor(r, t->name, "has no \"data_offsets\" of two whole numbers");
    if (begin > end || end > r->data.len)
        return err_set(r->err, STATUS_USAGE,
                       "%.*s: tensor %.*s is at bytes %lld to %lld of %lld; is the file truncated?",
                       STR_ARG(r->path), STR_ARG(t->name), (long long)begin, (long long)end,
                       (long long)r->data.len);
    if (need < 0) return bad_tensor(r, t->name, "has a shape larger than any file");
    if (need != end - begin)
        return err_set(r->err, STATUS_USAGE,
                       "%.*s: tensor %.*s has %lld bytes, but its shape and type need %lld",
                       STR_ARG(r->path), STR_ARG(t->name), (long long)(end - begin),
                       (long long)need);
    t->bytes = str_sub(r->data, begin, end);
    return STATUS_OK;
}

static enum status parse_tensor(const struct reader *r, const struct json *v, struct st_tensor *t)
{
    const struct json *dtype = json_get(v, STR("dtype"));
    t->name                  = str_copy(r->perm, v->key);
    if (v->kind != JSON_MAP || v->count != 3 || !dtype || dtype->kind != JSON_STRING)
        return bad_tensor(r, t->name, "is not described by dtype, shape and data_offsets");
    const struct st_dtype *known = dtype_find(dtype->text);
    if (!known)
        return err_set(r->err, STATUS_USAGE, "%.*s: tensor %.*s has the unknown type \"%.*s\"",
                       STR_ARG(r->path), STR_ARG(t->name), STR_ARG(dtype->text));
    t->dtype       = str_of(known->name);
    enum status st = parse_shape(r, json_get(v, STR("shape")), t);
    if (!st) st = parse_offsets(r, json_get(v, STR("data_offsets")), known->bytes, t);
    return st;
}

static const struct str about_key = STR_INIT("frugal"), parts_key = STR_INIT("parts");
static const i64        parts_max = 4096; /* as many shards as a manifest may name */

static enum status read_metadata(const struct reader *r, const struct json *map,
                                 struct st_file *out)
{
    const struct json *ours = json_get(map, about_key), *parts = json_get(map, parts_key);
    bool               strings = map->kind == JSON_MAP;
    i64                count   = 1;
    for (const struct json *v = map->first; v; v = v->next) strings &= v->kind == JSON_STRING;
    if (strings && ours) out->about = str_copy(r->perm, ours->text);
    if (strings && parts && str_i64(parts->text, &count) && count >= 1 && count <= parts_max)
        out->parts = count;
    if (strings) return STATUS_OK;
    return err_set(r->err, STATUS_USAGE, "%.*s: __metadata__ is not a map of strings",
                   STR_ARG(r->path));
}

static int by_place(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;
    if (x->bytes.data != y->bytes.data) return x->bytes.data < y->bytes.data ? -1 : 1;
    return (x->bytes.len > y->bytes.len) - (x->bytes.len < y->bytes.len); /* empty ones first */
}

/* The tensors cover the data from its first byte to its last, each byte once. */
static enum status check_cover(const struct reader *r, struct st_file *f)
{
    i64 at = 0;
    qsort(f->tensors, (size_t)f->count, sizeof *f->tensors, by_place);
    for (i64 i = 0; i < f->count; i++) {
        const struct st_tensor *t     = &f->tensors[i];
        i64                     begin = t->bytes.data - r->data.data;
        if (begin < at)
            return err_set(r->err, STATUS_USAGE, "%.*s: tensor %.*s overlaps tensor %.*s",
                           STR_ARG(r->path), STR_ARG(t->name), STR_ARG(t[-1].name));
        if (begin > at) break;
        at += t->bytes.len;
    }
    if (at == r->data.len) return STATUS_OK;
    return err_set(r->err, STATUS_USAGE, "%.*s: no tensor holds the bytes from %lld on, of %lld",
                   STR_ARG(r->path), (long long)at, (long long)r->data.len);
}

static enum status parse_header(const struct reader *r, const struct json *root, struct str header,
                                struct st_file *out)
{
    enum status st   = STATUS_OK;
    i64         need = header.len + (root->count + 1) * (i64)sizeof *out->tensors;
    if (need > r->perm->end - r->perm->begin)
        return err_set(r->err, STATUS_WORLD, "%.*s: %lld tensors are too many", STR_ARG(r->path),
                       (long long)root->count);
    out->parts   = 1;
    out->tensors = NEW(r->perm, struct st_tensor, root->count);
    for (const struct json *v = root->first; v && !st; v = v->next) {
        if (str_eq(v->key, STR("__metadata__"))) st = read_metadata(r, v, out);
        else st = parse_tensor(r, v, &out->tensors[out->count++]);
    }
    return st ? st : check_cover(r, out);
}

/* The tree of the header lives in an arena of its own: 100 MB of "[0,0,0" would be a large one. */
static enum status parse_tree(const struct reader *r, struct str header, struct st_file *out)
{
    static const i64 tree_bytes_per_byte = 64; /* one node of 80 bytes for "0,", one key for 4 */
    struct arena     tree                = arena_open(header.len * tree_bytes_per_byte + (1 << 16));
    struct json     *root;
    struct err       why;
    if (!tree.begin)
        return err_set(r->err, STATUS_WORLD, "%.*s: no memory for its header of %lld bytes",
                       STR_ARG(r->path), (long long)header.len);
    enum status st = json_parse(&tree, header, &root, &why);
    if (st)
        st = err_set(r->err, STATUS_USAGE, "%.*s: the header is not JSON: %s", STR_ARG(r->path),
                     why.text);
    else st = parse_header(r, root, header, out);
    arena_close(&tree);
    return st;
}

enum status st_parse(struct str path, struct str bytes, struct arena *perm, struct st_file *out,
                     struct err *err)
{
    u64 said = 0;
    if (bytes.len >= 8) memcpy(&said, bytes.data, 8);
    i64 left = bytes.len - 8;
    if (left < 2)
        return err_set(err, STATUS_USAGE, "%.*s: %lld bytes are too few for a safetensors file",
                       STR_ARG(path), (long long)bytes.len);
    if (said > (u64)header_bytes_max || (i64)said > left)
        return err_set(
            err, STATUS_USAGE,
            "%.*s: not a safetensors file, or truncated: it announces a header of %llu bytes, "
            "of which %lld follow and %lld are allowed",
            STR_ARG(path), (unsigned long long)said, (long long)left, (long long)header_bytes_max);
    struct str header = str_sub(bytes, 8, 8 + (i64)said);
    while (str_ends(header, STR(" "))) header.len--; /* the padding */
    if (!str_starts(header, STR("{")) || !str_ends(header, STR("}")))
        return err_set(err, STATUS_USAGE, "%.*s: the header is not one JSON map in { and }",
                       STR_ARG(path));
    struct reader r = { path, str_sub(bytes, 8 + (i64)said, bytes.len), perm, err };
    return parse_tree(&r, header, out);
}

enum status st_open(struct os *os, struct str path, struct arena *perm, struct st_file *out,
                    struct err *err)
{
    *out           = (struct st_file){ 0 };
    enum status st = os->map(os, path, &out->mapped, err);
    if (!st) st = st_parse(path, out->mapped, perm, out, err);
    if (st) st_close(os, out);
    return st;
}

void st_close(struct os *os, struct st_file *f)
{
    if (f->mapped.len) os->unmap(os, f->mapped);
    *f = (struct st_file){ 0 };
}

struct str st_type_text(struct arena *perm, const struct st_tensor *t)
{
    char       type[8];
    struct str shape = type_text(perm, type_of(DT_F32, t->shape));
    i64        len   = MIN(t->dtype.len, (i64)sizeof type);
    for (i64 i = 0; i < len; i++) {
        char c  = t->dtype.data[i];
        type[i] = (char)(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
    }
    return str_cat(perm, (struct str){ type, len },
                   str_sub(shape, str_find(shape, '['), shape.len));
}

const struct st_tensor *st_find(const struct st_file *f, struct str name)
{
    for (i64 i = 0; i < f->count; i++)
        if (str_eq(f->tensors[i].name, name)) return &f->tensors[i];
    return NULL;
}

static int text_order(struct str a, struct str b)
{
    int order = memcmp(a.data, b.data, (size_t)MIN(a.len, b.len));
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int by_name(const void *a, const void *b)
{
    const struct st_tensor *const *x = a, *const *y = b;
    return text_order((*x)->name, (*y)->name);
}

static int by_dtype_and_name(const void *a, const void *b)
{
    const struct st_tensor *const *x = a, *const *y = b;
    const struct st_dtype         *p = dtype_find((*x)->dtype), *q = dtype_find((*y)->dtype);
    return p != q ? (p > q) - (p < q) : by_name(a, b);
}

/* The tensors in the order of the file. What the caller may not ask for is our fault. */
static const struct st_tensor **sorted(const struct st_tensor *tensors, i64 count,
                                       struct arena *scratch)
{
    const struct st_tensor **order = NEW(scratch, const struct st_tensor *, count);
    for (i64 i = 0; i < count; i++) {
        const struct st_dtype *dtype = dtype_find(tensors[i].dtype);
        ASSERT(dtype != NULL);
        ASSERT(bytes_of(tensors[i].shape, dtype->bytes) == tensors[i].bytes.len);
        ASSERT(!str_eq(tensors[i].name, STR("__metadata__")));
        order[i] = &tensors[i];
    }
    qsort(order, (size_t)count, sizeof *order, by_name);
    for (i64 i = 1; i < count; i++) ASSERT(!str_eq(order[i - 1]->name, order[i]->name));
    qsort(order, (size_t)count, sizeof *order, by_dtype_and_name);
    return order;
}

/* Length and JSON, padded so that the tensors begin at a multiple of 8. transformers refuses a file
 * whose metadata does not say "pt". */
static struct str header_of(const struct st_tensor *const *order, i64 count, struct str about,
                            i64 parts, struct arena *scratch)
{
    struct textbuf b  = textbuf_new(scratch);
    i64            at = 0;
    textbuf_add(&b, (struct str){ "\0\0\0\0\0\0\0\0", 8 });
    textbuf_add(&b, STR("{\"__metadata__\":{\"format\":\"pt\""));
    if (about.len) {
        textbuf_fmt(&b, ",\"%.*s\":", STR_ARG(about_key));
        json_add_string(&b, about);
    }
    if (parts > 1) textbuf_fmt(&b, ",\"%.*s\":\"%lld\"", STR_ARG(parts_key), (long long)parts);
    textbuf_add(&b, STR("}"));
    for (i64 i = 0; i < count; i++) {
        const struct st_tensor *t = order[i];
        textbuf_add(&b, STR(","));
        json_add_string(&b, t->name);
        textbuf_fmt(&b, ":{\"dtype\":\"%.*s\",\"shape\":[", STR_ARG(t->dtype));
        for (i32 k = 0; k < t->shape.rank; k++)
            textbuf_fmt(&b, "%s%lld", k ? "," : "", (long long)t->shape.dim[k]);
        textbuf_fmt(&b, "],\"data_offsets\":[%lld,%lld]}", (long long)at,
                    (long long)(at + t->bytes.len));
        at += t->bytes.len;
    }
    textbuf_add(&b, STR("}"));
    while (b.len % 8) textbuf_add(&b, STR(" "));
    u64 header_bytes = (u64)b.len - 8;
    ASSERT(header_bytes <= (u64)header_bytes_max);
    memcpy(b.data, &header_bytes, 8);
    return textbuf_str(&b);
}

struct str *st_pieces(const struct st_tensor *tensors, i64 count, struct arena *scratch)
{
    const struct st_tensor **order  = sorted(tensors, count, scratch);
    struct str              *pieces = NEW(scratch, struct str, 1 + count);
    for (i64 i = 0; i < count; i++) pieces[1 + i] = order[i]->bytes;
    pieces[0] = header_of(order, count, STR(""), 1, scratch);
    return pieces;
}

i64 st_lay_out(struct st_tensor *tensors, i64 count, i64 parts, u8 *to, struct arena scratch)
{
    const struct st_tensor **order  = sorted(tensors, count, &scratch);
    struct str               header = header_of(order, count, STR(""), parts, &scratch);
    i64                      at     = header.len;
    if (to) memcpy(to, header.data, (size_t)header.len);
    for (i64 i = 0; i < count; i++) {
        struct st_tensor *t = &tensors[order[i] - tensors];
        if (to) t->bytes.data = (const char *)to + at;
        at += t->bytes.len;
    }
    return at;
}

struct making {
    const struct st_made    *from;
    const struct st_tensor **order;
    struct str               header;
};

static struct str piece_at(const void *context, i64 i)
{
    const struct making *m = context;
    return i ? m->from->bytes(m->from->context, m->order[i - 1] - m->from->tensors) : m->header;
}

enum status st_save_from(struct os *os, struct str path, const struct st_made *from,
                         struct str about, struct arena scratch, struct err *err)
{
    struct making m = { .from = from, .order = sorted(from->tensors, from->count, &scratch) };
    m.header        = header_of(m.order, from->count, about, 1, &scratch);
    struct os_pieces pieces = { piece_at, &m, 1 + from->count };
    return os_publish_from(os, path, &pieces, scratch, err);
}

enum status st_save(struct os *os, struct str path, const struct st_tensor *tensors, i64 count,
                    struct arena scratch, struct err *err)
{
    struct str *pieces = st_pieces(tensors, count, &scratch);
    return os_publish_parts(os, path, pieces, 1 + count, scratch, err);
}
