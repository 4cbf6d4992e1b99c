from __future__ import annotations

import hashlib
import os
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from cloister.privacy.secure_aggregation import (
    AggregationFailed,
    FixedPoint,
    Session,
    Stage,
    run_round,
)
from cloister.privacy.secure_aggregation.client import AggregationClient
from cloister.privacy.secure_aggregation.messages import RevealedShares, SurvivorSignatures
from privacy.secure_aggregation.parties import Party, identities_of, session_of

STAGES = [stage for stage in Stage if stage < Stage.DONE]


@settings(max_examples=1000)
@given(st.data())
def test_sums_are_exact_with_dropouts_at_every_stage(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 6), label="n")
    threshold = data.draw(st.integers(n // 2 + 1, n), label="t")
    n_values = data.draw(st.integers(1, 5), label="values")
    session = session_of(n, max(threshold, 2), n_values=n_values)
    names = list(session.members)
    silent = data.draw(st.permutations(names))[
        : data.draw(st.integers(0, n - session.min_survivors))
    ]
    dropouts = {name: data.draw(st.sampled_from(STAGES)) for name in silent}
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32), label="inputs"))
    largest = 2 ** data.draw(st.sampled_from((1, 20, 40)), label="largest")
    inputs = {name: rng.integers(-largest, largest + 1, n_values).tolist() for name in names}
    found = run_round(
        session, identities_of(n), lambda name, _: np.array(inputs[name]), dropouts=dropouts
    )
    summed = [n for n in names if dropouts.get(n, Stage.DONE) > Stage.MASK_INPUT]
    assert list(found.client_ids) == summed
    literal = [sum(inputs[name][i] for name in summed) for i in range(n_values)]
    assert session.fixed_point.decode_counts(found.total, n_clients=len(summed)).tolist() == literal


@pytest.mark.parametrize("stage", STAGES)
def test_one_dropout_too_many_at_any_stage_reveals_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of(6, 4)
    revealed: list[RevealedShares] = []
    true_reveal = AggregationClient.reveal_shares

    def watched(client: AggregationClient, signed: SurvivorSignatures) -> RevealedShares:
        revealed.append(true_reveal(client, signed))
        return revealed[-1]

    monkeypatch.setattr(AggregationClient, "reveal_shares", watched)
    with pytest.raises(AggregationFailed, match=r"3 clients .* 4 are needed"):
        run_round(
            session,
            identities_of(6),
            lambda name, n: [1, 2, 3],
            dropouts={f"client-{i}": stage for i in range(3)},
        )
    # At the last stage three clients have spoken: one share less of each secret than open it.
    assert len(revealed) == (3 if stage is Stage.REVEAL_SHARES else 0)


def test_after_a_failed_stage_neither_side_goes_on() -> None:
    party = Party(5, 4)
    told = party.mask()
    signed = [client.sign_survivors(told) for client in party.clients.values()]
    for message in signed[:3]:  # one signature less than the threshold
        party.server.add_signature(message)
    with pytest.raises(AggregationFailed, match="3 clients signed"):
        party.server.close_signatures()
    with pytest.raises(AggregationFailed, match="STOPPED"):
        party.server.close()
    assert all(client.stage is Stage.REVEAL_SHARES for client in party.clients.values())


def test_a_ring_gives_exact_sums_with_dropouts_at_every_stage() -> None:
    session = session_of(40, 36, n_values=7, n_colluders=1)
    assert session.plan(40).n_holders < 39
    rng = np.random.default_rng(3)
    inputs = {name: rng.integers(-1000, 1000, 7) for name in session.members}
    for repeat in range(4):
        silent = rng.permutation(session.members)[:4].tolist()
        dropouts = {name: STAGES[(i + repeat) % 6] for i, name in enumerate(silent)}
        found = run_round(session, identities_of(40), lambda n, _: inputs[n], dropouts=dropouts)
        literal = sum(inputs[name] for name in found.client_ids)
        assert session.fixed_point.decode_counts(found.total, n_clients=40).tolist() == (
            literal.tolist()
        )
        assert len(found.client_ids) >= 36


