"""What is read out of a source of each language: definitions, imports and uses.

Definitions are written `kind:qualified.name`, with a `+` when other files can use them; imports `module:name:local`;
uses `kind:receiver.name@symbol around it`.
"""

# ruff: noqa: E501  # sources are data

import subprocess
import sys

import pytest

from pattern_acp.codemap.extract import SourceFacts, read_source
from pattern_acp.codemap.model import LANGUAGES, header_language, is_test, language_of

PYTHON = r"""
import os, p.q as r
from . import a
from ..b import c as d, e
from x import *
LIMIT: int = 1
_hidden = 2
type T = int
@r.deco
async def run(a: "X", b: list[Foo | None]) -> m.Bar:
    def inner():
        return helper()
    return await a.go(1)
class A(B, m.C[int], metaclass=M):
    x: int = 1
    y = 2
    def __init__(self) -> None:
        self.z = Other()
    def _p(self): pass
    class Inner:
        def deep(self): ...
"""

JAVASCRIPT = r"""
const a = require("./a"); import {x} from "./x.mjs";
class A extends B { m() { this.n(); } #p() {} f = () => 1; static g = 2; get h() { return 1 } }
A.prototype.z = function () { q(); };
exports.w = () => 1;
function t() { function u() {} }
module.exports = { A, k: t };
"""

TSX = r"""
import d, {a as b, type T} from "./x"; import * as n from "y"; import "z"; export * from "./w"; export {q as qq} from "./v"; import eq = require("./eq");
export default class A<T> extends B.C<T> implements I, J { private x: number = 1; static s = () => helper(); m(a: Foo): Bar { new Baz(); this.q.r(); } #p() {} }
export interface I extends K { f(): void; g: string }
export type U = A | B; export enum E {A}
const c = require("./m"); const {k, l: ll} = require("./n");
const f = async (x) => { const local = 1; return inner(x); }
function g() {} ; let v = 1; export const K1 = 3, k2 = function() {};
abstract class Q { abstract z(): void }
namespace N { export function inner() {} }
const el = <Comp.X a={1}><Other/></Comp.X>; async function y() { const mod = await import("./dyn"); }
export { f }; export default g; declare function dd(): void;
"""

GO = r"""
package main
import ("fmt"; x "a/b"; . "c"; _ "d")
type S struct { Base; f int; *pkg.P }
type I interface { M(a int) error; J }
type A = int
type b []int
const C, D = 1, 2
var v = 3
func F[T any](a int) (Foo, error) { x.G(a); g(); var q Q; return S{}, nil }
func (s *S) M() { s.N() }
func (s S[T]) q() {}
"""

RUST = r"""
use crate::a::{b, c as d, e::*, self}; use super::x; pub use self::y::Z; mod m; extern crate foo;
mod n { fn inner() {} }
pub struct S<T> { pub f: Foo } pub enum E { A, B(i32) } pub trait T: U { fn req(&self); fn def(&self) {} type X; }
impl<T> T for S<T> { pub fn m(&self) { a::b::c(); self.x(); mac!(1); S::new(); f(); Q { a: 1 }; v.iter().collect::<X>(); } }
impl S { const K: i32 = 1; fn hid() {} }
pub const C: i32 = 1; static D: i32 = 1; type A = i32; macro_rules! mm { () => {} } pub(crate) fn pc(x: &Foo) -> Bar {}
"""

JAVA = r"""
package a.b; import a.b.C; import static a.b.C.d; import a.b.*;
public class A<T> extends B<T> implements I, J { private static final int K = 1; Foo f; A() {} public Bar m(Foo a) { x.y(); z(); new Q<>(); list.map(A::n); } enum E { X, Y } interface N extends M { void q(); } record R(int a) {} @Override private void hid() {} }
"""

