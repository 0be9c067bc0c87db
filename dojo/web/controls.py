"""Controls that every browser brings, so that keyboards and screen readers know them; a question before a deed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement


def text(tag: str, words: str, css: str = "") -> TextElement:
    """An element of this tag that holds words, as text."""
    made = TextElement(tag=tag, text=words)
    if css:
        made.classes(css)
    return made


def begun(words: str) -> str:
    """Words with the capital that begins a sentence."""
    return words[:1].upper() + words[1:]


class Field:
    """A labeled input or choice; `value` is what stands in it now."""

    def __init__(self, label: str, value: str, changed: Callable[[], object] | None = None, **attributes: str) -> None:
        """`attributes` are those of HTML, with `kind` for an input's type."""
        self.value, self._changed = value, changed
        self.box = ui.element("label").classes("field")
        with self.box:
            text("span", label)
            self.control = self._control(attributes)

    def _control(self, attributes: Mapping[str, str]) -> ui.element:
        control = ui.element("input")
        control.props["^value"] = self.value  # the attribute: the property would be written over what is typed since
        self._attributed(control, "input", {"autocomplete": "off"} | {k: v for k, v in attributes.items() if v})
        return control

    def _attributed(self, control: ui.element, event: str, attributes: Mapping[str, str]) -> None:
        for name, value in attributes.items():
            control.props["type" if name == "kind" else name] = value
        control.on(event, lambda told: self._take(str(told.args)), js_handler="event => emit(event.target.value)")

    def _take(self, value: str) -> None:
        self.value = value
        if self._changed:
            self._changed()


class Choice(Field):
    """One of several values, each with the words that are shown for it."""

    def __init__(
        self,
        label: str,
        options: Mapping[str, str],
        value: str,
        changed: Callable[[], object] | None = None,
        **attributes: str,
    ) -> None:
        self._options = options
        super().__init__(label, value if value in options else next(iter(options)), changed, **attributes)

    def _control(self, attributes: Mapping[str, str]) -> ui.element:
        control = ui.element("select")
        self._attributed(control, "change", {"autocomplete": "off", **attributes})
        with control:
            for value, words in self._options.items():
                option = text("option", words)
                option.props["value"] = value
                option.props["selected"] = value == self.value
        return control


class Question:
    """What is asked before something is done, in the browser's own dialog; Esc and the first button change nothing."""

    def __init__(self) -> None:
        self._box = ui.element("dialog").classes("asked").props('aria-label="A question"')
        self._act: Callable[[], Awaitable[None]] | None = None
        with self._box:
            self._words = text("p", "")
            with ui.element("div").classes("row"):
                ui.button("Leave it", on_click=self._close).props("outline autofocus")
                self._deed = ui.button("", on_click=self._go)

    def ask(self, question: str, deed: str, act: Callable[[], Awaitable[None]]) -> None:
        """Ask, and do it if the button that names the deed is pressed."""
        self._words.set_text(question)
        self._deed.set_text(deed)
        self._act = act
        self._box.run_method("showModal")

    def _close(self) -> None:
        self._box.run_method("close")

    async def _go(self) -> None:
        self._close()
        if self._act:
            await self._act()
