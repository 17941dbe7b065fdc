#!/usr/bin/env python3
"""The trace of a profile, read by Holistic Trace Analysis: it finds the steps that were profiled, and for them the
device time that we print."""
import json
import os
import sys
import tempfile

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"  # it would round kernels of less than a microsecond away
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import small

try:
    from hta.trace_analysis import TraceAnalysis
except ImportError as e:
    print(f"needs {e.name}: pip install --no-deps HolisticTraceAnalysis; pip install 'pandas<3' plotly networkx pydot psutil pyyaml")
    sys.exit(77)

STEPS = 4


def profiled(folder):
    """What `frugal profile` says: nanoseconds by part, and seconds of all ops."""
    text = small.frugal(folder, "profile", "run.yaml", "wait=3", f"active={STEPS}", "trace=trace.json", "--json", "--seconds", "0")
    events = [json.loads(line) for line in text.splitlines()]
    parts = {e["part"]: e["ns"] for e in events if e["event"] == "profile_part"}
    whole = next(e for e in events if e["event"] == "profile")
    assert whole["steps"] == STEPS and sum(parts.values()) == whole["ns"], (whole, parts)
    return parts, sum(e["seconds"] for e in events if e["event"] == "profile_op")


def main():
    with tempfile.TemporaryDirectory() as folder:
        small.write(folder)
        parts, op_seconds = profiled(folder)
        analysis = TraceAnalysis(trace_files={0: os.path.join(folder, "trace.json")}, trace_dir=folder,
                                 include_last_profiler_step=True)
    # wait=3: the first that counts is the fourth
    assert list(analysis.get_profiler_steps()) == list(range(4, 4 + STEPS)), analysis.get_profiler_steps()
    frame = analysis.t.get_trace(0)
    kernels = frame[frame["stream"] >= 0]
    assert len(kernels) > 0 and set(kernels["iteration"]) == set(range(4, 4 + STEPS)), kernels
    breakdown = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    device_us = (parts["forward"] + parts["backward"] + parts["update"]) / 1e3
    # Nanoseconds in decimal microseconds, summed by it as binary floats: a nanosecond of all.
    assert abs(breakdown["compute_time(us)"] - device_us) < 1e-3, (breakdown, device_us)
    # Seconds are summed before, nanoseconds after rounding: half a nanosecond an instruction.
    assert abs(op_seconds * 1e6 - device_us) < 1e-3 * len(kernels), (op_seconds, device_us)
    # Between the first kernel's begin and the last one's end it is busy or idle, and nothing else.
    assert breakdown["non_compute_time(us)"] == 0, breakdown
    assert breakdown["kernel_time(us)"] < sum(parts.values()) / 1e3, breakdown
    print(f"{STEPS} steps, {len(kernels)} kernels, {device_us:.3f} us of device time: the same by both")


if __name__ == "__main__":
    main()
