/* link.c - who has which GPU, and whether they go together. */
#include "backend/ranks/link.h"
#include "base/hash.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct device {
    char name[64], bus_id[32];
    u64  machine;
    i32  has_engine; /* else the host carries its collectives */
    i32  may_share;  /* a GPU with another rank, by NCCL's own setting */
};

static void print_to(char *to, size_t bytes, struct str text)
{
    snprintf(to, bytes, "%.*s", STR_ARG(text));
}

static struct device describe(const struct backend *b, const struct target *t, struct os *os)
{
    struct device d         = { .has_engine = b->table->link != NULL };
    char          host[256] = { 0 };
    gethostname(host, sizeof host - 1);
    print_to(d.name, sizeof d.name, t->name);
    print_to(d.bus_id, sizeof d.bus_id, t->bus_id);
    d.machine   = xxh64(str_of(host));
    d.may_share = str_eq(os->env(os, "NCCL_MULTI_RANK_GPU_ENABLE"), STR("1"));
    return d;
}

static enum status check_alike(const struct device *all, i32 count, struct err *err)
{
    for (i32 i = 1; i < count; i++) {
        if (all[i].has_engine != all[0].has_engine)
            return err_set(err, STATUS_USAGE,
                           "rank %d computes on %s and rank 0 on %s: all ranks need a GPU, or "
                           "train.device=cpu",
                           i, all[i].has_engine ? all[i].name : "a processor",
                           all[0].has_engine ? all[0].name : "a processor");
        if (all[0].has_engine && strcmp(all[i].name, all[0].name))
            return err_set(err, STATUS_USAGE,
                           "rank %d has a GPU %s and rank 0 a %s: each step would wait for the "
                           "slower one; use GPUs of one kind (CUDA_VISIBLE_DEVICES chooses them)",
                           i, all[i].name, all[0].name);
    }
    return STATUS_OK;
}

/* As many ranks as GPUs on every machine: a launcher may show each rank its own, or all of them to all. */
static enum status check_apart(const struct device *all, i32 count, struct err *err)
{
    for (i32 i = 0; i < count; i++) {
        for (i32 k = 0; k < i; k++) {
            if (all[k].machine != all[i].machine || strcmp(all[k].bus_id, all[i].bus_id)) continue;
            if (all[i].may_share && all[k].may_share) continue;
            return err_set(err, STATUS_USAGE,
                           "ranks %d and %d would share the GPU at %s: start one rank for each GPU "
                           "of a machine, or train.device=cpu",
                           k, i, all[i].bus_id);
        }
    }
    return STATUS_OK;
}

enum status ranks_link(struct ranks *r, struct backend *b, const struct target *here, struct os *os,
                       struct err *err)
{
    struct device      all[RANKS_MAX];
    struct backend_key key = { { 0 } };
    all[r->rank]           = describe(b, here, os);
    enum status st         = ranks_gather(r, all, r->count, sizeof *all);
    if (st) return err_set(err, st, "%s", r->failed.text);
    st = check_alike(all, r->count, err);
    if (st || !b->table->link) return st;
    st = check_apart(all, r->count, err);
    if (st) return st;
    st = ranks_agree(r, b->table->engine(b, r->rank ? NULL : &key, err), err);
    if (st) return st;
    st = ranks_spread(r, 0, &key, sizeof key);
    if (st) return err_set(err, st, "%s", r->failed.text);
    st = ranks_agree(r, b->table->link(b, &key, r->rank, r->count, err), err);
    for (i32 i = OVER_MACHINE; !st && i < OVER_COUNT; i++) {
        const struct ranks *some = r->over[i];
        if (!some) continue;
        st = ranks_agree(
            r, b->table->split(b, (enum ranks_over)i, some->group, some->rank, some->count, err),
            err);
    }
    return st;
}
