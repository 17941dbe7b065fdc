/* tokenize_keep.c - segments on disk, and the step that makes the file of them.
 *
 * In OUT.parts lie RUN-NNNNNN, the segments, and at the end done.json, the text that OUT.json will have. The
 * order is: segments, done.json, OUT (all bytes under another name, then renamed), OUT.json, and OUT.parts
 * goes. Whoever finds done.json and an OUT of just the length it names knows that only the last steps
 * are missing. After that OUT.json still names the work that was done last, so that the same command, started
 * again because it was killed at its very end, finds nothing to do; text is never appended twice, whenever the
 * kill came. */
#include "base/hash.h"
#include "base/json.h"
#include "data/tokenize_int.h"
#include <string.h>

static const char format_name[] = "frugal tokens 1";

i64 token_bytes(const struct bpe *b) { return b->vocabulary <= 65536 ? 2 : 4; }

static struct str path_in(const struct keep *k, struct arena *perm, struct str name)
{
    return str_fmt(perm, "%.*s/%.*s", STR_ARG(k->dir), STR_ARG(name));
}

static struct str segment_path(const struct keep *k, struct arena *perm, i64 segment)
{
    return str_fmt(perm, "%.*s/%.*s-%06lld", STR_ARG(k->dir), STR_ARG(k->run), (long long)segment);
}

/* ---- the sidecar ---- */

static struct str side_text(const struct keep *k, struct arena *perm)
{
    const struct tokenize_result *r = k->result;
    struct textbuf                b = textbuf_new(perm);
    textbuf_fmt(&b,
                "{\"format\":\"%s\",\"token_type\":\"%.*s\",\"tokens\":%lld,\"vocabulary\":%lld,",
                format_name, STR_ARG(r->type), (long long)r->tokens, (long long)k->vocabulary);
    textbuf_fmt(&b,
                "\"tokenizer\":\"%.*s\",\"documents\":%lld,\"source_bytes\":%lld,\"work\":\"%.*s\"",
                STR_ARG(k->hash), (long long)(k->documents_before + r->documents),
                (long long)(k->source_bytes_before + r->bytes), STR_ARG(k->work));
    if (k->separator >= 0) textbuf_fmt(&b, ",\"separator\":%lld", (long long)k->separator);
    textbuf_add(&b, STR("}\n"));
    return textbuf_str(&b);
}

static bool side_str(const struct json *root, const char *key, struct str *out)
{
    const struct json *v = json_get(root, str_of(key));
    if (v && v->kind == JSON_STRING) *out = v->text;
    return v && v->kind == JSON_STRING;
}

enum status token_side_read(struct os *os, struct str path, struct arena *perm,
                            struct token_side *out, struct err *err)
{
    struct str   text, format;
    struct json *root;
    struct err   why;
    enum status  st = os_read_all(os, path, perm, &text, err);
    if (st) return st;
    if (json_parse(perm, text, &root, &why))
        return err_set(err, STATUS_USAGE, "%.*s: %s", STR_ARG(path), why.text);
    if (side_str(root, "format", &format) && str_eq(format, str_of(format_name)) &&
        side_str(root, "token_type", &out->type) && side_str(root, "tokenizer", &out->hash) &&
        side_str(root, "work", &out->work) &&
        json_i64(json_get(root, STR("tokens")), &out->tokens) &&
        json_i64(json_get(root, STR("vocabulary")), &out->vocabulary) &&
        json_i64(json_get(root, STR("documents")), &out->documents) &&
        json_i64(json_get(root, STR("source_bytes")), &out->source_bytes)) {
        const struct json *separator = json_get(root, STR("separator"));
        if (!separator) out->separator = -1;
        if (!separator || (json_i64(separator, &out->separator) && out->separator >= 0))
            return STATUS_OK;
    }
    return err_set(err, STATUS_USAGE, "%.*s does not describe a file of tokens", STR_ARG(path));
}

/* ---- what was there before ---- */

