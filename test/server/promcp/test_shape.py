"""The tools of every profile: names, numbers, words and schemas, by proMCP's own linter and by ours."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.promcp import lint_server
from robot_mcp_kit.promcp.contracts import PERMISSIONS, PROMCP_VERSION, QUALITIES, STATUSES
from robot_mcp_kit.promcp.schemas import flat_tool
from robot_mcp_kit.promcp.units import unit_findings
from robot_mcp_kit.server.promcp.bounds import constraints_of
from robot_mcp_kit.server.promcp.profiles import build_profiles, own_words
from robot_mcp_kit.skills.config import parse_config
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.skills.routines.offered import build_routines
from test.compat import promcp_oracle as oracle
from test.promcp import fixtures
from test.server.promcp.rig import CONFIG, PROFILES, Rig, rigged

Tools = list[dict[str, Any]]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with rigged() as made:
        yield made


@pytest.fixture(scope="module")
def command() -> Path:
    try:
        return oracle.ensure()
    except oracle.OracleUnavailableError as error:
        pytest.skip(str(error))


def _as_fixture(tools: Tools) -> Tools:
    """The profile's own tools, one read and one do under the names that the mutations look for."""
    tools = copy.deepcopy(tools)
    # A profile without readings is none of these.
    next(t for t in tools if t["name"].startswith("read_"))["name"] = "read_battery"
    next(t for t in tools if t["name"].startswith("do_"))["name"] = "do_set_fan"
    return tools


# -- the oracle ---------------------------------------------------------------------------------------------


@pytest.mark.timeout(240)
@pytest.mark.parametrize("profile", PROFILES)
async def test_its_own_linter_passes_every_profile_and_has_looked_at_the_responses(
    profile: str, rig: Rig, command: Path, tmp_path: Path
) -> None:
    """P7: strict, of what a real client was told; no R000 and no R015, or nothing was checked."""
    verdict = oracle.ask(command, await rig.tools(profile), tmp_path / "tools.json")
    assert (verdict["exit_code"], verdict["summary"]["pass"]) == (0, True), verdict
    assert verdict["promcp_version"] == PROMCP_VERSION
    assert oracle.codes(verdict) == set()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("profile", PROFILES)
async def test_each_negative_control_bites_in_every_profile(
    profile: str, rig: Rig, command: Path, tmp_path: Path
) -> None:
    """P7: one change to the profile's own tools, the code that belongs to it, by both linters."""
    whole, many = _as_fixture(await rig.tools(profile)), {}
    for what, (_, change) in fixtures.MUTATIONS.items():
        many[what] = copy.deepcopy(whole)
        change(many[what])
    assert len(many) >= 18
    verdicts = oracle.ask_many(command, {"as it is": whole, **many}, tmp_path)
    assert oracle.codes(verdicts.pop("as it is")) == set()
    for what, verdict in verdicts.items():
        code = fixtures.MUTATIONS[what][0]
        assert code in oracle.codes(verdict), (profile, what, verdict)
        if code not in ("R000", "R015"):
            assert verdict["exit_code"] == 1, (profile, what)
        ours = {found for found in lint_server(many[what]).codes() if not found.startswith("K")}
        assert ours == oracle.codes(verdict), (profile, what)


@pytest.mark.parametrize("profile", PROFILES)
async def test_our_own_rules_pass_too_and_bite_where_the_other_linter_is_blind(
    profile: str, rig: Rig
) -> None:
    """P7: units in every number, values before and after, the hint."""
    tools = await rig.tools(profile)
    assert lint_server(tools).codes() == set()
    assert [found for tool in tools for found in unit_findings(tool)] == []
    for what, (code, change) in fixtures.OURS.items():
        changed = _as_fixture(tools)
        if what == "key not required":
            fixtures.named(changed, "do_set_fan")["inputSchema"]["required"] = []
        else:
            change(changed)
        assert code in lint_server(changed).codes(), what


# -- names, numbers, words ----------------------------------------------------------------------------------


