"""The driver of `bench/run watch`: how fast the page is, what its server takes, and what it costs the run that is watched.

    watch.py [--quick] [--json]

Protocol. A ledger of 10,000 runs is made from one real run, whose rows are merged under new names; one of them gets an event
log as long as logs become (16 MiB) whose steps reach 10 million. The server is kept on one core. A row is

    list            GET /api/runs, the whole list
    curve           GET /api/curve of those 10 million steps; the first reads the log, later ones only thin it
    viewers         50 streams of /api/live that follow a run which trains in another process: from the event's own time to its
                    arrival; the log is written every 0.4 s, so part of that is lost before the server can know
    playground      a lever of the playground moved in a browser to its bill drawn: where the compiled program stays the same
                    (tokens), and where it is compiled again (depth); rows are left out where there is no Playwright or chromium
    memory          the server's peak resident size after all that, and after the playground, which keeps eight compiled programs
    slowdown        steps per second of that run with 50 viewers over those without, in turns

`busy` is the share of the cores in use while nothing of ours runs: above BUSY_MAX a row is marked DISTURBED. Verdicts: list and
curve below a second, 95 % of events within a second, 95 % of the levers within 100 ms (500 ms where the program is compiled
again), memory below 100 MB, slowdown at most 1 %; the exit code is 1 if one is missed.
"""
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from common import BUSY_MAX, FRUGAL, Failed, Record, busy_share, machine, note

RUNS, STEPS, VIEWERS, LOG_BYTES = 10000, 10_000_000, 50, 16 << 20
RUN = """data: {kind: idx, path: images, labels: labels}
model: {layers: [flatten, {dense: 256}, relu, {dense: 4}]}
train: {steps: 1000000000, usd_hour: 3600, lr: 0.001, eval_every: 5000, threads: 1, out: weights.safetensors}
"""


def frugal(place, *words):
    done = subprocess.run([FRUGAL, *words], cwd=place, env=env_of(place), capture_output=True, text=True)
    if done.returncode:
        raise Failed(done.stderr)
    return done.stdout


def env_of(place):
    return dict(os.environ, FRUGAL_RUN_LEDGER=os.path.join(place, "state", "ledger.db"))


def make_runs(place, count):
    """A real run, and its rows under other names."""
    with open(os.path.join(place, "images"), "wb") as f:
        f.write(struct.pack(">IIII", 0x803, 400, 2, 2) + bytes((200 if p == i % 4 else 30 + 37 * i % 50) for i in range(400) for p in range(4)))
    with open(os.path.join(place, "labels"), "wb") as f:
        f.write(struct.pack(">II", 0x801, 400) + bytes(i % 4 for i in range(400)))
    with open(os.path.join(place, "run.yaml"), "w") as f:
        f.write(RUN)
    frugal(place, "train", "run.yaml", "train.steps=500")
    run = json.loads(frugal(place, "runs", "--json").splitlines()[0])["run"]
    rows = [json.loads(line) for line in frugal(place, "runs", "--export", run).splitlines()]
    with open(os.path.join(place, "rows.jsonl"), "w") as f:
        for i in range(count):
            for row in rows:
                row = dict(row)
                for key in ("id", "run", "segment"):
                    if row.get(key) and row["row"] != "price":
                        row[key] = "%06x%s" % (i, row[key][:6])
                if row["row"] == "run":  # settings of its own, as runs have
                    row["name"] = "run %d" % i
                    row["settings"] += "\ntrain.seed=%d" % i
                    row["origins"] += "\ncommand line"
                f.write(json.dumps(row) + "\n")
    frugal(place, "runs", os.path.join(place, "rows.jsonl"))
    return json.loads(frugal(place, "runs", "--json").splitlines()[-1])["run"]


