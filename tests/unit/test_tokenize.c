/* test_tokenize.c - files of tokens: the same for any number of threads, after any accident, appended to once. */
#include "base/json.h"
#include "base/rng.h"
#include "data/bpe_train.h"
#include "data/data.h"
#include "harness.h"
#include "support/folder.h"
#include "support/sim_os.h"

static u64 draw(u64 *state) { return rng_mix((*state)++); }

static struct str random_text(struct arena *perm, u64 *state, i64 words)
{
    static const char *const bits[] = { "the ",
                                        "then ",
                                        "\n",
                                        "\n\n",
                                        "other",
                                        " ",
                                        "'s",
                                        "42",
                                        "<|endoftext|>",
                                        "caf\xC3\xA9 ",
                                        "\xE6\x97\xA5\xE6\x9C\xAC",
                                        "\xFF",
                                        "(x);\n",
                                        "a b c " };
    struct textbuf           b      = textbuf_new(perm);
    for (i64 i = 0; i < words; i++) textbuf_add(&b, str_of(bits[draw(state) % COUNT_OF(bits)]));
    return str_copy(perm, textbuf_str(&b));
}

/* A vocabulary trained from the text, with and without its files. */
static struct bpe *trained(struct arena *perm, struct os *os, const struct str *paths, i64 count,
                           struct str folder, i32 threads)
{
    struct bpe             *b;
    struct bpe_learned      l;
    struct err              err    = { 0 };
    struct bpe_train_config config = { .paths      = paths,
                                       .path_count = count,
                                       .vocabulary = 300,
                                       .special    = STR("<|endoftext|>"),
                                       .threads    = threads };
    CHECK_EQ(bpe_train(os, &config, perm, &l, &err), STATUS_OK);
    CHECK_EQ(bpe_write(os, folder, &l, config.special, *perm, &err), STATUS_OK);
    CHECK_EQ(bpe_open(os, folder, perm, &b, &err), STATUS_OK);
    CHECK_EQ(b->vocabulary, l.token_count);
    return b;
}

static struct tokenize_config small_pieces(const struct str *paths, i64 count, struct str out,
                                           i32 threads)
{
    return (struct tokenize_config){ .paths         = paths,
                                     .path_count    = count,
                                     .out           = out,
                                     .has_separator = true,
                                     .threads       = threads,
                                     .piece_bytes   = 100,
                                     .segment_bytes = 500 };
}

TEST(any_number_of_threads_gives_the_same_tokens_and_the_loader_reads_them)
{
    u64         state  = test_seed();
    struct str  folder = folder_new(perm), one = { 0 };
    struct str  paths[] = { folder_put(perm, folder, "a.txt", random_text(perm, &state, 2000)),
                            folder_put(perm, folder, "empty.txt", STR("")),
                            folder_put(perm, folder, "b.txt", random_text(perm, &state, 300)) };
    struct bpe *b       = trained(perm, os_real(), paths, 3, str_cat(perm, folder, STR("/v")), 1);
    for (i32 threads = 1; threads <= 4; threads++) {
        struct err err           = { 0 };
        struct str out           = str_fmt(perm, "%.*s/out%d.bin", STR_ARG(folder), threads), bytes;
        struct tokenize_config c = small_pieces(paths, 3, out, threads);
        struct tokenize_result r;
        CHECK_EQ(tokenize_files(os_real(), b, &c, &r, &err), STATUS_OK);
        CHECK_EQ(os_read_all(os_real(), out, perm, &bytes, &err), STATUS_OK);
        CHECK_EQ(bytes.len, 2 * r.tokens);
        CHECK_EQ(r.documents, 3);
        CHECK(r.bad > 0);
        if (threads == 1) one = bytes;
        CHECK_STR(bytes, one);

        struct str again = str_fmt(perm, "%.*s/v%d", STR_ARG(folder), threads);
        CHECK_STR(trained(perm, os_real(), paths, 3, again, threads)->hash, b->hash);
    }
    struct data_config c = { .path    = str_fmt(perm, "%.*s/out2.bin", STR_ARG(folder)),
                             .context = 8 };
    struct dataset    *d;
    struct err         err;
    CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_OK);
    CHECK_EQ(dataset_count(d, SPLIT_TRAIN), (one.len / 2 - 1) / 8);
    CHECK_EQ(dataset_feeds(d)->feed[0].range, b->vocabulary); /* the sidecar tells */
    CHECK_EQ(dataset_feeds(d)->count, 2);
    dataset_close(d);
    c.documents = STR("separate"); /* which token ends them it tells as well */
    CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_OK);
    CHECK_EQ(dataset_feeds(d)->count, 3);
    dataset_close(d);
    c.token_type = STR("u32");
    CHECK_EQ(dataset_open(os_real(), &c, perm, &d, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "set data.token_type=u16"));
}

/* ---- accidents ---- */

static const struct str first[] = { STR_INIT("/t/a.txt") }, second[] = { STR_INIT("/t/b.txt") };

static struct sim_os *world(struct arena *perm, u64 seed)
{
    struct sim_os *sim   = sim_os_new(perm);
    u64            state = seed;
    sim_os_put(sim, first[0], random_text(perm, &state, 150));
    sim_os_put(sim, second[0], random_text(perm, &state, 150));
    return sim;
}

static enum status run(struct sim_os *sim, const struct bpe *b, const struct str *paths,
                       bool append, struct tokenize_result *r, struct err *err)
{
    struct tokenize_config c = small_pieces(paths, 1, STR("/t/out.bin"), 1);
    c.append                 = append;
    c.segment_bytes          = 150;
    return tokenize_files(&sim->os, b, &c, r, err);
}

/* Both runs, one accident at any call of the second, and the same command again: the file is there at
 * all times, old or new, and in the end as if nothing had been. */
