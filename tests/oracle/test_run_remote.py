#!/usr/bin/env python3
"""frugal run with checkpoint.to, against the server of s3_server.py: a program that knows nothing of frugal
loses its machine, disk and all, in the middle of a write, and ends on another as it would have alone."""
import json, os, random, signal, sqlite3, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from s3_server import KEY_ID, SECRET, REGION, Server

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FRUGAL = os.environ.get("FRUGAL") or os.path.join(TOP, "build", "frugal")
SEED = int(os.environ.get("CHECK_SEED") or random.SystemRandom().getrandbits(64))
RNG = random.Random(SEED)
PROGRAM = [sys.executable, os.path.join(TOP, "tests", "cli", "rewrites.py"), "save/model", "160"]


class Machine:
    """A folder of its own, and an environment with keys."""

    def __init__(self, server):
        self.folder = tempfile.TemporaryDirectory()
        env = {"PATH": os.environ["PATH"], "HOME": self.folder.name, "AWS_ACCESS_KEY_ID": KEY_ID,
               "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION, "AWS_ENDPOINT_URL_S3": server.url,
               "no_proxy": "*", "FRUGAL_RUN_LEDGER": "ledger.db", "FRUGAL_SPOT_CLOUD": "none"}
        self.process = subprocess.Popen(
            [FRUGAL, "run", "program.folder=save", "checkpoint.dir=kept", "checkpoint.to=s3://bucket/run",
             "program.complete=0.1", "program.read=regex", "program.step=step ([0-9]+)",
             "program.resume=[--resume]", "--", *PROGRAM],
            env=env, cwd=self.folder.name, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True)

    def lose(self):
        """Everything at once: frugal, the program, the disk."""
        pids = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True).stdout.split()
        self.process.kill()
        for pid in pids:
            os.kill(int(pid), signal.SIGKILL)
        self.process.communicate()
        self.folder.cleanup()

    def end(self, rc):
        try:
            self.out, self.err = self.process.communicate(timeout=60)
        finally:
            self.process.kill()
        assert self.process.returncode == rc, (self.process.returncode, self.out[-400:], self.err[-2000:])
        assert SECRET not in self.out + self.err


def records():
    """Does this build have a ledger?"""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "FRUGAL_RUN_LEDGER": os.path.join(folder, "ledger.db")}
        return "built without SQLite" not in subprocess.run([FRUGAL, "runs"], env=env, capture_output=True, text=True).stderr


def manifests(server):
    return {k for k in list(server.objects) if k.endswith("/manifest.json")}


def ledger_rows(server):
    return {k for k in list(server.objects) if "/ledger/" in k}


def wait_for_new(server, before, machine, records=False):
    """A checkpoint and, with records, the rows of its start, which follow it."""
    recorded = ledger_rows(server)
    for _ in range(1000):
        if manifests(server) - before and (not records or ledger_rows(server) - recorded):
            return
        assert machine.process.poll() is None, machine.process.communicate()
        time.sleep(0.02)
    raise AssertionError("no checkpoint comes")


def check_recorded(machine, starts):
    """What lies in the object store is in the stream, and in the ledger as what is paid for."""
    if "not recorded" in machine.err:  # built without SQLite
        return
    ledger = sqlite3.connect(os.path.join(machine.folder.name, "ledger.db"))
    rows = ledger.execute("select step, bytes from checkpoint where place = 's3://bucket/run'").fetchall()
    assert rows and all(size > 0 for _, size in rows), rows
    assert ledger.execute("select count(*) from segment").fetchone() == (starts,)
    logs = [os.path.join(at, name) for at, _, names in os.walk(os.path.join(machine.folder.name, "events")) for name in names]
    assert len(logs) == 1, logs
    with open(logs[0]) as lines:
        events = [json.loads(line) for line in lines]
    assert [e["event"] for e in events[:2]] == ["open", "start"] and events[1]["from_step"] > 0, events[:2]
    assert any(e.get("what") == "uploaded" for e in events)
    assert events[-1]["event"] == "done" and events[-1]["stopped"] == "end"


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "save"))
        alone = subprocess.run(PROGRAM, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()[-1]

    with Server() as server:
        for lost in range(2):  # each at a random moment after a new checkpoint has come
            before, machine = manifests(server), Machine(server)
            wait_for_new(server, before, machine, records=records())
            time.sleep(RNG.random() * 0.3)
            machine.lose()
        assert manifests(server)
        last = Machine(server)
        last.end(0)
        assert "resumed at" in last.out, last.err
        assert last.out.splitlines()[-1] == alone, (last.out[-200:], alone)
        assert "is in the object store" in last.err, last.err
        check_recorded(last, 3)
        again = Machine(server)  # the program begins where it ended, and ends at once
        again.end(0)
        assert again.out.splitlines()[-1] == alone

    with Server() as server:  # two at once: the older one ends with 4, and the younger as alone
        older = Machine(server)
        wait_for_new(server, set(), older)
        younger = Machine(server)
        older.end(4)
        assert "of this run, on another machine, has taken over" in older.err, older.err
        younger.end(0)
        assert younger.out.splitlines()[-1] == alone
    print("lost 2 machines, ended as alone; of two at once the older gave way")


if __name__ == "__main__":
    print(f"CHECK_SEED={SEED}")
    main()
