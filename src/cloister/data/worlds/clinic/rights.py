"""Who may read which pod of the clinic world, computed for ranges of pods.

Nothing is stored: a party's draw for a pod is a pure function of (seed, party, pod), and the staff
of a pod are among its latents.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloister.core.counter_random import STREAM_WORDS, next_uniform, start_stream
from cloister.core.ids import AgentId, GroupId
from cloister.core.kernel import kernel
from cloister.core.rights import Rights
from cloister.data.worlds.clinic.case import PatientRow
from cloister.data.worlds.clinic.condition import SPECIALTIES
from cloister.data.worlds.clinic.latents import PURPOSE_ACCESS, Latents
from cloister.data.worlds.clinic.sites import Server, StaffMember, specialty_group

__all__ = ["granted_to_party", "granted_to_staff", "rights_of_pod"]


@kernel
def _fill_granted(seed: int, level: int, start: int, out: NDArray[np.bool_]) -> None:
    state = np.zeros(STREAM_WORDS, np.uint32)
    for i in range(len(out)):
        start_stream(state, seed, level, start + i, PURPOSE_ACCESS)
        out[i] = next_uniform(state) < level / 100.0


def granted_to_party(seed: int, level: int, start: int, stop: int) -> NDArray[np.bool_]:
    """Say which pods the search party of an access level may read; 100 per cent is all.

    Examples
    --------
    >>> float(granted_to_party(1, 25, 0, 100_000).mean().round(2))
    0.25
    """
    out = np.empty(max(0, stop - start), np.bool_)
    _fill_granted(seed, level, start, out)
    return out


def granted_to_staff(
    member: StaffMember, number: int, latents: Latents, here: NDArray[Any]
) -> NDArray[np.bool_]:
    """Say which pods a staff member may read.

    Parameters
    ----------
    member, number
        The person, and their place among the staff.
    latents
        Of the pods asked about.
    here
        Which of these pods lie with the person's organisation.
    """
    cares: NDArray[np.bool_] = latents.doctor == number
    cares |= latents.deputy == number
    cares |= latents.nurse == number
    if member.specialty:
        cares |= here & (latents.referred == SPECIALTIES.index(member.specialty))
    return cares


def rights_of_pod(
    owner: AgentId,
    row: PatientRow,
    server: Server,
    staff: tuple[StaffMember, ...],
    parties: list[AgentId],
) -> Rights:
    """Return who may read a pod, given the search parties that may."""
    carers = (staff[i].agent_id for i in (row.doctor, row.deputy, row.nurse) if i >= 0)
    groups = (
        frozenset({specialty_group(server.organisation, SPECIALTIES[row.referred])})
        if row.referred >= 0
        else frozenset[GroupId]()
    )
    return Rights(owner=owner, agents=frozenset((*carers, *parties)), groups=groups)
