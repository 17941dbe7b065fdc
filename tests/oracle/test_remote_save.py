#!/usr/bin/env python3
"""frugal train with checkpoint.to, against the server of s3_server.py: a run that loses its machine goes on
from the object store and ends with the same bits; two trainers; notices; what the user is told."""
import os, shutil, signal, subprocess, sys, tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from s3_server import SECRET, Server
from s3_train import FRUGAL, Machine, data, said, steps_there, wait_until


def check_machine_lost(s, run, alone):
    """Killed, with its disk; then asked to stop; then to the end: three machines, the bits of one."""
    a = Machine(s, run, "train.steps=100000").start()
    wait_until(lambda: s.count("PUT", "manifest.json") >= 2)
    a.process.kill()
    a.process.communicate()
    b = Machine(s, run, "train.steps=100000").start()
    wait_until(lambda: any("/attempts/000002" in k for k in s.objects) and s.count("PUT", ".2.", "manifest.json") >= 2)
    b.process.send_signal(signal.SIGTERM)
    b.end(4)
    assert b.told("resumed") and b.told("uploaded"), b.events
    last = max(e["step"] for e in b.told("saved"))
    assert last in steps_there(s), (last, steps_there(s))  # exit 4 comes after the upload
    # The rest on a third machine, and the whole on one: both to the step that is divisible by 100.
    steps = (last // 100 + 2) * 100
    c = Machine(s, run, f"train.steps={steps}", "train.out=w.safetensors").start()
    c.end(0)
    assert c.told("resumed")[0]["step"] == last and not c.told("resumed")[0]["text"], c.told("resumed")
    alone.args = [x for x in alone.args if not x.startswith("checkpoint.to")] + ["checkpoint.every=auto"]
    alone.start(f"train.steps={steps}", "train.out=w.safetensors").end(0)
    assert c.weights() == alone.weights(), "not the same bits"
    kept = steps_there(s)
    assert len(kept) <= 4 and max(kept) == steps, kept
    shards = [k for k in s.objects if k.endswith(".safetensors") and k.rsplit("/", 1)[0] + "/manifest.json" in s.objects]
    assert all(s.tags.get(k) == {"frugal": "retired"} for k in shards), [k for k in shards if not s.tags.get(k)]


def check_two_trainers(s, run):
    a = Machine(s, run, "train.steps=1000000", "train.seed=7", "checkpoint.to=s3://bucket/runs/two").start()
    wait_until(lambda: s.count("PUT", "runs/two", "manifest.json") >= 1)
    b = Machine(s, run, "train.steps=1000000", "train.seed=7", "checkpoint.to=s3://bucket/runs/two").start()
    err = a.end(4)
    assert "start 2 of this run has taken over" in err, err
    b.process.send_signal(signal.SIGTERM)
    b.end(4)


def check_told(s, run):
    s.ignores_conditions = True
    a = Machine(s, run, "train.steps=40", "checkpoint.to=s3://bucket/runs/three").start()
    a.end(0)
    assert a.told("shared"), a.events
    done = a.events[-1]
    assert done["remote_step"] == 40 and done["remote_puts"] > 5 and done["remote_bytes"] > 0, done
    s.ignores_conditions = False
    err = Machine(s, run, AWS_SECRET_ACCESS_KEY="wrong" + SECRET).start().end(3)
    assert "SignatureDoesNotMatch" in err, err
    err = Machine(s, run, AWS_ACCESS_KEY_ID="").start().end(2)
    assert "AWS_PROFILE" in err, err


def checkpoints(machine, *args, rc=0):
    done = subprocess.run([FRUGAL, "checkpoints", *args], env=machine.env, cwd=machine.folder.name, capture_output=True,
                          text=True, timeout=60)
    said.append(done.stdout + done.stderr)
    assert rc is None and done.returncode in (0, 1) or done.returncode == rc, done
    return done.stdout + done.stderr + f", rc {done.returncode}"


def check_command(s, run):
    """What the run of check_machine_lost has left, by frugal checkpoints."""
    m, url = Machine(s, run), "s3://bucket/runs/one"
    steps = steps_there(s)
    out = checkpoints(m, "list", url)
    assert all(f"step-{n:09}." in out for n in steps) and "a month" in out, out
    assert "copied" in checkpoints(m, "copy", url, "here", str(steps[0]))
    assert "verified" in checkpoints(m, "verify", "here")
    assert "copied" in checkpoints(m, "copy", "here", "s3://bucket/runs/copy")
    name = next(k for k in s.objects if k.startswith("runs/copy/") and k.endswith("/weights.safetensors")).split("/")[2]
    assert all(s.objects[k.replace("runs/one", "runs/copy")] == s.objects[k] for k in s.objects if k.startswith(f"runs/one/{name}/"))
    s.lifecycle = b"<LifecycleConfiguration><Rule><ID>theirs</ID></Rule></LifecycleConfiguration>"
    assert "1 other rules" in checkpoints(m, "lifecycle", url, "--days", "9")
    assert b"<Rule><ID>theirs</ID></Rule>" in s.lifecycle and b"<Days>9</Days>" in s.lifecycle
    newest = f"runs/one/step-{steps[-1]:09}."
    for k in [k for k in s.objects if k.startswith(newest) and k.endswith(".safetensors")]:
        s.classes[k] = "GLACIER"
    err = checkpoints(m, "copy", url, "there", rc=1)
    assert "is archived in GLACIER" in err and "5 hours" in err and "$" in err, err
    assert "being restored" in checkpoints(m, "restore", url)
    # A run that meets it goes on from the one before, and says so.
    c = Machine(s, run, "train.steps=100000").start()
    wait_until(lambda: s.count("PUT", "/attempts/") > 0 and s.count("PUT", "runs/one", ".4.", "manifest.json") >= 1)
    c.process.send_signal(signal.SIGTERM)
    c.end(4)
    assert "GLACIER" in c.told("damaged")[0]["text"] and c.told("resumed")[0]["step"] == steps[-2], (c.told("resumed"), steps)
    out = checkpoints(m, "verify", url, rc=None)  # the run, or a deletion that the store still does, may have pruned it
    assert "verified" in out and ("GLACIER" in out) == (", rc 1" in out), out
    checkpoints(m, "copy", url, "gs://bucket/x", rc=2)


def launcher():
    if shutil.which("mpirun.openmpi"):
        return ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1",
                "--mca", "oob_tcp_if_include", "lo", "--mca", "btl", "self,vader"]
    return ["mpirun.mpich"] if shutil.which("mpirun.mpich") else None


