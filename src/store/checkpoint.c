/* checkpoint.c - writing and deleting checkpoints in an order that no accident can spoil.
 *
 *     write                                    delete
 *     shards written, each synced              manifest removed
 *     their folder synced, and its parent      its folder synced
 *     manifest under another name, synced      shards removed, then the folder
 *     renamed, its folder synced
 *
 * So a manifest is on the disk only while all that it names is. A sync that failed may have dropped
 * the file's pages, and the next sync of it would find nothing to do and say "done" (Rebello et al.,
 * ATC'20): such a file is written anew, never synced again. tests/unit/test_ckpt_faults.c puts
 * every accident at every call, and takes out every sync. */
#include "base/hash.h"
#include "store/ckpt_int.h"
#include <pthread.h>
#include <string.h>

enum { PINS_MAX = 16, WRITE_TRIES = 2 };

/* Put together in the one, written from where it lies in the other: a GiB in pages of 2 MiB then costs
 * the kernel 0.006 s of a core instead of 0.06. */
enum { BLOCK_BYTES = 512 << 10, CHUNK_BYTES = 16 << 20 };

struct ckpt_store {
    struct os      *outer; /* as it was given: of the way to the folder */
    struct os      *os;    /* that follows no links in it */
    struct str      folder;
    struct file     lock;
    struct ckpt_id  last;     /* of the newest name ever seen here; attempt 0: none */
    struct ckpt_id  verified; /* the last that was read back; attempt 0: none */
    pthread_mutex_t mutex;    /* of the pins */
    struct ckpt_id  pins[PINS_MAX];
    i64             pin_count;
};

/* A file in blocks that the disk can take from where they lie: through the page cache a GiB cost the
 * steps beside it 0.2 to 1.9 s of a core, and what the run reads was driven out of memory. Pieces that
 * lie as the disk wants them are not copied; a block of others is copied, hashed and written while a
 * core's own cache holds it. */
struct blocks {
    struct os   *os;
    struct file  f;
    u8          *bytes;
    i64          used;
    struct xxh64 hash;
};

static enum status blocks_write(struct blocks *b, struct str bytes, struct err *err)
{
    xxh64_add(&b->hash, bytes);
    return b->os->write(b->os, b->f, bytes, err);
}

static enum status blocks_flush(struct blocks *b, struct err *err)
{
    struct str all = { (const char *)b->bytes, b->used };
    b->used        = 0;
    return blocks_write(b, all, err);
}

/* How much of it can be written from where it lies. */
static i64 as_it_lies(const struct blocks *b, struct str piece)
{
    if (b->used || (uintptr_t)piece.data % OS_DIRECT_ALIGN) return 0;
    return MIN(piece.len, CHUNK_BYTES) / OS_DIRECT_ALIGN * OS_DIRECT_ALIGN;
}

static enum status blocks_add(struct blocks *b, struct str piece, struct err *err)
{
    enum status st = STATUS_OK;
    while (piece.len && !st) {
        i64 part = as_it_lies(b, piece);
        if (part) {
            st = blocks_write(b, str_sub(piece, 0, part), err);
        } else {
            part = MIN(piece.len, BLOCK_BYTES - b->used);
            memcpy(b->bytes + b->used, piece.data, (size_t)part);
            b->used += part;
            if (b->used == BLOCK_BYTES) st = blocks_flush(b, err);
        }
        piece = str_sub(piece, part, piece.len);
    }
    return st;
}

/* A file from its pieces, on the disk when it returns OK; hash and size go to *shard. */
static enum status write_once(struct os *os, struct str path, const struct str *pieces, i64 count,
                              struct ckpt_shard *shard, bool *sync_failed, struct arena scratch,
                              struct err *err)
{
    struct blocks b  = { .os = os };
    enum status   st = os->create(os, path, &b.f, err);
    if (st) return st;
    b.bytes = arena_take(&scratch, BLOCK_BYTES, 1, OS_DIRECT_ALIGN);
    xxh64_init(&b.hash);
    os->direct(os, b.f, true);
    for (i64 i = 0; i < count && !st; i++) st = blocks_add(&b, pieces[i], err);
    os->direct(os, b.f, false); /* the rest is no whole block */
    if (!st && b.used) st = blocks_flush(&b, err);
    if (!st) {
        st           = os->sync(os, b.f, err);
        *sync_failed = st != STATUS_OK;
    }
    if (st) os->close(os, &b.f, NULL);
    else st = os->close(os, &b.f, err);
    shard->bytes = (i64)b.hash.bytes;
    shard->hash  = xxh64_end(&b.hash);
    return st;
}

