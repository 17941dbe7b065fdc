/* show_feeds.c - what a data set hands to a model, for tests/oracle/test_texts.py: a JSON object for each training
 * sample, with a list for each feed of whole numbers.
 *
 *     show_feeds KIND PATH CONTEXT TOKENIZER TEXT LABEL [PATTERN...]     patterns are those of data.template */
#include "data/data.h"
#include <stdio.h>
#include <stdlib.h>

static void show(const struct dataset *d, i64 index, struct arena scratch)
{
    const struct feeds *f = dataset_feeds(d);
    void               *to[FEEDS_MAX];
    for (i32 i = 0; i < f->count; i++)
        to[i] = NEW(&scratch, i32, shape_count(f->feed[i].type.shape));
    dataset_fetch(d, SPLIT_TRAIN, &index, 1, to);
    for (i32 i = 0; i < f->count; i++) {
        printf("%s\"%.*s\": [", i ? ", " : "{", STR_ARG(f->feed[i].name));
        for (i64 k = 0; k < shape_count(f->feed[i].type.shape); k++)
            printf("%s%d", k ? ", " : "", ((i32 *)to[i])[k]);
        printf("]");
    }
    printf("}\n");
}

int main(int argc, char **argv)
{
    struct arena       perm = arena_open((i64)1 << 40);
    struct data_config c    = { 0 };
    struct dataset    *d;
    struct err         err;
    if (argc < 7) return 2;
    c.kind      = str_of(argv[1]);
    c.path      = str_of(argv[2]);
    c.context   = atoi(argv[3]);
    c.tokenizer = str_of(argv[4]);
    c.text      = str_of(argv[5]);
    c.label     = str_of(argv[6]);
    for (i32 i = 7; i < argc && c.template_count < COUNT_OF(c.template); i++)
        c.template[c.template_count++] = str_of(argv[i]);
    if (dataset_open(os_real(), &c, &perm, &d, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return (int)err.status;
    }
    for (i64 i = 0; i < dataset_count(d, SPLIT_TRAIN); i++) show(d, i, perm);
    dataset_close(d);
    return 0;
}
