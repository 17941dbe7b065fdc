/* harness.h - how a test is written.
 *
 *     #include "harness.h"
 *     TEST(a_sentence_about_what_holds)
 *     {
 *         CHECK_EQ(str_of("abc").len, 3);
 *     }
 *
 * Include it once, in tests/unit/test_x.c, and write no main: it is here. A test has `perm` and
 * `scratch`, both empty when it begins. The first failed check ends the test, so checks belong in
 * the thread that the test began in. `build/test_x WORD` runs the tests with WORD in their name.
 * CHECK_LEVEL=avx2 in the environment runs all of it at that level of vector instructions.
 * Exit: 0 passed, 1 failed or none found, 77 all skipped. */
#ifndef HARNESS_H
#define HARNESS_H
#include "base/arena.h"
#include "base/text.h"
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* clang-format 14 cannot lay out _Generic, nor a definition inside a macro. */
/* clang-format off */
#define TEST(name)                                                                                 \
    static void test_##name(struct arena *, struct arena);                                         \
    __attribute__((constructor)) static void harness_add_##name(void)                              \
    {                                                                                              \
        harness_add(#name, test_##name);                                                           \
    }                                                                                              \
    static void test_##name(struct arena *perm __attribute__((unused)),                            \
                            struct arena  scratch __attribute__((unused)))

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) harness_fail(__FILE__, __LINE__, "%s", #condition);                      \
    } while (0)

/* Numbers of any kind, or pointers. Both are evaluated again for the message of a failure. */
#define CHECK_EQ(a, b)                                                                             \
    do {                                                                                           \
        if (!((a) == (b)))                                                                         \
            harness_fail(__FILE__, __LINE__, "%s == %s: %s and %s", #a, #b,                        \
                         HARNESS_SHOW(a), HARNESS_SHOW(b));                                        \
    } while (0)

