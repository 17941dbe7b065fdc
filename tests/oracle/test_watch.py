#!/usr/bin/env python3
"""`frugal watch` in a real browser: a live run appears and grows, axes switch, an interrupted run is told and goes on after
its resume; no view has a breach of accessibility, and the console stays empty."""
import os, signal, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from watch_page import Place, TOP, WAIT_S, browser, skip, wait_until

try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import sync_playwright, expect
except ImportError:
    skip("Python has no playwright or axe-playwright-python")
if not os.path.exists("/usr/bin/chromium"):
    skip("there is no chromium")

PICTURES = os.path.join(TOP, "build", "log")  # looked at by people
expect.set_options(timeout=1000 * WAIT_S)


def accessible(page, what):
    found = Axe().run(page).response["violations"]
    assert not found, (what, [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found])


def picture(page, name):
    os.makedirs(PICTURES, exist_ok=True)
    page.screenshot(path=os.path.join(PICTURES, "watch-%s.png" % name), full_page=True)


def drawn(page):
    """How much of a curve there is: the length of its path."""
    return page.locator("section[aria-label=Curve] path[data-name=training]").first.evaluate("p => p.getAttribute('d').split('L').length")


def check_live(place, page, address):
    page.goto(address)
    expect(page.get_by_text("No run is recorded yet")).to_be_visible()
    accessible(page, "an empty list")
    name = "run.name=<img src=x onerror=alert(1)>"
    child = place.train("checkpoint.dir=kept", "checkpoint.every=1s", name)
    row = page.locator("tr[data-run]")
    expect(row).to_have_count(1)
    expect(row.locator(".pill")).to_have_text("running")
    expect(row.locator("a")).to_have_text("<img src=x onerror=alert(1)>")  # text, not HTML
    expect(row.locator("td[data-label=model]")).to_have_text("layers 580")  # 4 × 64 + 64 and 64 × 4 + 4 weights
    before = row.inner_text()
    wait_until(lambda: row.inner_text() != before, "the row changes")
    accessible(page, "the list")
    picture(page, "list")
    row.locator("a").click()
    expect(page.locator("h1")).to_have_text("<img src=x onerror=alert(1)>")
    wait_until(lambda: page.locator("path[data-name=training]").count(), "a curve is drawn")
    n = drawn(page)
    wait_until(lambda: drawn(page) > n + 1, "the curve grows")
    return child


def check_axes(page):
    card = page.locator("section[aria-label=Curve]")
    for axis, label in (("Time", "time on the bill"), ("Steps", "steps"), ("Dollars", "dollars")):
        card.get_by_text(axis, exact=True).click()
        expect(card.locator("svg text", has_text=label).last).to_be_visible()
    assert "x=dollars" in page.url, page.url
    card.get_by_label("log").check()
    assert "log=1" in page.url, page.url
    page.reload()  # the state is in the address
    expect(page.locator("section[aria-label=Curve]").get_by_label("log")).to_be_checked()
    picture_of = page.locator("section[aria-label=Curve] svg")
    expect(picture_of.locator("path.path").first).to_be_attached()
    picture_of.focus()
    page.keyboard.press("ArrowLeft")  # the values at a place, read aloud
    expect(page.locator("#say")).to_contain_text("training")


def check_interrupted(place, page, run):
    """It was killed, which the page can tell after half a minute of silence; it goes on where its checkpoint is."""
    page.goto(run)
    pill = page.locator(".title .pill")
    expect(pill).to_have_text("interrupted: killed")
    again = place.train("checkpoint.dir=kept", "checkpoint.every=1s", "run.name=<img src=x onerror=alert(1)>")
    expect(pill).to_have_text("running")
    expect(page.locator("section[aria-label=Messages]")).to_contain_text("checkpoint resumed")
    expect(page.locator("section[aria-label=Machines] tbody tr")).to_have_count(2)
    expect(page.locator("section[aria-label=Machines]")).to_contain_text("One start was killed without notice.")
    n = drawn(page)
    wait_until(lambda: drawn(page) > n, "the curve goes on after the resume")
    expect(page.locator("section[aria-label=Curve] .mark-dot").first).to_be_attached()
    mistakes = page.locator("section[aria-label=Mistakes]")
    expect(mistakes.locator("tbody tr")).to_have_count(4)  # classes
    expect(mistakes.locator("canvas").first).to_be_visible()
    expect(page.locator("section[aria-label=Speed] .verdict")).to_contain_text("So far: ")  # after ten seconds of steps
    accessible(page, "a run")
    picture(page, "run")
    check_stop(page, again)


def check_stop(page, child):
    page.get_by_role("button", name="Stop after this step").click()
    page.get_by_role("button", name="Keep running").click()
    page.get_by_role("button", name="Stop after this step").click()
    accessible(page, "a question")
    page.get_by_role("button", name="Stop it").click()
    expect(page.locator(".title .pill")).to_have_text("interrupted")
    assert child.wait(timeout=WAIT_S) == 4, child.returncode
    expect(page.get_by_role("button", name="Stop after this step")).to_have_count(0)


