/* carry.c - the folder of a program as checkpoints, and checkpoints as its folder. */
#include "supervise/carry.h"
#include "base/family.h"
#include "base/json.h"
#include "base/thread.h"
#include "run/clock.h"
#include "store/checkpoint.h"
#include "supervise/folder.h"
#include <stdio.h>
#include <string.h>

enum {
    LIST_BYTES = 512 << 20, /* address space for a list of the folder and what it takes to make */
    ASIDE_MAX  = 10000,     /* files of one name that went aside */
    LAST_LOOKS_MAX = 5      /* at a folder that somebody else writes after the program has exited */
};

struct carry {
    struct os              *os;
    struct carry_config     config;
    struct program_complete complete; /* of its program */
    struct str              folder;   /* absolute where it is there already, as all of ours */
    struct ckpt_store      *store;
    struct uploader        *up;        /* NULL: no object store */
    struct str              said;      /* when it was asked for newer ones, for the first restore */
    struct ckpt_id          last;      /* of the newest that this start has taken; save 0: none */
    struct arena            memory[3]; /* of the two lists that take turns, and of all else */
    i64                     turn;
    struct folder_list      seen; /* by the last look */
    struct arena            kept_memory[2];
    i64                     kept_turn;
    struct folder_list      kept;    /* what the newest checkpoint holds */
    char                    run[64]; /* id in the ledger; empty: none */
    bool                    fresh;   /* nobody has used the store before us, nor have we */
    atomic_bool             hurried; /* the run must end soon */
    bool                    thread_runs, pausing;
    pthread_t               thread;
    pthread_mutex_t         lock; /* of what follows, and of pausing */
    pthread_cond_t          wake;
    i64                     step;
    struct carry_state      state;
};

/* --- opening ------------------------------------------------------------------------------------ */

static bool inside(struct str folder, struct str other)
{
    return str_starts(other, folder) && (other.len == folder.len || other.data[folder.len] == '/');
}

static void find_run(struct carry *c, struct arena scratch)
{
    struct ckpt_list list;
    if (ckpt_list(c->os, c->config.store, &scratch, &list, NULL)) return;
    for (i64 i = 0; i < list.count && !c->run[0]; i++) {
        if (list.items[i].why.status) continue;
        carry_set_run(c, list.items[i].manifest.run);
        c->state.step = MAX(c->state.step, list.items[i].id.step);
    }
}

static enum status stays(const struct carry *c, enum status st, const char *why, struct err *err)
{
    return err_set(
        err, st == STATUS_NO ? STATUS_WORLD : st,
        "%s. The program was not started and no file was moved: start again once it can be "
        "read, or start over with --fresh (frugal checkpoints verify %.*s)",
        why, STR_ARG(c->config.store));
}

/* The newest whole one that is here; NULL: there is none at all. `said` gets what is damaged. */
static enum status newest_here(struct carry *c, struct arena *perm, struct ckpt **out,
                               struct textbuf *said, struct err *err)
{
    struct ckpt_list list;
    struct err       why = { 0 };
    *out                 = NULL;
    enum status st       = ckpt_list(c->os, c->config.store, perm, &list, &why);
    if (!st && !list.count) return STATUS_OK;
    if (!st) st = ckpt_newest(c->os, &list, perm, out, &why);
    if (st) return stays(c, st, why.text, err);
    for (i64 i = 0; said && &list.items[i] != *out; i++)
        textbuf_fmt(said, "%s; resuming from step %lld, %lld steps earlier\n",
                    list.items[i].why.text, (long long)(*out)->id.step,
                    (long long)MAX(list.items[i].id.step - (*out)->id.step, 0));
    return STATUS_OK;
}

/* All that was carried goes: the program begins anew. */
static enum status clear(struct carry *c, struct arena scratch, struct err *err)
{
    enum status st = ckpt_clear(c->store, scratch, err);
    return !st && c->up ? uploader_clear(c->up, err) : st;
}

