#!/usr/bin/env python3
"""What the levers of a run are worth, on its page: /api/levers plans the settings that the ledger has of it. The sum is what
`frugal plan` says of the run file, each lever is what the playground says of it, and where there can be no plan, the answer says why."""
import json, os, sys, urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from watch_page import Place, port_of, talk, wait_until

MACHINE = "aws/p4d.24xlarge"  # has a spot price in the catalogue
RUN = b"""data: {kind: text, path: text.txt, context: 64}
model: {kind: gpt, depth: 2, width: 64, heads: 2}
train: {lr: 0.003, batch: 64, micro_batch: 4, threads: 1, steps: 200, eval_every: 4, max_seconds: 200}
"""
EXACT = 1e-9  # relative: the same sums in another order


def get(port, path):
    answer = talk(port, ("GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n\r\n" % (path, port)).encode(), wait=60)
    assert answer.startswith(b"HTTP/1.1 200 "), answer[:200]
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])


def ended(port, name):
    """The run of that name, once the page has read its end."""
    ids = wait_until(lambda: [r["id"] for r in get(port, "/api/runs")["runs"] if r["name"] == name and r["state"] not in ("runs", "killed")], name + " is listed")
    return get(port, "/api/run?run=" + ids[0])


def trained(place, port, name, *words):
    """A run of that file on the machine, and what its levers are worth."""
    done = place.run("train", "text.yaml", "run.name=" + name, "run.machine=" + MACHINE, *words)
    assert done.returncode == 0, done.stderr
    run = ended(port, name)
    return run, get(port, "/api/levers?run=" + run["id"])


def same(a, b, what):
    assert abs(a - b) <= EXACT * max(abs(a), abs(b)), (what, a, b)


def check_against_playground(port, run, levers, **words):
    query = urllib.parse.urlencode({"what": "run", "part": "levers", "machine": MACHINE, "precision": run["segments"][-1]["precision"], "micro": 4, "steps": 200, **words})
    other = get(port, "/api/play?" + query)["levers"]
    assert [l["name"] for l in levers] == [l["name"] for l in other] and len(levers) > 1, (levers, other)
    for l, o in zip(levers, other):
        same(l["usd"], o["usd"], l["name"])


def check_plain(place, port):
    run, answer = trained(place, port, "plain", "run.market=on-demand", "train.steps=8")
    planned = place.run("plan", "text.yaml", "train.steps=8", "train.micro_batch=4", "train.precision=" + run["segments"][-1]["precision"], "--machine", MACHINE, "--on-demand", "--json")
    assert planned.returncode == 0, planned.stderr
    best = json.loads(planned.stdout.splitlines()[0])
    same(sum(l["usd"] for l in answer["levers"]), best["usd"], "the levers end at the plan")
    check_against_playground(port, run, answer["levers"], market="on-demand", steps=8)
    assert "spot" not in [l["name"] for l in answer["levers"]], answer["levers"]


def check_spot(place, port):
    """Spot is on, and the target was reached long before the last step: both have their worth."""
    run, answer = trained(place, port, "spot", "run.market=spot", "train.target=100", "train.target_metric=loss")
    assert run["state"] == "target" and run["steps"] < run["steps_planned"] == 200, run
    worth = {l["name"]: l["usd"] for l in answer["levers"]}
    assert worth["spot"] < 0 and worth["stopping early"] < 0, worth
    check_against_playground(port, run, answer["levers"], stop="%.9g" % (run["steps"] / 200))
    print("worth:", {name: "$%.6f" % usd for name, usd in worth.items()})


def check_none(place, port):
    lines = []
    for id, kind, settings in (("00000000000a", "train", "data.path=s3://bucket/x\nmodel.kind=gpt\ntrain.steps=3\n"), ("00000000000b", "supervised", ""),
                               ("00000000000c", "train", "data.kind=text\ndata.path=gone.txt\nmodel.kind=gpt\n"), ("00000000000d", "train", "no.such=setting\n")):
        lines.append(json.dumps({"row": "run", "id": id, "name": id, "kind": kind, "settings": settings, "begin_wall_ns": 1}))
    place.write("rows.jsonl", "\n".join(lines).encode() + b"\n")
    done = place.run("runs", "rows.jsonl")
    assert done.returncode == 0, done.stderr
    for id, why in (("00000000000a", "object store"), ("00000000000b", "only runs of frugal train"), ("00000000000c", "gone.txt"), ("00000000000d", "no.such")):
        def told():
            rows = [r["id"] for r in get(port, "/api/runs")["runs"]]
            return id in rows and get(port, "/api/levers?run=" + id)
        answer = wait_until(told, "the row is listed")
        assert why in answer["error"] and "levers" not in answer, (why, answer)


def main():
    with Place() as place:
        place.write("text.txt", b"The cat sat on the mat. " * 2000)
        place.write("text.yaml", RUN)
        _, address = place.watch("--play", "text.yaml")
        port = port_of(address)
        check_plain(place, port)
        check_spot(place, port)
        check_none(place, port)


main()
print("ok")
