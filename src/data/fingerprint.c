/* fingerprint.c - how data files are known again: by their size, and a hash of their content or, of large ones, of
 * blocks in even distances. Of a folder the names of all samples and the sizes of some; of shards and remote
 * files, name and size: reading them again would cost what training on them does. A path is no part of it:
 * data may move. */
#include "base/hash.h"
#include "data/data_int.h"
#include "data/place_int.h"
#include "remote/address.h"
#include "remote/files.h"

static const i64 whole_max   = 64 << 20; /* hashed whole up to this */
static const i64 block_bytes = 64 << 10;
enum { BLOCKS = 64 }; /* of a larger file, the first and the last among them */

static void add_i64(struct xxh64 *h, i64 v) { xxh64_add(h, (struct str){ (char *)&v, sizeof v }); }

static struct str base_name(struct str path)
{
    i64 slash = path.len;
    while (slash > 0 && path.data[slash - 1] != '/') slash--;
    return str_sub(path, slash, path.len);
}

void fingerprint_file(struct xxh64 *h, struct str path, i64 bytes)
{
    xxh64_add(h, base_name(address_path(path)));
    add_i64(h, bytes);
}

/* Reads the file: 64 MiB at most. */
static enum status hash_file(struct os *os, struct str path, i64 bytes, struct arena scratch,
                             struct xxh64 *h, struct err *err)
{
    enum status st    = STATUS_OK;
    bool        whole = bytes <= whole_max;
    i64         count = whole ? (bytes + block_bytes - 1) / block_bytes : BLOCKS;
    u8         *room  = NEW(&scratch, u8, block_bytes);
    add_i64(h, bytes);
    for (i64 i = 0; i < count && !st; i++) {
        i64 at = whole ? i * block_bytes : (bytes - block_bytes) / (BLOCKS - 1) * i;
        if (!whole && i == BLOCKS - 1) at = bytes - block_bytes;
        i64 some = MIN(block_bytes, bytes - at);
        st       = read_range(os, path, at, some, room, err);
        xxh64_add(h, (struct str){ (char *)room, some });
    }
    return st;
}

static enum status add_remote(struct remote_files *remote, struct str path, struct xxh64 *h,
                              i64 *bytes, struct err *err)
{
    struct remote_file version;
    enum status        st = remote_file_stat(remote, path, NULL, &version, err);
    if (st) return st;
    *bytes += version.bytes;
    fingerprint_file(h, path, version.bytes);
    return STATUS_OK;
}

static enum status add_local(struct os *os, struct str path, struct arena scratch, struct xxh64 *h,
                             i64 *bytes, struct err *err)
{
    struct os_stat stat;
    enum status    st = os->stat(os, path, &stat, err);
    if (st) return st;
    *bytes += stat.bytes;
    return hash_file(os, path, stat.bytes, scratch, h, err);
}

static struct str place_text(const struct place *p, struct arena *perm)
{
    struct xxh64 h;
    xxh64_init(&h);
    p->kind->fingerprint(p, &h);
    return str_fmt(perm, "%lld samples, %016llx", (long long)p->count,
                   (unsigned long long)xxh64_end(&h));
}

static enum status files_text(const struct dataset *d, struct remote_files *remote,
                              const struct str *paths, i64 count, struct arena *perm,
                              struct str *out, struct err *err)
{
    struct xxh64 h;
    i64          bytes = 0;
    enum status  st    = STATUS_OK;
    xxh64_init(&h);
    for (i64 i = 0; i < count && !st; i++)
        st = address_is_remote(paths[i]) ? add_remote(remote, paths[i], &h, &bytes, err)
                                         : add_local(d->os, paths[i], *perm, &h, &bytes, err);
    *out =
        str_fmt(perm, "%lld bytes, %016llx", (long long)bytes, (unsigned long long)xxh64_end(&h));
    return st;
}

enum status dataset_fingerprints(const struct dataset *d, const struct data_config *c,
                                 struct arena *perm, struct fingerprint out[FINGERPRINTS_MAX],
                                 i64 *count, struct err *err)
{
    const struct {
        const char       *key;
        const struct str *paths;
        i64               count;
        enum split        split;
    } all[FINGERPRINTS_MAX] = {
        { "data.path", &c->path, c->path.len > 0, SPLIT_TRAIN },
        { "data.labels", &c->labels, c->labels.len > 0, SPLIT_TRAIN },
        { "data.eval_path", &c->eval_path, c->eval_path.len > 0, SPLIT_EVAL },
        { "data.eval_labels", &c->eval_labels, c->eval_labels.len > 0, SPLIT_EVAL },
        { "data.files", c->files, c->file_count, SPLIT_TRAIN }
    };
    enum status st = STATUS_OK;
    *count         = 0;
    for (i64 i = 0; i < FINGERPRINTS_MAX && !st; i++) {
        const struct place *p =
            d->format->place && all[i].count ? d->format->place(d, all[i].split) : NULL;
        if (!all[i].count) continue;
        struct fingerprint *f = &out[(*count)++];
        f->key                = all[i].key;
        if (p) f->text = place_text(p, perm);
        else st = files_text(d, c->remote, all[i].paths, all[i].count, perm, &f->text, err);
    }
    return st;
}
