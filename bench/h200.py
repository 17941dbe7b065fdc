"""h200.py [--json] [--rates]: GPT-2 on one H200, predicted from the profile of the other size.

Reads what was measured and kept in bench/results/gpu-2026-11-16.txt: where each step's time went, op by op (rows `kernels`), and tokens
a second and memory of the same run (rows `order`). Rates learned from the profile of 124M alone predict 1558M and the other way round,
so that no model is predicted from its own shapes; a step must be within 10 %. Memory is the plan's, which leaves out the workspaces of
cuBLASLt and cuDNN. --rates prints the rows of both profiles together, those of src/plan/rates.def, and keeps nothing.
"""
import json
import os
import re
import subprocess
import sys

import common

KEPT = "gpu-2026-11-16.txt"
PEAK_FLOPS, PEAK_BYTES = 790e12, 4.8e12  # a large product as measured; the data sheet's memory
BY_FLOPS = {"matmul", "attention", "attention_grad", "attention_packed", "attention_packed_grad"}
SCALARS = {"broadcast", "clip", "muon"}  # of a number: nothing follows from their bytes
SIZES = {"124M": ("gpt2", 64), "1558M": ("gpt2-xl", 16)}  # a known model, which is its name among the kernels too, and its batch
HEAD = (f"{'model':<8}{'rates from':>12}{'told':>10}{'measured':>10}{'error':>8}{'plan':>8}{'used':>8}{'error':>8}\n"
        f"{'':<8}{'':>12}{'tok/s':>10}{'tok/s':>10}{'%':>8}{'GiB':>8}{'GiB':>8}{'%':>8}")
LINE = re.compile(r"^kernels +([a-z0-9-]+):   ([a-z0-9_]+)(?:\+[a-z0-9_]+)*\s+[a-z0-9_]+\s+\d+\s+([\d.]+)\s+[\d.]+%\s+([\d.]+)\s+([\d.]+)\s+\d+%")


def kept():
    return open(os.path.join(common.RESULTS, KEPT)).read()


def profiles():
    """By model: op -> seconds and work (FLOPs, or bytes)."""
    of = {}
    for found in filter(None, map(LINE.match, kept().splitlines())):
        model, op, seconds = found[1], found[2], float(found[3]) * 1e-3
        work = seconds * 1e9 * float(found[4] if op in BY_FLOPS else found[5])
        before = of.setdefault(model, {}).get(op, (0, 0))
        of[model][op] = (before[0] + seconds, before[1] + work)
    return of


def rates(*parts):
    """op -> part of the peak, all profiles together."""
    ops = {}
    for part in parts:
        for op, (seconds, work) in part.items():
            before = ops.get(op, (0, 0))
            ops[op] = (before[0] + seconds, before[1] + work)
    return {op: work / seconds / (PEAK_FLOPS if op in BY_FLOPS else PEAK_BYTES)
            for op, (seconds, work) in ops.items() if op not in SCALARS}


def width(op):
    return "f32" if op in ("cast", "adamw", "sumsq") else "low"


def rates_csv(of):
    lines = ["op,width,begin_us,flops,bytes"]
    for op, part in of.items():
        lines.append(f"{op},{width(op)},0,{part if op in BY_FLOPS else 0:.4g},{0 if op in BY_FLOPS else part:.4g}")
    return "\n".join(lines) + "\n"


def measured(size):
    """Speed and memory, from the run that was profiled: the last that is kept."""
    memory, speed = re.findall(rf"^order +{size}, train.deterministic=true, memory ([\d.]+) GiB.* ([\d,]+) tokens/s", kept(), re.M)[-1]
    return float(speed.replace(",", "")), float(memory)


def predict(size, source, of):
    model, batch = SIZES[size]
    common.put("rates.csv", rates_csv(of).encode())
    told = json.loads(subprocess.run(["build/bench_published", "build/bench/rates.csv", model, str(batch)], cwd=common.TOP, check=True,
                                     stdout=subprocess.PIPE, text=True).stdout)
    speed, gib = measured(size)
    plan = told["memory_bytes"] / 2**30
    return {"model": size, "rates_from": source, "told": told["told"], "measured": speed,
            "error": told["told"] / speed - 1, "plan_gib": plan, "used_gib": gib, "memory_error": plan / gib - 1}


def line(r):
    miss = "" if abs(r["error"]) <= 0.1 else "  MISSED"
    return (f"{r['model']:<8}{r['rates_from']:>12}{r['told']:>10.0f}{r['measured']:>10.0f}{100 * r['error']:>+8.1f}"
            f"{r['plan_gib']:>8.1f}{r['used_gib']:>8.1f}{100 * r['memory_error']:>+8.1f}{miss}")


def main(arguments):
    if any(a not in ("--json", "--rates") for a in arguments):
        sys.exit(__doc__)
    of = profiles()
    small, large = (of[model] for model, _ in SIZES.values())
    if "--rates" in arguments:
        for op, part in rates(small, large, {k: v for k, v in of["text"].items() if k not in small}).items():
            flops, nbytes = (part, 0) if op in BY_FLOPS else (0, part)
            print(f"RATE(of_gpus, {op.upper() + ',':<16}{width(op).upper()}, 0, {flops:.3g}, {nbytes:.3g})")
        return 0
    subprocess.run(["cmake", "--build", "build", "--target", "bench_published"], cwd=common.TOP, check=True,
                   stdout=subprocess.DEVNULL)
    record = common.Record("h200", HEAD, line, common.machine(command="bench/run h200", kept=f"bench/results/{KEPT}"),
                           "--json" in arguments)
    rows = [predict("1558M", "124M", rates(small)), predict("124M", "1558M", rates(large)),
            predict("124M", "both", rates(small, large)), predict("1558M", "both", rates(small, large))]
    for row in rows:
        record.add(row)
    worst = max(abs(r["error"]) for r in rows)
    common.note(f"largest error {100 * worst:.1f} %, allowed 10 %: {'met' if worst <= 0.1 else 'MISSED'}")
    return int(worst > 0.1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
