from __future__ import annotations

import random
import tracemalloc
import unicodedata
from pathlib import Path

import pytest

from micrograd_res.data import HUGE, Tokenizer, fingerprint, read_documents, split


def write(path: Path, content: bytes | str) -> Path:
    file = path / "names.txt"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


@pytest.mark.parametrize(
    "content",
    [
        "ada\nbea\ncid\n",
        "ada\nbea\ncid",
        "ada\r\nbea\r\ncid\r\n",
        "ada\rbea\rcid\r",
        "ada\nbea\r\ncid\r",
        "\n\n  \t\nada\n \u3000\nbea\n\n\ncid\n\n",
        "  ada\nbea  \n\tcid \u00a0\n",
        "\ufeffada\nbea\ncid\n",
        "\ufeff\nada\nbea\ncid\n",
    ],
)
def test_line_ends_blanks_and_byte_order_marks_make_no_difference(tmp_path, content):
    assert read_documents(write(tmp_path, content)) == ["ada", "bea", "cid"]


def test_only_line_ends_separate_documents(tmp_path):
    odd = "a\x0bb\x0cc\x1cd\x85e\u2028f"  # which str.splitlines splits
    assert read_documents(write(tmp_path, f"{odd}\n")) == [odd]


def test_composed_and_decomposed_letters_are_the_same(tmp_path):
    names = ["José", "Zoë", "한글", "Å"]
    forms = [unicodedata.normalize(form, name) for name in names for form in ("NFC", "NFD")]
    documents = read_documents(write(tmp_path, "\n".join([*forms, "\u212b"])))
    assert documents == [name for name in names for _ in range(2)] + ["Å"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "UTF8", "utf-16", "utf-32"])
def test_encodings_of_unicode(tmp_path, encoding):
    names = ["Łucja", "สมชาย", "김민준", "👩‍🚀", "i̇"]
    file = write(tmp_path, "\r\n".join(names).encode(encoding))
    assert read_documents(file, encoding) == names


def test_a_file_that_is_not_utf8_names_the_byte_and_the_remedy(tmp_path):
    file = write(tmp_path, "Bob\nJosé\n".encode("cp1252"))
    with pytest.raises(ValueError, match=r"names.txt: not utf-8: byte 0xe9 at offset 7; .*--encod"):
        read_documents(file)
    assert read_documents(file, "cp1252") == ["Bob", "José"]


@pytest.mark.parametrize("content", ["ada\nbea".encode("utf-16"), b"\x7fELF\x02\0\0\xff\0"])
def test_a_binary_file_and_utf16_are_told_from_another_8_bit_encoding(tmp_path, content):
    with pytest.raises(ValueError, match=r"byte 0xff at offset \d; it has NUL bytes: .*utf-16"):
        read_documents(write(tmp_path, content))


def test_the_offset_of_a_bad_byte_counts_the_byte_order_mark_and_long_files(tmp_path):
    with pytest.raises(ValueError, match=r"byte 0xff at offset 100003"):
        read_documents(write(tmp_path, b"\xef\xbb\xbf" + b"name\n" * 20_000 + b"\xff"))


@pytest.mark.parametrize("encoding", ["no-such-one", "rot13", "undefined", "\0", "a" * 500])
def test_an_unusable_encoding_is_named(tmp_path, encoding):
    with pytest.raises(ValueError, match=r"encod|read"):
        read_documents(write(tmp_path, "ada"), encoding)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("\ufeff", "empty"),
        (" \r\n\t\n\u3000", "only white space"),
        ("ada\nb\0ea\n", "not a text file: NUL at character 5"),
        (bytes(100), "not a text file: NUL at character 0"),
        (
            "x" * 1_234_567,
            "a single line of 1,234,567 characters, but documents are sep.* line ends",
        ),
    ],
)
def test_a_file_without_documents_says_what_it_is(tmp_path, content, message):
    with pytest.raises(ValueError, match=f"names.txt: {message}"):
        read_documents(write(tmp_path, content))


def test_one_document_is_fine_unless_it_is_huge(tmp_path):
    assert read_documents(write(tmp_path, "x" * HUGE)) == ["x" * HUGE]
    assert len(read_documents(write(tmp_path, "x" * HUGE + "x\ny"))) == 2


