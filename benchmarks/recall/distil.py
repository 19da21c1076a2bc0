"""Make the table of the embedder `distilled` from MiniLM: a vector for each piece of a word.

    python benchmarks/recall/distil.py TEXTS.txt OUT.bin      # needs the extra semantic

TEXTS.txt has one text a line; the shipped table was learned from 12,614 of them, descriptions of packages and
paragraphs of docstrings, of which it holds nothing. Each piece begins with the vector that MiniLM gives it alone. Then
all are moved so that the sum of a text's pieces comes near to the vector of the text (ridge regression by conjugate
gradients). 192 principal directions are left, turned so that their sizes are even, and rounded to four bits.
"""
# ruff: noqa: ANN401, PLR0915

import argparse
import importlib
from pathlib import Path
from string import punctuation
from typing import Any

from pattern_acp.memory.local_embedders import DIMENSIONS, find_model, load_vocabulary, piece_numbers, read_model
from pattern_acp.memory.search_terms import STOP_WORDS

FIRST_PIECE = 999
LEARNED = 256
CLOSENESS = 1.0
"""Weight of staying near the beginning."""
STEPS = 15
STOP_SHARE = 0.3


def main(texts: list[str], out: Path) -> None:
    # Installed with the extra alone, so nothing is known of their types where types are checked.
    numpy: Any = importlib.import_module("numpy")
    runtime: Any = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(read_model(find_model()), providers=["CPUExecutionProvider"])

    def vectors(numbers: list[list[int]]) -> Any:
        ids = numpy.array(numbers, dtype="int64")
        inputs = {"input_ids": ids, "attention_mask": numpy.ones_like(ids), "token_type_ids": numpy.zeros_like(ids)}
        return session.run(None, inputs)[0].mean(1)

    vocabulary = load_vocabulary()
    size = len(vocabulary)
    start, end = vocabulary["[CLS]"], vocabulary["[SEP]"]
    alone = [vectors([[start, number, end] for number in range(at, min(at + 256, size))]) for at in range(0, size, 256)]
    pieces = numpy.concatenate(alone)
    pieces -= pieces.mean(0)
    directions = numpy.linalg.svd(pieces[FIRST_PIECE::3], full_matrices=False)[2][:LEARNED].T
    first = pieces @ directions
    first /= numpy.linalg.norm(first, axis=1).mean()
    marks = {vocabulary[mark] for mark in punctuation if mark in vocabulary}
    numbered = [piece_numbers(text, 96) for text in texts]
    whole = numpy.concatenate([vectors([numbers]) for numbers in numbered])
    whole /= numpy.linalg.norm(whole, axis=1, keepdims=True)
    aims = (whole - whole.mean(0)) @ directions
    parts = [[number for number in numbers[1:-1] if number not in marks] for numbers in numbered]

    def summed(table: Any) -> Any:
        zero = numpy.zeros(LEARNED)
        return numpy.array([table[part].sum(0) / len(part) ** 0.5 if part else zero for part in parts])

    def shared(rests: Any) -> Any:
        table = numpy.zeros((size, LEARNED))
        for part, rest in zip(parts, rests, strict=True):
            numpy.add.at(table, part, rest / max(1, len(part)) ** 0.5)
        return table

    moved = numpy.zeros((size, LEARNED))
    rest = shared(aims - summed(first))
    step, length = rest.copy(), (rest * rest).sum(0)
    for _ in range(STEPS):
        ahead = shared(summed(step)) + CLOSENESS * step
        far = length / ((step * ahead).sum(0) + 1e-9)
        moved += far * step
        rest -= far * ahead
        before, length = length, (rest * rest).sum(0)
        step = rest + length / (before + 1e-9) * step
    learned = first + moved
    learned[[vocabulary[word] for word in STOP_WORDS if word in vocabulary]] *= STOP_SHARE
    learned[list(marks)] = 0.0
    learned[:FIRST_PIECE] = 0.0
    values, axes = numpy.linalg.eigh(learned.T @ learned)
    kept = axes[:, numpy.argsort(-values)[:DIMENSIONS]]
    turn = numpy.linalg.qr(numpy.random.default_rng(0).normal(size=(DIMENSIONS, DIMENSIONS)))[0]
    table = learned @ kept @ turn
    scale = numpy.percentile(numpy.abs(table[FIRST_PIECE:]), 98)
    levels = (numpy.clip(numpy.round(table / scale * 7), -7, 7) + 8).astype("uint8")
    half = DIMENSIONS // 2
    out.write_bytes((levels[:, :half] | levels[:, half:] << 4).tobytes())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("texts", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    main(options.texts.read_text(encoding="utf-8").splitlines(), options.out)
