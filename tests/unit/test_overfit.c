/* test_overfit.c - when a run is said to learn its samples by heart. */
#include "harness.h"
#include "run/overfit.h"
#include <math.h>

/* Evaluations, and the training loss of the ten steps before each; the number of the one that is reported, or 0. */
static i32 reported_at(const f64 (*curve)[2], i32 count)
{
    struct overfit o  = { 0 };
    i32            at = 0;
    for (i32 i = 0; i < count; i++) {
        for (i32 k = 0; k < 10; k++) overfit_step(&o, curve[i][1]);
        if (!overfit_eval(&o, 10 * (i + 1), curve[i][0])) continue;
        CHECK(!at); /* once */
        at = i + 1;
    }
    return at;
}

TEST(a_rising_held_out_loss_beside_a_falling_training_loss_is_reported_once)
{
    const f64 curve[][2] = { { 3.1, 3.2 }, { 2.0, 2.0 }, { 1.9, 1.8 }, { 1.95, 1.7 },
                             { 2.0, 1.6 }, { 2.2, 1.4 }, { 2.5, 1.0 } };
    CHECK_EQ(reported_at(curve, COUNT_OF(curve)), 5);
}

TEST(noise_a_plateau_and_divergence_are_not_overfitting)
{
    const f64 noise[][2] = {
        { 2.0, 2.0 }, { 2.05, 1.9 }, { 1.9, 1.8 }, { 1.95, 1.7 }, { 1.8, 1.6 }
    };
    const f64 plateau[][2]        = { { 2.0, 2.0 }, { 2.005, 1.9 }, { 2.01, 1.8 }, { 2.015, 1.7 } };
    const f64 diverges[][2]       = { { 2.0, 2.0 }, { 3.0, 3.0 }, { 4.0, 4.0 }, { 5.0, 5.0 } };
    const f64 learns_nothing[][2] = { { 4.2, 4.2 }, { 4.22, 4.199 }, { 4.25, 4.198 } };
    CHECK_EQ(reported_at(learns_nothing, COUNT_OF(learns_nothing)), 0);
    CHECK_EQ(reported_at(noise, COUNT_OF(noise)), 0);
    CHECK_EQ(reported_at(plateau, COUNT_OF(plateau)), 0);
    CHECK_EQ(reported_at(diverges, COUNT_OF(diverges)), 0);
}

TEST(a_loss_that_is_no_number_is_not_overfitting)
{
    const f64 lost[][2] = { { 2.0, 2.0 }, { NAN, 1.9 }, { NAN, 1.8 }, { NAN, 1.7 } };
    CHECK_EQ(reported_at(lost, COUNT_OF(lost)), 0);
}
