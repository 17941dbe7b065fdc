/* Twelve problems, each seeded into a run on a made-up machine: by delays at the seam, by what /proc says
 * or by what the GPU's driver says. Each must be named, alone and with its fix; its near miss must not be;
 * and a healthy run is left in peace. The run is a loop of our own on a clock of our own: no thread, no
 * real time. The same in the program itself is tests/oracle/test_problems.py. */
#include "fake/nvml.h"
#include "harness.h"
#include "run/lookout.h"
#include "run/verdict.h"
#include "support/folder.h"
#include "support/machine_os.h"
#include "train/options.h"
#include <dlfcn.h>

enum { STEPS = 3000 }; /* a minute of healthy ones */

static const i64 ms = 1000000, look_ns = 200000000;

struct scene {
    f64                read_ms, decode_ms, augment_ms; /* of a batch */
    f64                compute_ms, update_ms, launch_ms, log_ms, save_ms, eval_ms;
    i64                save_every, eval_every;
    f64                swap_pages; /* a step */
    f64                stalled_ms; /* of a step, by the kernel's count: waiting for memory */
    f64                wave_s;     /* the GPU's activity: high for half of it, low for the other */
    f64                wave_low;
    struct machine_os *machine;
    struct evidence    e;
};

static struct scene healthy(struct arena *perm)
{
    struct scene s = { .read_ms    = 0.1,
                       .decode_ms  = 0.05,
                       .augment_ms = 0.05,
                       .compute_ms = 18,
                       .update_ms  = 1.2,
                       .launch_ms  = 0.4,
                       .save_ms    = 50,
                       .eval_ms    = 200,
                       .save_every = 1000,
                       .eval_every = 1000,
                       .machine    = machine_os_new(perm) };
    s.e            = (struct evidence){ .flops_part     = 0.7,
                                        .bandwidth_part = 0.4,
                                        .workers        = 1,
                                        .workers_fixed  = true,
                                        .worker_bytes   = 64 << 20,
                                        .prefetch       = 4,
                                        .batch          = 32,
                                        .accumulate     = 1,
                                        .batch_fits     = 256,
                                        .low_speedup    = NAN,
                                        .low            = STR("bf16"),
                                        .hazard         = hazard_prior,
                                        .threads        = MACHINE_CORES };
    return s;
}

/* --- the run ------------------------------------------------------------------------------------ */

struct running {
    struct scene   *s;
    struct lookout *lookout;
    struct clock   *clock;
    struct file     file; /* read and written through the seam */
    i64             looked_ns;
};

static i64 clock_ns(struct running *r) { return clock_now(r->clock); }

static void enter(struct running *r, enum part p) { clock_enter(r->clock, p); }

/* The cores work so long; the lookout looks when it is time. */
static void work(struct running *r, f64 for_ms, f64 busy)
{
    struct machine_os *m = r->s->machine;
    machine_os_run(m, (i64)(for_ms * (f64)ms), busy);
    if (m->now_ns - r->looked_ns < look_ns) return;
    r->looked_ns = m->now_ns;
    lookout_look(r->lookout);
}

/* One call of the seam that takes so long. */
static i64 call_ns(struct running *r, f64 for_ms, bool writes)
{
    struct machine_os *m     = r->s->machine;
    i64                begin = clock_ns(r), got;
    char               byte;
    m->read_ns = m->write_ns = (i64)(for_ms * (f64)ms);
    if (writes) CHECK_EQ(m->os.write(&m->os, r->file, STR("."), NULL), STATUS_OK);
    else CHECK_EQ(m->os.read(&m->os, r->file, &byte, 1, 0, &got, NULL), STATUS_OK);
    return clock_ns(r) - begin;
}

static void load(struct running *r)
{
    struct scene *s = r->s;
    enter(r, PART_input);
    s->e.read_s += (f64)call_ns(r, s->read_ms, false) * 1e-9;
    i64 begin = clock_ns(r);
    work(r, s->decode_ms, 0.2);
    s->e.decode_s += (f64)(clock_ns(r) - begin) * 1e-9;
    begin = clock_ns(r);
    work(r, s->augment_ms, 0.2);
    s->e.augment_s += (f64)(clock_ns(r) - begin) * 1e-9;
}

