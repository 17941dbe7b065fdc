/* cmd_pack.c - frugal pack: a folder into shards, and what that trades. */
#include "cli/commands.h"
#include "data/image.h"
#include "data/pack.h"
#include "remote/address.h"

enum status command_pack(struct cli *c, struct err *err);

static const f64 live_every_s = 0.1, plain_every_s = 5.0;

struct packing {
    struct cli *cli;
    i64         begin_ns;
    f64         next_s;
};

static bool on_progress(void *context, i64 samples, i64 count)
{
    struct packing *p     = context;
    struct cli     *c     = p->cli;
    f64             now_s = 1e-9 * (f64)(clock_now(c->clock) - p->begin_ns);
    if (now_s >= p->next_s && !c->say->json) {
        u8           room[512]; /* c->perm holds what packs */
        struct arena scratch = { room, room + sizeof room, NULL };
        struct str   line    = str_fmt(&scratch, "packed %.*s of %.*s samples",
                                       STR_ARG(text_count(&scratch, (f64)samples)),
                                       STR_ARG(text_count(&scratch, (f64)count)));
        if (c->say->live) say_live(c->say, line);
        else say_message(c->say, "%.*s\n", STR_ARG(line));
        p->next_s = now_s + (c->say->live ? live_every_s : plain_every_s);
    }
    return c->os->signal_take(c->os) == OS_SIGNAL_NONE;
}

static enum status number(const struct request *r, i64 index, i64 usual, i64 least, i64 most,
                          i64 *out, struct err *err)
{
    struct str text = r->value[index];
    *out            = usual;
    if (!text.len || (str_i64(text, out) && *out >= least && *out <= most)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "--%.*s is %.*s; expected a whole number from %lld to %lld",
                   STR_ARG(flags[index].name), (int)MIN(text.len, 40), text.data, (long long)least,
                   (long long)most);
}

static enum status read_request(const struct request *r, struct pack_config *out, struct err *err)
{
    out->to = r->value[FLAG_to];
    if (r->argument_count != 1)
        return err_set(err, STATUS_USAGE, "which folder? Try: frugal pack FOLDER --to PREFIX");
    if (!out->to.len || address_is_remote(out->to))
        return err_set(err, STATUS_USAGE,
                       "where to write the shards? --to PREFIX makes PREFIX-000000.tar "
                       "on a local disk");
    if (r->value[FLAG_quality].len && !r->value[FLAG_size].len)
        return err_set(err, STATUS_USAGE,
                       "--quality needs --size, which writes JPEGs; without it files are not "
                       "changed");
    enum status st =
        number(r, FLAG_shard_bytes, 256000000, 1, (i64)1 << 40, &out->shard_bytes, err);
    if (!st) st = number(r, FLAG_size, 0, 1, IMAGE_SIDE_MAX, &out->size, err);
    if (!st) st = number(r, FLAG_quality, 90, 1, 100, &out->quality, err);
    return st;
}

static void show_json(struct cli *c, const struct pack_trade *t, f64 seconds, struct arena scratch)
{
    struct textbuf b = event_begin(&scratch, "packed");
    event_str(&b, "path", t->pattern);
    event_i64(&b, "samples", t->result.samples);
    event_i64(&b, "shards", t->result.shards);
    event_i64(&b, "shards_before", t->result.shards_before);
    event_i64(&b, "bytes_in", t->result.bytes_in);
    event_i64(&b, "bytes_out", t->result.bytes_out);
    event_f64(&b, "samples_s_before", t->before.samples_s);
    event_f64(&b, "samples_s_after", t->after.samples_s);
    event_f64(&b, "bytes_s_before", t->before.bytes_s);
    event_f64(&b, "bytes_s_after", t->after.bytes_s);
    event_f64(&b, "elapsed_s", seconds);
    event_end(&b, c->say);
}

static void show(struct cli *c, const struct pack_trade *t, struct arena scratch)
{
    const struct pack_result *r = &t->result;
    say_result(c->say, "%.*s: %.*s samples in %lld shard%s", STR_ARG(t->pattern),
               STR_ARG(text_count(&scratch, (f64)r->samples)), (long long)r->shards,
               r->shards == 1 ? "" : "s");
    if (r->shards_before)
        say_result(c->say, ", %lld of them from an earlier run", (long long)r->shards_before);
    say_result(c->say, "\n");
    if (r->bytes_in)
        say_result(c->say, "bytes   %.*s in files -> %.*s in shards (%+.1f %%)\n",
                   STR_ARG(text_bytes(&scratch, (f64)r->bytes_in)),
                   STR_ARG(text_bytes(&scratch, (f64)r->bytes_out)),
                   100 * ((f64)r->bytes_out / (f64)r->bytes_in - 1));
    say_result(c->say,
               "reading %.*s -> %.*s samples/s, %.*s/s -> %.*s/s (one thread, random "
               "order, as cached in memory now)\n",
               STR_ARG(text_count(&scratch, t->before.samples_s)),
               STR_ARG(text_count(&scratch, t->after.samples_s)),
               STR_ARG(text_bytes(&scratch, t->before.bytes_s)),
               STR_ARG(text_bytes(&scratch, t->after.bytes_s)));
}

enum status command_pack(struct cli *c, struct err *err)
{
    struct pack_config config  = { 0 };
    struct arena       scratch = *c->perm;
    struct pack_trade  t;
    struct packing     p  = { .cli      = c,
                              .begin_ns = clock_now(c->clock),
                              .next_s   = c->say->live ? 0 : plain_every_s };
    enum status        st = read_request(c->request, &config, err);
    if (st) return st;
    st = pack_trade(c->os, c->request->arguments[0], &config, on_progress, &p, &scratch, &t, err);
    if (t.note.len) say_message(c->say, "note: %.*s\n", STR_ARG(t.note));
    f64 seconds = 1e-9 * (f64)(clock_now(c->clock) - p.begin_ns);
    if (!st && c->say->json) show_json(c, &t, seconds, scratch);
    else if (!st) show(c, &t, scratch);
    return st;
}
