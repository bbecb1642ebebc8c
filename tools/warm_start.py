"""Start the tests' processes from a parent that has imported everything already.

Importing the bridge costs two to three seconds of processor time, the simulated robot one, and the suite
starts some hundreds of them. :func:`install` lets ``subprocess.Popen`` (and so asyncio's subprocesses) have
those of this project forked from one warm process. What comes of it is what a cold start gives: a process of
its own, child of the one that asked, with the arguments, environment, folder, session and files that it was
started with; only its C libraries are not told of its end. rclpy is imported but not initialised before the
fork. Everything else starts as ever, and ``ROBOT_MCP_KIT_COLD_START=1`` switches it off (for one process
too); the demo's parts, the benches and the processes that processes start are always cold.

Linux only; elsewhere, or on a Python whose ``Popen`` looks different inside, every start is cold.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import inspect
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
PRELOADED = (
    "robot_mcp_kit.cli",
    "robot_mcp_kit.node.main",
    "robot_mcp_kit.node.endpoint",
    "robot_mcp_kit.sim.node",
)
SWITCHED_OFF = "ROBOT_MCP_KIT_COLD_START"
_MODULES = ("robot_mcp_kit", "robot_mcp_kit.sim")
_REQUEST_BYTES = 1 << 20
_PR_SET_CHILD_SUBREAPER = 36
_SAME_FOR_ALL = ("PYTHON", "COVERAGE", "RMW_", "LD_", "AMENT_")
"""What an interpreter or the middleware's loader may have read before the fork: other values start cold."""
_FREE = frozenset({"PYTHONUNBUFFERED", "PYTHONPATH"})
_MEASURED = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")
"""Coverage that begins with the interpreter sees cold starts only."""
_NEEDED = ("executable", "preexec_fn", "pass_fds", "shell", "gid", "uid", "umask", "args", "cwd", "env")
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


# -- in the process that asks -------------------------------------------------------------------------------


class _Warm:
    """The warm process and the way to it; started with the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._libc = ctypes.CDLL(None, use_errno=True)

    def start(self, request: dict[str, Any], files: list[int]) -> int:
        """The process id of a new child of this process."""
        with self._lock:
            ours = self._socket or self._connect()
            # The child's first parent ends at once; its next one is the nearest ancestor that takes orphans.
            # Only meanwhile: other orphans of this process belong to the system.
            self._take_orphans(True)
            try:
                socket.send_fds(ours, [json.dumps(request).encode()], files)
                answer = ours.recv(64)
            finally:
                self._take_orphans(False)
            if not answer:
                raise RuntimeError("the warm process ended; ROBOT_MCP_KIT_COLD_START=1 does without it")
            return int(answer)

    def _connect(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = _COLD(
                [sys.executable, "-m", "tools.warm_start", str(theirs.fileno())],
                cwd=ROOT,
                # One thread: a fork takes no other along.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._socket = ours
        return ours

    def _take_orphans(self, yes: bool) -> None:
        if self._libc.prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")

    def close(self) -> None:
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()
            self._socket = self._process = None


_COLD = subprocess.Popen
_warm = _Warm()


class WarmPopen(subprocess.Popen[Any]):
    """``subprocess.Popen`` whose children of this project come from the warm process."""

    def _execute_child(self, *args: Any, **kwargs: Any) -> None:
        cold = _COLD._execute_child  # type: ignore[attr-defined]
        asked = inspect.signature(cold).bind(self, *args, **kwargs).arguments
        words = asked["args"]
        if not _can_be_warm(asked):
            cold(self, *args, **kwargs)
            return
        environment = dict(os.environ if asked["env"] is None else asked["env"])
        ends = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        request = {
            "words": [os.fspath(word) for word in words],
            "environment": environment,
            "folder": os.fspath(asked["cwd"] or os.getcwd()),
            "session": bool(asked["start_new_session"]),
        }
        self.pid = _warm.start(request, [given if given != -1 else fd for fd, given in enumerate(ends)])
        self._child_created = True
        self._close_pipe_fds(*(asked[name] for name in _PIPES))  # type: ignore[attr-defined]


def _can_be_warm(asked: dict[str, Any]) -> bool:
    words = asked["args"]
    if not isinstance(words, (list, tuple)) or len(words) < 2 or words[0] != sys.executable:
        return False
    module = words[1] == "-m" and len(words) > 2 and words[2] in _MODULES
    script = os.fspath(words[1]).startswith(f"{ROOT / 'test'}{os.sep}")
    odd = any(asked[name] for name in ("preexec_fn", "pass_fds", "shell"))
    odd = odd or asked["executable"] is not None or {asked["gid"], asked["uid"], asked["umask"]} != {None, -1}
    return (module or script) and not odd and _same_interpreter(asked["env"])


def _same_interpreter(given: Any) -> bool:
    environment = os.environ if given is None else given
    if any(name in environment for name in _MEASURED) or environment.get(SWITCHED_OFF, "0") != "0":
        return False
    path = set(environment.get("PYTHONPATH", "").split(os.pathsep)) - {""}
    return path <= {str(ROOT), *sys.path} and all(
        environment.get(name) == os.environ.get(name)
        for name in {*environment, *os.environ} - _FREE
        if name.startswith(_SAME_FOR_ALL)
    )


def install() -> None:
    """From here on this process's children of this project are warm ones, where that is possible."""
    looks_known = hasattr(_COLD, "_close_pipe_fds") and set(_NEEDED) | set(_PIPES) <= set(
        inspect.signature(_COLD._execute_child).parameters  # type: ignore[attr-defined]
    )
    if sys.platform == "linux" and looks_known and os.environ.get(SWITCHED_OFF, "0") == "0":
        subprocess.Popen = WarmPopen  # type: ignore[misc]


