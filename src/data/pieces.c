/* pieces.c - the walk through documents, a segment at a time. */
#include "data/pieces.h"

/* A piece is some milliseconds of work; a segment is what a kill may cost, and what lies in memory. */
static const i64 piece_bytes_usual = 512 << 10, segment_bytes_usual = 32 << 20;

void pieces_init(struct pieces *p, struct os *os, const struct str *paths, i64 path_count,
                 const struct presplit_cuts *cuts, const u8 *classes, struct arena *perm)
{
    *p             = (struct pieces){ .os = os, .paths = paths, .cuts = cuts, .classes = classes };
    p->path_count  = path_count;
    p->piece_bytes = piece_bytes_usual;
    p->segment_bytes = segment_bytes_usual;
    p->piece         = NEW(perm, struct piece, PIECES_MAX);
    p->read          = NEW(perm, struct source, PIECES_MAX);
    p->scratch       = arena_part(perm, 1 << 20); /* names of caches */
}

static void close_read(struct pieces *p)
{
    while (p->read_count) source_close(p->os, &p->read[--p->read_count]);
}

static enum status add_piece(struct pieces *p, struct err *err)
{
    struct data_config gz = { .cache = STR("") };
    enum status        st = STATUS_OK;
    if (!p->at) st = source_open(p->os, p->paths[p->document], &gz, p->scratch, &p->source, err);
    if (st) return st;
    struct str text = p->source.bytes;
    i64        end  = text.len;
    if (end - p->at > p->piece_bytes)
        end = presplit_cut(p->cuts, p->classes, text, p->at + p->piece_bytes);
    struct str part      = str_sub(text, p->at, end);
    p->piece[p->count++] = (struct piece){ part, p->at == 0, end == text.len, p->document };
    p->bytes += part.len;
    p->at = end;
    if (end < text.len) return STATUS_OK;
    p->read[p->read_count++] = p->source;
    p->source                = (struct source){ 0 };
    p->document++;
    p->at = 0;
    return STATUS_OK;
}

enum status pieces_next(struct pieces *p, struct err *err)
{
    enum status st = STATUS_OK;
    close_read(p);
    p->count = p->bytes = 0;
    while (!st && p->document < p->path_count && p->bytes < p->segment_bytes &&
           p->count < PIECES_MAX)
        st = add_piece(p, err);
    return st ? st : p->count ? STATUS_OK : STATUS_NO;
}

void pieces_release(struct pieces *p)
{
    close_read(p);
    source_close(p->os, &p->source);
}
