"""Runs the program under test, and the tokenizer_probe beside it."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROGRAM = pathlib.Path(os.environ.get("SEXTANT", ROOT / "build" / "sextant")).absolute()


def sextant(*arguments, cwd=None):
    return subprocess.run([str(PROGRAM), *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, cwd=cwd)


def succeed(*arguments, cwd=None):
    done = sextant(*arguments, cwd=cwd)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout


def tokenizer_probe(*arguments, stdin=b""):
    return subprocess.run([str(PROGRAM.parent / "tokenizer_probe"), *arguments], input=stdin,
                          capture_output=True, check=True, timeout=300).stdout


def ids_of(path, texts, *options):
    encoded = [text.encode() for text in texts]
    stdin = b"".join(b"%d\n%s" % (len(text), text) for text in encoded)
    lines = tokenizer_probe("encode", str(path), *options, stdin=stdin).decode().split("\n")
    assert len(lines) == len(texts) + 1
    return [[int(word) for word in line.split()] for line in lines[:-1]]
