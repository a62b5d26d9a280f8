#!/usr/bin/env python3
"""Completion driven by bash, zsh and fish themselves: completion_test.py PROGRAM"""

import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from screen import Terminal  # noqa: E402

PROGRAM = ""
# What is typed before the Tab, and the command line after it.
CASES = [
    ("sextant comp", "sextant completion "),
    ("sextant data tok", "sextant data tokenize "),
    ("sextant train configs/tiny.toml --dry", "sextant train configs/tiny.toml --dry-run "),
    ("sextant train conf", "sextant train configs/"),
    ("sextant train configs/ti", "sextant train configs/tiny.toml "),
    ("sextant train --optim.weight", "sextant train --optim.weight_decay="),
    ("sextant train --parallel.schedule=dualpipe-",
     "sextant train --parallel.schedule=dualpipe-v "),
    ("sextant eval out/x --sam", "sextant eval out/x --samples "),
    ("sextant plan --model gpt3", "sextant plan --model gpt3-175b "),
    ("sextant train --model.preset=llama-4", "sextant train --model.preset=llama-405b "),
    ("sextant --color al", "sextant --color always "),
    ("sextant config models gpt3", "sextant config models gpt3-175b "),
]


class CompletionTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="sextant-completion-")
        self.directory = pathlib.Path(self.scratch.name)
        (self.directory / "bin").mkdir()
        (self.directory / "bin/sextant").symlink_to(PROGRAM)
        (self.directory / "configs").mkdir()
        (self.directory / "configs/tiny.toml").touch()
        self.environment = {
            "PATH": f"{self.directory}/bin:{os.environ['PATH']}", "HOME": str(self.directory),
            "TERM": "vt100", "LANG": "C.UTF-8", "PS1": "> ", "ZDOTDIR": str(self.directory)}

    def tearDown(self):
        self.scratch.cleanup()

    def need(self, shell):
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")

    def lines_after_tab(self, command, setup):
        """Each case in an interactive shell: Tab, then a word that ends the line, which is echoed
        as a comment instead of being run."""
        shell = Terminal(command, 200, self.directory, self.environment)
        shell.type(setup + "\n")
        shell.type("echo rea''dy\n")
        self.assertTrue(shell.read_until("ready"), shell.raw)
        for typed, wanted in CASES:
            with self.subTest(typed=typed):
                shell.raw = ""
                # The line after the Tab is an argument of printf: what the shell made of it.
                shell.type(f"{typed}\t@\x01printf '{{%s}}' \"\x05\"; echo en''d\n")
                self.assertTrue(shell.read_until("end"), shell.raw)
                found = re.search(r"{([^{}%]*)}end", shell.raw)
                self.assertIsNotNone(found, shell.raw)
                self.assertEqual(found.group(1), wanted + "@")
        shell.type("exit\n")
        shell.finish()

    def test_bash(self):
        self.need("bash")
        self.lines_after_tab(["bash", "--norc", "--noprofile", "-i"],
                             "bind 'set enable-bracketed-paste off'; "
                             "source <(sextant completion bash)")

    def test_zsh(self):
        self.need("zsh")
        self.lines_after_tab(["zsh", "-f", "-i"],
                             "unsetopt zle_bracketed_paste; bindkey -e; autoload -U compinit; "
                             "compinit -u -D; source <(sextant completion zsh)")

    def test_fish(self):
        """Without what it would suggest by itself, which Ctrl-E takes."""
        self.need("fish")
        self.lines_after_tab(["fish", "--no-config", "-i"],
                             "set -g fish_autosuggestion_enabled 0; "
                             "sextant completion fish | source")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
