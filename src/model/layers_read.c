/* layers_read.c - one entry of a list of layers: which kind it is and what its keys say, read
 * against the rows of layers.def. */
#include "model/layers_int.h"

static const struct layer_kind kinds[] = {
#define LAYER(name, build, takes, alone, keys)                                                     \
    { #name, LAYER_##name, TAKES_##takes, KEY_##alone, keys, build },
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

/* Other frameworks have it as a layer. */
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
        net_fail(n, v->line,
                 "%s is a list, one value per repetition, but it is not inside a repeat",
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
void layer_read(struct net *n, struct scope *scope, struct yaml *entry, struct layer *l)
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
