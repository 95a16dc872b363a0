"""Owners and recovery codes. Each function is one short transaction. `now`: UTC ms."""

import base64
import re
import secrets
from typing import NamedTuple

from accounts.conduct import refuse_banned
from accounts.keys import hash_secret
from accounts.problem import Problem, refuse_unknown
from models import Owner
from storage import new_uid, writing


class OwnerWithCode(NamedTuple):
    owner: Owner
    recovery_code: str


def create_owner(now: int) -> OwnerWithCode:
    code = make_recovery_code()
    hashed = hash_recovery_code(code)
    owner = Owner.create(uid=new_uid("owner"), recovery_hash=hashed, created_at=now)
    return OwnerWithCode(owner, code)


def find_owner(uid: str) -> Owner:
    owner: Owner | None = Owner.get_or_none(Owner.uid == uid)
    return owner or refuse_unknown("owner")


def check_present(owner_id: int) -> None:
    """Raise Problem `not_found` if the account was deleted since it was loaded.

    Call this inside the transaction that writes for the account.
    """
    if Owner.select().where(Owner.id == owner_id, Owner.recovery_hash.is_null()).exists():
        raise Problem("not_found", "this account was deleted")


# ---- recovery codes ------------------------------------------------------------------------------
def make_recovery_code() -> str:
    """Return 128 random bits in base32, grouped: `ABCDE-FGHIJ-...`."""
    letters = base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=")
    return "-".join(letters[at : at + 5] for at in range(0, len(letters), 5))


def hash_recovery_code(code: str) -> str:
    """Ignore spaces, hyphens and case."""
    return hash_secret("recovery:" + re.sub(r"[\s-]", "", code).upper())


def recover_owner(code: str) -> OwnerWithCode | None:
    """Exchange a recovery code for its owner and a new code. Return None if it is unknown or used.

    If two requests send the same code at the same time, one wins. If the owner is banned, Problem
    `owner_banned` is raised, and the code stays valid.
    """
    with writing():
        owner = Owner.get_or_none(Owner.recovery_hash == hash_recovery_code(code))
        if owner is None:
            return None
        refuse_banned(owner)
        return OwnerWithCode(owner, change_recovery_code(owner))


def renew_recovery_code(owner: Owner, present_code: str) -> str | None:
    """Return a new recovery code, or None if `present_code` is wrong.

    A session isn't enough, because anyone who stole one could take over the account permanently.
    """
    with writing():
        present = Owner.recovery_hash == hash_recovery_code(present_code)
        is_right = Owner.select().where(Owner.id == owner.id, present).exists()
        return change_recovery_code(owner) if is_right else None


def replace_recovery_code(owner: Owner) -> str:
    """Replace a lost code, as the operator. Raises Problem `not_found` for deleted accounts."""
    with writing():
        check_present(owner.id)
        return change_recovery_code(owner)


def change_recovery_code(owner: Owner) -> str:
    """Return a new code, inside the caller's transaction."""
    code = make_recovery_code()
    Owner.update(recovery_hash=hash_recovery_code(code)).where(Owner.id == owner.id).execute()
    return code