C = r"""
#include "a.h"
#include <b/c.h>
#ifndef G
#define G 1
#define F(x) x
typedef struct S { int a; struct T *t; } S_t; struct T { int b; }; enum E { A1 }; union U { int c; };
static int f(int a, Foo *b) { int loc = 1; g(a); p->h(1); return 0; }
int *pf(void) {} int decl(int); extern int gv; int gw[] = {1}; typedef int (*cb)(int); const char *MSG = "x";
#endif
"""

CPP = r"""
#include "a.h"
namespace n::m { class A : public B, private c::D<int> { public: A(); ~A(); int m(Foo x) const { k(); } virtual void pv() = 0; int f; enum class E { X }; }; template<class T> struct S { T t; }; template<class T> T tf(T a) {} }
int n::A::m(int x) { y.z(); a::b::c(); new Q(); std::vector<Foo> v; return 0; } using X = int; bool operator==(A a, A b) {} A::~A() {} A::A() : f(1) {} auto& ref() {}
extern "C" { int cfun(void); }
"""

RUBY = r"""
require "a/b"
require_relative "../b"
module M; class A < N::B; include C; K = 1; attr_reader :x, :y; def m(a); foo(1); self.bar; D.new; end; def self.s; end; class << self; def t; end; end; end; end
class M::Z; def q?; end; end
def top; end
"""

PHP = r"""
<?php namespace A\B; use X\Y; use X\{Z as W, Q}; use function F\g; require_once "a.php"; require __DIR__ . "/b.php";
abstract class C extends D implements I, J { use Tr; const K = 1; private int $p; public function m(Foo $a): Bar { $this->x(); self::y(); z(); new Q(); N\f(); } private function h() {} } interface I extends L {} trait Tr {} enum E: string { case A = "a"; } function f() {} const T = 1;
"""

CSHARP = r"""
using System.IO; using A = B.C; using static X.Y; namespace N.M { public class C<T> : D, I<T> { private const int K = 1; int f; public int P { get; set; } public C() {} public Foo M(Bar a) { x.Y(); Z(); new Q(); this.W<int>(); a?.V(); } enum E { X } delegate void De(); event Action Ev; } interface I : J { void A(); } record R(int a); struct S {} }
"""

BASH = r"""
source ./a.sh
. "$DIR/b.sh"
f() { g 1; local z=1; }
function h { f; }
export X=1
readonly Y=2
Z=3
"""

