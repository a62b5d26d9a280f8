"""What `safetensors` refuses, we refuse; what it accepts, we accept, but for STRICTER."""

import json
import random
import struct

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import probe
from safetensors_cases import DATA, STRICTER, cases, file, info

CASES = cases()


def reference_accepts(path):
    try:
        with safetensors.safe_open(path, "np") as opened:
            list(opened.keys())
        return True
    except safetensors.SafetensorError:
        return False


def ours_of_many(paths):
    """For each path whether we accept it; anything but acceptance and Error(Data) fails."""
    lines = probe.run("safetensors-check-many", text_in="\n".join(map(str, paths))).stdout
    verdicts = lines.splitlines()
    assert len(verdicts) == len(paths)
    assert all(line == "ok" or line.startswith("4 ") for line in verdicts)
    return [line == "ok" for line in verdicts]


def check_against_reference(directory, contents, excused=lambda content: False):
    """Counts of accepted and refused files; fails on any difference that is not excused."""
    paths = []
    for i, content in enumerate(contents):
        paths.append(directory / str(i))
        paths[-1].write_bytes(content)
    accepted = ours_of_many(paths)
    for path, content, ours in zip(paths, contents, accepted):
        theirs = reference_accepts(path)
        assert ours == theirs or (theirs and excused(content)), (ours, theirs, content[:300])
    return sum(accepted), len(accepted) - sum(accepted)


@pytest.mark.parametrize("name", CASES)
def test_each_case_is_judged_like_the_reference(name, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(CASES[name])
    done = probe.run("safetensors-check", path)
    if name in STRICTER:
        assert reference_accepts(path), "no longer a difference: take it off the list"
        assert done.returncode == 4
    else:
        assert (done.returncode == 0) == reference_accepts(path), done.stderr
    if done.returncode != 0:
        assert done.stdout == "" and done.stderr.count("\n") == 1


def good_files(rng):
    """Random well-formed files of the reference writer."""
    types = [np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8,
             np.uint16, np.uint32, np.uint64, np.bool_, np.complex64]
    while True:
        tensors = {}
        for _ in range(rng.randrange(6)):
            name = "".join(rng.choice("ab./_é\"\\\n\x01😀") for _ in range(rng.randrange(8)))
            shape = [rng.randrange(4) for _ in range(rng.randrange(4))]
            values = np.frombuffer(rng.randbytes(int(np.prod(shape)) * 16), np.uint8) % 2
            kind = rng.choice(types)
            tensors[name] = values[: int(np.prod(shape))].astype(kind).reshape(shape)
        metadata = {"k": "v"} if rng.random() < 0.3 else None
        yield safetensors.numpy.save(tensors, metadata)


def has_excused_spelling(content):
    """Whether a mutated file shows one of STRICTER, found by Python's own JSON reader."""
    length = struct.unpack("<Q", content[:8])[0]
    text = content[8 : 8 + length]
    twice = []

    def pairs(items):
        twice.extend([1] * (len(items) - len({key for key, _ in items})))
        return dict(items)

    header = json.loads(text, object_pairs_hook=pairs)
    tensors = [value for key, value in header.items() if key != "__metadata__"]
    return (
        bool(twice)
        or not text.startswith(b"{")
        or any(not isinstance(entry, dict) for entry in tensors)
        or any(not isinstance(entry["dtype"], str) for entry in tensors)
        or any(dim >= 2**63 for entry in tensors for dim in entry["shape"])
    )


def test_random_good_files_are_accepted(tmp_path):
    files = good_files(random.Random(1))
    accepted, refused = check_against_reference(tmp_path, [next(files) for _ in range(300)])
    assert accepted == 300 and refused == 0


def changed(content, rng):
    """A byte or two of it replaced, taken out or put in; mostly with a length that still fits."""
    length = struct.unpack("<Q", content[:8])[0]
    prefix, text, data = bytearray(content[:8]), bytearray(content[8 : 8 + length]), content[8 + length :]
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(text))
        kind = rng.randrange(4)
        if kind == 0:
            text[at] = rng.randrange(256)
        elif kind == 1:
            text[at] = rng.choice(b'0123456789{}[]",:- \\u')
        elif kind == 2 and len(text) > 1:
            del text[at]
        else:
            text.insert(at, rng.choice(b'0123456789{}[]",: \0'))
    if rng.random() < 0.9:
        prefix = struct.pack("<Q", len(text))
    elif rng.random() < 0.5:
        prefix[rng.randrange(8)] = rng.randrange(256)
    return bytes(prefix) + bytes(text) + data


