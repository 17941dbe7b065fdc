/* cmd_export.c - frugal export MODEL FOLDER: what was trained, as a folder for transformers. */
#include "cli/jobs.h"
#include "infer/export.h"

enum status command_export(struct cli *c, struct err *err);

enum status command_export(struct cli *c, struct err *err)
{
    const struct request *r     = c->request;
    struct str            dtype = r->value[FLAG_dtype], folder;
    struct config        *config;
    bool                  low = str_eq(dtype, STR("bf16")), merges = r->given[FLAG_merge];
    if (r->argument_count < 2)
        return err_set(err, STATUS_USAGE,
                       "expected a model and a folder: frugal export last FOLDER");
    folder = r->arguments[1];
    if (dtype.len && !low && !str_eq(dtype, STR("f32")))
        return err_set(err, STATUS_USAGE, "--dtype takes f32 or bf16, not %.*s",
                       (int)MIN(dtype.len, 40), dtype.data);
    enum status st = model_of_request(c, 2, &config, err);
    if (!st)
        st = export_folder(c->os, &config->settings, folder, low ? EXPORT_BF16 : EXPORT_F32,
                           merges ? EXPORT_MERGED : EXPORT_APART, err);
    if (st) return st;
    if (c->say->json) {
        struct arena   scratch = *c->perm;
        struct textbuf b       = event_begin(&scratch, "exported");
        event_str(&b, "folder", folder);
        event_str(&b, "dtype", low ? STR("bf16") : STR("f32"));
        event_end(&b, c->say);
        return STATUS_OK;
    }
    bool adapters = os_is_file(c->os, str_cat(c->perm, folder, STR("/adapter_config.json")));
    if (adapters && !merges)
        say_result(c->say, "%.*s  open it with PEFT: PeftModel.from_pretrained(model, \"%.*s\")\n",
                   STR_ARG(folder), STR_ARG(folder));
    else
        say_result(
            c->say,
            "%.*s  open it with transformers: AutoModelForCausalLM.from_pretrained(\"%.*s\")\n",
            STR_ARG(folder), STR_ARG(folder));
    return STATUS_OK;
}