static enum status write_file(struct os *os, struct str path, const struct str *pieces, i64 count,
                              struct ckpt_shard *shard, struct arena scratch, struct err *err)
{
    enum status st = STATUS_OK;
    for (i64 i = 0; i < WRITE_TRIES; i++) {
        bool sync_failed = false;
        st               = write_once(os, path, pieces, count, shard, &sync_failed, scratch, err);
        if (!st) break;
        os->remove(os, path, NULL); /* the next one of that name is another file */
        if (!sync_failed) break;
    }
    return st;
}

bool ckpt_is_ours(struct str name)
{
    bool part = str_starts(name, STR(CKPT_MANIFEST ".")) && str_ends(name, STR(".part"));
    return part || str_ends(name, STR(".safetensors")) || str_starts(name, STR("file-"));
}

static bool is_named(const struct ckpt_manifest *m, struct str name)
{
    for (i64 i = 0; i < m->shard_count; i++)
        if (str_eq(m->shards[i].name, name)) return true;
    return false;
}

/* What the manifest names goes, and what a save may have left; the manifest for certain before the
 * rest. A folder that holds other files stays, with them. */
static enum status delete_folder(struct os *os, struct str folder, const struct ckpt_manifest *m,
                                 struct arena scratch, struct err *err)
{
    struct str  manifest = ckpt_path(&scratch, folder, STR(CKPT_MANIFEST)), *names;
    i64         count = 0, others = 0;
    enum status st = os->list(os, folder, &scratch, &names, &count, err);
    for (i64 i = 0; i < count && !st; i++)
        if (str_eq(names[i], STR(CKPT_MANIFEST))) st = os->remove(os, manifest, err);
    if (!st) st = os->sync_dir_of(os, manifest, err); /* also where an earlier process removed it */
    for (i64 i = 0; i < count && !st; i++) {
        if (str_eq(names[i], STR(CKPT_MANIFEST))) continue;
        if (!ckpt_is_ours(names[i]) && !is_named(m, names[i])) others++;
        else st = os->remove(os, ckpt_path(&scratch, folder, names[i]), err);
    }
    return st || others ? st : os->remove(os, folder, err);
}

enum status ckpt_folder_delete(struct os *os, struct str folder, struct arena scratch,
                               struct err *err)
{
    return delete_folder(os, folder, &(struct ckpt_manifest){ 0 }, scratch, err);
}

/* The shards are on the disk; from here on the manifest makes them a checkpoint. */
static enum status commit(struct os *os, struct str folder, const struct ckpt_manifest *m,
                          struct arena scratch, struct err *err)
{
    struct str        manifest = ckpt_path(&scratch, folder, STR(CKPT_MANIFEST));
    struct str        part     = os_part_name(&scratch, manifest);
    struct str        text     = ckpt_manifest_text(&scratch, m);
    struct ckpt_shard ignored;
    enum status       st = os->sync_dir_of(os, manifest, err);
    if (!st) st = os->sync_dir_of(os, folder, err);
    if (!st) st = write_file(os, part, &text, 1, &ignored, scratch, err);
    if (!st) st = os->rename(os, part, manifest, err);
    return st ? st : os->sync_dir_of(os, manifest, err);
}

struct str ckpt_store_path(const struct ckpt_store *s, struct arena *perm, struct ckpt_id id)
{
    return ckpt_path(perm, s->folder, ckpt_name(perm, id));
}

static struct ckpt_id next_id(struct ckpt_store *s, i64 step, i64 attempt)
{
    ASSERT(step >= 0);
    ASSERT(attempt >= 1);
    ASSERT(attempt >= s->last.attempt);
    i64 save       = attempt == s->last.attempt ? s->last.save + 1 : 1;
    return s->last = (struct ckpt_id){ step, attempt, save };
}

static enum status make_and_lock(struct ckpt_store *s, struct arena scratch, struct err *err);

/* Whoever deletes the lock of a process that runs (a cleaner of old files, rm -r) lets the next one in:
 * it is taken again, unless somebody has been faster. */
