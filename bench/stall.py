"""stall.py PYTHON [--quick] [--json] [--rounds=N]: what a checkpoint takes from the run, beside torch.save.

Ours: the GPT of bench/stall.yaml (1 GiB of weights and optimiser state) on two busy cores, saving every
10 steps. Two figures of each save: `blocked`, how long the steps stood still, as frugal tells it; and
`total`, from outside: the time of all steps from the snapshot until it is on the disk (synced, named,
verified), minus as many steps that run beside no save (their median). Theirs: torch.save of as many bytes
of tensors, in the same run, turn by turn, on the same disk and cores, with nothing else to do; it does not
sync. blocked must be under 5 % of theirs and total under 25 %.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys

import common

ROUNDS, STEPS, EVERY = 5, 45, 10
LIMITS = {"blocked": 0.05, "total": 0.25}
HEAD = f"{'':<22}{'seconds':>9}{'spread':>8}{'of theirs':>11}{'must be under':>15}"
FILE = os.path.join(common.TOP, "bench", "stall.yaml")
FOLDER = os.path.join(common.DATA, "stall")
PEER = """
import sys, time, torch
bytes_all, path = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(int(sys.argv[3]))
state = {f"layer.{i}": torch.randn(bytes_all // 4 // 96) for i in range(96)}
print("ready", flush=True)
for _ in sys.stdin:
    begin = time.perf_counter()
    torch.save(state, path)
    print(time.perf_counter() - begin, flush=True)
"""


def line(r):
    limit = LIMITS.get(r["figure"])
    return (f"{r['name']:<22}{r['seconds']:>9.3f}{r['spread']:>8.2f}{100 * r['ratio']:>10.1f}%"
            + (f"{100 * limit:>14.0f}%  {'yes' if r['ratio'] < limit else 'NO'}" if limit else ""))


def steps_of(events):
    """Seconds of each step by its number, and for each save the steps beside it."""
    seconds, saves, last, taken = {}, [], None, None
    for e in events:
        if e["event"] == "step":
            if last is not None:
                seconds[e["step"]] = e["elapsed_s"] - last
            last, step = e["elapsed_s"], e["step"]
        elif e["event"] == "checkpoint" and e["what"] == "saved":
            saves.append((range(e["step"] + 1, step + 1), e))
    return seconds, saves


def ours(file, steps, save_every, *settings):
    """blocked and total of each save but the last, which no step runs beside; bytes of one; a step's seconds."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    events, _, _ = common.train(file, f"checkpoint.dir={FOLDER}", f"checkpoint.every={save_every}",
                                f"train.steps={steps}", "train.log_every=1", *settings)
    shutil.rmtree(FOLDER, ignore_errors=True)
    seconds, saves = steps_of(events)
    saves = saves[:-1]
    if not saves:
        raise common.Failed("no save was done before the last step: more steps are needed")
    beside = {n for window, _ in saves for n in window}
    free = statistics.median(s for n, s in seconds.items() if n not in beside and n > 2)
    return ([e["blocked_s"] for _, e in saves],
            [sum(seconds[n] for n in window) - len(window) * free for window, _ in saves],
            saves[0][1]["bytes"], free)


def peer_start(python, size):
    path = os.path.join(common.DATA, "stall.pt")
    process = common.spawn([python, "-c", PEER, str(size), path, str(common.threads)], stdin=subprocess.PIPE)
    if process.stdout.readline() != "ready\n":
        raise common.Failed(f"torch does not start: {common.last_words()}")
    return process


def theirs(process):
    process.stdin.write("save\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main(python, *arguments):
    rounds, steps = ROUNDS, STEPS
    for a in arguments:
        if a == "--quick":
            rounds, steps = 1, 25
        elif a.startswith("--rounds="):
            rounds = int(a[len("--rounds="):])
        elif a != "--json":
            sys.exit(__doc__)
    common.two_cores()
    os.makedirs(common.DATA, exist_ok=True)
    common.make_text()
    blocked, total, saved, peer = [], [], [], None
    busy = common.busy_share()
    for _ in range(rounds):
        b, t, size, free = ours(FILE, steps, EVERY, "checkpoint.keep=3")
        blocked += b
        total += t
        peer = peer or peer_start(python, size)
        saved += [theirs(peer), theirs(peer)]
    peer.stdin.close()
    peer.wait()
    about = common.machine(command=f"bench/run stall --rounds={rounds}", state=f"{size / 2**30:.2f} GiB",
                           step=f"{free:.3f} s", busy=f"{100 * busy:.0f} % of the cores before it began")
    record = common.Record("stall", HEAD, line, about, "--json" in arguments, "--quick" not in arguments)
    base, failed = statistics.median(saved), False
    for figure, name, values in (("torch.save", "torch.save", saved), ("blocked", "ours, blocked", blocked),
                                 ("total", "ours, total", total)):
        middle = statistics.median(values)
        row = {"figure": figure, "name": name, "seconds": middle, "ratio": middle / base, "values": values,
               "spread": (max(values) - min(values)) / base}
        record.add(row)
        failed |= figure in LIMITS and row["ratio"] >= LIMITS[figure]
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except common.Failed as why:
        sys.exit(f"stall: {why}")
