#!/usr/bin/env python3
"""Kinds of damage to the checkpoints of a run: each is found and named, the whole checkpoints are
listed, nothing is lost, and the run goes on from a whole one only when told.

    tests/damage/damage_test.py build/sextant"""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
SETTINGS = """model.family=gpt2 model.layers=1 model.hidden=16 model.heads=2 model.ffn=32 model.vocab=256
model.seq=8 batch.micro=1 batch.global=1 optim.name=adamw train.eval_every=0 run.threads=1
checkpoint.every=4 checkpoint.keep=3 checkpoint.dir=saved run.out=out""".split()
NEWEST, OLDER = "step-00000012", ["step-00000004", "step-00000008"]
WEIGHTS, OPTIM, MANIFEST = "weights-00000.safetensors", "optim-00000.safetensors", "manifest.json"


def sextant(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120)


def train(steps, *arguments):
    return sextant("train", "-q", *[f"--{s}" for s in SETTINGS], f"--train.steps={steps}", *arguments)


def path(name, step=NEWEST):
    return os.path.join("saved", step, name)


def change(name, f):
    with open(path(name), "rb") as file:
        data = file.read()
    with open(path(name), "wb") as file:
        file.write(f(data))


def flip(data, at):
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


def edit_manifest(f):
    with open(path(MANIFEST)) as file:
        document = json.load(file)
    f(document)
    with open(path(MANIFEST), "w") as file:
        json.dump(document, file)


def write_latest(text):
    with open("saved/latest", "w") as file:
        file.write(text)


def replace_by_directory(name):
    os.remove(path(name))
    os.mkdir(path(name))


def replace_by_link(name):
    os.remove(path(name))
    os.symlink("nowhere", path(name))


def swap_files():
    os.rename(path(WEIGHTS), path("other"))
    os.rename(path(OPTIM), path(WEIGHTS))
    os.rename(path("other"), path(OPTIM))


def tensors_of(document):
    """The list of tensors wherever the manifest keeps it."""
    return next(v for v in document.values() if isinstance(v, list) and v and "name" in v[0])