static enum status keep_lock(struct ckpt_store *s, struct arena scratch, struct err *err)
{
    struct str *names, path = ckpt_path(&scratch, s->folder, STR("lock"));
    struct err  why   = { 0 };
    i64         count = 0;
    if (s->os->holds(s->os, s->lock, path)) return STATUS_OK;
    struct file old = s->lock;
    os_beneath_end(s->os); /* the folder may be another by now */
    s->lock.fd     = -1;
    enum status st = make_and_lock(s, scratch, &why);
    if (st) { /* the next save tries again */
        s->lock = old;
        return err_set(err, st, "the lock of %.*s was deleted: %s", STR_ARG(s->folder), why.text);
    }
    s->os->close(s->os, &old, NULL);
    st = s->os->list(s->os, s->folder, &scratch, &names, &count, err);
    for (i64 i = 0; i < count && !st; i++) {
        struct ckpt_id id;
        if (ckpt_name_parse(names[i], &id) && ckpt_order(s->last, id) < 0)
            st = err_set(
                err, STATUS_INTERRUPTED,
                "the lock of %.*s was deleted, and another process has saved %.*s there since",
                STR_ARG(s->folder), STR_ARG(names[i]));
    }
    return st;
}

enum status ckpt_begin(struct ckpt_store *s, struct ckpt_manifest *m, struct arena scratch,
                       struct err *err)
{
    enum status st = keep_lock(s, scratch, err);
    if (st) return st;
    m->id          = next_id(s, m->id.step, m->id.attempt);
    m->wall_ns     = s->os->wall_ns(s->os);
    m->shards      = NULL;
    m->shard_count = 0;
    return STATUS_OK;
}

/* In a folder that is there or not: of several writers nobody waits for the first. */
static enum status write_parts(struct os *os, struct str folder, const struct ckpt_part *parts,
                               i64 count, struct ckpt_shard *shards, struct arena *perm,
                               struct arena scratch, struct err *err)
{
    bool        was = os_private(true);
    enum status st  = os->make_dir(os, folder, err);
    for (i64 i = 0; i < count && !st; i++) {
        struct arena memory = scratch;
        shards[i].name      = str_cat(perm, parts[i].name, STR(".safetensors"));
        struct str path     = ckpt_path(&memory, folder, shards[i].name);
        if (parts[i].whole.len) {
            st = write_file(os, path, &parts[i].whole, 1, &shards[i], memory, err);
        } else {
            struct str *pieces = st_pieces(parts[i].tensors, parts[i].count, &memory);
            st = write_file(os, path, pieces, 1 + parts[i].count, &shards[i], memory, err);
        }
    }
    os_private(was);
    return st;
}

enum status ckpt_write_own(struct ckpt_store *s, struct ckpt_manifest *m,
                           const struct ckpt_part *parts, i64 count, struct arena *perm,
                           struct arena scratch, struct err *err)
{
    m->shards      = NEW(perm, struct ckpt_shard, count);
    m->shard_count = count;
    return write_parts(s->os, ckpt_store_path(s, &scratch, m->id), parts, count, m->shards, perm,
                       scratch, err);
}

enum status ckpt_write_beside(struct os *os, struct str folder, struct ckpt_id id,
                              const struct ckpt_part *parts, i64 count, struct ckpt_shard *shards,
                              struct arena *perm, struct arena scratch, struct err *err)
{
    struct os  *inside = os_beneath(os, folder, &scratch);
    struct str  path   = ckpt_path(&scratch, folder, ckpt_name(&scratch, id));
    enum status st     = write_parts(inside, path, parts, count, shards, perm, scratch, err);
    os_beneath_end(inside);
    return st;
}

enum status ckpt_commit(struct ckpt_store *s, const struct ckpt_manifest *m, struct arena scratch,
                        struct err *err)
{
    bool        was = os_private(true);
    enum status st  = commit(s->os, ckpt_store_path(s, &scratch, m->id), m, scratch, err);
    os_private(was);
    return st;
}

void ckpt_drop(struct ckpt_store *s, const struct ckpt_manifest *m, struct arena scratch)
{
    delete_folder(s->os, ckpt_store_path(s, &scratch, m->id), m, scratch, NULL);
}

enum status ckpt_write(struct ckpt_store *s, struct ckpt_manifest *m, const struct ckpt_part *parts,
                       i64 count, struct arena *perm, struct arena scratch, struct err *err)
{
    enum status st = ckpt_begin(s, m, scratch, err);
    if (st) return st;
    st = ckpt_write_own(s, m, parts, count, perm, scratch, err);
    if (!st) st = ckpt_commit(s, m, scratch, err);
    if (st) ckpt_drop(s, m, scratch);
    return st;
}