def check_ranks(s, run):
    """Three ranks write their parts on one machine, which is lost; one process on another resumes from the store."""
    if not launcher():
        print("neither Open MPI nor MPICH is installed: no ranks were tried")
        return
    s.log.clear()
    more = ["checkpoint.to=s3://bucket/runs/ranks", "train.threads=1", "train.device=cpu", "checkpoint.keep=2"]
    a = Machine(s, run, *more, "train.steps=60", "train.shard=all")
    a.args = [*launcher(), "-n", "3", *a.args]
    a.start().end(0)
    puts = [path for method, path in s.log if method == "PUT" and "/step-000000060." in path and "?" not in path]
    parts = [p for p in puts if "-of-00003.safetensors" in p]
    assert len(set(parts)) == 4 and "manifest.json" in puts[-1], puts
    assert len({k.split("/")[2] for k in s.objects if k.startswith("runs/ranks/step-")}) <= 3, list(s.objects)
    b = Machine(s, run, *more, "train.steps=80").start()
    b.end(0)
    assert b.told("resumed")[0]["step"] == 60, b.told("resumed")


JOIN_S = 2


def check_slow_upload(s, run):
    """The last upload takes longer than train.join_s: the other ranks wait for rank 0, and end with its exit code."""
    for shard, wait_s, code in ("all", 60, 0), ("none", 1.3 * JOIN_S, 3):
        if not launcher():
            return
        m = Machine(s, run, f"checkpoint.to=s3://bucket/runs/slow-{shard}", f"train.join_s={JOIN_S}", f"train.shard={shard}",
                    "train.threads=1", "train.device=cpu", "train.steps=4", "checkpoint.every=100", "train.eval_every=100",
                    f"checkpoint.upload_wait_s={wait_s}")
        with open(os.path.join(m.folder.name, "each"), "w") as f:
            f.write('#!/bin/sh\n"$@"\necho $? >code.${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\n')
        os.chmod(f.name, 0o755)
        m.args = [*launcher(), "-n", "2", "./each", *m.args]
        s.bytes_s = 53000 / (1.7 * JOIN_S)  # of about 53 kB
        out, err = m.start().process.communicate(timeout=60)
        s.bytes_s = None
        codes = [open(os.path.join(m.folder.name, f"code.{r}")).read().strip() for r in range(2)]
        assert codes == [str(code)] * 2, (shard, codes, out[-800:], err)
        assert "has not come" not in out + err, (shard, err)


COUNTER = """
import os, sys, time
n = int(open("out/n").read()) if os.path.exists("out/n") else 0
while n < int(sys.argv[1]):
    n += 1
    with open("out/n.part", "w") as f: f.write(str(n))
    os.rename("out/n.part", "out/n")
    time.sleep(0.25)
"""


def check_supervised(s):
    """A program that knows nothing of us, by frugal run: what it wrote on a lost machine is on the next."""
    s.log.clear()
    def machine():
        m = Machine(s, "unused")
        os.mkdir(os.path.join(m.folder.name, "out"))
        with open(os.path.join(m.folder.name, "count.py"), "w") as f:
            f.write(COUNTER)
        m.args = [FRUGAL, "run", "program.folder=out", "program.complete=0.05", "checkpoint.dir=kept", "spot.cloud=none",
                  "run.ledger=none", "checkpoint.to=s3://bucket/runs/any", "--", sys.executable, "count.py"]
        return m
    a = machine().start("1000000")
    wait_until(lambda: s.count("PUT", "runs/any", "manifest.json") >= 2)
    a.process.kill()
    a.process.communicate()
    there = max(int(v) for k, v in s.objects.items() if k.startswith("runs/any/step") and "/file-" in k)
    b = machine().start(str(there + 5))
    out, err = b.process.communicate(timeout=60)
    said.append(out + err)
    with open(os.path.join(b.folder.name, "out", "n")) as f:
        assert b.process.returncode == 0 and f.read() == str(there + 5), (out, err)
    assert "resuming from the checkpoint" in out + err, (out, err)
    newest = max(int(v) for k, v in s.objects.items() if k.startswith("runs/any/step") and "/file-" in k)
    assert newest == there + 5, (newest, there)


def main():
    with tempfile.TemporaryDirectory() as folder, Server() as s:
        run = data(folder)
        check_machine_lost(s, run, Machine(s, run))
        check_command(s, run)
        check_two_trainers(s, run)
        check_told(s, run)
        check_ranks(s, run)
        check_slow_upload(s, run)
        check_supervised(s)
    for text in said:
        assert SECRET not in text, text
    print("a lost machine, two trainers, what is told, and a program that knows nothing of it")


if __name__ == "__main__":
    main()
