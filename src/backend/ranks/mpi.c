/* mpi.c - opens MPI, and waits for it without hanging and without keeping a core from the other ranks.
 *
 * Every call is begun and then asked for: between two questions the core is given to whoever wants it (two ranks may
 * share one), and from time to time we look whether the ranks of this machine are still alive and whether the limit
 * is over. A launcher that is quicker kills us; one that is not leaves us with a sentence. */
#include "backend/ranks/mpi_int.h"
#include "base/hash.h"
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const i64 look_ns = (i64)50000000; /* between two looks at the others */

/* --- waiting --- */

/* A process that has ended and was not reaped yet is dead too. */
static bool is_dead(i64 pid)
{
    char       path[64], text[512];
    struct str rest;
    if (kill((pid_t)pid, 0)) return true;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    rest    = os_proc_text(str_of(path), text, sizeof text);
    i64 end = rest.len;
    while (end > 0 && rest.data[end - 1] != ')') end--; /* behind its name */
    return end > 0 && end + 1 < rest.len &&
           (rest.data[end + 1] == 'Z' || rest.data[end + 1] == 'X');
}

static struct mpi *mpi_of(struct ranks *r) { return (struct mpi *)r; }

/* Of a group: all of whom these are some, who know each other. */
static struct mpi *whole(struct mpi *m) { return m->base.whole ? mpi_of(m->base.whole) : m; }

/* Who sees it stays for a moment, so that all see the same ranks gone, and the first that is left speaks for them. */
static enum status look_at_peers(struct mpi *m, struct err *err)
{
    static const i64 stay_ns = (i64)300000000;
    struct ranks    *r       = &m->base;
    i32              gone = -1, left = -1;
    for (i32 i = 0; m->peers && i < r->count; i++) {
        bool here = m->peers[i].machine == m->peers[r->rank].machine;
        bool dead = i != r->rank && here && is_dead(m->peers[i].pid);
        if (dead && gone < 0) gone = i;
        if (!dead && left < 0) left = i;
    }
    if (gone < 0) return STATUS_OK;
    r->speaks = left == r->rank;
    m->os->sleep_ns(m->os, stay_ns);
    return err_set(err, STATUS_WORLD,
                   "rank %d (process %lld) has ended, so all %d end; start them again to resume "
                   "from the newest checkpoint",
                   gone, (long long)m->peers[gone].pid, r->count);
}

static enum status failed(const struct mpi *m, int bad, struct err *err)
{
    return err_set(err, STATUS_WORLD, "%s failed with code %d: a rank or its network is gone",
                   m->abi->name, bad);
}

/* Is everybody still there, and is the limit not over, for somebody who waits since then? */
static enum status look(struct mpi *m, i64 since_ns, struct err *err)
{
    enum status st = look_at_peers(m, err);
    if (st || m->os->now_ns(m->os) - since_ns <= m->limit_ns) return st;
    return err_set(err, STATUS_WORLD,
                   "another rank has not come for %.0f s (train.join_s), so all %d end",
                   (f64)m->limit_ns * 1e-9, m->base.count);
}

static enum status await(struct mpi *m, union mpi_handle *request, struct err *err)
{
    i64 begin_ns = m->os->now_ns(m->os), looked_ns = begin_ns;
    for (;;) {
        int done = 0, bad = m->abi->test(m, request, &done);
        if (bad) return failed(m, bad, err);
        if (done) return STATUS_OK;
        sched_yield();
        i64 now_ns = m->os->now_ns(m->os);
        if (now_ns - looked_ns < look_ns) continue;
        looked_ns      = now_ns;
        enum status st = look(whole(m), begin_ns, err);
        if (st) return st;
    }
}

/* --- the table --- */

static void parts_of(struct mpi *m, const i64 *begin)
{
    for (i32 i = 0; i < m->base.count; i++) {
        ASSERT(begin[i + 1] - begin[0] <= INT32_MAX);
        m->places[i] = (int)(begin[i] - begin[0]);
        m->counts[i] = (int)(begin[i + 1] - begin[i]);
    }
}

static void take_ints(struct mpi *m, int *ints)
{
    m->counts = ints;
    m->places = m->counts + m->base.count;
    m->own    = m->places + m->base.count;
    m->at     = m->own + m->base.count;
}

static enum status finish(struct mpi *m, int bad, union mpi_handle *request, struct err *err)
{
    return bad ? failed(m, bad, err) : await(m, request, err);
}

static enum status mpi_exchange(struct ranks *r, const u8 *from, const i64 *begin, u8 *to,
                                struct err *err)
{
    struct mpi      *m       = mpi_of(r);
    union mpi_handle request = { NULL };
    int              own     = (int)(begin[r->rank + 1] - begin[r->rank]);
    parts_of(m, begin);
    for (i32 i = 0; i < r->count; i++) m->own[i] = own, m->at[i] = i * own;
    return finish(m, m->abi->exchange(m, from + begin[0], to, &request), &request, err);
}

