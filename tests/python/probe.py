"""Runs formats_probe of the build under test."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def build_directory():
    """SEXTANT_BUILD, else where SEXTANT lies, else build."""
    if "SEXTANT_BUILD" in os.environ:
        return (ROOT / os.environ["SEXTANT_BUILD"]).resolve()
    if "SEXTANT" in os.environ:
        return pathlib.Path(os.environ["SEXTANT"]).resolve().parent
    return ROOT / "build"


def run(*arguments, text_in=""):
    """The finished process; only exit codes of the contract are let through."""
    command = [build_directory() / "formats_probe", *map(str, arguments)]
    done = subprocess.run(command, input=text_in, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 2, 4), f"{command}: {done.returncode} {done.stderr}"
    return done
