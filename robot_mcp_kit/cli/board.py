"""A live board of tasks in the terminal: one progress bar a task, events as lines above it. Needs rich."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.text import Text

from robot_mcp_kit.cli.words import event_words, number, plain, progress_words
from robot_mcp_kit.client.inbox import Receipt
from robot_mcp_kit.models import TaskEvent

MAX_BARS = 12

_STYLES = {
    "progress": "dim",
    "trigger_fired": "bold yellow",
    "task_done": "bold green",
    "task_failed": "bold red",
    "watch_event": "cyan",
}


class TaskBoard:
    """Shows receipts as they come. Use it as a context manager; not thread-safe.

    Args:
        console: where to draw.
        show_progress_lines: also print a line for each progress event (the bar shows it anyway). Default:
        only
            when the console is not a terminal, where bars cannot move.
    """

    def __init__(self, console: Console, *, show_progress_lines: bool | None = None) -> None:
        self.console = console
        self._lines_for_progress = (
            not console.is_terminal if show_progress_lines is None else show_progress_lines
        )
        self._progress = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.fields[label]}"),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[state]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> TaskBoard:
        self._progress.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._progress.stop()

    def say(self, text: str, style: str = "") -> None:
        """A line of our own words above the bars."""
        self.console.print(Text(text, style=style), soft_wrap=True)

    def show(self, receipt: Receipt) -> None:
        """One judged request: a line, and the bar of its task."""
        event = receipt.event
        if event is None:
            self.say(f"refused {receipt.status}: {receipt.reason}", "bold red")
            return
        if receipt.duplicate:
            self.say(f"{event.task_id} #{event.seq} again (same event_id): not applied twice", "dim")
            return
        if receipt.gap:
            self.say(f"{event.task_id}: {_gap_words(receipt.gap)} missing; poll get_task", "bold magenta")
        if receipt.late:
            self.say(f"{event.task_id} #{event.seq} arrived after a later one", "bold magenta")
        if event.type != "progress" or self._lines_for_progress:
            self.console.print(event_line(event), soft_wrap=True)
        self._update_bar(event)

    def _update_bar(self, event: TaskEvent) -> None:
        bar = self._bars.get(event.task_id)
        if bar is None:
            if len(self._bars) >= MAX_BARS:
                oldest = next(iter(self._bars))
                self._progress.remove_task(self._bars.pop(oldest))
            label = escape(plain(f"{event.server} {event.tool} {event.task_id}"))
            bar = self._progress.add_task("", total=None, label=label, state="")
            self._bars[event.task_id] = bar
        if event.type == "progress":
            percent = number(event.payload.get("percent"))
            if percent is not None:
                self._progress.update(bar, total=100, completed=max(0.0, min(100.0, percent)))
            self._progress.update(bar, state=escape(progress_words(event.payload)))
        elif event.type == "task_done":
            self._progress.update(bar, total=100, completed=100, state="[green]done")
        elif event.type == "task_failed":
            code = escape(plain(str(event.payload.get("error_code", "failed"))))
            self._progress.update(bar, state=f"[red]{code}")
            self._progress.stop_task(bar)


def event_line(event: TaskEvent) -> Text:
    """One event in one line: time, verified mark, task, sequence number, type, what it says."""
    line = Text()
    line.append(event.ts.astimezone().strftime("%H:%M:%S "), style="dim")
    line.append("✓ ", style="green")
    line.append(f"{plain(event.task_id)} #{event.seq} ")
    line.append(event.type, style=_STYLES.get(event.type, ""))
    line.append(" " + event_words(event))
    return line


def _gap_words(gap: tuple[int, ...]) -> str:
    return f"#{gap[0]} is" if len(gap) == 1 else f"#{gap[0]} to #{gap[-1]} are"
