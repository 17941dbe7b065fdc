#!/usr/bin/env python3
"""bench/run gpu beside a stand-in for torch's Python: the jobs of a row share a process, one that fails leaves its column empty, nothing is
measured twice, and a row that is finished is left out by --resume. No GPU is needed: our own runs are made up."""
import json
import os
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "bench"))
import common  # noqa: E402
import gpu  # noqa: E402

TORCH = """#!/usr/bin/env python3
import json, os, sys
jobs, names = [[]], {"speed": "tokens_s", "decoder": "tokens_s", "encoder": "sequences_s"}
for a in sys.argv[2:]:
    jobs.append([]) if a == "--" else jobs[-1].append(a)
with open("calls", "a") as f:
    print(json.dumps([os.environ.get("WARM"), jobs]), file=f)
for job in jobs:
    speed = {"default": 100, "reduce-overhead": 110}.get(job[-1])
    print(json.dumps({"ms": 1, names[job[0]]: speed, "five_steps_s": 9, "peak_gib": 19.5} if speed else {"failed": "no such attention"}), flush=True)
"""


def made_up(file, *settings, **more):
    return {"ms": 1.0, "five_steps_s": 2.0, "done": {"first_step_ms": 1000}, "peak_gib": 10, "driver_gib": 11, "planned": True, "losses": {16: 1.0}}


def calls():
    with open(os.path.join(gpu.DATA, "calls")) as f:
        return [json.loads(line) for line in f]


def called(*arguments):
    """Rows that were recorded."""
    rows = []
    gpu.Record = lambda *a: type("Kept", (), {"add": lambda self, r: rows.append(r)})()
    try:
        gpu.main(*arguments)
    except SystemExit as end:
        assert end.code in (0, 1), end.code
    return rows


def main(folder):
    common.DATA = gpu.DATA = folder
    torch = os.path.join(folder, "torch")
    with open(torch, "w") as f:
        f.write(TORCH)
    os.chmod(torch, 0o755)
    gpu.run = made_up
    gpu.random_tokens = lambda: None
    options = {"torch": torch, "tokens": None, "modes": None}
    encoder = list(gpu.row_bert(options))
    assert len(calls()) == 1 and len(calls()[0][1]) == 3, calls()
    padded, packed = encoder[:2]
    assert padded["torch"] == 110 and padded["must"] == 1.6 * 110 and packed["torch"] is None and packed["must"] is None, encoder
    assert list(gpu.row_bert(options)) == encoder and len(calls()) == 1, "it was measured again"
    rows = called("--json", f"--torch={torch}", "llama-8192", "fp8")
    assert [r["row"] for r in rows] == ["llama"] * 3 + ["fp8"] and rows[-1]["must"] == 1.28 * 110, rows
    assert not called("--json", "--resume", f"--torch={torch}", "llama-8192", "fp8"), "finished rows came again"
    before = len(calls())
    gpu.warm(options, gpu.MODELS)
    assert len(calls()) - before == len(gpu.WARMED), calls()[before:]
    print("6 passed")


with tempfile.TemporaryDirectory() as folder:
    main(folder)
