"""Names made comparable, so that a prohibited action in disguise is still that action (R5)."""

from __future__ import annotations

import functools
import unicodedata

_LOOK_ALIKES = {
    # Latin letters by what is drawn like them: Cyrillic, Greek, Armenian, Cherokee, digits and signs.
    "a": "аαɑаⲁ@4",
    "b": "ЬвβЪƅ8",
    "c": "сϲсⅽⲥ",
    "d": "ԁɗժⅾᏧ",
    "e": "еёεєҽ3",
    "f": "ϝƒғք",
    "g": "ɡցԍ",
    "h": "һհнᏂ",
    "i": "іίιїıɩӏ1!|",
    "j": "јϳյ",
    "k": "кκҝ",
    "l": "ⅼӏլ",
    "m": "мⅿ",
    "n": "пηոռ",
    "o": "оοσօӧ০0",
    "p": "рρϸ",
    "q": "ԛզ",
    "r": "гṛᴦ",
    "s": "ѕꜱʂ5$",
    "t": "тτ7",
    "u": "υսцų",
    "v": "ѵνⅴ",
    "w": "ԝωѡ",
    "x": "хχⅹ",
    "y": "уγүỿ",
    "z": "ᴢʐ2",
}
_TO_LATIN = {alike: latin for latin, alikes in _LOOK_ALIKES.items() for alike in alikes}
_ALSO_L = frozenset("1i|!")
"""Drawn like an l as well as like an i."""


def skeleton(name: str) -> str:
    """Letters only, lower case, without what cannot be seen and with look-alikes as the Latin letter.

    ``"Override-Safety"``, ``"OVERRIDE  SAFETY"``, ``"оverride_safety"`` (Cyrillic о) and
    ``"override\\u200b_safety"`` are all ``"overridesafety"``. Letters that look like no Latin one stay.
    """
    return _known_skeleton(name) if len(name) <= _KNOWN_CHARS else _skeleton(name)


def _skeleton(name: str) -> str:
    letters = []
    for char in unicodedata.normalize("NFKD", _mapped(name).casefold()):
        latin = _TO_LATIN.get(char, char)
        if latin.isalpha():
            letters.append(latin)
    return "".join(letters)


_KNOWN_CHARS = 100
_known_skeleton = functools.lru_cache(maxsize=1024)(_skeleton)
"""Each call asks for the same few names again."""


def _mapped(text: str) -> str:
    """Look-alikes replaced before compatibility forms are: NFKD would turn some into other letters."""
    plain = unicodedata.normalize("NFKC", text)
    return "".join(_TO_LATIN.get(char.casefold(), char) for char in plain)


def contains(name: str, wanted: str) -> bool:
    """Whether the skeleton of ``wanted`` is in that of ``name``, with ``i`` and ``l`` for each other."""
    return _one_stroke(skeleton(wanted)) in _one_stroke(skeleton(name))


def _one_stroke(letters: str) -> str:
    return letters.replace("l", "i")


def is_plain(name: str) -> bool:
    """Printable ASCII without spaces at the ends: what a name of a tool or an action can be."""
    return name.isascii() and name.isprintable() and name == name.strip() and bool(name)
