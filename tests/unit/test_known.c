/* test_known.c - shapes of known models give their published parameter counts, config.json reads as
 * the same shapes, and our models that stand for them have the same matrices. */
#include "harness.h"
#include "plan/known.h"

TEST(parameters_are_as_published)
{
    static const struct {
        const char *name;
        i64         parameters;
    } published[] = {
#define PUBLISHED(name, parameters) { name, parameters },
#include "plan/known.def"
#undef PUBLISHED
    };
    static const struct {
        const char *name;
        f64         all, used; /* G */
    } cards[] = {
#define CARD(name, all, used) { name, all, used },
#include "plan/known.def"
#undef CARD
    };
    /* none without a number to hold it to */
    CHECK_EQ(known_count(), COUNT_OF(published) + COUNT_OF(cards));
    for (i64 i = 0; i < COUNT_OF(published); i++) {
        const struct known *k = known_find(str_of(published[i].name));
        CHECK(k);
        if ((i64)known_parameters(k) != published[i].parameters)
            printf("\n  %s", published[i].name);
        CHECK_EQ((i64)known_parameters(k), published[i].parameters);
    }
    for (i64 i = 0; i < COUNT_OF(cards); i++) {
        const struct known *k = known_find(str_of(cards[i].name));
        CHECK(k);
        /* cards have three digits; whether they count an embedding as used differs: 2 % */
        CHECK_NEAR(known_parameters(k) / 1e9 / cards[i].all, 1, 0.005);
        CHECK_NEAR(known_parameters_used(k) / 1e9 / cards[i].used, 1, 0.02);
    }
    /* Mistral's paper of Mixtral: "12.9B active". */
    CHECK_NEAR(known_parameters_used(known_find(STR("mixtral-8x7b"))), 12.9e9, 0.05e9);
}

TEST(names_are_found_however_they_are_written)
{
    CHECK_STR(known_find(STR("Qwen/Qwen2.5-7B"))->name, "qwen2.5-7b");
    CHECK_STR(known_find(STR("LLAMA_3_8B"))->name, "llama-3-8b");
    CHECK_EQ(known_find(STR("llama-4")), NULL);
    CHECK_EQ(known_find(STR("")), NULL);
}

/* 6N a token is the rule of thumb; exact counts leave out the embedding's lookups and add attention. */
TEST(flops_of_a_token)
{
    const struct known *k = known_find(STR("llama-3-8b"));
    struct known_flops  f = known_flops_per_token(k, 8192);
    f64 lookups = 128256.0 * 4096, vectors = 65 * 4096; /* embedding; the weights of norms */
    CHECK_EQ(f.matrices, 6 * (known_parameters(k) - lookups - vectors));
    CHECK_EQ(f.attention, 6.0 * 32 * 4096 * 8192);
    CHECK_EQ(known_flops_per_token(k, 4096).attention, f.attention / 2);
    /* GPT-2 with 1,024 tokens: 6 (N - positions - vectors) + 6 L C T, as llm.c counts it */
    f = known_flops_per_token(known_find(STR("gpt2")), 1024);
    CHECK_NEAR((f.matrices + f.attention) / 1e6, 798, 1);
}

static f64 built_parameters(const struct model *m, struct arena *perm)
{
    struct graph *g   = graph_new(perm, STR("known"));
    struct err    err = { 0 };
    f64           sum = 0;
    CHECK_EQ(model_build((void *)m, g, 1, MODE_TRAIN, &err), STATUS_OK);
    for (i32 i = 0; i < g->value_count; i++)
        if (g->values[i].kind == VALUE_PARAM) sum += (f64)shape_count(g->values[i].type.shape);
    return sum;
}

TEST(our_models_have_the_same_matrices_or_say_what_differs)
{
    i64 same = 0;
    for (i64 i = 0; i < known_count(); i++) {
        const struct known *k     = known_at(i);
        struct arena        arena = *perm;
        struct model       *m;
        struct str          differs;
        struct err          err = { 0 };
        if (known_model_new(k, k->depth, k->context, NULL, &arena, &m, &differs, &err))
            printf("\n  %s", err.text);
        CHECK_EQ(err.status, STATUS_OK);
        f64 ours = built_parameters(m, &arena), theirs = known_parameters(k);
        if (fabs(ours / known_parameters_used(k) - 1) > 0.003)
            printf("\n  %.*s: %.0f instead of %.0f", STR_ARG(k->name), ours,
                   known_parameters_used(k));
        same += !differs.len;
        if (!differs.len) CHECK_EQ(ours, theirs);
        else CHECK_NEAR(ours / known_parameters_used(k), 1, 0.003);
    }
    CHECK(same >= 17);
}

static struct known read(struct arena *perm, const char *text)
{
    struct known k;
    struct err   err = { 0 };
    if (known_read(STR("config.json"), str_of(text), perm, &k, &err)) printf("\n  %s", err.text);
    CHECK_EQ(err.status, STATUS_OK);
    return k;
}

