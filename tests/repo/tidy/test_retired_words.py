"""Retired words stay out, and the check sees them; ordinary ones are counted for a reader."""

import warnings

from retired_words import banned_names, banned_sentences, ordinary_counts
from source_tree import C_SUFFIXES, CODE_SUFFIXES, code_only, source_files

OWN = ("tests/repo/tidy/retired_words.py", "tests/repo/tidy/test_retired_words.py",
       "docs/STYLE.md")  # they name the words


def texts(suffixes):
    return {name: text for name, text in source_files(suffixes).items() if name not in OWN}


def test_no_name_has_a_retired_word():
    def code_of(name, text):
        return code_only(text) if "." + name.rpartition(".")[2] in C_SUFFIXES else text

    found = [v for name, text in texts(C_SUFFIXES).items()
             for v in banned_names(name, code_of(name, text))]
    found += [v for name in texts(CODE_SUFFIXES | {".md", ".build"})
              for v in banned_names(name, "")]
    assert found == []


def test_no_sentence_has_a_retired_word():
    assert [v for name, text in texts(CODE_SUFFIXES | {".md", ".build"}).items()
            for v in banned_sentences(name, text)] == []


def test_ordinary_words_are_reported():
    counts = ordinary_counts(texts(CODE_SUFFIXES | {".md"}).values())
    assert counts["list"] > 0
    warnings.warn("words to look at: " + ", ".join(f"{word} {count}" for word, count
                                                   in counts.items() if count), stacklevel=1)


def test_a_retired_word_is_seen():
    assert banned_names("src/a.h", "int boarding, dashboard, kBoardBytes;") == [
        "src/a.h: kBoardBytes has the retired word 'board'"]
    assert banned_names("src/bell.h", "") == ["src/bell.h: src/bell.h has the retired word 'bell'"]
    assert banned_sentences("a.md", "fine\nthe Board, and a desk\n") == [
        "a.md:2: the retired word 'Board'", "a.md:2: the retired word 'desk'"]
    assert banned_sentences("a.md", "so that nobody\nwaits\n") == [
        "a.md:1: the retired word 'nobody'"]
    assert banned_sentences("a.md", "dashboards and keyboards\n") == []
    assert ordinary_counts(["the list, the List"])["list"] == 2
