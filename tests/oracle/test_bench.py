#!/usr/bin/env python3
"""bench/run levers, recipes, bill and race stay runnable: frugal knows every setting of every row, and a row whose
setting it does not know fails instead of being passed over. A comparison is won by what it says. --help helps."""
import os
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "bench"))
import bill  # noqa: E402
import common  # noqa: E402
import gpu_models  # noqa: E402
import levers  # noqa: E402
import race  # noqa: E402
import race_models  # noqa: E402
import race_nanogpt  # noqa: E402
import race_sets  # noqa: E402
import recipes  # noqa: E402

common.FRUGAL = os.path.abspath(os.environ.get("FRUGAL", common.FRUGAL))
PLAIN = {"planned_mib": 256, "batch": 16}  # what rows relative to plain count from


def shown(file, *settings):
    """frugal's words against the settings; empty: none."""
    done = subprocess.run([common.FRUGAL, "show", f"{TOP}/{file}", *settings], cwd=common.DATA,
                          capture_output=True, text=True, timeout=60)
    return done.stderr.strip() if done.returncode else ""


def sides_known():
    """How many sides of bench/recipes.py frugal refuses; the rate looked for must be one it reads."""
    failed = 0
    for side, (settings, key, rates) in recipes.SIDES.items():
        words = shown(recipes.FILE, *settings, f"{key}={rates[0]}", "train.steps=1") or ("" if len(rates) >= 4 else "fewer than four rates")
        print(f"recipes, {side}: {words or 'known'}", flush=True)
        failed += bool(words)
    return failed


def bills_known():
    """The same for the runs of bench/bill.py."""
    failed = 0
    for name, file, settings in bill.runs(quick=False):
        words = shown(file, "data.path=text.txt", *(s.format(mark=1.5) for s in settings))
        print(f"bill, {name}: {words or 'known'}", flush=True)
        failed += bool(words)
    return failed


def helps():
    """--help says what is measured and how, and neither builds nor measures; scaling's driver is no Python."""
    failed = 0
    for name, words in (("race", "p < 0.01"), ("scaling", "a scaling law")):
        done = subprocess.run([f"{TOP}/bench/run", name, "--help"], env={**os.environ, "NO_BUILD": "1"}, capture_output=True, text=True, timeout=60)
        good = not done.returncode and words in done.stdout
        print(f"bench/run {name} --help: {'as it is' if good else 'FAILED ' + done.stderr[-200:]}", flush=True)
        failed += not good
    return failed


class Kept:
    def __init__(self):
        self.rows = []

    def add(self, row):
        self.rows.append(row)
        recipes.table_line(row)


def comparisons_judged():
    """compare() with made-up runs: reached at half the steps, reached for more dollars, never reached."""
    def run(loss, cost):
        def measure(side, rate, steps):
            fast = side == "modern, muon"
            return {"side": side, "optimiser": "adamw", "muon_share": 0, "key": "train.lr", "rate": rate, "edge": False, "steps": steps,
                    "loss": loss * 400 / steps if fast else 1.0, "seconds": steps, "dollars": steps * (cost if fast else 1.0), "busy": 0}
        return measure
    rates, failed = {"modern, muon": 1, "plain": 1}, 0
    for loss, cost, won, steps in ((0.5, 1, True, 200), (0.5, 3, False, 200), (2, 1, False, 400)):
        recipes.measure, kept = run(loss, cost), Kept()
        told = recipes.compare("modern, muon", "plain", rates, 400, kept)
        good = told == won and kept.rows[-1]["steps"] == steps and kept.rows[-1]["reached"] == (loss < 1)
        print(f"recipes, loss {loss} at {cost} dollars a step: {'as it is' if good else 'FAILED'}", flush=True)
        failed += not good
    return failed


def races_known():
    """Of every run file of bench/run race, with a little data of its kind."""
    common.put("race-tokens", bytes(2 * 4096))
    common.put("race-images", bytes([0, 0, 8, 3, 0, 0, 0, 40, 0, 0, 0, 28, 0, 0, 0, 28]) + bytes(40 * 784))
    common.put("race-lines", b"one\ntwo\nthree\n" * 20)
    common.put("race-labels", bytes([0, 0, 8, 1, 0, 0, 0, 40]) + bytes(i % 10 for i in range(40)))
    pictures = [f"data.{part}{what}=race-{file}" for part in ("", "eval_") for what, file in (("path", "images"), ("labels", "labels"))]
    data, failed = {"pictures": pictures, "tokens": ["data.path=race-tokens", "data.eval_path=race-tokens"]}, 0
    for name, file, given in [*((n, t[0], ["data.path=text.txt"]) for n, t in race.TASKS.items()),
                              *((n, t[0], data[t[5][0]]) for n, t in race_sets.SETS.items()),
                              ("ranker", race_models.MODELS["ranker"][0], []), ("encoder", race_models.MODELS["encoder"][0], ["data.files=[text.txt, race-lines]"])]:
        words = shown(file, "train.device=cpu", "train.precision=fp32", *given)
        print(f"race, {name}: {words or 'known'}", flush=True)
        failed += bool(words)
    return failed


