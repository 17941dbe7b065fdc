/* Any bytes made sound and cut into words: every scanner comes to the end, between characters, and a cut changes
 * no word. */
#include "data/presplit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static bool begins_character(struct str text, i64 at)
{
    return at == text.len || ((u8)text.data[at] & 0xC0) != 0x80;
}

/* Both sides of the cut have the words of the whole. */
static void check_cut(enum presplit p, const u8 *classes, struct str text, i64 cut)
{
    struct str left = str_sub(text, 0, cut);
    for (i64 at = 0; at < cut;) {
        i64 end = presplit_end(p, classes, text, at);
        ASSERT(end <= cut);
        ASSERT(end == presplit_end(p, classes, left, at));
        at = end;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct presplit_cuts all = { true, true };
    static struct arena               once;
    static const u8                  *classes;
    if (!once.begin) {
        once    = arena_open((i64)64 << 20);
        classes = char_classes(&once);
    }
    struct arena perm  = once;
    struct str   text  = { (const char *)data, (i64)bytes };
    i64          bad   = 0;
    bool         valid = utf8_valid(text);
    text               = utf8_repair(text, NEW(&perm, char, 3 * (i64)bytes + 1), &bad);
    ASSERT(valid == (bad == 0) && utf8_valid(text));
    for (i32 p = 0; p < PRESPLIT_COUNT; p++) {
        for (i64 at = 0, end; at < text.len; at = end) {
            end = presplit_end((enum presplit)p, classes, text, at);
            ASSERT(end > at && end <= text.len);
            ASSERT(begins_character(text, end));
        }
        check_cut((enum presplit)p, classes, text, presplit_cut(&all, classes, text, text.len / 2));
    }
    return 0;
}
