/* test_hf.c - somebody else's model: config.json becomes settings of ours or a sentence; folders of shards are read
 * whole or refused; tensors are stacked and transposed on the way, in stretches that do not show. */
#include "base/half.h"
#include "base/rng.h"
#include "harness.h"
#include "model/hf.h"
#include "model/lora.h"
#include "store/st_folder.h"
#include "support/folder.h"

static struct st_tensor tensor(const char *name, const char *dtype, struct shape shape,
                               const void *p, i64 bytes)
{
    return (struct st_tensor){ str_of(name), str_of(dtype), shape, { p, bytes } };
}

#define HAS(text, words) CHECK(strstr((text), (words)) != NULL)

static struct model_config read_config(struct arena *perm, const char *text)
{
    struct model_config c   = { .dtype = DT_F32, .dropout = 0.25 };
    struct err          err = { 0 };
    if (hf_config_read(STR("config.json"), str_of(text), perm, &c, &err))
        harness_fail(__FILE__, __LINE__, "%s", err.text);
    return c;
}

static const char *refused(struct arena *perm, const char *text)
{
    static struct err   err;
    struct model_config c = { .dtype = DT_F32 };
    CHECK_EQ(hf_config_read(STR("config.json"), str_of(text), perm, &c, &err), STATUS_USAGE);
    return err.text;
}

#define LLAMA                                                                                      \
    "{\"model_type\":\"llama\",\"hidden_size\":24,\"intermediate_size\":44,"                       \
    "\"num_attention_heads\":6,\"num_hidden_layers\":2,\"vocab_size\":151"

TEST(hf_reads_gpt2_with_its_defaults)
{
    struct model_config c = read_config(perm, "{\"model_type\":\"gpt2\",\"vocab_size\":50257}");
    CHECK_STR(c.kind, "hf");
    CHECK_EQ(c.depth, 12);
    CHECK_EQ(c.width, 768);
    CHECK_EQ(c.hidden, 3072);
    CHECK_EQ(c.places, 1024);
    CHECK_EQ(c.vocabulary, 50257);
    CHECK(c.tied && c.bias);
    CHECK_EQ(c.dropout, 0.25); /* the run's, not the file's */
}

TEST(hf_reads_llama_and_its_kin)
{
    struct model_config c = read_config(perm, LLAMA ",\"rope_theta\":5e5}");
    CHECK_EQ(c.kv_heads, 6);
    CHECK_EQ(c.head_dim, 4);
    CHECK_EQ(c.rope_base, 5e5);
    CHECK_EQ(c.eps, 1e-6);
    CHECK(!c.tied && !c.bias && !c.bias_qkv);
    c = read_config(perm,
                    LLAMA ",\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":7}}");
    CHECK_EQ(c.rope_base, 7);
    CHECK_EQ(c.rope_scaling.stretch, 0);
    c = read_config(perm, LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}}");
    CHECK_EQ(c.rope_scaling.stretch, 2.5);
    CHECK_EQ(c.rope_scaling.high, 0);
    c = read_config(perm, LLAMA ",\"rope_scaling\":{\"rope_type\":\"dynamic\",\"factor\":2.5}}");
    CHECK_EQ(c.rope_scaling.stretch, 0);
}

/* Llama 3.1's settings; frequencies of 2 and 8 turns in 8192 positions, and one between them. */
TEST(hf_stretches_positions_as_llama3)
{
    struct model_config c = read_config(
        perm,
        LLAMA ",\"rope_scaling\":{\"factor\":8.0,\"high_freq_factor\":4.0,\"low_freq_factor\":"
              "1.0,\"original_max_position_embeddings\":8192,\"rope_type\":\"llama3\"}}");
    f64 turn = 2 * 3.14159265358979323846 / 8192;
    CHECK_NEAR(rope_scaled(turn / 2, c.rope_scaling), turn / 16, 1e-12);
    CHECK_NEAR(rope_scaled(turn * 8, c.rope_scaling), turn * 8, 1e-12);
    CHECK_NEAR(rope_scaled(turn * 2, c.rope_scaling), turn * 2 * (1.0 / 3 + 2.0 / 3 / 8), 1e-12);
}

