#!/usr/bin/env python3
"""Trains every recipe of precision, or takes runs that exist; draws their held-out losses and compares them.

  scripts/loss_curves.py OUT.svg --train DIR [--program build/sextant] [--jobs N] [--prefix "nice"]
  scripts/loss_curves.py OUT.svg NAME=out/a/metrics.jsonl NAME=out/b/metrics.jsonl ...

The first form trains the recipes of docs/precision.md with two seeds each into DIR/RECIPE-SEED (runs that are
complete there stay), prints a table of docs/precision.md and fails when a recipe is farther from fp32 than
allowed. --prefix puts words before each command. The second form draws the runs it is given.

Takes the eval_loss of the steps that have one, or the loss of every step where none has. Runs of one
name are averaged step by step, such as several seeds. The first name is what the others are compared
with.
"""
import argparse
import concurrent.futures
import json
import math
import os
import shlex
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COLORS = ["#1b1b1b", "#0b6fb8", "#d1495b", "#2a9d5c", "#e08e0b", "#7b4fb0", "#00868b",
          "#8c6d31", "#e377c2"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 60, 170, 30, 50
APART, CALM = 170, 0.25  # height of the part with differences; the share of the steps that is not in it
LAST = 20  # steps at the end whose mean is printed

# A GPT-2 of 3.3M parameters on the built-in corpus. The learning rate decays to zero, so the last steps
# differ by recipe more than by noise.
STEPS = 400
SETTINGS = f"""model.preset=gpt2-s model.layers=4 model.hidden=256 model.heads=4 model.seq=128 batch.micro=4
  batch.accumulation=1 optim.lr=1e-3 optim.warmup=40 optim.min_lr=0 train.steps={STEPS} train.eval_every=5
  train.eval_batches=4 run.threads=1""".split()
# Name, settings, and the farthest that its last loss may be from that of fp32, in percent.
RECIPES = [
    ("fp32", "compute=fp32", 0),
    ("bf16, 18 bytes", "compute=bf16", 0.5),
    ("bf16, 16 bytes", "compute=bf16 grads=bf16", 0.5),
    ("bf16, 12 bytes", "compute=bf16 grads=bf16 moments=bf16", 0.5),
    ("bf16, 8 bytes", "compute=bf16 grads=bf16 moments=bf16 master=none", 1.5),
    ("fp16", "compute=fp16", 0.5),
    ("fp8, tensor", "compute=fp8 fp8_recipe=tensor", 1.5),
    ("fp8, delayed", "compute=fp8 fp8_recipe=delayed", 1.5),
    ("fp8, block", "compute=fp8 fp8_recipe=block", 1.5),
]
SEEDS = (1, 2)


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
    height = HEIGHT + APART
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
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
    return "\n".join(out + draw_apart(curves, x) + ["</svg>", ""])


def draw_apart(curves, x):
    """Below: by how much each is above the first, in percent, after the steep beginning."""
    name, first = curves[0]
    base, last_step = dict(first), first[-1][0]
    lines = [[(step, 100 * (loss / base[step] - 1)) for step, loss in curve
              if step in base and step >= CALM * last_step] for _, curve in curves]
    most = max(abs(value) for line in lines for _, value in line) or 1
    middle, half = HEIGHT + 10 + APART / 2, APART / 2 - 10
    y = lambda value: middle - half * value / most
    out = [f'<text x="{LEFT}" y="{HEIGHT + 8}">percent above {name}</text>']
    tick = 10 ** math.floor(math.log10(most))
    for level in (-tick, 0, tick):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(level):.1f}" y2="{y(level):.1f}" '
                   'stroke="#dddddd"/>'
                   f'<text x="{LEFT - 8}" y="{y(level) + 4:.1f}" text-anchor="end">{f"{level:+g}" if level else 0}</text>')
    for i, line in enumerate(lines):
        points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in line)
        out.append(f'<polyline points="{points}" fill="none" stroke="{COLORS[i % len(COLORS)]}" '
                   'stroke-width="1.4"/>')
    return out


def metrics_path(directory, recipe, seed):
    name = recipe.replace(" bytes", "").replace(", ", "-")
    return os.path.join(directory, f"{name}-{seed}", "metrics.jsonl")


def is_complete(path):
    return os.path.exists(path) and max(read(path), default=0) == STEPS


def train(arguments, recipe, settings, seed):
    path = metrics_path(arguments.train, recipe, seed)
    if is_complete(path):
        return
    chosen = SETTINGS + [f"precision.{setting}" for setting in settings.split()]
    chosen += [f"train.seed={seed}", f"run.out={os.path.dirname(path)}"]
    command = shlex.split(arguments.prefix) + [arguments.program, "train", "-q"]
    subprocess.run(command + [f"--{setting}" for setting in chosen], check=True)
    print(f"{recipe}, seed {seed}: {last_mean(sorted(read(path).items())):.4f}", file=sys.stderr, flush=True)


def train_all(arguments):
    """Runs by name, and whether every recipe is as near to fp32 as it must be."""
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = [pool.submit(train, arguments, recipe, settings, seed)  # the slowest first
                for recipe, settings, _ in reversed(RECIPES) for seed in SEEDS]
        for job in jobs:
            job.result()
    runs = {recipe: [read(metrics_path(arguments.train, recipe, seed)) for seed in SEEDS]
            for recipe, _, _ in RECIPES}
    last = {name: [last_mean(sorted(run.items())) for run in group] for name, group in runs.items()}
    mean = {name: sum(values) / len(values) for name, values in last.items()}
    apart = lambda value, other: 100 * (value / other - 1)
    seeds = "".join(f" seed {seed} |" for seed in SEEDS)
    print(f"| recipe | held-out loss | against fp32 | allowed |{seeds}\n|{'---|' * (4 + len(SEEDS))}")
    near = True
    for name, _, allowed in RECIPES:
        if name == "fp32":
            cells = ["", ""] + [f"{value:.4f}" for value in last[name]]
        else:
            cells = [f"{apart(mean[name], mean['fp32']):+.2f} %", f"{allowed} %"]
            cells += [f"{apart(value, base):+.2f} %" for value, base in zip(last[name], last["fp32"])]
            near = near and abs(apart(mean[name], mean["fp32"])) <= allowed
        print("| " + " | ".join([name, f"{mean[name]:.4f}"] + cells) + " |")
    return runs, near


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT.svg")
    parser.add_argument("runs", nargs="*", metavar="NAME=METRICS")
    parser.add_argument("--train", metavar="DIR")
    parser.add_argument("--program", default=os.path.join(ROOT, "build", "sextant"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at once, of one thread each")
    parser.add_argument("--prefix", default="", help="words before each command")
    arguments = parser.parse_args()
    if bool(arguments.runs) == bool(arguments.train) or any("=" not in pair for pair in arguments.runs):
        parser.error("takes either --train DIR or NAME=METRICS")
    near = True
    if arguments.train:
        runs, near = train_all(arguments)
    else:
        runs = {}
        for pair in arguments.runs:
            name, path = pair.split("=", 1)
            runs.setdefault(name, []).append(read(path))
    curves = [(name, mean_of(group)) for name, group in runs.items()]
    if arguments.runs:
        first = last_mean(curves[0][1])
        for name, curve in curves:
            print(f"{name:12} {last_mean(curve):.4f}  {100 * (last_mean(curve) / first - 1):+.2f} %")
    with open(arguments.out, "w") as file:
        file.write(draw(curves))
    sys.exit(0 if near else "a recipe is farther from fp32 than allowed")


if __name__ == "__main__":
    main()
