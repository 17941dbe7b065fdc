"""supervised_peer.py FILE STEPS [--resume]: a small network trained by PyTorch, saved every 50 steps over the same
name, as scripts do that were never meant to be killed. Prints a JSON object a step.
supervised_peer.py --same A B: do both hold the same numbers, to the bit? (Their pickles may differ.)"""
import json
import sys
import time

import torch


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    return a == b


if sys.argv[1] == "--same":
    sys.exit(not same(torch.load(sys.argv[2]), torch.load(sys.argv[3])))
path, steps = sys.argv[1], int(sys.argv[2])
torch.manual_seed(1)
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
model = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(),
                            torch.nn.Linear(1024, 4))
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
step = 0
if "--resume" in sys.argv:
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    step = state["step"]

while step < steps:
    draw = torch.Generator().manual_seed(step)  # the batch follows from the step alone
    x = torch.randn(8, 64, generator=draw)
    y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    step += 1
    print(json.dumps({"step": step, "loss": loss.item()}))
    if step % 50 == 0:
        torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step}, path)
        time.sleep(0.5)  # the rest of the steps of a larger network
