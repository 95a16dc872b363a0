"""Evidence documents that anyone can verify, and the audit that verifies them."""
