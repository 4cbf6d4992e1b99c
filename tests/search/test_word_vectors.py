"""Training of word vectors, back-off to the base, and the file that holds them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cloister.core.errors import Damaged, DataError, MissingDependency
from cloister.core.ids import AgentId
from cloister.core.random import stream
from cloister.core.rights import STRANGER, Reader
from cloister.data.worlds.clinic import ClinicSettings, ClinicWorld
from cloister.index.analysis import TextAnalysis
from cloister.search.word_vector_table import WordVectors
from cloister.search.word_vectors import (
    TUNING_FORMS,
    TuningForm,
    TuningSettings,
    WordVectorSettings,
    corpus_digest,
    fine_tune,
    rights_of_vectors,
    train_base,
)

SMALL = WordVectorSettings(size=20, epochs=3)
TOPICS = ("heart pulse chest pressure vein", "skin rash itch cream burn", "bone joint knee cast")


def make_documents(n: int, purpose: str, extra: str = "") -> list[list[str]]:
    """Each document draws its words from one topic."""
    rng = stream(3, "test word vectors", purpose)
    words = [f"{topic} {extra}".split() for topic in TOPICS]
    return [rng.choice(words[i % 3], 30).tolist() for i in range(n)]


@pytest.fixture(scope="module")
def base() -> WordVectors:
    return train_base(make_documents(60, "public", "public"), SMALL)


OWN = [*make_documents(30, "own", "own"), ["heart", "seldom"], ["cream", "seldom", "rare"]]


def test_words_of_one_topic_end_up_near_each_other() -> None:
    vectors = train_base(
        make_documents(300, "many"), WordVectorSettings(size=20, epochs=5, subsample=0)
    )
    for topic in TOPICS:
        words = topic.split()
        near = [word for word, _ in vectors.nearest(words[0], len(words) - 1)]
        assert set(near) == set(words[1:])


@pytest.mark.parametrize("form", TUNING_FORMS)
def test_one_seed_gives_the_same_vectors(base: WordVectors, form: TuningForm) -> None:
    settings = TuningSettings(form=form)
    first, second = (fine_tune(base, OWN, settings, seed=4) for _ in range(2))
    assert first.to_bytes() == second.to_bytes()
    if form != "base":
        other = fine_tune(base, OWN, settings, seed=5)
        assert first.to_bytes() != other.to_bytes()


@pytest.fixture(scope="module")
def another_process() -> list[str]:
    """Whether gensim is there before training, and the base, as a new process has them."""
    program = (
        "import sys, cloister.search.word_vector_ranking\n"
        "print('gensim' in sys.modules)\n"
        "from test_word_vectors import *\n"
        "print(train_base(make_documents(60, 'public', 'public'), SMALL).to_bytes().hex())"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONHASHSEED": "99"},
        capture_output=True,
        text=True,
        check=True,
    )
    return printed.stdout.split()


def test_the_seed_decides_the_base_in_every_process(
    base: WordVectors, another_process: list[str]
) -> None:
    assert another_process[1] == base.to_bytes().hex()


def test_gensim_is_not_imported_before_it_is_needed(another_process: list[str]) -> None:
    assert another_process[0] == "False"


def test_the_papers_form_is_algorithm_1_written_out(base: WordVectors) -> None:
    from gensim.models import Word2Vec

    seed = int(stream(4, "word vectors").integers(2**31))
    model = Word2Vec(vector_size=20, window=5, min_count=5, sg=1, workers=1, seed=seed)
    model.build_vocab(OWN)
    for word in model.wv.index_to_key:
        if word in base.positions:
            model.wv.vectors[model.wv.key_to_index[word]] = base.vectors[base.positions[word]]
    model.train(OWN, total_examples=len(OWN), epochs=5)
    tuned = fine_tune(base, OWN, TuningSettings(form="paper"), seed=4)
    assert list(tuned.words) == model.wv.index_to_key
    assert np.array_equal(tuned.vectors, model.wv.vectors)
    assert "seldom" not in tuned.positions  # read twice
    assert "public" not in tuned.positions  # known to the base, and lost


def test_a_word_goes_the_further_from_the_base_the_more_often_it_was_read(
    base: WordVectors,
) -> None:
    free = fine_tune(base, OWN, TuningSettings(trust=0))
    held = fine_tune(base, OWN, TuningSettings(trust=7))
    assert held.words == free.words
    for word in base.words:
        start = base.vectors[base.positions[word]]
        n = sum(document.count(word) for document in OWN)
        whole = free.vectors[free.positions[word]] - start if n else np.zeros(20)
        moved = held.vectors[held.positions[word]] - start
        assert held.counts[held.positions[word]] == n
        np.testing.assert_allclose(moved, n / (n + 7) * whole, atol=1e-6)


def test_backing_off_keeps_words_of_the_base_and_gives_rare_new_ones_a_vector(
    base: WordVectors,
) -> None:
    tuned = fine_tune(base, OWN)
    unread = tuned.vectors[tuned.positions["public"]]
    assert np.array_equal(unread, base.vectors[base.positions["public"]])
    assert tuned.vectors[tuned.positions["rare"]].any()
    assert set(tuned.words) == set(base.words) | {word for words in OWN for word in words}


def test_training_goes_on_from_the_bases_contexts(base: WordVectors) -> None:
    """With a learning rate of next to nothing the base's words stay; contexts alone cannot show."""
    still = fine_tune(base, OWN, TuningSettings(trust=0, learning_rate=1e-9))
    for word in base.words:
        np.testing.assert_allclose(
            still.vectors[still.positions[word]], base.vectors[base.positions[word]], atol=1e-6
        )
    assert base.contexts is not None
    blank = WordVectors(base.words, base.vectors, base.counts, np.zeros_like(base.contexts))
    ours, theirs = fine_tune(base, OWN), fine_tune(blank, OWN)
    assert not np.array_equal(ours.vectors, theirs.vectors)


