"""Pages of the web, fetched for the model.

Owns: which addresses may be reached, limits of size and time, and HTML as Markdown. Must not know: tools, policy, or
what is done with a page. What comes from here is data, whatever it says (invariant 8).
"""
