"""The driver of `bench/run ranks`: two processes of one thread against one process of two threads, on the same two
cores, and against PyTorch's DDP over gloo in two processes of one thread.

    ranks.py PEER_PYTHON [--json] [--rounds=N]

Protocol. The GPT of `bench/run cpu` (bench/cpu/gpt.yaml), a batch of 8 for all ranks. The variants take turns for ROUNDS
rounds; a figure is the median of its rounds, its spread (max - min) / median. Ours is a fresh `frugal train --json` each
round, started by mpirun where there are two ranks, and its figures are those of its "done" event; `exchange` and
`slowest` are the parts of the steps' time that ranks sent gradients and waited for the slowest. The peer's processes stay
alive between rounds, warm, each with half of the batch. `busy` is the share of the cores in use while nobody measures:
above BUSY_MAX the row says so and is worth little.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys

import common
from common import BUSY_MAX, DATA, FRUGAL, Failed, Record, TOP, busy_share, environment, last_words, machine, note, put, spread, use_cores

ROUNDS, STEPS = 5, 16
MUST, AIM = 0.92, 0.98       # of one process of two threads
PEER_MUST, PEER_AIM = 1.3, 1.6
WARM_STEPS = 3
MPIRUN = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]


def launcher():
    for name, more in (("mpirun.openmpi", MPIRUN), ("mpirun.mpich", []), ("mpirun", [])):
        if shutil.which(name):
            return [name, *more]
    raise Failed("neither Open MPI nor MPICH is installed")


def ours(ranks, *settings):
    command = [FRUGAL, "train", os.path.join(TOP, "bench/cpu/gpt.yaml"), "--json", f"train.steps={STEPS}",
               f"train.threads={2 // ranks}", *settings]
    if ranks > 1:
        command = [*launcher(), "-n", str(ranks), *command]
    done = subprocess.run(command, cwd=DATA, env=environment(), capture_output=True, text=True)
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

    def __init__(self, python):
        self.processes = []
        for rank in range(2):
            env = dict(environment(), OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", RANK=str(rank), WORLD_SIZE="2",
                       MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", GLOO_SOCKET_IFNAME="lo")
            with open(os.path.join(DATA, "log"), "a") as log:
                self.processes.append(subprocess.Popen(
                    [python, "-c", PEER, os.path.join(TOP, "bench"), str(STEPS), str(WARM_STEPS)], env=env, cwd=DATA, text=True,
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


HEAD = f"{'row':<30}{'tokens/s':>10}{'spread':>8}{'of one':>8}{'of peer':>9}{'exchange':>10}{'slowest':>9}{'busy':>7}"


def table_line(r):
    def share(key):
        return f"{100 * r[key]:.1f} %" if key in r else "-"
    peer = f"{r['of_peer']:.2f}x" if "of_peer" in r else "-"
    return (f"{r['row']:<30}{r['tokens_per_s']:>10,}{100 * r['spread']:>6.1f} %{r['of_one']:>8.3f}{peer:>9}{share('exchange'):>10}"
            f"{share('slowest'):>9}{100 * r['busy']:>5.0f} %")


def part(done, name):
    split = done["split_ns"]
    return split.get(name, 0) / max(1, sum(v for v in split.values()))


def main():
    python, flags = sys.argv[1], sys.argv[2:]
    rounds = next((int(f.split("=")[1]) for f in flags if f.startswith("--rounds=")), ROUNDS)
    use_cores(2)
    put("gpt.txt", os.urandom(1 << 20))
    record = Record("ranks", HEAD, table_line, machine(mpi=common.first_line([launcher()[0], "--version"])), "--json" in flags)
    busy = busy_share()
    runs = {"1 process of 2 threads": [], "2 ranks": [], "2 ranks, state": [], "torch DDP, gloo, 2 processes": []}
    parts = {"2 ranks": [], "2 ranks, state": []}
    peer = Peer(python)
    try:
        peer.measure()  # warm, and there
        for turn in range(rounds):
            runs["1 process of 2 threads"].append(ours(1)["tokens_per_s"])
            for name, shard in (("2 ranks", "none"), ("2 ranks, state", "state")):
                done = ours(2, f"train.shard={shard}")
                runs[name].append(done["tokens_per_s"])
                parts[name].append((part(done, "exchange"), part(done, "slowest")))
            runs["torch DDP, gloo, 2 processes"].append(peer.measure())
            note(f"round {turn + 1} of {rounds}")
    finally:
        peer.close()
    one = statistics.median(runs["1 process of 2 threads"])
    missed = False
    for name, values in runs.items():
        figure = statistics.median(values)
        row = {"row": name, "tokens_per_s": round(figure), "spread": round(spread(values), 3), "of_one": round(figure / one, 3),
               "busy": round(busy, 3)}
        if name in parts:
            row["exchange"], row["slowest"] = (round(statistics.median(p[i] for p in parts[name]), 4) for i in (0, 1))
        if name == "2 ranks":
            peer_figure = statistics.median(runs["torch DDP, gloo, 2 processes"])
            row.update(must=MUST, aim=AIM, of_peer=round(figure / peer_figure, 2), peer_must=PEER_MUST, peer_aim=PEER_AIM)
            missed = figure / one < MUST or figure / peer_figure < PEER_MUST
        if busy > BUSY_MAX:
            row["disturbed"] = True
        record.add(row)
    return int(missed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as e:
        note(str(e))
        sys.exit(3)
