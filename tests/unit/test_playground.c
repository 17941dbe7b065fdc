/* test_playground.c - what the playground answers is what `frugal plan` would; levers sum to the bill; nobody's words
 * do harm. */
#include "base/json.h"
#include "harness.h"
#include "job/playground.h"

static struct playground *play_open(struct arena *perm, const char *run_file)
{
    struct playground *p;
    struct err         err = { 0 };
    CHECK_EQ(playground_open(&p, os_real(), str_of(run_file), STR(""), perm, &err), STATUS_OK);
    return p;
}

static struct json *answer_to(struct playground *p, struct arena *perm, const char *text)
{
    struct str   words[32], rest = str_of(text), word;
    i64          count = 0;
    struct json *root;
    while (str_cut(&rest, ' ', &word)) words[count++] = word;
    CHECK_EQ(json_parse(perm, playground_answer(p, words, count, perm), &root, NULL), STATUS_OK);
    return root;
}

static f64 number(const struct json *map, const char *key)
{
    f64 v = NAN;
    CHECK(json_get(map, str_of(key)) != NULL);
    json_f64(json_get(map, str_of(key)), &v);
    return v;
}

TEST(an_answer_is_the_plan_of_the_command_line)
{
    struct playground   *p = play_open(perm, "");
    struct plan_request  r = { .command      = STR("plan"),
                               .what         = STR("gpt2"),
                               .deadline_s   = 10 * 3600,
                               .budget_usd   = NAN,
                               .tokens       = 3e9,
                               .target       = NAN,
                               .batch_tokens = NAN,
                               .spot         = true };
    struct plan_question q;
    struct arena         memory = arena_open((i64)16 << 30);
    CHECK_EQ(plan_open(&q, os_real(), &r, perm, memory, NULL), STATUS_OK);
    for (i64 again = 0; again < 2; again++) { /* the second from kept programs */
        struct json *a =
            answer_to(p, perm, "what=gpt2 tokens=3e9 deadline=10 market=spot part=rows");
        struct json *row = json_get(a, STR("rows"))->first;
        CHECK_EQ(json_get(a, STR("compiled"))->text.len, again ? 5 : 4); /* false, true */
        for (i64 i = 0; i < MIN(q.result->count, 12); i++, row = row->next) {
            CHECK_EQ(number(row, "usd"), q.result->rows[i].bill.total);
            CHECK_EQ(number(row, "hours"), q.result->rows[i].hours);
            CHECK_STR(json_get(row, STR("machine"))->text, q.result->rows[i].device->name);
        }
    }
    plan_close(&q);
    playground_close(p);
    arena_close(&memory);
}

TEST(levers_sum_to_the_bill)
{
    static const char *const asked[] = { "what=gpt2 tokens=1e10",
                                         "what=gpt2 tokens=1e10 precision=fp32 stop=0.6",
                                         "what=gpt2 tokens=1e10 deadline=2 market=on-demand",
                                         "what=gpt2 tokens=1e10 market=spot spot=1 save=600",
                                         "what=gpt2 tokens=1e10 lora=16 precision=bf16 stop=0.5" };
    struct playground       *p       = play_open(perm, "");
    for (i64 i = 0; i < COUNT_OF(asked); i++) {
        struct json *a   = answer_to(p, perm, asked[i]);
        f64          sum = 0, usd = number(json_get(a, STR("rows"))->first, "usd");
        for (struct json *l = json_get(a, STR("levers"))->first; l; l = l->next)
            sum += number(l, "usd");
        CHECK_NEAR(sum, usd, 1e-9 * usd); /* rounding of a few sums of the same size */
        f64 last = INFINITY;
        for (struct json *d = json_get(a, STR("deadlines"))->first; d; d = d->next) {
            CHECK(number(d, "hours") < last);
            last = number(d, "hours");
        }
    }
    playground_close(p);
}

TEST(levers_have_an_effect)
{
    struct playground *p     = play_open(perm, "");
    f64                plain = number(
                       json_get(answer_to(p, perm, "what=gpt2 tokens=1e10 part=rows"), STR("rows"))->first, "usd");
    static const char *const dearer[] = { "tokens=2e10",        "precision=fp32",
                                          "market=on-demand",   "depth=1.5",
                                          "width=1.5",          "gpus=8",
                                          "save=10 market=spot" };
    for (i64 i = 0; i < COUNT_OF(dearer); i++) {
        struct arena here = *perm;
        struct str   text = str_fmt(&here, "what=gpt2 tokens=1e10 part=rows %s", dearer[i]);
        CHECK(number(json_get(answer_to(p, &here, text.data), STR("rows"))->first, "usd") >= plain);
    }
    f64 half =
        number(json_get(answer_to(p, perm, "what=gpt2 tokens=1e10 stop=0.5 part=rows"), STR("rows"))
                   ->first,
               "usd");
    CHECK(half < plain);
    playground_close(p);
}

/* Fewer weights have gradients and moments: less memory and less work, and another program. */
TEST(adapters_are_a_lever)
{
    struct playground *p     = play_open(perm, "");
    struct json       *whole = answer_to(p, perm, "what=gpt2 tokens=1e9 machine=aws/g5.xlarge");
    struct json *lora    = answer_to(p, perm, "what=gpt2 tokens=1e9 machine=aws/g5.xlarge lora=16");
    const struct json *a = json_get(whole, STR("rows"))->first,
                      *b = json_get(lora, STR("rows"))->first;
    CHECK(number(b, "usd") < number(a, "usd"));
    CHECK(number(lora, "parameters") > number(whole, "parameters"));
    CHECK(str_ends(json_get(lora, STR("command"))->text, STR(" --lora 16")));
    CHECK_STR(json_get(json_get(lora, STR("levers"))->first->next, STR("name"))->text, "LoRA");
    playground_close(p);
}

TEST(words_of_anybody_do_no_harm)
{
    static const char *const asked[] = { "what=../../etc/passwd.json",
                                         "what=/etc/passwd",
                                         "what=run",
                                         "what=x.yaml",
                                         "what=gpt2 tokens=-1",
                                         "what=gpt2 tokens=nan",
                                         "what=gpt2 gpus=3",
                                         "what=gpt2 machine=none",
                                         "what=gpt2 cloud=none",
                                         "what=gpt2 precision=int3",
                                         "what=gpt2 deadline=0.001",
                                         "what=gpt2 context=99999" };
    struct playground       *p       = play_open(perm, "");
    for (i64 i = 0; i < COUNT_OF(asked); i++) {
        struct arena here = *perm;
        struct json *e    = json_get(answer_to(p, &here, asked[i]), STR("error"));
        CHECK(e && e->text.len > 0);
    }
    CHECK(!json_get(answer_to(p, perm, "= == what=gpt2 junk=1 = x part=rows"), STR("error")));
    playground_close(p);
}
