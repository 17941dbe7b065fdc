"""fuzz.py FOLDER [--total=N] [--checkpoints=N] [--seed=S] [--jobs=J] [--trial] [--json] [TARGET…]: every fuzz target of that build.

The executions (10 million) are shared out evenly over the parsers' targets; `checkpoint`, whose inputs are checkpoints with numbers
of any kind and hashes that fit, gets a number of its own (a tenth of the total, 1 million). Each target starts from its corpus (tests/fuzz/corpus) with a seed
of its own, S + its place in the list; S is fresh and printed. A find (a crash, a sanitizer's report, a hang of 20 s)
is kept as FOLDER/fuzz_NAME.find-K, and the target goes on with another seed until its share is done. Rates count the
target's own processor time; with J > 1 several targets run at the same time. A trial is not kept in bench/results. Ends with 1 if there was a find.
"""
import concurrent.futures
import os
import random
import re
import subprocess
import sys

import common

TOTAL, FINDS_MAX, CHECKPOINT = 10_000_000, 20, "checkpoint"
HEAD = f"{'target':<16}{'executions':>12}{'per CPU s':>11}{'CPU s':>9}{'finds':>7}  seed"


def line(r):
    return f"{r['target']:<16}{r['executions']:>12,}{r['per_cpu_s']:>11,.0f}{r['cpu_s']:>9.1f}{r['finds']:>7}  {r['seed']}"


def attack(folder, name, executions, seed):
    """One target, restarted after each find."""
    done, finds, cpu_s = 0, 0, 0.0
    while done < executions and finds < FINDS_MAX:
        crash = os.path.join(folder, f"fuzz_{name}.find-{finds + 1}")
        env = dict(os.environ, CHECK_SEED=str(seed + 1_000_003 * finds), CHECK_EXECUTIONS=str(executions - done))
        env.update(ASAN_OPTIONS="abort_on_error=1", UBSAN_OPTIONS="abort_on_error=1:print_stacktrace=1")
        env.pop("CHECK_SECONDS", None)
        r = subprocess.run([os.path.join(folder, f"fuzz_{name}"), "--corpus", f"tests/fuzz/corpus/{name}", "--crash", crash],
                           env=env, capture_output=True, text=True, errors="replace", cwd=common.TOP)
        counts = re.findall(r"^(\d+) executions", r.stdout + r.stderr, re.M)
        if not counts:
            raise common.Failed(f"fuzz_{name} ended with {r.returncode} and no count:\n{r.stderr[-500:]}")
        done += int(counts[-1])
        cpu_s += sum(float(s) for s in re.findall(r"([\d.]+) s of a core", r.stdout + r.stderr))
        if r.returncode:
            finds += 1
            common.note(f"fuzz_{name}: a find, kept in {crash}\n{r.stderr[-2000:]}")
    return {"target": name, "executions": done, "per_cpu_s": done / max(cpu_s, 0.01), "cpu_s": cpu_s, "finds": finds, "seed": seed}


def main(folder, *arguments):
    options = dict(a[2:].split("=", 1) for a in arguments if a.startswith("--") and "=" in a)
    wanted = [a for a in arguments if not a.startswith("--")]
    folder = os.path.abspath(folder)
    corpora = os.path.join(common.TOP, "tests", "fuzz")
    names = sorted(f[5:-2] for f in os.listdir(corpora) if f.startswith("fuzz_") and f.endswith(".c"))
    unknown = set(wanted) - set(names)
    if unknown:
        raise common.Failed(f"no fuzz target {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    names = wanted or names
    total, seed = int(float(options.get("total", TOTAL))), int(options.get("seed", random.getrandbits(48)))
    checkpoints, parsers = int(float(options.get("checkpoints", total // 10))), [n for n in names if n != CHECKPOINT]
    share = {n: checkpoints if n == CHECKPOINT else -(-total // len(parsers)) for n in names}
    about = common.machine(fuzz=f"{sum(share.values()):,} executions over {len(names)} targets of {os.path.basename(folder)}, seed {seed}")
    record = common.Record("fuzz", HEAD, line, about, "--json" in arguments, kept="--trial" not in arguments)
    rows = []
    with concurrent.futures.ThreadPoolExecutor(int(options.get("jobs", 1))) as pool:
        for row in pool.map(lambda i: attack(folder, names[i], share[names[i]], seed + i), range(len(names))):
            rows.append(row)
            record.add(row)
    sums = {k: sum(r[k] for r in rows) for k in ("executions", "cpu_s", "finds")}
    record.add({"target": "all", "per_cpu_s": sums["executions"] / max(sums["cpu_s"], 0.01), "seed": seed, **sums})
    return 1 if sums["finds"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except common.Failed as e:
        sys.exit(str(e))