static void step(struct running *r, i64 index, struct fake_nvml *gpu)
{
    struct scene *s = r->s;
    if (gpu) {
        f64 place     = fmod((f64)clock_ns(r) * 1e-9, s->wave_s) / s->wave_s;
        gpu->activity = place < 0.5 ? 95 : 100 * s->wave_low;
    }
    lookout_mark(r->lookout, RHYTHM_STEP);
    load(r);
    enter(r, PART_launch);
    work(r, s->launch_ms, 0.25);
    enter(r, PART_compute);
    work(r, s->compute_ms, 0.95);
    enter(r, PART_update);
    work(r, s->update_ms, 0.9);
    s->machine->swap_pages = (i64)(s->swap_pages * (f64)index);
    s->machine->stalled_us += (i64)(1e3 * s->stalled_ms);
    enter(r, PART_logging);
    if (s->e.log_every && index % s->e.log_every == 0) call_ns(r, s->log_ms, true);
    enter(r, PART_checkpoint);
    if (index % s->save_every == 0) {
        lookout_mark(r->lookout, RHYTHM_CHECKPOINT);
        call_ns(r, s->save_ms, true);
        s->e.saves++;
    }
    enter(r, PART_evaluation);
    if (index % s->eval_every == 0) {
        lookout_mark(r->lookout, RHYTHM_EVALUATION);
        work(r, s->eval_ms, 0.95);
        s->e.eval_count++;
    }
    enter(r, PART_other);
}

static struct verdict run_scene(struct scene *s, struct arena *perm)
{
    struct fake_nvml     *gpu  = NULL;
    struct machine_os    *m    = s->machine;
    struct running        r    = { .s = s };
    struct lookout_config c    = { .os = &m->os, .cores = MACHINE_CORES };
    struct str            path = folder_put(perm, folder_new(perm), "seen", STR("x"));
    setenv("FRUGAL_NVML", s->wave_s > 0 ? FAKE_NVML : "/nowhere", 1);
    if (s->wave_s > 0) {
        gpu          = dlsym(dlopen(FAKE_NVML, RTLD_NOW), "fake_nvml");
        c.bus_id     = str_of(gpu->bus_id);
        s->e.threads = 0;
    }
    r.file.fd = fileno(fopen(path.data, "r+"));
    r.lookout = lookout_new(perm, &c);
    r.clock   = clock_new(perm, &m->os);
    clock_enter(r.clock, PART_other);
    for (i64 i = 1; i <= STEPS; i++) step(&r, i, gpu);
    struct lookout_seen seen = lookout_end(r.lookout);
    CHECK_EQ(seen.gpu, gpu != NULL);
    s->e.split      = clock_split(r.clock);
    s->e.steps      = STEPS;
    s->e.eval_every = s->eval_every;
    s->e.load       = seen.load;
    s->e.usage      = seen.usage;
    return verdict_of(&s->e, perm);
}

/* --- what is seeded ----------------------------------------------------------------------------- */

static void slow_disk(struct scene *s) { s->read_ms = 10; }
static void slow_disk_near(struct scene *s) { s->read_ms = 0.9; } /* 4.9 % of a step */

static void slow_network(struct scene *s)
{
    s->read_ms  = 30;
    s->e.remote = true;
}
static void slow_network_near(struct scene *s)
{
    s->read_ms  = 0.9;
    s->e.remote = true;
}

static void slow_augmentation(struct scene *s) { s->augment_ms = 10; }
static void slow_augmentation_near(struct scene *s) { s->augment_ms = 0.8; }

static void tiny_batch(struct scene *s)
{
    s->compute_ms = 3.5; /* and 1.6 ms of launches and optimiser, as before */
    s->read_ms = s->decode_ms = s->augment_ms = 0.02;
}
static void tiny_batch_near(struct scene *s)
{
    tiny_batch(s);
    s->e.batch_fits = 63;
}

static void fp32_where_bf16(struct scene *s) { s->e.low_speedup = 1.8; }
static void fp32_where_bf16_near(struct scene *s) { s->e.low_speedup = 1.2; }

static void checkpoint_too_often(struct scene *s) { s->save_every = 20; }
static void checkpoint_too_often_near(struct scene *s) /* machines that last some seconds */
{
    s->save_every = 20;
    s->e.hazard   = hazard_of_mean(3, 1);
}

static void evaluation_too_often(struct scene *s) { s->eval_every = 10; }
static void evaluation_too_often_near(struct scene *s) /* as much, once, at the end */
{
    s->eval_every = STEPS;
    s->eval_ms    = 60000;
}

static void logging_every_step(struct scene *s)
{
    s->e.log_every = 1;
    s->log_ms      = 2;
}
static void logging_every_step_near(struct scene *s)
{
    s->e.log_every = 1;
    s->log_ms      = 0.5;
}

static void one_slow_core(struct scene *s) { s->machine->cores[2].mhz = 1500; }
static void one_slow_core_near(struct scene *s)
{
    s->machine->cores[2].mhz = 2370;
} /* worth its seat */

static void swapping(struct scene *s)
{
    s->swap_pages = 100;
    s->stalled_ms = 5;
}
static void swapping_near(struct scene *s)
{
    s->swap_pages = 4; /* 0.8 MiB/s */
    s->stalled_ms = 5;
}

