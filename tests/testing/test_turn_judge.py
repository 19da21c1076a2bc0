"""The judge of turns finds what it is there for."""

import json

import pytest

from tests.support.editor import JsonDict
from tests.support.turn_judge import TurnJudge
from tests.support.wire import WireFaultError

CALL: JsonDict = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "status": "pending"}
END: JsonDict = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}
TEXT: JsonDict = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}


def line(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def update(body: JsonDict) -> bytes:
    return line(method="session/update", params={"sessionId": "s", "update": body})


def prompted() -> TurnJudge:
    judge = TurnJudge()
    judge.client_wrote(line(id=1, method="session/prompt", params={"sessionId": "s", "prompt": []}))
    return judge


def answer(judge: TurnJudge) -> None:
    judge.agent_wrote(line(id=1, result={"stopReason": "end_turn"}))


NO: JsonDict = {"optionId": "reject_once", "kind": "reject_once", "name": "No"}


def question(*options: JsonDict) -> bytes:
    return line(
        id=9,
        method="session/request_permission",
        params={"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": list(options or [NO])},
    )


def always(option_id: str, name: str) -> JsonDict:
    return {"optionId": option_id, "kind": "allow_always", "name": name}


def test_a_sound_turn_passes():
    judge = prompted()
    for body in (TEXT, CALL):
        judge.agent_wrote(update(body))
    judge.agent_wrote(question())
    judge.agent_wrote(update(END))
    answer(judge)


def test_text_after_the_answer_is_a_fault():
    judge = prompted()
    answer(judge)
    with pytest.raises(WireFaultError, match="no turn was running"):
        judge.agent_wrote(update(TEXT))


def test_a_call_that_is_open_at_the_answer_is_a_fault():
    judge = prompted()
    judge.agent_wrote(update(CALL))
    with pytest.raises(WireFaultError, match="before these calls ended: c"):
        answer(judge)


def test_a_second_announcement_an_early_and_a_late_update_are_faults():
    judge = prompted()
    with pytest.raises(WireFaultError, match="before it was announced"):
        judge.agent_wrote(update(END))
    judge.agent_wrote(update(CALL))
    with pytest.raises(WireFaultError, match="announced twice"):
        judge.agent_wrote(update(CALL))
    judge.agent_wrote(update(END))
    with pytest.raises(WireFaultError, match="after its end"):
        judge.agent_wrote(update(END))


def test_a_question_about_a_call_that_runs_or_without_a_way_to_refuse_is_a_fault():
    judge = prompted()
    with pytest.raises(WireFaultError, match="neither pending nor running"):
        judge.agent_wrote(question())
    judge.agent_wrote(update(CALL))
    with pytest.raises(WireFaultError, match="no way to refuse"):
        judge.agent_wrote(question({"optionId": "allow_once", "kind": "allow_once", "name": "Yes"}))


def test_options_without_ids_and_labels_of_their_own_are_faults():
    judge = prompted()
    judge.agent_wrote(update(CALL))
    session, turn = always("allow_always", "Always"), always("allow_always_turn", "Until this ends")
    judge.agent_wrote(question(session, turn, NO))
    judge.agent_wrote(question(turn, NO))
    with pytest.raises(WireFaultError, match="neither its kind nor begins with it: no"):
        judge.agent_wrote(question({**NO, "optionId": "no"}))
    with pytest.raises(WireFaultError, match="not the first of its kind"):
        judge.agent_wrote(question(turn, session, NO))
    with pytest.raises(WireFaultError, match="one id"):
        judge.agent_wrote(question(session, always("allow_always", "Ever"), NO))
    with pytest.raises(WireFaultError, match="one label"):
        judge.agent_wrote(question(session, always("allow_always_turn", "Always"), NO))
