"""The hashes of columns are those that one value has."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pgrepl.expr.functions.support_functions import hash_bytes, hash_int8, hash_uint32
from pgrepl.replication.comparison.columns import PADDING, TOGETHER, RowHashes

COUNT = TOGETHER + 100


@pytest.mark.parametrize("seed", [0, 1, 12345678901234567])
def test_chains_of_columns_are_hashed_as_single_values(seed: int) -> None:
    rnd = random.Random(seed)
    texts = [rnd.randbytes(rnd.choice((0, 1, 3, 4, 7, 8, 11, 12, 13, 23, 24, 25, 100))) for _ in range(COUNT)]
    wide = [rnd.choice((rnd.getrandbits(64) - (1 << 63), rnd.randrange(-5, 5))) for _ in texts]
    narrow = [rnd.getrandbits(32) - (1 << 31) for _ in texts]
    lengths = np.array([len(text) for text in texts], np.int64)
    data = np.frombuffer(b"".join(texts) + bytes(PADDING), np.uint8)
    found = RowHashes(COUNT, seed)
    found.add_bytes(data, np.cumsum(lengths) - lengths, lengths)
    assert found.hashes.tolist() == [hash_bytes(text, seed) for text in texts]
    found.add_int8(np.array(wide))
    found.add_int4(np.array(narrow))
    assert found.hashes.tolist() == [
        hash_uint32(k & 0xFFFFFFFF, hash_uint32((n >> 32) & 0xFFFFFFFF, hash_int8(n, hash_bytes(text, seed))))
        for text, n, k in zip(texts, wide, narrow, strict=True)
    ]


def test_numbers_with_one_fold_differ() -> None:
    found = RowHashes(2, 7)
    found.add_int8(np.array([0, (1 << 32) | 1]))
    one, other = found.hashes.tolist()
    assert one != other


@pytest.mark.parametrize("width", [1, 2, 3, 4, 6, 8])
def test_texts_of_one_length_are_hashed_as_words(width: int) -> None:
    words = np.random.default_rng(1).integers(0, 1 << 32, (500, width), np.uint32)
    found, other = RowHashes(500, 5), RowHashes(500, 5)
    found.add_words(words)
    starts, lengths = np.arange(500) * 4 * width, np.full(500, 4 * width)
    other.add_bytes(np.frombuffer(words.tobytes() + bytes(PADDING), np.uint8), starts, lengths)
    assert found.hashes.tolist() == other.hashes.tolist()
