"""The *clinic* world: organisations, servers, a pod for each patient, staff, judged queries."""

from cloister.data.worlds.clinic.files import read_rights, write_clinic
from cloister.data.worlds.clinic.settings import ClinicSettings
from cloister.data.worlds.clinic.world import ClinicWorld, Patient, Pod

__all__ = ["ClinicSettings", "ClinicWorld", "Patient", "Pod", "read_rights", "write_clinic"]