TEST(config_json_reads_as_the_same_shapes)
{
    struct known k = read(perm, "{\"model_type\": \"gpt2\", \"n_layer\": 12, \"n_embd\": 768, "
                                "\"n_head\": 12, \"n_positions\": 1024, \"n_inner\": null, "
                                "\"vocab_size\": 50257, \"activation_function\": \"gelu_new\"}");
    CHECK_EQ(known_parameters(&k), 124439808);
    k = read(perm,
             "{\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": false, "
             "\"hidden_act\": \"silu\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
             "\"max_position_embeddings\": 131072, \"model_type\": \"llama\", "
             "\"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"num_key_value_heads\": 8, "
             "\"rope_theta\": 500000.0, \"tie_word_embeddings\": false, \"vocab_size\": 128256}");
    CHECK_EQ(known_parameters(&k), 8030261248);
    CHECK_EQ(k.context, 131072);
    k = read(perm,
             "{\"model_type\": \"mixtral\", \"hidden_size\": 4096, \"intermediate_size\": 14336, "
             "\"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"num_key_value_heads\": 8, "
             "\"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"vocab_size\": 32000}");
    CHECK_EQ(known_parameters(&k), 46702792704);
    k = read(perm,
             "{\"model_type\": \"qwen2\", \"hidden_size\": 896, \"intermediate_size\": 4864, "
             "\"num_attention_heads\": 14, \"num_hidden_layers\": 24, \"num_key_value_heads\": 2, "
             "\"tie_word_embeddings\": true, \"vocab_size\": 151936}");
    CHECK_EQ(known_parameters(&k), 494032768);
    k = read(perm,
             "{\"model_type\": \"gemma\", \"hidden_size\": 2048, \"intermediate_size\": 16384, "
             "\"num_attention_heads\": 8, \"num_hidden_layers\": 18, \"num_key_value_heads\": 1, "
             "\"head_dim\": 256, \"vocab_size\": 256000}");
    CHECK_EQ(known_parameters(&k), 2506172416);
    k = read(perm,
             "{\"model_type\": \"bert\", \"hidden_size\": 768, \"intermediate_size\": 3072, "
             "\"num_attention_heads\": 12, \"num_hidden_layers\": 12, \"type_vocab_size\": 2, "
             "\"max_position_embeddings\": 512, \"vocab_size\": 30522}");
    CHECK_EQ(known_parameters(&k), 109482240);
    CHECK_EQ(known_flops_per_token(&k, 512).matrices, 6.0 * 12 * (4 * 768 * 768 + 2 * 768 * 3072));
    f64 body = known_flops_per_token(&k, 512).matrices;
    k        = read(perm, /* transformers' BertForMaskedLM has so many, without the pooler */
                    "{\"architectures\": [\"BertForMaskedLM\"], \"model_type\": \"bert\", "
                           "\"hidden_size\": 768, "
                           "\"intermediate_size\": 3072, \"num_attention_heads\": 12, \"num_hidden_layers\": 12, "
                           "\"type_vocab_size\": 2, \"max_position_embeddings\": 512, \"vocab_size\": 30522}");
    CHECK_EQ(known_parameters(&k), 109514298);
    CHECK_EQ(known_flops_per_token(&k, 512).matrices, body + 6.0 * 768 * (768 + 30522));
    struct model *m; /* and so has ours, but for the two segments */
    struct str    differs;
    CHECK(!known_model_new(&k, k.depth, 512, NULL, perm, &m, &differs, NULL));
    CHECK_EQ(built_parameters(m, perm), 109514298 - 2 * 768);
    CHECK_STR(differs, "no segments");
    k = read(perm, "{\"model_type\": \"phi3\", \"hidden_size\": 3072, \"intermediate_size\": 8192, "
                   "\"num_attention_heads\": 32, \"num_hidden_layers\": 32, "
                   "\"num_key_value_heads\": 32, \"vocab_size\": 32064}");
    CHECK_NEAR(known_parameters(&k) / 1e9, 3.82, 0.005);
    k = read(perm,
             "{\"model_type\": \"gemma2\", \"hidden_size\": 2304, \"intermediate_size\": 9216, "
             "\"num_attention_heads\": 8, \"num_hidden_layers\": 26, \"num_key_value_heads\": 4, "
             "\"head_dim\": 256, \"sliding_window\": 4096, \"max_position_embeddings\": 8192, "
             "\"vocab_size\": 256000}");
    CHECK_EQ(known_parameters(&k), known_parameters(known_find(STR("gemma-2-2b"))));
    CHECK_EQ(k.window, 4096);
    /* with biases, as the classes of transformers place them: q, k, v, o; gate, up, down */
    k = read(perm, "{\"model_type\": \"llama\", \"hidden_size\": 8, \"intermediate_size\": 16, "
                   "\"num_attention_heads\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 10, "
                   "\"attention_bias\": true, \"mlp_bias\": true}");
    CHECK_EQ(known_parameters(&k), 4 * 64 + 4 * 8 + 3 * 128 + 2 * 16 + 8 + 3 * 8 + 2 * 80);
}

