/* test_profile.c - a small run profiled: parts sum to the wall clock of the profiled steps, events lie inside
 * one another, memory is the union of what lives, the trace is JSON and of bounded size. */
#include "base/json.h"
#include "base/os.h"
#include "harness.h"
#include "run/chrome.h"
#include "run/memory_use.h"
#include "support/sim_os.h"
#include "support/small_run.h"
#include "train/train.h"
#include <stdatomic.h>
#include <unistd.h>

static const char *const network = "- conv: {filters: 8, activation: relu}\n"
                                   "- batchnorm\n"
                                   "- maxpool: 2\n"
                                   "- flatten\n"
                                   "- dense: 4\n";

static const char *temp_folder(struct arena *perm)
{
    char *path = NEW(perm, char, 64);
    snprintf(path, 64, "/tmp/frugal-test-XXXXXX");
    CHECK(mkdtemp(path));
    return path;
}

struct seen {
    struct arena *perm;
    i64           told, steps;
    struct str    trace; /* to write; empty: none */
    bool          gpu;   /* it is said to be of one */
    i64           peak;  /* of a step's memory */
    void (*look)(struct seen *, const struct event_profile *);
};

static void on_profile(void *context, const struct event_profile *e)
{
    struct seen *s = context;
    s->told++;
    s->steps = profile_steps(e->profile);
    if (s->look) s->look(s, e);
}

static struct train_result run(struct seen *seen, struct profile_config c, i64 accumulate,
                               bool only)
{
    const char         *folder = temp_folder(seen->perm);
    struct settings     s      = small_run(seen->perm, folder, network);
    struct subscriber   l      = { .context = seen, .on_profile = on_profile };
    struct train_result r;
    struct err          err = { 0 };
    s.profile               = c;
    s.profile_only          = only;
    s.train.micro_batch     = s.train.batch;
    s.train.batch *= accumulate;
    enum status st = train_run(os_real(), &s, &(struct train_with){ .to = &l }, &r, &err);
    unlink(s.data.path.data);
    unlink(s.data.labels.data);
    rmdir(folder);
    CHECK_EQ(st, STATUS_OK);
    return r;
}

/* What lies in steps: their wall clock, once by the parts, once by the steps' events, once by tiling. */
static void look_at_time(struct seen *seen, const struct event_profile *e)
{
    struct step_split sum   = profile_split(e->profile);
    i64               steps = 0, instrs = 0, wall = 0, in_parts = 0, in_instrs = 0, at = -1;
    (void)seen;
    for (i64 i = 0; i < profile_span_count(e->profile); i++) {
        struct profile_span s = profile_span(e->profile, i);
        i64                 d = s.end_ns - s.begin_ns;
        CHECK(d >= 0);
        if (s.kind == PROFILE_STEP) steps++, wall += d;
        if (s.kind == PROFILE_INSTR) instrs++, in_instrs += d;
        if (s.kind != PROFILE_PART) continue;
        CHECK(at < 0 || s.begin_ns == at); /* each begins where the last has ended */
        at = s.end_ns;
        in_parts += d;
    }
    CHECK_EQ(profile_spans_dropped(e->profile), 0);
    CHECK_EQ(steps, profile_steps(e->profile));
    CHECK(instrs > 0);
    CHECK_EQ(split_sum(&sum), wall);
    CHECK_EQ(in_parts, wall);
    CHECK_EQ(sum.ns[PART_forward] + sum.ns[PART_backward] + sum.ns[PART_update], in_instrs);
    CHECK(sum.ns[PART_forward] > 0);
    CHECK(sum.ns[PART_backward] > 0);
    CHECK(sum.ns[PART_update] > 0);
}

TEST(the_parts_of_profiled_steps_sum_to_their_wall_clock)
{
    struct seen seen = { .perm = perm, .look = look_at_time };
    run(&seen, (struct profile_config){ .wait = 2, .active = 3 }, 1, false);
    CHECK_EQ(seen.told, 1);
    CHECK_EQ(seen.steps, 3);
    run(&seen, (struct profile_config){ .active = 2 }, 3, false);
    CHECK_EQ(seen.steps, 2);
}

TEST(a_profile_alone_ends_with_its_last_step)
{
    struct seen         seen = { .perm = perm };
    struct train_result r = run(&seen, (struct profile_config){ .wait = 3, .active = 4 }, 1, true);
    CHECK_EQ(r.steps, 7);
    CHECK_EQ(seen.steps, 4);
}

