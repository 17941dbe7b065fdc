/* shelf.c - the ledger's rows as objects of a store. */
#include "job/shelf.h"
#include "job/checkpoint_cost.h"
#include <string.h>

enum { SCRATCH_BYTES = 64 << 20, FILE_GIB = 4 }; /* address space only */

static bool is_rows(struct str key)
{
    static const char folder[] = "ledger/";
    i64               name     = key.len;
    while (name > 0 && key.data[name - 1] != '/') name--;
    return str_ends(key, STR(".jsonl")) && str_ends(str_sub(key, 0, name), STR(folder));
}

/* All objects of rows below the prefix, one behind the other. */
static enum status read_below(struct shelf *s, struct str prefix, struct arena *perm,
                              struct str *lines, struct err *err)
{
    struct arena   room = arena_open(SCRATCH_BYTES), all = arena_open((i64)4 << 30), scratch = room;
    struct s3_list found = { 0 };
    enum status    st    = STATUS_OK;
    if (!room.begin || !all.begin)
        st = err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    struct arena   objects = all;
    struct textbuf b       = textbuf_new(perm);
    if (!st) st = s3_list(s->s3, prefix, STR(""), &objects, scratch, &found, err);
    for (i64 i = 0; i < found.count && !st; i++) {
        struct arena here = objects;
        struct str   bytes;
        if (!is_rows(found.objects[i].key) || !found.objects[i].bytes) continue;
        st = s3_get_range(s->s3, found.objects[i].key, 0, found.objects[i].bytes, &here, &bytes,
                          err);
        if (!st) textbuf_add(&b, bytes);
    }
    if (all.begin) arena_close(&all);
    if (room.begin) arena_close(&room);
    *lines = textbuf_str(&b);
    return st;
}

static struct str key_of(const struct shelf *s, const char *folder, struct str segment,
                         struct arena *perm)
{
    return str_fmt(perm, "%.*s%s/%.*s%s", STR_ARG(s3_prefix(s->s3)), folder, STR_ARG(segment),
                   segment.len ? ".jsonl" : "");
}

static enum status fetch(void *context, struct arena *perm, struct str *lines, struct err *err)
{
    struct shelf *s    = context;
    struct arena  here = arena_part(perm, 4096);
    return read_below(s, key_of(s, "ledger", STR(""), &here), perm, lines, err);
}

static enum status put(void *context, struct str segment, struct str lines, struct arena scratch,
                       struct err *err)
{
    struct shelf *s = context;
    return s3_put(s->s3, key_of(s, "ledger", segment, &scratch), lines, scratch, err);
}

static enum status put_events(void *context, struct str segment, struct str lines,
                              struct arena scratch, struct err *err)
{
    struct shelf *s = context;
    return s3_put(s->s3, key_of(s, "events", segment, &scratch), lines, scratch, err);
}

static void promise(void *context)
{
    struct shelf *s = context;
    atomic_store(&s->promised, s3_sums(s->s3).puts + 1);
}

static void cancel(void *context) { s3_cancel(((struct shelf *)context)->s3); }

enum status shelf_open(struct shelf *s, struct os *os, const struct s3_settings *settings,
                       struct arena *perm, struct err *err)
{
    struct s3_settings with = *settings;
    *s             = (struct shelf){ .store = { s, fetch, put, put_events, cancel, promise } };
    with.limit_ns  = (i64)SHELF_CALL_S * 1000000000;
    enum status st = web_open(os, perm, &s->web, err);
    if (!st) st = s3_open(os, s->web, &with, perm, &s->s3, err);
    if (st) shelf_close(s);
    return st;
}

void shelf_close(struct shelf *s)
{
    if (s->web) web_close(s->web);
    s->web = NULL;
}

struct store_requests shelf_requests(void *shelf)
{
    struct shelf  *s    = shelf;
    struct s3_sums sums = s3_sums(s->s3);
    return (struct store_requests){ MAX(sums.puts, (i64)atomic_load(&s->promised)), sums.gets,
                                    sums.bytes_in };
}

enum status shelf_read_all(struct shelf *s, struct arena *perm, struct str *lines, struct err *err)
{
    return read_below(s, s3_prefix(s->s3), perm, lines, err);
}

static enum status read_store(struct os *os, struct str address, struct arena *perm,
                              struct arena *memory, struct str *lines, struct err *err)
{
    struct s3_settings where = object_store_here(os, address);
    struct shelf       shelf;
    enum status        st = shelf_open(&shelf, os, &where, perm, err);
    if (st) return st;
    st = shelf_read_all(&shelf, memory, lines, err);
    shelf_close(&shelf);
    return st;
}

enum status shelf_merge(struct os *os, struct ledger *l, struct str from, struct arena *perm,
                        i64 *rows, struct err *err)
{
    struct arena memory = arena_open((i64)FILE_GIB << 30);
    struct str   lines  = STR("");
    struct err   why    = { 0 };
    *rows               = 0;
    if (!memory.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    enum status st = object_store_is(from) ? read_store(os, from, perm, &memory, &lines, err)
                                           : os_read_all(os, from, &memory, &lines, err);
    if (!st) {
        st = ledger_import(l, lines, memory, rows, &why);
        if (st) err_set(err, st, "%.*s: %s", STR_ARG(from), why.text);
    }
    arena_close(&memory);
    return st;
}
