/* test_mistakes.c - the table and the pictures of a classifier's mistakes, against a count by hand; and how often. */
#include "harness.h"
#include "train/mistakes.h"

/* A month of evaluations each minute: few enough to keep. */
TEST(a_long_run_makes_few)
{
    struct mistakes *m    = NEW(perm, struct mistakes, 1);
    f64              none = 0;
    i64              made = 0;
    m->classes            = 1;
    m->table              = &none;
    for (i64 minute = 1; minute <= 31 * 24 * 60; minute++)
        made += mistakes_due(m, 60.0 * (f64)minute, false);
    CHECK(made > 20);
    CHECK(made < 80);
    CHECK(mistakes_due(m, 60.0 * 31 * 24 * 60, true)); /* the last step's is always one */
    CHECK(!mistakes_due(NULL, 1, true));
}

struct told {
    i64 tables, pictures, classes, right, all;
    f64 last;
};

static void on_classes(void *context, const struct event_classes *e)
{
    struct told *t = context;
    t->tables++;
    t->classes = e->classes;
    CHECK_EQ(e->counts.count, e->classes * e->classes);
    for (i64 i = 0; i < e->counts.count; i++) t->all += e->counts.items[i];
    for (i64 i = 0; i < e->classes; i++) t->right += e->counts.items[i * e->classes + i];
}

static void on_mistake(void *context, const struct event_mistake *e)
{
    struct told *t = context;
    CHECK(e->probability <= t->last); /* the most certain first */
    t->last = e->probability;
    CHECK(e->label != e->guess);
    t->pictures++;
}

TEST(what_was_counted_is_told)
{
    struct told       t  = { .last = 1 };
    struct subscriber to = { .context = &t, .on_classes = on_classes, .on_mistake = on_mistake };
    struct mistakes  *m  = NEW(perm, struct mistakes, 1);
    f64               four[] = { 3, 1, 2, 5 };
    *m                       = (struct mistakes){
                              .classes = 2, .table = four, .width = 2, .height = 2, .channels = 1, .count = 3
    };
    for (i64 i = 0; i < 3; i++)
        m->items[i] = (struct mistake){ .label       = 0,
                                        .guess       = 1,
                                        .probability = 0.5 + 0.1 * (f64)((i * 2) % 3) };
    mistakes_tell(m, &to, 7, scratch);
    CHECK_EQ(t.tables, 1);
    CHECK_EQ(t.pictures, 3);
    CHECK_EQ(t.right, 8);
    CHECK_EQ(t.all, 11);
    CHECK(!m->due);
}
