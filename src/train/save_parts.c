/* save_parts.c - what ranks say to one another to write one checkpoint together. */
#include "train/save_parts.h"
#include "base/rng.h"
#include "train/dealt.h"
#include <stdio.h>
#include <string.h>

/* --- a folder that all see --- */

static enum status say(struct restore *r, void *data, i64 bytes, struct err *err)
{
    enum status st = ranks_spread(r->ranks, 0, data, bytes);
    return st ? err_set(err, st, "%s", r->ranks->failed.text) : st;
}

/* A name that no earlier start has used: network file systems remember for a while what was not there. */
static struct str probe_path(struct arena *perm, struct str folder, u64 token, i32 rank)
{
    return str_fmt(perm, "%.*s/probe-%016llx.%d", STR_ARG(folder), (unsigned long long)token, rank);
}

static enum status touch(struct os *os, struct str path)
{
    struct file f;
    bool        was = os_private(true);
    enum status st  = os->create(os, path, &f, NULL);
    os_private(was);
    return st ? st : os->close(os, &f, NULL);
}

/* Rank 0's own, and what a killed start has left: the folder is locked. */
static void remove_probes(struct os *os, struct str folder, struct arena scratch)
{
    struct str *names;
    i64         count = 0;
    if (os->list(os, folder, &scratch, &names, &count, NULL)) return;
    for (i64 i = 0; i < count; i++)
        if (str_starts(names[i], STR("probe-")))
            os->remove(os, str_fmt(&scratch, "%.*s/%.*s", STR_ARG(folder), STR_ARG(names[i])),
                       NULL);
}

/* Does this rank see rank 0's file, and can it write there itself? */
static bool sees(const struct restore *r, u64 token)
{
    struct arena   scratch = r->perm;
    struct os_stat stat;
    struct os     *inside = os_beneath(r->os, r->folder, &scratch);
    struct str     own    = probe_path(&scratch, r->folder, token, r->ranks->rank);
    bool is = !inside->stat(inside, probe_path(&scratch, r->folder, token, 0), &stat, NULL);
    if (is && r->ranks->rank) {
        is = !touch(inside, own);
        inside->remove(inside, own, NULL);
    }
    os_beneath_end(inside);
    return is;
}

static void tell_alone(const struct restore *r, i32 rank)
{
    struct arena scratch = r->perm;
    emit_note(r->with->to,
              &(struct event_note){ str_fmt(
                  &scratch,
                  "rank %d cannot see or write to checkpoint.dir=%.*s, so rank 0 collects and "
                  "writes checkpoints alone, which takes memory for a whole one",
                  rank, STR_ARG(r->folder)) });
}

/* The folder of rank 0, and a file in it. */
struct invitation {
    u64 token;
    i64 len; /* of the folder's name; 0: no checkpoints */
};

static enum status share_folder(struct restore *r, struct invitation *p, struct err *err)
{
    if (r->store) {
        struct arena scratch = r->perm;
        r->folder            = ckpt_store_folder(r->store);
        p->token             = rng_mix((u64)r->os->wall_ns(r->os) ^ (u64)r->attempt);
        p->len               = r->folder.len;
        touch(ckpt_store_os(r->store), probe_path(&scratch, r->folder, p->token, 0));
    }
    enum status st = say(r, p, sizeof *p, err);
    if (st || !p->len) return st;
    char *name = NEW(&r->perm, char, p->len);
    if (!r->ranks->rank) memcpy(name, r->folder.data, (size_t)p->len);
    st        = say(r, name, p->len, err);
    r->folder = (struct str){ name, p->len };
    return st;
}

/* With copies in every machine, those of rank 0's write (dealt_writer). */
static bool writes(const struct restore *r, i32 rank)
{
    const u64 *machine = r->ranks->machine_of;
    return !str_eq(r->settings->train.shard_over, STR("machine")) || machine[rank] == machine[0];
}

enum status parts_meet(struct restore *r, struct err *err)
{
    i32               all[RANKS_MAX];
    struct invitation p = { 0 };
    if (!r->ranks || r->ranks->count < 2 || str_eq(r->settings->train.shard, STR("none")))
        return STATUS_OK;
    enum status st = share_folder(r, &p, err);
    if (st || !p.len) return st;
    all[r->ranks->rank] = sees(r, p.token);
    st                  = ranks_gather(r->ranks, all, r->ranks->count, sizeof *all);
    if (st) return err_set(err, st, "%s", r->ranks->failed.text);
    i32 first = 0;
    while (first < r->ranks->count && (all[first] || !writes(r, first))) first++;
    r->shared = first == r->ranks->count;
    if (r->ranks->rank) return STATUS_OK;
    remove_probes(ckpt_store_os(r->store), r->folder, r->perm);
    if (!r->shared) tell_alone(r, first);
    return STATUS_OK;
}

/* --- rank 0 --- */

/* What the ranks report of their parts; theirs have the order of rank 0's files. */
static i64 shards_of(struct saving *v, const struct part_report *reports)
{
    const struct snapshot *n     = &v->snapshot;
    i32                    parts = dealt_parts(v->s);
    i64                    count = 0;
    for (i32 part = 1; part < parts; part++) {
        const struct part_report *r = &reports[dealt_writer(v->s, part)];
        for (i64 p = 0, k = 0; p < SNAPSHOT_TENSOR_PARTS; p++) {
            if (n->files[p].parts == 1) continue;
            v->others[count].bytes  = r->bytes[k];
            v->others[count++].hash = r->hash[k++];
        }
    }
    return count;
}