enum status ckpt_import_begin(struct ckpt_store *s, const struct ckpt_manifest *m,
                              struct arena *perm, struct str *folder, struct err *err)
{
    struct ckpt_list list;
    struct arena     scratch = *perm;
    struct os       *os      = s->os;
    enum status      st      = keep_lock(s, scratch, err);
    if (st) return st;
    st = ckpt_list(os, s->folder, &scratch, &list, err);
    for (i64 i = 0; i < list.count && !st; i++) {
        struct ckpt *c = &list.items[i];
        if (ckpt_order(c->id, m->id) || c->id.step != m->id.step) continue;
        st = ckpt_verify(os, c, scratch, err);
        if (!st) return err_set(err, STATUS_NO, "%.*s already exists", STR_ARG(c->folder));
        if (st == STATUS_NO)
            st = delete_folder(os, c->folder, m, scratch, err); /* a whole one follows */
    }
    *folder  = ckpt_store_path(s, perm, m->id);
    bool was = os_private(true);
    if (!st) st = os->make_dir(os, *folder, err);
    os_private(was);
    return st;
}

/* Whoever wrote the shard did not sync it. */
static enum status settle_shard(struct os *os, struct str path, const struct ckpt_shard *shard,
                                struct arena scratch, struct err *err)
{
    struct file f;
    enum status st = os->open_read(os, path, &f, err);
    if (st) return st;
    st = ckpt_shard_verify(os, f, path, shard, NULL, scratch, err);
    if (!st) st = os->sync(os, f, err);
    os->close(os, &f, NULL);
    return st;
}

enum status ckpt_import_commit(struct ckpt_store *s, const struct ckpt_manifest *m,
                               struct arena scratch, struct err *err)
{
    struct str  folder = ckpt_store_path(s, &scratch, m->id);
    enum status st     = STATUS_OK;
    for (i64 i = 0; i < m->shard_count && !st; i++)
        st = settle_shard(s->os, ckpt_path(&scratch, folder, m->shards[i].name), &m->shards[i],
                          scratch, err);
    if (!st) st = commit(s->os, folder, m, scratch, err);
    if (st) ckpt_drop(s, m, scratch);
    else if (ckpt_order(s->last, m->id) < 0) s->last = m->id;
    return st;
}

static enum status copy_file(struct os *os, struct str from, struct str to, struct arena scratch,
                             struct err *err)
{
    char       *buffer = NEW(&scratch, char, BLOCK_BYTES);
    struct file in = { -1 }, out = { -1 };
    i64         got = 1;
    enum status st  = os->open_read(os, from, &in, err);
    if (!st) st = os->create(os, to, &out, err);
    while (!st && got > 0) {
        st = os->read(os, in, buffer, BLOCK_BYTES, -1, &got, err);
        if (!st) st = os->write(os, out, (struct str){ buffer, got }, err);
    }
    if (in.fd >= 0) os->close(os, &in, NULL);
    if (out.fd >= 0 && st) os->close(os, &out, NULL);
    return out.fd >= 0 ? os->close(os, &out, err) : st;
}

enum status ckpt_copy(struct os *os, const struct ckpt *c, struct ckpt_store *to,
                      struct arena scratch, struct err *err)
{
    const struct ckpt_manifest *m = &c->manifest;
    struct str                  folder;
    enum status                 st = ckpt_import_begin(to, m, &scratch, &folder, err);
    if (st) return st;
    bool was = os_private(true);
    for (i64 i = 0; i < m->shard_count && !st; i++)
        st = copy_file(os, ckpt_path(&scratch, c->folder, m->shards[i].name),
                       ckpt_path(&scratch, folder, m->shards[i].name), scratch, err);
    if (!st) st = ckpt_import_commit(to, m, scratch, err);
    else ckpt_drop(to, m, scratch);
    os_private(was);
    return st;
}

void ckpt_pin(struct ckpt_store *s, struct ckpt_id id)
{
    pthread_mutex_lock(&s->mutex);
    ASSERT(s->pin_count < PINS_MAX);
    s->pins[s->pin_count++] = id;
    pthread_mutex_unlock(&s->mutex);
}

void ckpt_unpin(struct ckpt_store *s, struct ckpt_id id)
{
    i64 i = 0;
    pthread_mutex_lock(&s->mutex);
    while (i < s->pin_count && ckpt_order(s->pins[i], id)) i++;
    ASSERT(i < s->pin_count);
    s->pins[i] = s->pins[--s->pin_count];
    pthread_mutex_unlock(&s->mutex);
}

