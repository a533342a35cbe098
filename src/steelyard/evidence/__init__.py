"""What can be proven: the log, its proofs, usage segments and the checks over them."""
