"""Look at ROS as the bridge would see it, and say what is there: one JSON line for each kind of fact.

Everything of rclpy that ``robot-mcp-kit doctor`` needs; run by :mod:`.checks` in a process of its own. Sends
no goal and publishes nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.signals import SignalHandlerOptions

from robot_mcp_kit.errors import ConfigError
from robot_mcp_kit.ros.action_port import RosActionPorts
from robot_mcp_kit.ros.facts import (
    ActionFacts,
    Facts,
    GraphFacts,
    MiddlewareFacts,
    PoseFacts,
    Question,
    TypesFacts,
)
from robot_mcp_kit.ros.graph import RosActionGraph
from robot_mcp_kit.ros.interface_types import load_interface
from robot_mcp_kit.ros.pose import POSE_READERS, PoseReader
from robot_mcp_kit.ros.schema import RosGoalSchema
from robot_mcp_kit.ros.thread import RosThread
from robot_mcp_kit.skills.base import Pose2D
from robot_mcp_kit.skills.config import RobotConfig, SkillSection, load_config
from robot_mcp_kit.skills.config.signals import SetOutputSection
from robot_mcp_kit.skills.registry import build_skills
from robot_mcp_kit.skills.text import nearest

_NODE = "robot_mcp_kit_doctor"
_POLL_S = 0.1
_SETTLE_S = 1.0
"""So long nothing new must have been discovered: a second server of one name may come after the first."""
_LEAST_S = 3.3
"""So long it looks at least: some nodes make themselves known only with their next announcement, which
Fast DDS sends every 3 s, for instance where a process has died within the last 20 s.
"""
_PARTS = {
    "goal": "rq{name}/_action/send_goalRequest",
    "feedback": "{name}/_action/feedback",
    "result": "rr{name}/_action/get_resultReply",
}
"""Where the type hash of each part of an action can be read: services are topics of the middleware's."""


def types_facts(config: RobotConfig) -> TypesFacts:
    """Load every interface that the file needs."""
    wanted = [section.type for section in _action_sections(config).values()]
    for signal in config.io.values():
        command = None if signal.command is None else signal.command.address(signal)
        wanted += [signal.type] if command is None else [signal.type, command.type]
    if config.robot.pose.source == "topic":
        wanted.append(config.robot.pose.type)
    usable, errors = [], {}
    for name in dict.fromkeys(wanted):
        try:
            load_interface(name)
        except Exception as error:  # a package that is half installed raises anything
            errors[name] = f"{error}"
        else:
            usable.append(name)
    faults: list[str] = []
    if not errors:
        try:
            build_skills(config, None, RosGoalSchema())
        except ConfigError as error:
            faults = str(error).splitlines()
    try:
        load_interface("robot_mcp_kit_msgs/msg/TaskEvent")
        own_topics = True
    except LookupError:
        own_topics = False
    return TypesFacts(usable=usable, errors=errors, entry_faults=faults, own_topics=own_topics)


def _action_sections(config: RobotConfig) -> dict[str, SkillSection]:
    """The enabled skills that have an action server."""
    return {
        name: section
        for name, section in config.skills.items()
        if section.enabled and not isinstance(section, SetOutputSection)
    }


