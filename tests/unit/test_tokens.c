/* test_tokens.c - windows over tokens and over the bytes of a text. */
#include "base/rng.h"
#include "data/data.h"
#include "harness.h"
#include "support/folder.h"

static struct err open_fails(struct arena *perm, struct data_config c)
{
    struct dataset *d;
    struct err      err = { 0 };
    CHECK(dataset_open(os_real(), &c, perm, &d, &err) != STATUS_OK);
    CHECK(d == NULL);
    return err;
}

static struct str tokens_of(const void *p, i64 bytes) { return (struct str){ p, bytes }; }

TEST(tokens_meet_in_one_token)
{
    u16                t[] = { 10, 11, 12, 13, 14, 15, 16, 17, 18 };
    struct data_config c   = { .context = 3 };
    struct dataset    *d;
    struct err         err;
    i32                x[2][3], y[2][3];
    c.path = folder_put(perm, folder_new(perm), "a.bin", tokens_of(t, sizeof t));
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 2); /* 9 tokens: 2 * 3 + 1, and two are left over */
    const struct feed *fx = feeds_find(dataset_feeds(d), STR("x"));
    CHECK_STR(type_text(perm, fx->type), "i32[3]");
    CHECK_EQ(fx->range, 19);
    dataset_fetch(d, SPLIT_TRAIN, (i64[]){ 1, 0 }, 2, (void *[]){ x, y });
    for (i32 i = 0; i < 3; i++) {
        CHECK_EQ(x[0][i], 13 + i);
        CHECK_EQ(y[0][i], 14 + i);
        CHECK_EQ(x[1][i], 10 + i);
        CHECK_EQ(y[1][i], 11 + i);
    }
    dataset_close(d);
}

TEST(tokens_of_four_bytes_and_a_file_to_evaluate_on)
{
    u32                t[] = { 70000, 1, 2, 3, 4 }, e[] = { 5, 100000, 7 };
    struct str         dir = folder_new(perm);
    struct data_config c   = { .context = 2, .token_type = STR("u32"), .held_out = 0.5 };
    struct dataset    *d;
    struct err         err;
    i32                x[2], y[2];
    c.path      = folder_put(perm, dir, "a.bin", tokens_of(t, sizeof t));
    c.eval_path = folder_put(perm, dir, "b.bin", tokens_of(e, sizeof e));
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 2);
    CHECK_EQ(dataset_count(d, SPLIT_EVAL), 1);
    CHECK_EQ(dataset_feeds(d)->feed[0].range, 100001);
    dataset_fetch(d, SPLIT_EVAL, (i64[]){ 0 }, 1, (void *[]){ x, y });
    CHECK_EQ(x[0], 5);
    CHECK_EQ(x[1], 100000);
    CHECK_EQ(y[1], 7);
    dataset_close(d);
}

TEST(text_is_its_bytes_and_the_end_is_held_out)
{
    struct data_config c = { .context = 4, .held_out = 0.34 };
    struct dataset    *d;
    struct err         err;
    i32                x[4], y[4];
    c.path = folder_put(perm, folder_new(perm), "poem.txt", STR("abcdefgh\xffjklm"));
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 2);
    CHECK_EQ(dataset_count(d, SPLIT_EVAL), 1);
    CHECK_EQ(dataset_feeds(d)->feed[1].range, 256);
    dataset_fetch(d, SPLIT_EVAL, (i64[]){ 0 }, 1, (void *[]){ x, y });
    CHECK_EQ(x[0], 0xff);
    CHECK_EQ(x[3], 'l');
    CHECK_EQ(y[0], 'j');
    CHECK_EQ(y[3], 'm');
    dataset_close(d);
}