TEST(a_run_that_ends_early_tells_what_it_has)
{
    struct seen         seen = { .perm = perm };
    struct train_result r =
        run(&seen, (struct profile_config){ .wait = 2, .active = 1000 }, 1, false);
    CHECK_EQ(seen.told, 1);
    CHECK_EQ(seen.steps, r.steps - 2);
    run(&seen, (struct profile_config){ .wait = 1000, .active = 1 }, 1, false);
    CHECK_EQ(seen.told, 2);
    CHECK_EQ(seen.steps, 0);
}

static void look_at_ops(struct seen *seen, const struct event_profile *e)
{
    struct op_table           t      = profile_table(e->profile, e->target, seen->perm);
    const struct program_set *set    = profile_set(e->profile);
    struct cost               train  = program_cost(set->programs[PROGRAM_TRAIN], *seen->perm);
    struct cost               update = program_cost(set->programs[PROGRAM_UPDATE], *seen->perm);
    f64                       flops = 0, steps = (f64)profile_steps(e->profile);
    i64                       calls = 0;
    for (i64 i = 0; i < t.count; i++) {
        flops += t.rows[i].cost.flops;
        calls += t.rows[i].calls;
        CHECK(t.rows[i].what.len > 0);
        CHECK(!i || t.rows[i].seconds <= t.rows[i - 1].seconds);
        for (i64 k = 0; k < i; k++)
            CHECK(!str_eq(t.rows[i].op, t.rows[k].op) || !str_eq(t.rows[i].what, t.rows[k].what));
    }
    CHECK_EQ(calls, profile_steps(e->profile) * (set->programs[PROGRAM_TRAIN]->instr_count +
                                                 set->programs[PROGRAM_UPDATE]->instr_count));
    CHECK_NEAR(flops, steps * (train.flops + update.flops),
               1e-9 * flops); /* sums in another order */
    op_table_sort(&t, op_sort_of(STR("memory")));
    for (i64 i = 1; i < t.count; i++) CHECK(t.rows[i].memory_bytes <= t.rows[i - 1].memory_bytes);
    op_table_sort(&t, op_sort_of(STR("roof")));
    for (i64 i = 1; i < t.count; i++)
        CHECK(!(op_roof_share(&t.rows[i]) < op_roof_share(&t.rows[i - 1])));
}

TEST(ops_are_grouped_and_counted)
{
    struct seen seen = { .perm = perm, .look = look_at_ops };
    run(&seen, (struct profile_config){ .active = 3, .sort = STR("time") }, 1, false);
}

/* Byte by byte, as slowly as it can be done. */
static i64 bytes_marked(const struct program *p, i64 from, const struct claim *claims, i64 count,
                        i32 node, struct arena scratch)
{
    u8 *mark = NEW(&scratch, u8, p->bytes + 1);
    i64 sum  = 0;
    for (i64 i = 0; i < count; i++)
        if (claims[i].first <= node && node <= claims[i].last)
            memset(mark + claims[i].begin, 1, (size_t)(claims[i].end - claims[i].begin));
    for (i64 i = from; i < p->bytes; i++) sum += mark[i];
    return sum;
}

static void look_at_memory(struct seen *seen, const struct event_profile *e)
{
    const struct program_set *set     = profile_set(e->profile);
    const struct program     *p       = set->programs[PROGRAM_TRAIN];
    struct arena              scratch = arena_part(seen->perm, 16 << 20);
    struct memory_use         m       = memory_use_of(set, p, seen->perm, scratch);
    struct claim *claims = NEW(seen->perm, struct claim, p->graph->value_count + p->instr_count);
    i64           count = program_claims(p, claims, scratch), most = 0, held = 0;
    for (i32 i = 0; i < p->instr_count; i++) {
        i64 truth =
            bytes_marked(p, set->persistent_bytes, claims, count, p->instrs[i].node, scratch);
        CHECK_EQ(m.bytes[i], set->persistent_bytes + truth);
        most = MAX(most, m.bytes[i]);
    }
    CHECK_EQ(m.peak_bytes, most);
    CHECK_EQ(m.bytes[m.peak], most);
    CHECK(most <= set->arena_bytes);
    for (i64 i = 0; i < m.holder_count; i++) {
        CHECK(m.holders[i].name.len > 0);
        held += m.holders[i].bytes;
    }
    CHECK_EQ(held,
             most - set->persistent_bytes); /* whose bytes are taken over is not named twice */
}

TEST(memory_over_a_step_is_the_union_of_what_lives)
{
    struct seen seen = { .perm = perm, .look = look_at_memory };
    run(&seen, (struct profile_config){ .active = 1 }, 1, false);
    CHECK_EQ(seen.told, 1);
}

