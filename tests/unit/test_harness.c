/* test_harness.c - a harness that cannot fail proves nothing: every kind of check must also fail. */
#include "harness.h"

static void fails_check(struct arena *perm, struct arena scratch)
{
    (void)perm, (void)scratch;
    CHECK(1 == 2);
}

static void fails_eq(struct arena *perm, struct arena scratch)
{
    (void)perm, (void)scratch;
    CHECK_EQ((u64)7, 8);
}

static void fails_near(struct arena *perm, struct arena scratch)
{
    (void)perm, (void)scratch;
    CHECK_NEAR(NAN, 1, 1e9);
}

static void fails_str(struct arena *perm, struct arena scratch)
{
    (void)perm, (void)scratch;
    CHECK_STR("ab", STR("abc"));
}

static void skips(struct arena *perm, struct arena scratch)
{
    (void)perm, (void)scratch;
    SKIP("as it should");
}

static void passes(struct arena *perm, struct arena scratch)
{
    const char *word = "abc";
    CHECK(perm->begin < perm->end && scratch.begin < scratch.end);
    CHECK_EQ(perm, perm);
    CHECK_EQ((f32)0.5, 0.5);
    CHECK_EQ(HARNESS_SKIPPED, 2);
    CHECK_NEAR(1.0, 1.25, 0.25);
    CHECK_STR(word, STR("abc"));
}

/* Runs fn as a test inside this one, and comes back to this one. */
static enum harness_end end_of(harness_fn *fn)
{
    jmp_buf out;
    memcpy(&out, &harness_out, sizeof out);
    enum harness_end end = harness_run(fn);
    memcpy(&harness_out, &out, sizeof out);
    return end;
}

TEST(every_kind_of_check_can_fail)
{
    CHECK_EQ(end_of(fails_check), HARNESS_FAILED);
    CHECK_EQ(end_of(fails_eq), HARNESS_FAILED);
    CHECK_EQ(end_of(fails_near), HARNESS_FAILED);
    CHECK_EQ(end_of(fails_str), HARNESS_FAILED);
}

TEST(what_holds_passes) { CHECK_EQ(end_of(passes), HARNESS_PASSED); }

TEST(a_skipped_test_is_neither) { CHECK_EQ(end_of(skips), HARNESS_SKIPPED); }