static bool is_pinned(struct ckpt_store *s, struct ckpt_id id)
{
    bool found = false;
    pthread_mutex_lock(&s->mutex);
    for (i64 i = 0; i < s->pin_count; i++) found |= !ckpt_order(s->pins[i], id);
    pthread_mutex_unlock(&s->mutex);
    return found;
}

/* Marks what stays; returns the index of the newest that may go; count: none. */
static i64 mark_kept(struct ckpt_store *s, const struct ckpt_list *l, i64 keep, bool *kept)
{
    i64 first = l->count;
    ckpt_mark_kept(l, keep, kept);
    for (i64 i = l->count - 1; i >= 0; i--) {
        kept[i] |= is_pinned(s, l->items[i].id);
        if (!kept[i]) first = i;
    }
    return first;
}

/* One that has been read back and is newer than what goes: an earlier one, which saves reading, or
 * the newest that is whole; -1: there is none, or *urgent is true. Those found damaged are
 * believed no longer. */
static i64 find_verified(struct ckpt_store *s, struct ckpt_list *l, i64 first,
                         const atomic_bool *urgent, struct arena scratch)
{
    for (i64 i = 0; i < first; i++)
        if (!l->items[i].why.status && !ckpt_order(l->items[i].id, s->verified)) return i;
    for (i64 i = 0; i < l->count; i++) {
        struct ckpt *c = &l->items[i];
        if (c->why.status) continue;
        enum status st = ckpt_verify_unless(s->os, c, urgent, scratch, &c->why);
        if (st == STATUS_INTERRUPTED) return -1;
        if (st) continue;
        s->verified = c->id;
        return i;
    }
    return -1;
}

enum status ckpt_prune(struct ckpt_store *s, i64 keep, struct arena scratch, struct err *err)
{
    return ckpt_prune_unless(s, keep, NULL, scratch, err);
}

enum status ckpt_prune_unless(struct ckpt_store *s, i64 keep, const atomic_bool *urgent,
                              struct arena scratch, struct err *err)
{
    struct ckpt_list list;
    enum status      st = ckpt_list(s->os, s->folder, &scratch, &list, err);
    if (st) return st;
    ASSERT(keep >= 1);
    bool *kept  = NEW(&scratch, bool, list.count);
    i64   first = mark_kept(s, &list, keep, kept);
    if (first == list.count) return STATUS_OK;
    i64 verified = find_verified(s, &list, first, urgent, scratch);
    mark_kept(s, &list, keep, kept); /* without the damaged */
    for (i64 i = list.count - 1; i > verified && verified >= 0 && !st; i--)
        if (!kept[i])
            st = delete_folder(s->os, list.items[i].folder, &list.items[i].manifest, scratch, err);
    return st;
}

/* The oldest that may go where the disk is full: not the newest, not the pinned, the best only where
 * there is no other; -1: none. */
static i64 oldest_to_go(struct ckpt_store *s, const struct ckpt_list *l)
{
    i64 best = ckpt_best(l), newest = 0, last = -1;
    while (newest < l->count && l->items[newest].why.status) newest++;
    for (i64 i = newest + 1; i < l->count; i++) {
        if (l->items[i].why.status || is_pinned(s, l->items[i].id)) continue;
        if (i != best || last < 0) last = i;
    }
    return last;
}

enum status ckpt_free_oldest(struct ckpt_store *s, struct arena scratch, struct ckpt_id *went,
                             struct err *err)
{
    struct ckpt_list list;
    enum status      st = ckpt_list(s->os, s->folder, &scratch, &list, err);
    if (st) return st;
    i64 goes     = oldest_to_go(s, &list);
    i64 verified = goes < 0 ? -1 : find_verified(s, &list, goes, NULL, scratch);
    if (verified < 0 || verified >= goes)
        return err_set(err, STATUS_NO,
                       "no checkpoint can be deleted: no newer one is known to be valid");
    *went = list.items[goes].id;
    return delete_folder(s->os, list.items[goes].folder, &list.items[goes].manifest, scratch, err);
}

enum status ckpt_clear(struct ckpt_store *s, struct arena scratch, struct err *err)
{
    struct ckpt_list list;
    enum status      st = ckpt_list(s->os, s->folder, &scratch, &list, err);
    for (i64 i = list.count - 1; i >= 0 && !st; i--)
        if (!list.items[i].why.status || list.items[i].why.status == STATUS_NO)
            st = delete_folder(s->os, list.items[i].folder, &list.items[i].manifest, scratch, err);
    return st;
}