/* The number of this start, and from the object store whatever is newer than what is here. */
static enum status fetch_newer(struct carry *c, struct arena *perm, struct err *err)
{
    struct ckpt   *newest = NULL;
    struct ckpt_id got;
    struct arena   scratch = *perm;
    struct err     here    = { 0 };
    c->last.attempt        = ckpt_attempt_last(c->store) + 1;
    enum status st =
        c->config.to ? uploader_start(c->os, c->config.to, c->store, perm, &c->up, err) : STATUS_OK;
    if (st) return st;
    if (c->up) c->last.attempt = uploader_attempt(c->up);
    if (c->config.fresh) return clear(c, *perm, err);
    if (!c->up) return STATUS_OK;
    scratch              = *perm;
    enum status    found = newest_here(c, &scratch, &newest, NULL, &here);
    struct ckpt_id have  = newest && !found ? newest->id : (struct ckpt_id){ 0 };
    st                   = uploader_restore(c->up, have, perm, &c->said, &got, err);
    if (st == STATUS_WORLD) return stays(c, st, err->text, err);
    return st == STATUS_NO ? STATUS_OK
                           : st; /* what is here is looked at again, with its sentence */
}

enum status carry_open(struct os *os, const struct carry_config *config, struct arena *perm,
                       struct carry **out, struct err *err)
{
    struct carry *c = NEW(perm, struct carry, 1);
    *out            = NULL;
    *c              = (struct carry){ .os = os, .config = *config };
    program_complete(config->program->complete, &c->complete);
    struct os_stat lock;
    c->fresh =
        !config->fresh && os->stat(os, folder_path(perm, config->store, STR("lock")), &lock, NULL);
    enum status st = os->make_dir(os, config->program->folder, err);
    if (!st) st = ckpt_store_open(os, config->store, perm, &c->store, err);
    if (st) return st;
    c->folder        = os_absolute(perm, config->program->folder);
    struct str store = os_absolute(perm, config->store);
    if (inside(c->folder, store) || inside(store, c->folder)) {
        ckpt_store_close(c->store);
        return err_set(err, STATUS_USAGE,
                       "checkpoint.dir and program.folder must be separate, and %.*s is in %.*s",
                       STR_ARG(inside(c->folder, store) ? store : c->folder),
                       STR_ARG(inside(c->folder, store) ? c->folder : store));
    }
    st = fetch_newer(c, perm, err);
    if (st) {
        if (c->up) uploader_close(c->up, false);
        ckpt_store_close(c->store);
        return st;
    }
    find_run(c, *perm);
    for (i64 i = 0; i < COUNT_OF(c->memory); i++) c->memory[i] = arena_part(perm, LIST_BYTES);
    for (i64 i = 0; i < COUNT_OF(c->kept_memory); i++)
        c->kept_memory[i] = arena_part(perm, 64 << 20);
    thread_cond_init(&c->wake);
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return STATUS_OK;
}

struct str carry_run(const struct carry *c) { return str_of(c->run); }

void carry_set_run(struct carry *c, struct str run)
{
    snprintf(c->run, sizeof c->run, "%.*s", (int)MIN(run.len, 63), run.data);
}

void carry_close(struct carry *c, bool ended)
{
    if (!c) return;
    carry_pause(c);
    if (c->up) uploader_close(c->up, ended);
    ckpt_store_close(c->store);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
}

static enum status scan(struct carry *c, struct arena *perm, struct folder_list *out,
                        struct err *err)
{
    const struct program_config *p = c->config.program;
    return folder_scan(c->os, c->folder, p->files, p->file_count, perm, out, err);
}

/* The newest checkpoint holds these. */
static void keep_list(struct carry *c, const struct folder_list *l)
{
    struct arena       memory = c->kept_memory[c->kept_turn ^= 1];
    struct folder_list copy   = { NEW(&memory, struct folder_file, MAX(l->count, 1)), l->count };
    for (i64 i = 0; i < l->count; i++) {
        copy.files[i]      = l->files[i];
        copy.files[i].path = str_copy(&memory, l->files[i].path);
    }
    c->kept = copy;
}

/* --- which files are complete ------------------------------------------------------------------- */

static bool is_marker(const struct carry *c, struct str path)
{
    return c->complete.marker.len && str_ends(path, c->complete.marker);
}

/* Its marker is there, and was made after it. */
static bool is_marked(const struct carry *c, const struct folder_list *l,
                      const struct folder_file *f, struct arena scratch)
{
    struct str                marker = c->complete.marker;
    const struct folder_file *m =
        marker.len ? folder_find(l, str_cat(&scratch, f->path, marker)) : NULL;
    return m && m->mtime_ns >= f->mtime_ns;
}

static bool is_complete(struct carry *c, const struct folder_list *l, const struct folder_file *f,
                        struct arena scratch)
{
    i64  settle_ns = (i64)(c->complete.settle_s * 1e9);
    bool settled   = moment_now(c->os) - f->since_ns >= settle_ns;
    if (!settled && !is_marker(c, f->path) && !is_marked(c, l, f, scratch)) return false;
    return !family_writes(folder_path(&scratch, c->folder, f->path));
}

