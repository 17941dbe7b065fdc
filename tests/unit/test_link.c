/* test_link.c - which GPUs of several ranks are joined, and which are refused, with the same sentence at all of them.
 * The ranks are threads and their GPUs are made up; tests/gpu/run has real ones. */
#include "backend/ranks/link.h"
#include "backend/ranks/threads.h"
#include "harness.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 3 };

struct gpu {
    struct backend base;
    struct ranks  *r;
    struct target  here;
    struct os     *os;
    const char    *no_engine, *no_link; /* why */
    char           linked[sizeof(struct backend_key)];
    i32            rank, ranks;
    pthread_t      thread;
    enum status    st;
    struct err     err;
};

static enum status engine(struct backend *b, struct backend_key *key, struct err *err)
{
    struct gpu *g = (struct gpu *)b;
    if (key) strcpy(key->bytes, "of rank 0");
    return g->no_engine ? err_set(err, STATUS_WORLD, "%s", g->no_engine) : STATUS_OK;
}

static enum status join_all(struct backend *b, const struct backend_key *key, i32 rank, i32 ranks,
                            struct err *err)
{
    struct gpu *g = (struct gpu *)b;
    memcpy(g->linked, key->bytes, sizeof g->linked);
    g->rank  = rank;
    g->ranks = ranks;
    return g->no_link ? err_set(err, STATUS_WORLD, "%s", g->no_link) : STATUS_OK;
}

static const struct backend_table gpu_table = { .name = "gpu", .engine = engine, .link = join_all };
static const struct backend_table cpu_table = { .name = "cpu" };

static void *link_one(void *context)
{
    struct gpu *g = context;
    g->st         = ranks_link(g->r, &g->base, &g->here, g->os, &g->err);
    return NULL;
}

static struct gpu *gpus_new(struct arena *perm)
{
    static const char *const bus_ids[] = { "0000:01:00.0", "0000:02:00.0", "0000:03:00.0" };
    struct rank_threads     *t         = rank_threads_new(perm, COUNT);
    struct gpu              *g         = NEW(perm, struct gpu, COUNT);
    for (i32 i = 0; i < COUNT; i++) {
        g[i].base.table  = &gpu_table;
        g[i].r           = rank_threads_rank(t, i);
        g[i].here.name   = STR("H200");
        g[i].here.bus_id = str_of(bus_ids[i]);
        g[i].os          = os_real();
    }
    return g;
}

/* All get the same answer: `text`, or none. */
static void link_all(struct gpu *g, enum status st, const char *text)
{
    for (i32 i = 0; i < COUNT; i++) CHECK(!pthread_create(&g[i].thread, NULL, link_one, &g[i]));
    for (i32 i = 0; i < COUNT; i++) pthread_join(g[i].thread, NULL);
    for (i32 i = 0; i < COUNT; i++) {
        CHECK_EQ(g[i].st, st);
        CHECK_STR(g[i].err.text, text);
    }
}

TEST(gpus_are_linked_by_the_key_of_rank_0)
{
    struct gpu *g = gpus_new(perm);
    link_all(g, STATUS_OK, "");
    for (i32 i = 0; i < COUNT; i++) {
        CHECK_STR(g[i].linked, "of rank 0");
        CHECK_EQ(g[i].rank, i);
        CHECK_EQ(g[i].ranks, COUNT);
    }
}

TEST(processors_need_no_link)
{
    struct gpu *g = gpus_new(perm);
    for (i32 i = 0; i < COUNT; i++) g[i].base.table = &cpu_table;
    g[1].here.name = STR("another processor");
    link_all(g, STATUS_OK, "");
    CHECK_EQ(g[0].ranks, 0);
}

TEST(unequal_gpus_are_refused)
{
    struct gpu *g  = gpus_new(perm);
    g[2].here.name = STR("L4");
    link_all(g, STATUS_USAGE,
             "rank 2 has a GPU L4 and rank 0 a H200: each step would wait for the slower one; use "
             "GPUs of one kind (CUDA_VISIBLE_DEVICES chooses them)");
}

TEST(a_rank_without_a_gpu_is_refused)
{
    struct gpu *g   = gpus_new(perm);
    g[1].base.table = &cpu_table;
    link_all(g, STATUS_USAGE,
             "rank 1 computes on a processor and rank 0 on H200: all ranks need a GPU, or "
             "train.device=cpu");
}

TEST(ranks_that_would_share_a_gpu_are_refused)
{
    struct gpu *g    = gpus_new(perm);
    g[2].here.bus_id = g[0].here.bus_id;
    link_all(g, STATUS_USAGE,
             "ranks 0 and 2 would share the GPU at 0000:01:00.0: start one rank for each GPU of a "
             "machine, or train.device=cpu");
    g                = gpus_new(perm);
    g[2].here.bus_id = g[0].here.bus_id;
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1); /* as NCCL itself has it */
    link_all(g, STATUS_OK, "");
    unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

TEST(one_rank_without_the_library_ends_all)
{
    struct gpu *g  = gpus_new(perm);
    g[1].no_engine = "NCCL was not found";
    link_all(g, STATUS_WORLD, "NCCL was not found (rank 1)");
    CHECK_EQ(g[0].ranks, 0);
}

TEST(a_link_that_fails_at_one_rank_ends_all)
{
    struct gpu *g = gpus_new(perm);
    g[0].no_link  = "no network";
    link_all(g, STATUS_WORLD, "no network");
}