CASES = [
    (
        "python",
        PYTHON,
        """
        constant:LIMIT+ variable:_hidden type:T+ function:run+ function:run.inner class:A+ field:A.x+
        field:A.y+ method:A.__init__+ method:A._p class:A.Inner+ method:A.Inner.deep+
        """,
        """
        os::os p.q::r .:a:a ..b:c:d ..b:e:e x:*:
        """,
        """
        type:int@LIMIT type:int@T use:r@ call:r.deco@ use:a@run type:list@run type:Foo@run type:m.Bar@run
        call:helper@run.inner call:a.go@run inherit:B@A inherit:m.C@A type:int@A.x call:Other@A.__init__
        """,
    ),
    (
        "javascript",
        JAVASCRIPT,
        """
        variable:a class:A+ method:A.m+ method:A.#p method:A.f+ field:A.g+ method:A.h+ method:A.z+
        function:w+ function:t+ function:t.u
        """,
        """
        ./a::a ./x.mjs:x:x
        """,
        """
        call:require@a inherit:B@A call:this.n@A.m use:A@A.z call:q@A.z use:A@ use:t@
        """,
    ),
    (
        "tsx",
        TSX,
        """
        class:A+ field:A.x method:A.s+ method:A.m+ method:A.#p interface:I+ method:I.f+ field:I.g+ type:U+
        enum:E+ variable:c function:f+ function:g+ variable:v constant:K1+ function:k2+ class:Q method:Q.z
        module:N function:N.inner variable:el function:y function:dd+
        """,
        """
        ./x:default:d ./x:a:b ./x:T:T y::n z:: ./w:*: ./v:q:qq ./eq::eq ./m::c ./n:k:k ./n:l:ll ./dyn::mod
        """,
        """
        inherit:B.C@A type:T@A inherit:I@A inherit:J@A call:helper@A.s type:Foo@A.m type:Bar@A.m
        call:Baz@A.m call:this.q.r@A.m inherit:K@I type:A@U type:B@U call:require@c call:require@
        call:inner@f call:Comp.X@el call:Other@el use:mod@y use:g@
        """,
    ),
    (
        "go",
        GO,
        """
        class:S+ field:S.f interface:I+ method:I.M+ type:A+ type:b constant:C+ constant:D+ variable:v
        function:F+ method:S.M+ method:S.q
        """,
        """
        fmt::fmt a/b::x c:*: d::
        """,
        """
        inherit:Base@S type:int@S.f inherit:pkg.P@S type:int@I.M inherit:J@I type:int@F type:Foo@F
        type:error@F use:x@F call:x.G@F call:g@F type:Q@F call:S@F type:S@S.M call:s.N@S.M
        """,
    ),
    (
        "rust",
        RUST,
        """
        module:n function:n.inner class:S+ field:S.f+ enum:E+ interface:T+ method:T.req+ method:T.def+
        type:T.X+ method:S.m+ constant:S.K method:S.hid constant:C+ constant:D type:A macro:mm function:pc+
        """,
        """
        crate::a:b:b crate::a:c:d crate::a::e:*: crate::a::a super:x:x self::y:Z:Z mod::m::m foo::foo
        """,
        """
        type:Foo@S.f type:U@T inherit:T@S type:T@S use:a@S.m use:b@S.m call:a::b.c@S.m call:self.x@S.m
        call:mac@S.m use:S@S.m call:S.new@S.m call:f@S.m call:Q@S.m call:v.iter@S.m
        call:v.iter().collect@S.m type:X@S.m use:x@pc type:Foo@pc type:Bar@pc
        """,
    ),
    (
        "java",
        JAVA,
        """
        class:A+ field:A.K field:A.f+ method:A.A+ method:A.m+ enum:A.E+ constant:A.E.X+ constant:A.E.Y+
        interface:A.N+ method:A.N.q+ class:A.R+ method:A.hid
        """,
        """
        a.b:C:C a.b.C:d:d a.b:*:
        """,
        """
        inherit:B@A type:T@A inherit:I@A inherit:J@A type:Foo@A.f type:Bar@A.m type:Foo@A.m call:x.y@A.m
        call:z@A.m call:Q@A.m call:list.map@A.m use:A@A.m call:A.n@A.m inherit:M@A.N type:Override@A.hid
        """,
    ),
    (
        "c",
        C,
        """
        macro:G+ macro:F+ type:S_t+ type:S+ field:S.a+ field:S.t+ type:T+ field:T.b+ enum:E+ constant:E.A1+
        type:U+ field:U.c+ function:f function:pf+ function:decl+ variable:gv+ variable:gw+ type:cb+
        constant:MSG+
        """,
        """
        a.h:*: <b/c.h>:*:
        """,
        """
        type:T@S.t type:Foo@f call:g@f call:p.h@f
        """,
    ),
    (
        "cpp",
        CPP,
        """
        class:n.m.A+ method:n.m.A.A+ method:n.m.A.~A+ method:n.m.A.m+ method:n.m.A.pv+ field:n.m.A.f+
        enum:n.m.A.E+ constant:n.m.A.E.X+ class:n.m.S+ field:n.m.S.t+ function:n.m.tf+ method:n.A.m+ type:X+
        function:operator==+ method:A.~A+ method:A.A+ function:ref+ function:cfun+
        """,
        """
        a.h:*:
        """,
        """
        inherit:B@n.m.A inherit:c.D@n.m.A type:Foo@n.m.A.m call:k@n.m.A.m type:T@n.m.S.t
        type:T@n.m.tf call:y.z@n.A.m call:a.b.c@n.A.m call:Q@n.A.m type:std.vector@n.A.m type:Foo@n.A.m
        type:A@operator==
        """,
    ),
    (
        "ruby",
        RUBY,
        """
        module:M+ class:M.A+ constant:M.A.K+ field:M.A.x+ field:M.A.y+ method:M.A.m+ method:M.A.s+
        method:M.A.t+ class:M.Z+ method:M.Z.q?+ function:top+
        """,
        """
        a/b:*: ../b:*:
        """,
        """
        call:require@ call:require_relative@ inherit:N.B@M.A type:B@M.A call:include@M.A inherit:C@M.A
        call:attr_reader@M.A call:foo@M.A.m call:self.bar@M.A.m call:D.new@M.A.m type:Z@M.Z
        """,
    ),
    (
        "php",
        PHP,
        """
        class:C+ constant:C.K+ field:C.p method:C.m+ method:C.h interface:I+ class:Tr+ enum:E+ constant:E.A+
        function:f+ constant:T+
        """,
        """
        X:Y:Y X:Z:W X:Q:Q F:g:g a.php:*: ./b.php:*:
        """,
        """
        inherit:D@C inherit:I@C inherit:J@C inherit:Tr@C type:Foo@C.m type:Bar@C.m call:$this.x@C.m
        call:self.y@C.m call:z@C.m call:Q@C.m call:N.f@C.m inherit:L@I
        """,
    ),
    (
        "csharp",
        CSHARP,
        """
        class:N.M.C+ field:N.M.C.K field:N.M.C.f field:N.M.C.P+ method:N.M.C.C+ method:N.M.C.M+ enum:N.M.C.E
        constant:N.M.C.E.X type:N.M.C.De field:N.M.C.Ev interface:N.M.I+ method:N.M.I.A+ class:N.M.R+
        class:N.M.S+
        """,
        """
        System.IO:*: B:C:A X.Y:*:
        """,
        """
        inherit:D@N.M.C inherit:I@N.M.C type:T@N.M.C type:Foo@N.M.C.M type:Bar@N.M.C.M call:x.Y@N.M.C.M
        call:Z@N.M.C.M call:Q@N.M.C.M call:W@N.M.C.M call:a.V@N.M.C.M type:Action@N.M.C.Ev inherit:J@N.M.I
        """,
    ),
    (
        "bash",
        BASH,
        """
        function:f+ function:h+ constant:X+ constant:Y+ constant:Z+
        """,
        """
        ./a.sh:*:
        """,
        """
        call:source@ call:.@ call:g@f call:f@h
        """,
    ),
]


