"""Kernels that find the words of many texts in one buffer of bytes, and number them.

The texts lie one after the other, document ``d`` from ``bounds[d]`` to ``bounds[d + 1]``; the last
byte of each belongs to no word. ``LETTERS`` says which bytes do: ASCII letters and digits, and all
bytes of UTF-8 that are not ASCII. A document of n bytes has at most n / 2 words, so ``tokens`` has
room for all words of document ``d`` from place ``bounds[d] // 2``.

Words are looked up in an open-addressing table. A slot holds the high 32 bits of a word's hash and,
one up, its number; 0 is an empty slot. Equal hashes are not enough: all letters are compared. The
first seven of each word, its head, are kept as one number, which is all there is to compare for
most words; ``spellings`` holds all letters, word after word.

The hash is a polynomial modulo 2^61 - 1 whose coefficients are the word's letters, seven at a time,
and whose variable is the key (Carter and Wegman): over the choice of the key, two different words
of at most n letters have the same hash with a probability of at most n / 2^61.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from cloister.core.kernel import inline_kernel, kernel, parallel_kernel

__all__ = [
    "LETTERS",
    "WordTable",
    "find_words",
    "find_words_in_parallel",
    "number_new_words",
    "place_words",
]

Bytes = NDArray[np.uint8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
UInt64s = NDArray[np.uint64]
WordTable = tuple[UInt64s, UInt64s, Bytes, Int64s]  # slots, heads, spellings, word_starts


def _letters() -> Bytes:
    """Return, for each byte, the small letter, digit or part of a character that it stands for."""
    letters = np.zeros(256, np.uint8)
    for byte in range(256):
        if byte >= 0x80 or chr(byte).isalnum():
            letters[byte] = ord(chr(byte).lower()) if byte < 0x80 else byte
    return letters


LETTERS: Final = _letters()
_PRIME: Final = np.uint64((1 << 61) - 1)
_PRIME_BITS: Final = np.uint64(61)
_HALF: Final = np.uint64(32)
_LOW: Final = np.uint64(0xFFFFFFFF)
_MIDDLE_BITS: Final = np.uint64(29)  # 61 less 32
_MIDDLE: Final = np.uint64((1 << 29) - 1)
_WRAP: Final = np.uint64(3)  # 2^64 is 2^3 modulo the prime
_BYTE: Final = np.uint64(8)
_SIX_BYTES: Final = np.uint64(48)
_LONGER: Final = np.uint64(1 << 63)  # mark of the head of a word of more than seven letters
_HEAD_LETTERS: Final = 7
_ONE: Final = np.uint64(1)
_ZERO: Final = np.uint64(0)


@inline_kernel
def _times(a: np.uint64, b: np.uint64) -> np.uint64:
    """Multiply modulo 2^61 - 1; both factors and the result are below 2^61."""
    a_high, a_low, b_high, b_low = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    middle = a_high * b_low + a_low * b_high
    low = a_low * b_low
    total = ((a_high * b_high) << _WRAP) + (low & _PRIME) + (low >> _PRIME_BITS)
    total += (middle >> _MIDDLE_BITS) + ((middle & _MIDDLE) << _HALF)
    total = (total & _PRIME) + (total >> _PRIME_BITS)
    return total - _PRIME if total >= _PRIME else total


@inline_kernel
def _absorb(state: np.uint64, block: np.uint64, key: np.uint64) -> np.uint64:
    total = state + block
    return _times(total - _PRIME if total >= _PRIME else total, key)


@inline_kernel
def _tag(hashed: np.uint64) -> np.uint64:
    """Return what a slot holds of a hash, its number being 0."""
    return (hashed >> _MIDDLE_BITS) << _HALF


@kernel
def _head_and_hash(
    text: Bytes, begin: np.int64, end: np.int64, key: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Return a word's head and its hash, which is below 2^61."""
    head = state = block = _ZERO
    for place in range(begin, end):
        block = (block << _BYTE) | np.uint64(LETTERS[text[place]])
        if place - begin < _HEAD_LETTERS:
            head = block
        if block >> _SIX_BYTES:  # letters are not 0: there are seven
            state, block = _absorb(state, block, key), _ZERO
    if end - begin > _HEAD_LETTERS:
        head |= _LONGER
    return head, _absorb(state, block, key) if block else state


@kernel
def _same_rest(
    text: Bytes, begin: np.int64, end: np.int64, spellings: Bytes, first: np.int64, last: np.int64
) -> bool:
    """Return whether two words of more than seven letters have the same letters after these."""
    same = bool(end - begin == last - first)
    place = _HEAD_LETTERS
    while same and place < end - begin:
        same = bool(LETTERS[text[begin + place]] == spellings[first + place])
        place += 1
    return same