class GraphLook:
    """One look around. Everything of rclpy happens on its thread."""

    def __init__(self, node: Any, thread: RosThread, config: RobotConfig | None) -> None:
        self._node = node
        self._thread = thread
        self._config = config
        self._graph = RosActionGraph(node)
        self._ports = RosActionPorts(node, thread)
        self._where: PoseReader | None = None
        self._pose_error = ""
        self._faults: dict[str, str] = {}

    def open(self, usable: frozenset[str]) -> None:
        """Make the clients and subscriptions that the bridge would have; discovery begins."""
        if self._config is None:
            return
        for skill, section in self._sections().items():
            if section.type in usable:
                try:
                    self._ports.add(section.action, section.type)
                except LookupError as error:
                    self._faults[skill] = str(error)
        robot = self._config.robot
        if robot.pose.source == "tf" or robot.pose.type in usable:
            try:
                self._where = POSE_READERS[robot.pose.source](self._node, self._thread, robot)
            except ConfigError as error:
                self._pose_error = str(error)

    def _sections(self) -> dict[str, Any]:
        return {} if self._config is None else _action_sections(self._config)

    def fingerprint(self) -> object:
        """Changes while discovery goes on."""
        servers = self._graph.action_servers()
        return self._node.get_node_names_and_namespaces(), [(found.name, found.nodes) for found in servers]

    def complete(self) -> bool:
        """Everything that was hoped for has been seen."""
        ready = self._ports.readiness()
        return all(ready.values()) and (self._where is None or self._pose() is not None)

    def graph_facts(self, looked_s: float) -> GraphFacts:
        servers = {found.name: found for found in self._graph.action_servers()}
        ready = self._ports.readiness()
        actions = []
        for skill, section in self._sections().items():
            name = self._graph.full_name(section.action)
            found = servers.get(name)
            actions.append(
                ActionFacts(
                    skill=skill,
                    name=name,
                    type=section.type,
                    server_types=list(found.types) if found else [],
                    nodes=list(found.nodes) if found else [],
                    ready=ready.get(name, False),
                    fault=self._faults.get(skill, ""),
                    other_definition=[part for part in _PARTS if self._differs(name, part)],
                )
            )
        own = self._node.get_fully_qualified_name()
        nodes = {
            f"{namespace.rstrip('/')}/{name}"
            for name, namespace in self._node.get_node_names_and_namespaces()
        }
        return GraphFacts(
            nodes=sorted(nodes - {own}), actions=actions, served=sorted(servers), looked_s=looked_s
        )

    def pose_facts(self) -> PoseFacts | None:
        if self._config is None:
            return None
        section = self._config.robot.pose
        if section.source == "tf":
            return PoseFacts(pose=self._pose(), error=self._pose_error)
        topic = str(self._node.resolve_topic_name(section.topic))
        return PoseFacts(
            topic=topic,
            pose=self._pose(),
            publishers=self._publishers(topic),
            wrong_frame="" if self._where is None else self._where.wrong_frame,
            near=self._near(topic, section.type),
            error=self._pose_error,
        )

    def _pose(self) -> Pose2D | None:
        return None if self._where is None else self._where.pose()

    def _publishers(self, topic: str) -> list[str]:
        found = self._node.get_publishers_info_by_topic(topic)
        return [f"{info.node_namespace.rstrip('/')}/{info.node_name}" for info in found]

    def _near(self, topic: str, type_name: str) -> list[str]:
        names = [
            name
            for name, types in self._node.get_topic_names_and_types()
            if type_name in types and name != topic and self._publishers(name)
        ]
        return nearest(topic, names) or sorted(names)[:3]

    def _differs(self, action: str, part: str) -> bool:
        own, theirs = self._own_hash(action, part), self._server_hash(action, part)
        return own is not None and theirs is not None and own != theirs

    def _own_hash(self, action: str, part: str) -> str | None:
        # The side that we are on ourselves: the request is written by a client, feedback and reply are read.
        return self._hash(action, part, publisher=part == "goal", own=True)

    def _server_hash(self, action: str, part: str) -> str | None:
        return self._hash(action, part, publisher=part != "goal", own=False)

    def _hash(self, action: str, part: str, *, publisher: bool, own: bool) -> str | None:
        """The type hash on one side, ``None`` where the middleware does not tell it."""
        node = self._node
        look = node.get_publishers_info_by_topic if publisher else node.get_subscriptions_info_by_topic
        topic = _PARTS[part].format(name=action)
        for info in look(topic, no_mangle=part != "feedback"):
            if own and info.node_name != node.get_name():
                continue
            value = getattr(info.topic_type_hash, "value", None) if hasattr(info, "topic_type_hash") else None
            if value is not None and any(value):
                return bytes(value).hex()
        return None

    def close(self) -> None:
        if self._where is not None:
            self._where.close()
        self._ports.close()


async def answer(question: Question, say: Callable[[Facts], None]) -> None:
    """Say each kind of fact as soon as it is known."""
    config = None if question.skills_file is None else load_config(question.skills_file)
    usable: frozenset[str] = frozenset()
    if config is not None:
        types = types_facts(config)
        say(types)
        usable = frozenset(types.usable)
    context = rclpy.Context()
    try:
        words = ["robot_mcp_kit_doctor", *question.ros_arguments]
        rclpy.init(args=words, context=context, signal_handler_options=SignalHandlerOptions.NO)
        node = rclpy.create_node(
            f"{_NODE}_{os.getpid()}", namespace=question.namespace, context=context, enable_rosout=False
        )
    except Exception as error:  # rclpy raises several kinds
        say(MiddlewareFacts(error=f"{type(error).__name__}: {error}"))
        return
    say(MiddlewareFacts(name=rclpy.get_rmw_implementation_identifier()))
    thread = RosThread(context, node, asyncio.get_running_loop())
    thread.start()
    look = GraphLook(node, thread, config)
    try:
        await thread.call(lambda: look.open(usable))
        began_s = changed_s = time.monotonic()
        seen: object = None
        while time.monotonic() - began_s < question.wait_s:
            await asyncio.sleep(_POLL_S)
            now, now_s = await thread.call(look.fingerprint), time.monotonic()
            if now != seen:
                seen, changed_s = now, now_s
            settled = now_s - changed_s >= _SETTLE_S and now_s - began_s >= _LEAST_S
            if settled and await thread.call(look.complete):
                break
        looked_s = time.monotonic() - began_s
        say(await thread.call(lambda: look.graph_facts(looked_s)))
        pose = await thread.call(look.pose_facts)
        if pose is not None:
            say(pose)
        await thread.call(look.close)
    finally:
        thread.stop()
        node.destroy_node()
        context.try_shutdown()