/* |a - b| <= tolerance; never true of a NaN. */
#define CHECK_NEAR(a, b, tolerance)                                                                \
    do {                                                                                           \
        f64 harness_a = (f64)(a), harness_b = (f64)(b), harness_t = (f64)(tolerance);              \
        if (!(fabs(harness_a - harness_b) <= harness_t))                                           \
            harness_fail(__FILE__, __LINE__, "%s near %s: %.17g and %.17g differ by %.3g > %.3g",  \
                         #a, #b, harness_a, harness_b, fabs(harness_a - harness_b), harness_t);    \
    } while (0)

/* Each a struct str or a C string. */
#define CHECK_STR(a, b)                                                                            \
    do {                                                                                           \
        struct str harness_a = HARNESS_STR(a), harness_b = HARNESS_STR(b);                         \
        if (!str_eq(harness_a, harness_b))                                                         \
            harness_fail(__FILE__, __LINE__, "%s is %s: \"%.*s\" and \"%.*s\"", #a, #b,            \
                         STR_ARG(harness_a), STR_ARG(harness_b));                                  \
    } while (0)

#define SKIP(reason) harness_skip(reason)

#define HARNESS_STR(s)                                                                             \
    _Generic((s), struct str: harness_same, char *: str_of, const char *: str_of)(s)
#define HARNESS_SHOW(v)                                                                            \
    _Generic((v), bool: harness_show_i64, char: harness_show_i64, signed char: harness_show_i64,   \
        short: harness_show_i64, int: harness_show_i64, long: harness_show_i64,                    \
        long long: harness_show_i64, unsigned char: harness_show_u64,                              \
        unsigned short: harness_show_u64, unsigned: harness_show_u64,                              \
        unsigned long: harness_show_u64, unsigned long long: harness_show_u64,                     \
        float: harness_show_f64, double: harness_show_f64, default: harness_show_pointer)(v)
/* clang-format on */

const char *level_begin(void); /* support/level.h: why this program cannot run; NULL: it can */

enum { HARNESS_TESTS_MAX = 1024 };
enum harness_end { HARNESS_PASSED, HARNESS_FAILED, HARNESS_SKIPPED };

typedef void harness_fn(struct arena *perm, struct arena scratch);

static const i64 harness_arena_bytes = (i64)4 << 30; /* address space only, for each of the two */
static jmp_buf   harness_out;
static int       harness_count;
static struct {
    const char *name;
    harness_fn *fn;
} harness_tests[HARNESS_TESTS_MAX];

static void harness_add(const char *name, harness_fn *fn)
{
    ASSERT(harness_count < HARNESS_TESTS_MAX);
    harness_tests[harness_count].name = name;
    harness_tests[harness_count++].fn = fn;
}

__attribute__((format(printf, 3, 4), noreturn, unused)) static void
harness_fail(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("\n  %s:%d: ", file, line);
    vprintf(format, args);
    printf("\n  ");
    fflush(stdout);
    va_end(args);
    longjmp(harness_out, HARNESS_FAILED);
}

__attribute__((noreturn, unused)) static void harness_skip(const char *reason)
{
    printf("(%s) ", reason);
    longjmp(harness_out, HARNESS_SKIPPED);
}

static inline struct str harness_same(struct str s) { return s; }

/* Two values are shown in one message, so two buffers take turns. */
__attribute__((format(printf, 1, 2))) static inline const char *harness_show(const char *format,
                                                                             ...)
{
    static char buffers[2][32];
    static int  turn;
    char       *buffer = buffers[turn ^= 1];
    va_list     args;
    va_start(args, format);
    vsnprintf(buffer, sizeof buffers[0], format, args);
    va_end(args);
    return buffer;
}

static inline const char *harness_show_i64(long long v) { return harness_show("%lld", v); }
static inline const char *harness_show_u64(unsigned long long v) { return harness_show("%llu", v); }
static inline const char *harness_show_f64(f64 v) { return harness_show("%.17g", v); }
static inline const char *harness_show_pointer(const void *v) { return harness_show("%p", v); }

/* A fresh seed, printed, for a test that draws; CHECK_SEED=N in the environment repeats one. */
__attribute__((unused)) static u64 test_seed(void)
{
    u64         seed = 0;
    const char *text = getenv("CHECK_SEED");
    if (text) seed = strtoull(text, NULL, 10);
    else ASSERT(getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed);
    printf("(CHECK_SEED=%llu) ", (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

/* Apart from harness_run, because a longjmp may spoil the locals of the frame it comes back to. */
static enum harness_end harness_call(harness_fn *fn, struct arena *perm, struct arena scratch)
{
    switch (setjmp(harness_out)) {
    case HARNESS_PASSED: fn(perm, scratch); return HARNESS_PASSED;
    case HARNESS_SKIPPED: return HARNESS_SKIPPED;
    default: return HARNESS_FAILED;
    }
}

static enum harness_end harness_run(harness_fn *fn)
{
    struct arena perm = arena_open(harness_arena_bytes), scratch = arena_open(harness_arena_bytes);
    enum harness_end end = harness_call(fn, &perm, scratch);
    if (end == HARNESS_FAILED) return end; /* threads that it left behind may still read there */
    arena_close(&perm);
    arena_close(&scratch);
    return end;
}

int main(int argc, char **argv)
{
    static const char *const words[] = { "ok", "FAILED", "skipped" };
    int                      ends[3] = { 0 };
    const char              *without = level_begin();

    if (without) {
        printf("vectors (%s) skipped 0.000 s\n", without);
        return 77;
    }
    for (int i = 0; i < harness_count; i++) {
        struct timespec begin, end;
        if (argc > 1 && !strstr(harness_tests[i].name, argv[1])) continue;
        printf("%s ", harness_tests[i].name);
        fflush(stdout);
        clock_gettime(CLOCK_MONOTONIC, &begin);
        enum harness_end how = harness_run(harness_tests[i].fn);
        clock_gettime(CLOCK_MONOTONIC, &end);
        ends[how]++;
        printf("%s %.3f s\n", words[how],
               (f64)(end.tv_sec - begin.tv_sec) + 1e-9 * (f64)(end.tv_nsec - begin.tv_nsec));
    }
    printf("%d passed, %d failed, %d skipped\n", ends[HARNESS_PASSED], ends[HARNESS_FAILED],
           ends[HARNESS_SKIPPED]);
    if (ends[HARNESS_FAILED] || !(ends[HARNESS_PASSED] + ends[HARNESS_SKIPPED])) return 1;
    return ends[HARNESS_PASSED] ? 0 : 77;
}

#endif
