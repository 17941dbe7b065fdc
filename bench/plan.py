"""plan.py [--json]: how long a plan over the whole catalogue takes, from process start to its end.

Each question is asked five times with an empty ledger; the least counts, and must be below one second. What is done
for it (compilations) is bounded by tests/unit/test_search.c.
"""
import subprocess
import sys
import time

import common

ROUNDS, MOST_S = 5, 1.0
ASKED = {
    "gpt2, 10 G tokens": ["gpt2", "--tokens", "1e10"],
    "the same within two hours": ["gpt2", "--tokens", "1e10", "--deadline", "2"],
    "eight runs of it": ["gpt2", "--tokens", "1e10", "--runs", "8"],
    "llama-3-8b, 1 T tokens, a deadline": ["llama-3-8b", "--tokens", "1e12", "--batch", "4194304", "--deadline", "2000"],
    "llama-3.1-405b": ["llama-3.1-405b", "--tokens", "1e12", "--batch", "16777216"],
    "examples/gpt.yaml": ["examples/gpt.yaml", "data.path=build/bench/text.txt"],
    "examples/fashion.yaml": ["examples/fashion.yaml"],
}
HEAD = f"{'question':<40}{'seconds':>9}{'rows':>6}{'busy':>6}"


def ask(words):
    begin = time.perf_counter()
    done = subprocess.run([common.FRUGAL, "plan", *words, "--json"], cwd=common.TOP, env=common.environment(),
                          capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode not in (0, 1):  # 1: nothing in the catalogue holds it
        raise common.Failed(f"frugal plan {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return seconds, done.stdout.count('"event":"plan"')


def line(r):
    return f"{r['question']:<40}{r['seconds']:>9.3f}{r['rows']:>6}{100 * r['busy']:>5.0f}%" + \
        ("" if r["seconds"] <= MOST_S else "  MISSED") + ("  DISTURBED" if r["busy"] > common.BUSY_MAX else "")


def main(arguments):
    if any(a != "--json" for a in arguments):
        sys.exit(__doc__)
    common.make_text()
    record = common.Record("plan-speed", HEAD, line, common.machine(command="bench/run plan"), "--json" in arguments)
    worst = 0
    for question, words in ASKED.items():
        busy = common.busy_share()
        times = [ask(words) for _ in range(ROUNDS)]
        worst = max(worst, min(t for t, _ in times))
        record.add({"question": question, "seconds": min(t for t, _ in times), "rows": times[0][1], "busy": busy})
    common.note(f"the longest takes {worst:.2f} s, allowed {MOST_S:.0f} s: {'met' if worst <= MOST_S else 'MISSED'}")
    return int(worst > MOST_S)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except common.Failed as e:
        sys.exit(f"plan: {e}")
