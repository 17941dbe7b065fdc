#!/usr/bin/env python3
"""bench/run levers stays runnable: frugal knows every setting of every row, and a row whose setting
it does not know fails instead of being passed over."""
import os
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "bench"))
import common  # noqa: E402
import levers  # noqa: E402

common.FRUGAL = os.path.abspath(os.environ.get("FRUGAL", common.FRUGAL))
PLAIN = {"planned_mib": 256, "batch": 16}  # what rows relative to plain count from


def shown(example, lever):
    """frugal's words against the row; empty: none."""
    file, *settings = levers.arguments_of(example, lever, 1, PLAIN)
    done = subprocess.run([common.FRUGAL, "show", f"{TOP}/{file}", *settings], cwd=common.DATA, capture_output=True,
                          text=True, timeout=60)
    return done.stderr.strip() if done.returncode else ""


def main():
    failed = 0
    common.make_text()
    for example in levers.EXAMPLES:
        for lever in levers.LEVERS:
            words = shown(example, lever)
            print(f"{example}, {lever}: {words or 'known'}", flush=True)
            failed += bool(words)
    levers.LEVERS["unknown"] = ["train.magic=true"]
    try:
        levers.measure("gpt", "unknown", 1, PLAIN)
        print("FAILED: a row with an unknown setting ran")
        failed += 1
    except common.Failed as e:
        failed += "unknown key train.magic" not in str(e)
        print(f"unknown: {e}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