/* Since when each file has been as it is, as far as we have looked. */
static void note_changes(struct carry *c, struct folder_list *now)
{
    for (i64 i = 0; i < now->count; i++) {
        struct folder_file       *f      = &now->files[i];
        const struct folder_file *before = folder_find(&c->seen, f->path);
        f->since_ns = folder_same(f, before) ? before->since_ns : moment_now(c->os);
    }
    c->seen = *now;
}

/* Of the new ones; NULL: all are complete. */
static const struct folder_file *first_incomplete(struct carry *c, const struct folder_list *now,
                                                  struct arena scratch)
{
    for (i64 i = 0; i < now->count; i++) {
        const struct folder_file *f = &now->files[i];
        if (folder_same(f, folder_find(&c->kept, f->path))) continue;
        if (!is_complete(c, now, f, scratch)) return f;
    }
    return NULL;
}

static bool has_news(const struct carry *c, const struct folder_list *now)
{
    for (i64 i = 0; i < now->count; i++)
        if (!folder_same(&now->files[i], folder_find(&c->kept, now->files[i].path))) return true;
    return false;
}

/* --- taking one --------------------------------------------------------------------------------- */

static struct str state_text(struct arena *perm, const struct folder_list *l,
                             const struct ckpt_shard *shards)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, "{\"carried\":[");
    for (i64 i = 0; i < l->count; i++) {
        textbuf_fmt(&b, "%s{\"shard\":\"%.*s\",\"path\":", i ? "," : "", STR_ARG(shards[i].name));
        json_add_string(&b, l->files[i].path);
        textbuf_fmt(&b, ",\"mtime_ns\":%lld%s}", (long long)l->files[i].mtime_ns,
                    l->files[i].is_private ? ",\"private\":true" : "");
    }
    textbuf_fmt(&b, "]}");
    return textbuf_str(&b);
}

/* As it was before the copy, with the same bytes, and nobody writes it? */
static bool unchanged(struct carry *c, const struct folder_file *f, const struct ckpt_shard *copy,
                      enum carry_moment moment, struct arena scratch)
{
    struct os_stat stat;
    struct copied  again;
    struct str     path = folder_path(&scratch, c->folder, f->path);
    if (c->os->stat(c->os, path, &stat, NULL)) return false;
    if (stat.bytes != f->bytes || stat.mtime_ns != f->mtime_ns) return false;
    if (moment == CARRY_RUNNING && family_writes(path)) return false;
    if (folder_copy(c->os, path, STR(""), scratch, &again, NULL)) return false;
    return again.hash == copy->hash && again.bytes == copy->bytes;
}

/* Copies all into the store's folder. NO: one changed meanwhile. */
static enum status copy_files(struct carry *c, const struct folder_list *l, struct str to,
                              struct ckpt_manifest *m, enum carry_moment moment,
                              struct arena scratch, struct err *err)
{
    enum status st = STATUS_OK;
    for (i64 i = 0; i < l->count && !st; i++) {
        struct arena  here = scratch;
        struct copied copied;
        struct str    from = folder_path(&here, c->folder, l->files[i].path);
        st = folder_copy(ckpt_store_os(c->store), from, folder_path(&here, to, m->shards[i].name),
                         here, &copied, err);
        m->shards[i].bytes = copied.bytes;
        m->shards[i].hash  = copied.hash;
    }
    for (i64 i = 0; i < l->count; i++) {
        struct os_stat stat;
        bool           gone =
            c->os->stat(c->os, folder_path(&scratch, c->folder, l->files[i].path), &stat, NULL);
        if (gone || (!st && !unchanged(c, &l->files[i], &m->shards[i], moment, scratch)))
            return err_set(err, STATUS_NO, "%.*s changed while it was copied",
                           STR_ARG(l->files[i].path));
    }
    return st;
}

static const struct folder_file *newest_file(const struct folder_list *l)
{
    const struct folder_file *newest = &l->files[0];
    for (i64 i = 1; i < l->count; i++)
        if (l->files[i].mtime_ns >= newest->mtime_ns) newest = &l->files[i];
    return newest;
}

static void note_freed(struct carry *c)
{
    pthread_mutex_lock(&c->lock);
    c->state.freed++;
    pthread_mutex_unlock(&c->lock);
}

