/* cmd_show.c - frugal show RUN.YAML: every setting and its origin, then the compiled programs: what
 * each instruction costs in FLOPs, bytes moved and memory. --passes: how the compiler came to them. */
#include "cli/commands.h"
#include "cli/jobs.h"
#include "ir/collective.h"
#include "train/train.h"

enum status command_show(struct cli *c, struct err *err);

enum { SCRATCH_BYTES = 64 << 20, RESERVE_GIB = 64 }; /* address space only */

static void show_settings(struct cli *c, const struct config *config)
{
    if (!c->say->json) say_heading(c->say, "Settings");
    for (i64 i = 0; i < OPTION_COUNT; i++) {
        struct arena scratch = *c->perm;
        struct str   value   = option_shown_text(&options[i], &config->settings, &scratch);
        struct str   origin  = config_origin_text(config, &options[i], &scratch);
        if (c->say->json) {
            struct textbuf b = event_begin(&scratch, "setting");
            event_str(&b, "key", options[i].key);
            event_str(&b, "value", value);
            event_str(&b, "origin", origin);
            event_end(&b, c->say);
        } else {
            say_result(c->say, "  %-21.*s %-24.*s %.*s\n", STR_ARG(options[i].key),
                       STR_ARG(value.len ? value : STR("-")), STR_ARG(origin));
        }
    }
}

static const struct say_column instr_columns[] = {
    { "op", -16, 0 },  { "name", -24, 0 }, { "result", -20, 2 }, { "kernel", -16, 4 },
    { "FLOPs", 9, 0 }, { "moved", 9, 3 },  { "memory", 9, 1 },
};
static const struct say_table instr_table = { instr_columns, COUNT_OF(instr_columns), "  ", " " };

/* One instruction: what it computes, what it costs, what its results take. */
static void show_instr(struct cli *c, const struct program *p, const struct instr *ins)
{
    struct arena       scratch = *c->perm;
    const struct node *n       = &p->graph->nodes[ins->node];
    struct sig         sig     = graph_sig(p->graph, n, &scratch);
    struct cost        cost    = op_cost(&sig);
    struct str         op = op_text(&scratch, n->op, &n->at), type = STR("");
    i64                bytes = ins->work_bytes;
    for (i32 i = 0; i < node_results(n); i++) bytes += type_bytes(graph_type(p->graph, n->out + i));
    if (node_results(n)) type = type_text(&scratch, graph_type(p->graph, n->out));

    struct str flops = text_si(&scratch, cost.flops), moved = text_bytes(&scratch, cost.bytes);
    struct str memory = text_bytes(&scratch, (f64)bytes);
    say_row(c->say, &instr_table,
            (const struct str[]){ op, n->name, type, ins->kernel, flops, moved, memory });
}

/* Of a program that packs sequences: what it is made for, and what a batch of average length takes. */
static void show_rows(struct cli *c, const struct program *p, const struct program *typical)
{
    struct arena scratch = *c->perm;
    struct str   flops   = text_si(&scratch, program_cost(typical, scratch).flops);
    say_result(c->say,
               "  %lld rows without padding at most; also compiled for fewer, in steps of %lld: at "
               "the average length, %lld rows, %.*s FLOPs\n",
               (long long)p->rows, (long long)program_row_step(p), (long long)typical->rows,
               STR_ARG(flops));
}

static void show_program(struct cli *c, const struct program_set *set, enum program_id id)
{
    const struct program *p = set->programs[id], *typical = program_typical(set, id);
    struct arena          scratch = *c->perm;
    struct cost           cost    = program_cost(p, scratch);
    struct str            name    = p->graph->name;
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "program");
        event_str(&b, "name", name);
        event_i64(&b, "instructions", p->instr_count);
        event_f64(&b, "flops", cost.flops);
        event_f64(&b, "bytes", cost.bytes);
        event_i64(&b, "memory_bytes", p->bytes);
        if (p->rows) {
            event_i64(&b, "rows", p->rows);
            event_i64(&b, "row_step", program_row_step(p));
            event_i64(&b, "rows_average", typical->rows);
            event_f64(&b, "flops_average", program_cost(typical, scratch).flops);
        }
        event_end(&b, c->say);
        return;
    }
    say_result(c->say, "\n");
    say_heading(c->say, str_z(&scratch, str_fmt(&scratch, "Program %.*s", STR_ARG(name))));
    say_row(c->say, &instr_table, NULL);
    for (i32 i = 0; i < p->instr_count; i++) show_instr(c, p, &p->instrs[i]);
    struct str flops = text_si(&scratch, cost.flops), moved = text_bytes(&scratch, cost.bytes);
    struct str memory = text_bytes(&scratch, (f64)p->bytes), none = STR("");
    say_row(c->say, &instr_table,
            (const struct str[]){ STR("all"), none, none, none, flops, moved, memory });
    if (p->rows) show_rows(c, p, typical);
}