TEST(documents_have_positions_of_their_own_and_predict_nothing_behind_their_end)
{
    u16 t[] = { 5, 9, 6, 7, 9, 9, 8, 5, 6, 7, 9, 1, 2 };
    static const struct {
        i32 x[6], y[6], position[6];
    } want[2] = {
        { { 5, 9, 6, 7, 9, 9 }, { 9, -1, 7, 9, -1, -1 }, { 0, 1, 0, 1, 2, 0 } },
        { { 8, 5, 6, 7, 9, 1 }, { 5, 6, 7, 9, -1, 2 }, { 0, 1, 2, 3, 4, 0 } },
    };
    struct data_config c = { .context = 6, .documents = STR("9") };
    struct dataset    *d;
    struct err         err;
    i32                x[2][6], y[2][6], position[2][6];
    c.path = folder_put(perm, folder_new(perm), "a.bin", tokens_of(t, sizeof t));
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(dataset_feeds(d)->count, 3);
    CHECK_STR(dataset_feeds(d)->feed[2].name, "position");
    CHECK_EQ(dataset_feeds(d)->feed[2].range, 6);
    dataset_fetch(d, SPLIT_TRAIN, (i64[]){ 0, 1 }, 2, (void *[]){ x, y, position });
    for (i32 i = 0; i < 12; i++) {
        CHECK_EQ(x[i / 6][i % 6], want[i / 6].x[i % 6]);
        CHECK_EQ(y[i / 6][i % 6], want[i / 6].y[i % 6]);
        CHECK_EQ(position[i / 6][i % 6], want[i / 6].position[i % 6]);
    }
    dataset_close(d);
    c.documents = STR("cross");
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(dataset_feeds(d)->count, 2);
    dataset_close(d);
    c.documents = STR("separate");
    CHECK(strstr(open_fails(perm, c).text, "says which token ends a document"));
    c.documents = STR("10");
    CHECK(strstr(open_fails(perm, c).text,
                 "data.documents=10 is not a token: the vocabulary has 10"));
}

TEST(tokens_are_refused_with_numbers)
{
    u16                t[] = { 1, 2, 3, 400, 5 };
    struct str         dir = folder_new(perm);
    struct data_config c   = { .context = 2, .kind = STR("tokens") };

    c.path       = folder_put(perm, dir, "wild.bin", tokens_of(t, sizeof t));
    c.vocabulary = 400;
    CHECK(strstr(open_fails(perm, c).text,
                 "wild.bin: holds token 400, but tokens must be below the vocabulary of 400"));
    c.vocabulary = 0;
    c.path       = folder_put(perm, dir, "odd.bin", tokens_of(t, 7));
    CHECK(strstr(open_fails(perm, c).text, "7 bytes are not a whole number of 2-byte tokens"));
    c.path = folder_put(perm, dir, "short.bin", tokens_of(t, 4));
    CHECK(strstr(open_fails(perm, c).text, "2 tokens are fewer than one sample's 3"));
    c.path       = folder_put(perm, dir, "large.bin", STR("\xff\xff\xff\xff\0\0\0\0\0\0\0\0"));
    c.token_type = STR("u32");
    CHECK(strstr(open_fails(perm, c).text, "holds token 4294967295"));
    c.token_type = STR("u8");
    CHECK(strstr(open_fails(perm, c).text, "it must be u16 or u32"));
    c.token_type = STR("u16");
    c.context    = 0;
    CHECK(strstr(open_fails(perm, c).text, "data.context is 0"));
}

static i64 first_of(const struct dataset *d, u64 seed, i64 epoch, i64 count, i32 *seen)
{
    i32 x[4], y[4], first = 0;
    for (i64 i = 0; i < count; i++) {
        dataset_fetch_epoch(d, seed, epoch, &i, 1, (void *[]){ x, y });
        if (!i) first = x[0];
        for (i32 k = 0; k < 4; k++) {
            CHECK_EQ(y[k], x[k] + 1); /* neighbours in the file */
            seen[y[k]]++;
        }
    }
    return first;
}

TEST(random_windows_see_each_token_once_and_another_cut_in_each_epoch)
{
    enum { TOKENS = 101, CONTEXT = 4 };
    u16 t[TOKENS];
    for (u16 i = 0; i < TOKENS; i++) t[i] = i;
    struct data_config c = { .context = CONTEXT, .held_out = 0.5, .windows = STR("random") };
    struct dataset    *d;
    struct err         err;
    i64                begins[CONTEXT] = { 0 };
    u64                seed            = test_seed();
    c.path = folder_put(perm, folder_new(perm), "a.bin", tokens_of(t, sizeof t));
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    i64 count = dataset_count(d, SPLIT_TRAIN), held_out = dataset_count(d, SPLIT_EVAL);
    i64 first_held_out =
        TOKENS - 1 - held_out * CONTEXT; /* a token that both may see: a target and an input */
    CHECK_EQ(count, (TOKENS - 1) / CONTEXT - held_out - 1);
    for (i64 epoch = 0; epoch < 400; epoch++) {
        i32 seen[TOKENS] = { 0 };
        i64 first        = first_of(d, seed, epoch, count, seen);
        CHECK(first < CONTEXT);
        begins[first]++;
        for (i32 i = 0; i < TOKENS; i++)
            CHECK_EQ(seen[i], i > first && i <= first + count * CONTEXT ? 1 : 0);
        CHECK(first + count * CONTEXT <= first_held_out);
        CHECK_EQ(first_of(d, seed, epoch, 1, seen), first); /* whoever asks, whenever */
    }
    /* Each cut has a chance of 1/4: 100 of 400 expected, deviation 8.7; 6 of them are a chance of 2e-9. */
    for (i32 i = 0; i < CONTEXT; i++) CHECK(begins[i] > 48 && begins[i] < 152);
    dataset_close(d);
}

