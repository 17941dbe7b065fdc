/* ckpt_manifest.c - names of checkpoints, and the manifest as text: docs/formats/checkpoint.md.
 *
 * The reader trusts nothing: the last member is a hash of all that stands before it. */
#include "base/hash.h"
#include "base/json.h"
#include "store/checkpoint.h"
#include <math.h>
#include <string.h>

/* Several writers have written it, and a reader must put ranges together: version 2. All others are of version 1. */
enum { VERSION = 1, VERSION_PARTS = 2, SHARDS_MAX = 4096, SHARD_NAME_MAX = 200 };

static const struct str seal_key = STR_INIT("\"seal\":\"");
static const i64        seal_len = 8 + 16 + 3; /* the key, 16 digits, "} and the line's end */

int ckpt_order(struct ckpt_id a, struct ckpt_id b)
{
    if (a.attempt != b.attempt) return a.attempt < b.attempt ? -1 : 1;
    return (a.save > b.save) - (a.save < b.save);
}

struct str ckpt_name(struct arena *perm, struct ckpt_id id)
{
    return str_fmt(perm, "step-%09lld.%lld.%lld", (long long)id.step, (long long)id.attempt,
                   (long long)id.save);
}

/* Digits up to `end` or the end of the text, as a number of at least `least`. */
static bool take_number(struct str *rest, char end, i64 least, i64 *out)
{
    struct str digits;
    if (!str_cut(rest, end, &digits)) return false;
    for (i64 i = 0; i < digits.len; i++)
        if (digits.data[i] < '0' || digits.data[i] > '9') return false;
    return str_i64(digits, out) && *out >= least && *out <= CKPT_NUMBER_MAX;
}

bool ckpt_name_parse(struct str name, struct ckpt_id *out)
{
    char         memory[96];
    struct arena small = { (u8 *)memory, (u8 *)memory + sizeof memory, NULL };
    struct str   rest  = str_sub(name, 5, name.len);
    if (!str_starts(name, STR("step-")) || !take_number(&rest, '.', 0, &out->step) ||
        !take_number(&rest, '.', 1, &out->attempt) || !take_number(&rest, '.', 1, &out->save))
        return false;
    return str_eq(ckpt_name(&small, *out), name); /* each has one name only */
}

i64 ckpt_bytes(const struct ckpt_manifest *m)
{
    i64 bytes = 0;
    for (i64 i = 0; i < m->shard_count; i++) bytes += m->shards[i].bytes;
    return bytes;
}

static bool is_in_parts(const struct ckpt_manifest *m)
{
    for (i64 i = 0; i < m->shard_count; i++)
        if (st_is_part(m->shards[i].name)) return true;
    return false;
}

struct str ckpt_manifest_text(struct arena *perm, const struct ckpt_manifest *m)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b,
                "{\"frugal_checkpoint\":%d,\n\"step\":%lld,\"attempt\":%lld,\"save\":%lld,\"run\":",
                is_in_parts(m) ? VERSION_PARTS : VERSION, (long long)m->id.step,
                (long long)m->id.attempt, (long long)m->id.save);
    json_add_string(&b, m->run);
    textbuf_fmt(&b, ",\"wall_ns\":%lld,\n", (long long)m->wall_ns);
    if (m->metric.len) {
        textbuf_add(&b, STR("\"metric\":"));
        json_add_string(&b, m->metric);
        textbuf_add(&b, STR(",\"value\":"));
        json_add_f64(&b, m->value);
        textbuf_fmt(&b, ",\"higher_is_better\":%s,\n", m->higher_is_better ? "true" : "false");
    }
    textbuf_fmt(&b, "\"state\":%.*s,\n\"shards\":[", STR_ARG(m->state));
    for (i64 i = 0; i < m->shard_count; i++) {
        textbuf_add(&b, i ? STR(",\n{\"name\":") : STR("\n{\"name\":"));
        json_add_string(&b, m->shards[i].name);
        textbuf_fmt(&b, ",\"bytes\":%lld,\"xxh64\":\"%016llx\"}", (long long)m->shards[i].bytes,
                    (unsigned long long)m->shards[i].hash);
    }
    textbuf_add(&b, STR("],\n"));
    textbuf_fmt(&b, "%.*s%016llx\"}\n", STR_ARG(seal_key),
                (unsigned long long)xxh64(textbuf_str(&b)));
    return textbuf_str(&b);
}

struct reader {
    struct str    path;
    struct arena *perm;
    struct err   *err;
};

static enum status damaged(const struct reader *r, const char *what)
{
    return err_set(r->err, STATUS_NO, "%.*s is damaged: %s", STR_ARG(r->path), what);
}

static bool hash_parse(struct str text, u64 *out)
{
    u32 high, low;
    if (text.len != 16 || !str_hex(str_sub(text, 0, 8), &high) ||
        !str_hex(str_sub(text, 8, 16), &low))
        return false;
    *out = (u64)high << 32 | low;
    return true;
}

