/* chrome.c - three rows of a picture: steps, parts and ops on the host's thread, kernels on the device's
 * stream, memory as a counter. An op and its kernel share a correlation; on a GPU the launch lies between
 * them. Microseconds with three digits: nanoseconds, exact. */
#include "run/chrome.h"
#include "base/json.h"
#include "run/clock.h"
#include "run/memory_use.h"

enum { HOST_THREAD = 1, DEVICE = 0, STREAM = 7, FLUSH_BYTES = 1 << 16, EVENT_BYTES_MAX = 1 << 15 };

struct writer {
    struct os            *os;
    struct file           file;
    struct textbuf        b;
    enum status           st; /* sticky */
    struct err           *err;
    const struct profile *p;
    bool                  gpu;
    i64                   pid, base_ns, events;
    i64                  *memory[PROGRAM_COUNT]; /* by instruction */
    const char           *separator;
};

static void flush(struct writer *w)
{
    if (!w->st) w->st = w->os->write(w->os, w->file, textbuf_str(&w->b), w->err);
    w->b.len = 0;
}

/* {"ph":"X","cat":…,"name":…,"pid":…,"tid":…,"ts":…,"dur":…,"args":{ */
static void begin_event(struct writer *w, const char *category, struct str name, bool device,
                        const struct profile_span *s)
{
    i64 at = s->begin_ns - w->base_ns, dur = s->end_ns - s->begin_ns;
    if (w->b.len > FLUSH_BYTES) flush(w);
    textbuf_fmt(&w->b, "%s\n{\"ph\":\"X\",\"cat\":\"%s\",\"name\":", w->separator, category);
    json_add_string(&w->b, name);
    textbuf_fmt(&w->b, ",\"pid\":%lld,\"tid\":%d,\"ts\":%lld.%03lld,\"dur\":%lld.%03lld,\"args\":{",
                (long long)(device ? DEVICE : w->pid), device ? STREAM : HOST_THREAD,
                (long long)(at / 1000), (long long)(at % 1000), (long long)(dur / 1000),
                (long long)(dur % 1000));
    w->separator = ",";
}

static void end_event(struct writer *w) { textbuf_fmt(&w->b, "}}"); }

/* "Input Dims":[[32,784],[128,784]],"Input type":["f32","f32"] */
static void add_operands(struct writer *w, const struct graph *g, const struct node *n)
{
    textbuf_fmt(&w->b, ",\"Input Dims\":[");
    for (i32 i = 0; i < n->in_count; i++) {
        struct shape s = graph_type(g, n->in[i]).shape;
        textbuf_fmt(&w->b, "%s[", i ? "," : "");
        for (i32 k = 0; k < s.rank; k++)
            textbuf_fmt(&w->b, "%s%lld", k ? "," : "", (long long)s.dim[k]);
        textbuf_fmt(&w->b, "]");
    }
    textbuf_fmt(&w->b, "],\"Input type\":[");
    for (i32 i = 0; i < n->in_count; i++)
        textbuf_fmt(&w->b, "%s\"%.*s\"", i ? "," : "",
                    STR_ARG(dtype_name(graph_type(g, n->in[i]).dtype)));
    textbuf_fmt(&w->b, "]");
}

static void add_instr(struct writer *w, const struct profile_span *s, struct arena scratch)
{
    const struct program *p    = profile_set(w->p)->programs[s->program];
    const struct instr   *ins  = &p->instrs[s->instr];
    const struct node    *n    = &p->graph->nodes[ins->node];
    struct str            name = op_text(&scratch, n->op, &n->at);
    long long             id   = ++w->events; /* correlation 0 means none */
    begin_event(w, "cpu_op", name, false, s);
    textbuf_fmt(&w->b, "\"External id\":%lld,\"node\":", id);
    json_add_string(&w->b, n->name);
    if (!w->gpu) textbuf_fmt(&w->b, ",\"correlation\":%lld", id);
    add_operands(w, p->graph, n);
    end_event(w);
    if (w->gpu) {
        begin_event(w, "cuda_runtime", STR("cudaLaunchKernel"), false, s);
        textbuf_fmt(&w->b, "\"External id\":%lld,\"correlation\":%lld", id, id);
        end_event(w);
    }
    begin_event(w, "kernel", ins->kernel.len ? ins->kernel : name, true, s);
    textbuf_fmt(&w->b, "\"External id\":%lld,\"correlation\":%lld,\"device\":%d,\"stream\":%d", id,
                id, DEVICE, STREAM);
    end_event(w);
    textbuf_fmt(&w->b,
                ",\n{\"ph\":\"C\",\"name\":\"memory\",\"pid\":%d,\"ts\":%lld.%03lld,\"args\":{"
                "\"bytes\":%lld}}",
                DEVICE, (long long)((s->begin_ns - w->base_ns) / 1000),
                (long long)((s->begin_ns - w->base_ns) % 1000),
                (long long)w->memory[s->program][s->instr]);
}

