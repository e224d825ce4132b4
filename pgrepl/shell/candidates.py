"""The tab key as in readline: inserts the common beginning of all candidates, or lists them.

prompt_toolkit's own display_completions_like_readline fails at Ctrl-C.
"""

from __future__ import annotations

from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.completion import CompleteEvent, Completion, get_common_complete_suffix
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.utils import get_cwidth

_YES = ("y", "Y", " ", Keys.ControlI, Keys.ControlM, Keys.ControlJ)
_NO = ("n", "N", "q", "Q")


class _Interrupted(Exception):
    """Ctrl-C instead of an answer."""


def complete(event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    if buffer.completer is None:
        return
    found = list(buffer.completer.get_completions(buffer.document, CompleteEvent(completion_requested=True)))
    if len(found) == 1:
        buffer.delete_before_cursor(-found[0].start_position)
        buffer.insert_text(found[0].text)
        return
    suffix = get_common_complete_suffix(buffer.document, found)
    if suffix:
        buffer.insert_text(suffix)
    elif found:
        event.app.create_background_task(_list(event.app, found))


async def _list(app: Application[Any], candidates: list[Completion]) -> None:
    try:
        async with in_terminal(render_cli_done=True):
            await _ask_and_print(app, [candidate.display_text for candidate in candidates])
    except _Interrupted:
        app.exit(exception=KeyboardInterrupt())


async def _ask_and_print(app: Application[Any], texts: list[str]) -> None:
    size = app.output.get_size()
    lines = in_columns(texts, size.columns)
    page = max(size.rows - 1, 1)
    if len(lines) > page and not await _agreed(app, f"Display all {len(texts)} possibilities? (y or n) "):
        return
    for at in range(0, len(lines), page):
        if at and not await _agreed(app, "--More--"):
            return
        app.print_text("".join(line + "\n" for line in lines[at : at + page]))


def in_columns(texts: list[str], width: int) -> list[str]:
    """The texts in lines, column by column, in as many columns as the width allows."""
    column = min(width, max(get_cwidth(text) for text in texts) + 2)
    columns = max(width // column, 1)
    rows = -(-len(texts) // columns)
    return [
        "".join(text + " " * (column - get_cwidth(text)) for text in texts[row::rows]).rstrip() for row in range(rows)
    ]


async def _agreed(app: Application[Any], question: str) -> bool:
    """Ask on the same output, which asks the terminal nothing."""
    bindings = KeyBindings()

    def answers(keys: tuple[str | Keys, ...], answer: bool | None) -> None:
        def answered(event: KeyPressEvent) -> None:
            event.app.exit(result=answer)

        for key in keys:
            bindings.add(key)(answered)

    @bindings.add(Keys.Any)
    def ignored(event: KeyPressEvent) -> None:
        """Ignore all other keys."""

    answers(_YES, True)
    answers(_NO, False)
    answers((Keys.ControlD,), False)
    answers((Keys.ControlC,), None)
    session: PromptSession[bool | None] = PromptSession(
        question, key_bindings=bindings, erase_when_done=True, input=app.input, output=app.output
    )
    answer = await session.prompt_async()
    if answer is None:
        raise _Interrupted
    return answer
