/* driver.c - runs a fuzz target with plain gcc: every file of the corpus as it is, then mutated
 * until the time is over (CHECK_SECONDS, 5 by default) or, with CHECK_EXECUTIONS, after so many inputs.
 *
 *     fuzz_x --corpus DIR --crash FILE     as ctest runs it
 *     fuzz_x FILE                          that input once, to debug it
 *
 * The seed is fresh and printed; CHECK_SEED repeats it. An input that crashes or takes longer than
 * HANG_S is written to the crash file. The target is the one libFuzzer knows, so it may be built
 * with clang -fsanitize=fuzzer instead, without this file. */
#include "base/types.h"
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { INPUT_BYTES_MAX = 1 << 16, CORPUS_MAX = 512, CHANGES_MAX = 8, HANG_S = 20 };

static struct input {
    u8    *data;
    size_t bytes;
} corpus[CORPUS_MAX];
static int         corpus_count;
static u8          input[INPUT_BYTES_MAX]; /* the one under test: the signal handler writes it */
static size_t      input_bytes;
static const char *crash_path = "fuzz.crash";
static u64         random_state;
static i64         executions; /* begun, the one that crashes with them */

static u64 random_next(void) /* splitmix64 */
{
    u64 z = (random_state += 0x9e3779b97f4a7c15u);
    z     = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z     = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(size_t limit) { return limit ? (size_t)(random_next() % limit) : 0; }

static void on_crash(int signal_number)
{
    int  fd    = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    bool saved = fd >= 0 && write(fd, input, input_bytes) == (ssize_t)input_bytes;
    dprintf(2, "signal %d; the input %s %s\n%lld executions, %.2f s of a core\n", signal_number,
            saved ? "is in" : "did not fit in", crash_path, (long long)executions,
            (f64)clock() / CLOCKS_PER_SEC);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static bool input_read(const char *path, struct input *to)
{
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    to->data  = malloc(INPUT_BYTES_MAX);
    to->bytes = to->data ? fread(to->data, 1, INPUT_BYTES_MAX, f) : 0;
    fclose(f);
    return to->data != NULL;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void corpus_read(const char *dir)
{
    struct dirent **entries;
    int             count = scandir(dir, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && corpus_count < CORPUS_MAX)
            corpus_count += input_read(path, &corpus[corpus_count]);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
}

static void input_run(void)
{
    /* A copy of exactly the right size, so that the address sanitizer sees one byte too many. */
    u8 *copy = malloc(input_bytes ? input_bytes : 1);
    if (!copy) return;
    memcpy(copy, input, input_bytes);
    executions++;
    alarm(HANG_S);
    LLVMFuzzerTestOneInput(copy, input_bytes);
    alarm(0);
    free(copy);
}

/* Replaces `cut` bytes of the input at `at` by `bytes` from `with`. */
static void input_splice(size_t at, size_t cut, const u8 *with, size_t bytes)
{
    u8 piece[256]; /* `with` may lie in the input itself */
    if (bytes > sizeof piece) bytes = sizeof piece;
    if (input_bytes - cut + bytes > INPUT_BYTES_MAX) return;
    memcpy(piece, with, bytes);
    memmove(input + at + bytes, input + at + cut, input_bytes - at - cut);
    memcpy(input + at, piece, bytes);
    input_bytes += bytes - cut;
}

static void input_change(void)
{
    static const char *const numbers[] = { "0", "-1", "1e999", "9223372036854775808", "nan", "" };
    static const u8    odd[] = { 0x00, 0xff, 0x7f, 0x80, '\n', '"', '\\', '{', '[', ':', ' ', '#' };
    const struct input other =
        corpus_count ? corpus[below((size_t)corpus_count)] : (struct input){ 0 };
    const size_t at     = below(input_bytes + 1);
    const size_t length = below(1 + (input_bytes - at < 64 ? input_bytes - at : 64));
    const size_t from   = below(other.bytes);
    const char  *number = numbers[below(COUNT_OF(numbers))];
    u8           byte   = (u8)random_next();

    switch (below(8)) {
    case 0:
        if (at < input_bytes) input[at] ^= (u8)(1u << below(8));
        break;
    case 1: input_splice(at, at < input_bytes, &byte, 1); break;
    case 2: input_splice(at, at < input_bytes, &odd[below(sizeof odd)], 1); break;
    case 3: input_splice(at, 0, &odd[below(sizeof odd)], 1); break;
    case 4: input_splice(at, length, input, 0); break;                          /* cut */
    case 5: input_splice(below(input_bytes + 1), 0, input + at, length); break; /* repeat */
    case 6: input_splice(at, length, (const u8 *)number, strlen(number)); break;
    case 7:
        if (other.bytes) input_splice(at, length, other.data + from, below(other.bytes - from));
    }
}

static void input_mutate(void)
{
    input_bytes = 0;
    if (corpus_count) {
        const struct input *base = &corpus[below((size_t)corpus_count)];
        memcpy(input, base->data, input_bytes = base->bytes);
    }
    for (size_t changes = 1 + below(CHANGES_MAX); changes; changes--) input_change();
}

static f64 now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (f64)t.tv_sec + 1e-9 * (f64)t.tv_nsec;
}

static void corpus_run(void)
{
    for (int i = 0; i < corpus_count; i++) {
        memcpy(input, corpus[i].data, input_bytes = corpus[i].bytes);
        input_run();
    }
}

int main(int argc, char **argv)
{
    static const int fatal[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM };
    const char      *seed = getenv("CHECK_SEED"), *limit = getenv("CHECK_SECONDS");
    const char      *most = getenv("CHECK_EXECUTIONS");

    if (argc == 2 && input_read(argv[1], &corpus[0])) {
        corpus_count = 1;
        corpus_run();
        return 0;
    }
    if (argc != 5)
        return fprintf(stderr, "usage: %s --corpus DIR --crash FILE | FILE\n", argv[0]), 2;
    corpus_read(argv[2]);
    crash_path = argv[4];
    for (int i = 0; i < COUNT_OF(fatal); i++) signal(fatal[i], on_crash);

    if (seed) random_state = strtoull(seed, NULL, 10);
    else if (getrandom(&random_state, sizeof random_state, 0) < 0) return 1;
    printf("CHECK_SEED=%llu, %d inputs in %s\n", (unsigned long long)random_state, corpus_count,
           argv[2]);
    fflush(stdout);

    f64 begin_s = now_s(), end_s = limit ? strtod(limit, NULL) : most ? INFINITY : 5;
    i64 enough = most ? strtoll(most, NULL, 10) : INT64_MAX;
    corpus_run();
    while (executions < enough && now_s() - begin_s < end_s) {
        input_mutate();
        input_run();
    }
    printf("%lld executions in %.2f s, %.2f s of a core\n", (long long)executions,
           now_s() - begin_s, (f64)clock() / CLOCKS_PER_SEC);
    return 0;
}
