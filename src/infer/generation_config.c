/* generation_config.c - generation_config.json: the tokens that end a text, and how the next one is drawn. Keys of
 * other ways to write (beams, penalties) are ignored. Models that are older than the file have them in config.json. */
#include "infer/generation_config.h"
#include "base/json.h"
#include <math.h>

static const struct generation_config nothing = { .temperature = NAN, .top_p = NAN, .top_k = -1 };

static enum status add_end(struct generation_config *c, const struct json *v, struct str name,
                           struct err *err)
{
    i64 id;
    if (!json_i64(v, &id) || id < 0 || id > INT32_MAX)
        return err_set(err, STATUS_USAGE,
                       "%.*s: \"eos_token_id\" should be a token's number, or a list of them",
                       STR_ARG(name));
    if (c->end_count < GENERATION_ENDS_MAX) c->ends[c->end_count++] = (u32)id;
    return STATUS_OK;
}

static enum status number(const struct json *root, const char *key, f64 least, f64 most, f64 *out,
                          struct str name, struct err *err)
{
    const struct json *v = json_get(root, str_of(key));
    if (!v || v->kind == JSON_NULL) return STATUS_OK;
    if (json_f64(v, out) && *out >= least && *out <= most) return STATUS_OK;
    return err_set(err, STATUS_USAGE, "%.*s: \"%s\" should be a number from %g to %g",
                   STR_ARG(name), key, least, most);
}

enum status generation_config_parse(struct str name, struct str text, struct arena scratch,
                                    struct generation_config *out, struct err *err)
{
    struct json *root, *ends, *draws;
    struct err   why;
    f64          top_k = -1;
    *out               = nothing;
    if (json_parse(&scratch, text, &root, &why) || root->kind != JSON_MAP)
        return err_set(err, STATUS_USAGE, "%.*s is not a JSON object", STR_ARG(name));
    enum status st = STATUS_OK;
    ends           = json_get(root, STR("eos_token_id"));
    draws          = json_get(root, STR("do_sample"));
    if (ends && ends->kind == JSON_LIST)
        for (const struct json *e = ends->first; !st && e; e = e->next)
            st = add_end(out, e, name, err);
    else if (ends && ends->kind != JSON_NULL) st = add_end(out, ends, name, err);
    if (st || !draws || !str_eq(draws->text, STR("true"))) return st;
    st = number(root, "temperature", 0, 1e3, &out->temperature, name, err);
    if (!st) st = number(root, "top_p", 0, 1, &out->top_p, name, err);
    if (!st) st = number(root, "top_k", 0, 1e9, &top_k, name, err);
    out->top_k = (i64)top_k;
    return st;
}

enum status generation_config_read(struct os *os, struct str folder, struct str base,
                                   struct arena scratch, struct generation_config *out,
                                   struct err *err)
{
    const struct str paths[] = { str_cat(&scratch, folder, STR("/generation_config.json")),
                                 str_cat(&scratch, base, STR("/generation_config.json")),
                                 str_cat(&scratch, base, STR("/config.json")) };
    *out                     = nothing;
    for (i64 i = 0; folder.len && i < COUNT_OF(paths); i++) {
        struct str text;
        if (!os_is_file(os, paths[i])) continue;
        enum status st = os_read_all(os, paths[i], &scratch, &text, err);
        return st ? st : generation_config_parse(paths[i], text, scratch, out, err);
    }
    return STATUS_OK;
}