@kernel
def _find(
    text: Bytes,
    begin: np.int64,
    end: np.int64,
    head: np.uint64,
    hashed: np.uint64,
    table: WordTable,
) -> np.uint64:
    """Return the slot of a word of the text, or the empty slot where it belongs."""
    slots, heads, spellings, word_starts = table
    mask, tag = np.uint64(len(slots) - 1), _tag(hashed)
    slot = hashed & mask
    while slots[slot] != _ZERO:
        number = (slots[slot] & _LOW) - _ONE
        if slots[slot] & ~_LOW == tag and heads[number] == head:
            first, last = word_starts[number], word_starts[number + _ONE]
            if head < _LONGER or _same_rest(text, begin, end, spellings, first, last):
                break
        slot = (slot + _ONE) & mask
    return slot


@kernel
def find_words(
    text: Bytes,
    bounds: Int64s,
    first: int,
    last: int,
    key: np.uint64,
    table: WordTable,
    tokens: Int32s,
    n_tokens: Int64s,
) -> None:
    """Write the number of each word of some documents; -1 - place for a word not numbered yet."""
    slots, heads, spellings, word_starts = table
    mask = np.uint64(len(slots) - 1)
    for document in range(first, last):
        token = bounds[document] // 2
        place, end = bounds[document], bounds[document + 1]
        while place < end:
            begin = place
            head = state = block = _ZERO
            letter = LETTERS[text[place]]
            while letter != 0:  # as in _head_and_hash, while the end is looked for
                block = (block << _BYTE) | np.uint64(letter)
                if block >> _SIX_BYTES:
                    head = block if head == _ZERO else head
                    state, block = _absorb(state, block, key), _ZERO
                place += 1
                letter = LETTERS[text[place]]
            if place > begin:
                head = block if head == _ZERO else head
                head |= _LONGER if place - begin > _HEAD_LETTERS else _ZERO
                hashed = _absorb(state, block, key) if block else state
                slot = hashed & mask
                while slots[slot] != _ZERO:  # as in _find, but a call would double the time
                    number = (slots[slot] & _LOW) - _ONE
                    if slots[slot] & ~_LOW == _tag(hashed) and heads[number] == head:
                        if head < _LONGER:
                            break
                        known, next_known = word_starts[number], word_starts[number + _ONE]
                        if _same_rest(text, begin, place, spellings, known, next_known):
                            break
                    slot = (slot + _ONE) & mask
                tokens[token] = np.int64(slots[slot] & _LOW) - 1 if slots[slot] else -1 - begin
                token += 1
            place += 1
        n_tokens[document] = token - bounds[document] // 2


@parallel_kernel
def find_words_in_parallel(
    text: Bytes,
    bounds: Int64s,
    parts: Int64s,
    key: np.uint64,
    table: WordTable,
    tokens: Int32s,
    n_tokens: Int64s,
) -> None:
    """Do the same for all documents; ``parts`` says where each thread's share begins."""
    for part in numba.prange(len(parts) - 1):
        begin, end = parts[part], parts[part + 1]
        find_words(text, bounds, begin, end, key, table, tokens, n_tokens)


@kernel
def number_new_words(
    text: Bytes,
    bounds: Int64s,
    first: int,
    key: np.uint64,
    n_words: int,
    table: WordTable,
    tokens: Int32s,
    n_tokens: Int64s,
) -> tuple[int, int]:
    """Give numbers to words that have none yet, in the order of the text.

    Returns how many words have one now, and the first document for which room may be lacking.
    """
    slots, heads, spellings, word_starts = table
    for document in range(first, len(bounds) - 1):
        begin = bounds[document] // 2
        n_bytes = bounds[document + 1] - bounds[document]
        if n_words + n_tokens[document] >= len(word_starts):
            return n_words, document
        if word_starts[n_words] + n_bytes > len(spellings):
            return n_words, document
        for token in range(begin, begin + n_tokens[document]):
            if tokens[token] >= 0:
                continue
            place = np.int64(-1 - tokens[token])
            end = place
            while LETTERS[text[end]] != 0:
                end += 1
            head, hashed = _head_and_hash(text, place, end, key)
            slot = _find(text, place, end, head, hashed, table)
            if slots[slot] == _ZERO:
                for i in range(end - place):
                    spellings[word_starts[n_words] + i] = LETTERS[text[place + i]]
                word_starts[n_words + 1] = word_starts[n_words] + end - place
                heads[n_words] = head
                n_words += 1
                slots[slot] = _tag(hashed) | np.uint64(n_words)
            tokens[token] = np.int64(slots[slot] & _LOW) - 1
    return n_words, len(bounds) - 1


@kernel
def place_words(key: np.uint64, n_words: int, table: WordTable) -> None:
    """Fill the empty slots of a table with its words, of which no two are equal."""
    slots, _, spellings, word_starts = table
    mask = np.uint64(len(slots) - 1)
    for number in range(n_words):
        _, hashed = _head_and_hash(spellings, word_starts[number], word_starts[number + 1], key)
        slot = hashed & mask
        while slots[slot] != _ZERO:
            slot = (slot + _ONE) & mask
        slots[slot] = _tag(hashed) | np.uint64(number + 1)
