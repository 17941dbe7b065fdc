"""A training program that knows nothing of frugal: it rewrites one file name for ever, in place and
slowly, so that a kill in the middle leaves half a file there. rewrites.py FILE STEPS [--resume]"""
import struct
import sys
import time

path, steps = sys.argv[1], int(sys.argv[2])
step, state = 0, 1
if "--resume" in sys.argv:
    with open(path, "rb") as f:
        text = f.read()
    if len(text) != 16 + 8 * 10000 + 4 or text[-4:] != b"done":
        sys.exit("half a checkpoint")
    step, state = struct.unpack("<qQ", text[:16])
    print("resumed at", step, flush=True)

while step < steps:
    state = (state * 6364136223846793005 + step) % 2**64
    step += 1
    print(f"step {step} loss {1 / step:.6f}", flush=True)
    time.sleep(0.005)
    if step % 20 == 0:
        with open(path, "wb", buffering=0) as f:
            f.write(struct.pack("<qQ", step, state))
            for _ in range(8):
                f.write(b"x" * 10000)
                time.sleep(0.01)
            f.write(b"done")
        time.sleep(0.3)
print("final", state, flush=True)