static void add_span(struct writer *w, const struct profile_span *s, struct arena scratch)
{
    if (s->kind == PROFILE_INSTR) {
        add_instr(w, s, scratch);
        return;
    }
    struct str name = str_of(clock_part_name(s->part));
    if (s->kind == PROFILE_STEP) name = str_fmt(&scratch, "ProfilerStep#%lld", (long long)s->step);
    begin_event(w, "user_annotation", name, false, s);
    end_event(w);
}

static void name_thread(struct writer *w, i64 pid, i32 tid, const char *process, const char *thread)
{
    textbuf_fmt(
        &w->b,
        "%s\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%lld,\"tid\":0,\"ts\":0,\"args\":"
        "{\"name\":\"%s\"}},\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%lld,\"tid\":%d,"
        "\"ts\":0,"
        "\"args\":{\"name\":\"%s\"}}",
        w->separator, (long long)pid, process, (long long)pid, tid, thread);
    w->separator = ",";
}

static void add_head(struct writer *w, const struct target *t)
{
    textbuf_fmt(&w->b, "{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":%d,\"name\":", DEVICE);
    json_add_string(&w->b, t->name);
    textbuf_fmt(&w->b,
                ",\"totalGlobalMem\":%lld}],\"distributedInfo\":{\"backend\":\"none\",\"rank\":0,"
                "\"world_size\":1},\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":%lld,"
                "\"frugal\":{\"version\":\"" FRUGAL_VERSION
                "\",\"events_dropped\":%lld},\"traceEvents\":[",
                (long long)t->memory_bytes,
                (long long)(w->os->wall_ns(w->os) - moment_now(w->os) + w->base_ns),
                (long long)profile_spans_dropped(w->p));
    name_thread(w, w->pid, HOST_THREAD, "frugal", "training loop");
    name_thread(w, DEVICE, STREAM, w->gpu ? "GPU 0" : "processor", "kernels");
}

static i64 earliest_ns(const struct profile *p)
{
    i64 ns = profile_span_count(p) ? INT64_MAX : 0;
    for (i64 i = 0; i < profile_span_count(p); i++) ns = MIN(ns, profile_span(p, i).begin_ns);
    return ns;
}

enum status chrome_write(struct os *os, struct str path, const struct profile *p,
                         const struct target *target, i64 pid, struct arena scratch,
                         struct err *err)
{
    struct writer             w    = { .os        = os,
                                       .file      = { -1 },
                                       .err       = err,
                                       .p         = p,
                                       .gpu       = target->gpus > 0,
                                       .pid       = pid,
                                       .base_ns   = earliest_ns(p),
                                       .separator = "" };
    const struct program_set *set  = profile_set(p);
    struct str                part = os_part_name(&scratch, path);
    struct arena              lent = arena_part(&scratch, (scratch.end - scratch.begin) / 2);
    for (i32 id = 0; id < PROGRAM_COUNT; id++)
        if (set->programs[id])
            w.memory[id] = memory_use_of(set, set->programs[id], &scratch, lent).bytes;
    struct arena text = arena_part(&scratch, FLUSH_BYTES + 4 * EVENT_BYTES_MAX);
    w.b               = textbuf_new(&text);
    w.st              = os->create(os, part, &w.file, err);
    add_head(&w, target);
    for (i64 i = 0; !w.st && i < profile_span_count(p); i++) {
        struct profile_span s = profile_span(p, i);
        add_span(&w, &s, scratch);
    }
    textbuf_fmt(&w.b, "\n]}\n");
    flush(&w);
    if (w.file.fd >= 0) {
        enum status closed = os->close(os, &w.file, w.st ? NULL : err);
        if (!w.st) w.st = closed;
    }
    if (!w.st) w.st = os->rename(os, part, path, err);
    if (w.st) os->remove(os, part, NULL);
    return w.st;
}
