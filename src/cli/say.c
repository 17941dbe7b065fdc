/* say.c - printing, in one place. */
#include "cli/say.h"
#include "base/json.h"
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_USUAL = 80, LINE_BYTES = 16384 };

struct say say_open(struct os *os)
{
    struct say     s     = { .results = stdout, .messages = stderr, .columns = COLUMNS_USUAL };
    struct str     term  = os->env(os, "TERM");
    bool           dumb  = !term.data || str_eq(term, STR("dumb"));
    bool           plain = os->env(os, "NO_COLOR").len > 0; /* no-color.org: set and not empty */
    struct winsize size;
    s.live = !dumb && isatty(STDERR_FILENO);
    s.bold = !dumb && !plain && isatty(STDOUT_FILENO);
    if (s.live && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        s.columns = size.ws_col;
    if (!dumb && isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        s.table_columns = size.ws_col;
    return s;
}

static void end_line(struct say *s)
{
    if (s->open_line) fputs("\r\033[K", s->messages); /* clears the line that was redrawn */
    s->open_line = false;
}

static i64 blanks_of(struct str line)
{
    i64 n = 0;
    while (n < line.len && line.data[n] == ' ') n++;
    return n;
}

/* A command is copied, and stays in one piece. */
static bool is_command(struct str line)
{
    struct str words = str_sub(line, blanks_of(line), line.len);
    return str_starts(words, STR("frugal ")) || str_starts(words, STR("build/frugal "));
}

/* Where the first column behind `from` ends that two blanks or more set off; 0: there is none. */
static i64 next_column(struct str line, i64 from)
{
    for (i64 i = from; i + 2 < line.len; i++)
        if (line.data[i] == ' ' && line.data[i + 1] == ' ' && line.data[i + 2] != ' ') return i + 2;
    return 0;
}

static i64 longest_word(struct str text)
{
    struct str word;
    i64        most = 0;
    while (str_cut(&text, ' ', &word)) most = MAX(most, word.len);
    return most;
}

/* An example with a remark is copied too. */
static bool has_remark(struct str line)
{
    i64 column = next_column(line, blanks_of(line));
    while (column && !str_starts(str_sub(line, column, line.len), STR("# ")))
        column = next_column(line, column);
    return column > 0;
}

/* A part of a line, without the blanks at its end. */
static void put_part(FILE *to, struct str part)
{
    while (part.len && part.data[part.len - 1] == ' ') part.len--;
    fwrite(part.data, 1, (size_t)part.len, to);
}

/* Of a word that is too long for a line: behind one of its alternatives (a|b|c), else where it ends. */
static i64 break_in_word(struct str words, i64 room)
{
    i64 end = room;
    while (end > 0 && words.data[end - 1] != '|') end--;
    if (end > 0) return end;
    for (end = room; end < words.len && words.data[end] != ' ';) end++;
    return end;
}

/* Words behind `at` columns that are printed already; further lines begin behind `hang` blanks. */
static void put_words(FILE *to, struct str words, i64 at, i64 hang, i64 columns)
{
    while (words.len > columns - at) {
        i64 end = columns - at;
        while (end > 0 && words.data[end] != ' ') end--;
        if (!end) end = break_in_word(words, columns - at);
        if (end == words.len) break;
        put_part(to, str_sub(words, 0, end));
        fprintf(to, "\n%*s", (int)hang, "");
        words = str_sub(words, end, words.len);
        words = str_sub(words, blanks_of(words), words.len);
        at    = hang;
    }
    put_part(to, words);
}

/* A line that is wider than the terminal is broken between words, and goes on below its first one, or below that of
 * its last column where this leaves two fifths of the terminal. Where it does not, the column has a line of its own. */
static void put_line(FILE *to, struct str line, i64 columns)
{
    i64 indent = blanks_of(line), hang = indent, column = next_column(line, indent);
    i64 first = column;
    for (; column && column <= 3 * columns / 5; column = next_column(line, column))
        if (column + longest_word(str_sub(line, column, line.len)) <= columns) hang = column;
    struct str words = str_sub(line, hang, line.len);
    bool       lone  = hang == indent && first && first <= columns;
    bool       whole = columns <= 2 * indent + 8 || (is_command(line) && hang == indent && !lone) ||
                 (!indent && is_command(words)) || has_remark(line);
    if (line.len <= columns || whole) {
        fwrite(line.data, 1, (size_t)line.len, to);
    } else if (lone) {
        put_part(to, str_sub(line, 0, first));
        fprintf(to, "\n%*s", (int)indent + 4, "");
        put_words(to, str_sub(line, first, line.len), indent + 4, indent + 4, columns);
    } else {
        fwrite(line.data, 1, (size_t)hang, to);
        put_words(to, words, hang, hang, columns);
    }
}

static void put_lines(FILE *to, struct str text, i64 columns)
{
    while (text.len) {
        i64 end = 0;
        while (end < text.len && text.data[end] != '\n') end++;
        put_line(to, str_sub(text, 0, end), columns);
        if (end < text.len) fputc('\n', to);
        text = str_sub(text, MIN(end + 1, text.len), text.len);
    }
}

/* Names, tags and errors may be somebody else's words: nothing in them shall steer a terminal. A line that is too long
 * for that is cut. */
static void print(FILE *to, i64 columns, const char *format, va_list args)
{
    char         line[LINE_BYTES], room[4 * LINE_BYTES + 64]; /* \xNN */
    struct arena memory = { (u8 *)room, (u8 *)room + sizeof room, NULL };
    int          len    = vsnprintf(line, sizeof line, format, args);
    struct str   text =
        str_printable_lines(&memory, (struct str){ line, MIN(MAX(len, 0), LINE_BYTES - 1) });
    put_lines(to, text, columns);
}

void say_nothing(struct say *s, bool on)
{
    FILE *none = on && !s->loud[0] ? fopen("/dev/null", "w") : NULL;
    if (none) {
        s->loud[0] = s->results, s->loud[1] = s->messages;
        s->results = s->messages = none;
    }
    if (on || !s->loud[0]) return;
    fclose(s->results);
    s->results = s->loud[0], s->messages = s->loud[1];
    s->loud[0] = s->loud[1] = NULL;
}

void say_result(struct say *s, const char *format, ...)
{
    va_list args;
    end_line(s);
    va_start(args, format);
    print(s->results, s->table_columns, format, args);
    va_end(args);
}

/* Where a line of so many columns ends: after a comma or semicolon, else a word, else anywhere. */
static i64 break_at(struct str text, i64 room)
{
    for (i64 words = 0; words < 2; words++)
        for (i64 end = room; end > 0; end--)
            if (text.data[end] == ' ' &&
                (words || text.data[end - 1] == ',' || text.data[end - 1] == ';'))
                return end;
    return room;
}

void say_labelled(struct say *s, const char *label, struct str text)
{
    enum { LABEL = 12, LEAST = 20 };
    i64 room = s->table_columns ? MAX(s->table_columns - LABEL, LEAST) : text.len;
    do {
        i64 end = text.len > room ? break_at(text, room) : text.len;
        say_result(s, "%-*s%.*s\n", LABEL, label, (int)end, text.data);
        text  = str_sub(text, end + (end < text.len && text.data[end] == ' '), text.len);
        label = "";
    } while (text.len);
}

static i32 width_of(const struct say_column *c) { return c->width < 0 ? -c->width : c->width; }

/* Which columns are shown, as bits. */
static u64 columns_shown(const struct say *s, const struct say_table *t)
{
    i64 gap = str_of(t->gap).len, all = str_of(t->indent).len - gap;
    u64 shown = 0;
    ASSERT(t->count <= 64);
    for (i64 i = 0; i < t->count; i++) all += gap + width_of(&t->columns[i]);
    for (i64 i = 0; i < t->count; i++) shown |= (u64)1 << i;
    while (s->table_columns && all > s->table_columns) {
        i64 last = -1;
        for (i64 i = 0; i < t->count; i++)
            if (shown >> i & 1 && t->columns[i].rank &&
                (last < 0 || t->columns[i].rank > t->columns[last].rank))
                last = i;
        if (last < 0) break;
        shown &= ~((u64)1 << last);
        all -= gap + width_of(&t->columns[last]);
    }
    return shown;
}

bool say_fits(const struct say *s, const struct say_table *t)
{
    u64 shown = columns_shown(s, t);
    return !(~shown << (64 - t->count));
}

void say_row(struct say *s, const struct say_table *t, const struct str *cells)
{
    char           room[LINE_BYTES];
    struct arena   memory = { (u8 *)room, (u8 *)room + sizeof room, NULL };
    struct textbuf b      = textbuf_new(&memory);
    u64            shown  = columns_shown(s, t);
    const char    *before = t->indent;
    for (i64 i = 0; i < t->count; i++) {
        struct str cell = cells ? cells[i] : str_of(t->columns[i].head);
        if (!(shown >> i & 1)) continue;
        textbuf_fmt(&b, "%s%*.*s", before, t->columns[i].width, (int)MIN(cell.len, 500), cell.data);
        before = t->gap;
    }
    struct str line = textbuf_str(&b);
    while (line.len && line.data[line.len - 1] == ' ') line.len--;
    say_result(s, "%.*s\n", STR_ARG(line));
}

void say_heading(struct say *s, const char *text)
{
    end_line(s);
    if (s->bold) fputs("\033[1m", s->results);
    put_line(s->results, str_of(text), s->table_columns);
    fputs(s->bold ? "\033[0m\n" : "\n", s->results);
}

void say_text(struct say *s, struct str text)
{
    end_line(s);
    fwrite(text.data, 1, (size_t)text.len, s->results);
}

void say_wrapped(struct say *s, struct str text)
{
    end_line(s);
    put_lines(s->results, text, s->table_columns);
}

i64 say_columns(const struct say *s, i64 most)
{
    return s->table_columns ? MIN(s->table_columns, most) : most;
}

/* Results are buffered and messages are not: where both go to one file, a message shall stand behind the results that
 * were before it, and on a line of its own. */
void say_flush(struct say *s)
{
    errno = 0;
    if (fflush(s->results) && !s->failed) s->failed = errno;
}

void say_message(struct say *s, const char *format, ...)
{
    va_list args;
    say_flush(s);
    end_line(s);
    va_start(args, format);
    print(s->messages, s->live ? s->columns : 0, format, args);
    va_end(args);
}

void say_live(struct say *s, struct str line)
{
    ASSERT(s->live);
    say_flush(s);
    int width = (int)MIN(line.len, MAX(s->columns - 1, 1)); /* the last column would wrap */
    fprintf(s->messages, "\r%.*s\033[K", width, line.data);
    fflush(s->messages);
    s->open_line = true;
}

void say_error(struct say *s, const struct err *err, struct arena scratch)
{
    say_message(s, "%s\n", err->text);
    if (!s->json) return;
    struct textbuf b = event_begin(&scratch, "error");
    event_i64(&b, "status", err->status);
    event_str(&b, "text", str_of(err->text));
    event_end(&b, s);
}

enum status say_close(struct say *s, struct err *err)
{
    end_line(s);
    say_flush(s);
    if (!s->failed && !ferror(s->results)) return STATUS_OK;
    return err_set(err, STATUS_WORLD, "stdout: %s",
                   s->failed ? strerror(s->failed) : "incomplete write");
}

struct textbuf event_begin(struct arena *perm, const char *event)
{
    struct textbuf b = textbuf_new(perm);
    textbuf_fmt(&b, "{\"event\":\"%s\"", event);
    return b;
}

void event_i64(struct textbuf *b, const char *key, i64 value)
{
    textbuf_fmt(b, ",\"%s\":%lld", key, (long long)value);
}

void event_f64(struct textbuf *b, const char *key, f64 value)
{
    textbuf_fmt(b, ",\"%s\":", key);
    json_add_f64(b, value);
}

void event_bool(struct textbuf *b, const char *key, bool value)
{
    textbuf_fmt(b, ",\"%s\":%s", key, value ? "true" : "false");
}

void event_str(struct textbuf *b, const char *key, struct str value)
{
    textbuf_fmt(b, ",\"%s\":", key);
    json_add_string(b, value);
}

void event_end(struct textbuf *b, struct say *s)
{
    textbuf_fmt(b, "}");
    say_line(s, b);
}

void say_line(struct say *s, struct textbuf *b)
{
    textbuf_fmt(b, "\n");
    say_text(s, textbuf_str(b));
    /* Whoever reads us line by line should not wait for a full buffer. */
    say_flush(s);
}

struct str text_si(struct arena *perm, f64 value)
{
    static const char *const prefix[] = { "", "k", "M", "G", "T", "P", "E" };
    i64                      i        = 0;
    while (fabs(value) >= 999.5 && i + 1 < COUNT_OF(prefix)) {
        value /= 1000;
        i++;
    }
    return str_fmt(perm, i && fabs(value) < 99.95 ? "%.1f %s" : "%.0f %s", value, prefix[i]);
}

struct str text_bytes(struct arena *perm, f64 bytes)
{
    struct str number = text_si(perm, bytes);
    return str_cat(perm, number, STR("B"));
}

struct str text_metric(struct arena *perm, struct str name, f64 value)
{
    if (str_eq(name, STR("accuracy"))) return str_fmt(perm, "%.1f %%", 100 * value);
    return str_fmt(perm, "%.4f", value);
}
