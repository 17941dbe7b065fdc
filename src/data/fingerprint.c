/* fingerprint.c - how data files are known again, without reading all of them and wherever they lie: a path is no
 * part of it, for data may move.
 *
 *     a local file     size, and a hash of its content: whole up to 64 MiB, else of 64 blocks in even distances
 *     a folder         the names and sizes of all samples, and the content of 256 of them, spread over the list:
 *                      whole up to 256 KiB, else 4 blocks
 *     local shards     the names and sizes of all, and the content of 256 of them: 1,024 blocks among all that are
 *                      read, at most 64 of a shard that is not read whole
 *     remote files     name, size, and the version that the server gives (ETag, else the time of the last change)
 *
 * So at most 64 MiB are read, with one look at each file (stat; one request for each remote one). One changed byte of
 * a file that is not among the 256, or between two blocks, goes unnoticed; another size never does. Versions are those
 * of a server: another file at the same address has another one, and so may a copy at another address. What is then
 * known is that names and sizes are the same, and that the content was not compared. */
#include "base/hash.h"
#include "data/data_int.h"
#include "data/place_int.h"
#include "remote/address.h"
#include "remote/files.h"

static const i64 block_bytes = 64 << 10;
enum {
    BLOCKS_MAX  = 1024, /* that are read for one setting */
    BLOCKS      = 64,   /* of a file that is not read whole, the first and the last among them */
    FILES_MAX   = 256,  /* of a folder or of shards whose content is looked at */
    BLOCKS_EACH = BLOCKS_MAX / FILES_MAX
};

static void add_i64(struct xxh64 *h, i64 v) { xxh64_add(h, (struct str){ (char *)&v, sizeof v }); }

static struct str base_name(struct str path)
{
    i64 slash = path.len;
    while (slash > 0 && path.data[slash - 1] != '/') slash--;
    return str_sub(path, slash, path.len);
}

static void print_init(struct print *p)
{
    *p = (struct print){ 0 };
    xxh64_init(&p->what);
    xxh64_init(&p->where);
    xxh64_init(&p->version);
}

void print_name(struct print *p, struct str path, i64 bytes)
{
    xxh64_add(&p->what, base_name(address_path(path)));
    add_i64(&p->what, bytes);
}

void print_remote(struct print *p, struct str path, const struct remote_file *version)
{
    print_name(p, path, version->bytes);
    p->remote++;
    p->unversioned += !version->tag[0];
    xxh64_add(&p->where, address_path(path)); /* without a signature, which is another each time */
    xxh64_add(&p->version, str_of(version->tag));
    add_i64(&p->version, p->remote);
}

/* Whole up to that many blocks; of a longer file so many in even distances. */
static enum status hash_file(struct os *os, struct str path, i64 bytes, i64 whole_blocks,
                             i64 blocks, struct arena scratch, struct xxh64 *h, struct err *err)
{
    enum status st    = STATUS_OK;
    bool        whole = bytes <= whole_blocks * block_bytes;
    i64         count = whole ? (bytes + block_bytes - 1) / block_bytes : blocks;
    u8         *room  = NEW(&scratch, u8, block_bytes);
    add_i64(h, bytes);
    for (i64 i = 0; i < count && !st; i++) {
        i64 at = whole ? i * block_bytes : (bytes - block_bytes) / (blocks - 1) * i;
        if (!whole && i == blocks - 1) at = bytes - block_bytes;
        i64 some = MIN(block_bytes, bytes - at);
        st       = read_range(os, path, at, some, room, err);
        xxh64_add(h, (struct str){ (char *)room, some });
    }
    return st;
}

i64 print_samples(i64 count) { return MIN(count, FILES_MAX); }

i64 print_sample(i64 count, i64 i)
{
    i64 some = print_samples(count);
    return some > 1 ? i * (count - 1) / (some - 1) : 0;
}

/* A file that cannot be read is one, too: data.on_error says what becomes of it. */
void print_content(struct print *p, struct os *os, struct str path, i64 bytes, i64 count,
                   struct arena scratch)
{
    i64 each = BLOCKS_MAX / MAX(print_samples(count), 1);
    p->content++;
    if (hash_file(os, path, bytes, each, MIN(each, BLOCKS), scratch, &p->what, NULL))
        add_i64(&p->what, -1);
}