static enum status mpi_gather(struct ranks *r, u8 *data, const i64 *begin, struct err *err)
{
    struct mpi      *m       = mpi_of(r);
    union mpi_handle request = { NULL };
    parts_of(m, begin);
    return finish(m, m->abi->gather(m, data + begin[0], &request), &request, err);
}

static enum status mpi_spread(struct ranks *r, i32 root, void *data, i64 bytes, struct err *err)
{
    struct mpi      *m       = mpi_of(r);
    union mpi_handle request = { NULL };
    ASSERT(bytes <= INT32_MAX);
    return finish(m, m->abi->spread(m, data, (int)bytes, root, &request), &request, err);
}

static enum status mpi_look(struct ranks *r, i64 since_ns, struct err *err)
{
    return look(mpi_of(r), since_ns, err);
}

static enum status mpi_split(struct ranks *r, enum ranks_over over, i32 group, i32 place, i32 count,
                             struct err *err)
{
    struct mpi *m = mpi_of(r), *to = m->groups[over];
    int        *ints = to->counts;
    *to              = (struct mpi){ .base     = { .table = r->table, .rank = place, .count = count },
                                     .os       = m->os,
                                     .limit_ns = m->limit_ns,
                                     .abi      = m->abi,
                                     .calls    = m->calls };
    to->base.whole   = r;
    take_ints(to, ints);
    int bad = m->abi->split(m, group, place, to);
    if (bad) return failed(m, bad, err);
    r->over[over] = &to->base;
    return STATUS_OK;
}

/* After a failure MPI is left as it is: its end waits for all, and one of them is gone. */
static void mpi_close(struct ranks *r)
{
    struct mpi *m = mpi_of(r);
    if (!r->failed.status) m->abi->end(m);
}

static const struct ranks_table table = { .name     = "mpi",
                                          .exchange = mpi_exchange,
                                          .gather   = mpi_gather,
                                          .spread   = mpi_spread,
                                          .look     = mpi_look,
                                          .split    = mpi_split,
                                          .close    = mpi_close };

/* --- the beginning --- */

static i64 env_number(struct os *os, const char *name)
{
    i64        n    = 0;
    struct str text = os->env(os, name);
    return text.len && str_i64(text, &n) ? n : 0;
}

/* Of a Slurm job only a step that srun started has tasks: the batch script itself is alone. */
i32 mpi_ranks_announced(struct os *os)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                         "SLURM_STEP_NUM_TASKS" };
    i64                      most    = 1;
    for (i64 i = 0; i < COUNT_OF(names); i++) most = MAX(most, env_number(os, names[i]));
    return (i32)MIN(most, INT32_MAX);
}

i32 mpi_rank_announced(struct os *os)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID" };
    i64                      rank    = 0;
    for (i64 i = 0; i < COUNT_OF(names); i++) rank = MAX(rank, env_number(os, names[i]));
    return (i32)MIN(rank, INT32_MAX);
}

/* FRUGAL_MPI names another library; else by the launcher that announces itself, then whatever is there. */
static void *open_library(struct os *os, struct arena scratch)
{
    struct str given = os->env(os, "FRUGAL_MPI");
    bool       ompi  = env_number(os, "OMPI_COMM_WORLD_SIZE") > 0;
    /* Open MPI 4 and 5; MPICH as Debian calls it, and as its ABI does */
    static const char *const names[2][3] = { { "libmpich.so.12", "libmpi.so.12", "libmpi.so.40" },
                                             { "libmpi.so.40", "libmpich.so.12", "libmpi.so.12" } };
    setenv("UCX_HANDLE_ERRORS", "none",
           0); /* a peer that dies is no crash of ours: no stack of it, and no handlers */
    /* global: Open MPI's own plug-ins look for its symbols there */
    if (given.len) return dlopen(str_z(&scratch, given), RTLD_NOW | RTLD_GLOBAL);
    void *library = NULL;
    for (i64 i = 0; !library && i < COUNT_OF(names[0]); i++)
        library = dlopen(names[ompi][i], RTLD_NOW | RTLD_GLOBAL);
    return library;
}

static enum status load(struct mpi *m, struct arena *perm, struct err *err)
{
    static const struct mpi_abi *const abis[]  = { &mpi_openmpi, &mpi_mpich };
    void                              *library = open_library(m->os, *perm);
    if (!library)
        return err_set(err, STATUS_WORLD,
                       "the launcher has started %d ranks and no MPI library was found (%.200s): "
                       "install Open MPI or MPICH, or name the library in FRUGAL_MPI",
                       mpi_ranks_announced(m->os), dlerror());
    for (i64 i = 0; i < COUNT_OF(abis); i++) {
        m->abi = abis[i];
        if (m->abi->load(m, library, perm)) return STATUS_OK;
    }
    return err_set(err, STATUS_WORLD,
                   "the MPI library that was found lacks calls of MPI 3: install Open MPI 4 or "
                   "later, or MPICH 3 or later");
}