def test_real_vectors_and_the_size_of_u2_reach_the_input() -> None:
    names = identities_of(4)
    session = Session.new(
        names, n_values=1, fixed_point=FixedPoint(bound=4.0), min_survivors=3, n_colluders=0
    )
    found = run_round(session, names, lambda _, n: [1 / n], dropouts={"client-2": Stage.SHARE_KEYS})
    decoded = session.fixed_point.decode(found.total, n_clients=3)
    assert decoded == pytest.approx([1.0], abs=3 * 2**-32)


# --- against a slow, literal version


def test_a_masked_vector_is_the_literal_sum_of_masks() -> None:
    """y_u = x_u + PRG(b_u) + sum over v > u of PRG(s_uv) - sum over v < u of PRG(s_uv)."""
    party = Party(4, 3)
    delivered = party.share()
    for place, (name, client) in enumerate(party.clients.items()):
        client.receive_shares(delivered[name])
        literal = party.vector(place).astype(np.uint64) + _literal_mask(client._seed)
        for peer in range(4):
            if peer != place:
                low, high = sorted((place, peer))
                mask = _literal_mask(_literal_seed(party, low, high))
                literal = literal + mask if place < peer else literal - mask
        assert np.array_equal(client.mask_input(party.vector(place)).values, literal)


def _literal_mask(seed: bytes) -> NDArray[np.uint64]:
    """Encrypt counters 0, 1, ... one block at a time."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    cipher = Cipher(algorithms.AES256(seed), modes.ECB()).encryptor()
    blocks = b"".join(cipher.update(i.to_bytes(16, "big")) for i in range(2))
    return np.array(
        [int.from_bytes(blocks[8 * i : 8 * i + 8], "little") for i in range(3)], np.uint64
    )


def _literal_seed(party: Party, low: int, high: int) -> bytes:
    """HKDF-SHA256 (RFC 5869) written out with HMAC."""
    import hmac

    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    a, b = party[low], party[high]
    secret = a._mask._private.exchange(X25519PublicKey.from_public_bytes(b._mask.public))
    parts = (
        b"cloister secure aggregation: pairwise mask",
        a._transcript.digest,
        low.to_bytes(4, "little"),
        high.to_bytes(4, "little"),
    )
    info = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    extracted = hmac.digest(bytes(32), secret, hashlib.sha256)
    return hmac.digest(extracted, info + b"\x01", hashlib.sha256)


# --- what the server sees of one client is uniform


def _byte_p_value(vectors: list[NDArray[np.uint64]]) -> float:
    """Chi-square of all bytes of many vectors against the uniform law, position by position."""
    table = np.stack(vectors).view(np.uint8)
    pooled = stats.chisquare(np.bincount(table.ravel(), minlength=256)).pvalue
    halves = [stats.chisquare(np.bincount(column >> 5, minlength=8)).pvalue for column in table.T]
    return min(float(pooled), len(halves) * min(map(float, halves)))


def _masked_in_a_new_session(tamper: Callable[[AggregationClient], None]) -> NDArray[np.uint64]:
    party = Party(2, 2, session=session_of(2, 2, n_values=16))
    delivered = party.share()
    client = party[0]
    client.receive_shares(delivered["client-0"])
    tamper(client)
    return client.mask_input(np.full(16, 5)).values


def test_masked_vectors_of_one_fixed_input_are_uniform() -> None:
    assert _byte_p_value([_masked_in_a_new_session(lambda _: None) for _ in range(400)]) > 1e-6


def test_the_test_of_uniformity_sees_constant_masks_and_none() -> None:
    def constant(client: AggregationClient) -> None:
        client._seed = b"0" * 32
        client._holders = (0,)

    assert _byte_p_value([_masked_in_a_new_session(constant) for _ in range(100)]) < 1e-12
    plain = FixedPoint(bound=9.0, scale_bits=0).encode(np.full(16, 5))
    assert _byte_p_value([plain] * 100) < 1e-12
    random = [np.frombuffer(os.urandom(128), np.uint64) for _ in range(400)]
    assert _byte_p_value(random) > 1e-6
