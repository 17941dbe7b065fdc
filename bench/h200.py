"""h200.py [--json] [--rates]: GPT-2 on one H200, foretold from the profile of the other size.

Reads what was measured and kept: tokens a second and memory from bench/results/gpu-2026-11-15.txt, and where each step's
time went, op by op, from there and (ops it does not list) from bench/results/gpu-kernels-2026-11-15.txt. Rates learned from
the profile of 124M alone foretell 1558M and the other way round, so that no model is foretold from its own shapes; a step must be
within 10 %. Memory is the plan's, which leaves out the workspaces of cuBLASLt and cuDNN. --rates prints the rows of both profiles together, those of
src/plan/rates.def, and keeps nothing.
"""
import json
import os
import re
import subprocess
import sys

import common

KEPT, EARLIER = "gpu-2026-11-15.txt", "gpu-kernels-2026-11-15.txt"
PEAK_FLOPS, PEAK_BYTES = 790e12, 4.8e12  # a large product as measured; the data sheet's memory
BY_FLOPS = {"matmul", "attention", "attention_grad"}
SCALARS = {"broadcast", "clip"}  # of a number: nothing follows from their bytes
SIZES = {"124M": ("gpt2", 64, "gpt2"), "1558M": ("gpt2-xl", 16, "gpt2-xl")}  # a known model, its batch, its row in KEPT
HEAD = (f"{'model':<8}{'rates from':>12}{'told':>10}{'measured':>10}{'error':>8}{'plan':>8}{'used':>8}{'error':>8}\n"
        f"{'':<8}{'':>12}{'tok/s':>10}{'tok/s':>10}{'%':>8}{'GiB':>8}{'GiB':>8}{'%':>8}")
LINE = re.compile(r"^  ([a-z0-9_]+)(?:\+[a-z0-9_]+)*\s+[a-z_]+\s+\d+\s+([\d.]+)\s+[\d.]+%\s+([\d.]+)\s+([\d.]+)\s*$")


def profile(text, begin, end):
    """Seconds and work (FLOPs, or bytes) by op between two headings."""
    ops = {}
    for line in text[text.index(begin):text.index(end)].splitlines():
        found = LINE.match(line)
        if not found:
            continue
        op, seconds = found[1], float(found[2]) * 1e-3
        work = seconds * 1e9 * float(found[3] if op in BY_FLOPS else found[4])
        before = ops.get(op, (0, 0))
        ops[op] = (before[0] + seconds, before[1] + work)
    return ops


def profiles():
    """By size: the newer profile over the earlier one, whose table is whole."""
    new = open(os.path.join(common.RESULTS, KEPT)).read()
    old = open(os.path.join(common.RESULTS, EARLIER)).read()
    marks = {"124M": ("124M, batch 64: program", "1558M, batch 16: program", "\n124M\n", "\n1558M\n"),
             "1558M": ("1558M, batch 16: program", "124M by recipe", "\n1558M\n", "\ncheck_ops\n"),
             "modern": ("124M by recipe", "Under load", None, None)}
    return {size: {**(profile(old, c, d) if c else {}), **profile(new, a, b)} for size, (a, b, c, d) in marks.items()}


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


def measured(row):
    """The best of the kept speeds, and memory."""
    text = open(os.path.join(common.RESULTS, KEPT)).read()
    speeds = re.findall(rf"^{row} +speed +([\d,]+) tokens/s", text, re.M)
    memory = re.findall(rf"^{row} +memory +([\d.]+) GiB", text, re.M)
    return max(float(s.replace(",", "")) for s in speeds), float(memory[0])


def foretell(size, source, of):
    model, batch, row = SIZES[size]
    common.put("rates.csv", rates_csv(of).encode())
    told = json.loads(subprocess.run(["build/bench_published", "build/bench/rates.csv", model, str(batch)], cwd=common.TOP, check=True,
                                     stdout=subprocess.PIPE, text=True).stdout)
    speed, gib = measured(row)
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
    if "--rates" in arguments:
        for op, part in rates(of["124M"], of["1558M"], {k: v for k, v in of["modern"].items() if k not in of["124M"]}).items():
            flops, nbytes = (part, 0) if op in BY_FLOPS else (0, part)
            print(f"RATE(of_gpus, {op.upper() + ',':<16}{width(op).upper()}, 0, {flops:.3g}, {nbytes:.3g})")
        return 0
    subprocess.run(["cmake", "--build", "build", "--target", "bench_published"], cwd=common.TOP, check=True,
                   stdout=subprocess.DEVNULL)
    record = common.Record("h200", HEAD, line, common.machine(command="bench/run h200", kept=f"bench/results/{KEPT}"),
                           "--json" in arguments)
    rows = [foretell("1558M", "124M", rates(of["124M"])), foretell("124M", "1558M", rates(of["1558M"])),
            foretell("124M", "both", rates(of["124M"], of["1558M"])), foretell("1558M", "both", rates(of["124M"], of["1558M"]))]
    for row in rows:
        record.add(row)
    worst = max(abs(r["error"]) for r in rows)
    common.note(f"largest error {100 * worst:.1f} %, allowed 10 %: {'met' if worst <= 0.1 else 'MISSED'}")
    return int(worst > 0.1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