TEST(random_windows_of_a_short_text_shift_by_what_is_left)
{
    u16                t[] = { 0, 1, 2, 3, 4, 5 };
    struct data_config c   = { .context = 4, .windows = STR("random") };
    struct dataset    *d;
    struct err         err;
    i32                seen[6] = { 0 };
    c.path = folder_put(perm, folder_new(perm), "a.bin", tokens_of(t, sizeof t));
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), 1);
    for (i64 epoch = 0; epoch < 50; epoch++) CHECK(first_of(d, 1, epoch, 1, seen) <= 1);
    CHECK(seen[1] && seen[5]);
    dataset_close(d);
}

/* Sequences of pieces have each token as a target once, too; documents end in them as they do elsewhere. */
TEST(pieces_of_sequences_come_from_several_windows_and_see_each_token_once)
{
    enum { TOKENS = 333, CONTEXT = 12, PIECE = 4, END = 50 };
    u16                t[TOKENS];
    struct data_config c = { .context = CONTEXT, .windows = STR("random"), .pieces = PIECE };
    struct dataset    *d;
    struct err         err;
    u64                seed = test_seed();
    for (u16 i = 0; i < TOKENS; i++) t[i] = i;
    c.path = folder_put(perm, folder_new(perm), "a.bin", tokens_of(t, sizeof t));
    for (i64 epoch = 0; epoch < 20; epoch++) {
        i32 seen[TOKENS] = { 0 }, joins = 0, first = TOKENS, last = 0;
        c.documents = epoch % 2 ? STR("50") : STR("cross");
        CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
        CHECK_EQ(dataset_feeds(d)->count, 3);
        i64 count = dataset_count(d, SPLIT_TRAIN);
        for (i64 i = 0; i < count; i++) {
            i32 x[CONTEXT], y[CONTEXT], position[CONTEXT];
            dataset_fetch_pieces(d, seed, epoch, &i, 1, (void *[]){ x, y, position });
            for (i32 k = 0; k < CONTEXT; k++) {
                bool ends = epoch % 2 && x[k] == END, begins = k % PIECE == 0;
                CHECK_EQ(y[k], ends ? -1 : x[k] + 1);
                seen[x[k] + 1]++;
                first = MIN(first, x[k] + 1), last = MAX(last, x[k] + 1);
                if (epoch % 2 && k && x[k - 1] == END) begins = true;
                CHECK_EQ(position[k], begins ? 0 : position[k - 1] + 1);
                if (k % PIECE) CHECK_EQ(x[k], x[k - 1] + 1);
                else joins += k && x[k] != x[k - 1] + 1;
            }
            dataset_fetch_epoch(d, seed, epoch, &i, 1, (void *[]){ x, y, position });
            CHECK_EQ(position[PIECE],
                     epoch % 2 && x[PIECE - 1] == END ? 0 : position[PIECE - 1] + 1);
        }
        CHECK_EQ(last - first + 1, count * CONTEXT);
        for (i32 i = first; i <= last; i++) CHECK_EQ(seen[i], 1);
        CHECK_EQ(joins, count * (CONTEXT / PIECE - 1));
        dataset_close(d);
    }
    c.pieces = 5;
    CHECK_STR(open_fails(perm, c).text,
              "data.pieces is 5; it must divide data.context, which is 12");
    c.pieces  = PIECE;
    c.windows = STR("best_fit");
    CHECK(strstr(open_fails(perm, c).text, "data.pieces cuts sequences"));
}

