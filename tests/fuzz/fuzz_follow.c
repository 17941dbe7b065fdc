/* fuzz_follow.c - any bytes from a training loop: each line is an event or a sentence, and whatever they say, the run
 * ends with a bill that is a number. */
#include "supervise/follow.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void on_done(void *context, const struct event_done *e)
{
    (void)context;
    ASSERT(isfinite(e->dollars) && e->dollars >= 0);
    ASSERT(e->seconds >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena         perm   = arena_open((i64)256 << 20);
    struct subscriber    hears  = { .on_done = on_done };
    struct spot_config   spot   = { .cloud = STR("none") };
    struct bill         *bill   = bill_new(&perm, clock_new(&perm, os_real()));
    struct follow_config config = { .spot = &spot, .bill = bill, .events = &hears };
    struct follow_result result;
    struct err           err = { 0 };
    config.stop              = (struct stop_config){ .metric      = STR("loss"),
                                                     .target      = 0.5,
                                                     .max_seconds = 1e6,
                                                     .max_dollars = NAN,
                                                     .usd_hour    = 1,
                                                     .patience    = 3,
                                                     .forecast    = 0.9 };
    bill_price(bill, &(struct price_row){ .usd_hour = 1 });
    struct follow *f = follow_new(os_real(), &perm, &config);
    if (follow_take(f, (struct str){ (const char *)data, (i64)bytes }, &err)) ASSERT(err.text[0]);
    follow_look(f);
    follow_end(f, &result, &err);
    arena_close(&perm);
    return 0;
}
