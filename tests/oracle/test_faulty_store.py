#!/usr/bin/env python3
"""An object store that answers badly while a run goes on from it: one bad answer costs nothing, a store that does
not give the newest checkpoint ends the start with exit 3 and loses nothing, for frugal train and frugal run; a store
that is gone at the end; a certificate that cannot be verified."""
import os, shutil, signal, ssl, subprocess, sys, tempfile, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from s3_server import SECRET, Server
from s3_train import FRUGAL, Machine, data, said, steps_there, wait_until

ODD = ["307 TemporaryRedirect", "400 Odd", "403 AccessDenied", "404 NoSuchKey", "wrong_bytes"]


def check_train(s, run):
    for steps in 40, 60:
        Machine(s, run, f"train.steps={steps}").start().end(0)
    assert steps_there(s)[-2:] == [40, 60], steps_there(s)
    for how in ODD:
        s.misbehave("GET step-000000060 manifest.json", how)
        s.misbehave("GET step-000000060 weights.safetensors", how)
        m = Machine(s, run, "train.steps=60").start()
        m.end(0)
        assert m.told("resumed")[0]["step"] == 60 and not m.told("damaged"), (how, m.events)
    before = dict(s.objects)
    for how in ODD[:4]:
        s.misbehave("GET step-000000060 weights.safetensors", how, 1000)
        m = Machine(s, run, "train.steps=200").start()
        err = m.end(3)
        assert "step-000000060" in err and "--fresh" in err and how.split()[0] in err, err
        assert not [e for e in m.events if e["event"] in ("step", "eval")], m.events
        s.faults.clear()
        assert {k: v for k, v in s.objects.items() if "attempts" not in k} == \
            {k: v for k, v in before.items() if "attempts" not in k}, how
    # Wrong whenever it is read: damaged, and what that costs is said; it is not deleted.
    s.misbehave("GET step-000000060 weights.safetensors", "wrong_bytes", 1000)
    m = Machine(s, run, "train.steps=60").start()
    m.end(0)
    assert "20 steps are repeated, from step 40 on" in m.told("damaged")[0]["text"], m.told("damaged")
    assert m.told("resumed")[0]["step"] == 40, m.events
    s.faults.clear()
    m = Machine(s, run, "train.steps=40")
    m.args.append("--fresh")
    m.start().end(0)
    assert not m.told("resumed"), m.events


def check_run(s):
    def machine(*more):
        m = Machine(s, "unused")
        m.args = [FRUGAL, "run", *more, "program.folder=out", "checkpoint.dir=kept", "spot.cloud=none", "run.ledger=none",
                  "checkpoint.to=s3://bucket/runs/two", "--", "sh", "-c", "cat out/n; echo x >> out/n"]
        os.mkdir(os.path.join(m.folder.name, "out"))
        return m
    def end(m, rc):
        out, err = m.start().process.communicate(timeout=60)
        said.append(out + err)
        assert m.process.returncode == rc, (m.process.returncode, out, err)
        return out, err
    first = end(machine(), 0)
    assert "1 checkpoint copied" in first[1], first
    s.misbehave("GET runs/two file-0", "403 AccessDenied")
    out, err = end(machine(), 0)  # one bad answer
    assert out == "x\n", (first, out, err, s.log)
    s.misbehave("GET runs/two file-0", "403 AccessDenied", 1000)
    out, err = end(machine(), 3)
    assert out == "" and "--fresh" in err and "403" in err, (out, err)
    s.faults.clear()
    assert end(machine(), 0)[0] == "x\nx\n"
    assert end(machine("--fresh"), 0)[0] == ""


def check_gone_at_the_end(s, run):
    m = Machine(s, run, "train.steps=40", "checkpoint.to=s3://bucket/runs/gone", "checkpoint.upload_wait_s=2")
    s.misbehave("PUT weights.safetensors", "503 SlowDown", 100000)
    begin = time.time()
    err = m.start().end(3)
    assert 2 <= time.time() - begin < 30, time.time() - begin
    assert "frugal checkpoints copy checkpoints s3://bucket/runs/gone" in err, err
    assert [e for e in m.events if "waiting for the upload to s3://bucket/runs/gone" in str(e)], m.events
    s.faults.clear()
    done = subprocess.run([FRUGAL, "checkpoints", "copy", "checkpoints", "s3://bucket/runs/gone"], env=m.env,
                          cwd=m.folder.name, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    assert any(k.startswith("runs/gone/step-000000040") and k.endswith("manifest.json") for k in s.objects)


def check_rows_at_the_end(s, run):
    """The store took the checkpoints and does not take the ledger's rows: they are no reason to wait longer."""
    m = Machine(s, run, "train.steps=40", "checkpoint.to=s3://bucket/runs/rows", "checkpoint.upload_wait_s=5")
    s.misbehave("PUT ledger", "503 SlowDown", 100000)
    begin = time.time()
    err = m.start().end(0)
    s.faults.clear()
    assert "without SQLite" in err or "the object store lacks rows of this run" in err, err
    assert time.time() - begin < 15, time.time() - begin  # one request alone is tried for 20 s


def check_certificate(run, folder):
    pem = os.path.join(folder, "own.pem")
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", pem, "-out", pem + ".crt",
                           "-days", "2", "-subj", "/CN=localhost"], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    with Server() as s:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem + ".crt", pem)
        s.http.socket = context.wrap_socket(s.http.socket, server_side=True)
        s.url = f"https://localhost:{s.port}"
        begin = time.time()
        err = Machine(s, run, "train.steps=40").start().end(3)
        assert "certificate" in err.lower() or "SSL" in err, err
        assert time.time() - begin < 10, time.time() - begin


def main():
    with tempfile.TemporaryDirectory() as folder:
        run = data(folder)
        with Server() as s:
            check_train(s, run)
            check_run(s)
            check_gone_at_the_end(s, run)
            check_rows_at_the_end(s, run)
        if shutil.which("openssl"):
            check_certificate(run, folder)
    for text in said:
        assert SECRET not in text, text
    print("one bad answer costs nothing, a bad store ends the start with 3, and nothing is lost")
    if not shutil.which("openssl"):
        print("no openssl: a certificate that cannot be verified was not tried")
        sys.exit(77)


if __name__ == "__main__":
    main()
