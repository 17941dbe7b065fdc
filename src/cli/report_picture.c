/* report_picture.c - the way from one bill to another as bars that hang together:
 *
 *     before           $0.0412  ##############################
 *     less work       -$0.0211                 ###############
 *     a cheaper hour  -$0.0121         ########
 *     after            $0.0080  ######
 *
 * in the terminal, and as an SVG file that any browser or slide shows. */
#include "cli/report_show.h"
#include <math.h>
#include <string.h>

enum { LABEL_MAX = 44, AMOUNT_COLUMNS = 18, BAR_LEAST = 10 };

struct bar {
    struct str label;
    i64        from_nusd, to_nusd; /* whole bills begin at 0 */
    bool       whole;
};

/* before, the levers, after; returns how many. Of the causes between two runs, those that are $0 as printed are left
 * out. */
static i64 bars_of(const struct comparison *c, struct bar bars[LEVERS_MAX + 2], i64 *most_nusd)
{
    i64 at = c->runs[0]->nusd, n = 0, decimals = comparison_decimals(c);
    bars[n++]  = (struct bar){ STR("before"), 0, at, true };
    *most_nusd = at;
    for (i64 i = 0; i < c->lever_count; i++) {
        i64 to = at + c->levers[i].nusd;
        if (c->run_count > 2 || money_units(to, decimals) != money_units(at, decimals))
            bars[n++] = (struct bar){ c->levers[i].what, at, to, false };
        at         = to;
        *most_nusd = MAX(*most_nusd, at);
    }
    bars[n++]  = (struct bar){ STR("after"), 0, at, true };
    *most_nusd = MAX(*most_nusd, 1);
    return n;
}

/* Long lists of settings end in an ellipsis, at the beginning of a character. */
static struct str label_of(const struct bar *b, i64 most, struct arena *perm)
{
    if (b->label.len <= most) return b->label;
    i64 end = 0;
    for (i64 next; (next = str_utf8_end(b->label, end)) > 0 && next <= most - 3;) end = next;
    return str_fmt(perm, "%.*s...", (int)end, b->label.data);
}

/* Differences of rounded bills: they sum as what is printed of the bills does. */
static struct str amount_of(const struct bar *b, i64 decimals, struct arena *perm)
{
    i64 units = money_units(b->to_nusd, decimals) - money_units(b->from_nusd, decimals);
    return money_text(perm, units, decimals);
}

struct str picture_text(const struct comparison *c, i64 columns, struct arena *perm,
                        struct arena scratch)
{
    struct bar     bars[LEVERS_MAX + 2];
    struct textbuf b = textbuf_new(perm);
    i64            most, n = bars_of(c, bars, &most), wide = 0, decimals = comparison_decimals(c);
    i64            label = MAX(MIN(columns - AMOUNT_COLUMNS - BAR_LEAST, LABEL_MAX), BAR_LEAST);
    for (i64 i = 0; i < n; i++) wide = MAX(wide, label_of(&bars[i], label, &scratch).len);
    i64 room = MAX(MIN(columns, 100) - wide - AMOUNT_COLUMNS, BAR_LEAST);
    for (i64 i = 0; i < n; i++) {
        struct arena here = scratch;
        i64          low  = MIN(bars[i].from_nusd, bars[i].to_nusd),
            high          = MAX(bars[i].from_nusd, bars[i].to_nusd);
        i64 from          = llround((f64)low / (f64)most * (f64)room),
            to            = llround((f64)high / (f64)most * (f64)room);
        textbuf_fmt(&b, "%-*.*s  %13.*s  ", (int)wide, STR_ARG(label_of(&bars[i], label, &here)),
                    STR_ARG(amount_of(&bars[i], decimals, &here)));
        for (i64 k = 0; k < MAX(to, from + (high > low)); k++)
            textbuf_fmt(&b, k < from ? " " : "#");
        textbuf_fmt(&b, "\n");
    }
    return textbuf_str(&b);
}

/* Text between tags: XML 1.0 has no control characters. */
static void add_xml(struct textbuf *b, struct str s)
{
    for (i64 i = 0; i < s.len; i++) {
        char c = s.data[i];
        if (c == '&') textbuf_fmt(b, "&amp;");
        else if (c == '<') textbuf_fmt(b, "&lt;");
        else if (c == '>') textbuf_fmt(b, "&gt;");
        else if ((unsigned char)c < ' ') textbuf_fmt(b, " ");
        else textbuf_fmt(b, "%c", c);
    }
}

static void add_line(struct textbuf *b, i64 x, i64 y, const char *style, struct str text)
{
    textbuf_fmt(b, "<text x=\"%lld\" y=\"%lld\" %s>", (long long)x, (long long)y, style);
    add_xml(b, text);
    textbuf_fmt(b, "</text>\n");
}

struct str picture_svg(const struct comparison *c, struct arena *perm, struct arena scratch)
{
    enum { LEFT = 370, WIDE = 480, ROW = 34, TOP = 84, AMOUNT = 110 };
    struct bar     bars[LEVERS_MAX + 2];
    struct textbuf b = textbuf_new(perm);
    i64            most, n = bars_of(c, bars, &most), decimals = comparison_decimals(c);
    i64            width = LEFT + WIDE + AMOUNT + 20, height = TOP + n * ROW + 16;
    textbuf_fmt(&b,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %lld %lld\" "
                "width=\"%lld\" height=\"%lld\" "
                "font-family=\"sans-serif\" font-size=\"15\">\n<rect width=\"100%%\" "
                "height=\"100%%\" fill=\"#fff\"/>\n",
                (long long)width, (long long)height, (long long)width, (long long)height);
    add_line(&b, 16, 34, "font-size=\"22\" font-weight=\"bold\"", comparison_title(c, &scratch));
    add_line(&b, 16, 60, "fill=\"#555\"", comparison_rate(c, &scratch));
    for (i64 i = 0; i < n; i++) {
        struct arena here = scratch;
        i64          low  = MIN(bars[i].from_nusd, bars[i].to_nusd),
            high          = MAX(bars[i].from_nusd, bars[i].to_nusd);
        i64  y            = TOP + i * ROW;
        bool saves        = bars[i].to_nusd < bars[i].from_nusd;
        f64  x            = LEFT + (f64)low / (f64)most * WIDE,
            w             = MAX((f64)(high - low) / (f64)most * WIDE, 1);
        add_line(&b, 16, y + 17, "", label_of(&bars[i], LABEL_MAX, &here));
        textbuf_fmt(&b, "<rect x=\"%.1f\" y=\"%lld\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
                    x, (long long)y, w, ROW - 10,
                    bars[i].whole ? "#4a6fa5"
                    : saves       ? "#3a9d5d"
                                  : "#c44536");
        add_line(&b, (i64)(x + w) + 8, y + 17, "", amount_of(&bars[i], decimals, &here));
    }
    textbuf_fmt(&b, "</svg>\n");
    return textbuf_str(&b);
}
