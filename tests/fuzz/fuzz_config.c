/* Any bytes: up to the first zero byte a run file, behind it overrides between zero bytes. Settings
 * come out, or one sentence; settings that come out can be printed and read again, and make the
 * trials of a sweep or a sentence. */
#include "job/sweep.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena   perm = arena_open((i64)64 << 20);
    struct err     err  = { 0 };
    struct str     rest = { (const char *)data, (i64)bytes }, part = { 0 };
    struct config *c = config_new(&perm);

    str_cut(&rest, '\0', &part);
    enum status st = config_add_file(c, &perm, STR("run.yaml"), part, &err);
    ASSERT(st == STATUS_OK ||
           (st == STATUS_USAGE && str_starts(str_of(err.text), STR("run.yaml:"))));
    while (!st && str_cut(&rest, '\0', &part)) st = config_add_override(c, &perm, part, &err);
    ASSERT(st == STATUS_OK || err.text[0]);

    for (i64 i = 0; i < OPTION_COUNT && !st; i++) {
        struct arena     scratch = perm;
        struct str       text    = option_get_text(&options[i], &c->settings, &scratch);
        struct settings *again   = NEW(&scratch, struct settings, 1);
        ASSERT(option_set_text(&options[i], again, text, &scratch, &err) == STATUS_OK);
        ASSERT(str_eq(option_get_text(&options[i], again, &scratch), text));
    }
    struct sweep sweep = { .config = c };
    if (!st && sweep_plan(&sweep, &perm, &err)) ASSERT(err.text[0]);
    arena_close(&perm);
    return 0;
}
