"""A program on a pseudo-terminal, and what a person sees of it."""

import codecs
import errno
import fcntl
import os
import pty
import re
import select
import struct
import termios

DEADLINE_S = 120  # for something to appear; nothing is measured
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
# What programs ask a terminal, and what a plain one answers.
ANSWERS = [(re.compile(r"\x1b\[0?c"), "\x1b[?1;2c"),  # what it can do
           (re.compile(r"\x1b\[6n"), "\x1b[1;1R")]  # where the cursor is
LONGEST_QUESTION = 4
BEGUN_ESCAPE = re.compile(r"(\x1b(\[[0-9;?]*)?)?$")


class Screen:
    """The lines of a terminal, as far as these programs use it."""

    def __init__(self, width):
        self.width = width
        self.lines = [""]
        self.column = 0
        self.overflows = []  # lines that the terminal itself had to break
        self.rest = ""  # the beginning of an escape sequence

    def feed(self, text):
        at = 0
        text = self.rest + text
        self.rest = BEGUN_ESCAPE.search(text).group()
        text = text[:len(text) - len(self.rest)]
        while at < len(text):
            escape = ESCAPE.match(text, at)
            if escape:
                if escape.group(2) == "K":
                    self.lines[-1] = self.lines[-1][:self.column]
                at = escape.end()
                continue
            self.put(text[at])
            at += 1

    def put(self, character):
        if character == "\n":
            self.lines.append("")
            self.column = 0
        elif character == "\r":
            self.column = 0
        elif character >= " ":
            if self.column == self.width:
                self.overflows.append(self.lines[-1])
                self.lines.append("")
                self.column = 0
            line = self.lines[-1].ljust(self.column)
            self.lines[-1] = line[:self.column] + character + line[self.column + 1:]
            self.column += 1

    def text(self):
        return "\n".join(line.rstrip() for line in self.lines)


class Terminal:
    """`command` with all of its streams on a terminal of this width."""

    def __init__(self, command, width, directory, environment):
        self.screen = Screen(width)
        self.raw = ""
        self.asked = ""  # the end of what was read, which may be the beginning of a question
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="ignore")
        self.child, self.leader = pty.fork()
        if self.child == 0:
            try:
                os.chdir(directory)
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
                self.keep_output_at_ctrl_c()
                os.execvpe(command[0], command, environment)
            finally:
                os._exit(127)
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))

    @staticmethod
    def keep_output_at_ctrl_c():
        """A terminal throws away what nobody has read yet, which differs from run to run."""
        mode = termios.tcgetattr(0)
        mode[3] |= termios.NOFLSH
        termios.tcsetattr(0, termios.TCSANOW, mode)

    def read_some(self, deadline_s=DEADLINE_S):
        """False at the end, or when nothing came within the deadline."""
        ready, _, _ = select.select([self.leader], [], [], deadline_s)
        if not ready:
            return False
        try:
            data = os.read(self.leader, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        if not data:
            return False
        text = self.decoder.decode(data)
        self.raw += text
        self.screen.feed(text)
        self.answer(text)
        return True

    def answer(self, text):
        self.asked += text
        for question, answer in ANSWERS:
            self.asked, count = question.subn("", self.asked)
            self.type(answer * count)
        self.asked = self.asked[-LONGEST_QUESTION:]

    def read_until(self, text, deadline_s=DEADLINE_S):
        """Whether it appears."""
        while text not in self.raw:
            if not self.read_some(deadline_s):
                return False
        return True

    def type(self, text):
        os.write(self.leader, text.encode())

    def finish(self):
        """Its exit code, after all output."""
        while self.read_some():
            pass
        _, status = os.waitpid(self.child, 0)
        os.close(self.leader)
        return os.waitstatus_to_exitcode(status)
