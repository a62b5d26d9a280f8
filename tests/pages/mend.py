"""Outputs of a page as they are now, as much of them as the page showed."""

import difflib

import compare


def likeness(shown, printed):
    if shown == printed:
        return 1.0
    return difflib.SequenceMatcher(None, shown, printed, autojunk=False).ratio()


def pairs_of(shown, printed, command):
    """For each shown line the printed one that it stands for, or None, in order."""
    least = 0.6
    one = [compare.normal(line, command) for line in shown]
    two = [compare.normal(line, command) for line in printed]
    best = [[0.0] * (len(two) + 1) for _ in range(len(one) + 1)]
    like = [[likeness(a, b) if a != compare.ANY else 0.0 for b in two] for a in one]
    for i in range(len(one) - 1, -1, -1):
        for j in range(len(two) - 1, -1, -1):
            taken = like[i][j] + best[i + 1][j + 1] if like[i][j] >= least else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], taken)
    out, i, j = [None] * len(one), 0, 0
    while i < len(one) and j < len(two):
        if like[i][j] >= least and best[i][j] == like[i][j] + best[i + 1][j + 1]:
            out[i] = j
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return out


def mended(shown, printed, command):
    """`printed`, abbreviated as `shown` is; lines that differ only by machine numbers are kept."""
    is_short = compare.ANY in shown or 2 * len(shown) < len(printed)
    pairs = pairs_of(shown, printed, command)
    kept = {j: shown[i] for i, j in enumerate(pairs)
            if j is not None and compare.line_matches(compare.normal(shown[i], command),
                                                      compare.normal(printed[j], command))}
    if not is_short:
        return [kept.get(j, line) for j, line in enumerate(printed)]
    out, last = [], -1
    for j in [j for j in pairs if j is not None] + [len(printed)]:
        if j > last + 1:
            out.append(compare.ANY)
        if j < len(printed):
            out.append(kept.get(j, printed[j]))
        last = j
    return out
