#!/usr/bin/env python3
"""Where the time of one training step on a GPU goes: each kernel's share, from a capture by Nsight Compute.

  ncu --clock-control none --metrics gpu__time_duration.sum --csv --log-file step.csv \\
      build/sextant bench step --device cuda --preset gpt2-124m --batch 64 --seq 1024 --steps 1 --run.graphs=false
  bench/gpu_kernels.py step.csv

The step is what lies between the last two updates of the optimizer. Each kernel runs alone and is measured
alone: clocks are higher than in training, and what would overlap does not, so shares count, not sums.
"""
import argparse
import collections
import csv
import gzip
import re
import sys

MICROSECONDS = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
UPDATE = "adamw"  # in the names of the optimizer's kernels
NEAR = 50  # kernels of one update are no further apart


def read_kernels(path):
    """(name, microseconds) of each kernel, in order."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        lines = [line for line in file if line.startswith('"')]
    kernels = []
    for row in csv.DictReader(lines):
        if row["Metric Name"] != "gpu__time_duration.sum":
            continue
        kernels.append((row["Kernel Name"], float(row["Metric Value"].replace(",", "")) * MICROSECONDS[row["Metric Unit"]]))
    return kernels


def last_step(kernels):
    updates = [i for i, (name, _) in enumerate(kernels) if UPDATE in name.lower()]
    ends = [at for at, after in zip(updates, updates[1:] + [None]) if after is None or after - at > NEAR]
    if len(ends) < 2:
        sys.exit(f"gpu_kernels.py: {len(ends)} updates of the optimizer, two are needed")
    return kernels[ends[-2] + 1 : ends[-1] + 1]


def short_name(name):
    name = name.replace("sextant::", "").replace("<unnamed>::", "").replace("(anonymous namespace)::", "")
    return re.sub(r"\(.*", "", name).removeprefix("void ").removeprefix("cuda::")[:90]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("capture", metavar="FILE", help="CSV of ncu, also compressed as .gz")
    step = last_step(read_kernels(parser.parse_args().capture))
    total = sum(us for _, us in step)
    classes = collections.defaultdict(list)
    for name, us in step:
        classes[short_name(name)].append(us)
    print(f"{len(step)} kernels, {total / 1e3:.2f} ms")
    for name, times in sorted(classes.items(), key=lambda entry: -sum(entry[1])):
        own = sum(times)
        print(f"{own / 1e3:9.3f} ms {100 * own / total:5.1f}% x{len(times):4d} {own / len(times):9.1f} us  {name}")


if __name__ == "__main__":
    main()
