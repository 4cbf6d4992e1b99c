from __future__ import annotations

import pytest

from cloister.core.errors import SettingsError
from cloister.core.ids import DocId, QueryId, checked_id
from cloister.core.records import Result, ResultPage


def test_a_document_that_is_not_on_the_page_has_rank_zero() -> None:
    page = ResultPage(QueryId("q"), (Result(DocId("a"), 1.0),))
    assert page.rank_of(DocId("a")) == 1
    assert page.rank_of(DocId("b")) == 0


@pytest.mark.parametrize("text", ["", "a b", "a\nb", "x" * 513, "\x00"])
def test_text_that_cannot_be_an_id_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        checked_id(text)


def test_a_webid_is_an_id() -> None:
    webid = "https://clinic.example/alice/profile/card#me"
    assert checked_id(webid) == webid