static enum status take(struct carry *c, const struct folder_list *l, i64 step,
                        enum carry_moment moment, struct arena scratch, struct err *err)
{
    struct ckpt_manifest m = { .id          = { MAX(step, 0), c->last.attempt, c->last.save + 1 },
                               .run         = str_of(c->run),
                               .wall_ns     = c->os->wall_ns(c->os),
                               .shards      = NEW(&scratch, struct ckpt_shard, l->count),
                               .shard_count = l->count };
    struct str           folder;
    for (i64 i = 0; i < l->count; i++)
        m.shards[i].name = str_fmt(&scratch, "file-%lld", (long long)i);
    m.state = state_text(&scratch, l, m.shards);
    enum status st;
    for (;;) { /* where the disk is full, older ones make room */
        struct ckpt_id went;
        bool           was = os_private(true);
        st                 = ckpt_import_begin(c->store, &m, &scratch, &folder, err);
        if (!st) { /* before it is ours, what lies under that name is somebody else's */
            st = copy_files(c, l, folder, &m, moment, scratch, err);
            if (!st) st = ckpt_import_commit(c->store, &m, scratch, err);
            else ckpt_drop(c->store, &m, scratch);
        }
        os_private(was);
        if (!st) break;
        if (err->cause != CAUSE_FULL || ckpt_free_oldest(c->store, scratch, &went, NULL)) return st;
        note_freed(c);
    }
    c->last = m.id;
    keep_list(c, l);
    if (c->up) uploader_offer(c->up, &m);
    const struct folder_file *newest = newest_file(l);
    i64                       since  = 0; /* the last of them was seen to change */
    for (i64 i = 0; i < l->count; i++) since = MAX(since, l->files[i].since_ns);
    pthread_mutex_lock(&c->lock);
    c->state.count++;
    c->state.step        = step;
    c->state.bytes       = ckpt_bytes(&m);
    c->state.complete_ns = since;
    snprintf(c->state.newest, sizeof c->state.newest, "%.*s", STR_ARG(newest->path));
    pthread_mutex_unlock(&c->lock);
    return ckpt_prune_unless(c->store, c->config.keep, &c->hurried, scratch, err);
}

static void note(struct carry *c, const struct folder_file *waits, enum status st,
                 const struct err *err)
{
    pthread_mutex_lock(&c->lock);
    struct carry_state *s = &c->state;
    if (waits && !s->waits[0]) s->waits_ns = moment_now(c->os);
    snprintf(s->waits, sizeof s->waits, "%.*s", waits ? (int)MIN(waits->path.len, 255) : 0,
             waits ? waits->path.data : "");
    s->discarded += st == STATUS_NO;
    s->failed = st && st != STATUS_NO ? *err : (struct err){ 0 };
    pthread_mutex_unlock(&c->lock);
}

static enum status look(struct carry *c, i64 step, enum carry_moment moment, struct err *err)
{
    struct arena              memory = c->memory[c->turn ^= 1], scratch = c->memory[2];
    struct folder_list        now;
    const struct folder_file *waits = NULL;
    enum status               st    = scan(c, &memory, &now, err);
    if (!st) {
        note_changes(c, &now);
        if (moment == CARRY_RUNNING) waits = first_incomplete(c, &now, scratch);
        if (!waits && has_news(c, &now)) st = take(c, &now, step, moment, scratch, err);
    }
    note(c, waits, st, err);
    return st;
}

enum status carry_look(struct carry *c, i64 step, enum carry_moment moment, struct err *err)
{
    struct err  why = { 0 };
    enum status st  = look(c, step, moment, &why);
    if (st == STATUS_NO && moment == CARRY_RUNNING)
        return STATUS_OK; /* the next look tries again */
    for (i64 i = 1; st == STATUS_NO && i < LAST_LOOKS_MAX; i++) {
        why = (struct err){ 0 };
        st  = look(c, step, moment, &why);
    }
    if (st == STATUS_NO) st = STATUS_WORLD; /* no later look will save it */
    return st ? err_set(err, st, "%s", why.text) : STATUS_OK;
}

/* --- bringing one back -------------------------------------------------------------------------- */

/* A path from a manifest, which whoever can write to the store may have written. */
static bool stays_inside(struct str path)
{
    struct str part;
    if (!path.len || str_find(path, '\0') >= 0) return false;
    for (struct str rest = path; str_cut(&rest, '/', &part);)
        if (!part.len || str_eq(part, STR(".")) || str_eq(part, STR("..")) ||
            str_starts(part, STR(".frugal")))
            return false;
    return !str_ends(path, STR("/"));
}

