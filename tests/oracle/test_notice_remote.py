#!/usr/bin/env python3
"""A spot notice while checkpoints go to an object store, in every phase of a run's life and from each cloud: within the
notice the last state is there, or the message says that it is not. All phases once, then at random for CHECK_SECONDS;
`bench/run notices` gives a hundred. One store is too slow, and the ledger's rows do not outstay the notice either."""
import os, sys, tempfile, threading, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from notices import CLOUDS, PHASES, Notice
from s3_server import SECRET
from s3_train import RNG, data, said

RATES, TOO_SLOW = [None, 400_000, 60_000], 4_000  # bytes a second; a checkpoint has some 60,000
LATE_S = 5  # a busy machine needs its time to end a process; the bench wants less


def side_by_side(notices):
    results, threads = [], []
    for n in notices:
        threads.append(threading.Thread(target=lambda n=n: results.append(n.give())))
        threads[-1].start()
    for t in threads:
        t.join()
    assert len(results) == len(notices), "one of them failed"
    return results


def main():
    begin, results = time.time(), []
    with tempfile.TemporaryDirectory() as folder:
        run = data(folder)
        fast = lambda phase, cloud: Notice(run, cloud, phase, RNG.choice(RATES), CLOUDS[cloud], RNG)
        quick = ["gcp", "azure", "sigterm"]  # AWS is asked every five seconds: the slow one is its
        slow = Notice(run, "aws", "uploading", TOO_SLOW, 7, RNG)
        results += side_by_side([slow, *[fast(p, RNG.choice(quick)) for p in PHASES[:3]]])
        results += side_by_side([fast(p, RNG.choice(quick)) for p in PHASES[3:]])
        while time.time() - begin < float(os.environ.get("CHECK_SECONDS", 5)):
            results += side_by_side([fast(RNG.choice(PHASES), RNG.choice(list(CLOUDS))) for _ in range(2)])
    for r in results:
        expected = ["honest"] if r["rate"] == TOO_SLOW else ["complete", "nothing"] if r["phase"] == "start" else ["complete"]
        assert r["kind"] in expected and r["left"] > -LATE_S, r
    assert all(SECRET not in text for text in said)
    print(len(results), "notices:", {(r["cloud"], r["phase"]): r["kind"] for r in results})


main()
