"""Start and stop the simulated robot as a process of its own. Imports no ROS.

A robot in another process is what the bridge meets in reality: it can be slow to appear, and it can die.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

READY_LINE = "sim ready"


class SimProcessError(RuntimeError):
    """The simulated robot did not start, or ended by itself. The text ends with its last output lines."""


def _yaml(value: object) -> str:
    """A parameter value as ROS's command line wants it (YAML)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Sequence):
        # An empty list has no type in YAML; one empty name means the same to the simulator.
        return "[" + ", ".join(_yaml(item) for item in (value or [""])) + "]"
    raise TypeError(f"a parameter cannot be a {type(value).__name__}")


class SimProcess:
    """The simulated robot in its own process, on its own ROS domain, reachable from this machine only.

    Args:
        domain_id: ROS_DOMAIN_ID of the simulated robot.
        real_time_factor: simulation seconds per wall second, 0.1 to 50.
        parameters: further ROS parameters (see ``robot_mcp_kit.sim.parameters`` and ``.faults``).
        namespace: ROS namespace of all topics and actions ("/robot7"); empty is the root.
        ready_timeout_s: how long :meth:`start` waits for the line ``sim ready``.

    As a context manager it starts on entry and stops on exit.
    """

    def __init__(
        self,
        *,
        domain_id: int,
        real_time_factor: float = 1.0,
        parameters: Mapping[str, object] | None = None,
        namespace: str = "",
        ready_timeout_s: float = 30.0,
    ) -> None:
        self.domain_id = domain_id
        self.ready_timeout_s = ready_timeout_s
        self._parameters = {"real_time_factor": float(real_time_factor), **(parameters or {})}
        self._namespace = namespace
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()
        self._output: deque[str] = deque(maxlen=200)

    def command(self) -> list[str]:
        """The command line that :meth:`start` runs."""
        arguments = [sys.executable, "-m", "robot_mcp_kit.sim", "--end-with-stdin", "--ros-args"]
        for name, value in self._parameters.items():
            arguments += ["-p", f"{name}:={_yaml(value)}"]
        if self._namespace:
            arguments += ["-r", f"__ns:=/{self._namespace.strip('/')}"]
        return arguments

    def environment(self) -> dict[str, str]:
        """The environment of the process: this one's, with the domain set and discovery limited to this
        machine.
        """
        environment = dict(os.environ)
        environment["ROS_DOMAIN_ID"] = str(self.domain_id)
        environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
        environment.setdefault("AMENT_PREFIX_PATH", sys.prefix)
        environment["PYTHONUNBUFFERED"] = "1"
        # The child must find this very package, wherever this process found it.
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        known = environment.get("PYTHONPATH", "")
        if root not in known.split(os.pathsep):
            environment["PYTHONPATH"] = os.pathsep.join(part for part in (root, known) if part)
        return environment

    @property
    def pid(self) -> int:
        """Process id. Raises SimProcessError when not started."""
        if self._process is None:
            raise SimProcessError("the simulated robot was not started")
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, ``None`` while it runs (or before start)."""
        return None if self._process is None else self._process.poll()

    @property
    def output(self) -> list[str]:
        """The last output lines, stdout and stderr."""
        return list(self._output)

    def start(self) -> Self:
        """Start and wait until all action servers are up.

        Raises:
            SimProcessError: it ended before, or was not ready in time.
        """
        if self._process is not None:
            raise SimProcessError("the simulated robot was started already")
        self._process = subprocess.Popen(  # noqa: S603  our own module, arguments from the caller
            self.command(),
            env=self.environment(),
            stdin=subprocess.PIPE,  # never written to: its end tells the simulator that we are gone
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C at the terminal goes to us, and we stop it in order
        )
        self._reader = threading.Thread(target=self._read, name="sim output", daemon=True)
        self._reader.start()
        if not self._ready.wait(self.ready_timeout_s):
            self.kill()
            raise SimProcessError(self._story(f"was not ready after {self.ready_timeout_s:g} s"))
        if READY_LINE not in self._output:
            status = self._process.wait()
            self._finish()
            raise SimProcessError(self._story(f"ended with status {status} instead of starting"))
        return self

    def _read(self) -> None:
        if self._process is None or self._process.stdout is None:
            return
        for line in self._process.stdout:
            self._output.append(line.rstrip("\n"))
            if line.strip() == READY_LINE:
                self._ready.set()
        self._ready.set()  # end of output: whoever waits must look

    def _story(self, what: str) -> str:
        return "\n".join([f"the simulated robot {what}", *list(self._output)[-15:]])

    def stop(self, timeout_s: float = 5.0) -> int | None:
        """SIGTERM, wait, and SIGKILL if that does not help. Returns the exit status; harmless when not
        running.
        """
        process = self._process
        if process is None:
            return None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._finish()
        return process.returncode

    def kill(self) -> None:
        """SIGKILL: what a crash looks like to everybody else. Harmless when not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._finish()

    def _finish(self) -> None:
        if self._reader is not None:
            self._reader.join(timeout=2.0)
        if self._process is not None:
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