/* done.json last: as long as anything is there, it tells that all is done. The folder goes with the lock. */
static void remove_parts(struct keep *k, struct arena scratch)
{
    struct str *names;
    i64         count;
    if (k->os->list(k->os, k->dir, &scratch, &names, &count, NULL)) return;
    for (i64 i = 0; i < count; i++)
        if (!str_eq(names[i], STR("done.json")) && !str_eq(names[i], STR("lock")))
            k->os->remove(k->os, path_in(k, &scratch, names[i]), NULL);
    k->os->remove(k->os, path_in(k, &scratch, STR("done.json")), NULL);
}

/* A run that came as far as done.json: if OUT is what it names, the rest is done here. */
static enum status finish_killed(struct keep *k, i64 out_bytes, struct arena scratch,
                                 struct err *err)
{
    struct str        done = path_in(k, &scratch, STR("done.json")), text;
    struct token_side side;
    if (token_side_read(k->os, done, &scratch, &side, NULL)) return STATUS_OK;
    i64 width = str_eq(side.type, STR("u32")) ? 4 : 2;
    if (out_bytes != side.tokens * width) return STATUS_OK;
    enum status st = os_read_all(k->os, done, &scratch, &text, err);
    if (!st) st = os_publish(k->os, k->side, text, scratch, err);
    if (st || !str_eq(side.work, k->work)) return st;
    k->result->was_done = true;
    k->result->tokens   = side.tokens;
    remove_parts(k, scratch);
    return STATUS_OK;
}

static enum status check_before(struct keep *k, i64 out_bytes, bool append, struct arena scratch,
                                struct err *err)
{
    struct token_side side;
    enum status       st = token_side_read(k->os, k->side, &scratch, &side, err);
    bool last            = !st && str_eq(side.work, k->work) && out_bytes == side.tokens * k->width;
    k->result->was_done  = last; /* work names files, their times, and the vocabulary */
    if (last) k->result->tokens = side.tokens;
    if (last) return STATUS_OK;
    if (!append)
        return err_set(err, STATUS_USAGE, "%.*s already exists; --append adds to it",
                       STR_ARG(k->out));
    if (st) return st;
    if (!str_eq(side.hash, k->hash))
        return err_set(err, STATUS_USAGE,
                       "%.*s was made with another vocabulary (%.12s, not %.12s)", STR_ARG(k->out),
                       side.hash.data, k->hash.data);
    if (out_bytes != side.tokens * k->width)
        return err_set(err, STATUS_USAGE, "%.*s has %lld bytes, but %.*s says %lld tokens",
                       STR_ARG(k->out), (long long)out_bytes, STR_ARG(k->side),
                       (long long)side.tokens);
    k->result->tokens = k->result->tokens_before = side.tokens;
    k->documents_before                          = side.documents;
    k->source_bytes_before                       = side.source_bytes;
    if (side.separator != k->separator) k->separator = -1; /* its documents do not all end alike */
    return STATUS_OK;
}

/* Names the work by all that its tokens depend on. Of the text: names, lengths, times of change. */
static enum status name_work(struct keep *k, const struct tokenize_config *config, i64 *bytes_all,
                             struct arena scratch, struct err *err)
{
    struct sha256 s;
    u8            digest[32];
    sha256_init(&s);
    sha256_add(&s, str_fmt(&scratch, "%.*s %d %u\n", STR_ARG(k->hash), config->has_separator,
                           config->has_separator ? config->separator : 0));
    for (i64 i = 0; i < config->path_count; i++) {
        struct arena   line = scratch;
        struct os_stat stat;
        enum status    st = k->os->stat(k->os, config->paths[i], &stat, err);
        if (st) return st;
        *bytes_all += stat.bytes;
        sha256_add(&s, str_fmt(&line, "%.*s %lld %lld\n", STR_ARG(config->paths[i]),
                               (long long)stat.bytes, (long long)stat.mtime_ns));
    }
    sha256_end(&s, digest);
    k->work = hash_hex(k->perm, digest, 8);
    return STATUS_OK;
}

static void name_run(struct keep *k, struct arena scratch)
{
    struct str place =
        str_fmt(&scratch, "%.*s %lld", STR_ARG(k->work), (long long)k->result->tokens);
    k->run = str_sub(sha256_hex(k->perm, place), 0, 16);
}