def spelled(facts: SourceFacts) -> tuple[list[str], list[str], list[str]]:
    names = [symbol.qualified_name for symbol in facts.symbols]
    return (
        [f"{symbol.kind}:{symbol.qualified_name}{'+' * symbol.exported}" for symbol in facts.symbols],
        [f"{found.module}:{found.name}:{found.local}" for found in facts.imports],
        [
            f"{use.kind}:{use.receiver.replace(' ', '')}{'.' * bool(use.receiver)}{use.name}"
            f"@{'' if use.symbol is None else names[use.symbol]}"
            for use in facts.references
        ],
    )


@pytest.mark.parametrize(
    ("language", "source", "symbols", "imports", "uses"), CASES, ids=[str(case[0]) for case in CASES]
)
def test_definitions_imports_and_uses_are_read(language: str, source: str, symbols: str, imports: str, uses: str):
    facts = spelled(read_source(language, source.encode()))
    assert facts[0] == symbols.split()
    assert facts[1] == imports.split()
    assert facts[2] == uses.split()


def test_every_language_has_a_case_or_shares_its_rules_with_one():
    assert {str(case[0]) for case in CASES} | {"typescript"} == set(LANGUAGES)


def test_typescript_is_read_like_tsx_without_elements():
    source = "import {a} from './a';\nexport class B<T> implements C { private x = <D>a; m(): E { return a.f(); } }\n"
    facts = spelled(read_source("typescript", source.encode()))
    assert facts[0] == ["class:B+", "field:B.x", "method:B.m+"]
    assert {"inherit:C@B", "type:E@B.m", "call:a.f@B.m", "use:a@B.m"} <= set(facts[2])


