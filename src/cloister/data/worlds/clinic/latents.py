"""What is true of each patient, before a word is written.

Texts are rendered from these latents and relevance is decided by them.
`cloister.data.worlds.clinic.patient_kernel` draws them.
"""

from __future__ import annotations

import datetime
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["AS_OF", "Latents", "MAX_PROBLEMS", "SitesOfPods", "YEAR", "empty_latents"]

AS_OF: Final = datetime.date(2025, 1, 1).toordinal()  # nothing in the records is later
MAX_PROBLEMS: Final = 12
MAX_FAMILY: Final = 3
MAX_ALLERGIES: Final = 2

# Purposes of the random streams: two letters that say "clinic", and a number.
PURPOSE_LATENTS: Final = 0x434C0001
PURPOSE_ACCESS: Final = 0x434C0002
PURPOSE_TEXT: Final = 0x434C0003
PURPOSE_NAMES: Final = 0x434C0004

YEAR: Final = 365.25


class SitesOfPods(NamedTuple):
    """Where pods lie: what the kernel must know about servers and staff."""

    pods: int  # a server
    focus: float
    server_specialty: NDArray[np.int8]
    server_lean: NDArray[np.float64]  # exponent on ages: below 1 older patients, above 1 younger
    server_organisation: NDArray[np.int32]
    doctors: NDArray[np.int32]  # staff numbers of doctors, by organisation
    doctor_offsets: NDArray[np.int64]
    nurses: NDArray[np.int32]
    nurse_offsets: NDArray[np.int64]


class Latents(NamedTuple):
    """The patients of a range of pods: one row a pod, -1 where there is nothing.

    A patient has up to 12 problems; the first is the principal one. ``onset``, ``birth`` and
    ``record_start`` count days as `datetime.date.toordinal` does. Severity is 1 to 3.
    """

    birth: NDArray[np.int32]
    sex: NDArray[np.int8]  # 0 female, 1 male
    record_start: NDArray[np.int32]
    smoking: NDArray[np.int8]  # 0 never, 1 formerly, 2 now
    size_factor: NDArray[np.float32]
    condition: NDArray[np.int16]  # [pod, problem]
    onset: NDArray[np.int32]
    severity: NDArray[np.int8]
    wording: NDArray[np.int8]  # which of the condition's names this patient's record uses
    symptom: NDArray[np.int8]  # the leading one
    drug: NDArray[np.int8]
    family: NDArray[np.int16]  # [pod, entry]: conditions of relatives
    relative: NDArray[np.int8]
    allergy: NDArray[np.int8]  # [pod, entry]
    doctor: NDArray[np.int32]  # number of the staff member
    deputy: NDArray[np.int32]
    nurse: NDArray[np.int32]
    referred: NDArray[np.int8]  # specialty that also cares for the patient

    @property
    def age(self) -> NDArray[np.int32]:
        """Age in whole years."""
        return ((AS_OF - self.birth) / YEAR).astype(np.int32)

    @property
    def main(self) -> NDArray[np.bool_]:
        """Which problems are main ones: the principal problem, and every severe one."""
        main: NDArray[np.bool_] = self.severity == 3
        main[:, 0] = True
        return main


def empty_latents(n: int) -> Latents:
    """Return room for ``n`` patients, filled with -1."""
    shapes = {
        "condition": MAX_PROBLEMS, "onset": MAX_PROBLEMS, "severity": MAX_PROBLEMS,
        "wording": MAX_PROBLEMS, "symptom": MAX_PROBLEMS, "drug": MAX_PROBLEMS,
        "family": MAX_FAMILY, "relative": MAX_FAMILY, "allergy": MAX_ALLERGIES,
    }  # fmt: skip
    types = {
        "birth": np.int32, "record_start": np.int32, "size_factor": np.float32,
        "condition": np.int16, "onset": np.int32, "family": np.int16,
        "doctor": np.int32, "deputy": np.int32, "nurse": np.int32,
    }  # fmt: skip
    return Latents(
        **{
            name: np.full((n, shapes[name]) if name in shapes else n, -1, types.get(name, np.int8))
            for name in Latents._fields
        }
    )
