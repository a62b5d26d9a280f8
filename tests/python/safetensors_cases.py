"""Files for test_safetensors.py and for the fuzzing corpus: named, small, good and bad.

As a program, `safetensors_cases.py DIRECTORY` writes them there; tests/fuzz/safetensors_fuzz was
made that way.
"""

import json
import pathlib
import struct
import sys

SIZES = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # bits

# Files that the package accepts and we refuse, each with the reason.
STRICTER = {
    "duplicate_tensor": "one of two equal keys would be lost without a word",
    "duplicate_metadata_key": "one of two equal keys would be lost without a word",
    "duplicate_unknown_field": "one of two equal keys would be lost without a word",
    "leading_space": "the format says that a header begins with '{'",
    "entry_as_array": "a spelling of the package's JSON reader, not of the format",
    "type_as_object": "a spelling of the package's JSON reader, not of the format",
    "dim_2_63": "dims are 63 bit numbers here; only an empty tensor can have such a one",
}


def file(header, data=b"", length=None):
    if not isinstance(header, bytes):
        header = json.dumps(header, ensure_ascii=False).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def info(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


ONE = b'{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
DATA = bytes(range(8))


def length_cases():
    yield "empty", b""
    yield "seven_bytes", b"1234567"
    yield "length_zero", file(b"")
    yield "length_one", file(b"{")
    yield "length_lies_zero", file(b"{}", length=0)
    yield "length_beyond", file(b"{}", length=3)
    yield "length_100mb", file(b"{}", length=100_000_000)
    yield "length_over_100mb", file(b"{}", length=100_000_001)
    yield "length_2_63", file(b"{}", length=2**63)
    yield "length_all_ones", file(b"{}", length=2**64 - 1)
    yield "length_wraps", file(b"{}", length=2**64 - 8)
    yield "length_short", file({"a": info()}, DATA, length=10)


def json_cases():
    yield "nothing_inside", file(b"{}")
    yield "leading_space", file(b"  {}")
    yield "trailing_space", file(b"{} \t\r\n  ")
    yield "trailing_nul", file(b"{}\0\0")
    yield "trailing_text", file(b"{}x")
    yield "byte_order_mark", file(b"\xef\xbb\xbf{}")
    for name, text in {"array": b"[]", "null": b"null", "string": b'"a"', "number": b"12"}.items():
        yield f"top_{name}", file(text)
    yield "cut_json", file(b'{"a":')
    yield "comma_at_end", file(b'{"__metadata__":{},}')
    yield "not_utf8", file(b'{"\xff":' + ONE + b"}", DATA)
    yield "overlong_utf8", file(b'{"\xc0\xaf":' + ONE + b"}", DATA)
    yield "lone_surrogate", file(b'{"\\ud800":' + ONE + b"}", DATA)
    yield "surrogate_bytes", file(b'{"\xed\xa0\x80":' + ONE + b"}", DATA)
    yield "surrogate_pair", file(b'{"\\ud83d\\ude00":' + ONE + b"}", DATA)
    yield "control_in_name", file(b'{"a\n":' + ONE + b"}", DATA)
    yield "escaped_nul_in_name", file(b'{"a\\u0000":' + ONE + b"}", DATA)
    yield "empty_name", file({"": info()}, DATA)
    yield "duplicate_tensor", file(b'{"a":' + ONE + b',"a":' + ONE + b"}", DATA)
    yield "duplicate_metadata", file(b'{"__metadata__":{},"__metadata__":{}}')
    yield "duplicate_metadata_key", file(b'{"__metadata__":{"k":"1","k":"2"}}')
    yield "duplicate_field", file(b'{"a":{"dtype":"F32",' + ONE[1:] + b"}", DATA)
    yield "duplicate_unknown_field", file(b'{"a":{"x":1,"x":2,' + ONE[1:] + b"}", DATA)
    for depth in (125, 126):
        nest = b"[" * depth + b"]" * depth
        yield f"nested_{depth}", file(b'{"a":{"x":' + nest + b"," + ONE[1:] + b"}", DATA)
    yield "nested_far", file(b'{"a":' * 5000)
    yield "number_out_of_range", file(b'{"a":{"x":1e999,' + ONE[1:] + b"}", DATA)
    yield "number_long", file(b'{"a":{"x":123456789012345678901234567890,' + ONE[1:] + b"}", DATA)


def metadata_cases():
    for name, value in {
        "null": None, "empty": {}, "strings": {"format": "pt", "ü": "\n"}, "list": [],
        "number_inside": {"a": 1}, "null_inside": {"a": None}, "string": "x",
    }.items():
        yield f"metadata_{name}", file({"__metadata__": value})
    yield "metadata_as_tensor", file({"__metadata__": info()}, DATA)


def entry_cases():
    yield "plain", file({"a": info()}, DATA)
    yield "unknown_field", file({"a": info(note=[1.5, {"k": None}])}, DATA)
    yield "entry_as_array", file({"a": ["F32", [2], [0, 8]]}, DATA)
    yield "entry_null", file({"a": None})
    yield "type_as_object", file({"a": info({"F32": None})}, DATA)
    for key in ("dtype", "shape", "data_offsets"):
        entry = info()
        del entry[key]
        yield f"no_{key}", file({"a": entry}, DATA)
        yield f"null_{key}", file({"a": {**info(), key: None}}, DATA)
    for name, dims in {"float": "2.0", "exponent": "2e0", "negative": "-2", "text": '"2"',
                       "true": "true", "nested": "[2]"}.items():
        text = ONE.replace(b"[2]", b"[" + dims.encode() + b"]")
        yield f"dim_{name}", file(b'{"a":' + text + b"}", DATA)
    yield "dim_minus_zero", file(b'{"a":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}}')
    for count, offsets in {"one": [8], "three": [0, 8, 8], "none": []}.items():
        yield f"offsets_{count}", file({"a": info(offsets=offsets)}, DATA)
    for dtype, bits in SIZES.items():
        yield f"type_{dtype}", file({"a": info(dtype, [8], [0, bits])}, bytes(bits))
    for dtype in ("f32", "F128", "C128", "U4", "", "F32 "):
        yield f"type_unknown_{dtype.strip() or 'none'}", file({"a": info(dtype)}, DATA)
    yield "part_of_a_byte", file({"a": info("F4", [3], [0, 1])}, b"x")
    yield "part_of_a_byte_up", file({"a": info("F4", [3], [0, 2])}, b"xx")


def size_cases():
    yield "scalar", file({"a": info(shape=[], offsets=[0, 4])}, DATA[:4])
    yield "overflow", file({"a": info(shape=[2**40, 2**40], offsets=[0, 0])})
    yield "overflow_then_zero", file({"a": info(shape=[2**40, 2**40, 0], offsets=[0, 0])})
    yield "zero_then_overflow", file({"a": info(shape=[0, 2**40, 2**40], offsets=[0, 0])})
    yield "wraps_to_zero", file({"a": info(shape=[2**32, 2**32], offsets=[0, 0])})
    yield "wraps_63_then_zero", file({"a": info(shape=[2**62, 2, 0], offsets=[0, 0])})
    yield "bits_overflow", file({"a": info(shape=[2**60], offsets=[0, 0])})
    yield "dim_2_63", file({"a": info(shape=[0, 2**63], offsets=[0, 0])})
    yield "dim_2_64", file({"a": info(shape=[0, 2**64], offsets=[0, 0])})
    yield "offsets_huge", file({"a": info(offsets=[2**63, 2**63 + 8])}, DATA)
    yield "offsets_2_64", file({"a": info(offsets=[0, 2**64])}, DATA)


def layout_cases():
    half = dict(shape=[1])
    yield "two", file({"b": info(**half, offsets=[4, 8]), "a": info(**half, offsets=[0, 4])}, DATA)
    yield "empty_tensors", file({"a": info(shape=[0], offsets=[0, 0]),
                                 "b": info(shape=[0, 5], offsets=[0, 0])})
    yield "empty_between", file({"a": info(), "b": info(shape=[0], offsets=[8, 8]),
                                 "c": info(offsets=[8, 16])}, DATA * 2)
    yield "empty_inside_another", file({"a": info(), "b": info(shape=[0], offsets=[4, 4])}, DATA)
    yield "size_mismatch", file({"a": info(shape=[3])}, DATA)
    yield "hole_first", file({"a": info(**half, offsets=[4, 8])}, DATA)
    yield "hole_between", file({"a": info(**half, offsets=[0, 4]),
                                "b": info(**half, offsets=[8, 12])}, DATA + b"1234")
    yield "overlap_all", file({"a": info(), "b": info()}, DATA)
    yield "overlap_half", file({"a": info(), "b": info(offsets=[4, 12])}, DATA + b"1234")
    yield "misordered", file({"a": info(offsets=[8, 0])}, DATA)
    yield "data_after", file({"a": info()}, DATA + b"x")
    yield "data_cut", file({"a": info()}, DATA[:7])
    yield "data_absent", file({"a": info()})
    yield "data_without_tensors", file(b"{}", b"x")


def cases():
    """All of them, by name."""
    groups = (length_cases, json_cases, metadata_cases, entry_cases, size_cases, layout_cases)
    return {name: content for group in groups for name, content in group()}


if __name__ == "__main__":
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for case, content in cases().items():
        (directory / case).write_bytes(content)
