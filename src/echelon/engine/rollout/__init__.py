"""Moving a change through decision groups in waves: who may start now, who has to wait, and for what."""
