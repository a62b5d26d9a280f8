#!/usr/bin/env python3
"""How much of a rank's communication lies under its own computation, from a trace (run.trace = true):

    hidden_share.py out/trace.json [RANK]
"""

import json
import sys


def merged(spans):
    """Disjoint spans that cover the same times; an action holds those of its layers."""
    out = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def overlap(one, other):
    """Length that two lists of disjoint spans have in common."""
    total, j = 0.0, 0
    for begin, end in one:
        while j < len(other) and other[j][1] <= begin:
            j += 1
        k = j
        while k < len(other) and other[k][0] < end:
            total += min(end, other[k][1]) - max(begin, other[k][0])
            k += 1
    return total


def main():
    rank = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with open(sys.argv[1], encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    spans = {"compute": [], "comm": []}
    for event in events:
        if event["ph"] == "X" and event["pid"] == rank and event["cat"] in spans:
            spans[event["cat"]].append((event["ts"], event["ts"] + event["dur"]))
    under_way, compute = merged(spans["comm"]), merged(spans["compute"])
    seconds = sum(end - begin for begin, end in under_way) / 1e6
    if seconds == 0:
        sys.exit(f"rank {rank} has no communication in {sys.argv[1]}")
    hidden = overlap(under_way, compute) / 1e6
    print(f"rank {rank}: {seconds:.3f} s under way, {100 * hidden / seconds:.0f} % hidden behind compute")


if __name__ == "__main__":
    main()
