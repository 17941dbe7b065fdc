/* jobs.c - from a request and its settings to a job. */
#include "cli/jobs.h"
#include "cli/say.h"
#include "infer/model_named.h"
#include "job/several.h"

enum status config_of_request(const struct request *r, struct os *os, struct arena *perm,
                              struct config **out, struct err *err)
{
    if (r->argument_count == 0)
        return err_set(err, STATUS_USAGE, "which run file? Try: frugal %.*s run.yaml",
                       STR_ARG(r->command->name));
    return config_read(os, perm, r->command->name, r->arguments[0], r->arguments + 1,
                       r->argument_count - 1, out, err);
}

enum status model_of_request(struct cli *c, i64 settings_from, struct config **out, struct err *err)
{
    const struct request *r = c->request;
    return model_named(c->os, c->perm, r->command->name, r->arguments[0],
                       r->arguments + settings_from, r->argument_count - settings_from, out, err);
}

bool is_data(struct str argument) { return argument.len && str_find(argument, '=') < 0; }

enum status model_and_data(struct cli *c, struct config **out, struct err *err)
{
    const struct request *r     = c->request;
    struct str           *given = NEW(c->perm, struct str, r->argument_count);
    i64                   files = 0;
    for (i64 i = 1; i < r->argument_count; i++) {
        struct str a = r->arguments[i];
        given[i]     = is_data(a) ? str_cat(c->perm, STR("data.eval_path="), a) : a;
        if (is_data(a) && ++files > 1)
            return err_set(err, STATUS_USAGE, "one file or folder of data, not %.*s as well",
                           STR_ARG(a));
    }
    enum status st = model_named(c->os, c->perm, r->command->name, r->arguments[0], given + 1,
                                 r->argument_count - 1, out, err);
    struct data_config *data = st ? NULL : &(*out)->settings.data;
    if (files && data && !data->path.len) data->path = data->eval_path; /* somebody else's model */
    return st;
}

static void say_job(void *context, struct str line)
{
    say_message(context, "%.*s\n", STR_ARG(line));
}

struct job job_of(struct cli *c, struct config *config, const char *kind)
{
    return (struct job){ .os       = c->os,
                         .perm     = c->perm,
                         .settings = &config->settings,
                         .kind     = str_of(kind),
                         .name     = config_run_name(config),
                         .changed  = settings_changed(config, c->perm),
                         .origins  = settings_origins(config, c->perm),
                         .fresh    = c->request->given[FLAG_fresh],
                         .say      = say_job,
                         .context  = c->say };
}

enum status only_process(struct cli *c, const char *command, struct err *err)
{
    i32 count = several_announced(c->os).count;
    if (count <= 1) return STATUS_OK;
    say_nothing(c->say, !several_speaks(c->os, NULL));
    return err_set(err, STATUS_USAGE,
                   "frugal %s is one process, and the launcher has started %d, which would do the "
                   "same work and overwrite each other's results: start it without mpirun or srun",
                   command, count);
}
