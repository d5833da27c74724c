# SPDX-License-Identifier: MIT OR Apache-2.0
"""What docling's layout post-processor leaves of random pages without text cells: make_layout.py FILE.

Needs docling 2.100 (its later versions have further rules). Each page of 1024x1024 has detections [label, score, left,
top, right, bottom], the best first, and the detections that stay, in docling's order. A Picture with an IoU above 0.8
to a Table is dropped before docling sees it, as docling's current versions do themselves.
"""
import json
import random
import sys
from types import SimpleNamespace

from docling.datamodel.base_models import Cluster
from docling.datamodel.pipeline_options import LayoutOptions
from docling.utils.layout_postprocessor import LayoutPostprocessor
from docling_core.types.doc import BoundingBox, DocItemLabel, Size

LABELS = [label for label in LayoutPostprocessor.CONFIDENCE_THRESHOLDS]
SIDE = 1024
PAGES = 120


def box(rng, boxes):
    """A box of whole pixels: new, or near or inside one that is there."""
    kind = rng.random()
    if boxes and kind < 0.35:
        jitter = lambda v: min(max(v + rng.randint(-12, 12), 0), SIDE)
        near = [jitter(v) for v in rng.choice(boxes)]
        if near[2] > near[0] and near[3] > near[1]:
            return near
    if boxes and kind < 0.7:
        left, top, right, bottom = rng.choice(boxes)
        if right - left > 8 and bottom - top > 8:
            x, y = sorted(rng.sample(range(left, right + 1), 2)), sorted(rng.sample(range(top, bottom + 1), 2))
            return [x[0], y[0], x[1], y[1]]
    if kind > 0.97:
        return [rng.randint(0, 30), rng.randint(0, 30), SIDE - rng.randint(0, 30), SIDE - rng.randint(0, 30)]
    x, y = sorted(rng.sample(range(SIDE + 1), 2)), sorted(rng.sample(range(SIDE + 1), 2))
    return [x[0], y[0], x[1], y[1]]


def bounds(values):
    left, top, right, bottom = map(float, values)
    return BoundingBox(l=left, t=top, r=right, b=bottom)


def make(seed):
    rng = random.Random(seed)
    common = rng.sample(LABELS, 5)
    boxes, found = [], []
    for _ in range(rng.randint(2, 16)):
        boxes.append(box(rng, boxes))
        label = rng.choice(common if rng.random() < 0.8 else LABELS)
        # Scores that float32 holds exactly.
        found.append((label, rng.randint(46, 127) / 128, boxes[-1]))
    found.sort(key=lambda item: -item[1])
    thresholds = LayoutPostprocessor.CONFIDENCE_THRESHOLDS
    tables = [bounds(b) for label, score, b in found if label == DocItemLabel.TABLE and score >= thresholds[label]]
    clusters = [
        Cluster(id=i, label=label, confidence=score, bbox=bounds(b), cells=[])
        for i, (label, score, b) in enumerate(found)
        if label != DocItemLabel.PICTURE or all(bounds(b).intersection_over_union(t) <= 0.8 for t in tables)
    ]
    page = SimpleNamespace(cells=[], size=Size(width=SIDE, height=SIDE), parsed_page=None)
    left, _ = LayoutPostprocessor(page, clusters, LayoutOptions(skip_cell_assignment=True)).postprocess()
    return {
        "found": [[label.value, score, *b] for label, score, b in found],
        "left": [[c.label.value, c.confidence, c.bbox.l, c.bbox.t, c.bbox.r, c.bbox.b] for c in left],
    }


with open(sys.argv[1], "w") as file:
    pages = ",\n".join("  " + json.dumps(make(seed), separators=(",", ":")) for seed in range(PAGES))
    file.write(f"[\n{pages}\n]\n")
