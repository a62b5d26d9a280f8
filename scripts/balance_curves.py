#!/usr/bin/env python3
"""Draws how runs with experts are balanced, from their metrics.jsonl.

  scripts/balance_curves.py OUT.svg NAME=out/a/metrics.jsonl NAME=out/b/metrics.jsonl ...

Above, the largest load of an expert over the mean, in the layer where it is largest, step by step;
below, for each run, the load of every expert of the layer that starts worst. Prints for each run the
first value, the last one, and the first step from which on it stays at most 1.5.
"""
import json
import sys

COLORS = ["#1b1b1b", "#0b6fb8", "#d1495b", "#2a9d5c", "#e08e0b", "#7b4fb0"]
WIDTH, LEFT, RIGHT, TOP, CURVES, GAP, ROW = 760, 60, 170, 30, 260, 34, 9
COLUMNS = 60  # of the loads, at most
BALANCED = 1.5


def read(path):
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    return [(row["step"], row["imbalance"], row["expert_tokens"]) for row in rows]


def settled(run):
    """The first step from which on the imbalance stays low, or None."""
    first = None
    for step, value, _ in run:
        if value > BALANCED:
            first = None
        elif first is None:
            first = step
    return first


def worst_layer(run):
    loads = run[0][2]
    return max(range(len(loads)), key=lambda layer: max(loads[layer]))


def color_of(share):
    """White for no tokens, blue for the mean, red for four times the mean and more."""
    ends = ((255, 255, 255), (74, 134, 200)) if share <= 1 else ((74, 134, 200), (190, 30, 45))
    part = min(1, share if share <= 1 else (share - 1) / 3)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(*ends))


def draw(runs):
    last = max(run[-1][0] for _, run in runs)
    high = max(value for _, run in runs for _, value, _ in run)
    right = WIDTH - RIGHT
    x = lambda step: LEFT + (right - LEFT) * (step - 1) / max(1, last - 1)
    y = lambda value: TOP + CURVES * (high - value) / (high - 1)
    experts = len(runs[0][1][0][2][0])
    height = TOP + CURVES + 40 + len(runs) * (experts * ROW + GAP) + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    levels = [1, BALANCED] + list(range(2, int(high) + 1))
    for level in levels:
        look = 'stroke="#1a7f4b" stroke-dasharray="4 3"' if level == BALANCED else 'stroke="#dddddd"'
        out.append(f'<line x1="{LEFT}" x2="{right}" y1="{y(level):.1f}" y2="{y(level):.1f}" {look}/>'
                   f'<text x="{LEFT - 8}" y="{y(level) + 4:.1f}" text-anchor="end">{level:g}</text>')
    out.append(f'<text x="{LEFT}" y="18">largest load of an expert over the mean, by step</text>')
    for i in range(5):
        step = max(1, round(last * i / 4))
        out.append(f'<text x="{x(step):.1f}" y="{TOP + CURVES + 18}" text-anchor="middle">{step}</text>')
    for i, (name, run) in enumerate(runs):
        color = COLORS[i % len(COLORS)]
        points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value, _ in run)
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.4"/>')
        at = TOP + 16 + 20 * i
        out.append(f'<line x1="{right + 12}" x2="{right + 34}" y1="{at}" y2="{at}" stroke="{color}" '
                   f'stroke-width="2"/><text x="{right + 40}" y="{at + 4}">{name}</text>')
    top = TOP + CURVES + 40
    width = (right - LEFT) / last
    each = -(-last // COLUMNS)  # steps drawn as one
    for name, run in runs:
        layer = worst_layer(run)
        out.append(f'<text x="{LEFT}" y="{top + 12}">{name}: tokens of each expert, layer {layer} (from 0) of those '
                   'with experts</text>')
        for first in range(0, len(run), each):
            steps = [loads[layer] for _, _, loads in run[first:first + each]]
            mean = sum(map(sum, steps)) / experts
            for expert, tokens in enumerate(map(sum, zip(*steps))):
                out.append(f'<rect x="{LEFT + first * width:.1f}" y="{top + 18 + expert * ROW}" '
                           f'width="{len(steps) * width + 0.3:.1f}" height="{ROW}" '
                           f'fill="{color_of(tokens / mean)}"/>')
        out.append(f'<rect x="{LEFT}" y="{top + 18}" width="{right - LEFT}" height="{experts * ROW}" '
                   'fill="none" stroke="#8c959f"/>')
        top += experts * ROW + GAP
    for i, (share, text) in enumerate(((0, "no tokens"), (1, "the mean"), (4, "4 x the mean or more"))):
        at = TOP + CURVES + 64 + 18 * i
        out.append(f'<rect x="{right + 12}" y="{at}" width="12" height="12" fill="{color_of(share)}" '
                   f'stroke="#8c959f"/><text x="{right + 30}" y="{at + 10}">{text}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    if len(sys.argv) < 3 or any("=" not in word for word in sys.argv[2:]):
        sys.exit(__doc__)
    runs = [(name, read(path)) for name, path in (word.split("=", 1) for word in sys.argv[2:])]
    for name, run in runs:
        step = settled(run)
        print(f"{name}: {run[0][1]:.2f} at first, {run[-1][1]:.2f} at the end, "
              + (f"at most {BALANCED} from step {step} on" if step else f"not at most {BALANCED}"))
    with open(sys.argv[1], "w") as file:
        file.write(draw(runs))


if __name__ == "__main__":
    main()
