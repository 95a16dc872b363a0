"""What this instance saw of other logs, for whoever asks. Reads the database alone."""

from evidence.notes import COSIGNATURE, Signer
from evidence.tables import Witnessed


def list_witnessed() -> list[Witnessed]:
    """List the instances that are watched, by their addresses."""
    return list(Witnessed.select().order_by(Witnessed.url))


def write_witnessed(signer: Signer) -> str:
    """Return our cosigner key and each cosigned checkpoint, with an empty line between them."""
    key = signer.verifier(signer.witness_name, COSIGNATURE)
    return "\n".join([f"{key}\n", *(row.note for row in list_witnessed())])
