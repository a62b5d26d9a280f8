"""Whether a program's output is the one that a page shows."""

import re

NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
# Rates, times and sizes of the machine: any number is as good as another.
MACHINE = [(re.compile(pattern), replacement) for pattern, replacement in [
    (rf"{NUMBER}k? tok(ens)?/s", "# tok/s"),
    (rf"{NUMBER} (of {NUMBER} )?([GT])FLOP/s", r"# \2FLOP/s"),
    (rf"mfu {NUMBER}%", "mfu #%"),
    (rf"{NUMBER} ([GM])B/s", r"# \1B/s"),
    (rf"(?<![\w.]){NUMBER} (ms|us|µs|ns|s|min)\b", "# s"),
    (rf" of {NUMBER} [KMGT]iB$", " of # GiB"),
    (r"\d+ threads? each", "# threads each"),
    (rf"{NUMBER} page faults", "# page faults"),  # other processes can take pages away
    (rf'"(\w*(?:_s|_per_s|seconds|tflops|mfu|outside))":(?:{NUMBER}|null)', r'"\1":#'),
]]
MACHINE.append((re.compile(r"^built with .*"), "built with #"))
# Of doctor only which checks there are, and that they are well.
CHECK = re.compile(r"^(ok|warning|problem) +(\w[\w ]*?)  .*")
# What these print does not depend on the machine, but for the time that they took.
COMPUTED = re.compile(r"(?:build/)?sextant (?:plan|simulate) ")
ELAPSED = [(re.compile(rf", {NUMBER} s$"), ", # s"),
           (re.compile(rf'"seconds":{NUMBER}'), '"seconds":#')]
ANY = "…"


def normal(line, command):
    """A line with machine numbers and widths of columns taken out."""
    for pattern, replacement in ELAPSED if COMPUTED.match(command) else MACHINE:
        line = pattern.sub(replacement, line)
    if command.startswith("sextant doctor"):
        line = CHECK.sub(r"\1 \2", line)
    return re.sub(r"[ \t]+", " ", line).rstrip()


def line_matches(shown, printed):
    """Both normal; `…` stands for any text."""
    if ANY not in shown:
        return shown == printed
    return re.fullmatch(".*".join(re.escape(part) for part in shown.split(ANY)), printed) is not None


def first_difference(shown, printed, command):
    """None if the lines match, else (index in shown, index in printed) of the furthest pair."""
    shown = [normal(line, command) for line in shown]
    printed = [normal(line, command) for line in printed]
    furthest = (0, 0)
    # reachable: lines of `printed` that may have been read when shown[i] comes.
    reachable = {0}
    for i, line in enumerate(shown):
        if line == ANY:
            reachable = set(range(min(reachable), len(printed) + 1))
            continue
        following = {j + 1 for j in reachable if j < len(printed) and line_matches(line, printed[j])}
        if not following:
            return (i, min(reachable))
        reachable = following
        furthest = (i + 1, min(reachable))
    if len(printed) in reachable:
        return None
    return (furthest[0], max(reachable))