static void look_at_trace(struct seen *seen, const struct event_profile *e)
{
    struct err    err  = { 0 };
    struct target gpu  = *e->target;
    struct arena  lent = arena_part(seen->perm, 1 << 24);
    gpu.gpus           = seen->gpu;
    seen->peak         = memory_use_of(profile_set(e->profile),
                                       profile_set(e->profile)->programs[PROGRAM_TRAIN], seen->perm, lent)
                     .peak_bytes;
    CHECK_EQ(chrome_write(os_real(), seen->trace, e->profile, &gpu, 77, *seen->perm, &err),
             STATUS_OK);
}

struct counts {
    i64 steps, ops, launches, kernels;
};

static struct counts count_events(struct arena *perm, bool gpu)
{
    const char   *folder = temp_folder(perm);
    struct str    path   = str_fmt(perm, "%s/trace.json", folder), text;
    struct seen   seen   = { .perm = perm, .trace = path, .gpu = gpu, .look = look_at_trace };
    struct counts c      = { 0 };
    struct json  *root;
    struct err    err = { 0 };
    i64           version, most = 0;
    run(&seen, (struct profile_config){ .active = 2 }, 1, false);
    CHECK_EQ(os_read_all(os_real(), path, perm, &text, &err), STATUS_OK);
    CHECK_EQ(json_parse(perm, text, &root, &err), STATUS_OK);
    CHECK(json_i64(json_get(root, STR("schemaVersion")), &version));
    CHECK(json_get(root, STR("deviceProperties")));
    CHECK(json_get(json_get(root, STR("distributedInfo")), STR("rank")));
    for (struct json *j = json_get(root, STR("traceEvents"))->first; j; j = j->next) {
        struct json *category = json_get(j, STR("cat")), *args = json_get(j, STR("args"));
        i64          bytes;
        if (json_get(args, STR("bytes")) && json_i64(json_get(args, STR("bytes")), &bytes))
            most = MAX(most, bytes);
        c.steps += str_starts(json_get(j, STR("name"))->text, STR("ProfilerStep#"));
        if (!category) continue;
        c.ops += str_eq(category->text, STR("cpu_op"));
        c.launches += str_eq(category->text, STR("cuda_runtime"));
        c.kernels += str_eq(category->text, STR("kernel"));
    }
    CHECK_EQ(most, seen.peak); /* the counter's */
    unlink(path.data);
    rmdir(folder);
    return c;
}

TEST(the_trace_is_json_with_steps_ops_and_kernels)
{
    struct counts cpu = count_events(perm, false), gpu = count_events(perm, true);
    CHECK_EQ(cpu.steps, 2);
    CHECK(cpu.ops > 0);
    CHECK_EQ(cpu.ops, cpu.kernels);
    CHECK_EQ(cpu.launches, 0);
    CHECK_EQ(gpu.launches, gpu.kernels);
}

TEST(a_trace_that_cannot_be_written_leaves_nothing)
{
    struct program        p   = { .graph = graph_new(perm, STR("none")) };
    struct program_set    set = { .programs = { [PROGRAM_UPDATE] = &p } };
    struct profile_config c   = { .active = 1 };
    struct profile       *f   = profile_new(perm, &c, &set, 0, 1);
    struct target         t   = { .name = STR("none") };
    struct str            to  = STR("/trace.json");
    for (i64 call = 1;; call++) {
        struct sim_os *sim = sim_os_new(perm);
        struct err     err = { 0 };
        sim->full_at       = call;
        if (!chrome_write(&sim->os, to, f, &t, 1, scratch, &err)) break;
        CHECK_EQ(err.status, STATUS_WORLD);
        CHECK(!sim_os_look(sim, to).data);
        CHECK(call < 20);
    }
}

static i64 ticking_now(struct os *os)
{
    static i64 now;
    (void)os;
    return now += 10;
}

/* More than there is room for: the newest stay, and the file has its bound. */
TEST(a_long_profile_drops_its_oldest_events)
{
    enum { STEPS = 60000 };
    struct program        p   = { .graph = graph_new(perm, STR("none")) };
    struct program_set    set = { .programs = { [PROGRAM_UPDATE] = &p } };
    struct profile_config c   = { .active = STEPS };
    struct profile       *f   = profile_new(perm, &c, &set, 0, 1);
    struct os             os  = *os_real();
    os.now_ns                 = ticking_now;
    struct clock *clock       = clock_new(perm, &os);
    profile_watch(f, clock);
    for (i64 i = 0; i <= STEPS; i++) {
        profile_step(f, i, clock_step_begin(clock, i));
    }
    CHECK_EQ(profile_steps(f), STEPS);
    CHECK_EQ(profile_span_count(f), 100000);
    CHECK_EQ(profile_spans_dropped(f), 2 * STEPS - 100000);
    struct profile_span last = profile_span(f, 99999);
    CHECK_EQ(last.kind, PROFILE_STEP);
    CHECK_EQ(last.step, STEPS);
}
