/* segments.c - the rows that a start of a run begins with, and those of earlier starts that nobody ended. */
#include "base/hash.h"
#include "run/recorder_int.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

enum {
    PLACE_MAX = 1024
}; /* of a checkpoint's address: RECORDER_KEPT_BYTES have room for so much of each */

const i64 recorder_beat_least_ns = 1000000000;

static struct str first_line(struct os *os, const char *path, struct arena *perm)
{
    struct str text;
    if (os_read_all(os, str_of(path), perm, &text, NULL)) return STR("");
    return str_trim(text);
}

struct segment_row recorder_segment_new(const struct recorder *r, const struct segment_row *known,
                                        struct arena *perm)
{
    struct os         *os = r->os;
    struct segment_row s;
    char               host[256] = { 0 };
    row_copy(&ledger_tables[LEDGER_TABLE_segment], &s, known, perm);
    gethostname(host, sizeof host - 1);
    if (!s.id.len) s.id = ledger_new_id(perm);
    s.step          = s.step_from;
    s.loss          = NAN;
    s.value         = NAN;
    s.energy_wh     = NAN;
    s.busy          = NAN;
    s.version       = STR(FRUGAL_VERSION);
    s.machine       = str_copy(perm, str_of(host));
    s.boot          = first_line(os, "/proc/sys/kernel/random/boot_id", perm);
    s.begin_wall_ns = os->wall_ns(os) - clock_age_ns(r->clock);
    s.boot_wall_ns  = os->wall_ns(os) - clock_boot_age_ns();
    return s;
}

struct str recorder_price_id(const struct price_row *p, struct arena *perm)
{
    struct price_row p0 = *p;
    struct textbuf   b  = textbuf_new(perm);
    p0.id               = STR("");
    row_write(&ledger_tables[LEDGER_TABLE_price], &p0, &b);
    return str_sub(sha256_hex(perm, textbuf_str(&b)), 0, 12);
}

/* Of a rented machine: from its start, or from the end of its last segment, to the process. */
static void add_before(struct recorder *r, const struct segment_row *others, i64 count)
{
    i64  free_ns = r->now.boot_wall_ns; /* since then nothing ran */
    bool first   = true;
    for (i64 i = 0; i < count; i++) {
        const struct segment_row *s = &others[i];
        if (str_eq(s->id, r->now.id)) continue;
        first   = false;
        free_ns = MAX(free_ns, s->begin_wall_ns + s->metered_ns - s->booting_ns - s->idle_ns);
    }
    clock_add(bill_clock(r->config.bill), first ? PART_boot : PART_idle,
              MAX(r->now.begin_wall_ns - free_ns, 0));
}

static i64 end_wall_ns(const struct segment_row *s)
{
    return s->begin_wall_ns + s->metered_ns - s->booting_ns - s->idle_ns;
}

void recorder_set_billed(struct segment_row *s, const struct price_row *price, bool taken)
{
    i64 nusd      = bill_nusd(price, s->metered_ns, taken);
    s->billed_usd = nusd < 0 ? NAN : (f64)nusd * 1e-9;
}

/* It lived so much longer than its last heartbeat says, and that was work, as far as one can tell. */
static enum status lengthen(struct recorder *r, struct segment_row *s, i64 more_ns, struct err *err)
{
    s->ended = segment_killed;
    s->compute_ns += more_ns;
    s->metered_ns += more_ns;
    s->beat_wall_ns += more_ns;
    if (more_ns && str_eq(s->price, r->now.price)) recorder_set_billed(s, &r->config.price, false);
    return ledger_put(r->ledger, LEDGER_TABLE_segment, s, err);
}

/* Nobody ended it: killed, if it was on this machine, for then its folder's lock is ours now; or if it has been
 * silent for long. */
static bool was_killed(const struct recorder *r, const struct segment_row *s)
{
    bool silent = r->now.begin_wall_ns - s->beat_wall_ns > segment_silence_ns(s);
    return !s->ended.len && (str_eq(s->machine, r->now.machine) || silent);
}

/* The tally knows how long the last start lived. */
static enum status close_killed(struct recorder *r, struct segment_row *s, struct err *err)
{
    const struct tally_file *t     = &r->config.before;
    i64                      lived = str_eq(s->id, t->segment) ? t->segment_ns : 0;
    return lengthen(r, s, MAX(lived - s->metered_ns, 0), err);
}

/* Starts that ended before they were recorded, as one segment: all they did was to start. */
static struct segment_row missed_segment(struct recorder *r, struct str id, i64 lived_ns)
{
    struct segment_row s = { .id            = id,
                             .run           = r->run.id,
                             .version       = r->now.version,
                             .machine       = r->now.machine,
                             .boot          = r->now.boot,
                             .device        = r->now.device,
                             .gpus          = r->now.gpus,
                             .price         = r->now.price,
                             .begin_wall_ns = r->now.begin_wall_ns - lived_ns,
                             .beat_wall_ns  = r->now.begin_wall_ns,
                             .beat_every_ns = recorder_beat_least_ns,
                             .ended         = segment_killed,
                             .metered_ns    = lived_ns,
                             .starting_ns   = lived_ns,
                             .step_from     = r->now.step_from,
                             .step          = r->now.step_from,
                             .loss          = NAN,
                             .value         = NAN,
                             .energy_wh     = NAN,
                             .busy          = NAN };
    recorder_set_billed(&s, &r->config.price, false);
    return s;
}

/* What the tally knows and the ledger does not. Its word that a segment is not recorded may be a moment
 * older than the segment's row. */