/* By how many samples of the run came before, whatever the batches, the epochs and the rank. */
TEST(a_loader_gives_pieces_for_as_long_as_it_is_asked_to)
{
    enum { TOKENS = 200, CONTEXT = 4, PIECE = 2, BATCH = 6 };
    u16                t[TOKENS] = { 0 };
    struct data_config c         = { .context = CONTEXT, .pieces = PIECE, .path = STR("") };
    struct dataset    *d;
    struct err         err;
    c.path = folder_put(perm, folder_new(perm), "a.bin", tokens_of(t, sizeof t));
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    i64 count = dataset_count(d, SPLIT_TRAIN);
    for (i32 rank = 0; rank < 2;
         rank++) { /* the second begins with the second epoch, of whole batches */
        struct loader_config l       = { .split     = SPLIT_TRAIN,
                                         .shuffle   = true,
                                         .forever   = true,
                                         .batch     = BATCH,
                                         .whole     = rank ? BATCH : 0,
                                         .part      = rank,
                                         .parts     = 2,
                                         .epoch     = rank,
                                         .in_pieces = count + 2 * BATCH,
                                         .options   = { .prefetch = 2 } };
        i64                  samples = rank * (count - count % BATCH), whole = 0;
        struct loader       *loader;
        CHECK(!loader_open(perm, d, &l, &loader, &err));
        while (samples < 3 * count) {
            struct batch *b = loader_next(loader);
            for (i64 i = 0; i < b->count; i++) {
                const i32 *position = (const i32 *)b->data[2] + i * CONTEXT;
                CHECK_EQ(position[PIECE], samples < l.in_pieces ? 0 : PIECE);
                whole += position[PIECE] > 0;
            }
            samples += b->all;
        }
        CHECK(whole > 0);
        loader_close(loader);
    }
    dataset_close(d);
}

/* Of documents of random lengths: each is in one sequence, from its first token on, unless it is longer than one; each
 * token but the first of a document is a target once; what is left over predicts nothing. */
TEST(documents_that_fit_are_not_cut)
{
    enum { DOCUMENTS = 300, CONTEXT = 32, END = 7, TOKENS_MAX = DOCUMENTS * 64 };
    u64                seed   = test_seed();
    u16               *t      = NEW(perm, u16, TOKENS_MAX);
    i32               *target = NEW(perm, i32, TOKENS_MAX), tokens = 0, places = 0;
    struct data_config c = { .context   = CONTEXT,
                             .documents = STR("7"),
                             .windows   = STR("best_fit") };
    struct dataset    *d;
    struct err         err;
    for (i32 i = 0; i < DOCUMENTS; i++) {
        i32 length =
            (i32)(rng_u32((struct rng_key){ .seed = seed }, (u64)i) % 60); /* without its end */
        for (i32 k = 0; k < length; k++, tokens++)
            t[tokens] = (u16)(10 + tokens); /* each its own */
        t[tokens++] = END;
        places += length;
    }
    c.path = folder_put(perm, folder_new(perm), "a.bin", tokens_of(t, tokens * (i64)sizeof *t));
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    i64 count = dataset_count(d, SPLIT_TRAIN), ends = 0, full = 0;
    for (i64 i = 0; i < count; i++) {
        i32 x[CONTEXT], y[CONTEXT], position[CONTEXT];
        dataset_fetch_epoch(d, seed, i % 3, &i, 1, (void *[]){ x, y, position });
        for (i32 k = 0; k < CONTEXT; k++) {
            if (y[k] < 0) {
                CHECK_EQ(x[k], 0); /* and so to the end of the sequence */
                CHECK(k + 1 == CONTEXT || y[k + 1] < 0);
                continue;
            }
            i32 at = x[k] - 10; /* in the file */
            CHECK_EQ(y[k], t[at + 1]);
            target[at + 1]++;
            bool begins = at == 0 || t[at - 1] == END;
            if (position[k]) CHECK_EQ(x[k], x[k - 1] + 1);
            else CHECK(begins || target[at] || k == 0); /* or a part of a long one */
            if (begins) CHECK_EQ(position[k], 0);
            ends += y[k] == END;
            full++;
        }
    }
    i64 documents = 0;
    for (i32 i = 0; i < tokens; i++) {
        bool first = i == 0 || t[i - 1] == END;
        documents += first && t[i] != END;
        CHECK_EQ(target[i], first ? 0 : 1);
    }
    CHECK_EQ(ends, documents);
    CHECK_EQ(full, places);
    CHECK(count * CONTEXT <
          places + places / 4); /* at worst 11/9 of the best, and a sequence (Johnson 1973) */
    char line[LOADER_LINE_MAX];
    CHECK(dataset_says(d, line) && strstr(line, "% of their places are empty"));
    CHECK(!dataset_says(d, line));
    dataset_close(d);
    c.samples = 2; /* of these it is said, not of all */
    CHECK(!dataset_open(os_real(), &c, perm, &d, &err));
    CHECK(dataset_says(d, line) && strstr(line, " in 2 sequences; "));
    CHECK(strtod(strstr(line, "; ") + 2, NULL) >= 0);
    dataset_close(d);
    c.documents = STR("cross");
    CHECK_STR(open_fails(perm, c).text,
              "data.windows=best_fit packs whole documents: set data.documents=separate");
}
