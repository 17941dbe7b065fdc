/* test_supervise.c - small shell programs under the supervisor: they end, fail, die, are asked to save by
 * signals, notices, targets and budgets, and go on from what was carried. */
#include "harness.h"
#include "supervise/supervise.h"
#include "support/fake_s3.h"
#include "support/folder.h"
#include "support/served.h"
#include <stdatomic.h>

/* The real world, but for signals, which come when the program has printed `cue`. */
static struct os      world;
static enum os_signal pending;

static enum os_signal take_signal(struct os *os)
{
    enum os_signal s = pending;
    (void)os;
    pending = OS_SIGNAL_NONE;
    return s;
}

struct stage {
    struct str              top; /* folder; the program runs with $TOP */
    const char             *argv[5];
    struct program_config   program;
    struct spot_config      spot;
    struct supervise_config config;
    struct supervise_result result;
    struct err              err;
    struct textbuf          out, said, stream; /* stream: the events as JSON lines */
    const char             *cue;               /* in the output; NULL: none */
    enum os_signal          then;
    atomic_bool            *then_notice;
    struct arena            memory[3];
};

static void on_output(void *context, struct str bytes)
{
    struct stage *s = context;
    textbuf_add(&s->out, bytes);
    if (!s->cue || !memmem(s->out.data, (size_t)s->out.len, s->cue, strlen(s->cue))) return;
    s->cue  = NULL;
    pending = s->then;
    if (s->then_notice) *s->then_notice = true;
}

static void on_note(void *context, const struct event_note *e)
{
    struct stage *s = context;
    textbuf_fmt(&s->said, "%.*s\n", STR_ARG(e->text));
}

static void on_event(void *context, enum event_kind kind, const void *event)
{
    struct stage *s = context;
    event_json(kind, event, &s->stream);
    textbuf_fmt(&s->stream, "\n");
}

static void stage_init(struct stage *s, struct arena *perm, const char *script)
{
    *s                = (struct stage){ .top = os_absolute(perm, folder_new(perm)) };
    world             = *os_real();
    pending           = OS_SIGNAL_NONE;
    world.signal_take = take_signal;
    setenv("TOP", s->top.data, 1);
    s->argv[0] = "/bin/sh";
    s->argv[1] = "-c";
    s->argv[2] = script;
    s->argv[3] = "-"; /* $0; what is added are its arguments */
    s->program = (struct program_config){ .folder     = str_fmt(perm, "%.*s/out", STR_ARG(s->top)),
                                          .files      = { STR("*") },
                                          .file_count = 1,
                                          .complete   = STR("0.1"),
                                          .signal     = { STR("term") },
                                          .signal_count = 1,
                                          .grace_s      = 10,
                                          .restarts     = 2,
                                          .resume       = { STR("--resume"), STR("from={newest}") },
                                          .resume_count = 2,
                                          .read         = STR("regex"),
                                          .step         = STR("step ([0-9]+)"),
                                          .metric       = STR("metric ([0-9.]+)") };
    CHECK_EQ(os_real()->make_dir(os_real(), s->program.folder, NULL), STATUS_OK);
    s->spot   = (struct spot_config){ .cloud = STR("none"), .metadata = STR("") };
    s->config = (struct supervise_config){ .command    = s->argv,
                                           .backoff_ns = 10000000,
                                           .program    = &s->program,
                                           .spot       = &s->spot,
                                           .stop       = { .metric      = STR("loss"),
                                                           .target      = NAN,
                                                           .max_seconds = NAN,
                                                           .max_dollars = NAN,
                                                           .usd_hour    = NAN },
                                           .store = str_fmt(perm, "%.*s/kept", STR_ARG(s->top)),
                                           .keep  = 3 };
    for (i64 i = 0; i < 3; i++) s->memory[i] = arena_part(perm, 1 << 20);
    s->out    = textbuf_new(&s->memory[0]);
    s->said   = textbuf_new(&s->memory[1]);
    s->stream = textbuf_new(&s->memory[2]);
}

static enum status play(struct stage *s)
{
    struct subscriber events = { .context = s, .on_event = on_event, .on_note = on_note };
    s->err                   = (struct err){ 0 };
    s->config.events         = &events;
    s->config.on_output      = on_output;
    s->config.context        = s;
    return supervise_run(&world, &s->config, &s->result, &s->err);
}

static bool has(const struct textbuf *b, const char *part)
{
    bool found = memmem(b->data, (size_t)b->len, part, strlen(part)) != NULL;
    if (!found) printf("\n  no \"%s\" in: %.*s", part, (int)b->len, b->data);
    return found;
}