TEST(hf_names_are_found)
{
    struct model_config c = read_config(perm, LLAMA ",\"num_key_value_heads\":2}");
    struct hf_source    s;
    CHECK(hf_source(&c, STR("h.1.attn.qkv.weight"), shape_2(40, 24), perm, &s));
    CHECK_EQ(s.count, 3);
    CHECK_STR(s.name[1], "model.layers.1.self_attn.k_proj.weight");
    CHECK_EQ(s.rows[0], 24);
    CHECK_EQ(s.rows[2], 8);
    CHECK(hf_source(&c, STR("h.12.mlp.up.weight"), shape_2(88, 24), perm, &s));
    CHECK_STR(s.name[0], "model.layers.12.mlp.gate_proj.weight");
    CHECK_EQ(s.rows[1], 44);
    CHECK(!hf_source(&c, STR("wpe.weight"), shape_2(8, 8), perm, &s));
    CHECK(!hf_is_ignored(&c, STR("lm_head.weight")));
    CHECK(hf_is_ignored(&c, STR("model.layers.0.self_attn.rotary_emb.inv_freq")));
    c = read_config(perm, LLAMA ",\"tie_word_embeddings\":true}");
    CHECK(hf_is_ignored(&c, STR("lm_head.weight")));
}

TEST(hf_configs_are_refused_by_name)
{
    HAS(refused(perm, "[]"), "is not a map");
    HAS(refused(perm, "{"), "config.json: line 1");
    HAS(refused(perm, "{\"model_type\":\"mamba\"}"), "\"mamba\" is not supported");
    HAS(refused(perm, LLAMA ",\"novel\":1}"), "the key \"novel\" is not supported");
    HAS(refused(perm, LLAMA ",\"hidden_act\":\"gelu\"}"), "only as silu");
    HAS(refused(perm, LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}}"),
        "\"factor\" should be a number");
    HAS(refused(perm, LLAMA ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}}"),
        "\"rope_scaling\" of type yarn is not supported");
    HAS(refused(perm, LLAMA ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":4}}"),
        "\"original_max_position_embeddings\" should be a whole number");
    HAS(refused(perm, LLAMA ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":4,"
                            "\"original_max_position_embeddings\":8,\"high_freq_factor\":1}}"),
        "should be above \"low_freq_factor\"");
    HAS(refused(perm, LLAMA ",\"num_key_value_heads\":4}"), "does not divide");
    HAS(refused(perm, LLAMA ",\"rms_norm_eps\":0}"), "a number above 0");
    HAS(refused(perm, LLAMA ",\"attention_bias\":1}"), "true or false");
    HAS(refused(perm, "{\"model_type\":\"gpt2\",\"vocab_size\":9,\"n_head\":7}"),
        "does not divide");
    HAS(refused(perm, "{\"model_type\":\"gpt2\",\"vocab_size\":9,"
                      "\"activation_function\":\"mish\"}"),
        "gelu_new");
}

#define QWEN2                                                                                      \
    "{\"model_type\":\"qwen2\",\"hidden_size\":24,\"intermediate_size\":44,"                       \
    "\"num_attention_heads\":6,\"num_hidden_layers\":2,\"vocab_size\":151"
#define WINDOW ",\"use_sliding_window\":true,\"sliding_window\":5"

