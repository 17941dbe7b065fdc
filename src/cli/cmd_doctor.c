/* cmd_doctor.c - frugal doctor: what this machine can do, and what is missing. */
#include "base/digits.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/jobs.h"
#include "cli/progress.h"
#include "job/libraries.h"
#include "job/machine_here.h"
#include "train/train.h"
#include <math.h>

enum status command_doctor(struct cli *c, struct err *err);

enum { RESERVE_GIB = 64 }; /* address space only */

static void print_libraries(struct cli *c)
{
    say_heading(c->say, "Libraries");
    for (i64 i = 0; i < library_count; i++) {
        const struct library *l       = &libraries[i];
        struct arena          scratch = *c->perm;
        struct str            version = library_version(l, &scratch);
        if (version.len)
            say_result(c->say, "  %-9s found, %.*s, used for %s\n", l->name, STR_ARG(version),
                       l->use);
        else
            say_result(c->say, "  %-9s %s: %s; install %s%s\n", l->name,
                       l->soname ? "missing" : "not in this build", l->without, l->package,
                       l->soname ? "" : " and build again");
    }
}

static void print_gpu(struct cli *c, const struct machine_here *m)
{
    struct arena             scratch = *c->perm;
    const struct nvml_state *g       = &m->gpu_state;
    if (m->gpu.len) say_result(c->say, "  %-9s %.*s\n", "GPU", STR_ARG(m->gpu));
    else if (g->name.len)
        say_result(c->say, "  %-9s %.*s, not used: %.*s\n", "GPU", STR_ARG(g->name),
                   STR_ARG(m->gpu_missing));
    else say_result(c->say, "  %-9s none: %.*s\n", "GPU", STR_ARG(m->gpu_missing));
    if (!g->name.len) return;
    struct str left  = text_bytes(&scratch, g->memory_free_bytes),
               all   = text_bytes(&scratch, g->memory_bytes);
    struct textbuf b = textbuf_new(&scratch);
    textbuf_fmt(&b, "  %-9s %.*s of %.*s free", "", STR_ARG(left), STR_ARG(all));
    if (!isnan(g->power_w)) textbuf_fmt(&b, ", %.0f of %.0f W", g->power_w, g->power_limit_w);
    if (!isnan(g->clock_mhz)) textbuf_fmt(&b, ", %.0f of %.0f MHz", g->clock_mhz, g->clock_mhz_max);
    if (!isnan(g->celsius)) textbuf_fmt(&b, ", %.0f °C", g->celsius);
    textbuf_fmt(&b, ", driver %.*s", STR_ARG(m->gpu_driver));
    say_result(c->say, "%.*s\n", STR_ARG(textbuf_str(&b)));
}

static void print_machine(struct cli *c, const struct machine_here *m)
{
    struct arena scratch = *c->perm;
    say_heading(c->say, "Machine");
    say_result(c->say, "  %-9s %.*s\n", "CPU", STR_ARG(m->cpu));
    say_result(c->say, "  %-9s %lld usable of %lld\n", "cores", (long long)m->cores_usable,
               (long long)m->cores);
    say_result(c->say, "  %-9s %s%s%s\n", "vectors", m->vectors,
               m->vectors_limited ? ", of which FRUGAL_VECTORS allows " : "",
               m->vectors_limited ? m->vectors_used : "");
    say_result(c->say, "  %-9s %.*s, %.*s free\n", "memory",
               STR_ARG(text_bytes(&scratch, (f64)m->memory_bytes)),
               STR_ARG(text_bytes(&scratch, (f64)m->memory_free_bytes)));
    struct arena   line = arena_part(&scratch, 1 << 12);
    struct textbuf b    = textbuf_new(&line);
    for (i32 t = 0; t < DT_COUNT; t++) {
        struct str rate = text_si(&scratch, m->flops_s[t]), name = dtype_name((enum dtype)t);
        if (m->flops_s[t] > 0) textbuf_fmt(&b, "%.*s %.*sFLOP/s, ", STR_ARG(name), STR_ARG(rate));
    }
    textbuf_fmt(&b, "memory %.*s/s, as measured now",
                STR_ARG(text_bytes(&scratch, m->bandwidth_bytes_s)));
    say_labelled(c->say, "  speed", textbuf_str(&b));
    print_gpu(c, m);
}

static void gpu_json(struct textbuf *b, const struct machine_here *m)
{
    event_f64(b, "gpu_memory_bytes", m->gpu_state.memory_bytes);
    event_f64(b, "gpu_memory_free_bytes", m->gpu_state.memory_free_bytes);
    event_f64(b, "gpu_watts", m->gpu_state.power_w);
    event_f64(b, "gpu_watts_max", m->gpu_state.power_limit_w);
    event_f64(b, "gpu_mhz", m->gpu_state.clock_mhz);
    event_f64(b, "gpu_mhz_max", m->gpu_state.clock_mhz_max);
    event_f64(b, "gpu_celsius", m->gpu_state.celsius);
    event_str(b, "gpu_driver", m->gpu_driver);
}

