"""The canonical form and the hashes of the chain, as vectors that never change."""

import json
from pathlib import Path
from typing import Any

import pytest

from pattern_acp.domain.canonical import canonical_json, sha256_hex
from pattern_acp.journal import verify_bundle
from pattern_acp.journal.writer import Link, salted_hash

GOLDEN = Path(__file__).parent / "golden"


def vectors(name: str) -> list[dict[str, Any]]:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", vectors("canonical"), ids=lambda vector: vector["about"])
def test_the_canonical_form_is_what_it_always_was(vector: dict[str, Any]):
    canonical = canonical_json(vector["value"])
    assert canonical.hex() == vector["utf8_hex"]
    assert sha256_hex(canonical) == vector["sha256"]
    assert verify_bundle.canonical_json(vector["value"]) == canonical


@pytest.mark.parametrize("vector", vectors("chain"), ids=lambda vector: vector["about"])
def test_the_chain_is_what_it_always_was(vector: dict[str, Any]):
    event = vector["event"]
    assert salted_hash(event["salt"], canonical_json(event["payload"])) == event["payload_hash"]
    link = Link(
        vector["prev_hash"],
        event["payload_hash"],
        event["kind"],
        event["actor"],
        event["origin"],
        event["item"],
        event["session_seq"],
        event["version"],
        event["at_ms"],
        event["stream"],
        event["chain"],
    )
    assert link.hash == vector["hash"]
    assert verify_bundle.chain_hash(event, vector["prev_hash"]) == vector["hash"]
