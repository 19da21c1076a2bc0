"""Jobs: work whose price, reach and proof the user agrees to before it begins.

Owns: the states of a job, its hold, quotes, and receipts. Must not know: the model, the editor, or how the work is
done. A move is an event, the job's row, its hold and its claims in one transaction (R1, R2). What users wrote is in the
events alone, so that redacting those is enough.
"""