static void show_totals(struct cli *c, const struct program_set *set)
{
    struct arena scratch               = *c->perm;
    i64          bytes[VALUE_TEMP + 1] = { 0 };
    for (i32 i = 0; i < set->persistent_count; i++)
        bytes[set->persistents[i].kind] += type_bytes(set->persistents[i].type);
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "memory");
        event_i64(&b, "parameter_bytes", bytes[VALUE_PARAM]);
        event_i64(&b, "gradient_bytes", bytes[VALUE_GRAD]);
        event_i64(&b, "state_bytes", bytes[VALUE_STATE]);
        event_i64(&b, "arena_bytes", set->arena_bytes);
        event_end(&b, c->say);
        return;
    }
    say_result(c->say, "\n");
    say_heading(c->say, "Memory");
    say_result(c->say,
               "  parameters %.*s, gradients %.*s, optimiser %.*s; all with activations "
               "%.*s\n",
               STR_ARG(text_bytes(&scratch, (f64)bytes[VALUE_PARAM])),
               STR_ARG(text_bytes(&scratch, (f64)bytes[VALUE_GRAD])),
               STR_ARG(text_bytes(&scratch, (f64)bytes[VALUE_STATE])),
               STR_ARG(text_bytes(&scratch, (f64)set->arena_bytes)));
}

/* What "auto" came to. */
static void show_choice(struct cli *c, const char *key, struct str value, struct str reason)
{
    struct arena scratch = *c->perm;
    if (!reason.len) return;
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "choice");
        event_str(&b, "key", str_of(key));
        event_str(&b, "value", value);
        event_str(&b, "reason", reason);
        event_end(&b, c->say);
    } else {
        say_result(c->say, "  %-21s %.*s: %.*s\n", key, STR_ARG(value), STR_ARG(reason));
    }
}

static void show_pass(struct cli *c, const struct pass_text *p, struct str program)
{
    struct arena scratch = *c->perm;
    if (c->say->json) {
        struct textbuf b = event_begin(&scratch, "pass");
        event_str(&b, "program", program);
        event_str(&b, "pass", p->pass);
        event_i64(&b, "nodes", p->nodes);
        event_str(&b, "text", p->text);
        event_end(&b, c->say);
        return;
    }
    say_result(c->say, "graph %.*s after %.*s, %d nodes\n", STR_ARG(program), STR_ARG(p->pass),
               p->nodes);
    say_text(c->say, p->text);
    say_result(c->say, "\n");
}

/* Each program's graph, as every pass left it. */
static void show_passes(struct cli *c, const struct program_set *set)
{
    for (i32 id = 0; id < PROGRAM_COUNT; id++)
        for (i32 i = 0; i < set->passes.count; i++)
            if ((i32)set->passes.items[i].program == id)
                show_pass(c, &set->passes.items[i], set->programs[id]->graph->name);
}

static void show_programs(struct cli *c, const struct train_compiled *found)
{
    const struct program_set *set = found->set;
    if (!c->request->given[FLAG_text])
        show_choice(c, "train.optimiser", found->optimiser, found->optimiser_reason);
    for (i64 i = 0; i < PROGRAM_COUNT; i++) {
        if (!set->programs[i]) continue;
        if (c->request->given[FLAG_text]) {
            struct arena text = *c->perm, scratch = arena_part(&text, SCRATCH_BYTES);
            say_text(c->say, program_print(set->programs[i], &text, scratch));
        } else {
            show_program(c, set, (enum program_id)i);
        }
    }
    if (!c->request->given[FLAG_text]) show_totals(c, set);
}

/* 8, or 2x4: so many machines with so many each. */
static enum status ranks_of(const struct request *r, struct settings *s, struct err *err)
{
    struct str text = r->value[FLAG_ranks], each = text, machines = STR("1");
    i64        n, m;
    if (str_find(text, 'x') >= 0) str_cut(&each, 'x', &machines);
    bool numbers = str_i64(each, &n) && str_i64(machines, &m);
    if (!numbers || m < 1 || m > RANKS_MAX || n < 1 || n > RANKS_MAX / m)
        return err_set(
            err, STATUS_USAGE,
            "--ranks=%.*s is not a number from 1 to %d, nor MxN for M machines with N each",
            (int)MIN(text.len, 40), text.data, RANKS_MAX);
    s->shown_ranks    = (i32)(m * n);
    s->shown_machines = (i32)m;
    return STATUS_OK;
}

enum status command_show(struct cli *c, struct err *err)
{
    struct config        *config;
    struct train_compiled found = { 0 };
    struct arena          run   = arena_open((i64)RESERVE_GIB << 30); /* data and programs */
    enum status           st    = config_of_request(c->request, c->os, c->perm, &config, err);
    if (!st && !run.begin)
        st = err_set(err, STATUS_WORLD, "the system refuses to reserve address space");
    if (!st && c->request->given[FLAG_ranks]) st = ranks_of(c->request, &config->settings, err);
    bool passes = c->request->given[FLAG_passes], text = c->request->given[FLAG_text];
    if (!st && !passes && !text) show_settings(c, config);
    if (!st) config->settings.keep_passes = passes;
    if (!st) st = train_compile(c->os, &config->settings, &run, &found, err);
    if (!st && passes) show_passes(c, found.set);
    if (!st && (text || !passes)) show_programs(c, &found);
    if (run.begin) arena_close(&run);
    return st;
}
