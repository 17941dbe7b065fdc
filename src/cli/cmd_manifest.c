/* cmd_manifest.c - frugal manifest RUN.YAML --for SCHEDULER: the file that starts the plan's chosen row there. */
#include "cli/plan_show.h"
#include "ir/collective.h"
#include "job/manifest.h"
#include "train/config.h"

enum status command_manifest(struct cli *c, struct err *err);

enum { SCRATCH_GIB = 64 };

static enum status kind_of(const struct request *r, enum manifest_kind *out, struct err *err)
{
    struct str name = r->value[FLAG_for];
    if (!r->given[FLAG_for])
        return err_set(err, STATUS_USAGE, "for which scheduler? Give --for %.*s",
                       STR_ARG(flags[FLAG_for].argument));
    if (manifest_find(name, out)) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "--for takes %.*s, not %.*s",
                   STR_ARG(flags[FLAG_for].argument), (int)MIN(name.len, 40), name.data);
}

/* What this scheduler's file, or an image that has frugal, would ignore. */
static enum status check_install(const struct request *r, enum manifest_kind kind, struct err *err)
{
    if (kind == MANIFEST_SLURM && r->given[FLAG_image])
        return err_set(err, STATUS_USAGE,
                       "--image is for skypilot and kubernetes; a Slurm job runs --install, or "
                       "finds frugal in its PATH");
    if (r->given[FLAG_install] && (kind == MANIFEST_KUBERNETES || r->given[FLAG_image]))
        return err_set(err, STATUS_USAGE,
                       "--install does nothing %s, whose image has frugal: leave it out",
                       kind == MANIFEST_KUBERNETES ? "with --for kubernetes" : "with --image");
    return STATUS_OK;
}

/* A machine that is started again has an empty disk: what it resumes from must lie where another machine reads it. */
static enum status check_store(const struct settings *s, enum manifest_kind kind, struct err *err)
{
    if (kind == MANIFEST_SLURM && !s->checkpoint.dir.len && !s->checkpoint.to.len)
        return err_set(
            err, STATUS_USAGE,
            "a job that is requeued would start over: set checkpoint.dir to a folder that "
            "all nodes see");
    struct str to = s->checkpoint.to;
    if (to.len && !str_starts(to, STR("s3://")) && !str_starts(to, STR("gs://")))
        return err_set(err, STATUS_USAGE,
                       "checkpoint.to=%.*s is not an object store; expected s3://BUCKET/PREFIX or "
                       "gs://BUCKET/PREFIX",
                       (int)MIN(to.len, 200), to.data);
    if (kind != MANIFEST_SLURM && !to.len)
        return err_set(
            err, STATUS_USAGE,
            "a new machine would start over: set checkpoint.to=s3://BUCKET/PREFIX (or gs://), "
            "where it finds the checkpoints");
    return STATUS_OK;
}

static enum status ranks_of(const struct request *r, enum manifest_kind kind, i64 *out,
                            struct err *err)
{
    struct str text = r->value[FLAG_ranks];
    *out            = 0;
    if (!r->given[FLAG_ranks]) return STATUS_OK;
    if (kind != MANIFEST_SLURM)
        return err_set(err, STATUS_USAGE, "--ranks is for --for slurm, whose srun starts them");
    if (str_i64(text, out) && *out >= 1 && *out <= RANKS_MAX) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "--ranks=%.*s is not a number from 1 to %d",
                   (int)MIN(text.len, 40), text.data, RANKS_MAX);
}

static struct str name_of(const struct settings *s, struct str path)
{
    if (s->run.name.len) return s->run.name;
    for (i64 i = path.len; i > 0; i--)
        if (path.data[i - 1] == '/') {
            path = str_sub(path, i, path.len);
            break;
        }
    if (str_ends(path, STR(".yaml"))) path.len -= STR(".yaml").len;
    return path;
}

