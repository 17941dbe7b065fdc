#!/usr/bin/env python3
"""SIGTERM with spot.grace_s seconds to go while the object store is away: answering 503 to all, or taking bodies too slowly to
matter. The run saves here, says what is not there, and is gone in time. So it is when the signal comes after the last step, in
the wait for the last upload; and Ctrl-C ends that wait at once. For as long as it waited for a core or a disk meanwhile, it may be later."""
import os, signal, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from busy import Delays
from s3_server import Server
from s3_train import Machine, data

GRACE_S = 4


def one(run, fault):
    with Server() as server:
        one_with(server, run, fault)


def one_with(server, run, fault):
    m = Machine(server, run, "train.steps=100000000", "checkpoint.every=20", "train.log_every=1", f"spot.grace_s={GRACE_S}",
                FRUGAL_RUN_LEDGER="ledger.db").start_heard()
    try:
        terminate(m, server, fault)
    finally:
        m.process.kill()
        m.process.wait()


def terminate(m, server, fault):
    for line in m.process.stdout:
        if '"what":"uploaded"' in line:
            break
    if fault == "away":
        server.misbehave("", "503 SlowDown", 1000000)
    else:
        server.bytes_s = 10
    for line in m.process.stdout:  # one more is saved, which cannot be sent
        if '"what":"saved"' in line:
            break
    delays, begin = Delays(m.process.pid), time.time()
    delays.start()
    m.process.send_signal(signal.SIGTERM)
    out, err = m.process.communicate(timeout=60)
    took, waited = time.time() - begin, delays.since(begin)
    assert m.process.returncode == 4, (m.process.returncode, err)
    assert "will be repeated" in out + err, out[-2000:] + err
    in_time(fault, took, GRACE_S, waited)


def in_time(what, took, limit_s, waited):
    text = f"{what}: {took:.2f} s of {limit_s}, {waited:.2f} s of it without a core"
    assert took <= limit_s + waited, text
    print(text)


def at_the_end(run, sent, limit_s):
    with Server() as server:
        server.misbehave("safetensors", "503 SlowDown", 1000000)
        m = Machine(server, run, "train.steps=40", f"spot.grace_s={GRACE_S}", "train.out=w.safetensors").start_heard()
        try:
            for line in m.process.stdout:
                if "waiting for the upload" in line:
                    break
            delays, begin = Delays(m.process.pid), time.time()
            delays.start()
            m.process.send_signal(sent)
            err = m.end(4)
            took, waited = time.time() - begin, delays.since(begin)
        finally:
            m.process.kill()
            m.process.wait()
        assert "frugal checkpoints copy" in str(m.events) + err, (m.events, err)
        assert m.weights()
        in_time(f"{sent.name} at the end", took, limit_s, waited)


def main():
    with tempfile.TemporaryDirectory() as folder:
        run = data(folder)
        for fault in ("away", "slow"):
            one(run, fault)
        at_the_end(run, signal.SIGTERM, GRACE_S)
        at_the_end(run, signal.SIGINT, 3)


main()