TEST(after_a_kill_at_any_call_the_same_command_appends_once)
{
    u64                    seed    = test_seed();
    struct arena           s       = scratch;
    struct sim_os         *sim     = world(&s, seed);
    struct str             texts[] = { first[0], second[0] };
    struct bpe            *b       = trained(perm, &sim->os, texts, 2, STR("/v"), 1);
    struct tokenize_result r;
    struct err             err = { 0 };
    CHECK_EQ(run(sim, b, first, false, &r, &err), STATUS_OK);
    struct str before = str_copy(perm, sim_os_look(sim, STR("/t/out.bin")));
    CHECK_EQ(run(sim, b, second, true, &r, &err), STATUS_OK);
    struct str after = str_copy(perm, sim_os_look(sim, STR("/t/out.bin")));
    struct str side  = str_copy(perm, sim_os_look(sim, STR("/t/out.bin.json")));
    CHECK(before.len && after.len > before.len);

    i64 kills = 0;
    for (i64 kill = 1, done = 0; !done; kill++, kills++) {
        for (i32 survive = 0; survive < SIM_SURVIVE_COUNT; survive++) {
            struct arena   t = s;
            struct sim_os *w = world(&t, seed);
            struct err     e = { 0 };
            CHECK_EQ(run(w, b, first, false, &r, &e), STATUS_OK);
            w->seed    = seed + (u64)kill;
            w->kill_at = w->calls + kill;
            done       = run(w, b, second, true, &r, &e) == STATUS_OK && w->calls < w->kill_at;
            sim_os_crash(w, (enum sim_survive)survive);
            struct str found = sim_os_look(w, STR("/t/out.bin"));
            CHECK(str_eq(found, before) || str_eq(found, after));
            CHECK_EQ(run(w, b, second, true, &r, &e), STATUS_OK);
            CHECK_STR(sim_os_look(w, STR("/t/out.bin")), after);
            CHECK_STR(sim_os_look(w, STR("/t/out.bin.json")), side);
        }
    }
    CHECK(kills > 20);
}

TEST(a_run_that_was_stopped_goes_on_where_it_was)
{
    struct arena           s   = scratch;
    struct sim_os         *sim = world(&s, 7);
    struct bpe            *b   = trained(perm, &sim->os, first, 1, STR("/v"), 1);
    struct tokenize_result r;
    struct err             err   = { 0 };
    i64                    calls = sim->calls;
    CHECK_EQ(run(sim, b, first, false, &r, &err), STATUS_OK);
    i64            all = sim->calls - calls, bytes = r.bytes;
    struct sim_os *w = world(&s, 7);
    w->kill_at       = w->calls + all / 2;
    CHECK(run(w, b, first, false, &r, &err) != STATUS_OK);
    sim_os_crash(w, SIM_ALL);
    CHECK_EQ(run(w, b, first, false, &r, &err), STATUS_OK);
    CHECK_EQ(r.bytes, bytes);
    CHECK(r.bytes_kept > 0);
    CHECK_STR(sim_os_look(w, STR("/t/out.bin")), sim_os_look(sim, STR("/t/out.bin")));
    CHECK(!sim_os_look(w, STR("/t/out.bin.parts/lock")).data);
}

static bool stop_at_once(void *context, const struct tokenize_progress *p)
{
    *(i64 *)context = p->bytes;
    return false;
}

TEST(a_signal_ends_it_after_a_segment_and_the_next_run_goes_on)
{
    struct arena           s   = scratch;
    struct sim_os         *sim = world(&s, 7);
    struct bpe            *b   = trained(perm, &sim->os, first, 1, STR("/v"), 1);
    struct tokenize_config c   = small_pieces(first, 1, STR("/t/out.bin"), 1);
    struct tokenize_result r;
    struct err             err   = { 0 };
    i64                    bytes = 0;
    c.listener                   = (struct tokenize_listener){ &bytes, stop_at_once };
    CHECK_EQ(tokenize_files(&sim->os, b, &c, &r, &err), STATUS_INTERRUPTED);
    CHECK(bytes > 0 && !sim_os_look(sim, STR("/t/out.bin")).data);
    c.listener = (struct tokenize_listener){ 0 };
    CHECK_EQ(tokenize_files(&sim->os, b, &c, &r, &err), STATUS_OK);
    CHECK_EQ(r.bytes_kept, bytes);
}

TEST(what_does_not_fit_together_is_refused)
{
    struct arena           s       = scratch;
    struct sim_os         *sim     = world(&s, 7);
    struct str             texts[] = { first[0], second[0] };
    struct bpe            *b       = trained(perm, &sim->os, first, 1, STR("/v"), 1);
    struct bpe            *other   = trained(perm, &sim->os, texts, 2, STR("/w"), 1);
    struct tokenize_result r;
    struct err             err = { 0 };
    CHECK_EQ(run(sim, b, first, false, &r, &err), STATUS_OK);
    CHECK_EQ(run(sim, b, first, false, &r, &err), STATUS_OK); /* the same command again */
    CHECK(r.was_done);
    CHECK_EQ(run(sim, b, second, false, &r, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "already exists; --append adds to it"));
    CHECK_EQ(run(sim, other, first, true, &r, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "was made with another vocabulary"));
    sim_os_put(sim, STR("/t/out.bin"), STR("abcd"));
    CHECK_EQ(run(sim, b, first, true, &r, &err), STATUS_USAGE);
    CHECK(strstr(err.text, "has 4 bytes, but /t/out.bin.json says"));
    sim->os.remove(&sim->os, STR("/t/out.bin.json"), NULL);
    CHECK(run(sim, b, first, true, &r, &err) != STATUS_OK);
    CHECK(strstr(err.text, "out.bin.json"));
}
