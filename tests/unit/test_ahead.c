/* A run on a device that works while the host goes on copies the next batch before it reads this
 * step's loss. The losses must be those of a run that waits. The device here is the processor, which
 * says of itself that it is such a device; src/train asks for nothing else. */
#include "backend/cuda/cuda.h"
#include "base/os.h"
#include "harness.h"
#include "support/small_run.h"
#include "train/train.h"
#include <string.h>
#include <unistd.h>

enum { STEPS_MAX = 512, BATCH_BYTES_MIN = 64 }; /* scalars of a step are smaller than a batch */

static struct backend_table behind; /* the processor's, but for what follows */
static ticket (*real_put)(struct backend *, i64, const void *, i64);
static void (*real_wait)(struct backend *, ticket);
static ticket (*real_run)(struct backend *, const struct program *);
static i64 runs_since_wait, batches_ahead;

static ticket count_put(struct backend *b, i64 offset, const void *from, i64 bytes)
{
    if (runs_since_wait >= 2 && bytes >= BATCH_BYTES_MIN)
        batches_ahead++; /* gradients and update run, loss not read */
    return real_put(b, offset, from, bytes);
}

static void count_wait(struct backend *b, ticket t)
{
    runs_since_wait = 0;
    real_wait(b, t);
}

static ticket count_run(struct backend *b, const struct program *p)
{
    runs_since_wait++;
    return real_run(b, p);
}

enum status __real_backend_cuda_open(struct arena *perm, i32 nth, struct backend **out,
                                     struct err *err);
enum status __wrap_backend_cuda_open(struct arena *perm, i32 nth, struct backend **out,
                                     struct err *err);
enum status __wrap_backend_cuda_open(struct arena *perm, i32 nth, struct backend **out,
                                     struct err *err)
{
    enum status st = backend_cpu_open(perm, 1, BACKEND_FAST, out, err);
    (void)nth;
    if (st) return st;
    behind   = *(*out)->table;
    real_put = behind.put, real_wait = behind.wait, real_run = behind.run;
    behind.put = count_put, behind.wait = count_wait, behind.run = count_run;
    behind.behind = true;
    (*out)->table = &behind;
    return STATUS_OK;
}

struct course {
    f64 losses[STEPS_MAX];
    i64 steps, rollbacks;
};

static void on_step(void *context, const struct event_step *p)
{
    struct course *c = context;
    usleep(2000); /* so that the loader has the next batch */
    CHECK(c->steps < STEPS_MAX);
    c->losses[c->steps++] = p->loss;
}

static void on_rollback(void *context, const struct event_rollback *b)
{
    (void)b;
    ((struct course *)context)->rollbacks++;
}

static struct course run_on(struct settings s, const char *device)
{
    struct course       c   = { 0 };
    struct err          err = { 0 };
    struct train_result r;
    struct subscriber   l = { .context = &c, .on_step = on_step, .on_rollback = on_rollback };
    s.train.device        = str_of(device);
    s.train.precision     = STR("fp32");
    batches_ahead         = 0;
    if (train_run(os_real(), &s, &(struct train_with){ .to = &l }, &r, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return c;
}

static void check_same(const struct course *a, const struct course *b)
{
    CHECK_EQ(a->steps, b->steps);
    CHECK_EQ(a->rollbacks, b->rollbacks);
    CHECK(!memcmp(a->losses, b->losses, sizeof a->losses));
}

static const char *temp_folder(struct arena *perm)
{
    char *path = NEW(perm, char, 64);
    snprintf(path, 64, "/tmp/frugal-test-XXXXXX");
    CHECK(mkdtemp(path));
    return path;
}

static void remove_run(const struct settings *s, const char *folder)
{
    unlink(s->data.path.data);
    unlink(s->data.labels.data);
    rmdir(folder);
}

/* A batch norm writes state: the next step may not begin early, but its batch may be copied. */
TEST(a_batch_that_is_copied_ahead_changes_no_loss)
{
    const char     *folder = temp_folder(perm);
    struct settings s =
        small_run(perm, folder,
                  "- conv: {filters: 8, activation: relu}\n- batchnorm\n- flatten\n- dense: 4\n");
    s.train.epochs      = 8;
    s.data.held_out     = 0; /* an evaluation's batches are not to be counted */
    struct course waits = run_on(s, "cpu");
    struct course ahead = run_on(s, "cuda");
    CHECK(batches_ahead > 0);
    check_same(&waits, &ahead);
    remove_run(&s, folder);
}

/* The batch that lies there when a run goes back is the next one all the same. */
TEST(a_batch_that_is_copied_ahead_outlives_a_rollback)
{
    const char     *folder = temp_folder(perm);
    struct settings s      = small_run(perm, folder, "- flatten\n- batchnorm\n- dense: 4\n");
    s.train.optimiser      = STR("sgd");
    s.train.schedule       = STR("constant");
    s.train.clip           = 0;
    s.train.lr             = 1e4;
    s.train.rollbacks      = 60;
    s.train.epochs         = 20;
    struct course waits    = run_on(s, "cpu");
    struct course ahead    = run_on(s, "cuda");
    CHECK(ahead.rollbacks > 0);
    check_same(&waits, &ahead);
    remove_run(&s, folder);
}
