#!/usr/bin/env python3
"""scripts/playground against the program: the planner in WebAssembly answers a hundred random settings as `frugal watch` does,
to the cent, under node and in a browser; the file opens without a server, follows its levers, breaks no rule of
accessibility and leaves the console empty. ./check --long runs it: the compilation takes a minute. PLAY_FILE=FOLDER takes the
play.html and planner.wasm of an earlier one."""
import json, math, os, random, shutil, subprocess, sys, tempfile, urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from watch_page import Place, TOP, WAIT_S, browser, port_of, skip, talk, wait_until

for tool in ("emcc", "node"):
    if not shutil.which(tool):
        skip("there is no %s (scripts/setup long)" % tool)
COUNT, PLANS_LEAST = 100, 50  # of them; the others are refused, and both must say why in the same words
CENT = 0.005  # half of one: dollars that are printed with two digits are the same

DRIVER = """
import { readFileSync } from "node:fs";
const planner = await plannerOf(readFileSync(process.argv[2]));
const asked = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(asked.map((path) => planner(path))));
"""


def question(rng, choices, whole):
    """Levers as somebody moves them: a few at a time."""
    def log(low, high):
        return "%.3g" % math.exp(rng.uniform(math.log(low), math.log(high)))
    levers = {"tokens": lambda: log(1e7, 1e12), "batch": lambda: 2 ** rng.randrange(13), "context": lambda: 2 ** rng.randrange(7, 15), "depth": lambda: rng.choice((0.25, 0.5, 1.5)),
              "width": lambda: rng.choice((0.25, 0.5, 1.5)), "precision": lambda: rng.choice(("fp32", "bf16", "fp16")), "recompute": lambda: rng.choice(("none", "2", "all")),
              "lora": lambda: 2 ** rng.randrange(11), "market": lambda: rng.choice(("spot", "on-demand")), "cloud": lambda: rng.choice(choices["clouds"]),
              "region": lambda: rng.choice(choices["regions"]), "machine": lambda: rng.choice(choices["machines"]), "gpus": lambda: 2 ** rng.randrange(8), "deadline": lambda: log(0.5, 5000),
              "spot": lambda: log(0.2, 1000), "save": lambda: log(10, 1e5), "stop": lambda: rng.choice((0.1, 0.5, 0.9)), "micro": lambda: 2 ** rng.randrange(6)}
    chosen = {"what": rng.choice(choices["models"])["name"]} if whole else {"what": rng.choice(choices["models"])["name"], "part": "rows"}
    for name in rng.sample(sorted(levers), rng.randrange(6)):
        chosen[name] = levers[name]()
    return "/api/play?" + urllib.parse.urlencode(chosen)


def get(port, path):
    answer = talk(port, ("GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (path, port)).encode(), WAIT_S)
    assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


def same(path, ours, theirs):
    """Dollars to the cent; machines, words and all whole numbers exactly; other figures as far as two libraries of functions agree."""
    where = (path, ours.get("error"), theirs.get("error"))
    assert ours.get("error") == theirs.get("error"), where
    if "rows" not in ours:
        return 0
    assert [(r["machine"], r["gpus"], r["market"], r["micro"], r["recompute"]) for r in ours["rows"]] == [(r["machine"], r["gpus"], r["market"], r["micro"], r["recompute"]) for r in theirs["rows"]], path
    worst = 0
    for a, b in [*zip(ours["rows"], theirs["rows"]), *zip(ours.get("levers", []), theirs.get("levers", [])), *zip(ours.get("deadlines", []), theirs.get("deadlines", []))]:
        assert abs(a["usd"] - b["usd"]) < CENT, (path, a, b)
        worst = max(worst, abs(a["usd"] - b["usd"]))
    for key in ("steps", "batch", "parameters", "command", "settings", "notes"):
        assert ours.get(key) == theirs.get(key), (path, key, ours.get(key), theirs.get(key))
    for key in ("rows", "levers", "deadlines"):
        assert len(ours.get(key, [])) == len(theirs.get(key, [])), (path, key)
    return worst


def make(folder):
    made = subprocess.run([os.path.join(TOP, "scripts", "playground"), os.path.join(folder, "play.html"), "--wasm", os.path.join(folder, "planner.wasm")], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return folder


def check_node(folder, built, paths, theirs):
    driver = os.path.join(folder, "driver.mjs")
    with open(os.path.join(TOP, "src", "wasm", "planner.js")) as f, open(driver, "w") as to:
        to.write(f.read() + DRIVER)
    done = subprocess.run(["node", driver, os.path.join(built, "planner.wasm")], input=json.dumps(paths), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    ours = json.loads(done.stdout)
    worst = max(same(*of) for of in zip(paths, ours, theirs))
    plans = sum(bool(a.get("rows")) for a in ours)
    assert plans >= PLANS_LEAST, plans
    print("%d random settings under node: %d plans, the largest difference $%.2g" % (len(paths), plans, worst))


def check_browser(built, paths, theirs):
    try:
        from axe_playwright_python.sync_playwright import Axe
        from playwright.sync_api import sync_playwright, expect
    except ImportError:
        skip("Python has no playwright or axe-playwright-python")
    if not os.path.exists("/usr/bin/chromium"):
        skip("there is no chromium")
    expect.set_options(timeout=1000 * WAIT_S)
    errors = []
    with sync_playwright() as p, browser(p) as b:
        page = b.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.goto("file://" + os.path.join(built, "play.html") + "#/play?what=gpt2&tokens=1e10")
        bill = page.locator("section[aria-label='Cheapest way'] dd").first
        expect(bill).to_contain_text("$")
        for path, answer in zip(paths[:12], theirs):
            same(path, page.evaluate("async (path) => (await globalThis.planner)(path)", path), answer)
        before = bill.inner_text()
        slider, times = page.get_by_label("Tokens", exact=True), []
        for at in range(500, 530):
            turn = int(page.evaluate("document.body.dataset.playTurn"))
            slider.fill(str(at))
            wait_until(lambda: int(page.evaluate("document.body.dataset.playTurn")) > turn, "an answer")
            times.append(float(page.evaluate("document.body.dataset.playMs")))
        assert bill.inner_text() != before
        expect(page.locator("section[aria-label=\"Levers' worth\"] rect").first).to_be_attached()
        found = Axe().run(page).response["violations"]
        assert not found, [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found]
        os.makedirs(os.path.join(TOP, "build", "log"), exist_ok=True)
        page.screenshot(path=os.path.join(TOP, "build", "log", "play-file.png"), full_page=True)
        times.sort()
        print("the file in the browser: a lever moved to the bill drawn, median %.0f ms, 95th percentile %.0f ms (on a machine that may be busy)" % (times[15], times[28]))
    assert not errors, errors


def main():
    seed = int(os.environ.get("CHECK_SEED", random.randrange(1 << 30)))
    print("CHECK_SEED=%d" % seed)
    rng = random.Random(seed)
    with Place() as place, tempfile.TemporaryDirectory() as folder:
        place.env["HOME"] = folder  # no prices and no measurements of the user's
        built = os.environ.get("PLAY_FILE") or make(folder)
        _, address = place.watch()
        port = port_of(address)
        choices = get(port, "/api/choices")
        paths = [question(rng, choices, i % 5 == 0) for i in range(COUNT)]  # levers' worth and deadlines with a few: each is many searches
        theirs = [get(port, path) for path in paths]
        check_node(folder, built, paths, theirs)
        check_browser(built, paths, theirs)


main()
print("ok")
