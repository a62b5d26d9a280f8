#!/usr/bin/env python3
"""bench/gpu_kernels.py on a capture that is written here."""
import gzip
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench/gpu_kernels.py"
HEAD = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'


def capture(*kernels):
    lines = ["==PROF== text of the profiler\n", HEAD]
    for number, (name, value, unit) in enumerate(kernels):
        lines.append(f'"{number}","{name}","gpu__time_duration.sum","{unit}","{value}"\n')
    return "".join(lines)


class GpuKernels(unittest.TestCase):
    def run_script(self, text, name="step.csv"):
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / name
            path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
            done = subprocess.run([sys.executable, SCRIPT, path], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def test_sums_the_kernels_after_the_update_before_the_last(self):
        product = ("void cuda::<unnamed>::product<sextant::bf16>(T1 *, long)", "1,500", "us")
        update = ("sextant::cuda::<unnamed>::adamw_kernel(int)", "500000", "ns")
        warm_up = [("warm_up(int)", "9", "s")]
        text = capture(*warm_up, update, *[product] * 60, update, update)
        for name in ("step.csv", "step.csv.gz"):
            code, out, _ = self.run_script(text, name)
            self.assertEqual(code, 0)
            lines = [line.split() for line in out.splitlines()]
            self.assertEqual(" ".join(lines[0]), "62 kernels, 91.00 ms")
            self.assertEqual(" ".join(lines[1]), "90.000 ms 98.9% x 60 1500.0 us product<bf16>")
            self.assertEqual(" ".join(lines[2]), "1.000 ms 1.1% x 2 500.0 us adamw_kernel")

    def test_refuses_a_capture_without_a_whole_step(self):
        code, _, errors = self.run_script(capture(("adamw_kernel(int)", "1", "us")))
        self.assertEqual(code, 1)
        self.assertIn("1 updates of the optimizer, two are needed", errors)


if __name__ == "__main__":
    unittest.main()
