/* test_experiments.c - what surrounds the looks of `frugal profile`: a process of their own whose end is told whatever
 * it was, and settings under which nothing of the run is kept. The experiments: tests/oracle/test_problems.py. */
#include "harness.h"
#include "job/experiments.h"
#include <signal.h>
#include <unistd.h>

static i64 seen; /* by this process; its children have copies */

static enum status works(void *context, struct err *err)
{
    (void)err;
    seen = *(i64 *)context;
    return STATUS_OK;
}

static enum status refuses(void *context, struct err *err)
{
    (void)context;
    return err_set(err, STATUS_USAGE, "no such data");
}

static enum status dies(void *context, struct err *err)
{
    (void)context, (void)err;
    return (enum status)raise(SIGKILL);
}

TEST(work_apart_leaves_nothing_behind_but_its_end)
{
    struct err err = { 0 };
    i64        one = 1;
    CHECK_EQ(run_apart(os_real(), works, &one, &err), STATUS_OK);
    CHECK_EQ(seen, 0);
    CHECK_EQ(run_apart(os_real(), refuses, NULL, &err), STATUS_USAGE);
    CHECK_STR(str_of(err.text), STR("no such data"));
    CHECK_EQ(run_apart(os_real(), dies, NULL, &err), STATUS_WORLD);
    CHECK(str_ends(str_of(err.text), STR("ended without a result: out of memory?")));
}

TEST(a_look_keeps_nothing_of_the_run)
{
    struct settings s = config_new(perm)->settings;
    s.checkpoint.dir  = STR("kept");
    s.checkpoint.to   = STR("s3://bucket/run");
    s.train.out       = STR("weights.safetensors");
    s.train.gradients = STR("gradients.safetensors");
    profile_steps_only(&s);
    CHECK(s.profile_only);
    CHECK_EQ(s.profile.active, 3);
    CHECK_EQ(s.checkpoint.dir.len + s.checkpoint.to.len, 0);
    CHECK_EQ(s.train.out.len + s.train.gradients.len, 0);
    s.profile.active = 7; /* as the user has it */
    profile_steps_only(&s);
    CHECK_EQ(s.profile.active, 7);
}
