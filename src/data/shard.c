/* shard.c - making, checking and asking an index. */
#include "data/shard.h"
#include "base/hash.h"
#include "data/tar.h"
#include <string.h>
#include <strings.h>

struct head { /* how the file begins */
    char magic[8];
    u32  version, zero;
    i64  shard_bytes;
    char tag[SHARD_TAG_BYTES];
    i64  count, member_count, name_bytes;
    u64  sum; /* XXH64 of all that follows */
};
_Static_assert(sizeof(struct head) == 120, "as docs/formats/shards.md says");
_Static_assert(sizeof(struct shard_sample) == 16, "as docs/formats/shards.md says");
_Static_assert(sizeof(struct shard_member) == 24, "as docs/formats/shards.md says");

static const char magic[8] = { 'f', 'r', 'u', 'g', 'a', 'l', 'i', 'x' };

struct str shard_key(struct str name, struct str *extension)
{
    i64 slash = name.len;
    while (slash > 0 && name.data[slash - 1] != '/') slash--;
    struct str last = str_sub(name, slash, name.len);
    i64        dot  = str_find(last, '.');
    if (dot < 1) return (struct str){ 0 };
    *extension = str_sub(last, dot + 1, last.len);
    return str_sub(name, 0, slash + dot);
}

bool shard_is_payload(struct str extension)
{
    static const char *const known[] = { "jpg", "jpeg", "png" };
    for (i64 i = 0; i < COUNT_OF(known); i++) {
        struct str k = str_of(known[i]);
        if (k.len == extension.len && !strncasecmp(k.data, extension.data, (size_t)k.len))
            return true;
    }
    return false;
}

/* --- making ---------------------------------------------------------------------------------------- */

/* The tables grow side by side: how many there will be is known only at the end. */
struct maker {
    struct tar           tar;
    struct arena         own;
    struct shard_sample *sample;
    struct shard_member *member;
    struct textbuf       names;
    struct arena         samples, members, text;
    i64                  count, member_count;
    struct str           key; /* of the sample under way */
};

static bool has_extension(const struct maker *m, struct str extension)
{
    for (i64 i = m->sample[m->count - 1].first; i < m->member_count; i++) {
        struct str e    = STR(""),
                   name = { m->names.data + m->member[i].name_at, m->member[i].name_bytes };
        shard_key(name, &e);
        if (str_eq(e, extension)) return true;
    }
    return false;
}

static enum status read_class(const struct maker *m, const struct tar_member *t, i32 *class,
                              struct err *err)
{
    struct str text  = str_trim((struct str){ m->tar.bytes.data + t->at, MIN(t->bytes, 40) });
    i64        value = -1;
    if (!str_i64(text, &value) || value < 0 || value >= INT32_MAX)
        return err_set(err, STATUS_USAGE, "%.*s: %.*s holds \"%.*s\", which is not a class",
                       STR_ARG(m->tar.path), STR_ARG(t->name), STR_ARG(text));
    *class = (i32)value;
    return STATUS_OK;
}

static enum status add_member(struct maker *m, const struct tar_member *t, struct err *err)
{
    struct str extension, key = shard_key(t->name, &extension);
    if (!key.data) return STATUS_OK; /* a file without a dot: no part of a sample */
    if (!m->count || !str_eq(key, m->key) || has_extension(m, extension)) {
        struct shard_sample *s = NEW(&m->samples, struct shard_sample, 1);
        *s                     = (struct shard_sample){ .first = m->member_count, .class = -1 };
        if (!m->sample) m->sample = s;
        m->count++;
        m->key = key;
    }
    if (m->names.len > UINT32_MAX - t->name.len)
        return err_set(err, STATUS_USAGE, "%.*s: its names take more than 4 GiB",
                       STR_ARG(m->tar.path));
    struct shard_member *member = NEW(&m->members, struct shard_member, 1);
    *member = (struct shard_member){ t->at, t->bytes, (u32)m->names.len, (u32)t->name.len };
    if (!m->member) m->member = member;
    m->member_count++;
    textbuf_add(&m->names, t->name);
    bool is_class = str_eq(extension, STR("cls"));
    return is_class ? read_class(m, t, &m->sample[m->count - 1].class, err) : STATUS_OK;
}

static struct str file_of(struct maker *m, struct str tag, struct arena *perm)
{
    struct shard_sample *end = NEW(&m->samples, struct shard_sample, 1);
    *end                     = (struct shard_sample){ .first = m->member_count, .class = -1 };
    if (!m->sample) m->sample = end;
    i64         sample_bytes = (m->count + 1) * (i64)sizeof *m->sample;
    i64         member_bytes = m->member_count * (i64)sizeof *m->member;
    i64         bytes = (i64)sizeof(struct head) + sample_bytes + member_bytes + m->names.len;
    char       *to    = arena_take(perm, bytes, 1, 8);
    char       *at    = to + sizeof(struct head);
    struct head h     = { .version      = 1,
                          .shard_bytes  = m->tar.bytes.len,
                          .count        = m->count,
                          .member_count = m->member_count,
                          .name_bytes   = m->names.len };
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.tag, tag.data, (size_t)tag.len);
    memcpy(at, m->sample, (size_t)sample_bytes);
    if (member_bytes) memcpy(at + sample_bytes, m->member, (size_t)member_bytes);
    if (m->names.len) memcpy(at + sample_bytes + member_bytes, m->names.data, (size_t)m->names.len);
    h.sum = xxh64((struct str){ at, bytes - (i64)sizeof h });
    memcpy(to, &h, sizeof h);
    return (struct str){ to, bytes };
}

