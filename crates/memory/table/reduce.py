"""Makes tokens.bin, the token vectors that ftl-memory embeds, out of the PyPI package wordllama.

    pip download --no-deps wordllama==0.4.0.post1 && unzip wordllama-*.whl -d wordllama-wheel
    pip install numpy && python reduce.py wordllama-wheel tokens.bin

Kept: tokens of lower-case Latin letters and digits, with or without the mark of a word's beginning,
because the embedder lower-cases and splits at everything else. Their vectors are rotated to the
principal axes of the kept tokens, cut to DIMS, weighted so that frequent tokens count less, and
rounded to int8 with one scale a row. The rank of a token in the original vocabulary is the order of
merges of its byte-pair encoding, so no list of merges is needed.
"""
import json
import sys
from pathlib import Path

import numpy as np

DIMS = 192
BEGINNING = "\u2581"
FIRST_MERGE = 259  # Ids below are special tokens and bytes.


def main(wheel: Path, out: Path) -> None:
    tokenizer = json.loads((wheel / "wordllama/tokenizers/l2_supercat_tokenizer_config.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    raw = (wheel / "wordllama/weights/l2_supercat_256.safetensors").read_bytes()
    header = int.from_bytes(raw[:8], "little")
    weights = np.frombuffer(raw[8 + header:], dtype="<f2").reshape(32000, 256).astype(np.float64)

    latin = [n for token, n in vocabulary.items() if n >= FIRST_MERGE and all(is_latin(c) for c in token)]
    centred = weights[latin] - weights[latin].mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)

    kept = {}
    for token, n in vocabulary.items():
        if n >= FIRST_MERGE and is_kept(token):
            kept[token.replace(BEGINNING, " ").encode()] = n
    order = sorted(kept)
    ids = np.array([kept[token] for token in order])
    ranks = np.argsort(np.argsort(ids))

    vectors = (weights @ axes.T)[ids, :DIMS] * rarity(ids)[:, None]
    scales = np.abs(vectors).max(1) / 127
    rounded = np.rint(vectors / scales[:, None]).astype(np.int8)
    write(out, order, ranks, scales, rounded)


def is_latin(letter: str) -> bool:
    return letter == BEGINNING or ord(letter) < 0x250


def is_kept(token: str) -> bool:
    body = token.removeprefix(BEGINNING)
    plain = all(ord(c) < 0x250 and c.isalnum() and c == c.lower() for c in body)
    return plain and (body != "" or token == BEGINNING)


def rarity(ids: np.ndarray) -> np.ndarray:
    """Smooth inverse frequency; a token's frequency is guessed from its rank by Zipf's law."""
    everything = 1 / (np.maximum(np.arange(32000) - 258, 1) + 20)
    share = everything / everything.sum()
    return 1e-3 / (1e-3 + share[ids])


def write(out: Path, order: list, ranks, scales, rounded) -> None:
    offsets = np.cumsum([0] + [len(token) for token in order]).astype("<u4")
    with out.open("wb") as file:
        file.write(b"FTLTOK01")
        file.write(np.array([len(order), DIMS], dtype="<u4").tobytes())
        file.write(offsets.tobytes())
        file.write(ranks.astype("<u4").tobytes())
        file.write(scales.astype("<f4").tobytes())
        file.write(rounded.tobytes())
        file.write(b"".join(order))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