async def test_names_follow_the_triad_and_the_other_surface_is_elsewhere(rig: Rig) -> None:
    """P1 P2 P3: no get_task, stop or skill under its bare name; one can_do a profile."""
    for profile in PROFILES:
        names = [tool["name"] for tool in await rig.tools(profile)]
        assert names.count("can_do") == 1
        assert len(set(names)) == len(names)
        for name in names:
            assert name == "can_do" or re.fullmatch(r"(read|do)_[a-z][a-z0-9_]*", name), name
            assert len(name) <= 64
        assert not {"get_task", "cancel_task", "list_tasks", "await_task", "navigate_to"} & set(names)


async def test_no_profile_has_more_tools_than_a_model_chooses_well_among(rig: Rig) -> None:
    """P4: at most 8, 5 of them do_; every profile can stop."""
    for profile in PROFILES:
        names = [tool["name"] for tool in await rig.tools(profile)]
        assert len(names) <= 8
        assert sum(name.startswith("do_") for name in names) <= 5
        assert "do_stop" in names


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("skills: [home, handover]", "skills: [home, handover, pick, place, gripper]"), "6 do tools"),
        (("skills: [navigate_to, spin, dock]", "skills: [navigate_to, spin, dock, home]"), "9 tools"),
        (("skills: [home, handover]", "skills: [home, handovre]"), 'no skill "handovre".*"handover"'),
        (("skills: [home, handover]", "skills: [home, look]"), "moves nothing; give reads"),
        (("reads: [arm_joints]", "reads: [arm_joint]"), "reads"),
        (("reads: [arm_joints]", "reads: [arm_joints, arm_joints]"), "twice"),
        (("  battery: {low_percent: 20.0}\n", ""), "needs sensors.battery"),
        (("    tidy:", "    Tidy:"), "part of its address"),
        (("  gripper:\n    action", "  Grip:\n    action"), "Grip"),
    ],
)
def test_a_profile_that_cannot_be_served_stops_the_start_with_its_key(
    change: tuple[str, str], said: str
) -> None:
    """P4: also one with too many tools."""
    assert change[0] in CONFIG
    text = CONFIG.replace(*change, 1)
    if "Grip:" in text:
        text = text.replace("gripper: gripper", "gripper: Grip").replace(", gripper]\n", ", Grip]\n")
    with pytest.raises(ConfigError, match=said):
        _built(text)


def _built(text: str) -> object:
    config = parse_config(text)
    return build_profiles(config, {**build_skills(config), **build_routines(config)})


async def test_every_description_says_when_not_to_use_the_tool(rig: Rig) -> None:
    """P5: in its own words, before the words that all of them share; nothing of another surface is named."""
    for profile in PROFILES:
        tools = await rig.tools(profile)
        names = {tool["name"] for tool in tools}
        for tool in tools:
            text = tool["description"]
            own = text.split("Waits for the end")[0]
            assert len(text) >= 20
            assert re.search(r"\b([Nn]ot|instead|never|only)\b", own), text
            for other in (
                "get_task",
                "cancel_task",
                "list_tasks",
                "await_task",
                "Answers at once",
                "trigger",
            ):
                assert other not in text, (tool["name"], other)
            named = set(re.findall(r"\b(?:do|read)_[a-z_]+\b", text))
            assert named <= names, (profile, tool["name"], named - names)


def test_sentences_about_another_surface_are_left_out_and_the_rest_is_kept() -> None:
    text = (
        "Drive there. Answers at once with a task; follow it with get_task. Absolute, so a retry is safe; "
        "with an idempotency_key a repeated call starts nothing new. Not for 0.5 m. Zones for zone_entered."
    )
    assert own_words(text) == "Drive there. Absolute, so a retry is safe. Not for 0.5 m."


