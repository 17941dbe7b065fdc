#!/usr/bin/env python3
"""What a text model writes at the end of its run: an event of its log where that takes less than a hundredth of the run, and
none where the start says that it would take more; `frugal report --html` has it."""
import glob, json, os, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from watch_page import Place, WAIT_S, browser

PART = 0.005  # of the run, for opening the model again: src/cli/cmd_train.c
RUN = b"""data: {kind: text, path: text.txt, context: 32}
model: {kind: gpt, depth: 1, width: 32, heads: 2}
train: {lr: 0.003, batch: 8, threads: 1, precision: fp32, usd_hour: 1, steps: 100000000, max_seconds: 8, eval_every: 2000, out: text.safetensors}
run: {name: letters}
"""


def events(place):
    [log] = glob.glob(os.path.join(place.folder.name, "state", "events", "*", "*.jsonl"))
    with open(log) as f:
        return [json.loads(line) for line in f]


def check_page(path, sample):
    """The card of the run's page, in a browser where there is one."""
    try:
        from playwright.sync_api import sync_playwright, expect
    except ImportError:
        return
    if not os.path.exists("/usr/bin/chromium"):
        return
    with sync_playwright() as p, browser(p) as b:
        page = b.new_page()
        page.goto("file://" + path)
        card = page.locator("section[aria-label=Text]")
        expect(card).to_be_visible(timeout=1000 * WAIT_S)
        assert card.locator("p.specimen").text_content() == sample["prompt"] + sample["text"], card.text_content()


def main():
    with Place() as place:
        place.write("text.txt", b"The cat sat on the mat. " * 2000)
        place.write("text.yaml", RUN)
        done = place.run("train", "text.yaml", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["event"] == "done", "it is only in the event log"
        all_events = events(place)
        [end] = [e for e in all_events if e["event"] == "done"]
        samples = [e for e in all_events if e["event"] == "sample"]
        opening_s = sum(end["start_%s_s" % part] for part in ("device", "compile", "kernels", "weights"))
        print("opening took %.3f s of %.1f s" % (opening_s, end["seconds"]))
        expected = opening_s <= PART * end["seconds"]
        assert len(samples) == expected, (expected, samples)
        if not samples:
            return
        [sample] = samples
        assert sample["prompt"] == "The " and "cat sat" in sample["text"] and sample["step"] == end["steps"], sample
        made = place.run("report", "letters", "--html", "letters.html")
        assert made.returncode == 0, made.stderr
        path = os.path.join(place.folder.name, "letters.html")
        with open(path) as f:
            assert '"event":"sample"' in f.read()
        check_page(path, sample)
        print(sample["prompt"] + sample["text"][:60])


main()
print("ok")
