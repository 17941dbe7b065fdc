"""The driver of `bench/run ranks`: processes of one thread against one process of two threads, on the same two cores, and
against PyTorch's DDP over gloo in two processes of one thread; with and without buckets; what is shared out; and where the
time of a step goes on 1, 2 and 4 ranks.

    ranks.py PEER_PYTHON [--json] [--rounds=N] [--quick]     --quick: one round of few steps, nothing is kept

Protocol. The GPT of `bench/run cpu` (bench/cpu/gpt.yaml), a batch of 8 for all ranks. The variants take turns for ROUNDS
rounds; a figure is the median of its rounds, its spread (max - min) / median. Ours is a fresh `frugal train --json` each
round, started by mpirun where there are several ranks, and its figures are those of rank 0's "done" event: `exchange` and
`slowest` are the parts of the steps' time that the rank sent gradients, which nothing hid, and waited for the slowest.
`buckets` sums each matrix's gradient as soon as the backward pass has made it (FRUGAL_QUEUES=2, as on a GPU) instead of
all of them at the head of the update. Four ranks share two cores: their figure says what that costs, not what four cores
would give. The peer's processes stay alive between rounds, warm, each with half of the batch. `busy` is the share of the
cores in use while nobody measures: above BUSY_MAX the row says so and is worth little.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys

import common
from common import BUSY_MAX, DATA, FRUGAL, Failed, Record, TOP, busy_share, environment, last_words, machine, note, put, spread, use_cores

ROUNDS, STEPS, QUICK_STEPS = 5, 16, 3
MUST, AIM = 0.92, 0.98       # of one process of two threads
PEER_MUST, PEER_AIM = 1.3, 1.6
WARM_STEPS = 3
TOKENS = 8 * 256             # of a step
MPIRUN = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]

ONE, TWO, BUCKETS, PEER_NAME = "1 process of 2 threads", "2 ranks", "2 ranks, buckets", "torch DDP, gloo, 2 processes"
VARIANTS = {  # name: ranks, threads of each, settings, environment
    ONE: (1, 2, [], {}),
    "1 rank of 1 thread": (1, 1, [], {}),
    TWO: (2, 1, ["train.shard=none"], {}),
    BUCKETS: (2, 1, ["train.shard=none"], {"FRUGAL_QUEUES": "2"}),
    "2 ranks, state": (2, 1, ["train.shard=state"], {}),
    "2 ranks, all": (2, 1, ["train.shard=all"], {}),
    "4 ranks": (4, 1, ["train.shard=none"], {}),
}


def launcher():
    for name, more in (("mpirun.openmpi", MPIRUN), ("mpirun.mpich", []), ("mpirun", [])):
        if shutil.which(name):
            return [name, *more]
    raise Failed("neither Open MPI nor MPICH is installed")


def ours(name, steps):
    ranks, threads, settings, variables = VARIANTS[name]
    command = [FRUGAL, "train", os.path.join(TOP, "bench/cpu/gpt.yaml"), "--json", f"train.steps={steps}",
               f"train.threads={threads}", *settings]
    if ranks > 1:
        command = [*launcher(), "-n", str(ranks), *command]
    done = subprocess.run(command, cwd=DATA, env={**environment(), **variables}, capture_output=True, text=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or not events or events[-1]["event"] != "done":
        raise Failed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-300:]}")
    return events[-1]


PEER = r'''
import os, sys, time, torch, torch.distributed as dist
sys.path.insert(0, sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("gloo")
from cpu_peer import GPT
import torch.nn.functional as F
model = torch.nn.parallel.DistributedDataParallel(GPT())
optimiser = torch.optim.AdamW(model.parameters(), fused=True)
text = torch.randint(0, 256, (4, 257))
x, y = text[:, :-1].contiguous(), text[:, 1:].contiguous()
def step():
    loss = F.cross_entropy(model(x).view(-1, 256), y.view(-1))
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
for _ in range(int(sys.argv[3])): step()
while True:
    word = sys.stdin.readline() if dist.get_rank() == 0 else ""
    go = torch.tensor([1 if word.strip() or dist.get_rank() else 0])
    dist.broadcast(go, 0)
    if not go.item(): break
    begin = time.perf_counter()
    for _ in range(int(sys.argv[2])): step()
    if dist.get_rank() == 0: print(8 * 256 * int(sys.argv[2]) / (time.perf_counter() - begin), flush=True)
'''


class Peer:
    """Two processes; rank 0 listens for a line and answers with tokens/s."""

    def __init__(self, python, steps):
        self.processes = []
        for rank in range(2):
            env = dict(environment(), OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", RANK=str(rank), WORLD_SIZE="2",
                       MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", GLOO_SOCKET_IFNAME="lo")
            with open(os.path.join(DATA, "log"), "a") as log:
                self.processes.append(subprocess.Popen(
                    [python, "-c", PEER, os.path.join(TOP, "bench"), str(steps), str(WARM_STEPS)], env=env, cwd=DATA, text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log))

    def measure(self):
        self.processes[0].stdin.write("go\n")
        self.processes[0].stdin.flush()
        line = self.processes[0].stdout.readline()
        if not line:
            raise Failed(f"the peer ended: {last_words()}")
        return float(line)

    def close(self):
        for p in self.processes:
            p.stdin.close()
        for p in self.processes:
            p.wait()


HEAD = (f"{'row':<30}{'tokens/s':>10}{'spread':>8}{'of one':>8}{'of peer':>9}{'step':>10}{'exchange':>10}{'slowest':>9}{'memory':>9}"
        f"{'busy':>7}")


def table_line(r):
    def share(key):
        return f"{100 * r['parts'].get(key, 0):.1f} %" if "parts" in r else "-"
    peer = f"{r['of_peer']:.2f}x" if "of_peer" in r else "-"
    memory = f"{r['arena_mb']:.0f} MB" if "arena_mb" in r else "-"
    return (f"{r['row']:<30}{r['tokens_per_s']:>10,}{100 * r['spread']:>6.1f} %{r['of_one']:>8.3f}{peer:>9}"
            f"{1e3 * TOKENS / r['tokens_per_s']:>7.1f} ms{share('exchange'):>10}{share('slowest'):>9}{memory:>9}{100 * r['busy']:>5.0f} %")


def parts_of(events):
    """The median share of each part of the steps' time that takes a thousandth of it."""
    names = sorted({name for e in events for name in e["split_ns"]})

    def share(event, name):
        return event["split_ns"].get(name, 0) / max(1, sum(event["split_ns"].values()))
    shares = {name: statistics.median(share(e, name) for e in events) for name in names}
    return {name: round(s, 4) for name, s in shares.items() if s >= 0.001}


