"""attack.py [--quick] [--json] [--seconds=S] [--rounds=N] [--seed=S] [ROW…]: attacks on a run, each with its expected outcome.

A round (tests/oracle/attacks.py) is one run of frugal train that is killed at random moments while one thing is done to
it: a store that answers badly in one of fourteen ways, once and for as long as it lasts; a machine, a store or a file
that is gone; permissions, a full disk, a step longer than the grace, caps, links in checkpoint.dir, plain kills, spot
notices. The rows are drawn in random order, each before any comes again, until S seconds (300) or N rounds are over.

lost: the weights at the end are not those of the run that was left alone, a start did not resume from the newest whole
checkpoint, or one went before a newer one was whole. late: a grace, a notice or checkpoint.upload_wait_s was outstayed.
over cap: more was paid than train.max_dollars or max_seconds by more than a step and a save, or another sum was printed
than the ledger has. wrong exit: another exit code than documented, or no sentence. Ends with 1 if one of them is not 0.
"""
import os
import random
import sys
import time

import common

SECONDS, QUICK_SECONDS = 300.0, 30.0
HEAD = f"{'attack':<20}{'rounds':>7}{'kills':>7}{'lost':>6}{'late':>6}{'over cap':>10}{'wrong exit':>12}{'seconds':>9}"
COLUMNS = ("rounds", "kills", "lost", "late", "over_cap", "wrong_exit", "seconds")


def line(r):
    return (f"{r['attack']:<20}{r['rounds']:>7}{r['kills']:>7}{r['lost']:>6}{r['late']:>6}{r['over_cap']:>10}{r['wrong_exit']:>12}"
            f"{r['seconds']:>9.1f}{'  skipped: ' + r['skipped'] if r['skipped'] else ''}")


def rounds_of(attacks, names, seconds, rounds, seed):
    """One result a round. With --rounds there is no other limit."""
    done, end, deck, draw = 0, time.time() + seconds, [], random.Random(seed)
    with attacks.Lab() as lab:
        while done < rounds if rounds else time.time() < end:
            if not deck:
                deck = draw.sample(names, len(names))
            result = lab.attack(deck.pop(), random.Random(f"{seed}/{done}"))
            for text in result["said"]:
                common.note(f"round {done}, {result['attack']}: {text}")
            done += 1
            yield result


def main(arguments):
    seconds, rounds, seed, rows = common.flags(arguments, __doc__, QUICK_SECONDS, rows=True, seconds=SECONDS, rounds=0)
    os.environ.setdefault("FRUGAL", common.FRUGAL)
    os.environ["CHECK_SEED"] = str(seed)  # of the data
    sys.path.insert(0, os.path.join(common.TOP, "tests", "oracle"))
    import attacks
    unknown = set(rows) - set(attacks.ATTACKS)
    if unknown:
        sys.exit(f"no attack {', '.join(sorted(unknown))}; there are {', '.join(attacks.ATTACKS)}")
    how = f"--rounds={rounds}" if rounds else f"--seconds={seconds:g}"
    about = common.machine(command=f"bench/run attack {how} --seed={seed} {' '.join(map(repr, rows))}".strip())
    record = common.Record("attack", HEAD, line, about, "--json" in arguments, "--quick" not in arguments)
    sums = {}
    for r in rounds_of(attacks, rows or list(attacks.ATTACKS), seconds, rounds, seed):
        for name in (r["attack"], "all"):
            row = sums.setdefault(name, {"attack": name, "skipped": "", **dict.fromkeys(COLUMNS, 0)})
            row["rounds"] += not r["skipped"]
            row["skipped"] = r["skipped"] if name != "all" else ""
            for column in COLUMNS[1:]:
                row[column] += r[column]
    every = sums.pop("all", {"attack": "all", "skipped": "", **dict.fromkeys(COLUMNS, 0)})
    for name in [n for n in attacks.ATTACKS if n in sums]:
        record.add(sums[name])
    record.add(every)
    return 1 if any(every[c] for c in attacks.COLUMNS) or not every["rounds"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
