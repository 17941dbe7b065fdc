/* pack.c - sample after sample into the shard under way. */
#include "data/pack.h"
#include "base/hash.h"
#include "base/rng.h"
#include "data/image_write.h"
#include "data/shard.h"
#include "data/stage.h"
#include "data/tar.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 200 };
static const i64 scratch_bytes = 1 << 20;

struct packer {
    struct os                *os;
    const struct place       *from;
    const struct pack_config *config;
    struct pack_result       *result;
    char                      tag[SHARD_TAG_BYTES + 1]; /* says of which pack a shard is */
    struct buffer             raw, small, spare;
    struct arena              scratch;
    i64                       count, next;             /* samples; the next to pack */
    struct file               file;                    /* of the shard under way; fd -1: none */
    i64                       bytes;                   /* written to it */
    char                      key[NAME_MAX_BYTES + 1]; /* of the sample before */
};

/* --- names ----------------------------------------------------------------------------------------- */

/* The permutation is the same for every pack of as many samples. */
static i64 sample_at(const struct packer *p, i64 index)
{
    return rng_permute(0, 0, index, p->count);
}

static struct str shard_name(const struct packer *p, i64 number, struct arena *perm)
{
    return str_fmt(perm, "%.*s-%06lld.tar", STR_ARG(p->config->to), (long long)number);
}

/* What the samples are and how they are written, as a hash: another is another pack. */
static void set_tag(struct packer *p)
{
    const struct pack_config *c    = p->config;
    struct arena              lent = { (u8 *)p->tag, (u8 *)p->tag + sizeof p->tag, NULL };
    struct xxh64              sum;
    i64 how[] = { p->count, c->shard_bytes, c->size, c->size ? c->quality : 0 };
    xxh64_init(&sum);
    xxh64_add(&sum, (struct str){ (const char *)how, sizeof how });
    for (i64 n = 0; n < p->count; n++) {
        struct arena scratch = p->scratch;
        xxh64_add(&sum, place_name(p->from, n, &scratch));
    }
    str_fmt(&lent, "pack:%016llx", (unsigned long long)xxh64_end(&sum));
}

/* Where the last part of a path begins. */
static i64 last_part(struct str path)
{
    i64 at = path.len;
    while (at > 0 && path.data[at - 1] != '/') at--;
    return at;
}

/* CLASS/NAME of CLASS/NAME.jpg, a dot in NAME made a line, because a key ends at the first one. Two of
 * the same key in a row would be one sample: the second gets its number. */
static struct str key_of(struct packer *p, i64 n, struct str *extension, struct arena *perm)
{
    struct str  name  = place_name(p->from, n, perm);
    const char *shard = memmem(name.data, (size_t)name.len, ".tar: ", 6);
    if (shard) name = str_sub(name, shard + 6 - name.data, name.len);
    i64 file = last_part(name), dot = name.len;
    i64 first = place_class(p->from, n) < 0 ? file : last_part(str_sub(name, 0, MAX(file - 1, 0)));
    while (dot > file && name.data[dot - 1] != '.') dot--;
    struct str end = str_copy(perm, str_sub(name, dot, name.len));
    char      *low = (char *)(uintptr_t)end.data; /* WebDataset's decoders know jpg, not JPG */
    for (i64 i = 0; i < end.len; i++) low[i] = (char)tolower((unsigned char)low[i]);
    *extension = end;
    name       = str_sub(name, first, MAX(dot - 1, file));
    name       = str_sub(name, name.len - NAME_MAX_BYTES, name.len);
    char *key  = NEW(perm, char, name.len + 32);
    for (i64 i = 0; i < name.len; i++) key[i] = name.data[i] == '.' ? '_' : name.data[i];
    name = (struct str){ key, name.len };
    if (!name.len || str_ends(name, STR("/")) || str_eq(name, str_of(p->key)))
        name.len += snprintf(key + name.len, 32, "_%lld", (long long)n);
    memset(p->key, 0, sizeof p->key);
    memcpy(p->key, name.data, (size_t)MIN(name.len, NAME_MAX_BYTES));
    return name;
}

