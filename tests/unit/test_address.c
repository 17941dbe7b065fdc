/* test_far.c - addresses as people and files may see them. */
#include "harness.h"
#include "remote/address.h"

TEST(secrets_in_addresses_are_written_as_stars)
{
    static const char *const pairs[][2] = {
        { "", "" },
        { "data/train.csv", "data/train.csv" },
        { "a@b=c?d=e", "a@b=c?d=e" }, /* no address */
        { "s3://bucket/key", "s3://bucket/key" },
        { "https://host:8080/a@b", "https://host:8080/a@b" },
        { "https://user:pass@host/x?token=abc&y=1#z", "https://***@host/x?token=***&y=***" },
        { "https://u:p@ss@host", "https://***@host" },
        { "http://token@host?secret", "http://***@host?***" },
        { "https://h/x?X-Amz-Signature=a=b&X-Amz-Credential=c%2Fd",
          "https://h/x?X-Amz-Signature=***&X-Amz-Credential=***" },
        { "[\"https://u:p@a/1?k=v\", \"https://b/2\", ftp://x:y@z]",
          "[\"https://***@a/1?k=***\", \"https://b/2\", ftp://***@z]" },
        { "python3 train.py --from https://u:p@h/d --lr 1",
          "python3 train.py --from https://***@h/d --lr 1" },
        { "https://h/?", "https://h/" },
    };
    for (i64 i = 0; i < COUNT_OF(pairs); i++)
        CHECK_STR(address_redacted(perm, str_of(pairs[i][0])), pairs[i][1]);
    CHECK_STR(address_shown(perm, STR("https://u:p@ss@host/x?q=1")), "https://host/x");
}