@pytest.mark.parametrize("name", ["absent.txt", "."])
def test_a_missing_file_and_a_folder_are_os_errors(tmp_path, name):
    with pytest.raises(OSError, match=r"absent|directory|denied"):
        read_documents(tmp_path / name)


@pytest.mark.parametrize("n", [30_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_long_file_needs_less_than_ten_times_its_size(tmp_path, n):
    rng = random.Random(1)
    lines = ["".join(rng.choices("abcdefghij", k=rng.randint(4, 14))) for _ in range(n)]
    file = write(tmp_path, "\n".join(lines))
    del lines
    tracemalloc.start()
    try:
        documents = read_documents(file)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(documents) == n
    assert peak < 10 * file.stat().st_size


def test_tokens_are_sorted_characters_then_bos():
    tokenizer = Tokenizer.of(["bca", "ab"])
    assert (tokenizer.alphabet, tokenizer.bos, tokenizer.vocab_size) == ("abc", 3, 4)
    assert tokenizer.encode("cab") == [3, 2, 0, 1, 3]
    assert tokenizer.encode("") == [3, 3]
    assert tokenizer.decode([3, 2, 0, 1, 3]) == "cab"


@pytest.mark.parametrize("token", [-1, 4])
def test_a_token_outside_the_vocabulary_is_refused(token):
    with pytest.raises(ValueError, match=f"token {token} .* vocabulary of 4"):
        Tokenizer("abc").decode([0, token])


def test_characters_outside_the_alphabet_are_named_with_it():
    with pytest.raises(ValueError, match=r"'xy' is not in the alphabet 'abc'"):
        Tokenizer("abc").encode("ybxax")


def test_the_fingerprint_is_that_of_the_documents_in_their_order():
    assert fingerprint(["ada", "bea"]) == fingerprint(iter(["ada", "bea"]))
    assert (
        len({fingerprint(d) for d in (["ada", "bea"], ["bea", "ada"], ["adab", "ea"], ["ada"])})
        == 4
    )
    assert fingerprint(["abc"]).startswith("ba7816bf8f01cfea")  # FIPS 180-2, appendix B.1


@pytest.mark.parametrize(
    ("documents", "fraction", "held_out"),
    [
        (["a"], 0.1, []),
        (["a"], 0.999, []),
        (["a", "b"], 0.1, []),
        (["a", "b"], 0.5, ["b"]),
        (list("abcde"), 0.1, []),
        (list("abcde"), 0.4, ["d", "e"]),
        (["a", "b", "a", "c", "b", "c"], 0.4, ["c", "c"]),
        (["a", "b"], 0.0, []),
    ],
)
def test_split_holds_out_the_last_distinct_documents(documents, fraction, held_out):
    training, rest = split(documents, fraction)
    assert rest == held_out
    assert training == [document for document in documents if document not in held_out]


@pytest.mark.parametrize("fraction", [-0.1, 1.0, 2, float("nan"), float("inf")])
def test_split_refuses_what_is_no_fraction(fraction):
    with pytest.raises(ValueError, match=f"from 0 to below 1, not {fraction}"):
        split(["a", "b"], fraction)


try:
    from hypothesis import given, settings
    from hypothesis import strategies as st
except ImportError:
    pass
else:
    quick = settings(deadline=None, max_examples=60)
    any_text = st.text(st.characters())

    @quick
    @given(st.lists(any_text, min_size=1))
    def test_every_text_survives_encoding_and_decoding(documents):
        tokenizer = Tokenizer.of(documents)
        for document in documents:
            assert tokenizer.decode(tokenizer.encode(document)) == document
            assert max(tokenizer.encode(document)) == tokenizer.bos

    @quick
    @given(st.lists(st.sampled_from("abcdefgh"), min_size=1), st.floats(0, 1, exclude_max=True))
    def test_split_loses_nothing_shares_nothing_and_never_empties_the_training(documents, fraction):
        training, held_out = split(documents, fraction)
        assert training
        assert not set(training) & set(held_out)
        assert sorted(training + held_out) == sorted(documents)

    @quick
    @given(st.binary())
    def test_any_bytes_are_documents_or_one_clear_line(tmp_path_factory, content):
        file = write(tmp_path_factory.getbasetemp(), content)
        try:
            documents = read_documents(file)
        except ValueError as error:
            said = str(error)
        else:
            assert all(document == document.strip() != "" for document in documents)
            return
        assert said.startswith(f"{file}: ")
        assert "\n" not in said