# What is done to the newest checkpoint, or to `latest`, and what the error says of it. The other
# checkpoints stay whole.
DAMAGE = {
    "weights one byte short": (
        lambda: change(WEIGHTS, lambda d: d[:-1]),
        WEIGHTS + ": 27303 bytes, the manifest says 27304"),
    "weights cut in half": (
        lambda: change(WEIGHTS, lambda d: d[:len(d) // 2]),
        WEIGHTS + ": 13652 bytes, the manifest says 27304"),
    "weights empty": (
        lambda: change(WEIGHTS, lambda d: b""),
        WEIGHTS + ": 0 bytes, the manifest says 27304"),
    "weights one byte longer": (
        lambda: change(WEIGHTS, lambda d: d + b"\0"),
        WEIGHTS + ": 27305 bytes, the manifest says 27304"),
    "weights zeroed": (lambda: change(WEIGHTS, lambda d: bytes(len(d))), WEIGHTS + ": damaged"),
    "one bit of a weight": (lambda: change(WEIGHTS, lambda d: flip(d, -1)), WEIGHTS + ": damaged"),
    "one bit in the middle of the weights": (
        lambda: change(WEIGHTS, lambda d: flip(d, len(d) // 2)),
        WEIGHTS + ": damaged"),
    "one bit of the header's length": (
        lambda: change(WEIGHTS, lambda d: flip(d, 0)),
        WEIGHTS + ": damaged"),
    "one bit of the header": (
        lambda: change(WEIGHTS, lambda d: flip(d, 20)),
        WEIGHTS + ": damaged"),
    "weights missing": (lambda: os.remove(path(WEIGHTS)), WEIGHTS + ": No such file or directory"),
    "weights a directory": (
        lambda: replace_by_directory(WEIGHTS),
        WEIGHTS + ": a directory"),
    "weights a dangling link": (
        lambda: replace_by_link(WEIGHTS),
        WEIGHTS + ": No such file or directory"),
    "weights of another step": (
        lambda: shutil.copy(path(WEIGHTS, OLDER[1]), path(WEIGHTS)),
        WEIGHTS + ": damaged"),
    "optimizer state missing": (
        lambda: os.remove(path(OPTIM)),
        OPTIM + ": No such file or directory"),
    "optimizer state cut": (
        lambda: change(OPTIM, lambda d: d[:100]),
        OPTIM + ": 100 bytes, the manifest says 55224"),
    "one bit of a moment": (lambda: change(OPTIM, lambda d: flip(d, -5)), OPTIM + ": damaged"),
    "weights and optimizer state swapped": (
        swap_files,
        WEIGHTS + ": 55224 bytes, the manifest says 27304"),
    "manifest missing": (
        lambda: os.remove(path(MANIFEST)),
        "saved/latest: names step-00000012, which has no manifest.json"),
    "manifest empty": (
        lambda: change(MANIFEST, lambda d: b""),
        MANIFEST + ": not valid JSON at byte 1"),
    "manifest cut": (
        lambda: change(MANIFEST, lambda d: d[:len(d) // 2]),
        MANIFEST + ": not valid JSON at byte"),
    "manifest no JSON": (
        lambda: change(MANIFEST, lambda d: b"\xff" + d[1:]),
        MANIFEST + ": not valid JSON at byte 1"),
    "manifest of another step": (
        lambda: shutil.copy(path(MANIFEST, OLDER[1]), path(MANIFEST)),
        "its manifest is of step 8"),
    "manifest with another format": (
        lambda: edit_manifest(lambda m: m.update(format="other")),
        MANIFEST + ": not the manifest of a checkpoint"),
    "manifest with a later version": (
        lambda: edit_manifest(lambda m: m.update(version=99)),
        MANIFEST + ': version "99" of the format'),
    "manifest without its step": (
        lambda: edit_manifest(lambda m: m.pop("step")),
        MANIFEST + ": step is missing"),
    "manifest without a tensor": (
        lambda: edit_manifest(lambda m: tensors_of(m).pop(0)),
        MANIFEST + ': tensor "embedding.tokens.weight"'),
    "checkpoint missing": (
        lambda: shutil.rmtree(os.path.join("saved", NEWEST)),
        "saved/latest: names step-00000012, which is not there"),
    "latest names nothing": (
        lambda: write_latest("step-00000099\n"),
        "saved/latest: names step-00000099, which is not there"),
    "latest empty": (lambda: write_latest(""), 'saved/latest: "" is not the name of a checkpoint'),
    "latest points outside": (
        lambda: write_latest("../out\n"),
        'saved/latest: "../out" is not the name of a checkpoint'),
    "latest is noise": (lambda: write_latest("\x00\x01\x02"), "is not the name of a checkpoint"),
}


def digests(steps):
    all_files = {}
    for step in steps:
        for folder, _, names in os.walk(os.path.join("saved", step)):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    all_files[os.path.join(folder, name)] = hash(file.read())
    return all_files


def check(name, problems):
    def expect(condition, text):
        if not condition:
            problems.append(f"{name}: {text}")

    random.seed(name)
    damage, text = DAMAGE[name]
    damage()
    before = digests(OLDER)
    refused = train(16, "--resume")
    lines = refused.stderr.strip().splitlines()
    expect(refused.returncode == 4, f"--resume exits {refused.returncode}: {refused.stderr[-300:]}")
    expect(lines and lines[-1].startswith("error: "), f"--resume says {refused.stderr[-300:]!r}")
    expect(text in lines[-1], f"--resume does not say {text!r}: {lines[-1]!r}")
    expect(all(step in refused.stderr for step in OLDER),
           f"--resume lists no whole checkpoints: {refused.stderr[-300:]!r}")
    expect(digests(OLDER) == before, "--resume changed a whole checkpoint")
    if not name.startswith("latest") and name != "checkpoint missing":
        checked = sextant("checkpoint", "verify", os.path.join("saved", NEWEST), "--json")
        expect(checked.returncode == 4, f"checkpoint verify exits {checked.returncode}")
    listed = sextant("checkpoint", "list", "saved", "--json")
    whole = [os.path.basename(one["path"])
             for one in json.loads(listed.stdout)["checkpoints"] if one["ok"]]
    expect(listed.returncode == 0, f"checkpoint list exits {listed.returncode}: {listed.stderr}")
    # The list compares sizes; `verify` reads the bytes.
    is_seen = "damaged" not in text and not name.startswith("latest")
    expect(whole == OLDER + [NEWEST] * (not is_seen), f"checkpoint list: {whole} whole")
    shutil.copytree("saved", "copy", symlinks=True)
    chosen = train(16, f"--resume={OLDER[1]}")
    expect(chosen.returncode == 0, f"--resume={OLDER[1]} exits {chosen.returncode}: {chosen.stderr[-300:]}")
    expect(os.path.exists("saved/step-00000016"), "a named checkpoint does not bring the run to its end")
    shutil.rmtree("saved")
    os.rename("copy", "saved")
    automatic = train(16, "--resume=auto")
    expect(automatic.returncode == 0, f"--resume=auto exits {automatic.returncode}: {automatic.stderr[-300:]}")
    whole = sextant("checkpoint", "verify", "saved/step-00000016", "--json")
    expect(whole.returncode == 0, "--resume=auto leaves no whole checkpoint of the last step")
    kept = [step for step in os.listdir("saved") if step.startswith("step-")]
    expect(sorted(kept) in ([OLDER[1], NEWEST, "step-00000016"],
                            [OLDER[1], NEWEST + "-r1", "step-00000016"]),
           f"checkpoint.keep=3 keeps {sorted(kept)}")


def main():
    problems = []
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        first = train(12)
        if first.returncode != 0:
            sys.exit(f"the run itself: {first.stderr}")
        for name in DAMAGE:
            shutil.copytree(directory, directory + "-case", symlinks=True)
            os.chdir(directory + "-case")
            try:
                check(name, problems)
            finally:
                os.chdir(directory)
                shutil.rmtree(directory + "-case")
        # Nothing whole: never afresh.
        for step in OLDER + [NEWEST]:
            os.remove(os.path.join("saved", step, WEIGHTS))
        lost = train(16, "--resume=auto")
        if lost.returncode != 4 or not os.path.exists(path(MANIFEST)):
            problems.append(f"all damaged: --resume=auto exits {lost.returncode}: {lost.stderr[-300:]}")
    for problem in problems:
        print(problem)
    print(f"{len(DAMAGE)} kinds of damage, {len(problems)} problems")
    sys.exit(1 if problems else 0)


main()
