"""What training would cost, where and how, before anything is spent."""
from .program import events


def plan(what, settings=None, **flags):
    """The rows of `frugal plan WHAT`, cheapest first, as dicts. WHAT is a run file, a config.json or the name of a known
    model; flags are those of the command: tokens=3e10, deadline=24, on="aws", spot=True, gpus=8."""
    return [{k: v for k, v in e.items() if k != "event"} for e in events("plan", what, settings=settings, **flags) if e["event"] == "plan"]
