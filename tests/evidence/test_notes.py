"""Signed notes, checked against the published vectors of C2SP signed-note and Go's sumdb/note."""

import base64

import pytest

from evidence import notes

# c2sp.org/signed-note
SPEC_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
SPEC_NOTE = (
    "This is an example message.\n\n"
    "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKu"
    "wHjG1Yu72IneyaQM=\n"
)
# golang.org/x/mod/sumdb/note, note_test.go
GO_SECRET = "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_OTHER_KEY = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
GO_TEXT = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
)
GO_LINE = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6"
    "KE6RyyBwJnAM=\n"
)
GO_OTHER_LINE = (
    "— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WW"
    "d1RvMc+QQ=\n"
)
SIGNER = notes.Signer(bytes(range(32)))
ROOT = bytes(32)
TEXT = notes.Checkpoint("candor/log_1", 5, ROOT).write()


def test_the_specifications_example_note_is_read():
    key = notes.Verifier.parse(SPEC_KEY)
    assert str(key) == SPEC_KEY
    notes.check_note(notes.parse_note(SPEC_NOTE.encode()), key)


def test_a_note_is_signed_as_in_go():
    signer = notes.Signer(base64.b64decode(GO_SECRET)[1:])
    assert str(signer.verifier("PeterNeumann")) == GO_KEY
    assert signer.sign_note("PeterNeumann", GO_TEXT) == f"{GO_TEXT}\n{GO_LINE}"


def test_each_of_two_signatures_is_found():
    note = notes.parse_note(f"{GO_TEXT}\n{GO_LINE}{GO_OTHER_LINE}".encode())
    for key in (GO_KEY, GO_OTHER_KEY):
        notes.check_note(note, notes.Verifier.parse(key))
    with pytest.raises(notes.BadNote):
        notes.check_note(note, notes.Verifier.parse(SPEC_KEY))


def test_a_changed_byte_is_detected():
    note = notes.parse_note(f"{GO_TEXT}\n{GO_LINE}".replace("problem", "Problem").encode())
    with pytest.raises(notes.BadNote):
        notes.check_note(note, notes.Verifier.parse(GO_KEY))


def check_cosignature(note, witness):
    """When a witness found a note's checkpoint consistent, as c2sp.org/tlog-cosignature has it:
    eight bytes of time, then the signature over a header and the text.
    """
    signature = note.find(witness)
    seconds = int.from_bytes(signature[:8], "big")
    witness.check(f"cosignature/v1\ntime {seconds}\n{note.text}".encode(), signature[8:])
    return seconds


def test_a_cosignature_contains_time_and_signer():
    # c2sp.org/tlog-cosignature: key id, eight bytes of time, signature over a header and the text
    line = SIGNER.cosign("w", TEXT, 1679315147)
    raw = base64.b64decode(line.split(" ")[2])
    witness = SIGNER.verifier("w", notes.COSIGNATURE)
    assert raw[4:12] == (1679315147).to_bytes(8, "big") and raw[:4] == witness.id
    witness.check(
        b"cosignature/v1\ntime 1679315147\ncandor/log_1\n5\n" + TEXT[15:].encode(), raw[12:]
    )
    note = notes.parse_note((SIGNER.sign_note("candor/log_1", TEXT) + line).encode())
    assert check_cosignature(note, witness) == 1679315147
    later = notes.parse_note((SIGNER.sign_note("candor/log_1", TEXT) + line).encode())._replace(
        text=TEXT.replace("5", "6")
    )
    with pytest.raises(notes.BadNote):
        check_cosignature(later, witness)


def test_a_log_and_its_witness_use_different_keys():
    assert SIGNER.verifier("a").public != SIGNER.verifier("a", notes.COSIGNATURE).public
    assert "0001" not in repr(SIGNER) and SIGNER.seed.hex() not in repr(SIGNER)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n",
        b"text\n",
        f"{GO_TEXT}{GO_LINE}".encode(),
        f"{GO_TEXT}\n{GO_LINE}".encode()[:-1],
        f"{GO_TEXT}\n{GO_LINE}".encode().replace(b"\xe2\x80\x94", b"-"),
        f"{GO_TEXT}\n{GO_LINE}".encode() + b"\xff\n",
        f"{GO_TEXT}\n{GO_LINE}".replace("answer", "an\x00swer").encode(),
        f"{GO_TEXT}\n{GO_LINE}".replace("nAM=", "nAM").encode(),
        f"{GO_TEXT}\n{GO_LINE * 33}".encode(),
        b"x" * (notes.MAX_NOTE_BYTES + 1),
    ],
)
def test_an_invalid_note_is_refused(raw):
    with pytest.raises(notes.BadNote):
        notes.parse_note(raw)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "o\n5\n",
        "o\n05\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "o\n-5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "o\n٥\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "o\n999999999999999\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "o\n5\nAAAA\n",
        "\n5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
        "o\n5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        f"{'o' * 256}\n5\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
    ],
)
def test_an_invalid_checkpoint_is_refused(text):
    with pytest.raises(notes.BadNote):
        notes.parse_checkpoint(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a+00000000+AAAA",
        GO_KEY.replace("c74f", "c74e"),
        GO_KEY.replace("+AR", "+Ax"),
        " " + GO_KEY,
    ],
)
def test_an_invalid_key_is_refused(text):
    with pytest.raises(notes.BadNote):
        notes.Verifier.parse(text)


# The first three have bits that belong to no byte: `AA==`, `AA==` and `AAA=` say the same.
@pytest.mark.parametrize("text", ["AB==", "AP==", "AAB=", "AA", "A A==", "AA==\n"])
def test_bytes_have_one_encoding(text):
    """Who may write a signature or a root in two ways has two notes that say the same."""
    assert notes.decode("AA==") == b"\0"
    with pytest.raises(notes.BadNote, match="not base64"):
        notes.decode(text)


def test_a_checkpoint_survives_encoding():
    assert notes.parse_checkpoint(TEXT) == notes.Checkpoint("candor/log_1", 5, ROOT)
