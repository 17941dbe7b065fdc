#!/usr/bin/env python3
"""One bill with an object store: what the server was asked is what the run says it paid for, with a ledger and without;
the last line, `frugal runs` and `frugal report` have the same sum; caps know it. A store of Google's, whose price list the
catalogue has, at an address of our own."""
import json, os, shutil, signal, subprocess, sys, tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from s3_server import Server
from s3_train import FRUGAL, Machine, data, wait_until

PUT_USD, GET_USD = 0.005 / 1000, 0.0004 / 1000  # src/plan/storage.csv, gcp standard
QUIET = "train.log_every=1000000", "train.eval_every=1000000"  # nobody reads what it says while it runs


def google(server, run, *more):
    return Machine(server, run, "checkpoint.to=gs://bucket/runs/one", "train.usd_hour=0.36", *more, AWS_ENDPOINT_URL_S3="",
                   AWS_ACCESS_KEY_ID="GOOG1ETEST", AWS_SECRET_ACCESS_KEY="goog-secret", STORAGE_EMULATOR_HOST=server.url)


def done_of(machine):
    return [e for e in machine.events if e["event"] == "done"][-1]


def asked_usd(server):
    """A list costs as much as a PUT, a deletion nothing."""
    usd = 0
    for method, target in server.log:
        path, _, query = target.partition("?")
        lists = method == "GET" and path.strip("/").count("/") == 0
        usd += 0 if method == "DELETE" else PUT_USD if method in ("PUT", "POST") or lists else GET_USD
    return usd


def ledger(machine, *words):
    done = subprocess.run([FRUGAL, *words, "--json"], env=machine.env, cwd=machine.folder.name, capture_output=True, text=True)
    if "without SQLite" in done.stderr:
        print("built without SQLite")
        sys.exit(77)
    assert done.returncode == 0, done
    return [json.loads(line) for line in done.stdout.splitlines()]


def near(a, b, most=2e-9):
    """The ledger counts in nano-dollars: each of two sums is rounded once."""
    assert abs(a - b) <= most, (a, b)


def check_one_sum(run):
    """Two starts, the first stopped by a signal: requests of the uploader, of the ledger's rows and of the event log."""
    with Server() as s:
        s.keys["GOOG1ETEST"] = "goog-secret"
        m = google(s, run).start("train.steps=1000000", *QUIET)
        wait_until(lambda: s.count("PUT", "manifest.json") >= 3)
        m.process.send_signal(signal.SIGTERM)
        m.end(4)
        first = done_of(m)
        near(first["requests_usd"], asked_usd(s))
        assert first["storage_usd"] > 0, first
        m.start("train.steps=%d" % (first["steps"] + 200)).end(0)
        last = done_of(m)
        near(first["requests_usd"] + last["requests_usd"], asked_usd(s))
        told, report = ledger(m, "runs"), ledger(m, "report")
        near(last["dollars"], told[0]["dollars"], 4e-9)
        near(last["dollars"], report[0]["dollars"], 4e-9)
        near(report[0]["parts"]["requests"], asked_usd(s))
        near(report[0]["parts"]["storage"], first["storage_usd"] + last["storage_usd"])
        machine = sum(v for k, v in report[0]["parts"].items() if k not in ("requests", "storage"))
        near(machine, last["seconds"] * 0.0001, 4e-9)
        steps = [e["dollars"] for e in m.events if e["event"] == "step"]
        assert steps and steps[0] > first["dollars"], (steps[:3], first["dollars"])  # from the first line on
        assert report[0]["stored_since_dollars"] >= 0
    print("the server's count, the last line, runs and report agree")


def check_kept_after_a_resume(run):
    """What an earlier start left in the store is stored, and billed, while a later one lives; of what is pruned no more."""
    with Server() as s:
        s.keys["GOOG1ETEST"] = "goog-secret"
        m = google(s, run, "checkpoint.keep=2", "train.steps=60").start()
        m.end(0)
        m.start("train.steps=100").end(0)
        rows = subprocess.run([FRUGAL, "runs", "--export", ledger(m, "runs")[0]["run"]], env=m.env, cwd=m.folder.name,
                              capture_output=True, text=True).stdout
        there = [json.loads(line) for line in rows.splitlines()]
        there = [r for r in there if r["row"] == "checkpoint" and r["place"].startswith("gs://") and not r["removed_wall_ns"]]
        assert len(there) <= 2, there
    print("what is pruned costs nothing any more, whoever saved it")


def check_no_ledger(run):
    """Priced, and capped, all the same."""
    with Server() as s:
        s.keys["GOOG1ETEST"] = "goog-secret"
        m = google(s, run, "run.ledger=none", "train.steps=60").start()
        m.end(0)
        done = done_of(m)
        near(done["requests_usd"], asked_usd(s))
        assert asked_usd(s) > 0 and done["storage_usd"] > 0, done
        near(done["dollars"], done["seconds"] * 0.0001 + done["requests_usd"] + done["storage_usd"], 4e-9)
    with Server() as s:
        s.keys["GOOG1ETEST"] = "goog-secret"
        m = google(s, run, "run.ledger=none", "train.steps=1000000", "train.max_dollars=0.002", *QUIET).start()
        m.end(0)
        done = done_of(m)
        assert done["stopped"] == "budget" and done["seconds"] < 20, done  # $0.002 are 20 s of the machine alone
        one_save = 10 * PUT_USD + 20 * GET_USD  # three shards, a manifest, a list; what is read back before others go
        assert done["requests_usd"] > 0.001 and done["dollars"] <= 0.002 + one_save, done
    print("without a ledger requests are billed and capped too")


def check_ranks(run):
    """Every rank reads the data; rank 0 has the bill of all."""
    mpirun = shutil.which("mpirun.openmpi")
    if not mpirun:
        print("skipped: Open MPI is not installed")
        return
    with Server() as s:
        s.keys["GOOG1ETEST"] = "goog-secret"
        s.objects["text"] = bytes(97 + i * i % 23 for i in range(1 << 16))
        with open(run + ".text", "w") as f:
            f.write("data: {kind: text, path: gs://bucket/text, context: 16}\nmodel: {kind: gpt, depth: 1, width: 16, heads: 2}\n"
                    "train: {batch: 8, steps: 20, device: cpu, lr: 0.001}\n")
        m = google(s, run + ".text", "run.ledger=none", "checkpoint.to=", *QUIET)
        m.args = [mpirun, "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader", "--mca", "oob_tcp_if_include", "lo", "-n", "2", *m.args]
        m.start().end(0)
        done = done_of(m)
        assert len(s.log) > 2, s.log  # the second of a machine asks whether what the first has read is still the same
        near(done["requests_usd"], asked_usd(s))
    print("requests of all ranks for the data are on the bill")


def main():
    with tempfile.TemporaryDirectory() as top:
        run = data(top)
        check_one_sum(run)
        check_kept_after_a_resume(run)
        check_no_ledger(run)
        check_ranks(run)


main()
