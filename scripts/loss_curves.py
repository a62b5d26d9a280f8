#!/usr/bin/env python3
"""Draws the loss curves of runs from their metrics.jsonl, and prints the mean of their last values.

  scripts/loss_curves.py OUT.svg NAME=out/a/metrics.jsonl NAME=out/b/metrics.jsonl ...

Takes the eval_loss of the steps that have one, or the loss of every step where none has. Runs of one
name are averaged step by step, such as several seeds. The first name is what the others are compared
with.
"""
import json
import math
import sys

COLORS = ["#1b1b1b", "#0b6fb8", "#d1495b", "#2a9d5c", "#e08e0b", "#7b4fb0", "#00868b",
          "#8c6d31", "#e377c2"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 60, 170, 30, 50
LAST = 20  # steps at the end whose mean is printed


def read(path):
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    held_out = {row["step"]: row["eval_loss"] for row in rows if "eval_loss" in row}
    return held_out or {row["step"]: row["loss"] for row in rows}


def mean_of(runs):
    steps = sorted(set.intersection(*(set(run) for run in runs)))
    return [(step, sum(run[step] for run in runs) / len(runs)) for step in steps]


def last_mean(curve):
    values = [loss for step, loss in curve if step > curve[-1][0] - LAST]
    return sum(values) / len(values)


def draw(curves):
    last_step = max(curve[-1][0] for _, curve in curves)
    low = min(min(loss for _, loss in curve) for _, curve in curves)
    high = max(curve[0][1] for _, curve in curves)
    x = lambda step: LEFT + (WIDTH - LEFT - RIGHT) * step / last_step
    y = lambda loss: TOP + (HEIGHT - TOP - BOTTOM) * (high - loss) / (high - low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    tick = 10 ** math.floor(math.log10((high - low) / 2))
    level = math.ceil(low / tick) * tick
    while level <= high:
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(level):.1f}" y2="{y(level):.1f}" '
                   'stroke="#dddddd"/>'
                   f'<text x="{LEFT - 8}" y="{y(level) + 4:.1f}" text-anchor="end">{level:g}</text>')
        level = round(level + tick, 9)
    for i in range(5):
        step = round(last_step * i / 4)
        out.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">step</text>'
               f'<text x="16" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
               f'transform="rotate(-90 16 {(TOP + HEIGHT - BOTTOM) / 2})">held-out loss</text>')
    for i, (name, curve) in enumerate(curves):
        color = COLORS[i % len(COLORS)]
        points = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in curve)
        out.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.4"/>')
        at = TOP + 14 + 20 * i
        out.append(f'<line x1="{WIDTH - RIGHT + 14}" x2="{WIDTH - RIGHT + 36}" y1="{at - 4}" y2="{at - 4}" '
                   f'stroke="{color}" stroke-width="2.5"/>'
                   f'<text x="{WIDTH - RIGHT + 42}" y="{at}">{name}  {last_mean(curve):.3f}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    if len(sys.argv) < 3 or any("=" not in pair for pair in sys.argv[2:]):
        sys.exit(__doc__)
    runs = {}
    for pair in sys.argv[2:]:
        name, path = pair.split("=", 1)
        runs.setdefault(name, []).append(read(path))
    curves = [(name, mean_of(group)) for name, group in runs.items()]
    first = last_mean(curves[0][1])
    for name, curve in curves:
        print(f"{name:12} {last_mean(curve):.4f}  {100 * (last_mean(curve) / first - 1):+.2f} %")
    with open(sys.argv[1], "w") as file:
        file.write(draw(curves))


if __name__ == "__main__":
    main()