/* --- one shard ------------------------------------------------------------------------------------- */

static enum status put_member(struct packer *p, struct str name, struct str bytes, struct err *err)
{
    static const char zeros[TAR_BLOCK];
    char              block[TAR_BLOCK];
    struct str        pad = { zeros, (TAR_BLOCK - bytes.len % TAR_BLOCK) % TAR_BLOCK };
    if (!tar_header(block, name, bytes.len))
        return err_set(err, STATUS_USAGE, "%.*s does not fit into a tar archive", STR_ARG(name));
    enum status st = p->os->write(p->os, p->file, (struct str){ block, TAR_BLOCK }, err);
    if (!st && bytes.len) st = p->os->write(p->os, p->file, bytes, err);
    if (!st && pad.len) st = p->os->write(p->os, p->file, pad, err);
    p->bytes += TAR_BLOCK + bytes.len + pad.len;
    return st;
}

static enum status put_sample(struct packer *p, i64 n, struct err *err)
{
    struct arena scratch = p->scratch;
    i64 class            = place_class(p->from, n);
    struct str  extension, key = key_of(p, n, &extension, &scratch);
    enum status st    = place_read(p->from, n, &p->raw, NULL, err);
    struct str  bytes = { (const char *)p->raw.data, p->raw.bytes };
    if (st) return st;
    p->result->bytes_in += bytes.len;
    if (p->config->size) {
        bool changed;
        st = image_shrink(place_name(p->from, n, &scratch), bytes, p->config->size,
                          p->config->quality, &p->small, &p->spare, &changed, err);
        if (!st && changed) {
            bytes     = (struct str){ (const char *)p->small.data, p->small.bytes };
            extension = STR("jpg");
        }
    }
    if (!st)
        st = put_member(p, str_fmt(&scratch, "%.*s.%.*s", STR_ARG(key), STR_ARG(extension)), bytes,
                        err);
    if (!st && class >= 0)
        st = put_member(p, str_cat(&scratch, key, STR(".cls")),
                        str_fmt(&scratch, "%lld", (long long)class), err);
    return st;
}

/* Index first, then the shard's name: a shard that is there is whole, and so is its index. */
static enum status publish(struct packer *p, struct str part, struct str path, struct err *err)
{
    struct os   *os      = p->os;
    struct arena scratch = p->scratch, own = { 0 };
    struct str   bytes = STR(""), index;
    enum status  st    = os->map(os, part, &bytes, err);
    if (!st) own = arena_open(bytes.len + (1 << 20));
    if (!st && !own.begin) st = err_set(err, STATUS_WORLD, "no memory for an index");
    if (!st) st = shard_index_make(path, bytes, str_of(p->tag), &own, &index, err);
    if (!st) st = os_publish(os, str_cat(&scratch, path, STR(".idx")), index, scratch, err);
    if (!st) st = os->rename(os, part, path, err);
    if (!st) st = os->sync_dir_of(os, path, err);
    if (bytes.len) os->unmap(os, bytes);
    if (own.begin) arena_close(&own);
    return st;
}