/* All blocks have the window, or none; as some have it and others not, the model is refused. */
TEST(hf_reads_which_blocks_have_a_window)
{
    CHECK_EQ(read_config(perm, QWEN2 WINDOW ",\"max_window_layers\":0}").window, 5);
    CHECK_EQ(read_config(perm, QWEN2 WINDOW ",\"max_window_layers\":2}").window, 0);
    CHECK_EQ(read_config(perm, QWEN2 WINDOW "}").window, 0); /* 28 blocks without */
    CHECK_EQ(read_config(perm, QWEN2 ",\"sliding_window\":5,\"max_window_layers\":0}").window, 0);
    CHECK_EQ(read_config(perm, QWEN2 WINDOW ",\"layer_types\":[\"sliding_attention\","
                                            "\"sliding_attention\"]}")
                 .window,
             5);
    CHECK_EQ(read_config(perm, QWEN2 WINDOW ",\"max_window_layers\":0,\"layer_types\":["
                                            "\"full_attention\",\"full_attention\"]}")
                 .window,
             0);
    HAS(refused(perm, QWEN2 WINDOW ",\"max_window_layers\":1}"),
        "\"max_window_layers\" gives a window to some blocks");
    HAS(refused(perm, QWEN2 WINDOW ",\"layer_types\":[\"sliding_attention\",\"full_attention\"]}"),
        "\"layer_types\" gives a window to some blocks");
    HAS(refused(perm, QWEN2 ",\"layer_types\":[\"linear_attention\"]}"), "kind of attention");
}

/* PEFT takes a name for all that end so, and a GPT-2 has two that end in c_proj. */
TEST(lora_names_the_matrices_that_have_adapters_and_no_others)
{
    struct model_config c = read_config(perm, "{\"model_type\":\"gpt2\",\"vocab_size\":9}");
    c.lora                = (struct lora_config){
                       .rank = 2, .alpha = 2, .on = { STR("mlp.c_proj"), STR("c_fc") }, .on_count = 2
    };
    struct model_config names = lora_names(&c);
    struct str          text  = lora_config_write(&names, STR("m"), perm);
    HAS(str_fmt(perm, "%.*s%c", STR_ARG(text), 0).data,
        "\"target_modules\": [\"c_fc\", \"mlp.c_proj\"]");
    c      = read_config(perm, LLAMA "}");
    c.lora = (struct lora_config){ .rank = 2, .alpha = 2, .on = { STR("self_attn.v_proj") } };
    c.lora.on_count = 1;
    names           = lora_names(&c);
    text            = lora_config_write(&names, STR("m"), perm);
    HAS(str_fmt(perm, "%.*s%c", STR_ARG(text), 0).data, "\"target_modules\": [\"v_proj\"]");
}

/* Keys of config.json on the hub, of SmolLM, Qwen2.5, distilgpt2, gpt2-medium and of what older and other programs
 * saved: those that say nothing about the computation, or nothing as long as they are off. */
TEST(hf_reads_what_others_say_besides)
{
    read_config(perm, LLAMA ",\"is_llama_config\":true,\"rope_interleaved\":false,"
                            "\"transformers.js_config\":{\"dtype\":\"q4\"}}");
    read_config(perm, LLAMA ",\"unsloth_fixed\":true,\"unsloth_version\":\"2025.1\","
                            "\"_attn_implementation_autoset\":true,\"pruned_heads\":{},"
                            "\"is_encoder_decoder\":false,\"max_length\":20,\"top_p\":1.0}");
    read_config(perm, QWEN2 ",\"use_mrope\":false}");
    read_config(perm, "{\"model_type\":\"gpt2\",\"vocab_size\":9,\"_num_labels\":1,"
                      "\"gradient_checkpointing\":false,\"n_special\":0,"
                      "\"predict_special_tokens\":true,\"output_past\":true}");
    HAS(refused(perm, LLAMA ",\"rope_interleaved\":true}"), "only as false");
    HAS(refused(perm, LLAMA ",\"pruned_heads\":{\"0\":[1]}}"), "only as {}");
}

struct collected {
    f32 *to;
    i64  next;
};

static void collect(void *context, i64 from, const f32 *values, i64 count)
{
    struct collected *c = context;
    CHECK_EQ(from, c->next);
    memcpy(c->to + from, values, (size_t)count * sizeof *values);
    c->next += count;
}

