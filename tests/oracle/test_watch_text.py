#!/usr/bin/env python3
"""What a text model writes while it is trained: events of its log, each with an evaluation, in a small part of the time; they
appear on the page of the run while it runs, can be leafed through there, and are in the file of `frugal report --html`."""
import glob, json, os, signal, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from watch_page import Place, WAIT_S, browser, wait_until

RUN = b"""data: {kind: text, path: text.txt, context: 64}
model: {kind: gpt, depth: 1, width: 32, heads: 2}
train: {lr: 0.003, batch: 8, threads: 1, precision: fp32, usd_hour: 1, steps: 100000000, max_seconds: 600, eval_every: 400}
run: {name: letters}
"""
LEAST = 2  # texts that are waited for
LONG_S = 4 * WAIT_S  # one that a busy machine has held up for a second leaves the next no time before the run is 100 s older


def events(place):
    logs = glob.glob(os.path.join(place.folder.name, "state", "events", "*", "*.jsonl"))
    lines = [line for log in logs for line in open(log).read().split("\n")[:-1]]
    return [json.loads(line) for line in lines]


def samples(place):
    return [e for e in events(place) if e["event"] == "sample"]


def check_leaves(page, texts, expect):
    """From the newest back to the first, and again to the newest; the address has the place."""
    card = page.locator("section[aria-label=Text]")
    text, earlier, later = card.locator("p.specimen"), card.get_by_label("Earlier text"), card.get_by_label("Later text")
    expect(text).to_have_text(texts[-1]["prompt"] + texts[-1]["text"])
    expect(later).to_be_disabled()
    for e in reversed(texts[:-1]):
        earlier.click()
        expect(text).to_have_text(e["prompt"] + e["text"])
        assert "text=%d" % e["step"] in page.url, page.url
    expect(earlier).to_be_disabled()
    for _ in texts[1:]:
        later.click()
    expect(text).to_have_text(texts[-1]["prompt"] + texts[-1]["text"])
    assert "text=" not in page.url, page.url


def check_live(place, page, expect):
    """A text appears while it runs, and the next takes its place."""
    server, address = place.watch()
    page.goto(address)
    child = place.train()
    page.locator("tr[data-run] a").click()
    card = page.locator("section[aria-label=Text]")
    expect(card).to_be_visible()
    expect(card.locator("p.specimen b")).to_have_text("The")
    shown = card.locator(".head").inner_text()
    wait_until(lambda: card.locator(".head").inner_text() != shown, "another text takes its place", LONG_S)
    card.get_by_label("Earlier text").click()
    assert "text=" in page.url, page.url
    page.goto("about:blank")  # before the server goes
    place.end(server)
    return child


def check_log(place):
    """Each with the evaluation of its step; in time, its own and the others' is a part of evaluation's."""
    all_events, step = events(place), None
    for e in all_events:
        if e["event"] == "eval":
            step = e["step"]
        if e["event"] == "sample":
            assert e["step"] == step and e["prompt"] == "The", (e, step)
    texts = samples(place)
    assert [e["step"] for e in texts] == sorted({e["step"] for e in texts}), texts
    assert all_events[-1]["event"] == "done", "it is written before the end"
    return texts


def look(place, done):
    try:
        from playwright.sync_api import sync_playwright, expect
    except ImportError:
        sync_playwright = None
    if not sync_playwright or not os.path.exists("/usr/bin/chromium"):
        return done(place.train(), None, None)
    expect.set_options(timeout=1000 * WAIT_S)
    with sync_playwright() as p, browser(p) as b:
        page, wrong = b.new_page(), []
        page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: wrong.append(str(e)))
        done(check_live(place, page, expect), page, expect)
        assert not wrong, wrong


def main():
    with Place() as place:
        place.write("text.txt", b"The cat sat on the mat. " * 2000)
        place.write("run.yaml", RUN)

        def done(child, page, expect):
            wait_until(lambda: len(samples(place)) >= LEAST, "texts are written", LONG_S)
            place.end(child, signal.SIGTERM)
            texts = check_log(place)
            made = place.run("report", "letters", "--html", "letters.html")
            assert made.returncode == 0, made.stderr
            path = os.path.join(place.folder.name, "letters.html")
            with open(path) as f:
                assert f.read().count('"event":"sample"') == len(texts)
            if page:
                page.goto("file://" + path)
                check_leaves(page, texts, expect)
            print("%d texts, after steps %s; the last: %s" % (len(texts), ", ".join(str(e["step"]) for e in texts), texts[-1]["prompt"] + texts[-1]["text"]))

        look(place, done)


main()
print("ok")