static enum status pack_shard(struct packer *p, i64 number, pack_progress *progress, void *context,
                              struct err *err)
{
    static const char zeros[2 * TAR_BLOCK];
    struct os        *os      = p->os;
    struct arena      scratch = p->scratch;
    struct str        path = shard_name(p, number, &scratch), part = os_part_name(&scratch, path);
    os_part_sweep(os, path, scratch);
    enum status st = os->create(os, part, &p->file, err);
    p->bytes       = 0;
    p->key[0]      = '\0';
    p->scratch     = scratch;
    while (!st && p->next < p->count && p->bytes < p->config->shard_bytes) {
        st = put_sample(p, sample_at(p, p->next++), err);
        if (!st && !progress(context, p->next, p->count))
            st = err_set(err, STATUS_INTERRUPTED, "stopped; run the same command to resume");
    }
    if (!st) st = os->write(os, p->file, (struct str){ zeros, sizeof zeros }, err);
    if (!st) st = os->sync(os, p->file, err);
    if (p->file.fd >= 0 && os->close(os, &p->file, st ? NULL : err) && !st) st = STATUS_WORLD;
    if (!st) st = os_maps_check(err); /* before samples become a shard that is believed */
    if (!st) st = publish(p, part, path, err);
    if (st) os->remove(os, part, NULL);
    p->result->bytes_out += p->bytes + (i64)sizeof zeros;
    return st;
}

/* The shard is there: is it one of this pack? Then its samples are done. NO: it is not there. */
static enum status look_at(struct packer *p, i64 number, struct err *err)
{
    struct os         *os      = p->os;
    struct arena       scratch = p->scratch;
    struct str         path = shard_name(p, number, &scratch), bytes = STR("");
    struct os_stat     stat;
    struct shard_index x = { 0 };
    if (os->stat(os, path, &stat, NULL)) return STATUS_NO;
    struct str  index = str_cat(&scratch, path, STR(".idx"));
    enum status st    = os->map(os, index, &bytes, NULL);
    if (!st) st = shard_index_parse(index, bytes, &x, NULL);
    bool ours = !st && str_eq(x.tag, str_of(p->tag)) && x.shard_bytes == stat.bytes &&
                x.count <= p->count - p->next;
    if (ours) p->next += x.count;
    if (bytes.len) os->unmap(os, bytes);
    if (ours) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "%.*s exists and was packed from other samples or with other flags; remove it, or "
        "pack to another name",
        STR_ARG(path));
}

enum status pack(struct os *os, const struct place *from, const struct pack_config *config,
                 pack_progress *progress, void *context, struct pack_result *out, struct err *err)
{
    struct packer p   = { .os      = os,
                          .from    = from,
                          .config  = config,
                          .result  = out,
                          .count   = place_count(from),
                          .file    = { -1 },
                          .scratch = arena_open(scratch_bytes) };
    struct arena  own = p.scratch;
    enum status   st  = STATUS_OK;
    *out              = (struct pack_result){ .samples = p.count };
    if (!own.begin) return err_set(err, STATUS_WORLD, "no memory to pack");
    set_tag(&p);
    i64 file = last_part(config->to);
    if (file > 1) st = os->make_dir(os, str_sub(config->to, 0, file - 1), err);
    while (!st && p.next < p.count) {
        struct arena scratch = p.scratch;
        st                   = look_at(&p, out->shards, err);
        if (!st) out->shards_before++;
        if (st == STATUS_NO) st = pack_shard(&p, out->shards, progress, context, err);
        p.scratch = scratch;
        if (!st) out->shards++;
    }
    buffer_release(&p.raw);
    buffer_release(&p.small);
    buffer_release(&p.spare);
    arena_close(&own);
    return st;
}

/* --- speed ----------------------------------------------------------------------------------------- */

enum status pack_measure(struct os *os, const struct place *p, f64 seconds, struct pack_speed *out,
                         struct err *err)
{
    struct buffer b     = { 0 };
    i64           count = place_count(p), begin = os->now_ns(os), samples = 0, bytes = 0;
    enum status   st = STATUS_OK;
    f64           passed;
    do {
        st = place_read(p, rng_permute(1, (u64)(samples / count), samples % count, count), &b, NULL,
                        err);
        samples++;
        bytes += b.bytes;
        passed = 1e-9 * (f64)(os->now_ns(os) - begin);
    } while (!st && passed < seconds);
    *out = (struct pack_speed){ (f64)samples / passed, (f64)bytes / passed };
    buffer_release(&b);
    return st;
}