def test_lines_columns_and_signatures_are_those_of_the_text():
    source = "# ü\nclass Ä:\n    '''ü'''; naïve = 1\n\n    def größe(\n        self, a: int,\n    ) -> 'Ä':\n        return self\n"
    facts = read_source("python", source.encode())
    shown = [(symbol.name, symbol.line, symbol.end_line, symbol.column, symbol.signature) for symbol in facts.symbols]
    assert shown == [
        ("Ä", 2, 8, 7, "class Ä"),
        ("naïve", 3, 3, 14, "naïve = 1"),
        ("größe", 5, 8, 9, "def größe( self, a: int, ) -> 'Ä'"),
    ]


def test_a_use_is_counted_once_a_symbol_and_receiver():
    facts = read_source("python", b"def a():\n    x.f()\n    f(x.f())\n\n\ndef b():\n    f()\n")
    shown = [(use.receiver, use.name, use.line, use.symbol, use.count) for use in facts.references]
    assert shown == [("x", "f", 2, 0, 2), ("", "f", 3, 0, 1), ("", "f", 7, 1, 1)]


def test_names_that_are_passed_on_are_uses_when_the_file_imports_or_defines_them():
    source = (
        b"from m import work, other\nimport n\nLIMIT = 3\ndef f(a):\n    run(work, key=n.helper, limit=LIMIT, a=a)\n"
    )
    uses = {use.name for use in read_source("python", source).references if use.kind == "use"}
    assert uses == {"work", "n", "helper", "LIMIT"}


@pytest.mark.parametrize("language", sorted(LANGUAGES))
@pytest.mark.parametrize("source", [b"", b"\xff\xfe\x00", b"((((((", b"}" * 50, "λ = «x»\n".encode()])
def test_a_source_that_is_none_is_no_error(language: str, source: bytes):
    read_source(language, source)


def test_a_long_signature_is_cut():
    source = f"def f({', '.join(f'argument_{n}' for n in range(100))}):\n    pass\n"
    signature = read_source("python", source.encode()).symbols[0].signature
    assert (len(signature), signature[-1]) == (200, "…")


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a.py", "python"),
        ("A.JAVA", "java"),
        ("x/y.d.ts", "typescript"),
        ("Rakefile", "ruby"),
        ("README", ""),
        ("notes.md", ""),
        (".py", ""),
        ("dir.py/data", ""),
    ],
)
def test_the_language_is_told_by_the_name(path: str, language: str):
    assert language_of(path) == language


def test_a_header_is_of_the_language_that_it_is_written_in():
    assert header_language("a.h", b"struct a { int b; };\n") == "c"
    assert header_language("a.h", b"#pragma once\nnamespace n {\nclass A;\n}\n") == "cpp"
    assert header_language("a.c", b"class\n") == "c"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/a.py", True),
        ("src/test_a.py", True),
        ("a_test.go", True),
        ("src/a.spec.ts", True),
        ("src/__tests__/a.js", True),
        ("src/ATest.java", True),
        ("src/FooTests.cs", True),
        ("spec/a_spec.rb", True),
        ("src/contest.py", False),
        ("src/latest.ts", False),
        ("attestation/a.py", False),
        ("src/inspect.rs", False),
    ],
)
def test_tests_are_told_by_their_names(path: str, *, expected: bool):
    assert is_test(path) is expected


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_rare_characters_do_not_end_the_process(language: str):
    # tree-sitter-bash 0.25.1 reads outside of a table of the C library for some of these.
    code = (
        "from pattern_acp.codemap.extract import read_source\n"
        "for text in ('f() { echo \\U000e0001{a} \\u2028{ ; }', 'x = \\U0001f600{', '{\\U00010348' * 50, '<<\\u00a0E\\n{\\uffff'):\n"
        f"    read_source({language!r}, text.encode())\n"
    )
    subprocess.run((sys.executable, "-c", code), check=True, timeout=30)
