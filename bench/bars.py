"""Where a step's time goes on 1, 2 and 4 ranks, as bars: docs/several.svg, from the rows of bench/run ranks. curves.py draws it
with its own pictures."""
import os

import common

ADDRESS = os.path.join("docs", "several.svg")
BARS = ["1 rank of 1 thread", "1 process of 2 threads", "2 ranks", "2 ranks, state", "2 ranks, all", "4 ranks"]
PARTS = [("forward and backward", "#0b6", {"compute", "forward", "backward", "launch", "copy"}), ("update", "#48c", {"update"}),
         ("communication that nothing hides", "#e80", {"exchange"}), ("waiting for the slowest", "#c33", {"slowest"}),
         ("loading, logging and the rest", "#999", None)]
WIDTH, LEFT, RIGHT, TOP, BAR, GAP, GREY = 720, 150, 70, 44, 24, 12, "#555"
TOKENS = 8 * 256  # of a step of bench/run ranks


def split(row):
    """Milliseconds of a step by the parts of PARTS; the last has what no other names."""
    step_ms, known = 1e3 * TOKENS / row["tokens_per_s"], 0.0
    out = []
    for _, _, names in PARTS[:-1]:
        part = sum(share for name, share in row["parts"].items() if name in names)
        known += part
        out.append(part * step_ms)
    return out + [max(0.0, 1 - known) * step_ms]


def rows():
    """The bars of the newest quiet run that has them, in their order; empty: there is none."""
    all_rows = [r for r in common.kept("ranks") if "parts" in r]
    dates = sorted({r["date"] for r in all_rows if common.is_quiet(r)} or {r["date"] for r in all_rows})
    last = {r["row"]: r for r in all_rows if dates and r["date"] == dates[-1]}
    return [last[name] for name in BARS if name in last]


def picture(bars):
    widest = max(sum(split(r)) for r in bars)
    height = TOP + len(bars) * (BAR + GAP) + 20 * len(PARTS) + 16
    scale = (WIDTH - LEFT - RIGHT) / widest
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
           '<text x="12" y="22" font-size="14">where a step of the small GPT goes, ms; two cores</text>']
    for i, row in enumerate(bars):
        y, x = TOP + i * (BAR + GAP), float(LEFT)
        out.append(f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end" fill="{GREY}">{row["row"]}</text>')
        for (name, colour, _), ms in zip(PARTS, split(row)):
            out.append(f'<rect x="{x:.1f}" y="{y}" width="{ms * scale:.1f}" height="{BAR}" fill="{colour}"><title>{name}: {ms:.1f} ms</title></rect>')
            x += ms * scale
        out.append(f'<text x="{x + 6:.1f}" y="{y + 16}" fill="{GREY}">{sum(split(row)):.0f} ms</text>')
    for i, (name, colour, _) in enumerate(PARTS):
        y = TOP + len(bars) * (BAR + GAP) + 20 * i + 10
        out.append(f'<rect x="{LEFT}" y="{y}" width="12" height="12" fill="{colour}"/>')
        out.append(f'<text x="{LEFT + 18}" y="{y + 10}" fill="{GREY}">{name}</text>')
    return "\n".join(out) + "\n</svg>\n"