/* The files that a checkpoint holds, in the order of its shards. */
static enum status read_state(const struct ckpt *k, struct arena *perm, struct folder_list *out,
                              struct err *err)
{
    struct json *root;
    enum status  st = json_parse(perm, k->manifest.state, &root, err);
    if (st) return st;
    const struct json *list = json_get(root, STR("carried"));
    *out =
        (struct folder_list){ NEW(perm, struct folder_file, MAX(k->manifest.shard_count, 1)), 0 };
    if (list && list->kind == JSON_LIST && list->count == k->manifest.shard_count)
        for (const struct json *v = list->first; v; v = v->next) {
            const struct json  *path = json_get(v, STR("path"));
            struct folder_file *f    = &out->files[out->count];
            if (!path || path->kind != JSON_STRING ||
                !json_i64(json_get(v, STR("mtime_ns")), &f->mtime_ns))
                break;
            if (!stays_inside(path->text)) break;
            f->path       = path->text;
            f->is_private = json_get(v, STR("private")) != NULL;
            f->bytes      = k->manifest.shards[out->count++].bytes;
        }
    if (list && out->count != k->manifest.shard_count)
        return err_set(err, STATUS_WORLD,
                       "%.*s is damaged: its manifest names files that a checkpoint cannot have",
                       STR_ARG(k->folder));
    if (!list)
        return err_set(err, STATUS_USAGE,
                       "%.*s was not written by `frugal run`. Give the program its own "
                       "checkpoint.dir, or start over with --fresh, which deletes what is there",
                       STR_ARG(k->folder));
    return STATUS_OK;
}

/* A name in .frugal-aside that nothing has yet. */
static struct str aside_path(struct carry *c, struct os *inside, struct str path,
                             struct arena *perm)
{
    struct os_stat stat;
    struct str name = str_fmt(perm, "%.*s/.frugal-aside/%.*s", STR_ARG(c->folder), STR_ARG(path));
    struct str to   = name;
    for (i64 i = 1; i < ASIDE_MAX && !inside->stat(inside, to, &stat, NULL); i++)
        to = str_fmt(perm, "%.*s.%lld", STR_ARG(name), (long long)i);
    return to;
}

/* What is not in the checkpoint as it lies here goes out of the program's sight. */
static enum status put_aside(struct carry *c, struct os *inside, const struct folder_list *here,
                             const struct folder_list *wanted, struct arena scratch, i64 *count,
                             struct err *err)
{
    enum status st = STATUS_OK;
    for (i64 i = 0; i < here->count && !st; i++) {
        const struct folder_file *f = &here->files[i];
        if (folder_same(f, folder_find(wanted, f->path))) continue;
        struct str from = folder_path(&scratch, c->folder, f->path);
        struct str to = aside_path(c, inside, f->path, &scratch), dir = to;
        while (dir.data[dir.len - 1] != '/') dir.len--;
        dir.len--;
        st = inside->make_dir(inside, dir, err);
        if (!st) st = inside->rename(inside, from, to, err);
        *count += !st;
    }
    return st;
}

static enum status bring_back(struct carry *c, struct os *os, const struct ckpt *k, i64 shard,
                              const struct folder_file *f, struct arena scratch, struct err *err)
{
    struct copied copied;
    struct str    to   = folder_path(&scratch, c->folder, f->path);
    struct str    part = os_part_name(&scratch, to), dir = to;
    struct str    from = folder_path(&scratch, k->folder, k->manifest.shards[shard].name);
    while (dir.data[dir.len - 1] != '/') dir.len--;
    enum status st = os->make_dir(os, str_sub(dir, 0, dir.len - 1), err);
    if (!st) os_part_sweep(os, to, scratch);
    bool was = os_private(f->is_private);
    if (!st) st = folder_copy(os, from, part, scratch, &copied, err);
    os_private(was);
    if (!st && copied.hash != k->manifest.shards[shard].hash)
        st = err_set(err, STATUS_WORLD, "%.*s changed while it was read", STR_ARG(from));
    if (!st) os->set_mtime(os, part, f->mtime_ns); /* programs ask which file is the newest */
    if (!st) st = os->rename(os, part, to, err);
    if (st) os->remove(os, part, NULL);
    return st;
}