/* All experts are held in memory, few of them compute: both counts are the cards'. */
TEST(experts_are_read_as_mixtral_qwen_and_deepseek_name_them)
{
    struct known k =
        read(perm, "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 2048, "
                   "\"intermediate_size\": 6144, \"moe_intermediate_size\": 768, "
                   "\"num_experts\": 128, \"num_experts_per_tok\": 8, \"num_hidden_layers\": 48, "
                   "\"num_attention_heads\": 32, \"num_key_value_heads\": 4, \"head_dim\": 128, "
                   "\"mlp_only_layers\": [], \"decoder_sparse_step\": 1, \"vocab_size\": 151936}");
    CHECK_NEAR(known_parameters(&k) / 1e9, 30.5, 0.1);
    CHECK_NEAR(known_parameters_used(&k) / 1e9, 3.3, 0.06);
    k = read(perm, "{\"model_type\": \"qwen2_moe\", \"hidden_size\": 2048, "
                   "\"intermediate_size\": 5632, \"moe_intermediate_size\": 1408, "
                   "\"shared_expert_intermediate_size\": 5632, \"num_experts\": 60, "
                   "\"num_experts_per_tok\": 4, \"num_hidden_layers\": 24, "
                   "\"num_attention_heads\": 16, \"num_key_value_heads\": 16, "
                   "\"vocab_size\": 151936}");
    CHECK_NEAR(known_parameters(&k) / 1e9, 14.3, 0.05);
    CHECK_NEAR(known_parameters_used(&k) / 1e9, 2.7, 0.05);
    k = read(perm, "{\"model_type\": \"deepseek_v3\", \"hidden_size\": 7168, "
                   "\"intermediate_size\": 18432, \"moe_intermediate_size\": 2048, "
                   "\"n_routed_experts\": 256, \"n_shared_experts\": 1, "
                   "\"num_experts_per_tok\": 8, \"first_k_dense_replace\": 3, "
                   "\"num_hidden_layers\": 61, \"num_attention_heads\": 128, "
                   "\"num_key_value_heads\": 128, \"kv_lora_rank\": 512, \"q_lora_rank\": 1536, "
                   "\"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"v_head_dim\": 128, "
                   "\"max_position_embeddings\": 163840, \"rope_scaling\": {\"factor\": 40, "
                   "\"original_max_position_embeddings\": 4096}, \"vocab_size\": 129280}");
    CHECK_EQ(known_parameters(&k), known_parameters(known_find(STR("deepseek-v3"))));
    CHECK_NEAR(known_parameters(&k) / 1e9, 671, 1);
    CHECK_NEAR(known_parameters_used(&k) / 1e9, 37, 0.6);
    CHECK_EQ(k.context, 4096);
}

/* Of Llama-like files the sequences differ: 32,768 of Mistral, 8,192 of Llama 3.1 before it was stretched. */
TEST(the_context_is_that_of_the_config)
{
#define SHAPE                                                                                      \
    "\"hidden_size\": 64, \"intermediate_size\": 128, \"num_attention_heads\": 2, "                \
    "\"num_hidden_layers\": 2, \"vocab_size\": 100"
    CHECK_EQ(
        read(perm, "{\"model_type\": \"mistral\", \"max_position_embeddings\": 32768, " SHAPE "}")
            .context,
        32768);
    CHECK_EQ(read(perm,
                  "{\"model_type\": \"llama\", \"max_position_embeddings\": 131072, "
                  "\"rope_scaling\": {\"original_max_position_embeddings\": 8192}, " SHAPE "}")
                 .context,
             8192);
    CHECK_EQ(read(perm, "{\"model_type\": \"llama\", \"max_position_embeddings\": 131072, "
                        "\"rope_scaling\": null, " SHAPE "}")
                 .context,
             131072);
#undef SHAPE
}

TEST(a_config_that_cannot_be_read_is_refused_in_words)
{
    static const char *const texts[][2] = {
        { "{\"model_type\": \"mamba\"}",
          "model_type \"mamba\" is not supported; supported are gpt2, " },
        { "{\"model_type\": \"vit\"}", "\"vit\" is a vision transformer" },
        { "{\"model_type\": \"t5\"}", "\"t5\" has an encoder and a decoder" },
        { "{\"model_type\": \"gemma3\"}", "\"gemma3\" reads pictures, too" },
        { "{}", "model_type \"\"" },
        { "[1, 2]", "model_type \"\"" },
        { "{", "config.json: line 1" },
        { "{\"model_type\": \"gpt2\", \"n_layer\": 0}", "\"n_layer\" should be a whole number" },
        { "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": \"wide\"}", "\"n_embd\"" },
        { "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 8, \"n_head\": 16}",
          "\"head_dim\"" },
    };
    for (i64 i = 0; i < COUNT_OF(texts); i++) {
        struct known k;
        struct err   err = { 0 };
        CHECK_EQ(known_read(STR("config.json"), str_of(texts[i][0]), perm, &k, &err), STATUS_USAGE);
        if (!strstr(err.text, texts[i][1])) printf("\n  %s", err.text);
        CHECK(strstr(err.text, texts[i][1]));
    }
}
