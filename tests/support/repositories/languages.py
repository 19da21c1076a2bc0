"""Broken repositories in other languages than Python.

Owns: the repositories `SHELL`, `JAVASCRIPT`, `C`, `PERL`, `RUST` and `JAVA`. Must not know: how they are mended.
"""

from tests.support.repositories.base import Repository, edit, patch, read, run, write

_COUNT = "#!/bin/sh\n# Counts the lines of each file.\nfor file in $@; do\n    wc -l < $file\ndone\n"
_SUMS = 'BEGIN { FS = "," }\n{ sums[$1] += $3 }\nEND { for (name in sums) print name, sums[name] }\n'
_AVERAGE = "export function average(numbers) {\n  return numbers.reduce((sum, x) => sum + x) / numbers.length;\n}\n"
_AVERAGE_TEST = """import assert from "node:assert";
import test from "node:test";
import { average } from "../src/average.mjs";

test("the average of nothing is zero", () => assert.equal(average([]), 0));
test("the average of numbers", () => assert.equal(average([1, 2]), 1.5));
"""
_CART = """var total = 0;
function add(price) { total = total + price; }
function remove(price) { total = total + price; }
module.exports = { add, remove, sum: () => total };
"""
_CART_TEST = """const test = require("node:test");
const { strictEqual } = require("node:assert");
const cart = require("./cart.js");

test("what is removed costs nothing", () => { cart.add(5); cart.add(2); cart.remove(2); strictEqual(cart.sum(), 5); });
"""
_AREA_HEADER = "#ifndef AREA_H\n#define AREA_H\nint area(int width, int height);\n#endif\n"
_AREA = '#include "area.h"\n\nint area(int width, int height)\n{\n\treturn width + height;\n}\n'
_AREA_TEST = (
    '#include <assert.h>\n#include "area.h"\n\nint main(void)\n{\n\tassert(area(3, 4) == 12L);\n\treturn 0;\n}\n'
)
_MAKEFILE = """CFLAGS = -Wall -Werror

test: build/test
\t./build/test

build/test: area.c test.c
        mkdir -p build && cc $(CFLAGS) -o $@ $^
"""
_PERL = """package Words;
use strict;
use warnings;

sub longest {
    my @words = sort { length $a <=> length $b } @_;
    return $words[0];
}

1;
"""
_PERL_TEST = """use strict;
use warnings;
use lib "lib";
use Words;

die "wrong" unless Words::longest("a", "ccc", "bb") eq "ccc";
"""
_RUST = """pub fn fibonacci(n: u32) -> u32 {
    if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 3) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tenth() {
        assert_eq!(super::fibonacci(10), 55);
    }
}
"""
_JAVA = """public final class Palindrome {
    static boolean is(String text) {
        return new StringBuilder(text).reverse().toString() == text;
    }

    public static void main(String[] arguments) {
        if (!is("level") || is("levels")) {
            throw new AssertionError("wrong");
        }
    }
}
"""

SHELL = (
    Repository(
        "a script whose bit is kept",
        {"count": _COUNT.encode(), "a file.txt": b"1\n2\n", "check.sh": b'test "$(./count "a file.txt")" -eq 2\n'},
        "sh check.sh",
        (
            read("count"),
            edit("count", ("for file in $@; do", 'for file in "$@"; do'), ("wc -l < $file", 'wc -l < "$file"')),
        ),
        {"count": _COUNT.replace("$@", '"$@"').replace("$file", '"$file"').encode()},
        executable=frozenset({"count"}),
    ),
    Repository(
        "a script that lacks its bit",
        {"bin/hello": b"#!/bin/sh\necho hello\n", "check.sh": b'test "$(./bin/hello)" = hello\n'},
        "sh check.sh",
        (run("chmod +x bin/hello"),),
        {},
        made_executable=frozenset({"bin/hello"}),
    ),
    Repository(
        "a program for awk",
        {
            "sums.awk": _SUMS.encode(),
            "data.csv": b"a,1,x\nb,2,y\na,3,z\n",
            "check.sh": b'test "$(awk -f sums.awk data.csv | sort | tr "\\n" ";")" = "a 4;b 2;"\n',
        },
        "sh check.sh",
        (patch("*** Update File: sums.awk", "@@", "-{ sums[$1] += $3 }", "+{ sums[$1] += $2 }"),),
        {"sums.awk": _SUMS.replace("$3", "$2").encode()},
        needs=("awk",),
    ),
    Repository(
        "a line that only bash reads",
        {"parts/a.txt": b"a\n"},
        "shopt -s nullglob; parts=(parts/*.txt); [[ ${#parts[@]} -eq 2 && $(< parts/b.txt) == b ]]",
        (write("parts/b.txt", "b\n"),),
        {"parts/b.txt": b"b\n"},
        needs=("bash",),
    ),
)
"""For a POSIX shell."""

