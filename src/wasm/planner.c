/* planner.c - the playground compiled to WebAssembly: what `frugal watch` answers at /api/play and /api/choices, in a
 * browser without a server. scripts/playground builds it, with the rooms below as they are; planner.js calls it.
 *
 *     planner_open ─► planner_question: where KEY=VALUE lines are written ─► planner_ask, planner_choices: JSON
 *
 * There is no machine here: no files, no environment, no ledger, so that only known models are planned, with the
 * catalogue that is compiled in. Texts end with a zero byte, and live until the next question. */
#include "job/playground.h"
#include <string.h>
#include <sys/mman.h>

#define DOOR(name) __attribute__((export_name(#name), used)) /* to JavaScript */

enum { WORDS_MAX = 64, QUESTION_BYTES = 1 << 14, MEMORY_MIB = 128 };

static struct playground *playground;
static struct arena       perm, answers;
static struct err         failure;
static char               question[QUESTION_BYTES];

/* ---- pages ---- */

enum { PAGE_BYTES = 1 << 16, SPARE_MAX = 64 };

/* Of arena.c: new pages of WebAssembly are zero and take no memory until they are touched, which malloc would do. What
 * is given back is cleared and kept for the next of that size; memory never shrinks here. */
static struct spare {
    void  *at;
    size_t bytes;
} spares[SPARE_MAX];

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    (void)at, (void)protection, (void)flags, (void)file, (void)offset;
    bytes = whole_pages(bytes);
    for (i64 i = 0; i < SPARE_MAX; i++) {
        void *found = spares[i].at;
        if (!found || spares[i].bytes != bytes) continue;
        spares[i] = (struct spare){ 0 };
        return found;
    }
    size_t was = __builtin_wasm_memory_grow(0, bytes / PAGE_BYTES);
    return was == SIZE_MAX ? MAP_FAILED : (void *)(was * PAGE_BYTES);
}

int munmap(void *at, size_t bytes)
{
    bytes = whole_pages(bytes);
    memset(at, 0, bytes);
    for (i64 i = 0; i < SPARE_MAX; i++) {
        if (spares[i].at) continue;
        spares[i] = (struct spare){ at, bytes };
        break;
    }
    return 0;
}

/* ---- doors ---- */

/* 0, or planner_error says why not. */
DOOR(planner_open) int planner_open(void)
{
    perm    = arena_open((i64)MEMORY_MIB << 20);
    answers = arena_open((i64)MEMORY_MIB << 20);
    if (!perm.begin || !answers.begin)
        return (int)err_set(&failure, STATUS_WORLD, "the browser gives no memory");
    return (int)playground_open(&playground, os_real(), STR(""), STR(""), &perm, &failure);
}

DOOR(planner_error) const char *planner_error(void) { return failure.text; }

/* Room for QUESTION_BYTES, with the zero byte. */
DOOR(planner_question) char *planner_question(void) { return question; }
DOOR(planner_question_bytes) int planner_question_bytes(void) { return QUESTION_BYTES; }

DOOR(planner_ask) const char *planner_ask(void)
{
    struct arena here = answers;
    struct str   words[WORDS_MAX], rest = str_of(question), word;
    i64          count = 0;
    while (count < WORDS_MAX && str_cut(&rest, '\n', &word)) words[count++] = word;
    struct str json = playground_answer(playground, words, count, &here);
    return str_fmt(&here, "%.*s", STR_ARG(json)).data;
}

DOOR(planner_choices) const char *planner_choices(void)
{
    struct arena here = answers;
    struct str   json = playground_choices(playground, &here);
    return str_fmt(&here, "%.*s", STR_ARG(json)).data;
}
