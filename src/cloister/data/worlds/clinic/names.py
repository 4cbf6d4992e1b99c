"""Names of the clinic world: a short list of given names, and invented names without end.

An invented name is spelt from its rank: no table is kept, and equal ranks give equal names in every
process. Ranks are drawn by a Zipf law, which gives the texts the long tail of rare words that real
notes have from people, places, firms and products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import STREAM_WORDS, next_uniform, philox, start_stream
from cloister.core.kernel import kernel

__all__ = [
    "BRAND", "FAMILY_NAME", "GIVEN_NAMES", "NameShape", "PLACE", "random_words", "spell",
    "zipf_ranks",
]  # fmt: skip

OFFSET: Final = 54_321  # the alphabet's place of rank 0
SHIFT: Final = 10.0  # of the Zipf-Mandelbrot law: no name is as frequent as "the"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


GIVEN_NAMES: Final = (  # women, men
    _words("""
        Anna Maria Emma Laura Julia Sarah Nina Eva Clara Ruth Leila Ines Helen Marta Olga Sofia
        Alice Irene Paula Greta Amina Rosa Edith Vera Joan Zoe Farah Nadia Lena Hanna Beatrice
        Priya Mei Yuki Fatima Elsa Ida Marie Louise Dora Agnes Carla Silvia Tessa Monica Judith
        Ayse Chiara Bridget Harriet Stella Miriam Noor Teresa Lucia Ewa Katarina Sunita Akua
        Thandi Mabel Gwen Dorothea Ottilie Philippa Rosalind Xenia Zainab Svetlana Marguerite
    """),
    _words("""
        Thomas Peter David Martin Paul John Lukas Daniel Simon Felix Omar Karl Anton Hugo Samuel
        Leo Victor Oscar Ivan Marco Adam Erik Jonas Ali Stefan Walter George Frank Emil Hassan
        Raj Kenji Wei Pavel Jan Luis Diego Andre Henry Arthur Otto Bruno Albert Yusuf Tariq
        Gareth Angus Liam Conor Mateo Nikolai Piotr Sanjay Kwame Themba Reginald Ambrose Lionel
        Cedric Theodore Humphrey Ignatius Zoltan Vikram Tobias Sebastian Rupert Leopold Casimir
    """),
)


class NameShape(NamedTuple):
    """How names of one kind are spelt: a beginning and an end."""

    beginnings: tuple[str, ...]
    ends: tuple[str, ...]
    stride: int  # shares no divisor with the size: spreads neighbouring ranks over the alphabet
    size: int  # how many different names there are


_ONSETS = _words("""
    b br c ch cl cr d dr f fl fr g gl gr h j k kn l m n p pl pr qu r s sh sl st str t th tr v w wh
    y z
""")
_VOWELS = _words("a e i o u ai ea ee oa ou")
_MIDDLES = _words("b bl d g l ld ll m mb n nd ng nn p r rk rl rn rt s st t th v x")


def _shape(ends: str, stride: int) -> NameShape:
    first = tuple(onset.capitalize() + vowel for vowel in _VOWELS for onset in _ONSETS)
    last = tuple(middle + end for end in _words(ends) for middle in _MIDDLES)
    return NameShape(first, last, stride, len(first) * len(last))


FAMILY_NAME: Final = _shape(
    "ack ard arez ari ei el enko er escu etti ey i ian ic in is o off olt on os ow um us", 104_729
)
PLACE: Final = _shape(
    "aby acre and angate armouth arth ebridge ecombe edale efield eford eham ehurst emere emoor "
    "estead eton ewell ewick eworth ey illo ona",
    99_991,
)
BRAND: Final = _shape(
    "a afix agen alis amol aquil ara avex axa edra enta epro era ess estra evia exin idex ilo imed "
    "ino ira ivo olux",
    98_689,
)


def spell(shape: NameShape, rank: int) -> str:
    """Return the name of a rank, from 0; different ranks below the shape's size differ.

    Examples
    --------
    >>> spell(PLACE, 0), spell(PLACE, 1), spell(PLACE, 2)
    ('Trirarth', 'Sleastestead', 'Pradangate')
    """
    end, beginning = divmod((rank * shape.stride + OFFSET) % shape.size, len(shape.beginnings))
    return shape.beginnings[beginning] + shape.ends[end]


@kernel
def _fill_words(state: Any, out: NDArray[np.uint32]) -> None:
    """Fill with the next words of a stream, from whole blocks of four."""
    for i in range(0, len(out), 4):
        words = philox(state[2], state[3], state[4], state[5], state[0], state[1])
        out[i], out[i + 1], out[i + 2], out[i + 3] = words
        state[2] += np.uint32(1)


@kernel
def _fill_zipf(state: Any, n: int, exponent: float, out: NDArray[np.int64]) -> None:
    """Fill with ranks 0 to n - 1 whose chance falls as (rank + shift) ** -exponent, nearly.

    A continuous power law is inverted and cut to whole numbers (Zipf-Mandelbrot).
    """
    low, high, power = SHIFT, n + SHIFT, 1.0 - exponent
    for i in range(len(out)):
        u = next_uniform(state)
        if abs(power) < 1e-9:
            place = low * (high / low) ** u
        else:
            place = (u * (high**power - low**power) + low**power) ** (1.0 / power)
        out[i] = min(int(place - low), n - 1)


def random_words(seed: int, client: int, purpose: int, *, chunk: int = 192) -> Callable[[], int]:
    """Return a function that gives the next 32 random bits of one stream, without end."""
    return chain.from_iterable(_word_chunks(seed, client, purpose, chunk)).__next__


def zipf_ranks(
    seed: int, client: int, purpose: int, *, n: int, exponent: float, chunk: int = 96
) -> Callable[[], int]:
    """Return a function that gives the next Zipfian rank of one stream, without end."""
    return chain.from_iterable(_rank_chunks(seed, client, purpose, n, exponent, chunk)).__next__


def _word_chunks(seed: int, client: int, purpose: int, chunk: int) -> Iterator[list[int]]:
    state, out = np.zeros(STREAM_WORDS, np.uint32), np.empty(chunk, np.uint32)
    start_stream(state, seed, 0, client, purpose)
    while True:
        _fill_words(state, out)
        yield out.tolist()


def _rank_chunks(
    seed: int, client: int, purpose: int, n: int, exponent: float, chunk: int
) -> Iterator[list[int]]:
    state, out = np.zeros(STREAM_WORDS, np.uint32), np.empty(chunk, np.int64)
    start_stream(state, seed, 0, client, purpose)
    while True:
        _fill_zipf(state, n, exponent, out)
        yield out.tolist()
