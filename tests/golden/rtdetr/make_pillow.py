# SPDX-License-Identifier: MIT OR Apache-2.0
"""Vectors for the resize that must equal Pillow's: make_pillow.py FOLDER.

Writes pillow.json (cases: pattern, sizes, CRC-32 of the resized RGB bytes, and for small ones where they lie) and
pillow.bin (those bytes). Needs a Pillow before 13, which takes the rows first in every case; from 13 on it takes the
columns first where the height shrinks and the width does not (one level apart at most). The patterns are integer
formulas, so that tests/rtdetr_pillow.rs draws the same sources.
"""
import json
import sys
import zlib

import numpy
import PIL
from PIL import Image


def mix(v):
    """A hash of 32 bits, element by element."""
    v = v.astype(numpy.uint64) * 2654435761 % 2**32
    v ^= v >> 15
    v = v * 2246822519 % 2**32
    return v ^ (v >> 13)


def draw(pattern, width, height):
    y, x = numpy.meshgrid(numpy.arange(height), numpy.arange(width), indexing="ij")
    planes = []
    for c in range(3):
        if pattern == "noise":
            plane = mix((y * 65536 + x) * 3 + c) % 256
        elif pattern == "checkerboard":
            plane = (x + y + c) % 2 * 255
        elif pattern == "ramp":
            plane = (x * (c + 1) + y * 2) % 256
        elif pattern == "page":
            # Glyphs of 5x7 bits in cells of 8x12 pixels, lines with gaps between, on paper.
            column, row, gx, gy = x // 8, y // 12, x % 8, y % 12
            ink = (gx < 5) & (gy < 7) & (row % 4 != 3) & (mix(row * 4096 + column) % 7 != 0)
            ink &= mix((row * 4096 + column) * 64 + gy * 8 + gx) % 2 == 0
            plane = numpy.where(ink, 20 + 10 * c, 250 - 5 * c)
        else:
            raise ValueError(pattern)
        planes.append(plane)
    return numpy.stack(planes, -1).astype(numpy.uint8)


CASES = [
    ("noise", 37, 23, 16, 16),
    ("noise", 16, 16, 37, 23),
    ("noise", 40, 30, 40, 16),
    ("noise", 40, 30, 16, 30),
    ("noise", 7, 5, 7, 5),
    ("noise", 1, 1, 9, 4),
    ("noise", 1, 300, 16, 16),
    ("noise", 300, 1, 16, 16),
    ("noise", 33, 200, 64, 20),
    ("ramp", 100, 100, 33, 47),
    ("checkerboard", 65, 49, 32, 24),
    ("page", 248, 351, 64, 64),
    ("ramp", 100, 100, 640, 640),
    ("noise", 20000, 1, 640, 640),
    ("noise", 1, 20000, 640, 640),
    ("noise", 1920, 400, 640, 640),
    ("checkerboard", 2480, 3508, 640, 640),
    ("page", 2480, 3508, 640, 640),
]
LARGEST_KEPT = 16384

if int(PIL.__version__.split(".")[0]) > 12:
    sys.exit(f"Pillow {PIL.__version__} takes the columns first in some cases; install pillow<13")
folder = sys.argv[1]
cases, data = [], b""
for pattern, width, height, to_width, to_height in CASES:
    image = Image.fromarray(draw(pattern, width, height), "RGB")
    resized = image.resize((to_width, to_height), Image.Resampling.BILINEAR).tobytes()
    case = {"pattern": pattern, "size": [width, height], "to": [to_width, to_height], "crc32": zlib.crc32(resized)}
    if len(resized) <= LARGEST_KEPT:
        case["offset"] = len(data)
        data += resized
    cases.append(case)
with open(f"{folder}/pillow.json", "w") as file:
    lines = ",\n".join("    " + json.dumps(case) for case in cases)
    file.write(f'{{\n  "source": "Pillow {PIL.__version__}",\n  "cases": [\n{lines}\n  ]\n}}\n')
with open(f"{folder}/pillow.bin", "wb") as file:
    file.write(data)
