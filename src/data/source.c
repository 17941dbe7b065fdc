/* source.c - the bytes of a file, mapped; a .gz is unpacked once into a cache and mapped from there.
 *
 * A .gz ends with the CRC-32 and the length of what it holds (RFC 1952), so the file names its own
 * cache: NAME-CRC-LENGTH. The same two numbers are checked each time it is opened, and a cache that
 * does not fit is written anew. Where no cache can be written, the bytes stay in memory. A remote file
 * is first brought into the cache of remote_cache.h, whole. */
#include "base/gzip.h"
#include "base/hash.h"
#include "data/data_int.h"
#include "data/remote_cache.h"
#include "remote/address.h"

static const i64 gz_bytes_min       = 18; /* header and trailer */
static const i64 unpacked_bytes_max = (i64)8 << 30;
static const i64 ratio_max          = 1032; /* deflate packs no tighter (zlib's FAQ) */

struct cache {
    struct str dir, path;
    u32        crc, bytes; /* bytes: modulo 2^32 */
};

static u32 le32(const char *p)
{
    const u8 *b = (const u8 *)p;
    return (u32)b[0] | (u32)b[1] << 8 | (u32)b[2] << 16 | (u32)b[3] << 24;
}

struct str cache_dir(struct os *os, struct str wanted, struct arena *perm)
{
    struct str base = os->env(os, "XDG_CACHE_HOME"), home = os->env(os, "HOME");
    if (wanted.len) return wanted;
    if (base.len) return str_cat(perm, base, STR("/frugal"));
    return home.len ? str_cat(perm, home, STR("/.cache/frugal")) : STR("");
}

static struct cache cache_of(struct os *os, struct str path, struct str gz, struct str wanted,
                             struct arena *perm)
{
    struct cache c     = { .dir = cache_dir(os, wanted, perm) };
    i64          slash = path.len;
    c.crc              = le32(gz.data + gz.len - 8);
    c.bytes            = le32(gz.data + gz.len - 4);
    while (slash > 0 && path.data[slash - 1] != '/') slash--;
    struct str name = str_sub(path, slash, path.len - 3); /* without .gz */
    c.path = str_fmt(perm, "%.*s/%.*s-%08x-%u", STR_ARG(c.dir), STR_ARG(name), c.crc, c.bytes);
    return c;
}

static bool fits(const struct cache *c, struct str bytes)
{
    return (u32)bytes.len == c->bytes && crc32_add(0, bytes) == c->crc;
}

static bool cache_map(struct os *os, const struct cache *c, struct source *out)
{
    struct str bytes;
    if (!c->dir.len || os->map(os, c->path, &bytes, NULL)) return false;
    if (!fits(c, bytes)) {
        os->unmap(os, bytes);
        return false;
    }
    out->bytes = out->mapped = bytes;
    return true;
}

static bool cache_write(struct os *os, const struct cache *c, struct str bytes,
                        struct arena scratch)
{
    if (!c->dir.len || !fits(c, bytes))
        return false; /* several members: the sum is the last one's */
    bool was  = os_private(true);
    bool done = !os->make_dir(os, c->dir, NULL) && !os_publish(os, c->path, bytes, scratch, NULL);
    os_private(was);
    return done;
}

static enum status unpack(struct str path, struct str gz, struct source *out, struct err *err)
{
    struct err why;
    i64        room = MIN(gz.len * ratio_max, unpacked_bytes_max);
    out->own        = arena_open(room + (1 << 20));
    if (!out->own.begin)
        return err_set(err, STATUS_WORLD, "%.*s: no memory to unpack it", STR_ARG(path));
    enum status st = gzip_unpack(&out->own, gz, room, &out->bytes, &why);
    if (st) err_set(err, st, "%.*s: %s", STR_ARG(path), why.text);
    return st;
}

static enum status open_gz(struct os *os, struct str path, struct str gz, struct str wanted,
                           struct arena scratch, struct source *out, struct err *err)
{
    if (gz.len < gz_bytes_min)
        return err_set(err, STATUS_USAGE, "%.*s: %lld bytes are too few for a gzip file",
                       STR_ARG(path), (long long)gz.len);
    struct cache c = cache_of(os, path, gz, wanted, &scratch);
    if (cache_map(os, &c, out)) return STATUS_OK;
    enum status st = unpack(path, gz, out, err);
    if (!st && cache_write(os, &c, out->bytes, scratch) && cache_map(os, &c, out))
        arena_close(&out->own);
    return st;
}

