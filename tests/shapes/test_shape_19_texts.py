"""Shape 19: codes and parameters everywhere, sentences only in `locale`, both languages for every one."""

from __future__ import annotations

import re

from steelyard.locale import LANGUAGES, catalogue
from steelyard.locale.rendering import placeholders
from steelyard.model.reasons import ReasonCode
from tests.support import message_codes

#: A language's name for itself is no sentence: it is the same in every language.
OWN_NAME = "中文"
#: Writing of Chinese: ideographs and their punctuation.
CJK = re.compile("[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]")
TOKEN = re.compile(r"`[^`]*`|--[a-z-]+|STEELYARD_[A-Z]+")
#: Words of one language that stand for a unit of a quantity, a time or a device.
UNITS = re.compile(r"(?<![A-Za-z])(MiB|GiB|UTC|GPU|NPU|CPU|2⁵³|UTF-8|JSON|YAML|MB|µs)s?(?![A-Za-z])")


def entries() -> list[tuple[str, str, str]]:
    """(code, English, Chinese) of every text."""
    found = [(code, catalogue.entry(code) or {}) for code in catalogue.codes()]
    return [(code, entry.get("en", ""), entry.get("zh", "")) for code, entry in found]


def test_every_text_is_there_in_every_language() -> None:
    languages = sorted(LANGUAGES)
    assert [code for code in catalogue.codes() if sorted(catalogue.entry(code) or {}) != languages] == []
    assert [code for code, en, zh in entries() if not (en.strip() and zh.strip())] == []


def test_both_languages_use_the_same_parameters_in_the_same_form() -> None:
    assert [code for code, en, zh in entries() if placeholders(en) != placeholders(zh)] == []


def test_both_languages_name_the_same_units() -> None:
    assert [code for code, en, zh in entries() if set(UNITS.findall(en)) != set(UNITS.findall(zh))] == []


def test_commands_and_options_are_named_alike_in_both_languages() -> None:
    differing = [code for code, en, zh in entries() if set(TOKEN.findall(en)) != set(TOKEN.findall(zh))]
    assert differing == []


def test_no_english_text_is_chinese_and_no_chinese_sentence_english() -> None:
    assert [code for code, en, _ in entries() if CJK.search(en)] == []
    assert [code for code, en, zh in entries() if len(en.split()) > 3 and not CJK.search(zh)] == []


def test_no_code_is_without_a_text() -> None:
    assert message_codes.missing() == []


def test_every_reason_has_a_text() -> None:
    assert [code for code in ReasonCode if not catalogue.has(f"reason.{code.value}")] == []


def test_every_parameter_of_an_error_s_text_is_given_where_it_is_raised() -> None:
    wrong = []
    for code, sites in message_codes.error_codes().sites.items():
        entry = catalogue.entry(code)
        always = {name for name, _ in placeholders(entry["en"])[0]} if entry else set()
        for site in sites:
            if site.params is not None and always - site.params:
                wrong.append(f"{code} at {site.where}: {sorted(always - site.params)}")
    assert wrong == []


def test_no_other_room_holds_a_chinese_sentence() -> None:
    found = []
    for path in sorted(message_codes.SOURCE.rglob("*.py")):
        name = path.relative_to(message_codes.SOURCE).as_posix()
        if name in message_codes.EXCEPT or name.startswith("locale/"):
            continue
        if CJK.search(path.read_text(encoding="utf-8").replace(OWN_NAME, "")):
            found.append(name)
    assert found == []
