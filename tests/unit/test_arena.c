#include "harness.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(what_is_taken_again_is_zeroed_again)
{
    for (i64 turn = 0; turn < 3; turn++) {
        struct arena again = scratch; /* the same bytes each turn, some more each time */
        i64          bytes = (turn + 1) << 20;
        u8          *small = NEW(&again, u8, 100), *large = NEW(&again, u8, bytes);
        for (i64 i = 0; i < 100; i++) CHECK_EQ(small[i], 0);
        for (i64 i = 0; i < bytes; i++) CHECK_EQ(large[i], 0);
        memset(small, 0xFF, 100);
        memset(large, 0xFF, (size_t)bytes);
    }
}

TEST(items_are_aligned_and_apart)
{
    u8  *a = NEW(perm, u8, 3);
    f64 *b = NEW(perm, f64, 2);
    u8  *c = arena_take(perm, 1, 1, 4096);
    CHECK_EQ((uintptr_t)b % _Alignof(f64), 0u);
    CHECK_EQ((uintptr_t)c % 4096, 0u);
    CHECK((u8 *)b >= a + 3);
    CHECK(c >= (u8 *)(b + 2));
    CHECK_EQ(NEW(perm, f64, 0), NEW(perm, f64, 0));
}

TEST(lent_memory_is_zeroed_too)
{
    u8 memory[64];
    memset(memory, 0xFF, sizeof memory);
    struct arena lent = { .begin = memory, .end = memory + sizeof memory };
    u8          *p    = NEW(&lent, u8, 64);
    for (int i = 0; i < 64; i++) CHECK_EQ(p[i], 0);
    CHECK_EQ(lent.begin, lent.end);
}

TEST(a_part_is_zeroed_and_keeps_to_itself)
{
    for (int turn = 0; turn < 2; turn++) {
        struct arena again = scratch;
        struct arena part  = arena_part(&again, 1000);
        u8          *outer = NEW(&again, u8, 1000), *inner = NEW(&part, u8, 1000);
        for (int i = 0; i < 1000; i++) CHECK_EQ(outer[i] + inner[i], 0);
        CHECK(inner + 1000 <= outer);
        CHECK_EQ(part.begin, part.end);
        memset(outer, 0xFF, 1000);
        memset(inner, 0xFF, 1000);
    }
}

static i64 resident_pages(void)
{
    i64   size, resident;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f && fscanf(f, "%ld %ld", &size, &resident) == 2);
    fclose(f);
    return resident;
}

TEST(what_is_fresh_stays_untouched)
{
    i64 before = resident_pages();
    NEW(perm, u8, (i64)1 << 30);
    NEW(perm, u8, (i64)2 << 30);
    CHECK(resident_pages() - before < 100); /* of 786432 */
}

TEST(taking_asks_the_system_for_nothing)
{
    i64 before = arena_system_calls();
    for (int i = 0; i < 1000; i++) NEW(perm, u8, 100000);
    CHECK_EQ(arena_system_calls(), before);
    struct arena a = arena_open(1 << 20);
    CHECK_EQ(arena_system_calls(), before + 1);
    arena_close(&a);
    CHECK(!a.begin);
}

TEST(what_the_system_refuses_is_seen)
{
    CHECK(!arena_open((i64)1 << 60).begin);
    CHECK(!pages_open((i64)1 << 60));
    u8 *p = pages_open(5 << 20);
    CHECK(p);
    CHECK_EQ((uintptr_t)p % (uintptr_t)sysconf(_SC_PAGESIZE), 0u);
    for (i64 i = 0; i < 5 << 20; i += 4096) CHECK_EQ(p[i], 0);
    pages_close(p, 5 << 20);
}

#ifndef __SANITIZE_THREAD__ /* which has its own idea of where memory may lie */

static void limit_address_space(i64 more_bytes)
{
    i64   pages = 0;
    FILE *f     = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lld", (long long *)&pages) != 1) _exit(10);
    fclose(f);
    rlim_t limit = (rlim_t)(pages * sysconf(_SC_PAGESIZE) + more_bytes);
    if (setrlimit(RLIMIT_AS, &(struct rlimit){ limit, limit })) _exit(11);
}

static void say_refused(i64 bytes) { _exit(bytes > 0 ? 42 : 12); }

static i32 child_of(i32 (*work)(void))
{
    int   state = 0;
    pid_t child = fork();
    if (!child) _exit(work());
    return waitpid(child, &state, 0) == child && WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

/* Halves of 64 GiB, of which a few pages are used; what is taken again is zeroed again; what was
 * closed can be opened again. */
static i32 use_little_of_much(void)
{
    limit_address_space(64 << 20);
    for (i32 turn = 0; turn < 500; turn++) {
        struct arena a = arena_open((i64)64 << 30), b = arena_open((i64)64 << 30);
        if (!a.begin || !b.begin) return 1;
        struct arena half = arena_part(&a, (a.end - a.begin) / 2), copy = a;
        u8          *x = NEW(&half, u8, 3 << 20), *y = NEW(&a, u8, 5000), *z = NEW(&b, u8, 100);
        x[0] = x[(3 << 20) - 1] = 1;
        memset(y, 2, 5000);
        memset(z, 3, 100);
        u8 *again = NEW(&copy, u8, 6000);
        if (again[0] || again[4999] || x[0] != 1 || x[(3 << 20) - 1] != 1 || z[99] != 3) return 2;
        arena_close(&a);
        arena_close(&b);
    }
    return 0;
}

static i32 use_more_than_there_is(void)
{
    limit_address_space(64 << 20);
    arena_on_refusal(say_refused);
    struct arena a = arena_open((i64)64 << 30);
    for (i32 i = 0; i < 100; i++) NEW(&a, u8, 1 << 20);
    return 0;
}

TEST(under_a_limit_of_address_space_pages_come_when_used)
{
    CHECK_EQ(child_of(use_little_of_much), 0);
    CHECK_EQ(child_of(use_more_than_there_is), 42);
}
#endif
