#!/usr/bin/env python3
"""bench/run attack for CHECK_SECONDS, each round of a kind that is drawn at random: nothing is lost or late, no cap is
exceeded, and every exit code is the documented one. CHECK_SEED repeats a printed seed."""
import os, sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "bench"))
import attack  # noqa: E402

arguments = ["--quick", f"--seconds={os.environ.get('CHECK_SECONDS', 5)}"]
if os.environ.get("CHECK_SEED"):
    arguments.append(f"--seed={int(os.environ['CHECK_SEED'])}")
sys.exit(attack.main(arguments))
