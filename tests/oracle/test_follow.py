#!/usr/bin/env python3
"""test_follow.py [CASE...]: training loops of others with frugal's callback. A plain loop, Hugging Face's Trainer and Lightning are
each killed once by SIGTERM and resumed: one run in the ledger, two starts, one bill. A plain loop is also killed without warning,
stopped by its caps, its forecast and a spot notice; its page and report have what those of our own runs have; and the module's other
functions are what they say. Without a CASE: all but huggingface and lightning, which test_follow_huggingface.py and
test_follow_lightning.py run. TRANSFORMERS and LIGHTNING name a Python that has these. Exit 77 if every case was skipped."""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

TOP = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FRUGAL = os.path.abspath(os.environ.get("FRUGAL", os.path.join(TOP, "build", "frugal")))
LOOPS = os.path.join(TOP, "tests", "callbacks")
sys.path.insert(0, os.path.join(TOP, "python"))
sys.dont_write_bytecode = True


class Stage:
    """A folder with its ledger, and loops that run in it."""

    def __init__(self, folder):
        self.folder = folder
        self.out = os.path.join(folder, "out")
        self.ledger = os.path.join(folder, "ledger.db")
        self.env = dict(os.environ, FRUGAL=FRUGAL, PYTHONPATH=os.path.join(TOP, "python"), PYTHONDONTWRITEBYTECODE="1",
                        FRUGAL_RUN_LEDGER=self.ledger, HOME=folder, OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

    def loop(self, name, *arguments, python=sys.executable, at=None, send=None, file=None):
        """Runs it; once it has said `at`, it gets the signal or the file is made. Returns exit code and all it said."""
        line = [python, os.path.join(LOOPS, name), self.out, *map(str, arguments)]
        process = subprocess.Popen(line, env=self.env, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = []
        for text in process.stdout:
            said.append(text)
            if at and text.startswith(at + "\n"):
                at = None
                if send:
                    process.send_signal(send)
                if file:
                    open(file, "w").close()
        return process.wait(), "".join(said)

    def runs(self):
        said = subprocess.run([FRUGAL, "runs", "--json", "--ledger", self.ledger], capture_output=True, text=True, env=self.env)
        return [json.loads(line) for line in said.stdout.splitlines()]

    def events(self, run):
        """Of all its starts, from their event logs."""
        folder = os.path.join(self.folder, "events", run)
        return [json.loads(line) for name in os.listdir(folder) for line in open(os.path.join(folder, name))]

    def report(self):
        return subprocess.run([FRUGAL, "report", "--ledger", self.ledger], capture_output=True, text=True, env=self.env)


def check(true, *what):
    if not true:
        raise AssertionError(" ".join(map(str, what)))


def last_step(said):
    return steps_of(said)[-1]


def steps_of(said):
    """A line of frugal's may follow before the loop has ended its own."""
    return [int(step) for step in re.findall(r"^step (\d+)(?![\d./])", said, re.M)]


def killed_and_resumed(stage, name, steps, python, *more):
    """SIGTERM in the middle: it saves and exits with 4; the same command goes on where it stopped, and the bill is one."""
    code, said = stage.loop(name, steps, *more, python=python, at=f"step {steps // 3}", send=signal.SIGTERM)
    check(code == 4, "exit", code, said)
    stopped = last_step(said)
    check(steps // 3 <= stopped < steps, "stopped at", stopped)
    (first,) = stage.runs()
    check(first["ended"] == "signal" and first["steps"] == stopped and first["interruptions"] == 1, first)
    code, said = stage.loop(name, steps, *more, python=python)
    check(code == 0, "exit", code, said)
    resumed = steps_of(said)[0]
    check(resumed == stopped + 1, "resumed with step", resumed, "after", stopped)
    (run,) = stage.runs()
    check(run["run"] == first["run"] and run["segments"] == 2 and run["steps"] == steps and run["ended"] == "end", run)
    check(run["kind"] == "followed" and run["loss"] is not None and run["work"] == 4 * steps, run)
    check(abs(run["dollars"] - run["metered_s"] * 3.6 / 3600) < 1e-6 and run["metered_s"] > first["metered_s"], run)
    report = stage.report()
    check(report.returncode == 0 and "compute" in report.stdout, report)
    return run


def case_plain(stage):
    killed_and_resumed(stage, "plain.py", 60, sys.executable, 0.01)


def case_huggingface(stage):
    python = os.environ.get("TRANSFORMERS", os.path.join(TOP, "build", "venv", "hf", "bin", "python"))
    if subprocess.run([python, "-c", "import transformers, accelerate"], capture_output=True).returncode:
        return "transformers and accelerate are not installed"
    run = killed_and_resumed(stage, "hf.py", 60, python)
    check(run["value"] is not None, run)
    done = [event for event in stage.events(run["run"]) if event["event"] == "done"]
    check(len(done) == 2 and all(event["busy"] > 0 and event["samples_per_s"] > 0 for event in done), done)


def case_lightning(stage):
    python = os.environ.get("LIGHTNING", sys.executable)
    if subprocess.run([python, "-c", "import torch\ntry: import lightning.pytorch\nexcept ImportError: import pytorch_lightning"], capture_output=True).returncode:
        return "Lightning is not installed; LIGHTNING=PYTHON names a Python that has it and PyTorch 2"
    killed_and_resumed(stage, "lit.py", 150, python)


def case_death(stage):
    """Killed without a word: the ledger says so, and the next start of the folder is the same run."""
    code, said = stage.loop("plain.py", 60, 0.01, at="step 15", send=signal.SIGKILL)
    check(code == -9, code, said)
    for _ in range(100):
        ended = stage.runs()[0]["ended"]
        if ended != "runs":
            break
        time.sleep(0.1)
    check(ended == "failed", ended)
    code, said = stage.loop("plain.py", 60, 0.01)
    (run,) = stage.runs()
    check(code == 0 and run["segments"] == 2 and run["steps"] == 60, code, run, said)


def case_caps(stage):
    """A dollar is 1,000 seconds here. The cap counts both starts, so that the second has nothing left to spend."""
    for _ in range(2):
        code, said = stage.loop("plain.py", 10000, 0.01, "max_dollars=0.0015")
        check(code == 0 and "reason budget" in said, code, said)
        (run,) = stage.runs()
        check(run["ended"] == "budget", run)
    check(len(steps_of(said)) < 20, "the second start did", steps_of(said))
    stage.out += "2"
    code, said = stage.loop("plain.py", 10000, 0.01, f"max_hours={1 / 3600}")
    check(code == 0 and "reason budget" in said, code, said)
    run = stage.runs()[-1]
    check(run["ended"] == "budget" and run["steps"] < 10000, run)


def case_forecast(stage):
    """The accuracy ends at 0.8: a target of 0.95 is out of reach, and the run says so long before its end."""
    code, said = stage.loop("plain.py", 2000, 0.0005, "target=0.95", "metric=accuracy", "forecast=0.9")
    check("reason forecast" in said and last_step(said) < 1500, code, said[-500:])
    check(stage.runs()[0]["ended"] == "forecast", stage.runs())


def case_notice(stage):
    """A spot notice of a scripted cloud: it saves and ends."""
    port, coming = os.path.join(stage.folder, "port"), os.path.join(stage.folder, "coming")
    server = subprocess.Popen([sys.executable, os.path.join(TOP, "tests", "cli", "metadata.py"), "aws", port, coming])
    try:
        while not os.path.exists(port) or not open(port).read():
            time.sleep(0.02)
        code, said = stage.loop("plain.py", 2000, 0.01, "spot.cloud=aws", f"spot.metadata=http://127.0.0.1:{open(port).read().strip()}", at="step 10", file=coming)
    finally:
        server.terminate()
        server.wait()
    check(code == 4 and "saving and ending" in said, code, said[-500:])
    check(json.load(open(os.path.join(stage.out, "state.json")))["step"] == last_step(said), said[-300:])
    check(stage.runs()[0]["ended"] == "signal", stage.runs())


def keys(value, depth=2):
    """The names in a JSON value, and in what it holds."""
    if isinstance(value, dict):
        return {key: keys(one, depth - 1) if depth else None for key, one in value.items()}
    return None


def case_page(stage):
    """A followed run and one of `frugal train` have the same fields on the page, the same parts of the bill, and both a report."""
    code, said = stage.loop("plain.py", 200, 0.005)
    check(code == 0, code, said)
    ours = subprocess.run([FRUGAL, "train", os.path.join(TOP, "examples", "ranker.yaml"), "train.steps=40", "train.target=none", "train.usd_hour=3.6"],
                          cwd=stage.folder, env=stage.env, capture_output=True, text=True)
    check(ours.returncode == 0, ours.stderr)
    rows = {run["kind"]: run for run in stage.runs()}
    theirs, own = rows.pop("followed"), rows.popitem()[1]
    server = subprocess.Popen([FRUGAL, "watch", "--no_open", "--ledger", stage.ledger], cwd=stage.folder, env=stage.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        first = server.stdout.readline()
        if "libmicrohttpd" in first:
            return first.strip()
        address = re.search(r"http://[^/\s]+", first).group(0)

        def ask(path):
            with urllib.request.urlopen(address + path, timeout=60) as answer:
                return json.load(answer)

        listed = {row["id"]: row for row in ask("/api/runs")["runs"]}
        check(keys(listed[theirs["run"]]) == keys(listed[own["run"]]), listed)
        page, page_own = ask("/api/run?run=" + theirs["run"]), ask("/api/run?run=" + own["run"])
        check(keys(page, 0) == keys(page_own, 0), page.keys(), page_own.keys())
        curve = ask(f"/api/curve?run={theirs['run']}&x=dollars&points=100")
        check(curve["columns"] == ask(f"/api/curve?run={own['run']}&x=dollars&points=100")["columns"] and len(curve["points"]) > 2, curve)
    finally:
        server.terminate()
        server.wait()
    for run in (theirs, own):
        said = subprocess.run([FRUGAL, "report", run["run"], "--ledger", stage.ledger, "--html", "r.html"], cwd=stage.folder, env=stage.env, capture_output=True, text=True)
        check(said.returncode == 0 and "compute" in said.stdout and "evaluation" in said.stdout, said)
        with open(os.path.join(stage.folder, "r.html")) as file:
            html = file.read()
        check(all(f"/api/{what}{run['run']}" in html for what in ("run?run=", "curve?run=")), html[-2000:])


def case_no_program(stage):
    """Training never depends on frugal."""
    stage.env["FRUGAL"] = "/bin/false"
    code, said = stage.loop("plain.py", 20, 0.001)
    check(code == 0 and last_step(said) == 20, code, said)


def case_module(stage):
    import frugal
    import numpy

    os.environ.update(FRUGAL=FRUGAL, FRUGAL_RUN_LEDGER=stage.ledger, HOME=stage.folder)
    os.chdir(stage.folder)
    check(frugal.version().count(".") == 2, frugal.version())
    kinds = [e["event"] for e in frugal.events("train", os.path.join(TOP, "examples", "ranker.yaml"), settings={"train.steps": 20, "train.usd_hour": 3.6, "train.target": None})]
    check(kinds[0] == "start" and kinds[-1] == "done", kinds)
    rows = frugal.runs(stage.ledger)
    check(len(rows) == 1 and rows[0]["steps"] == 20 and rows[0]["dollars"] > 0, rows)
    try:
        import pandas

        check(frugal.frame(ledger=stage.ledger).shape[0] == 1 and str(frugal.frame(ledger=stage.ledger)["begin"].dtype).startswith("datetime64"))
    except ImportError:
        print("  without pandas")
    plans = frugal.plan("gpt2", tokens=1e9)
    check(plans and plans[0]["rank"] == 1 and plans[0]["usd"] <= plans[-1]["usd"], plans[:1])
    try:
        frugal.plan("no such model")
        check(False, "a wrong name is no error")
    except frugal.Error as error:
        check(error.code == 2 and "no such model" in str(error), error)
    weights = frugal.load("ranker.safetensors")
    name = next(iter(weights))
    check(weights[name].base is not None, "a copy")
    weights[name][...] += 1
    frugal.save("changed.safetensors", weights)
    check(numpy.array_equal(frugal.load("changed.safetensors")[name], weights[name]), name)
    check(not numpy.array_equal(frugal.load("ranker.safetensors")[name], weights[name]), "the file was changed")
    torch_too(frugal)


def torch_too(frugal):
    try:
        import torch
        from safetensors.torch import load_file
    except ImportError:
        print("  without torch and safetensors")
        return
    tensors = {"a": torch.randn(3, 4), "b": torch.randn(5).to(torch.bfloat16), "c": torch.arange(6).reshape(2, 3).t(), "d": torch.empty(0, 2)}
    frugal.save("t.safetensors", tensors)
    for other in (load_file("t.safetensors"), frugal.load("t.safetensors", "torch")):
        for name, value in tensors.items():
            check(other[name].dtype == value.dtype and torch.equal(other[name], value), name)


def main(names):
    cases = {name[5:]: value for name, value in globals().items() if name.startswith("case_")}
    results = []
    for name in names or [name for name in cases if name not in ("huggingface", "lightning")]:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            try:
                skipped = cases[name](Stage(folder))
                results.append(77 if skipped else 0)
                print(f"{name}: {'skipped, ' + skipped if skipped else 'ok'}, {time.monotonic() - begin:.1f} s", flush=True)
            except Exception as error:
                results.append(1)
                print(f"{name}: FAILED: {type(error).__name__}: {error}", flush=True)
            os.chdir(TOP)
    return 1 if 1 in results else min(results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
