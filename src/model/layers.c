/* layers.c - the user's own network, read from a list of layers in the run file.
 *
 * Every entry is looked up in layers.def, its keys are read against the row, what comes in is
 * checked against what the layer takes, and the layer's function appends it. Whatever is wrong is
 * said with the file's line. */
#include "model/layers_int.h"
#include <string.h>

enum { LAYERS_MAX = 4096, NESTING_MAX = 8 };

static const struct layer_kind kinds[] = {
#define LAYER(name, takes, alone, keys)                                                            \
    { #name, LAYER_##name, TAKES_##takes, KEY_##alone, keys, layer_##name },
#include "model/layers.def"
#undef LAYER
};

/* ---- what a key may say */

typedef bool key_reader(struct str text, struct key_value *v);

static bool read_count(struct str text, struct key_value *v)
{
    return str_i64(text, &v->count) && v->count >= 1 && v->count <= MODEL_COUNT_MAX;
}

static bool read_padding(struct str text, struct key_value *v)
{
    if (str_eq(text, STR("same"))) return v->count = PADDING_SAME, true;
    if (str_eq(text, STR("valid"))) return v->count = 0, true;
    return str_i64(text, &v->count) && v->count >= 0 && v->count <= MODEL_COUNT_MAX;
}

static bool read_rate(struct str text, struct key_value *v)
{
    return str_f64(text, &v->number) && v->number >= 0 && v->number < 1;
}

static bool read_flag(struct str text, struct key_value *v)
{
    v->count = str_eq(text, STR("true"));
    return v->count || str_eq(text, STR("false"));
}

static bool read_shortcut(struct str text, struct key_value *v)
{
    v->count = str_eq(text, STR("identity")) ? SHORTCUT_IDENTITY : SHORTCUT_AUTO;
    return v->count == SHORTCUT_IDENTITY || str_eq(text, STR("auto"));
}

static bool read_activation(struct str text, struct key_value *v)
{
    i32 op = NO_OP;
    if (str_eq(text, STR("none"))) return v->count = NO_OP, true;
    bool found = part_activation_find(text, &op);
    v->count   = op;
    return found;
}

static bool read_nothing(struct str text, struct key_value *v)
{
    (void)text;
    (void)v;
    return false;
}

static const struct {
    const char *name;
    key_reader *read;
    const char *must;
} keys[] = {
#define KEY(name, reader, must) { #name, reader, must },
#include "model/layers.def"
#undef KEY
};

/* ---- messages */

i32 net_fail(struct net *n, i32 line, const char *format, ...)
{
    if (n->status) return -1;
    struct arena scratch = *n->b->g->perm;
    struct str   file    = n->b->m->config.file;
    va_list      args;
    va_start(args, format);
    struct str text = str_vfmt(&scratch, format, args);
    va_end(args);
    n->status =
        err_set(n->err, STATUS_USAGE, "%.*s:%d: %.*s", STR_ARG(file), (int)line, STR_ARG(text));
    return -1;
}

struct str net_shape(struct net *n, i32 x)
{
    struct type t    = graph_type(n->b->g, x);
    struct str  text = type_text(n->b->g->perm, type_of(t.dtype, part_sample(n->b, x)));
    i64         from = str_find(text, '[');
    return from < 0 ? STR("one number") : str_sub(text, from, text.len);
}

/* Softmax and such: words that people know from elsewhere and that mean something here. */
static i32 fail_softmax(struct net *n, i32 line)
{
    return net_fail(n, line, "softmax is part of the loss here; leave it out");
}

/* The known word nearest to a wrong one, if it is near enough to be a slip of the hand. */
struct near {
    struct str wrong, best;
    i64        distance;
};

static void near_try(struct near *near, struct str word, struct arena scratch)
{
    i64 d = str_distance(near->wrong, word, scratch);
    if (near->best.data && d >= near->distance) return;
    near->best     = word;
    near->distance = d;
}

static struct str near_hint(struct net *n, const struct near *near)
{
    if (!near->best.data || near->distance > 2 + near->wrong.len / 4) return STR("");
    return str_fmt(n->b->g->perm, "; did you mean %.*s?", STR_ARG(near->best));
}

static i32 fail_unknown(struct net *n, struct str name, i32 line)
{
    struct near  near    = { .wrong = name };
    struct arena scratch = *n->b->g->perm;
    if (str_eq(name, STR("softmax"))) return fail_softmax(n, line);
    for (i64 i = 0; i < COUNT_OF(kinds); i++) near_try(&near, str_of(kinds[i].name), scratch);
    for (i32 i = 0; part_activation_name(i).data; i++)
        near_try(&near, part_activation_name(i), scratch);
    struct str hint = near_hint(n, &near);
    return net_fail(n, line, "there is no layer '%.*s'%.*s", STR_ARG(name), STR_ARG(hint));
}

/* ---- one entry: its kind and its keys */

/* Walks a row's keys: "units stride=1" gives (units, NULL), (stride, "1"). */
static bool next_key(struct str *rest, enum key *key, struct str *standard)
{
    struct str word, name;
    if (!str_cut(rest, ' ', &word)) return false;
    i64 equals = str_find(word, '=');
    name       = equals < 0 ? word : str_sub(word, 0, equals);
    *standard  = equals < 0 ? (struct str){ 0 } : str_sub(word, equals + 1, word.len);
    for (i32 i = 0; i < KEY_COUNT; i++) {
        if (str_eq(str_of(keys[i].name), name)) return *key = (enum key)i, true;
    }
    ASSERT(!"a row of layers.def names a key that has no row");
    return false;
}

static enum key find_key(const struct layer_kind *kind, struct str name)
{
    struct str rest = str_of(kind->keys), standard;
    enum key   key;
    while (next_key(&rest, &key, &standard)) {
        if (str_eq(str_of(keys[key].name), name)) return key;
    }
    return KEY_NONE;
}

static i32 fail_key(struct net *n, const struct layer_kind *kind, const struct yaml *at)
{
    struct near  near    = { .wrong = at->key };
    struct arena scratch = *n->b->g->perm;
    struct str   rest    = str_of(kind->keys), standard;
    enum key     key;
    while (next_key(&rest, &key, &standard)) near_try(&near, str_of(keys[key].name), scratch);
    struct str hint = near_hint(n, &near);
    return net_fail(n, at->line, "%s has no key '%.*s'%.*s", kind->name, STR_ARG(at->key),
                    STR_ARG(hint));
}

/* Inside a repeat a list holds one value a repetition; the last one stays for the rest. */
static const struct yaml *value_of_turn(struct net *n, const struct yaml *v, enum key key)
{
    if (v->kind != YAML_LIST) return v;
    if (!n->turns)
        net_fail(n, v->line, "%s is a list, one value a repetition, but no repeat is around it",
                 keys[key].name);
    else if (v->count > n->turns)
        net_fail(n, v->line, "%s has %lld values for %lld repetitions", keys[key].name,
                 (long long)v->count, (long long)n->turns);
    const struct yaml *item = v->first;
    for (i64 i = 0; item && item->next && i < n->turn; i++) item = item->next;
    return item ? item : v;
}

static void read_key(struct net *n, struct layer *l, enum key key, struct yaml *v)
{
    struct key_value *value = &l->key[key];
    value->given            = true;
    if (key == KEY_layers) {
        value->list = v;
        if (v->kind != YAML_LIST || !v->count)
            net_fail(n, v->line, "%s needs a list of layers", l->kind->name);
        return;
    }
    const struct yaml *one = value_of_turn(n, v, key);
    if (n->status) return;
    if (key == KEY_activation && str_eq(one->text, STR("softmax"))) fail_softmax(n, one->line);
    else if (one->kind != YAML_SCALAR || !keys[key].read(one->text, value))
        net_fail(n, one->line, "%s must be %s, not '%.*s'", keys[key].name, keys[key].must,
                 STR_ARG(one->text));
}

/* `v` is what stands after the layer's name: nothing, one value, or a map of keys. */
static void read_keys(struct net *n, struct layer *l, struct yaml *v)
{
    struct str rest = str_of(l->kind->keys), standard;
    enum key   key;
    while (next_key(&rest, &key, &standard)) {
        if (!standard.len) continue;
        bool fits = keys[key].read(standard, &l->key[key]);
        ASSERT(fits);
        l->key[key].given = true;
    }
    if (v && v->kind == YAML_MAP) {
        for (struct yaml *k = v->first; k && !n->status; k = k->next) {
            key = find_key(l->kind, k->key);
            if (key == KEY_NONE) fail_key(n, l->kind, k);
            else read_key(n, l, key, k);
        }
    } else if (v && (v->kind == YAML_LIST || v->text.len)) {
        if (l->kind->alone == KEY_NONE) net_fail(n, l->line, "%s takes no value", l->kind->name);
        else read_key(n, l, l->kind->alone, v);
    }
    rest = str_of(l->kind->keys);
    while (next_key(&rest, &key, &standard)) {
        if (!standard.data && !l->key[key].given)
            net_fail(n, l->line, "%s needs %s", l->kind->name, keys[key].name);
    }
}

/* An entry is `name`, `name: value` or `name: {keys}`; the name of an activation is short for
 * the layer activation. */
static void read_entry(struct net *n, struct scope *scope, struct yaml *entry, struct layer *l)
{
    struct yaml *v    = entry->kind == YAML_MAP ? entry->first : NULL;
    struct str   name = v ? v->key : entry->text;
    i32          op;
    l->line = entry->line;
    if (entry->kind == YAML_LIST || (entry->kind == YAML_MAP && entry->count != 1)) {
        net_fail(n, l->line, "one entry is one layer, as in dense: {units: 128, activation: relu}");
        return;
    }
    for (i64 i = 0; i < COUNT_OF(kinds); i++) {
        if (str_eq(str_of(kinds[i].name), name)) l->kind = &kinds[i];
    }
    if (!l->kind && part_activation_find(name, &op)) {
        l->kind = &kinds[LAYER_activation];
        if (v && (v->kind != YAML_SCALAR || v->text.len))
            net_fail(n, l->line, "%.*s takes no value", STR_ARG(name));
        l->key[KEY_activation] = (struct key_value){ .count = op, .given = true };
        v                      = NULL;
    }
    if (!l->kind) {
        fail_unknown(n, name, l->line);
        return;
    }
    l->scope = scope;
    if (l->kind->id != LAYER_repeat) /* which only stands for what is in it */
        l->path = str_fmt(n->b->g->perm, "%.*s%s%lld", STR_ARG(scope->path), l->kind->name,
                          (long long)++scope->numbers[l->kind->id]);
    read_keys(n, l, v);
}

/* ---- the list */

static void check_takes(struct net *n, const struct layer *l, i32 x)
{
    struct str  shape  = net_shape(n, x);
    bool        tokens = !dtype_is_float(graph_type(n->b->g, x).dtype);
    i32         rank   = part_sample(n->b, x).rank;
    const char *hint   = n->flattened ? "; put it before flatten" : "";
    const char *name   = l->kind->name;
    switch (l->kind->takes) {
    case TAKES_ANY: break;
    case TAKES_IMAGE:
        if (tokens || rank != 3)
            net_fail(n, l->line, "%s needs an image [H,W,C], but %.*s gives %.*s%s", name,
                     STR_ARG(n->above), STR_ARG(shape), hint);
        break;
    case TAKES_TOKENS:
        if (!tokens)
            net_fail(n, l->line, "%s needs tokens, but %.*s gives numbers %.*s", name,
                     STR_ARG(n->above), STR_ARG(shape));
        break;
    case TAKES_NUMBERS:
        if (tokens)
            net_fail(n, l->line, "%s needs numbers, but %.*s gives tokens; put embedding before it",
                     name, STR_ARG(n->above));
        else if (!rank)
            net_fail(n, l->line,
                     "%s needs at least one axis, but %.*s gives %.*s; put flatten "
                     "before it",
                     name, STR_ARG(n->above), STR_ARG(shape));
        break;
    }
}

static i32 net_layer(struct net *n, struct scope *scope, struct yaml *entry, i32 x)
{
    struct layer l = { 0 };
    struct err   wrong;
    read_entry(n, scope, entry, &l);
    if (!n->status) check_takes(n, &l, x);
    if (!n->status && ++n->layers > LAYERS_MAX)
        net_fail(n, l.line, "the network has more than %d layers", LAYERS_MAX);
    if (n->status) return -1;

    x = l.kind->build(n, &l, x);
    if (!n->status && graph_status(n->b->g, &wrong))
        net_fail(n, l.line, "%s: %s", l.kind->name, wrong.text);
    n->above     = str_fmt(n->b->g->perm, "%s above", l.kind->name);
    n->flattened = n->flattened || l.kind->id == LAYER_flatten;
    n->line      = l.line;
    return x;
}

i32 net_list(struct net *n, struct scope *scope, const struct yaml *list, i32 x)
{
    if (n->nesting == NESTING_MAX)
        return net_fail(n, list->line, "layers are nested more than %d deep", NESTING_MAX);
    n->nesting++;
    for (struct yaml *e = list->first; e && !n->status; e = e->next) x = net_layer(n, scope, e, x);
    n->nesting--;
    return x;
}

/* ---- the model */

/* Layers read one feed: x, or dense where the data has no x. */
static struct str input_name(const struct model *m)
{
    return feeds_find(&m->feeds, STR("x")) ? STR("x") : STR("dense");
}

enum status layers_check(const struct model *m, struct err *err)
{
    const struct yaml *list  = m->config.layers;
    bool               x     = feeds_find(&m->feeds, STR("x")) != NULL;
    bool               dense = feeds_find(&m->feeds, STR("dense")) != NULL;
    if (!list || list->kind != YAML_LIST || !list->count)
        return err_set(err, STATUS_USAGE, "model.kind=layers needs model.layers, a list of layers");
    if (!x && !dense)
        return err_set(err, STATUS_USAGE, "this data has no x for the layers to read");
    if (x && dense)
        return err_set(err, STATUS_USAGE,
                       "model.kind=layers reads one feed, but this data has x and dense; "
                       "model.kind=ranker reads both");
    return STATUS_OK;
}

/* The last layer must give one number a class for each target, or one for a click. */
static void net_loss(struct net *n, i32 x)
{
    const struct feed *y     = feeds_find(&n->b->m->feeds, STR("y"));
    struct shape       s     = part_sample(n->b, x);
    struct str         shape = net_shape(n, x);
    i32                node  = n->b->g->values[x].node;
    if (y->type.dtype == DT_I32) {
        struct shape want     = y->type.shape;
        want.dim[want.rank++] = y->range;
        if (shape_eq(want, s)) part_loss_classes(n->b, x);
        else
            net_fail(n, n->line,
                     "the last layer gives %.*s, but the target has %lld classes%s; "
                     "end with dense: %lld",
                     STR_ARG(shape), (long long)y->range, want.rank > 1 ? " at every position" : "",
                     (long long)y->range);
    } else if (node >= 0 && n->b->g->nodes[node].op == OP_SIGMOID) {
        net_fail(n, n->line, "sigmoid is part of the loss here; leave it out at the end");
    } else if (y->type.shape.rank || shape_count(s) != 1) {
        net_fail(n, n->line,
                 "the last layer gives %.*s, but the target is one number; end with "
                 "dense: 1",
                 STR_ARG(shape));
    } else {
        part_loss_clicks(n->b, build_reshape(n->b->g, STR("score"), x, shape_1(n->b->batch)));
    }
}

enum status layers_build(struct builder *b, struct err *err)
{
    struct net   n   = { .b = b, .err = err, .above = STR("the data") };
    struct scope top = { 0 };
    i32          x   = part_input(b, input_name(b->m));
    if (graph_type(b->g, x).dtype != DT_I32) x = part_float(b, x);
    x = net_list(&n, &top, b->m->config.layers, x);
    if (!n.status && !dtype_is_float(graph_type(b->g, x).dtype))
        net_fail(&n, n.line, "the layers leave the tokens as they are; begin with embedding");
    if (!n.status) net_loss(&n, x);
    return n.status ? n.status : graph_status(b->g, err);
}
