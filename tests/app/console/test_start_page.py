"""The first page, and empty charts: nothing is said that does not hold for this federation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from app.console.browser import Browser
from cloister.app.console.charts import Chart, Series
from cloister.app.console.console import make_console
from cloister.app.console.page import _environment
from cloister.app.console.scene import Scene
from cloister.federate.engines.agreement import SitePrivacy
from cloister.services.federation_folder import FederationFolder, FederationPlan
from services.processes import NODES, clicked_agreement

PRIVACY = SitePrivacy(epsilon=4.0, delta=1e-6, n_rounds=10, n_users=50)
SAYINGS = {
    "masked without noise": (True, None, ["masked updates without noise", "nothing bounds"]),
    "masked with noise": (True, PRIVACY, ["masked updates with noise", "epsilon 4,"]),
    "as they are": (False, None, ["as it is, without mask or noise", "nothing bounds"]),
}


@pytest.mark.parametrize(("secure", "privacy", "said"), SAYINGS.values(), ids=SAYINGS)
def test_the_first_page_says_what_was_agreed_on(
    secure: bool, privacy: SitePrivacy | None, said: list[str], tmp_path: Path
) -> None:
    agreement = clicked_agreement(secure_aggregation=secure, privacy=privacy)
    folder = FederationFolder.make(tmp_path / "f", FederationPlan(nodes=NODES, agreement=agreement))
    with Scene(folder, tmp_path / "home") as scene:
        text = re.sub(r"<[^>]+>", "", Browser(make_console(scene)).get("/start").text)
    for words in said:
        assert words in text
    others = {one for _, _, sayings in SAYINGS.values() for one in sayings} - set(said)
    assert not [one for one in others if one in text]
    assert "Kill a node" not in text  # there is no button for it but in the demo


def test_a_chart_without_values_is_not_drawn() -> None:
    chart = _environment().get_template("parts.html").module.chart  # type: ignore[attr-defined]
    empty = Chart("cost", "Cost", "day", "epsilon", [Series("a", [], [])], x_kind="date")
    assert "nothing to draw yet" in str(chart(empty))
    assert 'class="plot"' not in str(chart(empty))
    some = empty._replace(series=[Series("a", ["2026-01-01"], [1.0])])
    assert 'class="plot"' in str(chart(some))