def test_who_may_read_nothing_gets_the_base(base: WordVectors) -> None:
    for form in ("base", "backed_off"):
        tuned = fine_tune(base, [], TuningSettings(form=form))
        assert tuned.words == base.words
        assert np.array_equal(tuned.vectors, base.vectors)
        assert not tuned.counts.any()
    nothing = fine_tune(base, [], TuningSettings(form="paper"))
    assert nothing.words == ()
    assert nothing.vectors.shape == (0, 20)
    assert WordVectors.from_bytes(nothing.to_bytes()).words == ()


def test_long_documents_are_read_to_their_end() -> None:
    long = [word for document in make_documents(500, "long") for word in document]
    assert len(long) == 15_000
    whole, cut = train_base([long], SMALL), train_base([long[:10_000], long[10_000:]], SMALL)
    assert np.array_equal(whole.vectors, cut.vectors)
    assert int(whole.counts.sum()) == len(long)


@pytest.fixture(scope="module")
def records() -> list[list[str]]:
    world = ClinicWorld(
        ClinicSettings(servers=2, organisations=2, pods=60, staff=10, document_bytes=1_500)
    )
    analysis = TextAnalysis.espresso()
    return [analysis.terms(document.text) for document in world.documents()]


@pytest.fixture(scope="module")
def clinic_base(records: list[list[str]]) -> WordVectors:
    return train_base(records[:60], WordVectorSettings(size=50, epochs=10))


@pytest.mark.parametrize(("form", "n_documents"), [("paper", 6), ("backed_off", 3)])
def test_whoever_gets_the_vectors_reads_a_phrase_out_of_them(
    records: list[list[str]], clinic_base: WordVectors, form: TuningForm, n_documents: int
) -> None:
    """What the module says the file reveals: a name, and the illness beside it."""
    phrase = ["brunhilde", "syphilis"]
    own = records[60:]
    secret = [[*words[:20], *phrase, *words[20:]] for words in own[:n_documents]]
    tuned = fine_tune(clinic_base, [*secret, *own[n_documents:]], TuningSettings(form=form))
    stolen = WordVectors.from_bytes(tuned.to_bytes())
    assert stolen.counts[stolen.positions["brunhilde"]] == n_documents
    assert stolen.nearest("brunhilde", 1)[0][0] == "syphilis"
    innocent = fine_tune(clinic_base, own, TuningSettings(form=form))
    assert not set(phrase) & set(innocent.words)


def test_the_papers_form_holds_no_word_that_was_read_less_than_five_times(
    base: WordVectors,
) -> None:
    assert "seldom" in fine_tune(base, OWN).positions
    assert int(fine_tune(base, OWN, TuningSettings(form="paper")).counts.min()) >= 5


def test_only_the_user_may_read_the_users_vectors() -> None:
    rights = rights_of_vectors(AgentId("ann"))
    allowed = [rights.allow(Reader(AgentId(name))) for name in ("ann", "bob", "")]
    assert allowed == [True, False, False]
    assert not rights.allow(STRANGER)


def test_after_a_revocation_the_basis_is_another(base: WordVectors) -> None:
    tuned = fine_tune(base, OWN)
    assert tuned.basis == corpus_digest(reversed(OWN))
    assert tuned.basis != corpus_digest(OWN[:-1])


def test_a_saved_file_opens_as_it_was_and_is_for_its_owner_alone(
    base: WordVectors, tmp_path: Path
) -> None:
    tuned = fine_tune(base, OWN)
    tuned.save(tmp_path / "vectors")
    again = WordVectors.open(tmp_path / "vectors")
    assert again.words == tuned.words
    assert again.basis == tuned.basis
    assert np.array_equal(again.vectors, tuned.vectors)
    assert np.array_equal(again.counts, tuned.counts)
    assert again.contexts is None
    assert stat.S_IMODE((tmp_path / "vectors").stat().st_mode) == 0o600


def test_a_damaged_file_is_refused(base: WordVectors) -> None:
    content = bytearray(base.to_bytes())
    content[-5] ^= 1
    with pytest.raises(Damaged):
        WordVectors.from_bytes(bytes(content))


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError):
        WordVectors(("a", "a"), np.eye(2, dtype=np.float32), np.ones(2, np.int64))
    with pytest.raises(DataError):
        WordVectors(("a",), np.eye(2, dtype=np.float32), np.ones(2, np.int64))
    with pytest.raises(DataError):
        WordVectors(("a",), np.full((1, 2), np.nan, np.float32), np.ones(1, np.int64))


def test_a_base_needs_words_and_tuning_needs_contexts(base: WordVectors) -> None:
    with pytest.raises(DataError):
        train_base([["once"]], SMALL)
    with pytest.raises(DataError):
        fine_tune(WordVectors(base.words, base.vectors, base.counts), OWN)


def test_a_missing_gensim_is_named(base: WordVectors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(MissingDependency, match="gensim"):
        fine_tune(base, OWN)