def races_judged():
    """race_set() with made-up runs: accuracies clearly above the target, at it by luck, and below."""
    cases = (((0.942, 0.9425, 0.9418), True), ((0.9370, 0.9440, 0.9395), False), ((0.93, 0.931, 0.932), False))
    race_sets.data_of, failed = lambda task, options: ("", []), 0
    for values, won in cases:
        left = [values[0], *values]  # the cold run first
        race_sets.train = lambda *_, left=left, **__: ([{"event": "eval", "loss": 1, "metrics": {"accuracy": left.pop(0)}},
                                                        {"event": "done", "steps": 9}], 0, 0)
        row, judged = race_sets.race_set("fashion", {"seeds": "3", "torch": None, "modes": "eager,compiled"}, race.luck)
        words = race.table_line({**row, "dollars": None})
        print(f"race, judged {judged}: {words}", flush=True)
        failed += judged != won or ("NOT SIGNIFICANT" in words) == won or row["losses"] != list(values)
    return failed


NANOGPT = """import sys
assert "--compile=False" in sys.argv and "--n_embd=128" in sys.argv
for step in 0, 250, 500, 750:
    print(f"step {step}: train loss 1.0000, val loss {4 - step / 250:.4f}", flush=True)
    print("saving checkpoint", flush=True)
"""


def nanogpt_read():
    """A stand-in for nanoGPT's program: the first evaluation at or below the target counts; one that ends before is an error."""
    folder, failed = os.path.join(common.DATA, "stand-in"), 0
    os.makedirs(f"{folder}/data/shakespeare_char", exist_ok=True)
    common.put("stand-in/train.py", NANOGPT.encode())
    common.put("stand-in/data/shakespeare_char/prepare.py", b"open('data/shakespeare_char/input.txt').read()")
    for target, want in ((2.0, (True, 500, 2.0)), (0.5, "ended with 0")):
        try:
            row = race_nanogpt.nanogpt(folder, sys.executable, os.path.join(common.DATA, "text.txt"), target, "cpu", "eager")
            got = row["reached"], row["steps"], row["loss"]
        except common.Failed as e:
            got = str(e)
        good = got == want or isinstance(got, str) and want in got
        print(f"race, nanoGPT to {target}: {got if good else f'FAILED {got}'}", flush=True)
        failed += not good
    return failed


def ratios_judged():
    """race_model() with made-up runs of 1 s, or a little more, beside a PyTorch of `seconds`."""
    cases = (((0.7950, 0.7951, 0.7952), 3.0, True), ((0.7950, 0.7951, 0.7952), 1.5, False), ((0.7945, 0.7931, 0.7951), 3.0, False))
    failed = 0
    for values, seconds, won in cases:
        left = [values[0], *values]
        race_models.measured = lambda *_, left=left: {"seconds": 1 + 0.001 * len(left), "value": left.pop(0), "steps": 9}
        race_models.theirs = lambda *_, seconds=seconds: {"mode": "Adam", "reached": True, "steps": 9, "value": 0.794, "seconds": seconds}
        row, judged = race_models.race_model("ranker", 3, "python", race.luck, False)
        words = race.table_line({**row, "dollars": None})
        print(f"race, judged {judged}: {words}", flush=True)
        failed += judged != won or ("MISSED" in words or "NOT SIGNIFICANT" in words) == won
    return failed


FAKE = """#!/usr/bin/env python3
import os, sys, time
what, *rest = sys.argv[2:]
def log(word): print(word, *rest, file=open("%s", "a", buffering=1))
if what == "make":
    os.makedirs(rest[1])
    open(rest[1] + "/config.json", "w").close()
    sys.exit()
if rest[0] == "full":
    sys.exit(1)
log("warm")
print("warm", flush=True)
sys.stdin.readline()
log("begin")
time.sleep(0.05)
log("end")
print('{"tokens_s": %%d}' %% (7 if "compiled" in rest else 5))
"""


def peers_take_turns():
    """A stand-in for PyTorch: all are warm before one is timed, one at a time; the faster of two counts; one that fails leaves its row empty."""
    with tempfile.TemporaryDirectory() as folder:
        log, fake = os.path.join(folder, "log"), os.path.join(folder, "torch")
        with open(fake, "w") as f:
            f.write(FAKE % log)
        os.chmod(fake, 0o755)
        rows = ["lora-8b", "lora-qwen", "generate-124m", "lora-4bit"]
        models = gpu_models.Models(fake, rows, folder)
        gpu_models.BYTES.update(llama=1, qwen=1, gpt2=1)
        said = [models.peer(row) for row in rows]
        with open(log) as f:
            words = [line.split()[0] for line in f]
        models.close()
        kept = os.path.isdir(os.path.join(folder, "frugal_bench_llama"))
        none = gpu_models.Models(None, rows, folder).peer("lora-8b")
    good = said == [{"tokens_s": 5}, {}, {"tokens_s": 7}, {"tokens_s": 5}] and words == ["warm"] * 3 + ["begin", "end"] * 3 + ["warm", "begin", "end"] and kept and none == {}
    print(f"gpu, PyTorch's turns: {'as it is' if good else f'FAILED {said} {words}'}", flush=True)
    return not good


def main():
    common.make_text()
    failed = peers_take_turns()
    for example in levers.EXAMPLES:
        for lever in levers.LEVERS:
            words = shown(*levers.arguments_of(example, lever, 1, PLAIN))
            print(f"{example}, {lever}: {words or 'known'}", flush=True)
            failed += bool(words)
    failed += helps() + sides_known() + bills_known() + comparisons_judged() + races_known() + races_judged() + ratios_judged() + nanogpt_read()
    levers.LEVERS["unknown"] = ["train.magic=true"]
    try:
        levers.measure("gpt", "unknown", 1, PLAIN, 1)
        print("FAILED: a row with an unknown setting ran")
        failed += 1
    except common.Failed as e:
        failed += "unknown key train.magic" not in str(e)
        print(f"unknown: {e}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
