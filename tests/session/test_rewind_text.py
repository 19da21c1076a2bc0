"""What a person reads of a rewind."""

from pattern_acp.rewind.execution import Rewound
from pattern_acp.rewind.plan import RewindPlan, Target
from pattern_acp.session.rewind_requests import WentBack, preview_text

LEFT_OUT = "/work: a command changed 700 files, of which 500 are kept"


def test_what_was_not_kept_is_named_before_a_rewind_and_after_one():
    plan = RewindPlan(Target(1, 1, 1, "before turn 1"), (), (), (), (), (LEFT_OUT,))
    assert LEFT_OUT in preview_text(plan, ("files",), "/work")
    done = Rewound(files=("/work/a",))
    assert LEFT_OUT in WentBack(plan, ("files",), done, overwrite=False, cwd="/work").text
    assert LEFT_OUT not in WentBack(plan, ("conversation",), Rewound(), overwrite=False, cwd="/work").text
