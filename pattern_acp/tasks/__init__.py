"""Tasks that outlive a session, and the claims by which sessions share a project.

Owns: the form of a task, its Loro documents, what is stored of them, and who works where. Must not know: the model, the
editor, or how anything is shown. A change of tasks is an event, a row and a projection of one transaction (R1, R2);
claims are like leases: they say who works now, so they are not journaled.
"""
