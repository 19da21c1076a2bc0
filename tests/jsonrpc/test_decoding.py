import msgspec
import pytest

from pattern_acp.jsonrpc.messages import DROP, INVALID_PARAMS, KEEP, RpcError, decode, decode_params


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    size: int = 0


class Params(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    path: str
    line_limit: int | None = None
    pairs: tuple[Pair, ...] = ()
    extra: dict[str, str] = {}
    either: str | bool = ""


def read(text: bytes) -> Params:
    return decode_params(msgspec.Raw(text), Params)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"{}", "The parameter `path` is missing."),
        (b"", "The parameter `path` is missing."),
        (b"null", "The parameter `path` is missing."),
        (b"[]", "The parameter `path` is missing."),
        (b"7", "The parameters must be an object, not an integer."),
        (b'{"path":5}', "The parameter `path` must be a string, not an integer."),
        (b'{"path":"a","lineLimit":"x"}', "The parameter `lineLimit` must be an integer or null, not a string."),
        (b'{"path":"a","pairs":[{"key":"k"},{"size":1}]}', "The parameter `pairs[1].key` is missing."),
        (b'{"path":"a","pairs":[{"key":[]}]}', "The parameter `pairs[0].key` must be a string, not an array."),
        (b'{"path":"a","either":5}', "The parameter `either` must be a boolean or a string, not an integer."),
        (b'{"path":"a","extra":{"secret":5}}', "The parameter `extra[]` must be a string, not an integer."),
    ],
)
def test_a_misfit_is_one_sentence_that_names_the_parameter_and_what_was_expected(text: bytes, sentence: str):
    with pytest.raises(RpcError) as caught:
        read(text)
    assert (caught.value.code, caught.value.message, caught.value.data) == (INVALID_PARAMS, sentence, None)


@pytest.mark.parametrize(
    "text", [b'{"path":{"planted":1}}', b'{"path":"a","pairs":"planted"}', b'{"path":"a","lineLimit":"planted"}']
)
def test_the_sentence_does_not_repeat_what_was_sent(text: bytes):
    with pytest.raises(RpcError) as caught:
        read(text)
    assert "planted" not in caught.value.message


def test_null_counts_as_absent_where_there_is_a_default():
    assert read(b'{"path":"a","pairs":null,"extra":null}') == Params(path="a")


def test_an_empty_table_is_taken_for_an_array_or_an_object_as_needed():
    assert read(b'{"path":"a","pairs":{},"extra":[]}') == Params(path="a")


def test_what_is_forgiven_in_one_element_is_forgiven_in_all():
    pairs = b",".join([b'{"key":"k","size":null}'] * 500)
    assert read(b'{"path":"a","pairs":[' + pairs + b"]}").pairs == (Pair(key="k"),) * 500


def test_a_repair_may_drop_or_replace_what_does_not_fit():
    def repair(path: str, value: object) -> object:
        return {"lineLimit": DROP, "pairs[].key": str(value)}.get(path, KEEP)

    text = msgspec.Raw(b'{"path":"a","lineLimit":"x","pairs":[{"key":5},{"key":"z"}]}')
    assert decode(text, Params, repair=repair) == Params(path="a", pairs=(Pair(key="5"), Pair(key="z")))


def test_a_repair_that_mends_nothing_for_ever_ends():
    with pytest.raises(msgspec.ValidationError):
        decode(msgspec.Raw(b'{"path":5}'), Params, repair=lambda path, value: 6)