enum status shard_index_make(struct str path, struct str shard, struct str tag, struct arena *perm,
                             struct str *out, struct err *err)
{
    /* A member takes two blocks or more, so this is room for all there can be; names of one header
     * take 255 bytes, longer ones lie in the shard itself. */
    i64               members = shard.len / TAR_BLOCK + 1;
    struct maker      m       = { .tar = { .path = path, .bytes = shard } };
    struct tar_member t;
    ASSERT(tag.len <= SHARD_TAG_BYTES);
    m.own = arena_open(members * 64 + shard.len * 4 + (1 << 20));
    if (!m.own.begin)
        return err_set(err, STATUS_WORLD, "%.*s: no memory for its index", STR_ARG(path));
    m.samples = arena_part(&m.own, (members + 1) * (i64)sizeof *m.sample + 256);
    m.members = arena_part(&m.own, members * (i64)sizeof *m.member + 256);
    m.text    = arena_part(&m.own, shard.len + (1 << 16));
    m.names   = textbuf_new(&m.own);
    enum status st;
    while (!(st = tar_next(&m.tar, &m.text, &t, err)))
        if ((st = add_member(&m, &t, err))) break;
    if (st == STATUS_NO) {
        *out = file_of(&m, tag, perm);
        st   = STATUS_OK;
    }
    arena_close(&m.own);
    return st;
}

/* --- checking -------------------------------------------------------------------------------------- */

static bool tables_are_right(const struct shard_index *x, i64 name_bytes)
{
    if (x->sample[0].first != 0 || x->sample[x->count].first != x->member_count) return false;
    for (i64 i = 0; i < x->count; i++)
        if (x->sample[i].first >= x->sample[i + 1].first || x->sample[i].class < -1) return false;
    for (i64 i = 0; i < x->member_count; i++) {
        const struct shard_member *m = &x->member[i];
        if (m->at < TAR_BLOCK || m->at % TAR_BLOCK || m->at > x->shard_bytes) return false;
        if (m->bytes < 0 || m->bytes > x->shard_bytes - m->at) return false;
        if (m->name_at > name_bytes || m->name_bytes > name_bytes - m->name_at) return false;
    }
    return true;
}

enum status shard_index_parse(struct str path, struct str bytes, struct shard_index *out,
                              struct err *err)
{
    struct head h = { 0 };
    *out          = (struct shard_index){ .path = path };
    if (bytes.len >= (i64)sizeof h) memcpy(&h, bytes.data, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic))
        return err_set(err, STATUS_USAGE, "%.*s is not the index of a shard", STR_ARG(path));
    if (h.version != 1)
        return err_set(err, STATUS_USAGE, "%.*s is an index of version %u; this frugal reads 1",
                       STR_ARG(path), h.version);
    i64  left   = bytes.len - (i64)sizeof h;
    i64  sample = (i64)sizeof *out->sample, member = (i64)sizeof *out->member;
    bool fits = h.count >= 0 && h.count < left / sample && h.member_count >= 0 &&
                h.member_count <= (left - (h.count + 1) * sample) / member &&
                h.name_bytes == left - (h.count + 1) * sample - h.member_count * member;
    const char *at = bytes.data + sizeof h;
    if (!fits || (uintptr_t)at % 8 || h.sum != xxh64((struct str){ at, left }))
        return err_set(err, STATUS_USAGE, "%.*s is damaged", STR_ARG(path));
    out->shard_bytes = h.shard_bytes;
    out->tag =
        (struct str){ bytes.data + offsetof(struct head, tag), (i64)strnlen(h.tag, sizeof h.tag) };
    out->count        = h.count;
    out->member_count = h.member_count;
    out->sample       = (const void *)at;
    out->member       = (const void *)(at + (h.count + 1) * sample);
    out->names        = at + (h.count + 1) * sample + h.member_count * member;
    if (!tables_are_right(out, h.name_bytes))
        return err_set(err, STATUS_USAGE, "%.*s refers to data that is not in its shard",
                       STR_ARG(path));
    return STATUS_OK;
}

/* --- asking ---------------------------------------------------------------------------------------- */

struct str shard_member_name(const struct shard_index *x, i64 member)
{
    ASSERT(member >= 0 && member < x->member_count);
    return (struct str){ x->names + x->member[member].name_at, x->member[member].name_bytes };
}

i64 shard_payload(const struct shard_index *x, i64 sample)
{
    ASSERT(sample >= 0 && sample < x->count);
    for (i64 i = x->sample[sample].first; i < x->sample[sample + 1].first; i++) {
        struct str extension = STR("");
        shard_key(shard_member_name(x, i), &extension);
        if (shard_is_payload(extension)) return i;
    }
    return -1;
}
