"""A node's votes: one a user, protected, recorded, and the same when asked again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from cloister.core.errors import BudgetExceeded, DataError, SettingsError
from cloister.core.ids import AgentId
from cloister.federate.online.click_log import ClickLog
from cloister.federate.online.noisy_sign_test import VoteCounts
from cloister.federate.online.page_table import PAGES
from cloister.federate.online.votes import NodeVotes, VoteBox, count_votes
from cloister.privacy.ledger.ledger import Ledger
from cloister.privacy.ledger.limits import Limit
from cloister.privacy.mechanisms.secure_noise import SecureNoise
from cloister.store.database import Database
from federate.online.made_pages import ANN, BOB, made_log, made_page

CAT = AgentId("clinic-a:cat")
TEAMS = (0, 1, 1, 0)


def show(log: ClickLog, agent: AgentId, *ranks: int, trial: str = "t1") -> None:
    page_id = log.show(made_page(agent, trial=trial, teams=TEAMS))
    for rank in ranks:
        log.click(page_id, agent, rank)


def box(log: ClickLog, **fields: Any) -> VoteBox:
    usual: dict[str, Any] = {"party_id": "clinic-a", "source": SecureNoise()}
    return VoteBox(log, Ledger(log.database), **(usual | fields))


def counted(database: Database, trial: str = "t1") -> VoteCounts:
    with database.reading() as connection:
        return count_votes(connection, trial)


def test_each_user_has_one_vote_whatever_it_clicks(database: Database) -> None:
    log = made_log(database)
    for _ in range(5):
        show(log, ANN, 2, 3)  # ten clicks for the candidate
    show(log, BOB, 1)
    show(log, BOB, 2)  # even
    show(log, CAT, 1, 4, 3)  # two to one against
    show(log, CAT, 2, trial="another")
    log.show(made_page(CAT))
    assert counted(database) == VoteCounts(1, 1)


def test_the_same_bytes_come_again_and_one_release_is_recorded(database: Database) -> None:
    log = made_log(database)
    show(log, ANN, 2)
    first = box(log, epsilon=0.5).cast("t1")
    votes = NodeVotes.from_bytes(first)
    assert (votes.trial, votes.epsilon) == ("t1", 0.5)
    assert box(log, epsilon=0.5).cast("t1") == first  # started again
    ledger = Ledger(database)
    (entry,) = ledger.entries()
    assert (entry.party_id, entry.recipient) == ("clinic-a", "coordinator")
    assert ledger.payload(entry.number) == first
    assert ledger.cost("clinic-a", delta=1e-9).epsilon == pytest.approx(0.5, rel=1e-3)
    box(log).delivered("t1")
    box(log).delivered("t1")
    assert not ledger.pending()
    assert box(log).cast("t1") == first


def test_votes_that_are_asked_for_twice_at_once_are_cast_once(database: Database) -> None:
    log = made_log(database)
    show(log, ANN, 2)
    boxes = [box(log) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        cast = set(pool.map(lambda one: one.cast("t1"), boxes))
    assert len(cast) == 1
    assert len(Ledger(database).entries()) == 1


def test_the_trials_pages_are_gone_once_votes_are_cast(database: Database) -> None:
    log = made_log(database)
    show(log, ANN, 2)
    show(log, ANN, 2, trial="t2")
    log.show(made_page(ANN))
    box(log).cast("t1")
    with database.reading() as connection:
        assert sorted(connection.scalars(sa.select(PAGES.c.trial))) == ["", "t2"]


def test_a_node_over_its_limit_casts_nothing_and_keeps_its_pages(database: Database) -> None:
    log = made_log(database)
    show(log, ANN, 2)
    ledger = Ledger(database)
    ledger.set_limit("clinic-a", Limit(epsilon=0.9, delta=1e-9), purpose="pilot")
    with pytest.raises(BudgetExceeded):
        box(log, epsilon=1.0).cast("t1")
    assert counted(database) == VoteCounts(1, 0)
    assert len(ledger.entries()) == 1  # the limit
    box(log, epsilon=0.8).cast("t1")


def test_a_crash_before_the_commit_leaves_nothing_cast(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = made_log(database)
    show(log, ANN, 2)
    votes = box(log)

    def killed(*arguments: object, **fields: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("cloister.federate.online.votes._CAST.put", killed)
        with pytest.raises(KeyboardInterrupt):
            votes.cast("t1")
    assert counted(database) == VoteCounts(1, 0)
    assert not Ledger(database).entries()
    assert votes.cast("t1") == votes.cast("t1")


def test_noise_differs_between_nodes_and_is_of_the_stated_width(database: Database) -> None:
    """Of counts of 0, the mean absolute noise of scale 5 is 2p / (1 - p^2), p = exp(-1/5)."""
    votes = box(made_log(database), epsilon=0.2)
    cast = [NodeVotes.from_bytes(votes.cast(f"t{i}")) for i in range(60)]
    noise = np.abs([(one.wins, one.losses) for one in cast])
    p = np.exp(-0.2)
    assert abs(noise.mean() - 2 * p / (1 - p * p)) < 2.3  # five standard errors of 120 draws


users = st.dictionaries(
    st.integers(0, 5),
    st.lists(st.lists(st.booleans(), min_size=4, max_size=4), max_size=3),
    max_size=5,
)


@settings(max_examples=60)
@given(everyone=users, one=st.integers(0, 5))
def test_one_user_more_or_less_changes_the_counts_by_one_in_sum(
    everyone: dict[int, list[list[bool]]], one: int
) -> None:
    without = {user: pages for user, pages in everyone.items() if user != one}
    all_counts, fewer = (np.array(_counts_of(pages)) for pages in (everyone, without))
    assert np.abs(all_counts - fewer).sum() <= 1


def _counts_of(pages: dict[int, list[list[bool]]]) -> VoteCounts:
    """Count in a table in memory: rows as the log writes them."""
    rows = [
        {"agent": str(user), "trial": "t", "teams": bytes(TEAMS), "clicks": bytes(clicks)}
        for user, shown in pages.items()
        for clicks in shown
    ]
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE {PAGES.name} (agent, trial, teams, clicks)")
        if rows:
            connection.execute(PAGES.insert(), rows)
        found = count_votes(connection, "t")
    engine.dispose()
    return found


def test_what_are_no_votes_is_refused(database: Database) -> None:
    for content in (b"", b"{}", b'{"trial":"t","epsilon":1,"wins":0.5,"losses":0}', b"\xff", b"[]"):
        with pytest.raises(DataError, match="not a node's votes"):
            NodeVotes.from_bytes(content)
    log = made_log(database)
    with pytest.raises(SettingsError, match="epsilon"):
        box(log, epsilon=0.0)
    with pytest.raises(SettingsError, match="an id"):
        box(log).cast("")
