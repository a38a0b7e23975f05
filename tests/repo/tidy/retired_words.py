"""Words that are no longer used here: docs/STYLE.md says what to say instead."""

import re

# They stand nowhere, neither in names nor in sentences.
BANNED = frozenset(
    "board boards desk desks bell bells guest guests seat seats seated lifeline lifelines "
    "doom dooms doomed bequeath bequeaths bequeathed octet octets invitation invitations "
    "stranger strangers roster planted whoever nobody somebody sooner".split())

# Ordinary words that were nicknames as well: the reviewer of a change looks at them.
ORDINARY = frozenset(
    "list lists turn turns host hosts room rooms door meeting meetings meet visit visits entry "
    "flight drive drives text texts said say tell told hear heard part phase lag verdict "
    "program".split())

_NAME = re.compile(r"[A-Za-z_]\w*")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def parts_of(name):
    """The words that an identifier or a path is made of, in lower case."""
    return [part.lower() for part in _PART.findall(name)]


def banned_names(path, code):
    """Sentences on identifiers of a file's code, and on its path, that have a retired word."""
    names = sorted(set(_NAME.findall(code)))
    return [f"{path}: {name} has the retired word '{part}'" for name in (path, *names)
            for part in parts_of(name) if part in BANNED]


def banned_sentences(path, text):
    """Sentences on lines of comments, strings or pages that have a retired word."""
    return [f"{path}:{number}: the retired word '{word}'"
            for number, line in enumerate(text.split("\n"), 1)
            for word in re.findall(r"[A-Za-z]+", line) if word.lower() in BANNED]


def ordinary_counts(texts):
    """{word: how often it stands in all texts}, for a reader."""
    counts = dict.fromkeys(sorted(ORDINARY), 0)
    for text in texts:
        for word in re.findall(r"[A-Za-z]+", text):
            if word.lower() in counts:
                counts[word.lower()] += 1
    return counts
