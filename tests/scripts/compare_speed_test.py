#!/usr/bin/env python3
"""scripts/compare_speed.py with programs that print times of their own instead of measuring any."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/compare_speed.py"

# Prints the next of its answers each time, so that every round has one.
PROGRAM = """#!{python}
import json, pathlib, sys
state = pathlib.Path(__file__ + ".round")
number = int(state.read_text()) if state.exists() else 0
state.write_text(str(number + 1))
with open({log!r}, "a") as log:
    log.write({name!r} + " " + " ".join(sys.argv[1:]) + "\\n")
print(json.dumps({{"rows": {answers!r}[number]}}))
"""


class CompareSpeed(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = pathlib.Path(place.name)
        self.log = self.place / "log"

    def program(self, name, *answers):
        path = self.place / name
        path.write_text(PROGRAM.format(python=sys.executable, log=str(self.log), name=name,
                                       answers=list(answers)))
        path.chmod(0o755)
        return path

    def run_script(self, *arguments):
        done = subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True,
                              text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def compare(self, old, new, *options):
        """Rows of each round; the numbers printed of each."""
        programs = self.program("old", *old), self.program("new", *new)
        code, out, err = self.run_script(*programs, f"--rounds={len(old)}", *options, "--", "step")
        self.assertEqual(err, "")
        return code, {line.split()[0]: line.split()[1:] for line in out.splitlines()[1:-1]}

    @staticmethod
    def rates(*values):
        return [[{"name": "matmul", "value": value, "unit": "GFLOP/s"}] for value in values]

    @staticmethod
    def times(*values):
        return [[{"name": "send", "value": 0, "unit": "GB/s", "seconds": value}] for value in values]

    def test_a_lower_rate_is_slower(self):
        code, rows = self.compare(self.rates(100, 100, 100), self.rates(90, 90, 90))
        self.assertEqual(code, 1)
        self.assertEqual(rows["matmul"][2:], ["1.111", "1.111", "slower"])

    def test_a_longer_time_is_slower(self):
        code, rows = self.compare(self.times(0.010, 0.011), self.times(0.011, 0.0121))
        self.assertEqual((code, rows["send"]), (1, ["10", "11", "1.100", "1.100", "slower"]))

    def test_best_and_median_must_both_be_slower(self):
        # One lucky round of the old program; one bad round of the new one.
        code, rows = self.compare(self.times(0.008, 0.010, 0.010), self.times(0.010, 0.010, 0.013))
        self.assertEqual((code, rows["send"][2:]), (1, ["1.250", "1.250", "slower"]))
        for name in "old", "new":
            (self.place / f"{name}.round").unlink()
        code, rows = self.compare(self.times(0.008, 0.010, 0.010), self.times(0.010, 0.010, 0.010))
        self.assertEqual((code, rows["send"][2:]), (0, ["1.250", "1.000"]))

    def test_the_limit_can_be_another(self):
        self.assertEqual(self.compare(self.times(1), self.times(1.05), "--limit=6")[0], 0)

    def test_who_begins_changes_and_both_get_the_arguments(self):
        self.compare(self.times(1, 1, 1), self.times(1, 1, 1))
        calls = self.log.read_text().splitlines()
        self.assertEqual([call.split()[0] for call in calls], ["old", "new", "new", "old", "old", "new"])
        self.assertEqual({call.split(" ", 1)[1] for call in calls}, {"bench step --json"})

    def test_rows_of_one_program_alone_are_left_out(self):
        code, rows = self.compare([self.times(1)[0] + self.rates(1)[0]], self.times(1))
        self.assertEqual((code, list(rows)), (0, ["send"]))
        for name in "old", "new":
            (self.place / f"{name}.round").unlink()
        code, _, err = self.run_script(self.program("old", self.times(1)[0]),
                                       self.program("new", self.rates(1)[0]), "--rounds=1", "step")
        self.assertEqual((code, err), (1, "error: the two programs have no row in common\n"))

    def test_a_failing_program_ends_the_comparison(self):
        failing = self.place / "failing"
        failing.write_text("#!/bin/sh\necho 'error: no' >&2\nexit 3\n")
        failing.chmod(0o755)
        code, _, err = self.run_script(failing, self.program("new", []), "step")
        self.assertEqual((code, err), (1, f"error: {failing}: error: no\n"))


if __name__ == "__main__":
    unittest.main()
