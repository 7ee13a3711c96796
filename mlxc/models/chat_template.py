"""Chats as text: a model's chat template, a Jinja program that comes with its weights, is run on the messages.

Called by Tokenizer.apply_chat_template. Templates are programs of strangers, so they run in Jinja's sandbox, which
lets them change nothing and call nothing but what is given here.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

__all__ = ["CHATML", "render_chat"]

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as models were trained on it; Jinja's own filter escapes it for web pages."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def now_as(form: str) -> str:
    return datetime.datetime.now().strftime(form)


@lru_cache(maxsize=32)
def compiled(template: str, name: str) -> Any:
    """The template as a program, made once."""
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise ImportError("a chat template needs the package jinja2: pip install 'mlxc[models]'") from error
    from jinja2 import TemplateSyntaxError, nodes
    from jinja2.exceptions import TemplateRuntimeError
    from jinja2.ext import Extension
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}`: marks what the model wrote, for training; the text is what is between."""

        tags = {"generation"}  # noqa: RUF012  (Jinja reads it so)

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def raise_exception(message: str) -> None:
        raise TemplateRuntimeError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = now_as
    try:
        return environment.from_string(template)
    except TemplateSyntaxError as error:
        raise ValueError(f"the chat template of {name} has a mistake in line {error.lineno}: {error.message}") from None


def check_messages(messages: Any) -> None:
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise TypeError(f"messages is a list of messages, each with a role and content; got {type(messages).__name__}")
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise TypeError(f"message {i} is a dict with a role and content; got {type(message).__name__}")
        if not isinstance(message.get("role"), str):
            raise ValueError(f"message {i} has no role; it has {', '.join(map(repr, message)) or 'nothing'}")


def render_chat(
    messages: Sequence[Mapping[str, Any]],
    template: str = CHATML,
    *,
    add_generation_prompt: bool = False,
    tools: Sequence[Any] | None = None,
    documents: Sequence[Any] | None = None,
    name: str = "the model",
    **variables: Any,
) -> str:
    """A chat as the text that a model expects.

    Args:
        messages: the messages, each a dict with "role" ("system", "user", "assistant") and "content".
        template: the chat template in Jinja; ChatML by default.
        add_generation_prompt: ends with what begins an answer.
        tools: descriptions of functions that the model may call, for templates that take them.
        documents: texts that the model may quote, for templates that take them.
        name: whose template it is, for messages of errors.
        **variables: what the template may name besides, such as bos_token.

    Returns:
        The text.

    Raises:
        TypeError: if messages are not a list of dicts.
        ValueError: if a message lacks its role, or the template fails or refuses.

    Example:
        >>> from mlxc.models.chat_template import render_chat
        >>> render_chat([{"role": "user", "content": "Hi"}], add_generation_prompt=True)
        '<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n'
    """
    check_messages(messages)
    program = compiled(template, name)
    from jinja2 import TemplateError

    mistakes = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

    try:
        return program.render(
            messages=messages,
            add_generation_prompt=add_generation_prompt,
            tools=tools,
            documents=documents,
            **variables,
        )
    except (TemplateError, *mistakes) as error:
        raise ValueError(f"the chat template of {name} failed: {error}") from error