/* Their names stay the same. */
static void name_shards(struct saving *v)
{
    const struct snapshot *n     = &v->snapshot;
    i32                    parts = dealt_parts(v->s);
    i64                    count = 0;
    v->others = NEW(v->s->perm, struct ckpt_shard, (i64)parts * SNAPSHOT_TENSOR_PARTS);
    for (i32 part = 1; part < parts; part++)
        for (i64 p = 0; p < SNAPSHOT_TENSOR_PARTS; p++) {
            if (n->files[p].parts == 1) continue;
            struct str name = st_part_name(v->s->perm, n->all[p].file.name, part + 1, parts);
            v->others[count++].name = str_cat(v->s->perm, name, STR(".safetensors"));
        }
}

/* All ranks: has each written its part? Not OK: a rank is gone. */
static enum status gather_reports(struct saving *v, struct part_report *all, struct err *why)
{
    struct ranks *r   = v->s->ranks;
    i32           who = 0;
    if (r->rank) all[r->rank] = checkpoint_writer_report(v->writer, why);
    else all[0] = (struct part_report){ .done = true };
    enum status st = ranks_gather(r, all, r->count, sizeof *all);
    for (i32 i = 0; i < r->count && !st; i++)
        if (!all[i].done) return STATUS_OK;
    while (!st && who < r->count && !all[who].status) who++;
    if (st || who == r->count) return st;
    st      = ranks_spread(r, who, why, sizeof *why);
    i64 len = (i64)strnlen(why->text, sizeof why->text);
    snprintf(why->text + len, sizeof why->text - (size_t)len, " (rank %d)", who);
    return st;
}

static void ask(struct saving *v)
{
    struct ranks       *r       = v->s->ranks;
    struct arena        scratch = v->s->scratch;
    struct part_report *all     = NEW(&scratch, struct part_report, r->count);
    struct err          why     = { 0 };
    if (dealt_say(v->s, DEALT_ASK, NULL) || gather_reports(v, all, &why)) return;
    for (i32 i = 0; i < r->count; i++)
        if (!all[i].done) return;
    v->asked = false;
    checkpoint_writer_answer(v->writer, v->others, shards_of(v, all), &why);
}

void parts_poll(struct saving *v)
{
    struct dealt_order o = { .word = DEALT_WRITE };
    if (!v->snapshot.shared) return;
    if (!v->others) name_shards(v);
    if (checkpoint_writer_asks(v->writer, &o.id)) v->asked = !dealt_spread(v->s, &o, NULL);
    if (v->asked) ask(v);
}

/* --- the others --- */

enum status parts_start(struct saving *v, struct err *err)
{
    struct session                 *s  = v->s;
    struct checkpoint_writer_config c  = { .os      = s->os,
                                           .folder  = v->from->folder,
                                           .prepare = snapshot_prepare,
                                           .copy    = snapshot_copy,
                                           .source  = &v->snapshot };
    enum status                     st = checkpoint_writer_open(&c, s->perm, &v->writer, err);
    if (!st && !s->backend->table->behind) checkpoint_writer_prepare(v->writer);
    return st;
}

static enum status take(struct saving *v, struct err *err)
{
    struct snapshot *n = &v->snapshot;
    checkpoint_writer_prepare(v->writer);
    checkpoint_writer_over(v->writer); /* rank 0 has begun the next */
    if (snapshot_take(n, v->at)) return err_set(err, STATUS_WORLD, "%s", v->s->ranks->failed.text);
    checkpoint_writer_begin(v->writer, &(struct ckpt_manifest){ 0 }, n->parts, n->part_count);
    return STATUS_OK;
}

static enum status report(struct saving *v, struct err *err)
{
    struct arena        scratch = v->s->scratch;
    struct part_report *all     = NEW(&scratch, struct part_report, v->s->ranks->count);
    struct err          why     = { 0 };
    if (!gather_reports(v, all, &why)) return STATUS_OK;
    return err_set(err, STATUS_WORLD, "%s", v->s->ranks->failed.text);
}

static enum status obey(struct saving *v, const struct dealt_order *o, struct err *err)
{
    switch ((enum dealt_word)o->word) {
    case DEALT_TAKE: return take(v, err);
    case DEALT_WRITE: return checkpoint_writer_write(v->writer, o->id), STATUS_OK;
    case DEALT_ASK: return report(v, err);
    case DEALT_WAIT: return STATUS_OK;
    default: return dealt_give(v->s, o, err);
    }
}

enum status parts_follow_last(struct saving *v, struct err *err)
{
    struct dealt_order o = { 0 };
    for (;;) {
        enum status st = together_say(v->s, &o, sizeof o, err);
        if (st || o.word == DEALT_GO_ON) return st;
        st = obey(v, &o, err);
        if (st) return st;
    }
}

enum status parts_follow(struct saving *v, struct err *err)
{
    if (v->writer) checkpoint_writer_prepare(v->writer); /* on a device, after its first step */
    return session_shards(v->s) ? parts_follow_last(v, err) : STATUS_OK;
}