def measure(python, rounds, steps):
    """By variant: the done events of its rounds; and the peer's tokens/s."""
    events, theirs = {name: [] for name in VARIANTS}, []
    peer = Peer(python, steps)
    try:
        peer.measure()  # warm, and there
        for turn in range(rounds):
            for name in VARIANTS:
                events[name].append(ours(name, steps))
            theirs.append(peer.measure())
            note(f"round {turn + 1} of {rounds}")
    finally:
        peer.close()
    return events, theirs


def rows_of(events, theirs, busy):
    def row(name, values):
        figure = statistics.median(values)
        return {"row": name, "tokens_per_s": round(figure), "spread": round(spread(values), 3), "of_one": round(figure / one, 3),
                "busy": round(busy, 3), **({"disturbed": True} if busy > BUSY_MAX else {})}
    speeds = {name: [e["tokens_per_s"] for e in done] for name, done in events.items()}
    one, peer = statistics.median(speeds[ONE]), statistics.median(theirs)
    rows = []
    for name, done in events.items():
        rows.append({**row(name, speeds[name]), "parts": parts_of(done), "ranks": VARIANTS[name][0],
                     "arena_mb": round(done[-1]["arena_bytes_planned"] / 1e6, 1)})
        if name == TWO:
            rows[-1].update(must=MUST, aim=AIM, of_peer=round(statistics.median(speeds[name]) / peer, 2), peer_must=PEER_MUST,
                            peer_aim=PEER_AIM)
    return rows + [row(PEER_NAME, theirs)]


def verdicts(rows):
    """Lines that say of each demand whether it is met, and whether all are."""
    two = next(r for r in rows if r["row"] == TWO)
    buckets = next(r for r in rows if r["row"] == BUCKETS)

    def said(what, figure, must, aim, unit):
        word = "aim met" if figure >= aim else "must met" if figure >= must else "MISSED"
        return f"{what}: {figure:.2f}{unit} (must {must}{unit}, aim {aim}{unit}): {word}"
    lines = [said("2 ranks of one thread against 1 process of two", two["of_one"], MUST, AIM, ""),
             said("2 ranks against torch DDP over gloo", two["of_peer"], PEER_MUST, PEER_AIM, "x"),
             f"communication that nothing hides: {100 * two['parts'].get('exchange', 0):.1f} % of a step, "
             f"{100 * buckets['parts'].get('exchange', 0):.1f} % with buckets"]
    return lines, two["of_one"] >= MUST and two["of_peer"] >= PEER_MUST


def main():
    python, flags = sys.argv[1], sys.argv[2:]
    quick = "--quick" in flags
    rounds = next((int(f.split("=")[1]) for f in flags if f.startswith("--rounds=")), 1 if quick else ROUNDS)
    use_cores(2)
    put("gpt.txt", os.urandom(1 << 20))
    record = Record("ranks", HEAD, table_line, machine(mpi=common.first_line([launcher()[0], "--version"])), "--json" in flags, not quick)
    busy = busy_share()
    events, theirs = measure(python, rounds, QUICK_STEPS if quick else STEPS)
    rows = rows_of(events, theirs, busy)
    for row in rows:
        record.add(row)
    lines, met = verdicts(rows)
    note("\n".join(lines))
    if not quick:
        with open(record.path + ".txt", "a") as f:
            f.write("\n" + "\n".join(lines) + "\n")
    return int(not met)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as e:
        note(str(e))
        sys.exit(3)