static bool none(const void *context, struct str theirs)
{
    (void)context;
    (void)theirs;
    return false;
}

/* Parts of them, as threads read them: elements 1 to 8 of x, which lie in both its parts, as numbers and as bytes; of y
 * rows 300 to 650, in which a block of its transposition ends. */
static void check_parts(const struct st_folder *f, const struct st_source *x,
                        const struct st_source *y, const f32 *x_all, const f32 *y_all,
                        struct arena scratch)
{
    i64  columns = y->shape.dim[1], count = 350 * columns;
    f32 *some = NEW(&scratch, f32, count), few[8];
    u16  bits[8];
    st_source_read(f, x, 1, 8, few);
    CHECK(!memcmp(few, x_all + 1, sizeof few));
    CHECK(st_source_is(f, x, STR("BF16")) && !st_source_is(f, x, STR("F32")));
    st_source_bytes(f, x, 2, 16, bits);
    for (i64 i = 0; i < 8; i++) CHECK_EQ(bf16_to_f32(bits[i]), x_all[1 + i]);
    CHECK(!st_source_is(f, y, STR("F32"))); /* its bytes lie in another order */
    st_source_read(f, y, 300 * columns, count, some);
    CHECK(!memcmp(some, y_all + 300 * columns, (size_t)count * sizeof *some));
}

/* Two parts of bf16 one below the other, and a transposed matrix that takes several stretches. */
TEST(st_folder_stacks_and_transposes)
{
    enum { ROWS = 700, COLUMNS = 900 };
    static u16 top[6], below[4];
    f32       *wide = NEW(perm, f32, ROWS * COLUMNS), *got = NEW(perm, f32, ROWS * COLUMNS);
    for (i64 i = 0; i < ROWS * COLUMNS; i++) wide[i] = (f32)i;
    for (i64 i = 0; i < 6; i++) top[i] = bf16_from_f32((f32)i);
    for (i64 i = 0; i < 4; i++) below[i] = bf16_from_f32((f32)(100 + i));
    struct str       dir = folder_new(perm), folder = dir;
    struct st_tensor t[] = { tensor("t", "BF16", shape_2(3, 2), top, 12),
                             tensor("b", "BF16", shape_2(2, 2), below, 8),
                             tensor("w", "F32", shape_2(COLUMNS, ROWS), wide, ROWS * COLUMNS * 4) };
    struct st_source s[] = {
        { STR("x"), shape_2(5, 2), { STR("t"), STR("b") }, { 3, 2 }, 2, false },
        { STR("y"), shape_2(ROWS, COLUMNS), { STR("p.w") }, { ROWS }, 1, true },
    };
    struct st_folder f;
    struct err       err = { 0 };
    CHECK(!st_save(os_real(), str_cat(perm, dir, STR("/model.safetensors")), t, 3, scratch, &err));
    CHECK(!st_folder_open(os_real(), folder, perm, &f, &err));
    CHECK_EQ(st_sources_check(&f, folder, s, 2, none, NULL, scratch, &err), STATUS_USAGE);
    HAS(err.text, "lacks the tensor p.w");
    st_source_strip(&f, &s[1], STR("p."));
    CHECK(!st_sources_check(&f, folder, s, 2, none, NULL, scratch, &err));
    struct collected c = { got, 0 };
    st_source_stream(&f, &s[0], collect, &c, scratch);
    CHECK_EQ(c.next, 10);
    f32 stacked[10];
    memcpy(stacked, got, sizeof stacked);
    for (i64 i = 0; i < 10; i++) CHECK_EQ(got[i], i < 6 ? (f32)i : (f32)(94 + i));
    c.next = 0;
    st_source_stream(&f, &s[1], collect, &c, scratch);
    CHECK_EQ(c.next, ROWS * COLUMNS);
    for (i64 r = 0; r < ROWS; r++)
        for (i64 k = 0; k < COLUMNS; k++) CHECK_EQ(got[r * COLUMNS + k], wide[k * ROWS + r]);
    check_parts(&f, &s[0], &s[1], stacked, got, scratch);
    CHECK_EQ(st_sources_check(&f, folder, s, 1, none, NULL, scratch, &err), STATUS_USAGE);
    HAS(err.text, "has the tensor w");
    s[0].rows[0] = 2, s[0].rows[1] = 3;
    CHECK_EQ(st_sources_check(&f, folder, s, 2, none, NULL, scratch, &err), STATUS_USAGE);
    HAS(err.text, "the shape of tensor t is [3,2], and by config.json it is [2,2]");
    st_folder_close(os_real(), &f);
}