def make_log(place, run):
    """Steps as a long run's log has them."""
    folder = os.path.join(place, "state", "events", run)
    os.makedirs(folder, exist_ok=True)
    lines, size, count = [], 0, LOG_BYTES // 480
    for i in range(count):
        step = (i + 1) * STEPS // count
        lines.append('{"event":"step","step":%d,"steps":%d,"epoch":1,"elapsed_s":%.3f,"lr":0.001,"loss":%.6f,"metrics":{"accuracy":0.5},"loss_scale":null,"skipped":0,'
                     '"samples_per_s":1000.5,"tokens_per_s":null,"steps_per_s":10.25,"step_p50_s":0.1,"step_p95_s":0.12,"step_p99_s":0.2,"input_share":0.01,"mfu":0.41,'
                     '"dollars":%.9f,"remote_age_s":null,"epochs":0,"samples":%d,"eta_s":12.5,"busy":0.9,"wall_ns":%d}' % (
                         step, STEPS, i * 2.5, 2 + 1 / (1 + i) + (i * 7919 % 1000) / 1e4, i * 1e-4, step * 64, (1700000000 + 2 * i) * 10**9))
        size += len(lines[-1]) + 1
    with open(os.path.join(folder, "aaaaaaaaaaaa.jsonl"), "w") as f:
        f.write("\n".join(lines) + "\n")
    return count, size


class Server:
    def __init__(self, place):
        self.child = subprocess.Popen(["taskset", "-c", "0", FRUGAL, "watch", "--no-open"], cwd=place, env=env_of(place), stdout=subprocess.PIPE, text=True)
        self.address = self.child.stdout.readline().strip().split("?")[0]
        if not self.address:
            raise Failed("frugal watch does not start")

    def get(self, path):
        begin = time.perf_counter()
        with urllib.request.urlopen(self.address + path) as answer:
            body = answer.read()
        return time.perf_counter() - begin, body

    def peak_bytes(self):
        with open("/proc/%d/status" % self.child.pid) as f:
            return 1024 * int([line.split()[1] for line in f if line.startswith("VmHWM")][0])

    def close(self):
        self.child.terminate()
        self.child.wait()


def viewer(address, generation, run, until, delays):
    with urllib.request.urlopen("%sapi/live?list=%d&follow=%s:" % (address, generation, run)) as stream:
        while time.time() < until:
            line = stream.readline()
            if line.startswith(b'data: {"run"') and b'"points":[[' in line:
                now = time.time()
                delays += [now - p[6] for p in json.loads(line[6:])["points"] if now - p[6] < 60]


def rate(place, seconds):
    """Steps per second of the run that trains, from its own log."""
    newest = max((os.path.join(d, f) for d, _, files in os.walk(os.path.join(place, "state", "events")) for f in files), key=os.path.getmtime)
    def last():
        with open(newest) as f:
            steps = [json.loads(line) for line in f.read().splitlines() if '"event":"step"' in line]
        return steps[-1]["step"], steps[-1]["wall_ns"]
    a = last()
    time.sleep(seconds)
    b = last()
    return (b[0] - a[0]) / (b[1] - a[1]) * 1e9


