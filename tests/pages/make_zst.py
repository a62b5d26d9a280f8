"""Standard input as a .zst file of stored blocks: make_zst.py FILE."""

import pathlib
import sys

LARGEST = 128 * 1024  # of a block


def main():
    data = sys.stdin.buffer.read()
    out = b"\x28\xb5\x2f\xfd" + b"\xa0" + len(data).to_bytes(4, "little")  # magic, size known
    blocks = [data[i:i + LARGEST] for i in range(0, len(data), LARGEST)] or [b""]
    for index, block in enumerate(blocks):
        is_last = index + 1 == len(blocks)
        out += (is_last | len(block) << 3).to_bytes(3, "little") + block
    pathlib.Path(sys.argv[1]).write_bytes(out)


main()
