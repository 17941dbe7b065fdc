/* risk.c - expectation by recursion over the work that is left, odds by playing.
 *
 * Every machine saves at the same ages, so a table says what is saved when it dies at any age. With
 * w of work left, a fresh machine dies with probability P_j after its j-th save has landed and before
 * the next, which leaves w - W_j:
 *
 *     T(w) = expected life, at most until w is done, + sum over j of P_j T(w - W_j)
 *
 * T is found on a grid of w from below, straight lines between. The bill and the number of
 * interruptions obey the same equation with another first term. */
#include "plan/risk.h"
#include "base/rng.h"
#include <math.h>
#include <stdlib.h>

enum { GRID = 256, SAVES_MAX = 513, HALVINGS = 48, SLICES_MAX = 4000 };

static const f64 patience = 4;    /* deadlines, after which a run is given up */
static const f64 nobody   = 1e-9; /* alive: the rest cannot matter */

/* --- survival --- */

struct survival survival_of_law(struct hazard law) { return (struct survival){ .law = law }; }

static int by_age(const void *a, const void *b)
{
    f64 x = ((const struct lifetime *)a)->age_s, y = ((const struct lifetime *)b)->age_s;
    return (x > y) - (x < y);
}

struct survival survival_of_lives(struct arena *perm, const struct lifetime *lives, i64 count)
{
    struct survival  s   = { .law = hazard_fit(lives, count) };
    f64             *age = NEW(perm, f64, count + 1), *alive = NEW(perm, f64, count + 1);
    f64             *lived = NEW(perm, f64, count + 1), left = 1, sum = 0, last = 0;
    struct lifetime *sorted = NEW(perm, struct lifetime, count + 1);
    for (i64 i = 0; i < count; i++) sorted[i] = lives[i];
    qsort(sorted, (size_t)count, sizeof *sorted, by_age);
    for (i64 i = 0; i < count; i++) {
        if (!sorted[i].interrupted) continue; /* it leaves those at risk, no more */
        sum += left * (sorted[i].age_s - last);
        last = sorted[i].age_s;
        left *= 1 - 1 / (f64)(count - i);
        age[s.count]     = last;
        alive[s.count]   = left;
        lived[s.count++] = sum;
    }
    s.age_s   = age;
    s.alive   = alive;
    s.lived_s = lived;
    return s;
}

