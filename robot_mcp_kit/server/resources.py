"""What a planner can read before it acts: tasks, skills, places and the map; and prompts that brief it."""

from __future__ import annotations

import json
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from robot_mcp_kit.bridge.bridge import Bridge
from robot_mcp_kit.server.pushing import TASKS_URI
from robot_mcp_kit.server.waiting import AWAIT_TASK, MAX_WAIT_S
from robot_mcp_kit.skills.config import RobotConfig
from robot_mcp_kit.tasks import TaskManager

SKILLS_URI, PLACES_URI, MAP_URI = "robot://skills", "robot://places", "robot://map"
_JSON = "application/json"


def add_task_resources(server: MCPServer, manager: TaskManager) -> None:
    """``robot-task://{task_id}`` and ``robot://tasks``."""

    @server.resource(
        "robot-task://{task_id}",
        name="task",
        title="A task",
        mime_type=_JSON,
        description="One task as get_task tells it. Subscribe to hear of its changes.",
    )
    async def task(task_id: str) -> str:
        info = manager.get(task_id)
        if info is None:
            raise ResourceNotFoundError(
                f"there is no task {task_id}, or it ended so long ago that it is gone"
            )
        return info.model_dump_json()

    @server.resource(
        TASKS_URI,
        name="tasks",
        title="All tasks",
        mime_type=_JSON,
        description="Every task that is kept, oldest first. Subscribe to hear of starts and ends.",
    )
    async def tasks() -> str:
        return _dumps({"tasks": [info.model_dump(mode="json") for info in manager.list()]})


def add_robot_resources(server: MCPServer, bridge: Bridge, config: RobotConfig) -> None:
    """``robot://skills``, ``robot://places`` and ``robot://map``."""

    @server.resource(
        SKILLS_URI,
        name="skills",
        title="Skills",
        mime_type=_JSON,
        description="What the robot can do: arguments, what must hold before, and what holds after.",
    )
    async def skills() -> str:
        return _dumps({"skills": [skill_facts(skill) for skill in bridge.skills.values()]})

    @server.resource(
        PLACES_URI,
        name="places",
        title="Places",
        mime_type=_JSON,
        description="Poses with a name that a goal may be given by: metres, radians, and their frame.",
    )
    async def places() -> str:
        return _dumps({"places": [{"name": n, **p.model_dump()} for n, p in config.places.items()]})

    @server.resource(
        MAP_URI,
        name="map",
        title="Map",
        mime_type=_JSON,
        description="The robot's frames, and named areas as polygons in metres.",
    )
    async def map_() -> str:
        robot = config.robot
        zones = [{"name": name, **zone.model_dump()} for name, zone in config.zones.items()]
        return _dumps(
            {
                "robot": robot.name,
                "description": robot.description,
                "map_frame": robot.map_frame,
                "base_frame": robot.base_frame,
                "goal_frames": robot.goal_frames,
                "zones": zones,
            }
        )


def skill_facts(skill: Any) -> dict[str, Any]:
    """A skill as data: name, words, arguments, preconditions, effects, and the facts of its result."""
    return {
        "name": skill.name,
        "title": skill.title,
        "description": skill.description,
        "moves": sorted(skill.resources),
        "preconditions": [condition.facts() for condition in skill.preconditions],
        "effects": list(skill.effects),
        "arguments": skill.arguments.model_json_schema(),
        "result": skill.result_schema(),
    }


def add_prompts(server: MCPServer, bridge: Bridge, config: RobotConfig) -> None:
    """Prompts that brief a planner."""

    @server.prompt(
        title="Plan with this robot", description="Brief a planner: the robot, its skills, the rules."
    )
    async def plan_with_robot(goal: str) -> str:
        return "\n\n".join(
            [f"Plan and carry out with the robot: {goal}", _robot(config), _skills(bridge), RULES]
        )

    @server.prompt(
        title="After a lost answer",
        description="What to do when a call about a motion broke off and its answer is missing.",
    )
    async def after_lost_answer(tool: str) -> str:
        return (
            f"The answer of {tool} is missing, and the robot may have moved or be moving. Do not call {tool} "
            "again with a new idempotency_key. If you gave it a key, repeat the very same call with that "
            "key: it moves nothing again and answers with the same task. If you have its handle, ask "
            f"{AWAIT_TASK}. Otherwise read list_tasks for what runs or has just ended. Only when you know "
            "how that motion ended, and what the robot and its objects look like now, decide on the next one."
        )

    @server.prompt(
        title="Report what was done",
        description="Have a planner report from what was measured, not from plans.",
    )
    async def report_to_person(task_ids: str) -> str:
        return (
            f"Report to the person what happened in the tasks {task_ids}. Read each with get_task. Say only "
            "what their results, failures and measured values say; name what was not confirmed. Give places "
            "by name, and lengths in metres."
        )


RULES = (
    "Rules. 1. Every tool that moves the robot answers at once with a task and a handle, or, with wait_s, "
    f"when the motion has ended (at most {MAX_WAIT_S:g} s). 2. Give an idempotency_key of your own to every "
    "motion; after a lost answer repeat the same call with the same key: it moves nothing again. 3. A "
    "result is what was measured after the motion; believe it rather than your plan, and look again before "
    "the next step. 4. A failure says whether trying again can help, and what to do instead; do not repeat "
    "what will not help. 5. Lengths are metres, angles radians, times seconds, and every pose names its "
    "frame. 6. stop ends every motion and never needs permission. 7. A motion that waits for approval is "
    "decided by a person, not by you."
)


def _robot(config: RobotConfig) -> str:
    robot = config.robot
    places = ", ".join(f"{name} ({place.description})" for name, place in config.places.items()) or "none"
    return f"The robot is {robot.name}. {robot.description} Map frame: {robot.map_frame}. Places: {places}."


def _skills(bridge: Bridge) -> str:
    lines = []
    for skill in bridge.skills.values():
        before = "; ".join(condition.text for condition in skill.preconditions)
        after = "; ".join(skill.effects)
        lines.append(
            f"- {skill.name}: {skill.title}."
            + (f" Before: {before}." if before else "")
            + (f" After: {after}." if after else "")
        )
    return "Skills:\n" + "\n".join(lines)


def _dumps(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False)