def watched(place, server, rounds, seconds):
    child = subprocess.Popen(["taskset", "-c", "1", FRUGAL, "train", "run.yaml", "run.name=live", "train.out=live.safetensors"], cwd=place, env=env_of(place),
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(4)
        run = [r["run"] for r in map(json.loads, frugal(place, "runs", "--json").splitlines()) if r["name"] == "live"][0]
        delays, ratios = [], []
        for _ in range(rounds):
            alone = rate(place, seconds)
            until = time.time() + seconds + 2
            generation = json.loads(server.get("api/runs")[1])["generation"]
            threads = [threading.Thread(target=viewer, args=(server.address, generation, run, until, delays)) for _ in range(VIEWERS)]
            for t in threads:
                t.start()
            time.sleep(1)
            ratios.append(rate(place, seconds) / alone)
            for t in threads:
                t.join()
        return delays, ratios
    finally:
        child.terminate()
        child.wait()


def moved(page, label, places):
    """Seconds from each move of a lever to its bill, sorted."""
    times, slider = [], page.get_by_label(label, exact=True)
    for at in places:
        turn = page.evaluate("document.body.dataset.playTurn")
        slider.fill(str(at))
        page.wait_for_function("(turn) => document.body.dataset.playTurn !== turn", arg=turn, timeout=60000)
        times.append(float(page.evaluate("document.body.dataset.playMs")) / 1000)
    return sorted(times)


def playground(server, quick):
    """Of moves of the lever for tokens, and of that for depth; None: there is no browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if not os.path.exists("/usr/bin/chromium"):
        return None
    count = 20 if quick else 200
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(server.address + "#/play?what=gpt2&tokens=1e10")
        page.wait_for_function("() => document.body.dataset.playTurn", timeout=60000)
        same = moved(page, "Tokens", (300 + at for at in range(count)))
        again = moved(page, "Depth", (0.25 + 0.05 * (at % 36) for at in range(36)))
        browser.close()
    return same, again


HEAD = f"{'row':<44}{'figure':>12}{'allowed':>12}{'busy':>6}"


def line(r):
    return f"{r['row']:<44}{r['figure']:>12}{r['allowed']:>12}{100 * r['busy']:>5.0f}%" + \
        ("" if r["met"] else "  MISSED") + ("  DISTURBED" if r["busy"] > BUSY_MAX else "")


def main(arguments):
    if any(a not in ("--json", "--quick") for a in arguments):
        sys.exit(__doc__)
    quick = "--quick" in arguments
    count = 500 if quick else RUNS
    record = Record("watch", HEAD, line, machine(command="bench/run watch"), "--json" in arguments, kept=not quick)
    missed = []

    def add(row, value, allowed, text, limit, busy):
        met = allowed is None or value <= allowed
        missed.extend([] if met else [row])
        record.add({"row": row, "value": value, "figure": text, "allowed": limit, "met": met, "busy": busy})

    with tempfile.TemporaryDirectory() as place:
        note(f"{count} runs are made")
        run = make_runs(place, count)
        points, size = make_log(place, run)
        busy = busy_share()
        server = Server(place)
        try:
            first, body = server.get("api/runs")
            later = statistics.median(server.get("api/runs")[0] for _ in range(10))
            add(f"list of {count:,} runs, {len(body) / 1e6:.1f} MB, first", first, 1, f"{first:.3f} s", "1 s", busy)
            add("the same again, median of 10", later, 1, f"{later:.3f} s", "1 s", busy)
            path = "api/curve?run=" + run + "&x=step&points=1280"
            first, body = server.get(path)
            later = statistics.median(server.get(path)[0] for _ in range(10))
            add(f"curve to step {STEPS:,}, log of {size / 1e6:.0f} MB, first", first, 1, f"{first:.3f} s", "1 s", busy)
            add(f"the same again, {len(body) / 1e3:.0f} kB", later, 1, f"{later:.3f} s", "1 s", busy)
            delays, ratios = watched(place, server, 1 if quick else 5, 3 if quick else 8)
            delays.sort()
            add(f"an event to {VIEWERS} viewers, median", statistics.median(delays), 1, f"{statistics.median(delays):.2f} s", "1 s", busy)
            add("95th percentile", delays[len(delays) * 95 // 100], 1, f"{delays[len(delays) * 95 // 100]:.2f} s", "1 s", busy)
            slower = 1 - statistics.median(ratios)
            add(f"slowdown of the run, median of {len(ratios)}", slower, 0.01, f"{100 * slower:.2f} %", "1 %", busy)
            peak = server.peak_bytes()
            add("server's peak memory", peak, 100e6, f"{peak / 1e6:.0f} MB", "100 MB", busy)
            played = playground(server, quick)
            if not played:
                note("the playground is left out: Python has no playwright, or there is no chromium")
            for what, times, most in zip(("the same program", "compiled again"), played or (), (0.1, 0.5)):
                late = times[len(times) * 95 // 100]
                add(f"playground, {what}: 95 % of {len(times)}", late, most, f"{1000 * late:.0f} ms", f"{1000 * most:.0f} ms", busy)
            peak = server.peak_bytes()
            add("server's peak memory with the playground", peak, None, f"{peak / 1e6:.0f} MB", "", busy)
        finally:
            server.close()
    note("all met" if not missed else "MISSED: " + ", ".join(missed))
    return int(bool(missed))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failed as e:
        sys.exit(f"watch: {e}")
