"""``cloister token``: ``key``, ``issue`` and ``show``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cloister.app.output import JsonFlag, command_result, say

__all__ = ["app"]

Result = dict[str, Any]

app = typer.Typer(
    help="Tokens of a node's own issuer, for users where there is no OpenID provider.",
    no_args_is_help=True,
)

KeyFile = Annotated[
    Path, typer.Option("--key", metavar="FILE", help="Made by `cloister token key`.")
]
Federation = Annotated[str, typer.Option(help="The federation's name.")]
Node = Annotated[str, typer.Option(help="The node whose users they are.")]


def _show_key(result: Result) -> None:
    import json

    typer.echo(json.dumps(result["keys"], indent=1))
    say(f"{result['file']}: the key {result['key_id']}; above is its public half, for the roster")


def _show_token(result: Result) -> None:
    if "token" in result:
        typer.echo(result["token"])
    until = f"{result['agent']}, until {result['ends']}"
    say(f"{until}, {'bound to a key' if result['bound'] else 'for whoever has it'}")
    if result["taken_minutes"] < result["minutes"]:
        say(
            f"Nodes take tokens of {result['taken_minutes']:g} minutes at most, unless "
            "users.max_lifetime_s in their settings says more."
        )


def _show_content(result: Result) -> None:
    import json

    if "keys" in result:
        typer.echo(json.dumps(result["keys"], indent=1))
        return
    typer.echo(json.dumps({"header": result["header"], "claims": result["claims"]}, indent=1))
    say(f"{result['state']}; the signature was not looked at")


@app.command("key")
@command_result(_show_key)
def key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file, with mode 0600.")],
    key_id: Annotated[
        str | None, typer.Option("--id", help="Its name.", show_default="from the key itself")
    ] = None,
    as_json: JsonFlag = False,
) -> Result:
    """Draw a key with which a node signs tokens, and print its public half."""
    from cloister.services.token_files import new_issuer_key

    keys = new_issuer_key(file, key_id)
    return {"file": str(file), "key_id": keys["keys"][0]["kid"], "keys": keys}


@app.command("issue")
@command_result(_show_token)
def issue(
    user: Annotated[str, typer.Argument(help="A user of the node: ann, or clinic-a:ann.")],
    federation: Federation,
    node: Node,
    key_file: KeyFile,
    group: Annotated[
        list[str] | None, typer.Option(help="A group of the node's; may be repeated.")
    ] = None,
    minutes: Annotated[
        float,
        typer.Option(
            help="For how long it holds; nodes take 60 unless told otherwise.", min=0.01, max=1440
        ),
    ] = 60.0,
    holder: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Bind the token to this key (a JSON Web Key): each request then needs a proof, "
            "which the routes of nodes do not take yet.",
            show_default="whoever has the token is the user",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A new file, mode 0600; not printed then.")
    ] = None,
    as_json: JsonFlag = False,
) -> Result:
    """Sign a token that says who a user is. You vouch for it: nobody is asked."""
    from cloister.services.token_files import issue_user_token
    from cloister.services.user_tokens import UserTokenSettings

    issued = issue_user_token(
        user,
        federation=federation,
        node=node,
        key_file=key_file,
        groups=group or (),
        lifetime_s=60.0 * minutes,
        holder_file=holder,
    )
    usual_s = UserTokenSettings().max_lifetime_s
    issued |= {"minutes": minutes, "taken_minutes": usual_s / 60.0}
    if out is None:
        return issued
    from cloister.privacy.private_file import write_private_file

    write_private_file(out, issued.pop("token").encode() + b"\n")
    return issued | {"file": str(out)}


@app.command("show")
@command_result(_show_content)
def show(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A token, or a key; - reads standard input.")
    ],
    as_json: JsonFlag = False,
) -> Result:
    """Show what a token says, or a key's public half."""
    from cloister.core.file_errors import explained
    from cloister.services.token_files import token_content

    if file == "-":
        return token_content(sys.stdin.read(100_000))
    with explained(Path(file)):
        return token_content(Path(file).read_text(encoding="utf-8", errors="replace")[:100_000])
