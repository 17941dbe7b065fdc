"""frugal from Python: start the program and follow its events, read the ledger, plan, exchange weights,
and give a training loop of your own its bill, caps and spot safety. docs/python.md has an example of each.

Nothing here trains: `frugal train` is a program of its own, and a run that this module starts does not
depend on Python once it has begun."""
from .follow import Follow, newest
from .ledger import frame, runs
from .plan import plan
from .program import Error, Run, events, program, version
from .weights import load, save

__all__ = ["Error", "Follow", "Run", "events", "frame", "load", "newest", "plan", "program", "runs", "save", "version"]