JAVASCRIPT = (
    Repository(
        "a module of JavaScript",
        {"src/average.mjs": _AVERAGE.encode(), "test/average.test.mjs": _AVERAGE_TEST.encode()},
        "node --test test/average.test.mjs",
        (
            read("src/average.mjs"),
            edit("src/average.mjs", ("sum + x) / numbers.length", "sum + x, 0) / (numbers.length || 1)")),
        ),
        {
            "src/average.mjs": _AVERAGE.replace(
                "sum + x) / numbers.length", "sum + x, 0) / (numbers.length || 1)"
            ).encode()
        },
        needs=("node",),
    ),
    Repository(
        "a word in many places",
        {"cart.js": _CART.encode(), "cart.test.js": _CART_TEST.encode()},
        "node --test cart.test.js",
        (
            read("cart.js"),
            edit("cart.js", ("total = total + price; }\nmodule", "total = total - price; }\nmodule")),
            edit("cart.js", ("total", "amount"), everywhere=True),
        ),
        {"cart.js": _CART.replace("+ price; }\nmodule", "- price; }\nmodule").replace("total", "amount").encode()},
        needs=("node",),
    ),
)  # fmt: skip
"""For `node --test`."""

C = (
    Repository(
        "a makefile and a program of C",
        {
            "area.h": _AREA_HEADER.encode(),
            "area.c": _AREA.encode(),
            "test.c": _AREA_TEST.encode(),
            "Makefile": _MAKEFILE.encode(),
        },
        "make test",
        (
            patch(
                "*** Update File: Makefile",
                "@@ build/test: area.c test.c",
                "-        mkdir -p build && cc $(CFLAGS) -o $@ $^",
                "+\tmkdir -p build && cc $(CFLAGS) -o $@ $^",
                "*** Update File: area.h",
                "@@",
                "-int area(int width, int height);",
                "+long area(int width, int height);",
                "*** Update File: area.c",
                "@@",
                "-int area(int width, int height)",
                "+long area(int width, int height)",
                " {",
                "-\treturn width + height;",
                "+\treturn (long)width * height;",
            ),
        ),
        {
            "Makefile": _MAKEFILE.replace("        mkdir", "\tmkdir").encode(),
            "area.h": _AREA_HEADER.replace("int area", "long area").encode(),
            "area.c": _AREA.replace("int area", "long area").replace("width + height", "(long)width * height").encode(),
        },
        needs=("make", "cc"),
    ),
)
"""For make and a compiler of C."""

PERL = (
    Repository(
        "a package of Perl",
        {"lib/Words.pm": _PERL.encode(), "t/words.t": _PERL_TEST.encode()},
        "perl t/words.t",
        (read("lib/Words.pm"), edit("lib/Words.pm", ("$words[0]", "$words[-1]"))),
        {"lib/Words.pm": _PERL.replace("$words[0]", "$words[-1]").encode()},
        needs=("perl",),
    ),
)
"""For Perl."""

RUST = (
    Repository(
        "a library of Rust",
        {"src/lib.rs": _RUST.encode()},
        "mkdir -p build && rustc --test -o build/tests src/lib.rs && ./build/tests",
        (patch("*** Update File: src/lib.rs", "@@ pub fn fibonacci(n: u32) -> u32 {",
               "-    if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 3) }",
               "+    if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }"),),
        {"src/lib.rs": _RUST.replace("n - 3", "n - 2").encode()},
        needs=("rustc", "cc"),
    ),
)  # fmt: skip
"""For a compiler of Rust."""

JAVA = (
    Repository(
        "a class of Java",
        {"Palindrome.java": _JAVA.encode()},
        "javac -d build Palindrome.java && java -cp build Palindrome",
        (
            read("Palindrome.java"),
            edit("Palindrome.java", (".toString() == text", ".toString().equals(text)")),
        ),
        {"Palindrome.java": _JAVA.replace(".toString() == text", ".toString().equals(text)").encode()},
        needs=("javac", "java"),
    ),
)
"""For a Java development kit."""
