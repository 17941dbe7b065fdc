/* figures_tb.c - TensorBoard's event files: records of length, masked CRC-32C, bytes, masked CRC-32C, each an
 * Event of Protocol Buffers: wall_time 1, step 2, file_version 3, summary 5 { value 1 { tag 1, simple_value 2
 * } }, session_log 7 { status 1 }. supervise/tensorboard.c reads them. */
#include "base/hash.h"
#include "run/figures_int.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { WIRE_VARINT = 0, WIRE_8 = 1, WIRE_BYTES = 2, WIRE_4 = 5, SESSION_START = 1, HOST_MAX = 64 };

static void add_varint(struct textbuf *b, u64 v)
{
    for (; v >= 128; v >>= 7) textbuf_add(b, (struct str){ &(char){ (char)(v | 128) }, 1 });
    textbuf_add(b, (struct str){ &(char){ (char)v }, 1 });
}

static void add_key(struct textbuf *b, u64 number, u64 wire) { add_varint(b, number << 3 | wire); }

static void add_raw(struct textbuf *b, u64 number, u64 wire, const void *bits, i64 bytes)
{
    add_key(b, number, wire);
    textbuf_add(b, (struct str){ bits, bytes });
}

static void add_bytes(struct textbuf *b, u64 number, struct str s)
{
    add_key(b, number, WIRE_BYTES);
    add_varint(b, (u64)s.len);
    textbuf_add(b, s);
}

static u32 masked(struct str bytes)
{
    u32 crc = crc32c_add(0, bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static enum status write_record(struct sink *s, struct str event, struct arena scratch,
                                struct err *err)
{
    struct textbuf b      = textbuf_new(&scratch);
    u64            length = (u64)event.len;
    struct str     bits   = { (const char *)&length, sizeof length };
    u32            sums[] = { masked(bits), masked(event) };
    textbuf_add(&b, bits);
    textbuf_add(&b, (struct str){ (const char *)&sums[0], sizeof sums[0] });
    textbuf_add(&b, event);
    textbuf_add(&b, (struct str){ (const char *)&sums[1], sizeof sums[1] });
    return s->os->write(s->os, s->file, textbuf_str(&b), err);
}

static struct textbuf event_of(struct arena *perm, i64 wall_ns, i64 step)
{
    struct textbuf b    = textbuf_new(perm);
    f64            wall = (f64)wall_ns * 1e-9;
    add_raw(&b, 1, WIRE_8, &wall, sizeof wall);
    add_key(&b, 2, WIRE_VARINT);
    add_varint(&b, (u64)step);
    return b;
}

enum status tb_sink_open(struct sink *s, i64 step, struct arena scratch, struct err *err)
{
    char        host[HOST_MAX] = "host";
    i64         wall           = s->os->wall_ns(s->os);
    enum status st             = s->os->make_dir(s->os, s->path, err);
    gethostname(host, sizeof host - 1);
    if (s->file.fd >= 0) s->os->close(s->os, &s->file, NULL);
    struct str name =
        str_fmt(&scratch, "%.*s/events.out.tfevents.%010lld.%s.%d.%lld", STR_ARG(s->path),
                (long long)(wall / 1000000000), host, (int)getpid(), (long long)s->opened++);
    if (!st) st = s->os->create(s->os, name, &s->file, err);
    struct arena   lent  = arena_part(&scratch, 4096);
    struct textbuf event = event_of(&lent, wall, 0);
    add_bytes(&event, 3, STR("brain.Event:2"));
    if (!st) st = write_record(s, textbuf_str(&event), scratch, err);
    lent.begin = (u8 *)event.data;
    event      = event_of(&lent, wall, step + 1); /* from it on, what older files have is void */
    add_bytes(&event, 7, (struct str){ (const char[]){ 1 << 3 | WIRE_VARINT, SESSION_START }, 2 });
    if (!st) st = write_record(s, textbuf_str(&event), scratch, err);
    return st;
}

enum status tb_sink_put(struct sink *s, const struct figures *f, struct arena scratch,
                        struct err *err)
{
    struct arena events = arena_part(&scratch, 1 << 14), summaries = arena_part(&scratch, 1 << 14);
    struct textbuf event   = event_of(&events, f->wall_ns, f->step),
                   summary = textbuf_new(&summaries);
    for (i64 i = 0; i < FIGURE_COUNT; i++) {
        struct arena   lent = scratch, values = arena_part(&lent, 1 << 10);
        struct textbuf b      = textbuf_new(&values);
        f32            number = (f32)f->value[i];
        const char    *name   = figure_name((enum figure)i);
        bool           eval   = i == FIGURE_eval_loss || i == FIGURE_eval_value;
        struct str tag = str_fmt(&lent, "%s/%s", eval ? "eval" : "train", eval ? name + 5 : name);
        if (i == FIGURE_eval_value) tag = str_cat(&lent, STR("eval/"), s->metric);
        bool twice = i == FIGURE_eval_value && str_eq(s->metric, STR("loss"));
        if (isnan(f->value[i]) || twice) continue;
        add_bytes(&b, 1, tag);
        add_raw(&b, 2, WIRE_4, &number, sizeof number);
        add_bytes(&summary, 1, textbuf_str(&b));
    }
    add_bytes(&event, 5, textbuf_str(&summary));
    return write_record(s, textbuf_str(&event), scratch, err);
}