static i64 parent_len(struct str path)
{
    i64 len = path.len - 1;
    while (len > 0 && path.data[len] != '/') len--;
    return MAX(len, 0);
}

/* The folder, made where it is not there: level by level, each synced into its parent before the
 * next, so that only the deepest one there can be a killed process's that was not. */
static enum status make_folder(struct os *os, struct str folder, struct err *err)
{
    struct os_stat stat;
    enum status    st    = STATUS_OK;
    i64            there = folder.len;
    while (there > 0 && os->stat(os, str_sub(folder, 0, there), &stat, NULL))
        there = parent_len(str_sub(folder, 0, there));
    if (there > 0) /* others' folders may not be ours to open */
        os->sync_dir_of(os, str_sub(folder, 0, there), NULL);
    for (i64 end = there + 1; end <= folder.len && !st; end++) {
        if (end < folder.len && folder.data[end] != '/') continue;
        st = os->make_dir(os, str_sub(folder, 0, end), err);
        if (!st) st = os->sync_dir_of(os, str_sub(folder, 0, end), err);
    }
    return st;
}

/* What a killed process left: halves go; what it named but may not have synced is synced now, for
 * older ones will be deleted in trust of it. */
static enum status tidy_up(struct ckpt_store *s, struct arena scratch, struct err *err)
{
    struct os  *os = s->os;
    struct str *names;
    i64         count = 0;
    enum status st    = os->list(os, s->folder, &scratch, &names, &count, err);
    for (i64 i = 0; i < count && !st; i++) {
        struct arena   memory = scratch;
        struct str     folder = ckpt_path(&memory, s->folder, names[i]);
        struct err     why    = { 0 };
        struct ckpt_id id;
        if (!ckpt_name_parse(names[i], &id)) continue;
        if (ckpt_order(s->last, id) < 0) s->last = id;
        if (!ckpt_has_manifest(os, folder, memory, &why))
            st = delete_folder(os, folder, &(struct ckpt_manifest){ 0 }, memory, err);
        else if (!why.status)
            st = os->sync_dir_of(os, ckpt_path(&memory, folder, STR(CKPT_MANIFEST)), err);
    }
    return st;
}

static enum status take_lock(struct ckpt_store *s, struct arena scratch, struct err *err)
{
    struct err  why;
    enum status st =
        s->os->lock(s->os, ckpt_path(&scratch, s->folder, STR("lock")), &s->lock, &why);
    if (st == STATUS_NO)
        return err_set(err, STATUS_WORLD,
                       "two runs cannot write to one folder of checkpoints: %s; wait for it, stop "
                       "it, or give another folder",
                       why.text);
    return st ? err_set(err, st, "%s", why.text) : STATUS_OK;
}

/* Both are nobody else's to read. */
static enum status make_and_lock(struct ckpt_store *s, struct arena scratch, struct err *err)
{
    bool        was = os_private(true);
    enum status st  = make_folder(s->outer, s->folder, err);
    if (!st) st = take_lock(s, scratch, err);
    os_private(was);
    return st;
}

enum status ckpt_store_open(struct os *os, struct str folder, struct arena *perm,
                            struct ckpt_store **out, struct err *err)
{
    struct ckpt_store *s = NEW(perm, struct ckpt_store, 1);
    while (folder.len > 1 && str_ends(folder, STR("/"))) folder.len--;
    *s    = (struct ckpt_store){ .outer = os, .folder = str_copy(perm, folder), .lock = { -1 } };
    s->os = os_beneath(os, s->folder, perm);
    *out  = NULL;
    pthread_mutex_init(&s->mutex, NULL);
    enum status st = make_and_lock(s, *perm, err);
    if (!st) st = tidy_up(s, *perm, err);
    if (st) ckpt_store_close(s);
    else *out = s;
    return st;
}

void ckpt_store_close(struct ckpt_store *s)
{
    if (s->lock.fd >= 0) s->os->close(s->os, &s->lock, NULL);
    os_beneath_end(s->os);
    pthread_mutex_destroy(&s->mutex);
}

struct str ckpt_store_folder(const struct ckpt_store *s) { return s->folder; }
struct os *ckpt_store_os(const struct ckpt_store *s) { return s->os; }

i64 ckpt_attempt_last(const struct ckpt_store *s) { return s->last.attempt; }
