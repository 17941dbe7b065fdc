#!/usr/bin/env python3
"""What attacks.py and notices.py make of ends that are made up: a run that outstays its notice is late whatever it said or
ended with, and a bare signal ends a run rightly only before it has said anything."""
import collections, os, signal, sys
from types import SimpleNamespace

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attacks, notices  # noqa: E402


def left(said_at, ended, waited=0.0):
    """Of a notice that ends at 100 s, with a last checkpoint that is not in the store."""
    n = object.__new__(notices.Notice)
    n.cloud, n.phase, n.rate, n.notice_s = "gcp", "steady", 1000, 30
    n.events = [{"event": "step", "step": 7, "heard": 60}, {"event": "checkpoint", "what": "not uploaded", "text": "no", "heard": said_at}]
    n.metadata = SimpleNamespace(gone_at=100, told_at=70)
    n.delays = SimpleNamespace(since=lambda when: waited)
    verdict = n.judge(4, ended, "built without SQLite", None, None)
    assert verdict["kind"] == "honest", verdict
    return verdict["left"]


class Ended:
    """A machine whose one start has ended like that."""
    ends = {}

    def __init__(self, *_, **__):
        self.kept, self.err, self.lived_s, self.begun = "nowhere", "some words said", 1, 0
        self.killed, self.signalled, self.ended, self.delays = True, 0, 1, SimpleNamespace(since=lambda when: 0)
        self.rc, self.events = 0, []

    def live(self, kill_s, number):
        self.__dict__.update(self.ends)
        return self

    def told(self, what):
        return []

    def weights(self):
        return b""


def counted(act, **ends):
    r = object.__new__(attacks.Round)
    r.counts, r.said, r.server = collections.Counter(), [], None
    r.lab = SimpleNamespace(long_steps=lambda: (None, 2, b""), long_start_s=0)
    r.rng = SimpleNamespace(uniform=lambda low, high: low)
    Ended.ends = ends
    act(r)
    return r.counts


def wrong_exit(number, rc, *events):
    return counted(lambda r: r.life(Ended(), 1, number=number), rc=rc, events=[{"event": e, "step": 1} for e in events])["wrong_exit"]


def main():
    notices.steps_there = lambda server: set()
    assert left(said_at=98, ended=99) == 1
    assert left(said_at=98, ended=101) == -1, "said in time, and ended too late"
    assert left(said_at=98, ended=101, waited=1.5) == 0.5, "the machine kept it waiting"

    assert wrong_exit(signal.SIGKILL, -signal.SIGKILL, "start", "step") == 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        assert wrong_exit(number, 4, "start", "step") == 0
        assert wrong_exit(number, -number) == 0, "before there is a handler"
        assert wrong_exit(number, -number, "start", "step") == 1, "the bare signal ended a run that trained"
        assert wrong_exit(number, 1, "start") == 1

    attacks.Host = Ended
    for rc in (0, 3, 4):
        assert counted(lambda r: attacks.by_long_step(r, ""), rc=rc, ended=1.9)["late"] == 0
        assert counted(lambda r: attacks.by_long_step(r, ""), rc=rc, ended=9)["late"] == 1, f"exit {rc}, 9 s of 2"
    print("late is late whatever is said or returned; a bare signal is right only before the first word")


main()