static void too_many_workers(struct scene *s)
{
    s->e.workers         = 16;
    s->e.worker_bytes    = 600 << 20;
    s->machine->free_kib = 1 << 20;
    s->stalled_ms        = 2;
}
static void too_many_workers_near(struct scene *s)
{
    too_many_workers(s);
    s->machine->free_kib = 2 << 20; /* an eighth */
}

static void oscillation(struct scene *s)
{
    s->wave_s   = 2;
    s->wave_low = 0.05;
}
static void oscillation_near(struct scene *s)
{
    s->wave_s   = 2;
    s->wave_low = 0.25;
}

static const struct {
    enum problem_kind kind;
    void (*seed)(struct scene *), (*near)(struct scene *);
    const char *fix;
} seeded[] = {
    { PROBLEM_slow_disk, slow_disk, slow_disk_near, "loader.workers=auto" },
    { PROBLEM_slow_network, slow_network, slow_network_near, "loader.workers=auto" },
    { PROBLEM_slow_augmentation, slow_augmentation, slow_augmentation_near, "loader.workers=auto" },
    { PROBLEM_tiny_batch, tiny_batch, tiny_batch_near, "train.batch=64 train.lr_batch=32" },
    { PROBLEM_fp32_where_bf16, fp32_where_bf16, fp32_where_bf16_near, "train.precision=bf16" },
    { PROBLEM_checkpoint_too_often, checkpoint_too_often, checkpoint_too_often_near,
      "checkpoint.every=auto" },
    { PROBLEM_evaluation_too_often, evaluation_too_often, evaluation_too_often_near,
      "train.eval_every=192" },
    { PROBLEM_logging_every_step, logging_every_step, logging_every_step_near,
      "train.log_every=0" },
    { PROBLEM_one_slow_core, one_slow_core, one_slow_core_near, "train.threads=3" },
    { PROBLEM_swapping, swapping, swapping_near, "train.micro_batch=16" },
    { PROBLEM_too_many_workers, too_many_workers, too_many_workers_near, "loader.workers=9" },
    { PROBLEM_oscillation, oscillation, oscillation_near, "loader.prefetch=8" },
};

_Static_assert(sizeof seeded / sizeof *seeded == PROBLEMS, "each problem is seeded");

/* As a user would type it. */
static void check_settings(struct str words, struct arena *perm)
{
    struct settings *s = NEW(perm, struct settings, 1);
    struct str       word, key;
    while (str_cut(&words, ' ', &word)) {
        struct err err = { 0 };
        CHECK(str_cut(&word, '=', &key));
        const struct option *o = option_find(key);
        if (!o || option_set_text(o, s, word, perm, &err))
            harness_fail(__FILE__, __LINE__, "%.*s=%.*s: %s", STR_ARG(key), STR_ARG(word),
                         o ? err.text : "no such setting");
    }
}

TEST(a_healthy_run_is_left_in_peace)
{
    struct scene   s = healthy(perm);
    struct verdict v = run_scene(&s, perm);
    CHECK_EQ(v.count, 0);
    CHECK_EQ(v.bound, BOUND_compute);
    CHECK_EQ(s.e.usage.shape, USAGE_STEADY_HIGH);
    CHECK_STR(verdict_text(&v, perm), "compute bound, at 70 % of what this machine can do");
}

TEST(each_problem_is_named_alone_with_its_fix)
{
    for (i64 i = 0; i < COUNT_OF(seeded); i++) {
        struct scene s = healthy(perm);
        seeded[i].seed(&s);
        struct verdict v = run_scene(&s, perm);
        if (v.count != 1) printf("%s: ", problems[seeded[i].kind].name);
        CHECK_EQ(v.count, 1);
        CHECK_STR(problems[v.problem[0].kind].name, problems[seeded[i].kind].name);
        CHECK_STR(v.problem[0].fix, seeded[i].fix);
        CHECK(v.problem[0].text.len > 0);
        check_settings(v.problem[0].fix, perm);
        check_settings(v.problem[0].tried, perm);
    }
}

/* Where the loader has found its workers itself, more of them is no advice. */
TEST(a_loader_that_finds_its_workers_gets_another_fix)
{
    struct scene s    = healthy(perm);
    s.e.workers_fixed = false;
    slow_disk(&s);
    CHECK_STR(run_scene(&s, perm).problem[0].fix, "loader.keep=on");
    s                 = healthy(perm);
    s.e.workers_fixed = false;
    too_many_workers(&s);
    CHECK_STR(run_scene(&s, perm).problem[0].fix, "loader.memory_gib=5.6");
    check_settings(STR("loader.keep=on loader.memory_gib=5.6"), perm);
}

TEST(its_near_miss_is_not)
{
    for (i64 i = 0; i < COUNT_OF(seeded); i++) {
        struct scene s = healthy(perm);
        seeded[i].near(&s);
        struct verdict v = run_scene(&s, perm);
        if (v.count) printf("%s: ", problems[seeded[i].kind].name);
        CHECK_EQ(v.count, 0);
    }
}
