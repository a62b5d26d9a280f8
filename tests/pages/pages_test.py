#!/usr/bin/env python3
"""Runs the commands of the pages and compares what they print with what the pages show.

    pages_test.py PROGRAM [PAGE...] [--kind here|gpu|hosts] [--list] [--times] [--mend]

Without pages: README.md, docs/*.md and bench/*.md. Each page has a directory of its own, in which its blocks run
from top to bottom. See page.py for the comments that guide it. Exit code 1: something differs. --mend
writes what was printed into the pages, to be read before it is committed.
"""

import argparse
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compare  # noqa: E402
import mend  # noqa: E402
import page as pages  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINKED = ["README.md", "bench", "configs", "hardware", "scripts", "tests"]
TIMEOUT_S = 3000


def all_pages():
    return ["README.md"] + sorted(str(path.relative_to(ROOT)) for folder in ["docs", "bench"]
                                  for path in ROOT.glob(f"{folder}/*.md"))


def workspace(directory, program):
    """What a clone has, with outputs in `directory`; docs are copied, for commands write there."""
    for name in LINKED:
        (directory / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "docs", directory / "docs")
    (directory / "build").mkdir()
    for name in ["sextant", "sextant-bench"]:
        if (program.parent / name).exists():
            (directory / "build" / name).symlink_to(program.parent / name)


def environment(directory):
    out = {key: value for key, value in os.environ.items()
           if key not in ("COLUMNS", "SXT_LONG", "CLICOLOR_FORCE")}
    # With PyTorch, where scripts/python-env.sh has installed it.
    out["PATH"] = f"{directory / 'build'}:{ROOT / '.venv/bin'}:{out['PATH']}"
    out["XDG_CACHE_HOME"] = str(directory / ".cache")
    out["NO_COLOR"] = "1"
    # What mpirun wants of whoever runs this, with more ranks than cores.
    out["OMPI_ALLOW_RUN_AS_ROOT"] = out["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    out["OMPI_MCA_rmaps_base_oversubscribe"] = "1"
    return out


def take_two_cores():
    """As the pages were made: the scratch memory of a rank depends on its threads."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def run_shell(commands, directory):
    """(exit code, lines) of each, run in turn by one shell."""
    mark = "@@" + uuid.uuid4().hex
    script = "".join(f"{command}\n__code=$?; echo '{mark}' $__code; (exit $__code)\n"
                     for command in commands)
    ran = subprocess.run(["bash", "-c", script], cwd=directory, env=environment(directory),
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         errors="replace", timeout=TIMEOUT_S, check=False,
                         preexec_fn=take_two_cores)
    out, lines = [], []
    for line in ran.stdout.split("\n"):
        text, found, code = line.partition(mark)
        if not found:
            lines.append(line)
            continue
        if text:
            lines.append(text)
        out.append((int(code), lines))
        lines = []
    return out


def with_options(command, options):
    """`options` before a comment or a pipe of each `sextant train`."""
    if not options or "sextant train" not in command:
        return command
    for stop in ["  #", " |"]:
        if stop in command:
            head, _, tail = command.partition(stop)
            return f"{head.rstrip()} {options} {stop}{tail}"
    return f"{command} {options}"


def may_fail(shown):
    """The output of a command that does not succeed."""
    return any(line.startswith(("error:", "stopped by ")) or line.endswith(": bug") or
               "  bug: " in line for line in shown)


def stripped(lines):
    """Without empty lines at the end."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def problem_of(command, code, printed):
    """"" if the command did what the page says."""
    if command.shown is None:
        return "" if code == 0 else f"exit code {code}:\n  " + "\n  ".join(printed[-5:])
    shown, printed = stripped(command.shown), stripped(printed)
    found = compare.first_difference(shown, printed, command.text)
    if found:
        i, j = found
        return (f"shown line {i + 1}: {shown[i] if i < len(shown) else 'the end'}\n"
                f"printed:  {printed[j] if j < len(printed) else 'the end'}\n"
                "the whole output:\n  " + "\n  ".join(printed))
    if (code != 0) != may_fail(shown) and "|" not in command.text:
        return f"exit code {code}"
    return ""


class Page:
    def __init__(self, name, program, arguments):
        self.name, self.program, self.arguments = name, program, arguments
        self.blocks = pages.blocks_of((ROOT / name).read_text(), name)
        self.failures = 0
        self.changes = []  # (line, lines shown there, lines to be shown)

    def is_wanted(self, block):
        if block.elsewhere:
            return block.elsewhere == self.arguments.kind
        return self.arguments.kind == "here" and (not block.long or "SXT_LONG" in os.environ)

    def say(self, line, command, text):
        self.failures += 1
        print(f"{self.name}:{line}: {command}\n{text}\n", flush=True)

    def run_block(self, block, directory):
        before = run_shell(block.before, directory)
        for text, (code, printed) in zip(block.before, before):
            if code != 0:
                self.say(block.line, text, "\n".join(printed[-5:]))
        wanted = [command for command in block.commands if not command.skipped]
        commands = [with_options(command.text, block.add) for command in wanted]
        results = run_shell(commands, directory)
        for command, (code, printed) in zip(wanted, results):
            problem = problem_of(command, code, printed)
            if problem:
                self.say(command.line, command.text, problem)
            if problem and command.shown is not None:
                self.changes.append((command.shown_at, command.shown,
                                     mend.mended(command.shown, stripped(printed), command.text)))
        if len(results) < len(commands):
            self.say(block.line, commands[len(results)], "was not run")

    def run(self):
        with tempfile.TemporaryDirectory(prefix="sextant-pages-") as name:
            directory = pathlib.Path(name)
            workspace(directory, self.program)
            for block in self.blocks:
                if not self.is_wanted(block):
                    continue
                begin, spent = time.monotonic(), cpu_seconds()
                self.run_block(block, directory)
                if self.arguments.times:
                    print(f"{self.name}:{block.line}: {time.monotonic() - begin:.1f} s, "
                          f"{cpu_seconds() - spent:.1f} s of CPU", flush=True)
            self.compare_pictures(directory)

    def compare_pictures(self, directory):
        """What commands wrote over the pictures of the pages: they must not have changed."""
        for drawn in sorted((directory / "docs").glob("**/*.svg")):
            shown = ROOT / drawn.relative_to(directory)
            if shown.exists() and shown.read_bytes() == drawn.read_bytes():
                continue
            if self.arguments.mend:
                shutil.copyfile(drawn, shown)
            self.say(0, str(drawn.relative_to(directory)), "is not what the page's commands draw")

    def write_changes(self):
        lines = (ROOT / self.name).read_text().split("\n")
        for line, shown, wanted in reversed(self.changes):
            lines[line - 1:line - 1 + len(shown)] = wanted
        (ROOT / self.name).write_text("\n".join(lines))

    def list(self):
        for block in self.blocks:
            for command in block.commands:
                kind = ("skipped" if command.skipped else
                        block.elsewhere or ("long" if block.long else "here"))
                reason = command.skipped or block.reason
                print(f"{kind:<8} {self.name}:{command.line}  {command.text.splitlines()[0]}"
                      f"{f'  -- {reason}' if reason else ''}")


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--kind", default="here", choices=["here", "gpu", "hosts"])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--mend", action="store_true")
    arguments = parser.parse_args()
    failures = 0
    for name in arguments.pages or all_pages():
        page = Page(name, arguments.program.resolve(), arguments)
        if arguments.list:
            page.list()
            continue
        page.run()
        if arguments.mend:
            page.write_changes()
        failures += page.failures
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except pages.BadPage as error:
        sys.exit(str(error))
