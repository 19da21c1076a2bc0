"""Text that a user wants remembered: about the user, or about the project.

Owns: this one judgement. Must not know: blocks, commands. What is about the user goes into every project, so a text
counts as that only where its words say so.
"""

import re

from pattern_acp.domain.late_pattern import late_pattern

_ABOUT_USER = late_pattern(
    r"""
    (?:
      my\ (?:(?:full|first|last|preferred|native|mother)\ )?
      (?:name|names|nickname|pronouns?|birthday|age|wife|husband|partner|kids?|children|son|daughter|family|dog|cat
        |job|role|title|boss|manager|team|company|employer|home|city|country|time\ ?zone|language|tongue|hobby|hobbies
        |favou?rite|preferences?|preferred|taste|editor|keyboard|laptop|machine|eyes?|eyesight|health|diet|email|phone
        |github|account|handle|working\ hours|work\ hours|background|experience|style)\b
    # Somebody without a name who likes or lives: notes on a user are written so.
    | (?:(?:always|never|usually|really|also)\ )?
      (?:likes|loves|prefers|hates|dislikes|wants|enjoys|lives|speaks|works\ (?:as|at|for|from|in)|was\ born
        |is\ (?:from|allergic|left-handed|colou?r-?blind)|has\ a\ (?:dog|cat|son|daughter|child|wife|husband))\b
    | the\ (?:user|human|person)\b
    )
    """,
    flags=re.VERBOSE | re.IGNORECASE,
)
_FIRST_PERSON = late_pattern(
    r"\bi(?: am|['\u2019]m| (?:really |always |never |usually )*(?:prefer|like|love|hate|dislike|want|live|speak)"
    r"| work (?:as|at|for|from|in)|(?: would|['\u2019]d) (?:like|rather|prefer)"
    r"| (?:don['\u2019]t|do not) (?:like|want|speak|use)| always| never"
    r"| have (?:a|two|no) (?:dog|cat|son|daughter|child|children|kids|wife|husband))\b"
    r"|\b(?:call|address|speak to|talk to|remind) me\b|\bmy name is\b",
    flags=re.IGNORECASE,
)
"""The user speaks of themselves, wherever in the text."""


def is_about_user(text: str) -> bool:
    """True when a text tells of the user (“I like short answers”, “Lives in Lisbon”) rather than of the project."""
    return _ABOUT_USER.match(text.strip()) is not None or _FIRST_PERSON.search(text) is not None