static struct str look(struct stage *s, struct arena *perm, const char *name)
{
    struct str text = { 0 };
    os_read_all(os_real(), str_fmt(perm, "%.*s/%s", STR_ARG(s->top), name), perm, &text, NULL);
    return text;
}

TEST(what_it_prints_is_passed_on_as_it_is)
{
    struct stage s;
    stage_init(&s, perm, "printf 'a\\000b\\r\\n\\377 step 5\\nno end'");
    CHECK_EQ(play(&s), STATUS_OK);
    CHECK_STR(textbuf_str(&s.out), ((struct str){ "a\0b\r\n\377 step 5\nno end", 20 }));
    CHECK_EQ(s.result.step, 5);
    CHECK_EQ(s.result.starts, 1);
}

TEST(a_program_that_fails_is_started_again_so_often)
{
    struct stage s;
    stage_init(&s, perm, "echo $#; exit 7");
    CHECK_EQ(play(&s), STATUS_NO);
    CHECK_STR(textbuf_str(&s.out), "0\n0\n0\n"); /* nothing to go on from: no argument is added */
    CHECK_EQ(s.result.starts, 3);
    CHECK_STR(s.err.text,
              "the program ended with 7; giving up after 3 starts in a row without a new "
              "checkpoint (program.restarts)");
    s.argv[0] = "/nowhere";
    CHECK_EQ(play(&s), STATUS_WORLD);
    CHECK_STR(s.err.text, "cannot start /nowhere: No such file or directory");
}

/* Each start makes one step, saves, waits until that is carried, begins to write the next one and
 * dies in the middle of it. Four restarts although two in a row would be the end: each carried. */
TEST(it_goes_on_from_the_newest_carried_file_and_never_from_half_of_one)
{
    static const char script[] =
        "cd $TOP/out; n=0; [ \"$1\" = --resume ] && { [ \"$2\" = from=$TOP/out/state ] || exit 9; "
        "n=$(cat state); }\n"
        "[ \"$n\" -eq 5 ] && exit 0\n"
        "n=$((n+1)); echo $n >state; echo step $n\n"
        "i=0; while [ $i -lt 500 ] && ! ls $TOP/kept/step-*$n.1.*/manifest.json >/dev/null 2>&1; "
        "do sleep 0.02; i=$((i+1)); done\n"
        "echo garbage >state; kill -9 $$";
    struct stage s;
    stage_init(&s, perm, script);
    enum status st = play(&s);
    if (st) printf("\n  %s: %.*s", s.err.text, STR_ARG(textbuf_str(&s.said)));
    CHECK_EQ(st, STATUS_OK);
    CHECK_STR(look(&s, perm, "out/state"), "5\n");
    CHECK_EQ(s.result.starts, 6);
    CHECK(s.result.carried >= 5);
    CHECK(s.result.redone_s > 0);
    CHECK(s.result.redone_s < s.result.seconds);
    CHECK(has(&s.said, "the program was killed by signal 9; starting it again (start 2)"));
    CHECK(has(&s.said, "no checkpoint holds to"));
}

/* Saves when asked to, and tells by its exit. */
#define SAVES                                                                                      \
    "cd $TOP/out; [ \"$1\" = --resume ] && { echo resumed $(cat state); exit 0; }\n"               \
    "trap 'echo saved >state; exit 3' TERM; trap 'echo now >state' USR1\n"                         \
    "echo step 1; while :; do sleep 0.02; done"

TEST(a_signal_makes_it_save_and_the_next_start_goes_on)
{
    struct stage s;
    stage_init(&s, perm, SAVES);
    s.cue  = "step 1";
    s.then = OS_SIGNAL_TERM;
    CHECK_EQ(play(&s), STATUS_INTERRUPTED);
    CHECK(strstr(s.err.text, "stopped by SIGTERM; the same command resumes from "));
    CHECK(has(&s.said, "to save (SIGTERM), 10 s to do it"));
    CHECK_EQ(s.result.carried, 1);
    CHECK_EQ(s.result.stopped, STOP_SIGNAL);
    CHECK_EQ(play(&s), STATUS_OK);
    CHECK(has(&s.out, "resumed saved"));
}

TEST(one_that_does_not_end_in_time_is_killed_and_what_it_wrote_last_is_not_believed)
{
    struct stage s;
    stage_init(
        &s, perm,
        "cd $TOP/out; trap 'echo half >state' TERM; echo step 1; while :; do sleep 0.02; done");
    s.cue              = "step 1";
    s.then             = OS_SIGNAL_INT;
    s.program.grace_s  = 0.2;
    s.program.complete = STR("60");
    CHECK_EQ(play(&s), STATUS_INTERRUPTED);
    CHECK(has(&s.said, "it did not exit in time and is killed"));
    CHECK_STR(look(&s, perm, "out/state"), "half\n");
    CHECK_EQ(s.result.carried, 0);
}

