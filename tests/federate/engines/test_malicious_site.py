"""One malicious site of five: how far the ranker moves, what the others pay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from cloister.core.errors import Conflict
from cloister.federate.engines.agreement import FederationAgreement, SitePrivacy
from cloister.federate.engines.federation import SiteFederation
from cloister.federate.engines.in_process import InProcessEngine
from cloister.federate.engines.round_failed import RoundFailed
from cloister.federate.engines.site import Site, SiteKeys
from cloister.federate.engines.site_call import SiteId, SiteMethod
from cloister.federate.online.click_log import ClickLog, ClickLogSettings
from cloister.federate.online.click_trainer import ClickTrainer
from cloister.privacy.identity import Directory, SigningIdentity
from cloister.privacy.mechanisms.secure_noise import SecureNoise
from cloister.privacy.secure_aggregation.messages import MaskedInput
from cloister.rank.ranker import RankerSettings
from cloister.store.database import Database


def test_one_site_of_five_moves_the_private_ranker_no_farther_than_all_users_can(
    tmp_path: Path,
) -> None:
    names = [SiteId(f"clinic-{letter}") for letter in "abcde"]
    fields = {"epsilon": 4.0, "delta": 1e-6, "n_rounds": 9, "n_users": 300, "clip_norm": 0.3}
    if "most_users" in SitePrivacy.model_fields:  # version 0.1.0
        fields["most_users"] = 100
    agreement = FederationAgreement(
        name="pilot",
        ranker=RankerSettings(n_features=6),
        min_sites=4,
        n_colluders=1,
        secure_aggregation=True,
        privacy=SitePrivacy(**fields),
    )
    identities = {name: SigningIdentity.generate() for name in names}
    directory = Directory({name: one.public for name, one in identities.items()})
    sites = {}
    for name in names:
        database = Database.open(tmp_path / f"{name}.db")
        trainer = ClickTrainer(ClickLog(database, ClickLogSettings(settle_s=10)), agreement)
        keys = SiteKeys(identities[name], directory, SecureNoise())
        sites[name] = Site(name, agreement, trainer, database, keys=keys)
    most = int(len(names) * agreement.fixed_point.bound * 0.9)  # that decodes without an error
    words = iter([most, *[2**62] * 99])

    class Bent(InProcessEngine):
        def call(self, calls, timeout_s):  # type: ignore[no-untyped-def]
            replies = super().call(calls, timeout_s)
            call = calls.get(names[0])
            if call is not None and call.method is SiteMethod.MASK_INPUT:
                reply = replies[names[0]]
                masked = MaskedInput.from_bytes(reply.payload)
                wrong = masked.values + np.uint64(next(words))
                payload = replace(masked, values=wrong).to_bytes()
                replies[names[0]] = reply._replace(payload=payload)
            return replies

    state = Database.open(tmp_path / "coordinator.db")
    federation = SiteFederation(Bent(sites), state, agreement, directory=directory)
    before = federation.model.copy()
    n_rounds = 0
    for _ in range(8):
        try:
            federation.step()
            n_rounds += 1
        except RoundFailed:
            pass
        except Conflict:  # it was stopped
            federation.resume()
        moved = float(np.linalg.norm(federation.model - before))
        assert moved <= n_rounds * 2 * 0.3  # all 300 users at their most move it by 0.3 a round
    honest = sites[names[1]]
    n_paid = sum(entry.kind == "release" for entry in honest.ledger.entries())
    assert n_rounds >= 3  # it was left out, and the others trained on
    assert n_paid - n_rounds <= len(names)
    for database in [*(site.ledger.database for site in sites.values()), state]:
        database.close()
