"""A whole use of the chat app's half with planted secrets: none is in any log, repr, error, audit entry or
projection (A14).
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.client.activation import ApprovalAdmission
from robot_mcp_kit.client.admitting import Host
from robot_mcp_kit.client.approvals import SqliteApprovals
from robot_mcp_kit.client.authenticating import Authenticator
from robot_mcp_kit.client.book import TaskBook
from robot_mcp_kit.client.calling import CallFailed
from robot_mcp_kit.client.failures import Backoff
from robot_mcp_kit.client.inbox import Inbox
from robot_mcp_kit.client.materializing import materialize
from robot_mcp_kit.client.projection import endpoint, projection
from robot_mcp_kit.client.refusals import RefusedError
from robot_mcp_kit.client.secrets import ServerSecrets
from robot_mcp_kit.client.sources import Tier, read_source
from robot_mcp_kit.client.stdio_transport import StdioAuthority
from robot_mcp_kit.client.supervisor import Supervisor

from .conftest import NOW, Signer
from .hostile import FakeMcp, resolution
from .serving import serving

PLANTED = {
    "ROBOT_TOKEN": "pl4nt3d-1n-4-h34d3r",
    "URL_TOKEN": "pl4nt3d-1n-4-url",
    "ENV_SECRET": "pl4nt3d-1n-3nv",
    "EVENT_SECRET": "pl4nt3d-3v3nt-s3cr3t",
    "ARG_TOKEN": "pl4nt3d-4rgum3nt",
}
MORE = ("pl4nt3d-by-4uth3nt1c4t0r", "pl4nt3d-l1t3r4l", "pl4nt3d-n3w-3v3nt-s3cr3t", "pl4nt3d-in-broken-file")


class Keys(Authenticator):
    async def headers(self, *, refused: bool) -> Mapping[str, str] | None:
        if refused:
            raise RuntimeError(f"the vault refused {MORE[0]}")
        return {"Authorization": f"Bearer {MORE[0]}"}


async def test_no_planted_secret_comes_out_anywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A14, A31, A41: good use and every kind of trouble, with all logging on."""
    caplog.set_level(logging.DEBUG)
    seen: list[str] = []

    def look(*things: Any) -> None:
        for thing in things:
            seen.extend((repr(thing), str(thing)))

    app = FakeMcp()
    server = str(Path(__file__).with_name("stdio_server.py"))
    argv = [sys.executable, server, "good", "--token", "${ARG_TOKEN}"]
    async with serving(app) as url:
        entries: dict[str, Any] = {
            "arm": {
                "type": "http",
                "url": f"{url}/mcp?token=${{URL_TOKEN}}",
                "headers": {
                    "Authorization": "Bearer ${ROBOT_TOKEN}",
                    "X-Key": MORE[1],
                    "X-Note": "v=${URL_TOKEN}",
                },
                "event_secrets": ["${EVENT_SECRET}"],
            },
            "keyed": {"type": "http", "url": f"{url}/mcp", "auth": "host"},
            "child": {"command": argv[0], "args": argv[1:], "env": {"API_KEY": "${ENV_SECRET}"}},
            "away": {"type": "http", "url": "http://user:${URL_TOKEN}@127.0.0.1:9/mcp"},
            "forbidden": {"type": "http", "url": "http://10.1.2.3/${URL_TOKEN}"},
            "missing": {"command": "/nowhere/${ARG_TOKEN}", "args": ["--token", MORE[1]]},
        }
        resolved = resolution(**entries)
        approvals = SqliteApprovals()
        host = Host(
            ApprovalAdmission(approvals, implicit=frozenset({Tier.USER})),
            environment=PLANTED,
            authority=StdioAuthority(tmp_path, [argv, ["/nowhere/${ARG_TOKEN}", "--token", MORE[1]]]),
            authenticators={"keyed": Keys()},
        )
        supervisor = Supervisor(resolved, host, backoff=Backoff(attempts=2, first_s=0.001))
        look(resolved, host, supervisor, supervisor["arm"], await supervisor.catalog())
        for name in ("arm", "keyed", "child"):
            tool = "where" if name == "child" else "grasp"
            answer = await supervisor[name].call(tool, {} if name == "child" else {"force_n": 1})
            if name != "child":
                look(answer)
        for trouble in (401, 403, 302, 500):
            app.status, app.location = trouble, "http://evil.example/"
            for name in ("arm", "keyed"):
                with pytest.raises(CallFailed) as caught:
                    await supervisor[name].call("grasp", {"force_n": 1})
                look(caught.value, caught.value.__cause__, caught.value.__context__)
        for name in ("away", "forbidden", "missing"):
            with pytest.raises(RefusedError) as refused:
                await supervisor[name].connected()
            look(refused.value, refused.value.refusal, refused.value.__cause__)
        with pytest.raises(CallFailed) as crash:
            await supervisor["child"].call("die", {})
        look(crash.value)
        for one in resolved.servers.values():
            assert one.definition is not None
            filled = materialize(one.definition, PLANTED)
            look(one, filled, endpoint(filled), json.dumps(projection(filled)), filled.unset)
        look(approvals.audit())
        await supervisor.aclose()

    secrets = ServerSecrets({"navigation": [PLANTED["EVENT_SECRET"]]})
    inbox = Inbox(secrets, book=TaskBook(wall_clock=lambda: NOW), wall_clock=lambda: NOW)
    secrets.add("navigation", MORE[2])
    look(secrets, inbox, inbox.verifier, inbox.book)
    for secret in (PLANTED["EVENT_SECRET"], MORE[2], "wrong"):
        look(
            inbox.receive(*Signer(secret).request(1)), inbox.receive(*Signer(secret).request(1, at=NOW - 999))
        )
    secrets.retire("navigation", PLANTED["EVENT_SECRET"])
    with pytest.raises(ValueError) as last:
        secrets.retire("navigation", MORE[2])
    look(last.value)
    for name, text in (("a.yaml", f"servers: [{MORE[3]}"), ("b.json", f'{{"servers": {MORE[3]}')):
        (tmp_path / name).write_text(text)
        look(read_source(tmp_path / name, Tier.USER))

    out, err = capfd.readouterr()
    everything = "\n".join(
        [*seen, caplog.text, out, err, *(repr(record.__dict__) for record in caplog.records)]
    )
    assert len(everything) > 10_000
    told = app.asked[0].headers["authorization"] + json.dumps([one.headers for one in app.asked])
    assert PLANTED["ROBOT_TOKEN"] in told, "the server it is meant for does get it"
    assert MORE[0] in told
    found = [secret for secret in (*PLANTED.values(), *MORE) if secret in everything]
    where = [line[:300] for line in everything.splitlines() if any(secret in line for secret in found)]
    assert found == [], where[:5]