static void print_json(struct cli *c, const struct machine_here *m)
{
    struct arena   parts = arena_part(c->perm, 1 << 16);
    struct textbuf b     = event_begin(c->perm, "doctor");
    event_str(&b, "version", STR(FRUGAL_VERSION));
    event_str(&b, "cpu", m->cpu);
    event_i64(&b, "cores_usable", m->cores_usable);
    event_i64(&b, "cores", m->cores);
    event_str(&b, "vectors", str_of(m->vectors));
    event_str(&b, "vectors_used", str_of(m->vectors_used));
    event_i64(&b, "memory_bytes", m->memory_bytes);
    event_i64(&b, "memory_free_bytes", m->memory_free_bytes);
    event_f64(&b, "bandwidth_bytes_s", m->bandwidth_bytes_s);
    textbuf_fmt(&b, ",\"flops_s\":{");
    for (i32 t = 0, shown = 0; t < DT_COUNT; t++) {
        if (m->flops_s[t] > 0)
            textbuf_fmt(&b, "%s\"%.*s\":%.0f", shown++ ? "," : "",
                        STR_ARG(dtype_name((enum dtype)t)), m->flops_s[t]);
    }
    textbuf_fmt(&b, "},\"gpus\":[");
    if (m->gpu.len) json_add_string(&b, m->gpu);
    textbuf_fmt(&b, "]");
    if (m->gpu_state.name.len) gpu_json(&b, m);
    textbuf_fmt(&b, ",\"libraries\":{");
    for (i64 i = 0; i < library_count; i++) {
        struct str version = library_version(&libraries[i], &parts);
        textbuf_fmt(&b, "%s\"%s\":", i ? "," : "", libraries[i].name);
        if (version.len) json_add_string(&b, version);
        else textbuf_fmt(&b, "null");
    }
    textbuf_fmt(&b, "}");
    event_end(&b, c->say);
}

static void print_run(struct cli *c, struct str file, const struct train_checked *t)
{
    struct arena scratch = *c->perm;
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "run");
        event_str(&b, "file", file);
        event_i64(&b, "arena_bytes", t->arena_bytes);
        event_i64(&b, "batch", t->batch);
        event_i64(&b, "accumulate", t->accumulate);
        event_str(&b, "batch_reason", t->batch_reason);
        event_f64(&b, "load_s", t->load_s);
        event_f64(&b, "compute_s", t->compute_s);
        event_i64(&b, "findings", t->finding_count);
        event_end(&b, c->say);
        return;
    }
    say_heading(c->say, "Run");
    say_result(c->say, "  %.*s: settings, data and model are valid; training takes %.*s\n",
               STR_ARG(file), STR_ARG(text_bytes(&scratch, (f64)t->arena_bytes)));
    if (t->batch_reason.len)
        say_result(c->say, "  batch %lld: %.*s\n", (long long)t->batch, STR_ARG(t->batch_reason));
    if (!isnan(t->load_s))
        say_result(c->say, "  a batch takes %s ms to load and %s ms to compute, as measured now\n",
                   DIGITS(1e3 * t->load_s), DIGITS(1e3 * t->compute_s));
}

/* Reads the run file, opens its data, builds and compiles its model, and looks for mistakes. */
static enum status check_run(struct cli *c, struct err *err)
{
    struct config       *config;
    struct train_checked t;
    struct arena         run = arena_open((i64)RESERVE_GIB << 30);
    enum status          st  = config_of_request(c->request, c->os, c->perm, &config, err);
    if (!st && !run.begin)
        st = err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    if (!st) st = train_check(c->os, &config->settings, &run, &t, err);
    if (!st) print_run(c, config->file, &t);
    for (i64 i = 0; !st && i < t.finding_count; i++) say_finding(c->say, &t.findings[i], *c->perm);
    if (!st && t.finding_count)
        st = err_set(err, STATUS_NO, "%.*s: %lld likely mistake%s; train.allow=%s silences it",
                     STR_ARG(config->file), (long long)t.finding_count,
                     t.finding_count > 1 ? "s" : "", lint_rules[t.findings[0].rule].name);
    if (run.begin) arena_close(&run);
    return st;
}

enum status command_doctor(struct cli *c, struct err *err)
{
    struct machine_here m = machine_look(c->os, c->perm);
    if (c->say->json) {
        print_json(c, &m);
    } else {
        print_machine(c, &m);
        print_libraries(c);
    }
    return c->request->argument_count ? check_run(c, err) : STATUS_OK;
}