/* How many ranks the nearest launcher has started: another one may have started it, with tasks of its own. */
static i64 started(struct os *os)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                         "SLURM_STEP_NUM_TASKS" };
    i64                      count   = 0;
    for (i64 i = 0; !count && i < COUNT_OF(names); i++) count = env_number(os, names[i]);
    return count;
}

/* A library that does not understand the launcher takes each process for a run of its own. */
static enum status check_met(const struct mpi *m, int count, struct err *err)
{
    i64 all = started(m->os);
    if (count > 1 || all <= 1) return STATUS_OK;
    return err_set(
        err, STATUS_USAGE,
        "the launcher has started %lld ranks, and each is alone to %s: start them with "
        "the mpirun of that library, or with srun --mpi=pmi2 (MPICH) or --mpi=pmix (Open "
        "MPI); FRUGAL_MPI names another library",
        (long long)all, m->abi->name);
}

static enum status begin(struct mpi *m, struct arena *perm, struct err *err)
{
    int level = 0, rank = 0, count = 0;
    int bad = m->abi->init(m, &level);
    if (!bad && level < MPI_LEVEL_FUNNELED)
        return err_set(err, STATUS_WORLD,
                       "%s does not allow threads beside its own calls (MPI_THREAD_FUNNELED): use "
                       "a build of it that does",
                       m->abi->name);
    if (!bad) bad = m->abi->size(m, &rank, &count);
    if (bad)
        return err_set(err, STATUS_WORLD, "%s cannot be initialised: code %d", m->abi->name, bad);
    if (count > RANKS_MAX)
        return err_set(err, STATUS_USAGE, "%d ranks are more than %d", count, RANKS_MAX);
    enum status st = check_met(m, count, err);
    if (st) return st;
    m->base.rank   = rank;
    m->base.speaks = !rank;
    m->base.count  = count;
    take_ints(m, NEW(perm, int, 4 * (i64)count));
    for (i32 i = OVER_MACHINE; i < OVER_COUNT; i++) {
        m->groups[i]         = NEW(perm, struct mpi, 1);
        m->groups[i]->counts = NEW(perm, int, 4 * (i64)count);
    }
    return STATUS_OK;
}

/* Who is on which machine, and which of its cores each may use. */
static enum status meet(struct mpi *m, struct arena *perm, struct err *err)
{
    struct ranks    *r         = &m->base;
    char             name[256] = { 0 };
    struct mpi_peer *peers     = NEW(perm, struct mpi_peer, r->count);
    u64             *shards    = NEW(perm, u64, r->count);
    struct str       given     = m->os->env(m->os, "FRUGAL_MACHINE");
    gethostname(name, sizeof name - 1);
    u64 machine    = xxh64(str_of(name));
    peers[r->rank] = (struct mpi_peer){ machine, given.len ? xxh64(given) : machine, getpid() };
    enum status st = ranks_gather(r, peers, r->count, sizeof *peers);
    if (st) return err_set(err, st, "%s", r->failed.text);
    m->peers      = peers;
    r->machine_of = shards;
    for (i32 i = 0; i < r->count; i++) {
        shards[i] = peers[i].shards;
        i32 first = 0; /* rank of its machine */
        while (peers[first].machine != peers[i].machine) first++;
        r->machines += first == i;
        if (peers[i].machine != peers[r->rank].machine) continue;
        r->local += i < r->rank;
        r->locals++;
    }
    struct arena       scratch = *perm;
    struct pool_cores *all = NEW(&scratch, struct pool_cores, r->count), *here = all;
    pool_cores_of(0, &all[r->rank]);
    st = ranks_gather(r, all, r->count, sizeof *all);
    if (st) return err_set(err, st, "%s", r->failed.text);
    for (i32 i = 0; i < r->count; i++)
        if (peers[i].machine == machine) *here++ = all[i];
    ranks_share_cores(r, all);
    return STATUS_OK;
}

enum status mpi_ranks_open(struct os *os, i64 limit_ns, struct arena *perm, struct ranks **out,
                           struct err *err)
{
    struct mpi *m  = NEW(perm, struct mpi, 1);
    *m             = (struct mpi){ .base = { .table = &table }, .os = os, .limit_ns = limit_ns };
    *out           = NULL;
    enum status st = load(m, perm, err);
    if (!st) st = begin(m, perm, err);
    if (!st) st = meet(m, perm, err);
    if (!st) *out = &m->base;
    return st;
}
