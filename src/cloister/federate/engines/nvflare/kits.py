"""Startup kits: what each participant of an NVFlare federation needs to find and to trust others.

`make_kits` uses NVFlare's own provisioning: a private certificate authority, a kit for the server,
for each site and for the operator, and mutual TLS between them all. To every kit it adds what the
participant allows (`local_policy`), and which of them it is.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from shutil import move
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field, field_validator

from cloister.core.errors import CloisterError, MissingDependency, NotFound, SettingsError
from cloister.core.settings import Settings
from cloister.federate.engines.nvflare.local_policy import write_policy

__all__ = [
    "AUTHORITY",
    "COORDINATOR_FILE",
    "SITE_FILE",
    "Kit",
    "KitProject",
    "KitRole",
    "Kits",
    "find_kits",
    "kits_with_processes",
    "link_files",
    "make_kits",
    "read_kit",
]

KitRole = Literal["server", "site", "operator"]
KIT_FILE: Final = "cloister-kit.json"  # in the kit's folder
COORDINATOR_FILE: Final = "coordinator.toml"  # in the folder ``local`` of the server's kit
SITE_FILE: Final = "site.toml"  # in the folder ``local`` of a site's kit
AUTHORITY: Final = "authority"  # the folder with the private key of the certificate authority
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class KitProject(Settings):
    """Who takes part.

    Parameters
    ----------
    name
        Of the federation.
    sites
        Their names, as in the roster.
    server
        The name by which all others reach the server; its certificate holds for this one.
    port
        Where it listens.
    operator
        Who may submit trainings: a name like an address of electronic mail.
    scheme
        How messages travel inside TLS; all three were measured, ``tcp`` is the quickest.
    """

    name: str = "cloister"
    sites: tuple[str, ...] = Field(min_length=1)
    server: str = "localhost"
    port: int = Field(ge=1, le=65535)
    operator: str = "operator@cloister.local"
    scheme: Literal["tcp", "grpc", "http"] = "tcp"

    @field_validator("sites")
    @classmethod
    def _usable(cls, sites: tuple[str, ...]) -> tuple[str, ...]:
        wrong = [site for site in sites if not _NAME.fullmatch(site)]
        if wrong or len(set(sites)) != len(sites):
            raise ValueError("sites have different names of small letters, digits and -")
        return sites

    def to_nvflare(self) -> dict[str, Any]:
        """Return NVFlare's own description of a project, as a project file has it."""
        server = {"name": self.server, "type": "server", "org": "coordinator"}
        ports = {"fed_learn_port": self.port, "admin_port": self.port}
        operator = {"name": self.operator, "type": "admin", "org": "coordinator", "role": "lead"}
        sites = [{"name": s, "type": "client", "org": s.replace("-", "_")} for s in self.sites]
        return {
            "api_version": 3,
            "name": self.name,
            "description": "a federation of Cloister",
            "participants": [server | ports, *sites, operator],
        }


class Kit(Settings):
    """Whose kit a folder is.

    Parameters
    ----------
    name
        The participant's.
    role
        What it does.
    org
        Its organization, as its certificate has it.
    """

    name: str
    role: KitRole
    org: str


class Kits(NamedTuple):
    """Where the kits of a federation are.

    Parameters
    ----------
    server, operator
        Their folders.
    sites
        Folders by name.
    """

    server: Path
    operator: Path
    sites: Mapping[str, Path]


