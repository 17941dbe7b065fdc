/* test_os_child.c - a second process: messages both ways, one at a time; who notices whose end. */
#include "base/os.h"
#include "harness.h"
#include <signal.h>
#include <unistd.h>

struct message {
    i64 number;
    u8  more[1000];
};

static i64 receive(struct file f, struct message *m)
{
    i64 got = -1;
    CHECK_EQ(os_real()->read(os_real(), f, m, sizeof *m, -1, &got, NULL), STATUS_OK);
    return got;
}

static enum status tell(struct file f, const struct message *m)
{
    return os_real()->write(os_real(), f, (struct str){ (const char *)m, sizeof *m }, NULL);
}

/* Answers each number with its square; when the stream closes it ends. */
static int squares(void *context, struct file stream)
{
    struct message m   = { .number = *(i64 *)context };
    i64            got = 0;
    os_signals_catch(); /* so that only the end of the stream ends it */
    tell(stream, &m);
    while (!os_real()->read(os_real(), stream, &m, sizeof m, -1, &got, NULL) && got == sizeof m) {
        m.number *= m.number;
        tell(stream, &m);
    }
    return 0;
}

TEST(messages_go_both_ways_and_stay_apart)
{
    struct os_child c;
    struct message  m     = { 0 };
    i64             first = 7;
    CHECK_EQ(os_child_start(&c, squares, &first, NULL), STATUS_OK);
    CHECK_EQ(os_wait_any(&c.stream, 1, 10000000000), 0);
    CHECK_EQ(receive(c.stream, &m), (i64)sizeof m);
    CHECK_EQ(m.number, 7);
    for (i64 i = 2; i < 5; i++)
        CHECK_EQ(tell(c.stream, &(struct message){ .number = i }), STATUS_OK);
    for (i64 i = 2; i < 5; i++) {
        CHECK_EQ(receive(c.stream, &m), (i64)sizeof m);
        CHECK_EQ(m.number, i * i);
    }
    CHECK_EQ(os_wait_any(&c.stream, 1, 1000000), -1); /* nothing more */
    os_child_end(&c);
    CHECK_EQ(c.pid, 0);
    os_child_end(&c); /* of none: nothing */
}

/* A child holds no other's stream: each sees its own end although its siblings live. */
TEST(a_child_ends_when_its_own_stream_closes)
{
    struct os_child c[3];
    struct message  m;
    for (i64 i = 0; i < 3; i++) {
        CHECK_EQ(os_child_start(&c[i], squares, &i, NULL), STATUS_OK);
        receive(c[i].stream, &m);
    }
    for (i64 i = 0; i < 3; i++) os_child_end(&c[i]);
    for (i64 i = 0; i < 3; i++) CHECK_EQ(c[i].pid, 0);
}

TEST(what_a_command_prints_is_read)
{
    struct str out;
    struct err err = { 0 };
    CHECK_EQ(os_output_of("cat; echo a 'b c'", 10000000000, 100, perm, &out, &err), STATUS_OK);
    CHECK_STR(out, "a b c\n");
    CHECK_EQ(os_output_of("yes | head -c 100000", 10000000000, 7, perm, &out, &err), STATUS_OK);
    CHECK_EQ(out.len, 7);
    CHECK_EQ(os_output_of("exit 3", 10000000000, 100, perm, &out, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "it exited with 3"));
    CHECK_EQ(os_output_of("kill -9 $$", 10000000000, 100, perm, &out, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "it exited with 137"));
    CHECK_EQ(os_output_of("sleep 100 | cat", 50000000, 100, perm, &out, &err), STATUS_WORLD);
    CHECK(strstr(err.text, "it took more than 0.05 s"));
}

static int falls(void *context, struct file stream)
{
    (void)context;
    (void)stream;
    raise(SIGKILL);
    return 0;
}

TEST(a_child_that_dies_is_a_closed_stream)
{
    struct os_child c;
    struct message  m;
    CHECK_EQ(os_child_start(&c, falls, NULL, NULL), STATUS_OK);
    CHECK_EQ(os_wait_any(&c.stream, 1, 10000000000), 0);
    CHECK_EQ(receive(c.stream, &m), 0);
    os_child_end(&c);
}