static enum status add_remote(struct remote_files *remote, struct str path, struct print *p,
                              i64 *bytes, struct err *err)
{
    struct remote_file version;
    enum status        st = remote_file_stat(remote, path, NULL, &version, err);
    if (st) return st;
    *bytes += version.bytes;
    print_remote(p, path, &version);
    return STATUS_OK;
}

static enum status add_local(struct os *os, struct str path, struct arena scratch, struct print *p,
                             i64 *bytes, struct err *err)
{
    struct os_stat stat;
    enum status    st = os->stat(os, path, &stat, err);
    if (st) return st;
    *bytes += stat.bytes;
    return hash_file(os, path, stat.bytes, BLOCKS_MAX, BLOCKS, scratch, &p->what, err);
}

/* "9f86d081884c7d65", and of remote files ", at 1122334455667788, version 0011223344556677" */
static struct str print_text(struct print *p, struct arena *perm)
{
    unsigned long long what = xxh64_end(&p->what), where = xxh64_end(&p->where),
                       version = xxh64_end(&p->version);
    if (!p->remote) return str_fmt(perm, "%016llx", what);
    if (p->unversioned) return str_fmt(perm, "%016llx, at %016llx, version unknown", what, where);
    return str_fmt(perm, "%016llx, at %016llx, version %016llx", what, where, version);
}

static struct str place_text(const struct place *place, struct arena *perm)
{
    struct print p;
    print_init(&p);
    place->kind->fingerprint(place, &p);
    return str_fmt(perm, "%lld samples, %s%.*s", (long long)place->count,
                   p.content ? "content " : "", STR_ARG(print_text(&p, perm)));
}

static enum status files_text(const struct dataset *d, struct remote_files *remote,
                              const struct str *paths, i64 count, struct arena *perm,
                              struct str *out, struct err *err)
{
    struct print p;
    i64          bytes = 0;
    enum status  st    = STATUS_OK;
    print_init(&p);
    for (i64 i = 0; i < count && !st; i++)
        st = address_is_remote(paths[i]) ? add_remote(remote, paths[i], &p, &bytes, err)
                                         : add_local(d->os, paths[i], *perm, &p, &bytes, err);
    *out = str_fmt(perm, "%lld bytes, %.*s", (long long)bytes, STR_ARG(print_text(&p, perm)));
    return st;
}

enum status fingerprint_files(struct os *os, const struct str *paths, i64 count, struct arena *perm,
                              struct str *out, struct err *err)
{
    struct dataset none = { .os = os };
    return files_text(&none, NULL, paths, count, perm, out, err);
}

/* --- comparing --- */

/* Cuts at the first `mark`, of which nothing stays; what follows it, or nothing. */
static struct str cut_at(struct str *text, struct str mark)
{
    struct str all = *text;
    for (i64 at = 0; at + mark.len <= all.len; at++) {
        if (!str_eq(str_sub(all, at, at + mark.len), mark)) continue;
        *text = str_sub(all, 0, at);
        return str_sub(all, at + mark.len, all.len);
    }
    return STR("");
}

enum fingerprint_match fingerprint_compare(struct str was, struct str now)
{
    struct str where[2], version[2], content[2], text[2] = { was, now };
    if (str_eq(was, now) && !str_ends(now, STR(", version unknown"))) return FINGERPRINT_SAME;
    for (i64 i = 0; i < 2; i++) {
        where[i]   = cut_at(&text[i], STR(", at "));
        version[i] = cut_at(&where[i], STR(", version "));
        content[i] = cut_at(&text[i], STR(", content "));
    }
    if (!content[0].len != !content[1].len) { /* an older frugal looked at names and sizes alone */
        for (i64 i = 0; i < 2; i++) cut_at(&text[i], STR(", "));
        return str_eq(text[0], text[1]) ? FINGERPRINT_UNKNOWN : FINGERPRINT_OTHER;
    }
    if (!str_eq(text[0], text[1]) || !str_eq(content[0], content[1])) return FINGERPRINT_OTHER;
    for (i64 i = 0; i < 2; i++)
        if (!version[i].len || str_eq(version[i], STR("unknown"))) return FINGERPRINT_UNKNOWN;
    if (str_eq(version[0], version[1])) return FINGERPRINT_SAME;
    return str_eq(where[0], where[1]) ? FINGERPRINT_OTHER : FINGERPRINT_UNKNOWN;
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
