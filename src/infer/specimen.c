/* specimen.c - the model's own way to continue a text, for a little while. */
#include "infer/specimen.h"
#include "data/tokenize.h"
#include "infer/generate.h"

enum { TEXT_BYTES = 1 << 13, MEMORY_GIB = 4 };
static const f64 temperature = 0.8; /* less than 1: the likely words, without falling into a loop */

struct writing {
    struct use     *use;
    struct textbuf  text;
    struct deadline until;
};

static bool on_token(void *context, i64 index, i64 token, struct str bytes)
{
    struct writing *w = context;
    (void)index, (void)token;
    if (w->text.len + bytes.len > TEXT_BYTES / 2) return false;
    textbuf_add(&w->text, bytes);
    return deadline_left_ns(&w->until) > 0 && !use_must_stop(w->use);
}

/* A token may be a part of a character: what is none becomes a question mark. */
static struct str characters(struct str bytes, struct arena *perm)
{
    struct textbuf b = textbuf_new(perm);
    for (i64 i = 0, end; i < bytes.len; i = end) {
        end = str_utf8_end(bytes, i);
        if (end > i) textbuf_add(&b, str_sub(bytes, i, end));
        else textbuf_fmt(&b, "?");
        end = MAX(end, i + 1);
    }
    return textbuf_str(&b);
}

static struct str written(struct generating *g, struct deadline until, struct str prompt,
                          struct arena *memory)
{
    i64               most = MAX(tokens_max(prompt.len) + BPE_AROUND_MAX, use_length(g->use));
    struct generation one  = { .tokens = NEW(memory, i32, most) };
    struct arena      text = arena_part(memory, TEXT_BYTES);
    struct writing    w    = { g->use, textbuf_new(&text), until };
    if (words_encode(&g->words, prompt, WORDS_WITH_BEFORE, use_vocabulary(g->use), one.tokens,
                     &one.count, *memory, NULL))
        return STR("");
    g->sampling   = (struct sampling){ .temperature = temperature, .top_p = 1, .seed = 1 };
    g->tokens_max = TRAIN_TEXT_TOKENS;
    g->on_token   = on_token;
    g->context    = &w;
    if (one.count && one.count < use_length(g->use)) generate(g, &one, 1, *memory);
    return textbuf_str(&w.text);
}

struct train_text specimen_write(struct session *now, f64 seconds, struct arena *perm)
{
    const struct settings *s     = use_run_settings(now);
    struct os             *os    = use_run_os(now);
    struct deadline        until = deadline_in(os, (i64)(seconds * 1e9));
    struct train_text      none = { 0 }, made = { .prompt = STR("The") };
    struct generating      g      = { 0 };
    struct arena           memory = arena_open((i64)MEMORY_GIB << 30);
    struct str             tokenizer;
    i64                    most = made.prompt.len + BPE_AROUND_MAX + TRAIN_TEXT_TOKENS;
    struct use_next_config next = { .length = most, .sequences = 1, .now = now };
    if (s->data.context > 0) next.length = MIN(most, s->data.context); /* it was trained for */
    if (!memory.begin) return none;
    if (words_find(os, s, &memory, &tokenizer) && !use_open_next(os, s, &next, &g.use, NULL) &&
        !words_open(&g.words, os, tokenizer, &memory, NULL))
        made.text = characters(written(&g, until, made.prompt, &memory), perm);
    use_close(g.use);
    arena_close(&memory);
    return made.text.len ? made : none;
}