static enum status no_row(const struct request *r, bool of_others, i64 ranks, struct err *err)
{
    if (of_others)
        return err_set(
            err, STATUS_NO,
            "--ranks=%lld: no row of the plan has as many GPUs%s; --gpus %lld plans with as many",
            (long long)ranks, ranks > 1 ? ", or one" : "", (long long)ranks);
    return err_set(err, STATUS_NO,
                   "no row of the plan is one that frugal trains on a rented machine: "
                   "`frugal plan %.*s` lists them, --machine NAME chooses one",
                   STR_ARG(r->arguments[0]));
}

/* How many ranks, and the row for them. */
static enum status choose(struct cli *c, const struct plan_question *q, enum manifest_kind kind,
                          struct manifest *m, struct err *err)
{
    enum status st = ranks_of(c->request, kind, &m->ranks, err);
    if (st) return st;
    m->row = manifest_row(q, kind, m->ranks);
    if (!m->row) return no_row(c->request, manifest_row(q, kind, 0) != NULL, m->ranks, err);
    if (!m->ranks || m->row->gpus > 1) m->ranks = m->row->gpus;
    return STATUS_OK;
}

/* The user's settings, then those of the row. */
static enum status fill(struct cli *c, const struct plan_question *q, enum manifest_kind kind,
                        struct manifest *m, struct err *err)
{
    const struct request *r     = c->request;
    i64                   given = r->argument_count - 1;
    struct str           *all   = NEW(c->perm, struct str, given + PLAN_WORDS_MAX);
    struct config        *config;
    enum status           st = choose(c, q, kind, m, err);
    if (st) return st;
    for (i64 i = 0; i < given; i++) all[i] = r->arguments[1 + i];
    m->setting_count = given + plan_words(q, m->row, c->perm, all + given);
    m->settings      = all;
    m->run_file      = r->arguments[0];
    m->install       = r->value[FLAG_install];
    m->image         = r->value[FLAG_image];
    m->region        = r->value[FLAG_region];
    st =
        config_read(c->os, c->perm, STR("train"), m->run_file, all, m->setting_count, &config, err);
    if (!st && config->settings.train.batch < m->ranks)
        st = err_set(err, STATUS_USAGE, "--ranks=%lld: train.batch=%lld has no sample for each",
                     (long long)m->ranks, (long long)config->settings.train.batch);
    if (!st) st = check_store(&config->settings, kind, err);
    if (!st) st = os_read_all(c->os, m->run_file, c->perm, &m->run_text, err);
    if (!st) m->name = name_of(&config->settings, m->run_file);
    if (!st && kind == MANIFEST_KUBERNETES && !m->image.len)
        st = err_set(
            err, STATUS_USAGE,
            "a pod needs an image with frugal in it: --image NAME (Containerfile makes one)");
    return st;
}

static enum status manifest(struct cli *c, struct arena scratch, struct err *err)
{
    struct plan_question *q = NEW(c->perm, struct plan_question, 1);
    struct plan_request   request;
    struct manifest       m = { 0 };
    enum manifest_kind    kind;
    enum status           st = kind_of(c->request, &kind, err);
    if (!st) st = check_install(c->request, kind, err);
    if (!st) st = plan_request_read(c->request, &request, err);
    if (st) return st;
    request.command = STR("train"); /* whose settings these are */
    st              = plan_open(q, c->os, &request, c->perm, scratch, err);
    if (!st && !q->ours)
        st = err_set(err, STATUS_USAGE, "%.*s is not a run file: a manifest trains one",
                     STR_ARG(c->request->arguments[0]));
    if (!st && !q->result->count) st = plan_none(c, q, err);
    else if (!st) st = fill(c, q, kind, &m, err);
    if (!st) say_text(c->say, manifest_text(&m, kind, c->perm));
    plan_close(q);
    return st;
}

enum status command_manifest(struct cli *c, struct err *err)
{
    struct arena scratch = arena_open((i64)SCRATCH_GIB << 30);
    if (!scratch.begin)
        return err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    enum status st = manifest(c, scratch, err);
    arena_close(&scratch);
    return st;
}
