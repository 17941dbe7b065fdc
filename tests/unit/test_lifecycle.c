#include "harness.h"
#include "remote/lifecycle.h"
#include "remote/xml.h"

static const struct lifecycle ours = { STR_INIT("runs/a&b/"), 2, 7, STR_INIT("GLACIER_IR") };
#define OPEN "<LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
#define OURS                                                                                       \
    "<Rule><ID>frugal-uploads runs/a&amp;b/</ID><Filter><Prefix>runs/a&amp;b/</Prefix></Filter>"   \
    "<Status>Enabled</Status><AbortIncompleteMultipartUpload><DaysAfterInitiation>2"               \
    "</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>"                               \
    "<Rule><ID>frugal-retired runs/a&amp;b/</ID><Filter><And><Prefix>runs/a&amp;b/</Prefix><Tag>"  \
    "<Key>frugal</Key><Value>retired</Value></Tag></And></Filter><Status>Enabled</Status>"         \
    "<Transition><Days>7</Days><StorageClass>GLACIER_IR</StorageClass></Transition></Rule>"        \
    "</LifecycleConfiguration>"

static struct err err;

static struct str merged(struct arena *perm, struct str there, i64 *others)
{
    struct str out;
    CHECK_EQ(lifecycle_merge(perm, there, &ours, &out, others, &err), STATUS_OK);
    return out;
}

TEST(a_bucket_without_rules_gets_ours)
{
    i64 others;
    CHECK_STR(merged(perm, STR(""), &others), OPEN OURS);
    CHECK_EQ(others, 0);
}

TEST(others_rules_stay_to_the_letter_and_ours_are_renewed)
{
#define OTHER1                                                                                     \
    "<Rule xmlns=\"x\"><ID>logs</ID><Prefix>logs/</Prefix>\n<Status>Disabled</Status></Rule>"
#define OTHER2 "<Rule><ID>frugal-retired runs/c/</ID><Expiration><Days>1</Days></Expiration></Rule>"
    i64        others;
    struct str once = merged(perm,
                             STR("<?xml version=\"1.0\"?>\n<LifecycleConfiguration>" OTHER1
                                 "<Rule><ID>frugal-retired runs/a&amp;b/</ID></Rule>" OTHER2
                                 "</LifecycleConfiguration>"),
                             &others);
    CHECK_STR(once, OPEN OTHER1 OTHER2 OURS);
    CHECK_EQ(others, 2);
    CHECK_STR(merged(perm, once, &others), OPEN OTHER1 OTHER2 OURS);
}

TEST(what_is_not_understood_is_not_replaced)
{
    static const char *const strange[] = {
        "<Other></Other>", "no xml", "<LifecycleConfiguration>",
        "<LifecycleConfiguration><Role/></LifecycleConfiguration>"
    };
    for (i64 i = 0; i < COUNT_OF(strange); i++) {
        struct str out;
        i64        others;
        CHECK_EQ(lifecycle_merge(perm, str_of(strange[i]), &ours, &out, &others, &err),
                 STATUS_WORLD);
    }
}