TEST(one_that_handles_no_signal_is_ended_at_once)
{
    struct stage s;
    stage_init(&s, perm, "echo step 1; sleep 100; sleep 100");
    s.cue  = "step 1";
    s.then = OS_SIGNAL_INT;
    CHECK_EQ(play(&s), STATUS_INTERRUPTED);
    CHECK(has(&s.said, "none of its processes handles SIGTERM, so it is killed"));
    CHECK(s.result.seconds < 9);
}

TEST(where_there_is_time_it_ends_with_its_next_checkpoint)
{
    struct stage s;
    stage_init(&s, perm,
               "cd $TOP/out; echo step 1; sleep 0.5; echo state >state; sleep 100; sleep 100");
    s.cue  = "step 1";
    s.then = OS_SIGNAL_TERM;
    CHECK_EQ(play(&s), STATUS_INTERRUPTED);
    CHECK(has(&s.said, "it is killed after its next checkpoint, in 10 s at the latest"));
    CHECK_EQ(s.result.carried, 1);
    CHECK(s.result.seconds < 9);
}

TEST(usr1_asks_it_to_save_and_go_on)
{
    struct stage s;
    stage_init(&s, perm, SAVES);
    s.cue                     = "step 1";
    s.then                    = OS_SIGNAL_USR1;
    s.program.signal[1]       = STR("usr1");
    s.program.signal_count    = 2;
    s.config.stop.max_seconds = 3;
    CHECK_EQ(play(&s), STATUS_OK);
    CHECK(has(&s.said, "SIGUSR1 came: asked "));
    CHECK_EQ(s.result.carried, 2); /* that, and the one at the end */
    CHECK_EQ(s.result.stopped, STOP_BUDGET);
    CHECK_STR(s.result.why, "the 3 s of train.max_seconds are used up");
}

/* --- notices ------------------------------------------------------------------------------------ */

static void aws(void *context, struct str request, struct file stream)
{
    atomic_bool *coming = context;
    if (served_asks(request, "PUT /latest/api/token")) served_reply(stream, 200, "", STR("T"));
    else if (served_asks(request, "spot/instance-action") && *coming)
        served_reply(stream, 200, "", STR("{\"action\":\"terminate\",\"time\":\"unknown\"}"));
    else served_reply(stream, 404, "", STR(""));
}

TEST(a_notice_makes_it_save_and_end_with_4)
{
    struct stage   s;
    atomic_bool    coming = true; /* AWS is asked every five seconds, and at once when we begin */
    struct served *server = served_open(perm, aws, &coming);
    stage_init(&s, perm, SAVES);
    s.spot = (struct spot_config){ .cloud = STR("aws"), .metadata = served_url(server, perm) };
    s.config.store = STR("");
    enum status st = play(&s);
    served_close(server);
    CHECK_EQ(st, STATUS_INTERRUPTED);
    CHECK_STR(s.err.text, "AWS will terminate this spot machine in 115 s");
}

/* --- target, patience, budget ------------------------------------------------------------------- */

/* Long enough for a machine that is slow to ask it to end. */
#define MEASURES                                                                                   \
    "cd $TOP/out; trap 'echo saved >state; exit 0' TERM; i=0\n"                                    \
    "for m in 0.9 0.5 0.6 0.7 $(seq 0.6 0.01 0.99); do i=$((i+1)); echo step $i metric $m; "       \
    "sleep 0.15; done\n"                                                                           \
    "echo end; sleep 0.2"

/* Killed for good: nobody repeats what came after the newest checkpoint. */
TEST(what_a_target_ends_is_not_repeated)
{
    struct stage s;
    stage_init(&s, perm, "while sleep 0.1; do echo step 1 metric 0.5; done");
    s.config.stop.target = 0.55;
    s.config.store       = STR("");
    CHECK_EQ(play(&s), STATUS_OK);
    CHECK_EQ(s.result.stopped, STOP_TARGET);
    CHECK_EQ(s.result.starts, 1);
    CHECK_EQ(s.result.redone_s, 0);
}

TEST(a_target_that_is_reached_ends_it)
{
    struct stage s;
    stage_init(&s, perm, MEASURES);
    s.config.stop.target = 0.55;
    CHECK_EQ(play(&s), STATUS_OK);
    CHECK(s.result.target_reached);
    CHECK_EQ(s.result.stopped, STOP_TARGET);
    CHECK_EQ(s.result.carried, 1);
    CHECK(!memmem(s.out.data, (size_t)s.out.len, "end", 3));
    CHECK(s.result.steps_per_s > 0);
}