static const char *index_refused(struct arena *perm, const char *text)
{
    static struct err err;
    struct st_index   index;
    CHECK_EQ(st_index_parse(STR("i"), str_of(text), perm, &index, &err), STATUS_USAGE);
    return err.text;
}

TEST(st_index_stays_in_its_folder)
{
    HAS(index_refused(perm, "{}"), "weight_map");
    HAS(index_refused(perm, "{\"weight_map\":{}}"), "weight_map");
    HAS(index_refused(perm, "{\"weight_map\":{\"a\":3}}"), "tensor a is not in a file");
    HAS(index_refused(perm, "{\"weight_map\":{\"a\":\"../b.safetensors\"}}"), "tensor a");
    HAS(index_refused(perm, "{\"weight_map\":{\"a\":\"b.bin\"}}"), "tensor a");
}

TEST(st_folder_reads_shards_and_names_what_is_wrong)
{
    f32              v[2] = { 1, 2 };
    struct str       dir = folder_new(perm), one = str_cat(perm, dir, STR("/1.safetensors"));
    struct str       two = str_cat(perm, dir, STR("/2.safetensors"));
    struct str       at  = str_cat(perm, dir, STR("/model.safetensors.index.json"));
    struct st_tensor t[] = { tensor("a", "F32", shape_1(1), v, 4),
                             tensor("b", "F32", shape_1(1), v + 1, 4) };
    struct str right = STR("{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"}}");
    struct str lies  = STR("{\"weight_map\":{\"b\":\"1.safetensors\",\"a\":\"2.safetensors\"}}");
    struct str less  = STR("{\"weight_map\":{\"a\":\"1.safetensors\"}}");
    struct st_folder f;
    struct err       err = { 0 };
    CHECK_EQ(st_folder_open(os_real(), dir, perm, &f, &err), STATUS_USAGE);
    HAS(err.text, "has neither model.safetensors nor model.safetensors.index.json");
    CHECK(!st_save(os_real(), one, t, 1, scratch, &err));
    CHECK(!os_publish(os_real(), at, right, scratch, &err));
    CHECK_EQ(st_folder_open(os_real(), dir, perm, &f, &err), STATUS_WORLD); /* 2 is not there */
    HAS(err.text, "2.safetensors");
    CHECK(!st_save(os_real(), two, t + 1, 1, scratch, &err));
    CHECK(!st_folder_open(os_real(), dir, perm, &f, &err));
    CHECK_EQ(f.file_count, 2);
    CHECK_EQ(memcmp(st_folder_find(&f, STR("b"))->bytes.data, v + 1, 4), 0);
    CHECK(!st_folder_find(&f, STR("c")));
    st_folder_close(os_real(), &f);
    CHECK(!os_publish(os_real(), at, lies, scratch, &err));
    CHECK_EQ(st_folder_open(os_real(), dir, perm, &f, &err), STATUS_USAGE);
    HAS(err.text, "says that tensor b is in");
    CHECK(!st_save(os_real(), one, t, 2, scratch, &err));
    CHECK(!os_publish(os_real(), at, less, scratch, &err));
    CHECK_EQ(st_folder_open(os_real(), dir, perm, &f, &err), STATUS_USAGE);
    HAS(err.text, "has the tensor b, which");
}
