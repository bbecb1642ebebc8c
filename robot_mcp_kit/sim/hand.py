"""A hand on the simulated robot, for tests and experiments: throws its switches and asks for its truth.

JSON lines in, one JSON line out for each: ``{"faults": {"slip_percent": 30.0}}`` sets switches,
``{"call": "state"}`` tells the truth, ``{"call": "reset_faults"}`` and ``{"call": "reset_world"}`` put things
back. The answer is ``{"ok": true, ...}``, or ``{"ok": false, "error": "..."}``. Ends with its standard input.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import rclpy
from rcl_interfaces.srv import SetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.signals import SignalHandlerOptions
from std_srvs.srv import Trigger

BOUND_S = 10.0
CALLS = ("state", "reset_faults", "reset_world")


class HandError(RuntimeError):
    """The simulator did not answer, or refused."""


class Hand:
    """Clients of the simulator's services."""

    def __init__(self, node: Any, executor: Any) -> None:
        self._executor = executor
        self._triggers = {name: node.create_client(Trigger, f"robot_sim/{name}") for name in CALLS}
        self._switches = node.create_client(SetParameters, "robot_sim/set_parameters")

    def _ask(self, client: Any, request: Any) -> Any:
        end_s = time.monotonic() + BOUND_S
        while not client.service_is_ready():
            if time.monotonic() > end_s:
                raise HandError(f"{client.srv_name} is not there")
            self._executor.spin_once(timeout_sec=0.05)
        future = client.call_async(request)
        self._executor.spin_until_future_complete(future, timeout_sec=BOUND_S)
        if not future.done():
            raise HandError(f"{client.srv_name} did not answer")
        return future.result()

    def call(self, name: str) -> dict[str, Any]:
        """Call one of :data:`CALLS`; the state comes back under ``state``."""
        if name not in self._triggers:
            raise HandError(f"no such call: {name}; there are {', '.join(CALLS)}")
        answer = self._ask(self._triggers[name], Trigger.Request())
        if not answer.success:
            raise HandError(answer.message)
        return {"state": json.loads(answer.message)} if name == "state" else {}

    def faults(self, values: Mapping[str, Any]) -> None:
        """Set switches; all or none."""
        request = SetParameters.Request()
        request.parameters = [
            Parameter(name, value=value).to_parameter_msg() for name, value in values.items()
        ]
        for result in self._ask(self._switches, request).results:
            if not result.successful:
                raise HandError(result.reason)


def _answer(hand: Hand, line: str) -> dict[str, Any]:
    try:
        wish = json.loads(line)
        if "faults" in wish:
            hand.faults(wish["faults"])
            return {"ok": True}
        return {"ok": True, **hand.call(str(wish.get("call")))}
    except (HandError, ValueError, TypeError) as error:
        return {"ok": False, "error": str(error)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until standard input ends."""
    context = rclpy.Context()
    words = list(sys.argv[1:] if arguments is None else arguments)
    rclpy.init(args=words, context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("sim_hand", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        hand = Hand(node, executor)
        for line in sys.stdin:
            print(json.dumps(_answer(hand, line)), flush=True)
    finally:
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown(context=context)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