TEST(patience_ends_it)
{
    struct stage s;
    stage_init(&s, perm, MEASURES);
    s.config.stop.patience = 2;
    CHECK_EQ(play(&s), STATUS_OK);
    CHECK_EQ(s.result.stopped, STOP_PATIENCE);
    CHECK_STR(s.result.why, "2 evaluations in a row were no better than loss 0.5 after step 2");
    CHECK_EQ(s.result.carried, 1);
}

TEST(money_ends_it_although_nothing_is_read)
{
    struct stage s;
    stage_init(&s, perm, MEASURES);
    s.program.read            = STR("none");
    s.argv[2]                 = "trap 'exit 0' TERM; while :; do sleep 0.02; done";
    s.config.stop.usd_hour    = 3600;
    s.config.stop.max_dollars = 0.3;
    CHECK_EQ(play(&s), STATUS_OK);
    CHECK_EQ(s.result.stopped, STOP_BUDGET);
    CHECK(s.result.dollars >= 0.2);
}

/* --- the stream --------------------------------------------------------------------------------- */

/* The names of all events but notes, in turn. */
static struct str kinds_of(const struct stage *s, struct arena *perm)
{
    struct str     lines = { s->stream.data, s->stream.len }, line;
    struct textbuf b     = textbuf_new(perm);
    while (str_cut(&lines, '\n', &line)) {
        struct arena    here = s->memory[2];
        union event_any e;
        enum event_kind kind;
        CHECK_EQ(event_read(line, &here, &kind, &e, NULL), STATUS_OK);
        if (kind != EVENT_note) textbuf_fmt(&b, "%s ", event_name(kind));
    }
    return textbuf_str(&b);
}

TEST(what_happens_is_the_stream_of_a_run)
{
    struct stage s;
    stage_init(&s, perm, "cd $TOP/out; echo step 3 metric 0.5; echo state >state");
    s.config.stop.steps_max = 9;
    s.config.run            = STR("abcd");
    CHECK_EQ(play(&s), STATUS_OK);
    CHECK_STR(kinds_of(&s, perm), "open start step eval checkpoint done ");
    CHECK(has(&s.stream, "{\"event\":\"open\",\"run\":\"abcd\"}"));
    CHECK(has(&s.stream, "\"metric\":\"loss\""));
    CHECK(has(&s.stream, "\"run\":\"abcd\",\"from_step\":0,"));
    CHECK(has(&s.stream, "{\"event\":\"step\",\"step\":3,\"steps\":9,"));
    CHECK(has(&s.stream, "\"metrics\":{\"loss\":0.5}"));
    CHECK(has(&s.stream, "{\"event\":\"checkpoint\",\"what\":\"saved\",\"step\":3,"));
    s.stream.len = 0;
    s.config.run = STR(""); /* the checkpoint says it */
    CHECK_EQ(play(&s), STATUS_OK);
    CHECK(has(&s.stream, "\"run\":\"abcd\",\"from_step\":3,"));
}

/* Without it the ledger does not know what lies in the object store, and nobody pays for it. */
TEST(an_uploaded_checkpoint_is_an_event_after_it_was_saved)
{
    struct stage           s;
    struct os              os;
    struct fake_s3        *f  = fake_s3_new(perm, &os);
    struct upload_settings to = {
        .where = fake_s3_settings(), .keep = 2, .web = &f->web, .wait_s = NAN
    };
    stage_init(&s, perm, "cd $TOP/out; echo step 7; echo state >state");
    world.env   = os.env;
    s.config.to = &to;
    CHECK_EQ(play(&s), STATUS_OK);
    CHECK_STR(kinds_of(&s, perm), "open start step checkpoint checkpoint done ");
    CHECK(has(&s.stream, "\"what\":\"saved\",\"step\":7,"));
    CHECK(has(&s.stream, "\"what\":\"uploaded\",\"step\":7,"));
    struct str      lines = textbuf_str(&s.stream), line = STR("");
    union event_any e;
    enum event_kind kind;
    while (!strstr(str_z(perm, line), "uploaded\",")) CHECK(str_cut(&lines, '\n', &line));
    CHECK_EQ(event_read(line, perm, &kind, &e, NULL), STATUS_OK);
    CHECK_EQ(e.checkpoint.bytes, 6);
    CHECK(e.checkpoint.remote_puts > 0 && e.checkpoint.remote_gets > 0);
}
