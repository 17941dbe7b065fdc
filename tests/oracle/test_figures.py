#!/usr/bin/env python3
"""Every figure between marks in README.md and docs/ is that of the newest kept result: one that differs in a digit, a
page that lacks a mark, and a newer result that no page shows yet are found. `bench/run figures` mends what fails here."""
import difflib
import json
import os
import shutil
import sys
import tempfile
from xml.etree import ElementTree

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "bench"))
sys.dont_write_bytecode = True  # bench/ may be read-only
import common  # noqa: E402
import bars  # noqa: E402
import curves  # noqa: E402
import figures  # noqa: E402


def text_of(page):
    with open(os.path.join(TOP, page)) as f:
        return f.read()


def stale(page, text):
    """Where the text differs from the results; empty: nowhere."""
    return list(difflib.unified_diff(text.splitlines(), figures.renewed(page, text).splitlines(), "page", "results", lineterm="", n=0))


def said(good, what):
    print(f"{what}: {'as it is' if good else 'FAILED'}", flush=True)
    return not good


def pages_agree():
    failed = 0
    for page in figures.pages():
        lines = stale(page, text_of(page))
        print("\n".join(lines), end="\n" if lines else "")
        failed += said(not lines, f"{page}, {sum(where == page for where, _ in figures.BLOCKS.values())} blocks")
    return failed


def pictures_agree():
    """Each kept curve has its picture, as it is drawn from it; another point, target or price draws another one."""
    failed = said(not curves.draw(True), f"{len(curves.rows())} pictures of docs/records, and docs/several.svg")
    row = {"task": "made", "metric": "loss", "target": 1.5, "loss": 1.48, "usd_hour": 3.6, "curve": [[1, 2.5], [2, 1.7], [3, 1.48]],
           "peer": {"curve": [[5, 2.2], [20, 1.5]]}}
    drawn = curves.picture(row)
    ElementTree.fromstring(drawn)
    for what, other in (("a point", {"curve": [[1, 2.5], [2, 1.6], [3, 1.48]]}), ("the target", {"target": 1.4}), ("the price", {"usd_hour": 7.2}),
                        ("PyTorch", {"peer": None}), ("a rising metric", {"metric": "auc", "curve": [[1, 0.7], [3, 1.52]], "loss": 1.52})):
        failed += said(curves.picture({**row, **other}) != drawn, f"a picture with another {what}")
    return failed + said("$0.02" in drawn and ">target 1.5<" in drawn, "axis in dollars") + bars_agree()


def bars_agree():
    """A step of 2,048 tokens at 2,048 a second lasts a second; its parts are as long as their shares, and sum to it."""
    row = {"row": "2 ranks", "tokens_per_s": 2048, "parts": {"compute": 0.5, "forward": 0.1, "update": 0.15, "exchange": 0.125, "slowest": 0.0625}}
    drawn = bars.picture([row])
    ElementTree.fromstring(drawn)
    failed = said(bars.split(row) == [600.0, 150.0, 125.0, 62.5, 62.5], "parts of a step in ms")
    failed += said("1000 ms" in drawn and "exchange" not in drawn and "communication that nothing hides: 125.0 ms" in drawn, "a bar of them")
    return failed + said(bars.picture([{**row, "parts": {**row["parts"], "slowest": 0.07}}]) != drawn, "a picture with another part")


def digits_bite():
    """One changed digit is found, wherever in a block it stands, and the right one is put back."""
    made, real = {name: figures.block(name) for name in figures.BLOCKS}, figures.block
    figures.block = made.__getitem__  # the results are read once, not for each digit
    failed = 0
    for name, (page, _) in figures.BLOCKS.items():
        block, text, tried, missed = made[name], text_of(page), 0, 0
        for at in (i for i, c in enumerate(block) if c.isdigit()):
            changed = text.replace(block, block[:at] + str((int(block[at]) + 1) % 10) + block[at + 1:])
            tried += 1
            missed += changed == text or figures.renewed(page, changed) != text
        if name == "several" and not bars.rows():  # nothing is kept yet
            continue
        failed += said(tried > 5 and not missed, f"{name}, each of {tried} digits changed")
    figures.block = real
    return failed


def marks_bite():
    """A mark that is gone, stands twice or belongs to nobody is an error, not a page without figures."""
    text, mark = text_of("README.md"), "<!-- figures first:"
    failed = 0
    for what, wrong in (("no mark", text.replace(mark, "<!-- first:")), ("two marks", text + text), ("no end", text.replace(figures.END, "")),
                        ("another's mark", text + "<!-- figures unknown: -->\n")):
        try:
            figures.renewed("README.md", wrong)
            failed += said(False, what)
        except common.Failed:
            failed += said(True, what)
    return failed


def newer_results_bite():
    """A newer row makes the pages stale, unless it was measured beside other work; the file of another bench does not."""
    kept, failed = common.RESULTS, 0
    row = {**common.newest("cpu", row="start"), "date": "2999-01-01 00:00 UTC", "ours": 0.123, "busy": 0}
    with tempfile.TemporaryDirectory() as folder:
        for name, change, new in (("cpu", {}, True), ("cpu", {"busy": 0.9}, False), ("cpu-other", {}, False)):
            common.RESULTS = os.path.join(folder, f"{name}{len(change)}")
            shutil.copytree(kept, common.RESULTS)
            with open(os.path.join(common.RESULTS, f"{name}-2999-01-01.json"), "w") as f:
                f.write(json.dumps({**row, **change}) + "\n")
            found = "\n".join(stale("README.md", text_of("README.md")))
            failed += said(("123 ms" in found) == new and bool(found) == new, f"a newer row of {name} {change}")
    common.RESULTS = kept
    return failed


if __name__ == "__main__":
    sys.exit(1 if pages_agree() + pictures_agree() + digits_bite() + marks_bite() + newer_results_bite() else 0)
