"""Signed notes, checked against the published vectors of C2SP signed-note and Go's sumdb/note."""

import base64
import contextlib

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
GO_NOTE = f"{GO_TEXT}\n{GO_LINE}"
SIGNER = notes.Signer(bytes(range(32)))
ROOT = bytes(32)
TEXT = notes.Checkpoint("candor/log_1", 5, ROOT).write()


def is_refused(act, *given):
    with contextlib.suppress(notes.BadNote):
        act(*given)
        return False
    return True


def is_signed(text, key):
    note = notes.parse_note(text.encode())
    return not is_refused(notes.check_note, note, notes.Verifier.parse(key))


def test_notes_are_signed_and_checked_as_by_other_implementations():
    signer = notes.Signer(base64.b64decode(GO_SECRET)[1:])
    assert str(signer.verifier("PeterNeumann")) == GO_KEY
    assert signer.sign_note("PeterNeumann", GO_TEXT) == GO_NOTE
    assert str(notes.Verifier.parse(SPEC_KEY)) == SPEC_KEY and is_signed(SPEC_NOTE, SPEC_KEY)
    both = GO_NOTE + GO_OTHER_LINE
    assert is_signed(both, GO_KEY) and is_signed(both, GO_OTHER_KEY)
    assert not is_signed(both, SPEC_KEY)
    assert not is_signed(GO_NOTE.replace("problem", "Problem"), GO_KEY)


def check_cosignature(note, witness):
    """Check a note's cosignature and return its time, per c2sp.org/tlog-cosignature: eight bytes of
    time, then the signature over a header and the text.
    """
    signature = note.find(witness)
    seconds = int.from_bytes(signature[:8], "big")
    witness.check(f"cosignature/v1\ntime {seconds}\n{note.text}".encode(), signature[8:])
    return seconds


def test_a_cosignature_contains_time_and_signer_and_uses_another_key_than_the_log():
    line = SIGNER.cosign("w", TEXT, 1679315147)
    witness = SIGNER.verifier("w", notes.COSIGNATURE)
    assert witness.public != SIGNER.verifier("w").public
    assert "0001" not in repr(SIGNER) and SIGNER.seed.hex() not in repr(SIGNER)
    raw = base64.b64decode(line.split(" ")[2])
    assert (raw[:4], raw[4:12]) == (witness.id, (1679315147).to_bytes(8, "big"))
    note = notes.parse_note((SIGNER.sign_note("candor/log_1", TEXT) + line).encode())
    assert check_cosignature(note, witness) == 1679315147
    assert is_refused(check_cosignature, note._replace(text=TEXT.replace("5", "6")), witness)


# ---- what is refused -----------------------------------------------------------------------------
NOTES = [
    b"",
    b"\n",
    b"text\n",
    f"{GO_TEXT}{GO_LINE}".encode(),
    GO_NOTE.encode()[:-1],
    GO_NOTE.encode().replace(b"\xe2\x80\x94", b"-"),
    GO_NOTE.encode() + b"\xff\n",
    GO_NOTE.replace("answer", "an\x00swer").encode(),
    GO_NOTE.replace("nAM=", "nAM").encode(),
    f"{GO_TEXT}\n{GO_LINE * 33}".encode(),
    f"{'x' * notes.MAX_NOTE_BYTES}\n\n{GO_LINE}".encode(),
]
ENCODED_ROOT = "A" * 43 + "="
CHECKPOINTS = [
    "",
    "o\n5\n",
    f"o\n05\n{ENCODED_ROOT}\n",
    f"o\n-5\n{ENCODED_ROOT}\n",
    f"o\n٥\n{ENCODED_ROOT}\n",
    f"o\n999999999999999\n{ENCODED_ROOT}\n",
    "o\n5\nAAAA\n",
    f"\n5\n{ENCODED_ROOT}\n",
    f"o\n5\n{ENCODED_ROOT}",
    f"{'o' * 256}\n5\n{ENCODED_ROOT}\n",
]
CHANGED_KEYS = [GO_KEY.replace("c74f", "c74e"), GO_KEY.replace("+AR", "+Ax"), " " + GO_KEY]
REFUSED = {
    notes.parse_note: NOTES,
    notes.parse_checkpoint: CHECKPOINTS,
    notes.Verifier.parse: ["", "a", "a+00000000+AAAA", *CHANGED_KEYS],
    # `AA==` and `AAA=` with bits outside any byte decode the same: then two different notes could
    # say the same.
    notes.decode: ["AB==", "AP==", "AAB=", "AA", "A A==", "AA==\n"],
}


@pytest.mark.parametrize("parse", REFUSED, ids=["notes", "checkpoints", "keys", "bytes"])
def test_other_spellings_are_refused(parse):
    assert [text for text in REFUSED[parse] if not is_refused(parse, text)] == []


def test_a_checkpoint_survives_encoding():
    assert notes.parse_checkpoint(TEXT) == notes.Checkpoint("candor/log_1", 5, ROOT)
    assert notes.parse_checkpoint(f"o\n5\n{ENCODED_ROOT}\n") == notes.Checkpoint("o", 5, ROOT)
    assert notes.decode("AA==") == b"\0"
