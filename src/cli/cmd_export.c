/* cmd_export.c - frugal export MODEL FOLDER|FILE.gguf: what was trained, for transformers or for llama.cpp. */
#include "cli/jobs.h"
#include "infer/export.h"
#include "model/hf.h"

enum status command_export(struct cli *c, struct err *err);

/* What --dtype may be for a folder, then for a .gguf; the first is what it is if nobody says. */
static const struct {
    const char *word;
    bool        gguf;
    i32         value;
} dtypes[] = {
    { "f32", false, EXPORT_F32 }, { "bf16", false, EXPORT_BF16 }, { "f16", true, GGUF_F16 },
    { "q8_0", true, GGUF_Q8_0 },  { "f32", true, GGUF_F32 },
};

static enum status dtype_of(struct str asked, bool gguf, i64 *row, struct err *err)
{
    for (i64 i = 0; i < COUNT_OF(dtypes); i++) {
        *row = i;
        if (dtypes[i].gguf == gguf && (!asked.len || str_eq(asked, str_of(dtypes[i].word))))
            return STATUS_OK;
    }
    return err_set(err, STATUS_USAGE, "--dtype takes %s, not %.*s",
                   gguf ? "f16, q8_0 or f32 for a .gguf" : "f32 or bf16", (int)MIN(asked.len, 40),
                   asked.data);
}

/* What transformers opens it with. */
static const char *class_of(struct cli *c, struct str folder, struct arena scratch)
{
    struct str          path = str_cat(&scratch, folder, STR("/config.json")), text;
    struct model_config m    = { 0 };
    bool                read = !os_read_all(c->os, path, &scratch, &text, NULL) &&
                !hf_config_read(path, text, &scratch, &m, NULL);
    return read && hf_is_encoder(&m) ? "AutoModelForSequenceClassification"
                                     : "AutoModelForCausalLM";
}

static void show(struct cli *c, struct str to, const char *dtype, bool gguf, bool merges)
{
    struct arena scratch = *c->perm;
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "exported");
        event_str(&b, "folder", to);
        event_str(&b, "dtype", str_of(dtype));
        event_end(&b, c->say);
        return;
    }
    bool adapters = os_is_file(c->os, str_cat(&scratch, to, STR("/adapter_config.json")));
    if (gguf)
        say_result(c->say, "%.*s  open it with llama.cpp: llama-cli -m %.*s\n", STR_ARG(to),
                   STR_ARG(to));
    else if (adapters && !merges)
        say_result(c->say, "%.*s  open it with PEFT: PeftModel.from_pretrained(model, \"%.*s\")\n",
                   STR_ARG(to), STR_ARG(to));
    else
        say_result(c->say, "%.*s  open it with transformers: %s.from_pretrained(\"%.*s\")\n",
                   STR_ARG(to), class_of(c, to, scratch), STR_ARG(to));
}

enum status command_export(struct cli *c, struct err *err)
{
    const struct request *r = c->request;
    struct config        *config;
    bool                  merges = r->given[FLAG_merge];
    i64                   row;
    if (r->argument_count < 2)
        return err_set(err, STATUS_USAGE,
                       "expected a model and a folder: frugal export last FOLDER");
    struct str  to   = r->arguments[1];
    bool        gguf = str_ends(to, STR(".gguf"));
    enum status st   = dtype_of(r->value[FLAG_dtype], gguf, &row, err);
    if (!st) st = model_of_request(c, 2, &config, err);
    if (!st && gguf)
        st = export_gguf(c->os, &config->settings, to, (enum gguf_type)dtypes[row].value, err);
    else if (!st)
        st = export_folder(c->os, &config->settings, to, (enum export_dtype)dtypes[row].value,
                           merges ? EXPORT_MERGED : EXPORT_APART, err);
    if (!st) show(c, to, dtypes[row].word, gguf, merges);
    return st;
}
