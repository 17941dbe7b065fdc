/* test_tune_file.c - run.tuned.yaml: what the user said and what won; and what a tuning says of its levers. */
#include "harness.h"
#include "job/tuning.h"
#include "support/folder.h"
#include <math.h>
#include <string.h>

static struct config *config_of(struct arena *perm, struct str file, const char *text)
{
    struct config *c = config_new(perm);
    CHECK_EQ(config_add_file(c, perm, file, str_of(text), NULL), STATUS_OK);
    return c;
}

static struct str read_file(struct arena *perm, struct str path)
{
    struct str text = STR("");
    CHECK_EQ(os_read_all(os_real(), path, perm, &text, NULL), STATUS_OK);
    return text;
}

TEST(the_file_has_what_was_said_and_what_won)
{
    struct str     file   = str_cat(perm, folder_new(perm), STR("/run.yaml")), path;
    struct config *before = config_of(perm, file, "train:\n  lr: 0.5\n  batch: 32\n");
    struct config *after  = NEW(perm, struct config, 1), *again;
    *after                = *before;
    CHECK_EQ(config_add_override(after, perm, STR("train.micro_batch=8"), NULL), STATUS_OK);
    for (i64 i = 0; i < 2; i++) /* its own file it writes anew */
        CHECK_EQ(tune_write(os_real(), before, after, STR("a head"), perm, &path, NULL), STATUS_OK);
    CHECK(str_ends(path, STR("/run.tuned.yaml")));
    struct str text = read_file(perm, path);
    CHECK(str_starts(text, STR("# frugal tune a head\ntrain:\n")));
    CHECK(strstr(str_z(perm, text), "  micro_batch: 8 # was "));
    CHECK(!strstr(str_z(perm, text), "  epochs:")); /* nobody spoke of it */
    again = config_of(perm, path, str_z(perm, text));
    CHECK_EQ(again->settings.train.batch, 32);
    CHECK_EQ(again->settings.train.micro_batch, 8);
    CHECK_EQ(again->settings.train.lr, 0.5);
}

TEST(a_file_of_the_users_own_stays)
{
    struct str     folder = folder_new(perm), path;
    struct str     file   = str_cat(perm, folder, STR("/run.yaml"));
    struct config *c      = config_of(perm, file, "train:\n  lr: 0.5\n");
    struct str     mine   = folder_put(perm, folder, "run.tuned.yaml", STR("train:\n  lr: 0.25\n"));
    struct err     err;
    CHECK_EQ(tune_write(os_real(), c, c, STR("a head"), perm, &path, &err), STATUS_USAGE);
    CHECK(str_ends(str_of(err.text), STR("is not from `frugal tune`: move it away")));
    CHECK_STR(read_file(perm, mine), STR("train:\n  lr: 0.25\n"));
}

/* The first lever won twice the speed, the second nothing, the third three times with other digits. */
TEST(speed_is_the_product_of_what_won)
{
    struct tuning *t = NEW(perm, struct tuning, 1);
    struct config *c = config_new(perm);
    t->config        = c;
    t->lever_count   = 3;
    for (i64 i = 0; i < 3; i++) {
        t->levers[i].count                = 2;
        t->levers[i].values[0].rounds     = 1;
        t->levers[i].values[0].seconds[0] = 1;
        t->levers[i].values[1].rounds     = 1;
        t->levers[i].values[1].seconds[0] = 1 / (f64)(i + 2);
    }
    CHECK_EQ(tuning_speed(t), 1);
    t->levers[0].won = 1;
    CHECK(!tuning_digits(t));
    CHECK_NEAR(tuning_speed(t), 2, 1e-12);
    t->levers[2].won                  = 1;
    t->levers[2].digits               = true;
    t->levers[2].values[1].seconds[0] = 1.0 / 3;
    CHECK(tuning_digits(t));
    CHECK_NEAR(tuning_speed(t), 6, 1e-12);

    CHECK(isnan(tuning_usd_million(t, 1))); /* no price */
    c->settings.train.usd_hour = 3.6;
    CHECK_NEAR(tuning_usd_million(t, 1), 1000, 1e-9); /* a million seconds, one for each sample */
    t->first.sample_tokens = 100;
    CHECK_NEAR(tuning_usd_million(t, 1), 10, 1e-9); /* of tokens a hundred times as many */
}
