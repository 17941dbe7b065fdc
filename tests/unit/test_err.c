#include "base/err.h"
#include "harness.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(a_sentence_is_kept_on_one_line)
{
    struct err err = { 0 };
    CHECK_EQ(err_set(&err, STATUS_WORLD, "disk %s:\n%d", "sda", 7), STATUS_WORLD);
    CHECK_STR(err.text, "disk sda: 7");
    CHECK_EQ(err.status, STATUS_WORLD);
    err_set(&err, STATUS_USAGE, "a name: %s", "\033[31mred\177\t");
    CHECK_STR(err.text, "a name:  [31mred  ");
    CHECK_EQ(err_set(NULL, STATUS_NO, "nobody listens"), STATUS_NO);
}

TEST(a_sentence_may_quote_the_one_before)
{
    struct err err = { 0 };
    err_set(&err, STATUS_USAGE, "line 3: bad");
    err_set(&err, err.status, "model.json: %s", err.text);
    CHECK_STR(err.text, "model.json: line 3: bad");
}

TEST(a_long_sentence_is_cut)
{
    struct err err = { 0 };
    err_set(&err, STATUS_USAGE, "%600d", 1);
    CHECK_EQ(strlen(err.text), sizeof err.text - 1);
}

TEST(a_failed_assertion_ends_the_process)
{
    int   status;
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        ASSERT(1 + 1 == 3);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
