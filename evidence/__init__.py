"""What strangers can check: documents of evidence, the audit that works them out again."""
