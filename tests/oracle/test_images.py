#!/usr/bin/env python3
"""Pixels against Pillow: files of every kind decoded, parts of them, and resized.

Decoding must give Pillow's bytes. JPEG too where both use libjpeg-turbo: another version of it may round
otherwise, so 1 is allowed there. Resizing must be within 1: Pillow rounds to bytes between rows and columns,
ours keeps 7 bits more, and each is within half a step of its own exact value in the end."""
import os
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOOL = os.environ.get("SHOW_IMAGE", "build/show_image")
seed = int(os.environ.get("CHECK_SEED", 0)) or int.from_bytes(os.urandom(4), "little")
print(f"CHECK_SEED={seed}", flush=True)
draw = random.Random(seed)
rng = np.random.default_rng(seed)


def picture(mode, width, height):
    channels = len(Image.new(mode, (1, 1)).getbands())
    slope = np.add.outer(np.arange(height) * 0.7, np.arange(width) * 0.4)[:, :, None]
    noise = rng.normal(0, draw.uniform(0, 60), (height, width, channels))
    pixels = np.clip(slope + noise + 40, 0, 255).astype(np.uint8)
    return Image.fromarray(pixels[:, :, 0] if channels == 1 else pixels, mode)


def kinds():
    """Name, the picture as it is saved, and how."""
    width, height = draw.randint(1, 300), draw.randint(1, 300)
    rgb = picture("RGB", width, height)
    quality = draw.randint(10, 100)
    yield "jpeg 4:2:0", rgb, dict(format="JPEG", quality=quality)
    yield "jpeg 4:4:4", rgb, dict(format="JPEG", quality=quality, subsampling=0)
    yield "jpeg 4:2:2", rgb, dict(format="JPEG", quality=quality, subsampling=1, optimize=True)
    yield "jpeg progressive", rgb, dict(format="JPEG", quality=quality, progressive=True)
    yield "jpeg grey", picture("L", width, height), dict(format="JPEG", quality=quality)
    yield "jpeg cmyk", picture("CMYK", width, height), dict(format="JPEG", quality=quality)
    yield "png rgb", rgb, dict(format="PNG")
    yield "png alpha", picture("RGBA", width, height), dict(format="PNG")
    yield "png grey", picture("L", width, height), dict(format="PNG")
    yield "png palette", rgb.quantize(draw.randint(2, 256)), dict(format="PNG")
    yield "png bits", picture("L", width, height).convert("1"), dict(format="PNG")


def ours(path, box, size, channels, *how):
    x0, y0, x1, y1 = box
    done = subprocess.run([TOOL, path, *map(str, (x0, y0, x1 - x0, y1 - y0, size, channels)), *how], capture_output=True)
    if done.returncode:
        sys.exit(f"{path}: {done.stderr.decode()}")
    width, height = (size, size) if size else (x1 - x0, y1 - y0)
    return np.frombuffer(done.stdout, np.uint8).reshape(height, width, channels).astype(int)


def theirs(image, box, size, channels):
    part = image.convert("RGB" if channels == 3 else "L").crop(box)
    if size:
        part = part.resize((size, size), Image.BILINEAR)
    return np.asarray(part).reshape(part.height, part.width, channels).astype(int)


def scaled(folder):
    """A JPEG of at least twice the size, as training decodes it: libjpeg leaves out the finer frequencies, which is another filter
    than Pillow's, so single pixels differ, by more the noisier the picture is. Their signed mean may differ by one level: what
    is decoded and what is resized are both rounded to whole levels, each by half of one at most (noise of 4 levels averages out to
    4 / sqrt(64 * 64 * 3) = 0.04). One pixel of offset would be at least 0.4 * 4 = 1.6 on the slope of picture()."""
    worst, mean = 0, 0
    for side in (260, 510):
        path, image = os.path.join(folder, "large"), picture("RGB", side, side)
        image.save(path, format="JPEG", quality=90)
        image, box = Image.open(path), (0, 0, side, side)
        far = ours(path, box, 64, 3, "scaled") - theirs(image, box, 64, 3)
        worst, mean = max(worst, np.abs(far).max()), max(mean, np.abs(far).mean())
        if abs(far.mean()) > 1 or np.abs(far).max() > 65:
            sys.exit(f"jpeg of {side} at reduced scale: off by {np.abs(far).max()}, {far.mean():.2f} on average with its sign")
    print(f"jpeg at reduced scale, as in training: within {worst}, {mean:.2f} on average")


def main():
    worst = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(4):
            for name, image, how in kinds():
                path = os.path.join(folder, "picture")
                image.save(path, **how)
                image = Image.open(path)
                x, y = draw.randrange(image.width), draw.randrange(image.height)
                box = (x, y, draw.randint(x + 1, image.width), draw.randint(y + 1, image.height))
                for size in (0, draw.randint(1, 300)):
                    # Grey of a coloured JPEG is its own luma here, and Pillow's mean of RGB there.
                    channels = 3 if "jpeg" in name and "grey" not in name else draw.choice((1, 3))
                    far = np.abs(ours(path, box, size, channels) - theirs(image, box, size, channels)).max()
                    worst[name, bool(size)] = max(worst.get((name, bool(size)), 0), far)
                    allowed = 1 if size or "jpeg" in name else 0
                    if far > allowed:
                        sys.exit(f"{name} {image.width}x{image.height} {how}, {box} to {size}, {channels} channels: off by {far}")
        scaled(folder)
    for (name, resized), far in sorted(worst.items()):
        print(f"{name:18} {'resized' if resized else 'decoded'}: within {far}")


main()
