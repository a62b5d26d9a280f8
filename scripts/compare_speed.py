#!/usr/bin/env python3
"""Whether one build of sextant is slower than another: the same benchmark, in turn, round by round.

  scripts/compare_speed.py OLD NEW -- step --preset=gpt2-s --steps=5
  scripts/compare_speed.py OLD NEW --rounds 7 -- collectives --ranks=2 --sizes=64KiB,16MiB --peer=none

OLD and NEW are programs (build/sextant of two checkouts); what follows -- goes to `sextant bench`. Who
begins changes from round to round, so that a machine that slows down harms both alike. Of each row
two ratios of the new time over the old one are printed: `best` compares the shortest times of all
rounds, `median` is the middle one of the ratios of each round. A row is slower if both are beyond
--limit; one alone is noise as a rule. Exit code 1 if a row is slower.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

# Rows of other units (GB/s, GFLOP/s, tok/s) are rates.
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


def seconds_of(row):
    """What a row took. A rate becomes the time of one unit of work, which serves a ratio."""
    for key in "seconds", "step_s":
        if row.get(key):
            return row[key]
    if not row["value"] > 0:
        sys.exit(f"error: {row['name']}: value {row['value']} {row['unit']} has no time")
    return row["value"] * SECONDS[row["unit"]] if row["unit"] in SECONDS else 1 / row["value"]


def measure(program, bench):
    """Name of each row -> its time."""
    done = subprocess.run([program, "bench", *bench, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        sys.exit(f"error: {program}: {lines[-1]}")
    return {row["name"]: seconds_of(row) for row in json.loads(done.stdout)["rows"]}


def compare(rounds):
    """Name, old and new seconds, best and median ratio of each row that both programs have."""
    first_old, first_new = rounds[0]
    for name in first_old:
        if name not in first_new:
            continue
        old = [round_old[name] for round_old, _ in rounds]
        new = [round_new[name] for _, round_new in rounds]
        ratios = [after / before for before, after in zip(old, new)]
        yield name, min(old), min(new), min(new) / min(old), statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", metavar="OLD")
    parser.add_argument("new", metavar="NEW")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default 5")
    parser.add_argument("--limit", type=float, default=3, metavar="PERCENT",
                        help="what counts as slower (default 3)")
    parser.add_argument("bench", nargs="+", metavar="BENCH", help="arguments of `sextant bench`")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    programs = [args.old, args.new]
    for program in programs:
        if not pathlib.Path(program).is_file():
            parser.error(f"no program {program}")
    rounds = []
    for number in range(args.rounds):
        times = {}
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            times[which] = measure(programs[which], args.bench)
        rounds.append((times[0], times[1]))
    rows = list(compare(rounds))
    if not rows:
        sys.exit("error: the two programs have no row in common")
    width = max(len(name) for name, *_ in rows)
    print(f"{'':{width}}  {'old ms':>10} {'new ms':>10} {'best':>6} {'median':>6}")
    slower = []
    for name, old, new, best, median in rows:
        is_slower = min(best, median) > 1 + args.limit / 100
        if is_slower:
            slower.append(name)
        mark = "  slower" if is_slower else ""
        print(f"{name:{width}}  {1e3 * old:10.4g} {1e3 * new:10.4g} {best:6.3f} {median:6.3f}{mark}")
    print(f"{len(slower)} of {len(rows)} rows are more than {args.limit:g} % slower, {args.rounds} rounds")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
