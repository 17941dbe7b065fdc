/* Which regular expressions are small enough: the C library, measured, agrees. */
#include "harness.h"
#include "supervise/pattern.h"
#include <regex.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(expressions_that_people_write_are_taken)
{
    static const char *const usual[] = {
        "step ([0-9]+)",
        "^\\[epoch +([0-9]+)/[0-9]+\\] loss[:=] *([0-9.eE+-]+)",
        "\\{'loss': ([0-9.]+), 'grad_norm': [0-9.]+",
        "(([[:digit:]]{1,3}(,[[:digit:]]{3})*)|[0-9]{1,12}) steps",
        "[]a] ([^]]{1,20}) [[:space:][:punct:]]+",
        "a{x} {,3} (1)",
        "(^| )step(s?) +([0-9]+|none)( |$)",
        "((a?b)*c|d{0,3}e)+",
        "",
    };
    for (i64 i = 0; i < COUNT_OF(usual); i++) CHECK(!pattern_refused(str_of(usual[i])));
}

TEST(repeats_of_repeats_are_refused_before_they_are_compiled)
{
    static const char *const bombs[] = {
        "((((((((([0-9]{9}){9}){9}){9}){9}){9}){9}){9}){9})",
        "((a?){200}){200}",
        "(a{1,1001})",
        "(a{99999999999999999999999})",
        "((((((((((((((a+)+)+)+)+)+)+)+)+)+)+)+)+)+)",
        "((((((((((((((((((1))))))))))))))))))",
        "(a*)\\1",
        "(([^]]{30}){30}){30}",
        "((([[:alpha:]]{30}){30}){30}",
        "x{300}{300}",
        "(a*)+",
        "((a|b*|c)d?){0,30}",
        "(^|$)*",
        "(\\b){9}",
        "loss.*?([0-9]+)",
        "(*a)",
    };
    for (i64 i = 0; i < COUNT_OF(bombs); i++) CHECK(pattern_refused(str_of(bombs[i])));
    char *length = NEW(perm, char, PATTERN_BYTES_MAX + 2);
    memset(length, 'a', PATTERN_BYTES_MAX + 1);
    CHECK(pattern_refused(str_of(length)));
}

static u64 rng_next(u64 *state) /* splitmix64 */
{
    u64 z = (*state += 0x9e3779b97f4a7c15u);
    z     = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
}

/* A text of what makes expressions large; weighted towards repeats. */
static struct str random_pattern(struct arena *perm, u64 *state)
{
    static const char *const pieces[] = { "(",    "(",           ")",   ")",      "a",    "?",
                                          "*",    "+",           "{9}", "{0,30}", "{3,}", "|",
                                          "[ab]", "[[:digit:]]", ".",   "^",      "{",    "\\(" };
    struct textbuf           b        = textbuf_new(perm);
    for (i64 n = 2 + (i64)(rng_next(state) % 40); n > 0; n--)
        textbuf_add(&b, str_of(pieces[rng_next(state) % COUNT_OF(pieces)]));
    return textbuf_str(&b);
}

/* What is taken compiles within 1 GiB and a few seconds for all: ten times what the worst seen by hand
 * takes, for what a sanitizer adds. */
TEST(what_is_taken_can_be_compiled_in_little_memory_and_time)
{
    u64   seed  = test_seed();
    int   state = 0;
    pid_t child = fork();
    if (!child) {
        struct rlimit limit = { 120, 120 }; /* seconds; two thousand took 0.05 */
        setrlimit(RLIMIT_CPU, &limit);
        struct rusage use;
        i64           taken = 0;
        for (i64 i = 0; i < 100000 && taken < 2000; i++) {
            struct arena s = scratch;
            struct str   p = random_pattern(&s, &seed);
            regex_t      r;
            if (pattern_refused(p)) continue;
            taken++;
            if (!regcomp(&r, p.data, REG_EXTENDED | REG_NEWLINE)) regfree(&r);
            getrusage(RUSAGE_SELF, &use);
            if (use.ru_maxrss > 1 << 20) _exit(1);
        }
        _exit(taken == 2000 ? 0 : 2);
    }
    CHECK_EQ(waitpid(child, &state, 0), child);
    CHECK_EQ(state, 0);
}
