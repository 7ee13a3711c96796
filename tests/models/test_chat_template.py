"""Chat templates run as models expect them, in a sandbox, and their mistakes are told with their name."""

from __future__ import annotations

import datetime

import pytest

from mlxc.models.chat_template import render_chat

CHAT = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi <b>"}]


def test_chatml_is_the_default():
    assert render_chat(CHAT) == "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi <b><|im_end|>\n"
    assert render_chat(CHAT, add_generation_prompt=True).endswith("<|im_end|>\n<|im_start|>assistant\n")
    assert render_chat([]) == ""


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        # Blocks take no space of their own.
        (
            "{% for m in messages %}\n  {% if m.role == 'user' %}\n{{ m.content }}\n  {% endif %}\n{% endfor %}",
            "Hi <b>\n",
        ),
        ("{{ bos_token }}{{ eos_token }}", "<s></s>"),
        ("{{ tools | tojson }}", '[{"name": "größe", "a": "<&>"}]'),
        ("{{ tools | tojson(indent=1) }}", '[\n {\n  "name": "größe",\n  "a": "<&>"\n }\n]'),
        ("{% for m in messages %}{% if loop.index0 %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "system"),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}", "Be kind."),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "2"),
        ("{{ messages[1]['content'].split(' ')[0] | trim }}", "Hi"),
        ("{{ enable_thinking is defined and not enable_thinking }}", "True"),
        ("{{ undefined_name }}", ""),
    ],
)
def test_what_templates_use_is_there(template, expected):
    tools = [{"name": "größe", "a": "<&>"}]
    known = {"bos_token": "<s>", "eos_token": "</s>", "enable_thinking": False}
    assert render_chat(CHAT, template, tools=tools, **known) == expected


def test_templates_can_tell_the_day():
    today = {datetime.date.today().isoformat()}
    text = render_chat(CHAT, "{{ strftime_now('%Y-%m-%d') }}")
    assert text in today | {datetime.date.today().isoformat()}


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% for m in messages %}\n{{ m.role }", "has a mistake in line 2"),
        ("{% nonsense %}", "has a mistake in line 1"),
        ("{{ raise_exception('roles must alternate') }}", "failed: roles must alternate"),
        ("{{ messages[7].role }}", "failed: "),
        ("{{ 1 / 0 }}", "failed: division by zero"),
        ("{{ messages + 1 }}", "failed: "),
        ("{{ ''.__class__.__mro__ }}", "failed: .*unsafe"),
        ("{{ messages.append(1) }}", "failed: .*append.*unsafe"),
        ("{{ range(99999999) | list }}", "failed: .*[Rr]ange"),
    ],
)
def test_a_failing_template_is_told_with_its_name(template, message):
    with pytest.raises(ValueError, match=f"the chat template of some-model {message}"):
        render_chat(CHAT, template, name="some-model")


def test_messages_of_wrong_form_are_refused():
    for messages, message in (("Hi", "got str"), ({"role": "user"}, "got dict"), (["Hi"], "message 0 is a dict")):
        with pytest.raises(TypeError, match=message):
            render_chat(messages)
    with pytest.raises(ValueError, match="message 1 has no role; it has 'content'"):
        render_chat([CHAT[0], {"content": "x"}])