/* How many of a rising list are at most x. */
static i64 at_most(const f64 *list, i64 count, f64 x)
{
    i64 low = 0, high = count;
    while (low < high) {
        i64 middle = (low + high) / 2;
        if (list[middle] <= x) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Beyond the last age seen the law goes on from what was left there. */
static f64 beyond(const struct survival *s)
{
    f64 left = hazard_survival(s->law, s->age_s[s->count - 1]);
    return left > 0 ? s->alive[s->count - 1] / left : 0;
}

f64 survival_at(const struct survival *s, f64 age_s)
{
    i64 i = at_most(s->age_s, s->count, age_s);
    if (!s->count) return hazard_survival(s->law, age_s);
    if (i == s->count) return beyond(s) * hazard_survival(s->law, age_s);
    return i ? s->alive[i - 1] : 1;
}

f64 survival_lived_s(const struct survival *s, f64 age_s)
{
    i64 i = at_most(s->age_s, s->count, age_s);
    if (!s->count) return hazard_lived_s(s->law, age_s);
    if (!i) return age_s;
    f64 last = s->age_s[i - 1];
    if (i < s->count) return s->lived_s[i - 1] + s->alive[i - 1] * (age_s - last);
    return s->lived_s[i - 1] +
           beyond(s) * (hazard_lived_s(s->law, age_s) - hazard_lived_s(s->law, last));
}

f64 survival_age_s(const struct survival *s, f64 alive)
{
    if (!s->count) return hazard_age_s(s->law, alive);
    if (alive <= s->alive[s->count - 1]) return hazard_age_s(s->law, alive / beyond(s));
    for (i64 i = 0; i < s->count; i++) {
        if (s->alive[i] < alive) return s->age_s[i];
    }
    return s->age_s[s->count - 1];
}

/* --- what a machine has saved at an age --- */

struct saves {
    i64 count;
    f64 safe_s[SAVES_MAX + 1]; /* age from which this much would outlive it; rising */
    f64 work_s[SAVES_MAX + 1]; /* saved then; the first is nothing at age 0 */
    f64 ends_s[SAVES_MAX + 1]; /* age at which its stall was over: work goes on */
    f64 begun[SAVES_MAX + 1];  /* work done then, as work_s until saves are taken together */
    f64 alive[SAVES_MAX + 1];  /* part of the machines that live at safe_s */
    f64 interval_s;            /* mean */
};

/* Two rows become one with their mean, as to what is saved; the first row, nothing, stays. */
static void thin(struct saves *v)
{
    i64 to = 1;
    for (i64 i = 1; i + 1 < v->count; i += 2, to++) {
        v->safe_s[to] = v->safe_s[i];
        v->work_s[to] = (v->work_s[i] + v->work_s[i + 1]) / 2;
        v->ends_s[to] = v->ends_s[i];
        v->begun[to]  = v->begun[i];
    }
    v->count = to;
}

static struct saves *saves_of(const struct risk_job *job, const struct survival *s,
                              struct arena *perm)
{
    struct saves *v   = NEW(perm, struct saves, 1);
    f64           age = job->start_s, work = 0;
    i64           all = 0, each = 1; /* saves; so many become a row */
    v->ends_s[v->count++] = age;
    while (survival_at(s, age) > nobody) {
        f64 due  = job->interval_s > 0 ? age + job->interval_s
                                       : hazard_save_due_s(s->law, &job->save, age);
        f64 step = due - age;
        if (step >= job->work_s - work) break; /* it is done before */
        work += step;
        age = due + job->save.stall_s;
        if (all++ % each) continue;
        if (v->count == SAVES_MAX) {
            thin(v);
            each *= 2;
        }
        v->safe_s[v->count]  = age + job->save.persist_s;
        v->work_s[v->count]  = work + (f64)(each - 1) / 2 * step;
        v->ends_s[v->count]  = age;
        v->begun[v->count++] = work;
    }
    v->interval_s = all ? work / (f64)all : job->work_s;
    for (i64 i = 0; i < v->count; i++) v->alive[i] = survival_at(s, v->safe_s[i]);
    return v;
}

/* Age at which a machine has done w of work. */
static f64 done_age_s(const struct saves *v, f64 w)
{
    i64 i = at_most(v->begun, v->count, w) - 1;
    if (i + 1 == v->count) return v->ends_s[i] + (w - v->begun[i]);
    f64 part = (w - v->begun[i]) / (v->begun[i + 1] - v->begun[i]);
    return v->ends_s[i] + part * (v->ends_s[i + 1] - v->ends_s[i]);
}

static f64 saved_s(const struct saves *v, f64 age_s)
{
    return v->work_s[MAX(at_most(v->safe_s, v->count, age_s) - 1, 0)];
}

/* --- expectation --- */

struct sums { /* of what obeys the equation */
    f64 up_s, billed_s, interruptions;
};

static struct sums plus(struct sums a, struct sums b, f64 times)
{
    return (struct sums){ a.up_s + times * b.up_s, a.billed_s + times * b.billed_s,
                          a.interruptions + times * b.interruptions };
}

/* One machine until it dies, or until that age. Those that die before free_s are not billed: their
 * life is the integral of the survival until then, less what the others lived of it. */
static struct sums one_machine(const struct risk_job *job, const struct survival *s, f64 until_s)
{
    f64 up = survival_lived_s(s, until_s), free = MIN(job->free_s, until_s);
    f64 gift = free > 0 ? survival_lived_s(s, free) - free * survival_at(s, free) : 0;
    return (struct sums){ up, up - gift, 1 - survival_at(s, until_s) };
}

/* T(w) of grid point g, from those below it. A save so close that w hardly falls leaves a part of
 * T(w) on the right side, too. */
static struct sums sums_at(const struct risk_job *job, const struct survival *s,
                           const struct saves *v, const struct sums *known, i64 g)
{
    f64         cell = job->work_s / GRID, w = cell * (f64)g;
    f64         end = done_age_s(v, w), self = 0;
    struct sums sum    = one_machine(job, s, end);
    f64         at_end = survival_at(s, end);
    f64         q      = MIN(MAX(job->save.landing, 0), 0.95);
    for (i64 j = 0; j < v->count && v->safe_s[j] < end; j++) {
        f64 next = j + 1 < v->count && v->safe_s[j + 1] < end ? v->alive[j + 1] : at_end;
        f64 dies = v->alive[j] - next;
        f64 more = q * v->interval_s / 2; /* saved at the notice, when it lands */
        f64 at = MAX(w - v->work_s[j] - more, 0) / cell, below = MIN(floor(at), (f64)(g - 1));
        f64 part = MIN(at - below, 1);
        i64 i    = (i64)below;
        if (g == 0 || dies <= 0) { /* nothing can be saved of no work */
            self += MAX(dies, 0);
            continue;
        }
        sum = plus(sum, known[i], dies * (1 - part));
        if (i + 1 == g) self += dies * part;
        else sum = plus(sum, known[i + 1], dies * part);
    }
    f64 alone = 1 - self;
    return (struct sums){ sum.up_s / alone, sum.billed_s / alone, sum.interruptions / alone };
}

struct risk_outcome risk_expect(const struct risk_job *job, const struct survival *s,
                                struct arena scratch)
{
    struct saves *v     = saves_of(job, s, &scratch);
    struct sums  *known = NEW(&scratch, struct sums, GRID + 1);
    for (i64 g = 0; g <= GRID; g++) known[g] = sums_at(job, s, v, known, g);
    struct sums all = known[GRID];
    return (struct risk_outcome){ .up_s          = all.up_s,
                                  .billed_s      = all.billed_s,
                                  .wall_s        = all.up_s + all.interruptions * job->wait_s,
                                  .interruptions = all.interruptions,
                                  .interval_s    = v->interval_s };
}

/* By the golden section over its logarithm: the expectation falls, then rises. */
f64 risk_best_interval_s(const struct risk_job *job, const struct survival *s, struct arena scratch)
{
    const f64       golden = (sqrt(5) - 1) / 2;
    struct risk_job j      = *job;
    f64             low    = log(MAX(job->save.persist_s, 1));
    f64             high   = log(MAX(MIN(job->work_s, 4 * hazard_mean_s(s->law)), 2));
    for (i32 i = 0; i < HALVINGS && high - low > 1e-3; i++) {
        f64 a = high - golden * (high - low), b = low + golden * (high - low);
        j.interval_s = exp(a);
        f64 cost_a   = risk_expect(&j, s, scratch).up_s;
        j.interval_s = exp(b);
        f64 cost_b   = risk_expect(&j, s, scratch).up_s;
        if (cost_a < cost_b) high = b;
        else low = a;
    }
    return exp((low + high) / 2);
}

f64 risk_break_even(const struct risk_outcome *spot, const struct risk_outcome *on_demand)
{
    return 1 - on_demand->billed_s / spot->billed_s;
}

/* --- odds --- */

struct dice {
    struct rng_key key;
    u64            drawn;
};

static f64 draw(struct dice *d) /* (0, 1] */ { return 1 - rng_uniform(d->key, d->drawn++); }

static f64 wait_for(const struct risk_job *job, struct dice *d)
{
    return -job->wait_s * log(draw(d));
}

static f64 play_once(const struct risk_job *job, const struct survival *s, const struct saves *v,
                     f64 wall_most_s, struct dice *d)
{
    f64 left = job->work_s, wall = 0;
    while (wall < wall_most_s) {
        f64 life = survival_age_s(s, draw(d)), end = done_age_s(v, left);
        wall += MIN(life, end);
        if (life >= end) return wall;
        wall += wait_for(job, d);
        left -= MIN(saved_s(v, life), left);
    }
    return wall;
}

static int by_value(const void *a, const void *b)
{
    f64 x = *(const f64 *)a, y = *(const f64 *)b;
    return (x > y) - (x < y);
}

struct risk_odds risk_play(const struct risk_job *job, const struct survival *s, f64 deadline_s,
                           i64 runs, u64 seed, struct arena scratch)
{
    struct saves    *v       = saves_of(job, s, &scratch);
    f64             *walls   = NEW(&scratch, f64, runs);
    struct risk_odds odds    = { 0 };
    i64              in_time = 0;
    for (i64 i = 0; i < runs; i++) {
        struct dice d = { .key = { .seed = seed, .step = (u64)i } };
        walls[i]      = play_once(job, s, v, patience * deadline_s, &d);
        odds.wall_s += walls[i] / (f64)runs;
        in_time += walls[i] <= deadline_s;
    }
    odds.in_time = (f64)in_time / (f64)runs;
    qsort(walls, (size_t)runs, sizeof *walls, by_value);
    odds.wall95_s = walls[MIN(runs - 1, runs * 95 / 100)];
    return odds;
}

/* --- spot and on-demand together, in slices of time --- */

enum mode { MODE_IDLE, MODE_SPOT, MODE_ON_DEMAND };

struct mix {
    const struct risk_job *job;
    const struct survival *s;
    const struct saves    *v;
    f64                    deadline_s, slice_s;
    enum mode              mode;
    f64                    now_s;
    f64                    age_s;   /* of the machine in use */
    f64                    base_s;  /* work saved when it began */
    bool                   spot;    /* is there any */
    f64                    turns_s; /* when that changes */
    struct dice            dice;
};

/* The part of a running machine's time that is work; the rest are saves. */
static f64 working_part(const struct mix *m)
{
    return m->v->interval_s / (m->v->interval_s + m->job->save.stall_s);
}

/* Work that the machine in use has done, saved or not. */
static f64 worked(const struct mix *m)
{
    f64 s = m->mode == MODE_IDLE ? 0 : MAX(m->age_s - m->job->start_s, 0);
    return m->base_s + s * working_part(m);
}

/* Of that, what is there if the machine is taken away now. */
static f64 kept(const struct mix *m)
{
    if (m->mode == MODE_ON_DEMAND) return worked(m);
    return m->base_s + (m->mode == MODE_SPOT ? saved_s(m->v, m->age_s) : 0);
}

/* A machine we leave has time to save, one that is taken away has not. */
static void change(struct mix *m, enum mode to, bool taken)
{
    m->base_s = taken ? kept(m) : worked(m);
    m->mode   = to;
    m->age_s  = 0;
}

static void spot_turns(struct mix *m)
{
    bool ours = m->spot && m->mode == MODE_SPOT;
    m->spot   = !m->spot;
    f64 life = survival_age_s(m->s, draw(&m->dice)), wait = wait_for(m->job, &m->dice);
    m->turns_s = m->now_s + (m->spot ? life : wait);
    if (ours) change(m, MODE_IDLE, true);
}

static void decide(struct mix *m)
{
    f64 done = worked(m), left = m->job->work_s - kept(m);
    f64 need = left / working_part(m) + m->job->start_s * (m->mode == MODE_ON_DEMAND ? 0 : 2) +
               2 * m->slice_s;
    bool      last   = m->deadline_s - m->now_s <= need; /* just enough to finish on-demand */
    bool      behind = done < m->now_s * m->job->work_s / m->deadline_s;
    enum mode to     = last      ? MODE_ON_DEMAND
                       : m->spot ? MODE_SPOT
                       : behind  ? MODE_ON_DEMAND
                                 : MODE_IDLE;
    /* Back to spot only with the time of its start in hand, or it would go to and fro. */
    f64 line = (m->now_s + 2 * m->job->start_s) * m->job->work_s / m->deadline_s;
    if (m->mode == MODE_ON_DEMAND && done < line) to = MODE_ON_DEMAND;
    if (to != m->mode) change(m, to, false);
}

static void play_mixed_once(struct mix *m, struct risk_mixed *sum, f64 weight)
{
    spot_turns(m);
    while (worked(m) < m->job->work_s && m->now_s < 10 * m->deadline_s) {
        decide(m);
        m->now_s += m->slice_s;
        if (m->mode != MODE_IDLE) m->age_s += m->slice_s;
        if (m->mode == MODE_SPOT) sum->spot_s += weight * m->slice_s;
        if (m->mode == MODE_ON_DEMAND) sum->on_demand_s += weight * m->slice_s;
        if (m->now_s >= m->turns_s) spot_turns(m);
    }
    sum->in_time += m->now_s <= m->deadline_s; /* a count, until all are played */
}

struct risk_mixed risk_play_mixed(const struct risk_job *job, const struct survival *s,
                                  f64 deadline_s, i64 runs, u64 seed, struct arena scratch)
{
    struct saves     *v   = saves_of(job, s, &scratch);
    struct risk_mixed sum = { 0 };
    for (i64 i = 0; i < runs; i++) {
        struct mix m = { .job = job, .s = s, .v = v, .deadline_s = deadline_s };
        m.slice_s    = deadline_s / SLICES_MAX;
        m.dice.key   = (struct rng_key){ .seed = seed, .step = (u64)i };
        play_mixed_once(&m, &sum, 1 / (f64)runs);
    }
    sum.in_time /= (f64)runs;
    return sum;
}