def test_random_bytes_changed_are_judged_like_the_reference(tmp_path):
    rng = random.Random(2)
    files = good_files(rng)
    contents = [changed(next(files), rng) for _ in range(4000)]
    accepted, refused = check_against_reference(tmp_path, contents, has_excused_spelling)
    assert accepted > 100 and refused > 2000


def test_random_headers_are_judged_like_the_reference(tmp_path):
    """Small numbers drawn at random, so that holes, overlaps and fits all occur."""
    rng = random.Random(3)
    contents = []
    for _ in range(3000):
        header, end = {}, 0
        for name in "abc"[: rng.randrange(1, 4)]:
            dtype = rng.choice(["U8", "F16", "F32", "F4", "I64"])
            shape = [rng.choice([0, 1, 2, 3, 2**31, 2**62]) if rng.random() < 0.2 else
                     rng.randrange(1, 3) for _ in range(rng.randrange(3))]
            bits = int(np.prod([1, *shape], dtype=object)) * {"U8": 8, "F16": 16, "F32": 32,
                                                             "F4": 4, "I64": 64}[dtype]
            begin = end + (rng.choice([-1, 1, 4]) if rng.random() < 0.1 else 0)
            end = begin + bits // 8 + (rng.choice([-1, 1]) if rng.random() < 0.1 else 0)
            header[name] = info(dtype, shape, [begin, end])
        size = end + (rng.choice([-1, 1]) if rng.random() < 0.1 else 0)
        contents.append(file(header, bytes(max(0, min(size, 4096)))))
    accepted, refused = check_against_reference(tmp_path, contents)
    assert accepted > 500 and refused > 500


def test_every_prefix_of_a_file_is_refused(tmp_path):
    whole = file({"a": info()}, DATA)
    accepted, _ = check_against_reference(tmp_path, [whole[:n] for n in range(len(whole))])
    assert accepted == 0


def test_rewriting_gives_the_very_bytes_of_the_reference_writer(tmp_path):
    files = good_files(random.Random(4))
    for i in range(40):
        source, target = tmp_path / f"{i}.in", tmp_path / f"{i}.out"
        source.write_bytes(next(files))
        assert probe.run("safetensors-rewrite", source, target).returncode == 0
        assert target.read_bytes() == source.read_bytes()


def test_a_file_in_another_order_is_rewritten_with_equal_tensors(tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    header = {"b": info("U8", [3], [0, 3]), "a": info("F32", [1, 2], [3, 11]),
              "__metadata__": {"y": "2", "x": "1"}}
    source.write_bytes(file(header, b"abc" + np.float32([1.5, -2]).tobytes()))
    assert probe.run("safetensors-rewrite", source, target).returncode == 0
    before, after = (safetensors.numpy.load_file(path) for path in (source, target))
    assert before.keys() == after.keys()
    for name in before:
        assert before[name].dtype == after[name].dtype
        np.testing.assert_array_equal(before[name], after[name])
    with safetensors.safe_open(target, "np") as opened:
        assert opened.metadata() == {"x": "1", "y": "2"}
        assert opened.get_slice("a").get_shape() == [1, 2]


def test_names_types_and_shapes_are_those_of_the_reference(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(file({"é\n": info("BF16", [2, 0, 3], [0, 0]), "x": info("F8_E4M3", [2], [0, 2])},
                          b"12"))
    lines = probe.run("safetensors-check", path).stdout.splitlines()
    assert sorted(lines) == ['"x" F8_E4M3 2', '"é\\n" BF16 2 0 3']