enum status keep_open(struct keep *k, struct os *os, const struct bpe *b,
                      const struct tokenize_config *config, i64 *bytes_all, struct arena *perm,
                      struct err *err)
{
    struct os_stat stat;
    *k      = (struct keep){ .os = os, .perm = perm, .out = config->out, .result = k->result };
    k->side = str_cat(perm, k->out, STR(".json"));
    k->dir  = str_cat(perm, k->out, STR(".parts"));
    k->hash = b->hash;
    k->vocabulary   = b->vocabulary;
    k->width        = token_bytes(b);
    k->separator    = config->has_separator ? (i64)config->separator : -1;
    k->lock         = (struct file){ -1 };
    k->result->type = k->width == 2 ? STR("u16") : STR("u32");
    enum status st  = name_work(k, config, bytes_all, *perm, err);
    if (!st) st = os->make_dir(os, k->dir, err);
    if (!st)
        st = os->sync_dir_of(os, k->dir, err); /* or done.json may be lost and OUT's new name not */
    if (!st) st = os->lock(os, path_in(k, perm, STR("lock")), &k->lock, err);
    if (st == STATUS_NO) err->status = st = STATUS_WORLD; /* two runs for one file */
    bool there = !st && !os->stat(os, k->out, &stat, NULL);
    if (there) st = finish_killed(k, stat.bytes, *perm, err);
    if (there && !st && !k->result->was_done)
        st = check_before(k, stat.bytes, config->append, *perm, err);
    if (!st) name_run(k, *perm);
    return st;
}

void keep_close(struct keep *k)
{
    struct arena scratch = *k->perm;
    if (k->lock.fd < 0) return;
    k->os->remove(k->os, path_in(k, &scratch, STR("lock")), NULL);
    k->os->close(k->os, &k->lock, NULL);
    k->os->remove(k->os, k->dir, NULL); /* goes if it is empty */
}

/* ---- segments ---- */

bool keep_has(struct keep *k)
{
    struct arena   scratch = *k->perm;
    struct os_stat stat;
    if (k->os->stat(k->os, segment_path(k, &scratch, k->segment), &stat, NULL)) return false;
    k->segment++;
    k->result->tokens += stat.bytes / k->width;
    return true;
}

enum status keep_segment(struct keep *k, const struct str *tokens, i64 count, struct arena scratch,
                         struct err *err)
{
    if (k->segment == SEGMENTS_MAX) /* what can be mapped at once */
        return err_set(err, STATUS_USAGE, "too much text for one file; more than %d segments",
                       SEGMENTS_MAX);
    struct str path = segment_path(k, &scratch, k->segment++);
    for (i64 i = 0; i < count; i++) k->result->tokens += tokens[i].len / k->width;
    return os_publish_parts(k->os, path, tokens, count, scratch, err);
}

/* OUT as it was, and all segments behind it, as one file. */
static enum status publish_all(struct keep *k, struct arena scratch, struct err *err)
{
    struct str *parts = NEW(&scratch, struct str, k->segment + 1);
    i64         count = 0;
    enum status st    = STATUS_OK;
    if (k->result->tokens_before) st = k->os->map(k->os, k->out, &parts[count++], err);
    for (i64 i = 0; i < k->segment && !st; i++)
        st = k->os->map(k->os, segment_path(k, &scratch, i), &parts[count++], err);
    struct str whole =
        path_in(k, &scratch, STR("whole")); /* there, so that a kill leaves nothing outside */
    if (!st) st = os_publish_parts(k->os, whole, parts, count, scratch, err);
    if (!st) st = k->os->rename(k->os, whole, k->out, err);
    if (!st) st = k->os->sync_dir_of(k->os, k->out, err);
    for (i64 i = 0; i < count; i++)
        if (parts[i].len) k->os->unmap(k->os, parts[i]);
    return st;
}

enum status keep_publish(struct keep *k, struct arena scratch, struct err *err)
{
    struct str  side = side_text(k, &scratch);
    enum status st = os_publish(k->os, path_in(k, &scratch, STR("done.json")), side, scratch, err);
    if (!st) st = publish_all(k, scratch, err);
    if (!st) st = os_publish(k->os, k->side, side, scratch, err);
    if (!st) remove_parts(k, scratch);
    return st;
}