static enum status add_missed(struct recorder *r, struct arena scratch, struct err *err)
{
    const struct tally_file *t = &r->config.before;
    struct segment_row      *s;
    i64                      count, lived_ns = t->missed_ns;
    struct str               id = t->missed.len ? t->missed : t->segment;
    if (!t->run.len || !str_eq(t->run, r->run.id)) return STATUS_OK;
    enum status st =
        ledger_read(r->ledger, LEDGER_TABLE_segment, "id", t->segment, &scratch, &s, &count, err);
    if (!st && !count && !t->recorded) lived_ns += t->segment_ns;
    if (!st) st = ledger_read(r->ledger, LEDGER_TABLE_segment, "id", id, &scratch, &s, &count, err);
    if (st || count || !lived_ns || !id.len) return st;
    struct segment_row row = missed_segment(r, id, lived_ns);
    return ledger_put(r->ledger, LEDGER_TABLE_segment, &row, err);
}

/* The run's segments before this one, with those closed that nobody ended. What the checkpoint knows beyond all of
 * them, for it may be younger than the last heartbeat, is the last one's. */
static enum status close_segments(struct recorder *r, struct segment_row *s, i64 count,
                                  struct err *err)
{
    struct segment_row *killed   = NULL;
    i64                 known_ns = 0;
    enum status         st       = STATUS_OK;
    for (i64 i = 0; !st && i < count; i++) {
        if (str_eq(s[i].id, r->now.id)) continue;
        if (was_killed(r, &s[i])) st = close_killed(r, &s[i], err);
        if (str_eq(s[i].ended, segment_killed))
            killed = &s[i]; /* by us, or by a start that was killed then */
        known_ns += s[i].metered_ns;
    }
    i64 more_ns = bill_before(r->config.bill).ns - known_ns;
    return !st && killed && more_ns > 0 ? lengthen(r, killed, more_ns, err) : st;
}

static f64 known(f64 usd) { return isnan(usd) ? 0 : usd; }

static bool is_stored_apart(struct str place)
{
    return str_starts(place, STR("s3://")) || str_starts(place, STR("gs://"));
}

/* What a segment has left in the object store; of too many the oldest are forgotten. */
static enum status read_kept(struct recorder *r, struct str segment, struct recorder_before *out,
                             struct arena *perm, struct err *err)
{
    struct checkpoint_row *c;
    i64                    count;
    enum status            st =
        ledger_read(r->ledger, LEDGER_TABLE_checkpoint, "segment", segment, perm, &c, &count, err);
    for (i64 i = 0; !st && i < count; i++) {
        if (c[i].removed_wall_ns || !is_stored_apart(c[i].place) || c[i].place.len > PLACE_MAX)
            continue;
        if (out->kept_count == RECORDER_KEPT_MAX)
            memmove(out->kept, out->kept + 1, (size_t)--out->kept_count * sizeof *out->kept);
        out->kept[out->kept_count++] = c[i];
    }
    return st;
}

/* Of the run so far; and no segment of it begins before the one before it ended, whatever the clock says. */
static enum status read_segments(struct recorder *r, struct arena scratch, struct err *err)
{
    static const struct recorder_before none;
    struct recorder_before              out = none;
    struct segment_row                 *s;
    i64                                 count, after_ns = r->now.begin_wall_ns;
    enum status                         st = add_missed(r, scratch, err);
    if (!st)
        st = ledger_read(r->ledger, LEDGER_TABLE_segment, "run", r->run.id, &scratch, &s, &count,
                         err);
    if (!st) st = close_segments(r, s, count, err);
    for (i64 i = 0; !st && i < count; i++) {
        if (str_eq(s[i].id, r->now.id)) continue;
        out.steps = MAX(out.steps, s[i].step);
        out.spent.ns += s[i].metered_ns;
        out.spent.usd += s[i].billed_usd + known(s[i].requests_usd) + known(s[i].storage_usd);
        st = read_kept(r, s[i].id, &out, &scratch, err);
        if (str_eq(s[i].boot, r->now.boot)) after_ns = MAX(after_ns, end_wall_ns(&s[i]));
    }
    if (st) return st;
    struct arena texts = r->kept_texts; /* from its beginning, should this be tried again */
    for (i64 i = 0; i < out.kept_count; i++) {
        struct checkpoint_row row = out.kept[i];
        row_copy(&ledger_tables[LEDGER_TABLE_checkpoint], &out.kept[i], &row, &texts);
    }
    pthread_mutex_lock(&r->lock);
    r->wall_ns += after_ns - r->now.begin_wall_ns;
    r->now.begin_wall_ns = after_ns;
    r->before            = out;
    pthread_mutex_unlock(&r->lock);
    return STATUS_OK;
}

enum status recorder_read_before(struct recorder *r, struct arena scratch, struct err *err)
{
    struct segment_row *s;
    struct run_row     *run;
    i64                 count = 0, begin_ns;
    enum status         st    = read_segments(r, scratch, err);
    if (!st)
        st = ledger_read(r->ledger, LEDGER_TABLE_run, "id", r->run.id, &scratch, &run, &count, err);
    begin_ns = !st && count ? run[0].begin_wall_ns : r->now.begin_wall_ns;
    if (!st && r->config.rented)
        st = ledger_read(r->ledger, LEDGER_TABLE_segment, "boot", r->now.boot, &scratch, &s, &count,
                         err);
    if (st) return st;
    if (r->config.rented) add_before(r, s, count);
    pthread_mutex_lock(&r->lock);
    r->run.begin_wall_ns = begin_ns;
    pthread_mutex_unlock(&r->lock);
    return STATUS_OK;
}
