/* completion_names.c - names that the Tab key offers as values: machines, clouds and GPUs of the catalogue, and
 * models that `frugal plan` knows. */
#include "cli/help.h"
#include "plan/catalogue.h"
#include "plan/known.h"

/* Once each: machines of several clouds may have one name. */
static void add_name(struct textbuf *b, struct str name, i64 from)
{
    struct str rest = str_sub(textbuf_str(b), from, b->len), word;
    while (str_cut(&rest, ' ', &word))
        if (str_eq(word, name)) return;
    textbuf_fmt(b, "%s%.*s", b->len > from ? " " : "", STR_ARG(name));
}

void completion_names(struct textbuf *b, enum completion what)
{
    struct catalogue *c       = catalogue_new(b->perm);
    struct arena      scratch = arena_part(b->perm, 1 << 16);
    i64               from    = b->len;
    if (what == COMPLETE_MODELS)
        for (i64 i = 0; i < known_count(); i++) add_name(b, known_at(i)->name, from);
    for (i64 i = 0; i < c->machine_count && what == COMPLETE_MACHINES; i++)
        add_name(b, c->machines[i].name, from);
    for (i64 i = 0; i < c->machine_count && what == COMPLETE_CLOUD_MACHINES; i++) {
        const struct machine *m = &c->machines[i];
        add_name(b, str_fmt(&scratch, "%.*s/%.*s", STR_ARG(m->provider), STR_ARG(m->name)), from);
    }
    for (i64 i = 0; i < c->machine_count && what == COMPLETE_CLOUDS; i++)
        add_name(b, c->machines[i].provider, from);
    for (i64 i = 0; i < c->machine_count && what == COMPLETE_REGIONS; i++)
        add_name(b, c->machines[i].region, from);
    for (i64 i = 0; i < c->gpu_count && what == COMPLETE_GPUS; i++)
        add_name(b, c->gpus[i].name, from);
}
