#!/usr/bin/env python3
"""Lifetimes of tensors, broken one at a time in a copy of the sources: the tests that count memory
by hand, or by a published formula, must notice each. Phantom and run share the layers, so that
comparing them cannot.

    scripts/lifetimes.py [cmake options]

Exit 1 if a change goes unnoticed, 2 if one no longer fits the sources."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = "PhantomLayerMemory*:PhantomMemory*:PhantomPipelineMemory*:PublishedMemory*"

# What lives too long, in which file, and the change that makes it so.
CHANGES = [
    ("the gradient of the product in an MLP", "src/model/mlp.cpp",
     "    swiglu_backward(stream, saved[Slot::Wide], dactive, saved[Slot::Wide]);\n",
     "    swiglu_backward(stream, saved[Slot::Wide], dactive, saved[Slot::Wide]);\n"
     "    branch_dy = dactive;\n"),
    ("the gradient of the product in experts", "src/model/experts.cpp",
     "    swiglu_backward(stream, saved[Slot::Wide], dactive, saved[Slot::Wide]);\n",
     "    swiglu_backward(stream, saved[Slot::Wide], dactive, saved[Slot::Wide]);\n"
     "    shared = dactive;\n"),
    ("the gradient of values in latent attention", "src/model/latent_attention.cpp",
     "  Tensor dattended;\n  {\n    const Tensor dvalues",
     "  Tensor dattended, dvalues;\n  {\n    dvalues"),
    ("the input of head norm", "src/model/attention.cpp",
     "    saved[Slot::RawQkv] = saved[Slot::HeadInverse] = Tensor();\n", ""),
    ("the quantised attention output", "src/model/attention.cpp",
     "  if (is_same && parts_.out.fp8 != nullptr) attended = Tensor();\n", "  (void)is_same;\n"),
    ("the input of a norm", "src/model/norm.cpp",
     "  saved.x = saved.mean = saved.inverse = Tensor();\n",
     "  saved.mean = saved.inverse = Tensor();\n"),
    ("the bucket of a reduced group", "src/parallel/sharded_params.cpp",
     "      group.shard_reduction.wait();\n      group.bucket = Tensor();\n",
     "      group.shard_reduction.wait();\n"),
    ("gathered weights", "src/parallel/sharded_params.cpp",
     "    case StateStep::FreeWeights:\n      return free_gathered(group);\n",
     "    case StateStep::FreeWeights:\n      return;\n"),
    ("a micro-batch", "src/executor/executor.cpp", "  micros_[micro].reset();\n", ""),
]


def change(text, file, old, new):
    if text.count(old) != 1:
        sys.exit(f"lifetimes: {file} has {text.count(old)} places like {old.strip()!r}, not one")
    return text.replace(old, new)


def run(copy, options):
    build = subprocess.run(["scripts/build.sh", "cpu", "-DSXT_UNITY=ON", *options], cwd=copy,
                           env={**os.environ, "SXT_TARGET": "train_test"},
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if build.returncode != 0:
        sys.exit(build.stdout[-3000:])
    tests = subprocess.run(["build/train_test", f"--gtest_filter={TESTS}", "--gtest_brief=1"],
                           cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return [line.split("]")[1].split()[0] for line in tests.stdout.splitlines()
            if line.startswith("[  FAILED  ]") and "ms)" in line], tests.returncode


def main():
    for _, file, old, new in CHANGES:
        change((ROOT / file).read_text(), file, old, new)
    with tempfile.TemporaryDirectory(prefix="sextant-lifetimes-") as directory:
        copy = pathlib.Path(directory) / "sextant"
        names = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT,
                               stdout=subprocess.PIPE, check=True).stdout.decode()
        for name in filter(None, names.split("\0")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
        failed, code = run(copy, sys.argv[1:])
        if code != 0:
            sys.exit(f"without a change: {failed}")
        unnoticed = 0
        for what, file, old, new in CHANGES:
            text = (ROOT / file).read_text()
            (copy / file).write_text(change(text, file, old, new))
            failed, _ = run(copy, sys.argv[1:])
            (copy / file).write_text(text)
            unnoticed += not failed
            verdict = "noticed  " if failed else "UNNOTICED"
            print(f"{verdict}  {what}: {', '.join(failed[:3])}", flush=True)
    print(f"{len(CHANGES)} lifetimes, {unnoticed} unnoticed")
    sys.exit(1 if unnoticed else 0)


if __name__ == "__main__":
    main()