def uninstall() -> None:
    """Start cold again, and end the warm process."""
    subprocess.Popen = _COLD  # type: ignore[misc]
    _warm.close()


# -- in the warm process ------------------------------------------------------------------------------------


def serve(ours: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork a child for each request. Returns in the child, with what it is to become; the warm process itself
    ends when nobody can ask any more.
    """
    for name in PRELOADED:
        # Without ROS some of it is not there; what a child then says of that is what its user would see.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        data, files, _, _ = socket.recv_fds(ours, _REQUEST_BYTES, 3)
        if not data:
            os._exit(0)
        (read, write), (may_go, hold) = os.pipe(), os.pipe()
        between = os.fork()
        if between == 0:
            pid = os.fork()
            if pid == 0:
                for fd in (read, write, hold):
                    os.close(fd)
                ours.close()
                os.read(may_go, 1)  # ends when nobody holds it any more
                os.close(may_go)
                return json.loads(data), list(files)
            os.write(write, str(pid).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(between, 0)  # from here on the child is the asking process's
        ours.send(os.read(read, 64))
        for fd in (read, may_go, hold):
            os.close(fd)
        for fd in files:
            os.close(fd)


def become(request: dict[str, Any], files: list[int]) -> NoReturn:
    """Run as what was asked for, in the child."""
    if request["session"]:
        os.setsid()
    for target, fd in enumerate(files):
        os.dup2(fd, target)
    for fd in files:
        if fd > 2:
            os.close(fd)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    at_once = os.environ.get("PYTHONUNBUFFERED", "") != ""
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = _writer(1, at_once=at_once)
    sys.stderr = _writer(2, at_once=at_once, errors="backslashreplace")
    try:
        _run(request)
        code: object = 0
    except SystemExit as error:
        code = error.code
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # The tracing library that ROS brings ends its threads when the process does; the fork has not got them.
    os._exit(code or 0)


def _run(request: dict[str, Any]) -> None:
    _, first, *rest = request["words"]
    if first == "-m":
        module, *rest = rest
        sys.path[0] = request["folder"]
        sys.argv = [module, *rest]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(first)
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def _writer(fd: int, *, at_once: bool, errors: str = "strict") -> io.TextIOWrapper:
    raw = io.FileIO(fd, "w", closefd=False)
    by_line = at_once or raw.isatty() or fd == 2
    return io.TextIOWrapper(
        io.BufferedWriter(raw), errors=errors, line_buffering=by_line, write_through=at_once
    )


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    become(*serve(socket.socket(fileno=int(sys.argv[1]))))
