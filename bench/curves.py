"""The driver of `bench/run curves`: draws docs/records/TASK.svg, the way to the target against dollars, of every task that
bench/run race has kept with its curve, and docs/several.svg of what bench/run ranks has kept (bars.py). It measures nothing;
every other bench/run ends with it, through figures.py.

    curves.py [--check]     --check changes nothing, and exits with 1 where a picture differs from the results
"""
import os
import sys

import bars
import common
from common import Failed, note

FOLDER = os.path.join("docs", "records")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 64, 16, 36, 44
OURS, THEIRS, GREY = "#0b6", "#888", "#555"
TICKS = 5


def round_step(span):
    """A step of 1, 2 or 5 times a power of ten, with at most TICKS of them in `span`."""
    step = 10.0 ** -12
    while True:
        for factor in (1, 2, 5):
            if span / (step * factor) <= TICKS:
                return step * factor
        step *= 10


def ticks(low, high):
    step = round_step(high - low)
    first = -(-low // step)
    return [(first + i) * step for i in range(int((high - first * step) / step + 1e-9) + 1)]


def lines_of(row):
    """(name, colour, points in seconds) of each side that has a curve."""
    sides = [("frugal", OURS, row["curve"])]
    if row.get("peer") and row["peer"].get("curve"):
        sides.append(("PyTorch", THEIRS, row["peer"]["curve"]))
    return sides


def picture(row):
    """The SVG of a row of bench/run race. Without a price the axis has seconds."""
    price = row.get("usd_hour")
    unit = (price / 3600) if price else 1.0
    sides = [(name, colour, [(s * unit, v) for s, v in points]) for name, colour, points in lines_of(row)]
    falls, target = row["metric"] == "loss", row["target"]
    values = sorted(v for _, _, points in sides for _, v in points)
    right = max(x for _, _, points in sides for x, _ in points) * 1.04
    # the first evaluations of a run are far from where it is decided
    far = abs(target - (values[-1] if falls else values[0]))
    far = min(far, 12 * max(abs(row["loss"] - target), 0.02 * abs(target)))
    near = max(abs(row["loss"] - target), far / 6) * 1.3
    low, high = (target - near, target + far) if falls else (target - far, target + near)

    def x(value):
        return LEFT + value / right * (WIDTH - LEFT - RIGHT)

    def y(value):
        value = min(max(value, low), high)
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           f'<text x="{LEFT}" y="20" font-size="14">{row["task"]}: held-out {row["metric"]} against {"dollars" if price else "seconds"}'
           f'{f" (${price:g} an hour)" if price else ""}</text>']
    for t in ticks(0, right):
        out.append(f'<text x="{x(t):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="{GREY}">{"$" if price else ""}{t:g}{"" if price else " s"}</text>')
        out.append(f'<line x1="{x(t):.1f}" y1="{TOP}" x2="{x(t):.1f}" y2="{HEIGHT - BOTTOM}" stroke="#eee"/>')
    for t in ticks(low, high):
        out.append(f'<text x="{LEFT - 6}" y="{y(t) + 4:.1f}" text-anchor="end" fill="{GREY}">{t:g}</text>')
        out.append(f'<line x1="{LEFT}" y1="{y(t):.1f}" x2="{WIDTH - RIGHT}" y2="{y(t):.1f}" stroke="#eee"/>')
    out.append(f'<line x1="{LEFT}" y1="{y(target):.1f}" x2="{WIDTH - RIGHT}" y2="{y(target):.1f}" stroke="#c33" stroke-dasharray="5 4"/>')
    out.append(f'<text x="{WIDTH - RIGHT}" y="{y(target) - 5:.1f}" text-anchor="end" fill="#c33">target {target:g}</text>')
    for i, (name, colour, points) in enumerate(sides):
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<circle cx="{x(points[-1][0]):.1f}" cy="{y(points[-1][1]):.1f}" r="4" fill="{colour}"/>')
        out.append(f'<text x="{LEFT + 90 * i}" y="{HEIGHT - 8}" fill="{colour}">● {name}</text>')
    return "\n".join(out) + "\n</svg>\n"


def rows():
    """The newest row of each task, where that has a curve."""
    newest = {task: common.newest("race", task=task) for task in sorted({r["task"] for r in common.kept("race")})}
    return {task: row for task, row in newest.items() if row.get("curve")}


def address(task):
    return os.path.join(FOLDER, task + ".svg")


def draw(check):
    """How many pictures differed; without `check` they are written."""
    stale, pictures = 0, {address(task): picture(row) for task, row in rows().items()}
    if bars.rows():
        pictures[bars.ADDRESS] = bars.picture(bars.rows())
    for where, text in pictures.items():
        path = os.path.join(common.TOP, where)
        if os.path.exists(path) and open(path).read() == text:
            continue
        stale += 1
        note(f"{where}: {'differs from the newest results in bench/results; bench/run curves draws it' if check else 'is new'}")
        if not check:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            common.replace(path, text)
    return stale


def main(*arguments):
    if set(arguments) - {"--check"}:
        sys.exit("curves knows --check alone")
    return int(bool(draw(bool(arguments)) and arguments))


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except Failed as failure:
        note(failure)
        sys.exit(3)