def make_kits(folder: Path, project: KitProject) -> Kits:
    """Make the kits of all participants in a new folder.

    Whoever runs this holds all private keys until kits are handed out, and the authority's
    afterwards: a trusted party, on a machine of its own. Hand out each kit by a safe way, and put
    the folder ``authority`` away.
    """
    if folder.exists() and any(folder.iterdir()):
        raise SettingsError("there is something already", where=str(folder))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    made = _provisioned(folder / AUTHORITY, project)
    orgs = {p["name"]: p["org"] for p in project.to_nvflare()["participants"]}
    roles: dict[str, KitRole] = dict.fromkeys(project.sites, "site")
    roles |= {project.server: "server", project.operator: "operator"}
    for name, role in roles.items():
        kit = Kit(name=name, role=role, org=orgs[name])
        target = folder / (
            "operator" if role == "operator" else "server" if role == "server" else name
        )
        move(made / name, target)
        target.chmod(0o700)
        (target / KIT_FILE).write_text(kit.model_dump_json() + "\n", encoding="utf-8")
        write_policy(target, kit.role)
    return find_kits(folder)


def find_kits(folder: Path) -> Kits:
    """Return the kits of a folder that `make_kits` has made."""
    found = {path.parent: read_kit(path.parent) for path in sorted(folder.glob(f"*/{KIT_FILE}"))}
    by_role = {kit.role: path for path, kit in found.items()}
    if "server" not in by_role or "operator" not in by_role:
        raise NotFound("no kits of a federation", where=str(folder))
    sites = {kit.name: path for path, kit in found.items() if kit.role == "site"}
    return Kits(by_role["server"], by_role["operator"], sites)


def read_kit(folder: Path) -> Kit:
    """Return whose kit a folder is."""
    try:
        return Kit.model_validate_json((folder / KIT_FILE).read_bytes())
    except FileNotFoundError:
        raise NotFound("not a startup kit", where=str(folder)) from None


def kits_with_processes(places: Iterable[Path]) -> list[Path]:
    """Return the kits of the server and of sites, the server first, from kits and their folders."""
    found: dict[Path, Kit] = {}
    for place in places:
        if (place / KIT_FILE).exists():
            found[place.absolute()] = read_kit(place)
        else:
            kits = find_kits(place.absolute())
            found |= {kit: read_kit(kit) for kit in (kits.server, *kits.sites.values())}
    wrong = [path for path, kit in found.items() if kit.role == "operator"]
    if wrong:
        raise SettingsError("an operator's kit has no process", where=str(wrong[0]))
    return sorted(found, key=lambda path: (found[path].role != "server", found[path].name))


def link_files(kits: Kits, files: Path) -> None:
    """Let all kits of this machine use the files of one folder, for a trial."""
    wanted = {kits.server / "local" / COORDINATOR_FILE: files / COORDINATOR_FILE}
    wanted |= {kit / "local" / SITE_FILE: files / f"{n}.toml" for n, kit in kits.sites.items()}
    for link, file in wanted.items():
        if not file.is_file():
            raise NotFound("no such file", where=str(file))
        link.symlink_to(file.absolute())


def _provisioned(folder: Path, project: KitProject) -> Path:
    """Let NVFlare make kits; return their folder."""
    try:
        from nvflare.lighter.impl.cert import CertBuilder
        from nvflare.lighter.impl.signature import SignatureBuilder
        from nvflare.lighter.impl.static_file import StaticFileBuilder
        from nvflare.lighter.impl.workspace import WorkspaceBuilder
        from nvflare.lighter.provision import prepare_project
        from nvflare.lighter.provisioner import Provisioner
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"{error.name} is not installed", remedy="pip install 'cloister[engines]'"
        ) from None
    static = StaticFileBuilder(
        config_folder="config", scheme=project.scheme, require_signed_jobs=True
    )
    builders = [
        WorkspaceBuilder(),
        static,
        CertBuilder(),
        SignatureBuilder(),
    ]
    told = io.StringIO()
    with redirect_stdout(told):
        context = Provisioner(str(folder), builders).provision(
            prepare_project(project.to_nvflare())
        )
    made = context.get("current_prod_dir")
    if made is None or context.get("build_error"):
        raise CloisterError(f"NVFlare made no kits: {told.getvalue()}", where=str(folder))
    folder.chmod(0o700)
    return Path(made)
