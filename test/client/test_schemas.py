"""What a stranger's schema may do to us: nothing (A39)."""

from __future__ import annotations

from typing import Any

import pytest

from robot_mcp_kit.client.narrowing import usable_pattern
from robot_mcp_kit.client.schemas import ArgumentChecker

DRAFT_3 = "http://json-schema.org/draft-03/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("schema", "dropped"),
    [
        ({"not": {"$schema": "http://["}}, "$.not"),
        ({"properties": {"x": {"$schema": "http://other.example/"}}}, "$.properties.x"),
        ({"$schema": DRAFT_7, "dependencies": {"x": {"$ref": "http://evil.example/"}}}, "$.dependencies.x"),
        ({"hidden": {"items": {"$ref": "http://evil.example/"}}, "items": {"$ref": "#/hidden"}}, "$.items"),
        (
            {
                "$defs": {"a": {"pattern": "[", "properties": {"b": {"type": "string"}}}},
                "properties": {"x": {"$ref": "#/$defs/a/properties/b"}},
            },
            "$.properties.x",
        ),
        (
            {"$schema": "http://json-schema.org/draft-03/schema#", "extends": {"$ref": "http://a.example/"}},
            "$",
        ),
    ],
)
def test_what_leads_elsewhere_accepts_anything_and_is_said(schema: dict[str, Any], dropped: str) -> None:
    """A39: a foreign dialect or reference at any depth, also where only some dialects have schemas."""
    checker = ArgumentChecker(schema)
    assert dropped in checker.dropped
    assert checker.problems({"x": "y"}) == []


def test_a_base_address_does_not_lead_local_references_astray() -> None:
    """A39."""
    checker = ArgumentChecker(
        {
            "$id": "http://evil.example/schema.json",
            "$defs": {"speed": {"type": "number", "maximum": 1}},
            "properties": {"speed_mps": {"$ref": "#/$defs/speed"}},
        }
    )
    assert checker.dropped == []
    assert checker.problems({"speed_mps": 2}) == ["speed_mps: maximum must be 1"]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -(10**400)])
def test_a_number_that_json_cannot_carry_is_refused_with_its_place(number: float) -> None:
    """A39, G64: also where the schema's own check would fail on it."""
    checker = ArgumentChecker({"properties": {"x": {"multipleOf": 0.5}}})
    assert checker.problems({"x": number}) == ["x: no number that JSON can carry"]
    assert checker.problems({"poses": [{"x": number}]}) == ["poses[0].x: no number that JSON can carry"]


@pytest.mark.parametrize("keyword", ["const", "minimum", "multipleOf"])
def test_a_number_in_a_schema_that_json_cannot_carry_is_not_used(keyword: str) -> None:
    """A39: the validator would fail to speak of it."""
    checker = ArgumentChecker({"properties": {"x": {keyword: 10**5000}}})
    assert checker.dropped == ["$.properties.x"]
    assert checker.problems({"x": 1}) == []


BROKEN = {"pattern": "["}


@pytest.mark.parametrize(
    "schema",
    [
        {"not": BROKEN},
        {"not": {"properties": {"x": BROKEN}}},
        {"oneOf": [{"properties": {"x": BROKEN}}, {"required": ["x"]}]},
        {"if": {"properties": {"x": BROKEN}}, "then": {"required": ["z"]}},
        {"properties": {"y": {"contains": BROKEN, "maxContains": 0}}},
        {"allOf": [{"$ref": "http://other.example/"}], "unevaluatedProperties": False},
    ],
)
def test_narrowing_never_refuses_what_the_schema_itself_may_allow(schema: dict[str, Any]) -> None:
    """A39: also where accepting more inside is accepting less outside."""
    assert ArgumentChecker(schema).problems({"x": "a", "y": ["b"]}) == []


def doubling(levels: int) -> dict[str, Any]:
    """Each level asks twice for the next."""
    names = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**names, f"d{levels}": {}}, "allOf": [{"$ref": "#/$defs/d0"}]}


def nested(levels: int) -> dict[str, Any]:
    """Each level looks at all below it twice, to know what was evaluated."""
    schema: dict[str, Any] = {"properties": {"x": {}}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": True}
    return schema


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"$ref": "#"}},
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {
            "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}},
            "not": {"$ref": "#/$defs/a"},
        },
        {
            "$schema": DRAFT_7,
            "definitions": {"a": {"allOf": [{"$ref": "#"}]}},
            "allOf": [{"$ref": "#/definitions/a"}],
        },
        doubling(40),
        nested(35),
    ],
    ids=["not itself", "any of itself twice", "two in a circle", "a circle of draft 7", "doubling", "nested"],
)
def test_a_schema_that_goes_round_or_grows_costs_no_more_than_its_budget(schema: dict[str, Any]) -> None:
    """A39: and what it says before that is heard."""
    arguments = {"x": 1, "y": {"x": [1]}}
    assert ArgumentChecker(schema).problems(arguments) == []
    strict = {**schema, "required": ["z"]}
    assert (
        ArgumentChecker({"allOf": [{"required": ["z"]}, strict]}).problems(arguments)[0].startswith("argum")
    )


def test_a_schema_that_refers_to_itself_for_nested_values_is_used() -> None:
    """A39."""
    checker = ArgumentChecker({"properties": {"next": {"$ref": "#"}, "x_m": {"type": "number"}}})
    assert checker.dropped == []
    assert checker.problems({"next": {"next": {"x_m": "far"}}}) == ["next.next.x_m: type must be number"]
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"next": deep}
    (problem,) = checker.problems({"next": deep, "x_m": "far"})
    assert problem.endswith(": nested too deeply")


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "((a+))+$", "(a|aa)+$", "(a?a?)+b", "((a*)b?)*c", "(?:x+){9}", r"(a)\1+", "a*a*a*a*b", "[", 5],
)
def test_a_pattern_that_may_take_for_ever_is_not_used(pattern: Any) -> None:
    """A39."""
    assert not usable_pattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^[a-z_]+$",
        r"^\d{4}-\d{2}-\d{2}$",
        r"(?:ab)+",
        "^(kitchen|office)$",
        r"[(+*)|]+",
        r"\(+",
        "x{2,}",
        "{a}",
    ],
)
def test_an_ordinary_pattern_is_used(pattern: str) -> None:
    """A39."""
    assert usable_pattern(pattern)