async def test_the_base_fields_are_all_there_and_more(rig: Rig) -> None:
    """P47 P48: base version 0.4.0; nothing renamed or dropped, and not the shapes of other extensions."""
    base = {
        "read_": {"value", "unit", "timestamp", "quality"},
        "do_": {
            *("status", "idempotency_key", "applied_value", "previous_value", "side_effects"),
            *("compensable", "compensation_hint", "timestamp"),
        },
        "can_do": {"query_id", "feasible", "candidates", "blocked", "unroutable", "context", "metadata"},
    }
    for profile in PROFILES:
        for tool in await rig.tools(profile):
            properties = tool["responseSchema"]["properties"]
            wanted = next(fields for prefix, fields in base.items() if tool["name"].startswith(prefix))
            assert wanted <= set(properties), tool["name"]
            if tool["name"] == "can_do":
                assert "intent" in tool["inputSchema"]["properties"]
                assert "query" not in tool["inputSchema"]["properties"]
                item = properties["candidates"]["items"]["properties"]
                assert set(item["permission"]["enum"]) == set(PERMISSIONS)
                version = properties["metadata"]["properties"]["promcp_version"]["default"]
                assert version == PROMCP_VERSION == "0.4.0"
            elif tool["name"].startswith("do_"):
                assert set(properties["status"]["enum"]) == set(STATUSES)
                assert "idempotency_key" in tool["inputSchema"]["required"]
                assert properties["promcp_version"]["default"] == PROMCP_VERSION
            else:
                assert set(properties["quality"]["enum"]) == set(QUALITIES)


async def test_no_permission_outside_the_nine_is_ever_told(rig: Rig) -> None:
    """P48: the value that differs in another extension is not one of them; what is sent is of the nine."""
    told = [
        await rig.can_do("move", "drive"),
        await rig.can_do("move", "drive", parameters={"x_m": 99, "y_m": 0}),
    ]
    entries = [entry for report in told for entry in (*report["candidates"], *report["blocked"])]
    assert entries
    assert {entry["permission"] for entry in entries} <= set(PERMISSIONS)
    assert "requires_approval" not in json.dumps(told)


TEMPLATE = Path(__file__).parents[3] / "config" / "skills.yaml"


def _every_skill() -> tuple[str, list[str]]:
    """The demo robot's file with a profile for each of its skills and routines."""
    text = TEMPLATE.read_text().replace("enabled: false", "enabled: true")
    config = parse_config(text)
    routines = build_routines(config)
    names = [*config.skills, *(name for name, routine in routines.items() if not routine.read_only)]
    head, _, tail = text.partition("\npromcp:\n")
    rest = tail.partition("\n# ")[2]
    profiles = "".join(f"    p{number}: {{skills: [{name}]}}\n" for number, name in enumerate(names))
    return f"{head}\npromcp:\n  profiles:\n{profiles}\n# {rest}", names


async def test_every_skill_of_the_demo_robot_can_be_put_in_a_profile(command: Path, tmp_path: Path) -> None:
    """P5 P7 P26 P34: names, words, units, side effects and bounds of all of them, by both linters."""
    text, names = _every_skill()
    assert {"navigate_to", "follow_waypoints", "spin", "dock", "move_arm", "pick", "set_io"} <= set(names)
    many: dict[str, Tools] = {}
    async with rigged(text, connect=False) as rig:
        for profile, name in zip(rig.surface.profiles, names, strict=True):
            listed = await rig.surface.servers[profile.name].list_tools()
            many[name] = [
                flat_tool(t.model_dump(mode="json", by_alias=True, exclude_none=True)) for t in listed
            ]
            skill = rig.bridge.skills[name]
            assert rig.surface.doing.side_effects(skill)
            for bounds in constraints_of(skill, rig.config).arguments:
                numbers = bounds.min is not None or bounds.max is not None
                assert (bounds.unit is not None) is numbers, (name, bounds)
                top = bounds.argument.split(".")[0]
                assert top in skill.arguments.model_fields, (name, bounds.argument)
    verdicts = oracle.ask_many(command, many, tmp_path)
    for name, tools in many.items():
        assert oracle.codes(verdicts[name]) == set(), name
        # A value of 0 or 1, or a share of full scale, has no unit.
        assert lint_server(tools).codes() <= ({"K001"} if name == "set_io" else set()), name
        (tool,) = [t for t in tools if t["name"] == f"do_{name}"]
        own = tool["description"].split("Waits for the end")[0]
        assert re.search(r"\b([Nn]ot|instead|never|only)\b", own), own
        for other in ("get_task", "cancel_task", "await_task", "Answers at once", "idempotency_key a"):
            assert other not in own, (name, other)
