/* out_folder.c - training writes a file, and that is exported: a failure in between loses nothing. */
#include "infer/out_folder.h"
#include "infer/export.h"
#include "infer/model_named.h"
#include "train/train.h"

static struct str folder_of(struct str out)
{
    return str_ends(out, STR("/")) ? str_sub(out, 0, out.len - 1) : STR("");
}

enum status out_folder_check(struct os *os, const struct settings *settings, struct err *err)
{
    struct str out = settings->train.out, folder = folder_of(out);
    struct err why;
    if (!folder.len || !export_check(os, settings, folder, &why)) return STATUS_OK;
    return err_set(err, why.status, "train.out=%.*s: %s", STR_ARG(out), why.text);
}

enum status out_folder_write(struct os *os, struct str out, enum status st, struct arena *perm,
                             struct err *err)
{
    struct str     folder = folder_of(out), file = train_out_file(perm, out);
    struct config *trained;
    struct err     why;
    if (!folder.len) return st;
    enum status bad = model_named(os, perm, STR("export"), file, NULL, 0, &trained, &why);
    if (!bad) bad = export_folder(os, &trained->settings, folder, EXPORT_F32, EXPORT_APART, &why);
    if (bad)
        return err_set(err, bad, "the weights are in %.*s, and no folder could be made of them: %s",
                       STR_ARG(file), why.text);
    os->remove(os, file, NULL);
    return st;
}
