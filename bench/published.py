"""published.py [--json]: runs that others have published, and what the planner says of them.

Tokens a second of a GPU, from our own estimate (rates by op of one H200, peaks and links of the GPU in
question) beside the published figure; the error must stay within 15 %. Rows beyond it are misses and are
named, with what the estimate does not know of them. bench/published.c has the runs with their sources and how
each is cut up.
"""
import json
import subprocess
import sys

import common

CAUSES = {  # likely, not proven
    "MPT": "eager PyTorch of 2023: a loss of several passes in f32, ALiBi in Triton's attention, work of the host between steps; all weigh most in short steps",
}
ASSUMED = """assumed: rates by op of one H200, peaks and links of the data sheets, HBM at 2.4 TB/s where torchtitan says
so (its GPUs were held to 500 W, which is not modelled); FSDP2's copies of torchtitan, an update in nine kernels of llm-foundry; 8 bits: hidden products at twice the pace, two passes over each operand to cast it;
tensor parallelism of torchtitan's 70B and 405B: what its 8B loses by it (on 64 GPUs, not a row here), by bytes; pipeline of its 405B: 8 micro-batches (its default:
as many as stages), 2 parts of a GPU where interleaved. No figure of a row goes into its own prediction."""
HEAD = (f"{'run':<62}{'told':>9}{'published':>11}{'error':>8}{'MFU':>7}  source\n"
        f"{'':<62}{'tok/s':>9}{'tok/s':>11}{'%':>8}{'%':>7}")


def line(r):
    miss = "" if abs(r["error"]) <= 0.15 else "  MISSED"
    return (f"{r['run']:<62}{r['told']:>9.0f}{r['published']:>11.0f}{100 * r['error']:>+8.1f}"
            f"{100 * r['mfu']:>7.1f}  {r['source']}{miss}")


def main(arguments):
    if any(a != "--json" for a in arguments):
        sys.exit(__doc__)
    subprocess.run(["cmake", "--build", "build", "--target", "bench_published"], cwd=common.TOP, check=True,
                   stdout=subprocess.DEVNULL)
    done = subprocess.run(["build/bench_published"], cwd=common.TOP, check=True, stdout=subprocess.PIPE, text=True)
    record = common.Record("published", HEAD, line, common.machine(command="bench/run published"),
                           "--json" in arguments)
    rows = [json.loads(text) for text in done.stdout.splitlines()]
    for row in rows:
        row["error"] = row["told"] / row["published"] - 1
        record.add(row)
    others = [r for r in rows if not r["run"].startswith("frugal")]
    missed = [r["run"] for r in others if abs(r["error"]) > 0.15]
    told = f"{len(others) - len(missed)} of {len(others)} runs of others within 15 %"
    for name in missed:
        told += f"\nmissed: {name}; likely: " + next((c for k, c in CAUSES.items() if k in name), "not known")
    told += "\n" + ASSUMED
    common.note(told)
    with open(record.path + ".txt", "a") as f:
        f.write("\n" + told + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
