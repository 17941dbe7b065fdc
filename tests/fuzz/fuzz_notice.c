/* Any bytes from a metadata service: HTTP, then each cloud's answer. Notices or none, never a fault. */
#include "base/http.h"
#include "run/notice_int.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena        perm = arena_open((i64)64 << 20);
    struct notice_clock now  = { 1, (i64)1505722800 * 1000000000 };
    struct http_answer  a;
    struct notices      n    = { 0 };
    char               *copy = NEW(&perm, char, (i64)bytes + 1);
    memcpy(copy, data, bytes);
    struct str body = { copy, (i64)bytes };
    for (i64 ended = 0; ended < 2; ended++) {
        enum http_state state = http_answer_parse(copy, (i64)bytes, ended, &a);
        ASSERT(!ended || state != HTTP_PART);
        if (state == HTTP_WHOLE) {
            ASSERT(a.body.data >= copy && a.body.data + a.body.len <= copy + bytes);
            body = a.body;
            break;
        }
        memcpy(copy, data, bytes);
    }
    notice_aws_action(body, now, perm, &n);
    notice_aws_rebalance(body, now, perm, &n);
    notice_gcp_preempted(body, now, &n);
    notice_gcp_maintenance(body, now, &n);
    notice_azure_events(body, STR("vm_0"), now, perm, &n);
    ASSERT(n.count >= 2); /* both of AWS: there was an answer */
    for (i64 i = 0; i < n.count; i++) ASSERT(n.items[i].text[0] && n.items[i].deadline_ns >= 0);
    arena_close(&perm);
    return 0;
}