static enum status restore(struct carry *c, const struct ckpt *k, const struct folder_list *wanted,
                           struct textbuf *said, struct err *err)
{
    struct arena       scratch = c->memory[2], memory = c->memory[0];
    struct folder_list here;
    i64                aside  = 0;
    struct os         *inside = os_beneath(c->os, c->folder, &scratch); /* links lead nowhere */
    enum status        st     = scan(c, &memory, &here, err);
    if (!st) st = put_aside(c, inside, &here, wanted, scratch, &aside, err);
    for (i64 i = 0; i < wanted->count && !st; i++)
        if (!folder_same(&wanted->files[i], folder_find(&here, wanted->files[i].path)))
            st = bring_back(c, inside, k, i, &wanted->files[i], scratch, err);
    os_beneath_end(inside);
    if (!st) st = scan(c, &memory, &here, err); /* with the times that the disk gave them */
    if (!st) keep_list(c, &here);
    if (aside)
        textbuf_fmt(said, "moved %lld file%s that no checkpoint holds to %.*s/.frugal-aside\n",
                    (long long)aside, aside > 1 ? "s" : "", STR_ARG(c->folder));
    return st;
}

enum status carry_restore(struct carry *c, struct arena *perm, struct str *said, bool *found,
                          struct err *err)
{
    struct arena       scratch = c->memory[1];
    struct ckpt       *k;
    struct folder_list wanted;
    struct textbuf     b = textbuf_new(perm);
    c->seen              = (struct folder_list){
                     0
    }; /* the program that wrote those is gone, and its memory is used here */
    if (c->said.len) textbuf_fmt(&b, "%.*s\n", STR_ARG(c->said));
    c->said        = STR("");
    *found         = false;
    enum status st = newest_here(c, &scratch, &k, &b, err);
    if (!st && k) st = read_state(k, &scratch, &wanted, err);
    if (!st && k) {
        st     = restore(c, k, &wanted, &b, err);
        *found = !st;
        pthread_mutex_lock(&c->lock);
        c->state.step = k->id.step;
        snprintf(c->state.newest, sizeof c->state.newest, "%.*s",
                 STR_ARG(newest_file(&wanted)->path));
        pthread_mutex_unlock(&c->lock);
    } else if (!st && c->fresh) {
        st = carry_look(c, 0, CARRY_EXITED, err);
    } else if (!st) {
        st = restore(c, NULL, &(struct folder_list){ 0 }, &b, err);
    }
    c->fresh = false;
    *said    = textbuf_str(&b);
    return st;
}

/* --- the thread --------------------------------------------------------------------------------- */

static bool wait_or_pause(struct carry *c, i64 ns, i64 *step)
{
    struct deadline until = deadline_in(os_real(), ns);
    pthread_mutex_lock(&c->lock);
    while (!c->pausing && thread_wait_until(&c->wake, &c->lock, until.at_ns)) {}
    bool pausing = c->pausing;
    *step        = c->step;
    pthread_mutex_unlock(&c->lock);
    return pausing;
}

static void *look_again_and_again(void *context)
{
    struct carry *c = context;
    i64           step;
    while (!wait_or_pause(c, c->config.look_ns, &step)) carry_look(c, step, CARRY_RUNNING, NULL);
    return NULL;
}

enum status carry_begin(struct carry *c, struct err *err)
{
    ASSERT(!c->thread_runs);
    c->pausing = false;
    enum status st =
        thread_start(&c->thread, look_again_and_again, c, "the thread that copies files", err);
    c->thread_runs = !st;
    return st;
}

void carry_pause(struct carry *c)
{
    if (!c->thread_runs) return;
    pthread_mutex_lock(&c->lock);
    c->pausing = true;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    c->thread_runs = false;
}

void carry_hurry(struct carry *c)
{
    atomic_store(&c->hurried, true);
    if (c->up) uploader_hurry(c->up);
}

void carry_step(struct carry *c, i64 step)
{
    pthread_mutex_lock(&c->lock);
    c->step = step;
    pthread_mutex_unlock(&c->lock);
}

struct carry_state carry_state(struct carry *c)
{
    pthread_mutex_lock(&c->lock);
    struct carry_state s = c->state;
    pthread_mutex_unlock(&c->lock);
    return s;
}

/* --- the object store --------------------------------------------------------------------------- */

struct upload_state carry_upload(struct carry *c)
{
    return c->up ? uploader_state(c->up) : (struct upload_state){ .alone = true };
}

enum status carry_wait_end(struct carry *c, i64 deadline_ns, void (*say)(void *, const char *),
                           void *context, struct err *err)
{
    return c->up ? uploader_wait_end(c->up, deadline_ns, say, context, err) : STATUS_OK;
}
