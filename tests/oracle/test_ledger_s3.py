#!/usr/bin/env python3
"""frugal runs s3://…: rows that lie beside checkpoints are merged, of any number of runs and segments, over HTTP from a
server that checks every signature; what is no row is passed over, what is a damaged one refused."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_remote_save
from s3_server import KEY_ID, REGION, SECRET, Server

FRUGAL = os.path.abspath(os.environ.get("FRUGAL", "build/frugal"))


def runs(server, folder, *words, rc=0, **env):
    base = dict(PATH=os.environ["PATH"], HOME=folder, AWS_ACCESS_KEY_ID=KEY_ID, AWS_SECRET_ACCESS_KEY=SECRET, AWS_REGION=REGION,
                AWS_ENDPOINT_URL_S3=server.url, AWS_EC2_METADATA_DISABLED="true", no_proxy="*")
    done = subprocess.run([FRUGAL, "runs", *words], env=dict(base, **env), capture_output=True, text=True, timeout=60)
    if "without" in done.stderr and ("SQLite" in done.stderr or "libcurl" in done.stderr):
        print(done.stderr.strip())
        sys.exit(77)
    assert done.returncode == rc, (words, done.returncode, done.stdout, done.stderr)
    return done


def rows(run, segment, step):
    """What a segment's object holds."""
    return "".join(json.dumps(r) + "\n" for r in (
        {"row": "run", "id": run, "name": run, "unit": "samples", "begin_wall_ns": 1},
        {"row": "segment", "id": segment, "run": run, "step": step, "ended": "end", "beat_wall_ns": step, "price": ""},
    )).encode()


def machine_gone(server):
    """A run's first machine is taken, with its disk; the second knows both segments, and so does a third that only
    asks the store."""
    with tempfile.TemporaryDirectory() as disks:
        run = test_remote_save.data(disks)
        first = test_remote_save.Machine(server, run, "train.usd_hour=36", "run.name=lost").start("train.steps=1000000")
        for _ in range(600):
            if any("/ledger/" in key for key in server.objects):
                break
            time.sleep(0.05)
        first.process.send_signal(signal.SIGTERM)
        first.end(4)
        first.folder.cleanup()
        before = [json.loads(line) for key in server.objects if "/ledger/" in key for line in server.objects[key].splitlines()]
        done = [r["step"] for r in before if r["row"] == "segment"]
        second = test_remote_save.Machine(server, run, "train.usd_hour=36", "run.name=lost").start(f"train.steps={done[0] + 50}")
        second.end(0)
        for folder, words in ((second.folder.name, ()), (disks, ("s3://bucket/runs",))):
            told = [json.loads(line) for line in runs(server, folder, *words, "--json").stdout.splitlines()]
            assert [(t["name"], t["segments"], t["ended"], t["steps"]) for t in told] == [("lost", 2, "end", done[0] + 50)], told
            assert told[0]["interruptions"] == 1 and told[0]["dollars"] > 0, told
    print("a run whose first machine is gone is whole in the ledger of the second")


def main():
    with Server() as server, tempfile.TemporaryDirectory() as folder:
        server.objects.update({
            "team/a/ledger/s1.jsonl": rows("aaa111", "s1", 5), "team/a/ledger/s2.jsonl": rows("aaa111", "s2", 9),
            "team/b/ledger/s3.jsonl": rows("bbb222", "s3", 7), "team/b/step-000000007.1.1/manifest.json": b"{}",
            "team/b/notes.jsonl": b"not ours", "elsewhere/ledger/s4.jsonl": rows("ccc333", "s4", 1)})
        for _ in range(2):  # the second time changes nothing
            done = runs(server, folder, "s3://bucket/team", "--json")
            found = {e["run"]: (e["segments"], e["steps"]) for e in map(json.loads, done.stdout.splitlines())}
            assert found == {"aaa111": (2, 9), "bbb222": (1, 7)}, found
        done = runs(server, folder, "s3://bucket/elsewhere", "s3://bucket/team/b", "--json")
        assert len(done.stdout.splitlines()) == 3
        server.objects["team/b/ledger/s3.jsonl"] = b'{"row":"segment"'
        done = runs(server, folder, "s3://bucket/team/b", rc=2)
        assert "s3://bucket/team/b: line 1" in done.stderr, done.stderr
        runs(server, folder, "s3://bucket/team", rc=3, AWS_SECRET_ACCESS_KEY="wrong")
        assert SECRET not in done.stderr
    print("rows beside checkpoints are merged")
    with Server() as server:
        machine_gone(server)


if __name__ == "__main__":
    main()
