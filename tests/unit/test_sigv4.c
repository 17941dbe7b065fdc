/* Vectors: [S3] "Signature Calculations: Transferring Payload in a Single Chunk" in the S3 API
 * reference, with their published canonical requests and signatures; [SUITE] aws-sig-v4-test-suite;
 * [IAM] the worked example of the general reference. tests/oracle/test_sigv4.py draws more and asks
 * Python's hmac. */
#include "harness.h"
#include "remote/sigv4.h"

static const i64 s3_time    = 1369353600,
                 suite_time = 1440938160; /* 20130524T000000Z, 20150830T123600Z */

static const struct sigv4_signer s3_signer    = { SIGV4_AWS, STR_INIT("AKIAIOSFODNN7EXAMPLE"),
                                                  STR_INIT("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
                                                  STR_INIT("us-east-1"), STR_INIT("s3") };
static const struct sigv4_signer suite_signer = {
    SIGV4_AWS, STR_INIT("AKIDEXAMPLE"), STR_INIT("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
    STR_INIT("us-east-1"), STR_INIT("service")
};
#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct str signature(struct arena *perm, const struct sigv4_signer *s,
                            const struct sigv4_request *r)
{
    struct str text = sigv4_authorization(perm, s, r);
    CHECK(text.len > 64);
    return str_sub(text, text.len - 64, text.len);
}

TEST(s3_get_object)
{
    struct pair          headers[] = { { STR("Host"), STR("examplebucket.s3.amazonaws.com") },
                                       { STR("Range"), STR("bytes=0-9") },
                                       { STR("x-amz-content-sha256"), STR(EMPTY_HASH) },
                                       { STR("x-amz-date"), STR("20130524T000000Z") } };
    struct sigv4_request r         = { .method       = STR("GET"),
                                       .path         = STR("/test.txt"),
                                       .headers      = headers,
                                       .header_count = 4,
                                       .payload_hash = STR(EMPTY_HASH),
                                       .unix_s       = s3_time };
    CHECK_STR(sigv4_canonical(perm, &r),
              "GET\n/test.txt\n\nhost:examplebucket.s3.amazonaws.com\nrange:bytes=0-9\n"
              "x-amz-content-sha256:" EMPTY_HASH "\nx-amz-date:20130524T000000Z\n\n"
              "host;range;x-amz-content-sha256;x-amz-date\n" EMPTY_HASH);
    CHECK_STR(sigv4_to_sign(perm, &s3_signer, &r),
              "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n"
              "7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972");
    CHECK_STR(
        sigv4_authorization(perm, &s3_signer, &r),
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(s3_put_object)
{
#define HASH "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
    struct pair          headers[] = { { STR("x-amz-storage-class"), STR("REDUCED_REDUNDANCY") },
                                       { STR("Date"), STR("Fri, 24 May 2013 00:00:00 GMT") },
                                       { STR("Host"), STR("examplebucket.s3.amazonaws.com") },
                                       { STR("x-amz-date"), STR("20130524T000000Z") },
                                       { STR("x-amz-content-sha256"), STR(HASH) } };
    struct sigv4_request r         = { .method       = STR("PUT"),
                                       .path         = sigv4_encode_path(perm, STR("/test$file.text")),
                                       .headers      = headers,
                                       .header_count = 5,
                                       .payload_hash = STR(HASH),
                                       .unix_s       = s3_time };
    CHECK_STR(r.path, "/test%24file.text");
    CHECK_STR(signature(perm, &s3_signer, &r),
              "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

/* ?lifecycle, and max-keys=2&prefix=J given in the wrong order. */
TEST(s3_queries)
{
    struct pair          headers[]   = { { STR("Host"), STR("examplebucket.s3.amazonaws.com") },
                                         { STR("x-amz-content-sha256"), STR(EMPTY_HASH) },
                                         { STR("x-amz-date"), STR("20130524T000000Z") } };
    struct pair          lifecycle[] = { { STR("lifecycle"), STR("") } };
    struct pair          list[] = { { STR("prefix"), STR("J") }, { STR("max-keys"), STR("2") } };
    struct sigv4_request r      = { .method       = STR("GET"),
                                    .path         = STR("/"),
                                    .query        = lifecycle,
                                    .query_count  = 1,
                                    .headers      = headers,
                                    .header_count = 3,
                                    .payload_hash = STR(EMPTY_HASH),
                                    .unix_s       = s3_time };
    CHECK_STR(signature(perm, &s3_signer, &r),
              "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    r.query       = list;
    r.query_count = 2;
    CHECK_STR(signature(perm, &s3_signer, &r),
              "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(suite_vanilla_and_query_order)
{
    struct pair headers[]  = { { STR("Host"), STR("example.amazonaws.com") },
                               { STR("X-Amz-Date"), STR("20150830T123600Z") } };
    struct pair query[]    = { { STR("Param2"), STR("value2") }, { STR("Param1"), STR("value1") } };
    struct sigv4_request r = { .method       = STR("GET"),
                               .path         = STR("/"),
                               .headers      = headers,
                               .header_count = 2,
                               .payload_hash = STR(EMPTY_HASH),
                               .unix_s       = suite_time };
    CHECK_STR(signature(perm, &suite_signer, &r),
              "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
    r.method = STR("POST");
    CHECK_STR(signature(perm, &suite_signer, &r),
              "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
    r.method      = STR("GET");
    r.query       = query;
    r.query_count = 2;
    CHECK_STR(signature(perm, &suite_signer, &r),
              "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
}

TEST(iam_worked_example)
{
    struct sigv4_signer iam        = suite_signer;
    iam.service                    = STR("iam");
    struct pair          headers[] = { { STR("content-type"),
                                         STR("application/x-www-form-urlencoded; charset=utf-8") },
                                       { STR("host"), STR("iam.amazonaws.com") },
                                       { STR("x-amz-date"), STR("20150830T123600Z") } };
    struct pair          query[]   = { { STR("Action"), STR("ListUsers") },
                                       { STR("Version"), STR("2010-05-08") } };
    struct sigv4_request r         = { .method       = STR("GET"),
                                       .path         = STR("/"),
                                       .query        = query,
                                       .query_count  = 2,
                                       .headers      = headers,
                                       .header_count = 3,
                                       .payload_hash = STR(EMPTY_HASH),
                                       .unix_s       = suite_time };
    CHECK_STR(sigv4_to_sign(perm, &iam, &r),
              "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/iam/aws4_request\n"
              "f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59");
    CHECK_STR(signature(perm, &iam, &r),
              "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
}

TEST(what_is_encoded)
{
    CHECK_STR(sigv4_encode_path(perm, STR("a/date=1/b c+~._-%\xc3\xa4")),
              "a/date%3D1/b%20c%2B~._-%25%C3%A4");
    CHECK_STR(sigv4_encode(perm, STR("a/b")), "a%2Fb");
}