/* A remote file, whole, through the cache. */
static enum status map_remote(struct os *os, struct str url, const struct data_config *config,
                              struct arena scratch, struct str *bytes, struct file *pin,
                              struct err *err)
{
    struct str         dir = cache_dir(os, config->cache, &scratch);
    struct remote_file version;
    if (!config->remote || !dir.len || dir.len > REMOTE_CACHE_FOLDER_MAX - 16)
        return err_set(err, STATUS_USAGE, "%.*s is a remote file, and %s", STR_ARG(url),
                       config->remote ? "there is no folder to keep it in: set data.cache"
                                      : "remote files cannot be reached from here");
    enum status st = remote_file_stat(config->remote, url, NULL, &version, err);
    if (st) return st == STATUS_NO ? STATUS_USAGE : st;
    struct remote_cache *c = remote_cache_new(
        os, config->remote, str_cat(&scratch, dir, STR("/files")), config->cache_bytes, &scratch);
    st = remote_cache_map(c, url, &version, bytes, pin, err);
    remote_cache_release(c);
    return st == STATUS_NO ? STATUS_USAGE : st;
}

/* Which package of Debian has the examples' data: DIR/NAME is in it; an empty NAME stands for all of DIR. */
static const struct {
    struct str dir, name, package;
} debian[] = {
    { STR_INIT("/usr/share/dict/"), STR_INIT("american-english"), STR_INIT("wamerican") },
    { STR_INIT("/usr/share/dict/"), STR_INIT("british-english"), STR_INIT("wbritish") },
    { STR_INIT("/usr/share/dict/"), STR_INIT("ngerman"), STR_INIT("wngerman") },
    { STR_INIT("/usr/share/dict/"), STR_INIT("french"), STR_INIT("wfrench") },
    { STR_INIT("/usr/share/dict/"), STR_INIT("italian"), STR_INIT("witalian") },
    { STR_INIT("/usr/share/dict/"), STR_INIT("spanish"), STR_INIT("wspanish") },
    { STR_INIT("/usr/share/datasets/fashion-mnist/"), STR_INIT(""),
      STR_INIT("dataset-fashion-mnist") },
};

/* A local file in memory; one that is missing or a folder is an error with its remedy. */
static enum status map_local(struct os *os, struct str path, struct str kind, struct str *bytes,
                             struct err *err)
{
    struct os_stat there;
    struct err     why = { 0 };
    enum status    st  = os->map(os, path, bytes, &why);
    if (st && !os->stat(os, path, &there, NULL) && there.is_dir)
        return err_set(err, STATUS_USAGE, "%.*s is a folder; data.kind=%.*s reads files",
                       STR_ARG(path), STR_ARG(kind));
    for (i64 i = 0; why.cause == CAUSE_ABSENT && i < COUNT_OF(debian); i++) {
        struct str dir = debian[i].dir, name = str_sub(path, dir.len, path.len);
        if (!str_starts(path, dir) || (debian[i].name.len && !str_eq(name, debian[i].name)))
            continue;
        err_set(err, st, "%.400s; on Debian, install %.*s", why.text, STR_ARG(debian[i].package));
        if (err) err->cause = CAUSE_ABSENT;
        return st;
    }
    if (st && err) *err = why;
    return st;
}

enum status source_open(struct os *os, struct str path, const struct data_config *config,
                        struct arena scratch, struct source *out, struct err *err)
{
    struct str  bytes;
    struct file pin = { -1 };
    *out            = (struct source){ 0 };
    enum status st  = address_is_remote(path)
                          ? map_remote(os, path, config, scratch, &bytes, &pin, err)
                          : map_local(os, path, config->kind, &bytes, err);
    if (st) return st;
    if (!str_ends(address_path(path), STR(".gz"))) {
        out->bytes = out->mapped = bytes;
        out->pin                 = pin;
        out->pinned              = pin.fd >= 0;
        return STATUS_OK;
    }
    st = open_gz(os, address_shown(&scratch, path), bytes, config->cache, scratch, out, err);
    if (bytes.len) os->unmap(os, bytes);
    if (pin.fd >= 0) os->close(os, &pin, NULL);
    if (st) source_close(os, out);
    return st;
}

void source_close(struct os *os, struct source *s)
{
    if (s->mapped.len) os->unmap(os, s->mapped);
    if (s->pinned) os->close(os, &s->pin, NULL);
    if (s->own.begin) arena_close(&s->own);
    *s = (struct source){ 0 };
}