static enum status check_seal(const struct reader *r, struct str text)
{
    struct str body = str_sub(text, 0, text.len - seal_len);
    struct str seal = str_sub(text, body.len, text.len);
    u64        hash;
    if (text.len < seal_len || !str_starts(seal, seal_key) || !str_ends(seal, STR("\"}\n")) ||
        !hash_parse(str_sub(seal, seal_key.len, seal_key.len + 16), &hash))
        return damaged(r, "it does not end with its seal");
    return hash == xxh64(body) ? STATUS_OK : damaged(r, "its seal does not match");
}

static bool take_string(const struct json *map, struct str key, struct str *out)
{
    const struct json *v = json_get(map, key);
    if (!v || v->kind != JSON_STRING) return false;
    *out = v->text;
    return true;
}

static bool take_count(const struct json *map, struct str key, i64 least, i64 most, i64 *out)
{
    return json_i64(json_get(map, key), out) && *out >= least && *out <= most;
}

/* A name that stays inside its folder, whatever reads it. */
static bool is_shard_name(struct str s)
{
    if (!s.len || s.len > SHARD_NAME_MAX || s.data[0] == '.' || str_eq(s, STR(CKPT_MANIFEST)))
        return false;
    for (i64 i = 0; i < s.len; i++) {
        char c    = s.data[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!word && c != '.' && c != '_' && c != '-') return false;
    }
    return true;
}

static enum status parse_shards(const struct reader *r, const struct json *list,
                                struct ckpt_manifest *out)
{
    if (!list || list->kind != JSON_LIST || list->count > SHARDS_MAX)
        return damaged(r, "it has no list \"shards\"");
    if (list->count * (i64)sizeof *out->shards + 64 > r->perm->end - r->perm->begin)
        return damaged(r, "it does not fit in memory");
    out->shards = NEW(r->perm, struct ckpt_shard, list->count);
    i64 total   = 0;
    for (const struct json *v = list->first; v; v = v->next) {
        struct ckpt_shard *s = &out->shards[out->shard_count++];
        struct str         hash;
        if (!take_string(v, STR("name"), &s->name) || !is_shard_name(s->name) ||
            !take_count(v, STR("bytes"), 0, CKPT_NUMBER_MAX - total, &s->bytes) ||
            !take_string(v, STR("xxh64"), &hash) || !hash_parse(hash, &s->hash))
            return damaged(r, "a shard is not described by name, bytes and xxh64");
        total += s->bytes;
        for (struct ckpt_shard *before = out->shards; before < s; before++)
            if (str_eq(before->name, s->name)) return damaged(r, "two shards have the same name");
    }
    return STATUS_OK;
}

/* The text of the member as it stands there: from behind its colon to the next member's comma. */
static struct str member_text(struct str text, const struct json *v)
{
    struct str s = str_trim(str_sub(text, v->at, v->next->at));
    s            = str_trim(str_sub(s, str_find(s, ':') + 1, s.len));
    return str_trim(str_sub(s, 0, s.len - 1));
}

static enum status parse_metric(const struct reader *r, const struct json *root,
                                struct ckpt_manifest *out)
{
    const struct json *value  = json_get(root, STR("value"));
    const struct json *higher = json_get(root, STR("higher_is_better"));
    out->value                = NAN;
    if (!json_get(root, STR("metric"))) return STATUS_OK;
    if (!take_string(root, STR("metric"), &out->metric) || !out->metric.len || !value || !higher ||
        higher->kind != JSON_BOOL || (value->kind != JSON_NULL && !json_f64(value, &out->value)))
        return damaged(r, "its metric has no name, value and direction");
    out->higher_is_better = str_eq(higher->text, STR("true"));
    return STATUS_OK;
}

enum status ckpt_manifest_parse(struct str path, struct str text, struct arena *perm,
                                struct ckpt_manifest *out, struct err *err)
{
    struct reader r = { path, perm, err };
    struct json  *root;
    struct err    why;
    i64           version;
    *out = (struct ckpt_manifest){ 0 };
    if (json_parse(perm, text, &root, &why)) return damaged(&r, why.text);
    if (!take_count(root, STR("frugal_checkpoint"), 1, INT64_MAX, &version))
        return damaged(&r, "it does not say which version it is");
    if (version > VERSION_PARTS)
        return err_set(err, STATUS_USAGE,
                       "%.*s has version %lld, and this frugal reads up to version %d: a newer "
                       "frugal wrote it",
                       STR_ARG(path), (long long)version, VERSION_PARTS);
    enum status        st    = check_seal(&r, text);
    const struct json *state = json_get(root, STR("state"));
    if (st) return st;
    if (!take_count(root, STR("step"), 0, CKPT_NUMBER_MAX, &out->id.step) ||
        !take_count(root, STR("attempt"), 1, CKPT_NUMBER_MAX, &out->id.attempt) ||
        !take_count(root, STR("save"), 1, CKPT_NUMBER_MAX, &out->id.save) ||
        !take_string(root, STR("run"), &out->run) ||
        !take_count(root, STR("wall_ns"), 0, INT64_MAX, &out->wall_ns))
        return damaged(&r, "it lacks step, attempt, save, run or wall_ns");
    if (!state || state->kind != JSON_MAP || !state->next)
        return damaged(&r, "it has no map \"state\"");
    out->state = member_text(text, state);
    st         = parse_metric(&r, root, out);
    return st ? st : parse_shards(&r, json_get(root, STR("shards")), out);
}
