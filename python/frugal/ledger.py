"""The ledger: what was run, and what it cost."""
from .program import events


def runs(ledger=None):
    """One dict per run, oldest first, with the fields of `frugal runs --json`."""
    return [{k: v for k, v in e.items() if k != "event"} for e in events("runs", ledger=ledger) if e["event"] == "run"]


def frame(rows=None, ledger=None):
    """The same as a pandas.DataFrame; of any list of events too."""
    import pandas

    table = pandas.DataFrame(runs(ledger) if rows is None else list(rows))
    if "begin_s" in table:
        table["begin"] = pandas.to_datetime(table["begin_s"], unit="s", utc=True)
    return table