def check_settings(place, page, address):
    """Each setting of a run with where it came from; a run of an older frugal, which recorded no origins and no model, opens too."""
    page.goto(address + "#/")
    page.locator("tr[data-run] a", has_text="short").click()
    row = lambda key: page.locator("section[aria-label=Settings] tbody tr").filter(has=page.get_by_text(key, exact=True)).locator("td")
    expect(row("train.lr")).to_have_text(["train.lr", "0.002", "command line"])
    expect(row("train.usd_hour")).to_have_text(["train.usd_hour", "3600", "run.yaml:3"])
    expect(row("run.ledger").last).to_have_text("environment FRUGAL_RUN_LEDGER")
    expect(row("train.threads").last).to_have_text("run.yaml:3")
    expect(page.locator("section[aria-label=Levers]")).to_contain_text("By the plan of these settings on the cheapest machine of the catalogue")
    place.write("old.jsonl", b'{"row":"run","id":"0123456789ab","name":"old","kind":"train","settings":"model.kind=gpt\\ntrain.lr=0.5\\n","begin_wall_ns":1}\n')
    done = place.run("runs", "old.jsonl")
    assert done.returncode == 0, done.stderr
    page.goto(address + "#/")
    old = page.locator("tr[data-run='0123456789ab']")
    expect(old.locator("td[data-label=model]")).to_have_text("–")
    old.locator("a").click()
    expect(page.locator("h1")).to_have_text("old")
    expect(row("train.lr")).to_have_text(["train.lr", "0.5"])


def check_compare(place, page, address):
    done = place.run("train", "run.yaml", "train.steps=400", "train.eval_every=100", "train.lr=0.002", "run.name=short")
    assert done.returncode == 0, done.stderr
    page.goto(address + "#/")
    boxes = page.locator("tr[data-run] input[type=checkbox]")
    expect(boxes).to_have_count(2)
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.get_by_role("link", name="Compare 2 runs").click()
    expect(page.locator("h1")).to_have_text("Compare 2 runs")
    expect(page.locator("section[aria-label=Curves] path.path")).to_have_count(2)
    expect(page.locator("section[aria-label='From bill to bill'] rect").first).to_be_attached()
    expect(page.locator("section[aria-label=Differences]")).to_contain_text("train.lr")
    for button, begin in (("SVG", "<svg"), ("CSV", "series,")):
        with page.expect_download() as download:
            page.locator("section[aria-label=Curves]").get_by_role("button", name=button).click()
        with open(download.value.path()) as f:
            assert f.read().startswith(begin), button
    accessible(page, "a comparison")
    picture(page, "compare")


def check_file(place, page):
    """`frugal report --html`: the same in one file, without a server."""
    done = place.run("report", "short", "--html", "short.html")
    assert done.returncode == 0, done.stderr
    page.goto("file://" + os.path.join(place.folder.name, "short.html"))
    expect(page.locator("h1")).to_have_text("short")
    expect(page.locator("section[aria-label=Curve] path.path").first).to_be_attached()
    expect(page.locator("section[aria-label=Bill]")).to_contain_text("compute")
    expect(page.locator("section[aria-label=Mistakes] canvas").first).to_be_visible()
    accessible(page, "a report's file")


def check_playground(page, address):
    page.goto(address + "#/play?what=gpt2&tokens=1e10")
    bill = page.locator("section[aria-label='Cheapest way'] dd").first
    expect(bill).to_contain_text("$")
    before = bill.inner_text()
    slider = page.get_by_label("Tokens", exact=True)
    slider.focus()
    turns = int(page.evaluate("document.body.dataset.playTurn"))
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    wait_until(lambda: int(page.evaluate("document.body.dataset.playTurn")) > turns and bill.inner_text() != before, "the bill moves with the lever")
    assert "tokens=" in page.url and "tokens=1e10" not in page.url, page.url
    page.get_by_text("on demand", exact=True).click()
    expect(page.locator("section[aria-label='Cheapest way']")).to_contain_text("on-demand")
    expect(page.locator("section[aria-label=\"Levers' worth\"] rect").first).to_be_attached()
    expect(page.locator("section[aria-label=Deadline] path").first).to_be_attached()
    times = []
    for at in range(300, 340):  # moved by hand: one after the other
        turn = int(page.evaluate("document.body.dataset.playTurn"))
        slider.fill(str(at))
        wait_until(lambda: int(page.evaluate("document.body.dataset.playTurn")) > turn, "an answer")
        times.append(float(page.evaluate("document.body.dataset.playMs")))
    times.sort()
    print("a lever moved to the bill drawn: median %.0f ms, 95th percentile %.0f ms (on a machine that may be busy)" % (times[20], times[37]))
    accessible(page, "the playground")
    picture(page, "play")


def check_sizes(page, address, run):
    """On a telephone and on a large screen nothing is wider than the window; in the dark all of it can be read."""
    ids = page.evaluate("fetch('/api/runs').then((a) => a.json()).then((a) => a.runs.map((r) => r.id).slice(0, 2).join())")
    for name, at in (("list", "#/"), ("run", "#/" + run.split("#/")[1]), ("compare", "#/compare?runs=" + ids), ("play", "#/play?what=gpt2&tokens=1e10")):
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 360, "height": 780})
        page.goto("about:blank")
        page.goto(address + at)
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator("main .card").first).to_be_visible()
        if name == "play":
            expect(page.locator("section[aria-label=Deadline] path").first).to_be_attached()
        wide = lambda: page.evaluate("document.documentElement.scrollWidth")
        assert wide() == 360, (name, wide())
        accessible(page, name + " in the dark")
        picture(page, name + "-360-dark")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 3840, "height": 2160})
        assert wide() == 3840, (name, wide())
        picture(page, name + "-4k")
    page.set_viewport_size({"width": 1280, "height": 900})


def main():
    errors = []
    with Place() as place, sync_playwright() as p:
        _, address = place.watch()
        with browser(p) as b:
            page = b.new_page(viewport={"width": 1280, "height": 900})
            page.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
            page.on("pageerror", lambda e: errors.append(str(e)))
            child = check_live(place, page, address)
            check_axes(page)
            place.end(child, signal.SIGKILL)
            run = page.url
            check_compare(place, page, address)
            check_settings(place, page, address)
            check_playground(page, address)
            check_interrupted(place, page, run)
            check_sizes(page, address, run)
            check_file(place, page)
    assert not errors, errors


main()
print("ok")
