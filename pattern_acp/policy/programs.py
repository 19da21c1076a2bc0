"""Facts about programs by name, applied to simple commands.

Owns: the tables, prefixes and escape options of one command. Must not know: commands that only read (`reading`),
grants, modes, paths, lines inside lines (`nested_lines`).
"""

import re
from functools import lru_cache

from pattern_acp.policy.commands import SimpleCommand


def _table(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELLS = _table("sh bash dash zsh fish ksh mksh ash csh tcsh rbash busybox pwsh powershell cmd elvish nu xonsh osh")
"""Programs that run their arguments or input as shell lines."""

INTERPRETERS = SHELLS | _table(
    "python pypy ipython node nodejs deno bun ruby irb perl raku php lua luajit r rscript julia tclsh wish "
    "expect guile racket sbcl ghc ghci runghc runhaskell scala groovy jshell elixir iex erl escript osascript awk "
    "gawk mawk nawk sed ed ex vi vim nvim emacs emacsclient gdb lldb sqlite3 psql mysql mariadb mongosh "
    "redis-cli java dotnet m4 bc dc tsx ts-node"
)
"""Programs whose arguments or input are programs themselves, so that a prefix would allow anything."""

EVALUATORS = SHELLS | _table(
    "eval watch ssh su trap parallel script xargs env entr hyperfine fakeroot nix-shell flock sg runuser compgen "
    "complete mapfile readarray bind alias xterm tmux screen concurrently nodemon watchexec chokidar cross-env-shell"
)
"""Programs that may read an argument as a shell line."""

WRAPPERS = EVALUATORS | _table(
    "sudo doas pkexec runuser run0 exec command builtin nohup nice ionice time timeout gtimeout stdbuf setsid "
    "chroot unshare nsenter flock strace ltrace perf valgrind chrt taskset prlimit setpriv setarch linux32 "
    "linux64 systemd-run systemd-inhibit caffeinate unbuffer rlwrap faketime proot firejail bwrap "
    "dbus-run-session xvfb-run find fd fdfind coproc start winpty op direnv doppler dotenv npx bunx uvx pipx "
    "pnpx corepack uv poetry pdm hatch pipenv rye bundle docker podman nerdctl toolbox distrobox arch numactl "
    "eatmydata runcon sg newgrp cgexec xterm daemon start-stop-daemon nsjail chpst toybox cross-env cross-env-shell "
    "env-cmd dotenvx torsocks tsocks proxychains proxychains4 fakechroot cpulimit catchsegv rr heaptrack chronic ifne "
    "wsl tini dumb-init su-exec gosu setuidgid softlimit ccache distcc sshpass autossh memray py-spy tmux screen"
)
"""Programs that run another program named in their words."""

EXECUTING = {
    "npm": _table("exec x"), "pnpm": _table("exec dlx"), "yarn": _table("exec dlx"), "bun": _table("x"),
    "mise": _table("exec x"), "rbenv": _table("exec"), "pyenv": _table("exec"), "asdf": _table("exec"),
    "conda": _table("run"), "mamba": _table("run"), "micromamba": _table("run"), "volta": _table("run"),
    "fnm": _table("exec"), "nix": _table("run shell develop"), "rustup": _table("run"), "devbox": _table("run"),
    "guix": _table("shell environment"), "pixi": _table("run exec"), "opam": _table("exec"), "stack": _table("exec"),
    "cabal": _table("exec"), "swift": _table("run"), "deno": _table("run"), "go": _table("run"),
    "cmake": _table("-E"),
}  # fmt: skip
"""Programs that run another program behind one of these words."""

JUST_START = _table("nohup setsid command builtin unbuffer eatmydata catchsegv chronic time")
"""Starters without options that have a value: their first plain word is the command."""

STARTERS = _table(
    "env xargs sudo doas pkexec exec command builtin nohup nice ionice time timeout gtimeout stdbuf setsid strace "
    "ltrace chrt taskset coproc caffeinate unbuffer rlwrap faketime start numactl eatmydata"
)
"""Wrappers whose first plain word is the command they run."""

PLAIN = _table(
    "pytest py.test mypy pyright basedpyright flake8 pylint black isort bandit tsc eslint prettier jest "
    "vitest mocha ls dir cat head tail wc sort rg grep egrep fgrep ag ack tree pwd echo which whoami date "
    "uname file stat du df diff cmp comm cut tr nl md5sum sha1sum sha256sum basename dirname realpath "
    "readlink jq ctest shellcheck shfmt hadolint yamllint markdownlint golangci-lint gofmt rustfmt "
    "clang-format clang-tidy rspec rubocop phpunit lint-imports ps nproc true false"
)
"""Programs that do one thing: their prefix is their name."""

RUNNERS = {
    "npm": _table("run run-script"),
    "pnpm": _table("run"),
    "yarn": _table("run"),
    "uv": _table("run"),
    "poetry": _table("run"),
    "pdm": _table("run"),
    "hatch": _table("run"),
    "pipenv": _table("run"),
    "rye": _table("run"),
    "bundle": _table("exec"),
}
"""Programs whose second word runs the program or script in the third: three words make their prefix."""

SCRIPT_RUNNERS = _table("npm pnpm yarn")
"""Runners whose third word is a script of the project and not a program."""

SUBCOMMANDS = {
    "npm": _table("test ls outdated"),
    "pnpm": _table("test ls lint build"),
    "yarn": _table("test lint build"),
    "cargo": _table("test build check clippy fmt doc tree bench"),
    "go": _table("test build vet fmt list doc version"),
    "ruff": _table("check format"),
    "coverage": _table("report html xml json lcov combine"),
    "git": _table(
        "status diff log show blame rev-parse ls-files ls-tree describe shortlog grep merge-base cat-file "
        "rev-list name-rev count-objects check-ignore add commit"
    ),
}
"""Programs with only these second words for a prefix; their others install, publish, discard or run anything."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PYTEST = _names(
    "--basetemp -p -c -o --override-ini --config-file --confcutdir --pdbcls --pastebin --log-file --junitxml "
    "--junit-xml --report-log --debug --tx --px -d --rsyncdir --cov-config --cov-report --html --css "
    "--json-report-file "
    "--alluredir --benchmark-json --benchmark-storage --profile-svg --session2file --resultlog"
)
_PYRIGHT = _names("--pythonpath -p --project --createstub --venvpath -v")
_MOCHA = _names(
    "--config --require -r --reporter -R --ui -u --file --loader --import --experimental-loader --node-option -n "
    "--opts --package --spec -O --reporter-option --reporter-options"
)

ESCAPES = {
    "git": _names(
        "--ext-diff --textconv --filters --output --open-files-in-pager -O --no-index --upload-pack --template "
        "--gpg-sign -S --pathspec-from-file --recurse-submodules"
    ),
    "rg": _names("--pre --hostname-bin --search-zip -z --follow -L"),
    "ag": _names("--pager"),
    "ack": _names("--pager --ackrc --output"),
    "sort": _names("-o --output --compress-program -T --temporary-directory --files0-from"),
    "go": _names(
        "-exec -toolexec -vettool -overlay -o -modfile -C -fuzz -mod -ldflags -gcflags -asmflags -gccgoflags -compiler "
        "-pkgdir -coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile -trace -outputdir -pgo"
    ),
    "cargo": _names(
        "--config --manifest-path --target-dir -Z -C --fix --artifact-dir --out-dir --open --lockfile-path"
    ),
    "tree": _names("-o -R -l"),
    "yq": _names("-i --inplace --in-place -s --split-exp --split-exp-file -f --from-file"),
    "grep": _names("-R --dereference-recursive"),
    "egrep": _names("-R --dereference-recursive"),
    "fgrep": _names("-R --dereference-recursive"),
    "du": _names("-L -H --dereference --dereference-args"),
    "diff": _names("-l --paginate"),
    "clang-tidy": _names(
        "-load --config --fix --fix-errors --fix-notes --export-fixes --extra-arg --extra-arg-before --vfsoverlay"
    ),
    "clang-format": _names("-i --style"),
    "gofmt": _names("-w -cpuprofile"),
    "shfmt": _names("-w --write"),
    "rustfmt": _names("--config-path --config --emit"),
    "file": _names("-C --compile -m --magic-file -z -Z"),
    "date": _names("-s --set"),
    "ctest": _names(
        "-S -SP -D --script --build-and-test --test-command -O --output-log --output-junit --resource-spec-file "
        "--overwrite -T -M"
    ),
    "npm": _names("--prefix --script-shell --node-options --userconfig --globalconfig -C --ignore-scripts --registry"),
    "pnpm": _names("--prefix --script-shell --node-options --dir -C --config.script-shell"),
    "yarn": _names("--cwd --use-yarnrc --script-shell"),
    "eslint": _names(
        "--rulesdir --resolve-plugins-relative-to -o --output-file -f --format -c --config --parser --plugin --fix "
        "--cache-location --cache-file --init --inspect-config"
    ),
    "prettier": _names("--plugin --plugin-search-dir --config --write -w --cache-location"),
    "pytest": _PYTEST,
    "py.test": _PYTEST,
    "mypy": _names(
        "--python-executable --install-types --config-file --cache-dir --html-report --junit-xml --txt-report "
        "--xml-report --cobertura-xml-report --linecount-report --any-exprs-report --lineprecision-report "
        "--xslt-html-report --xslt-txt-report --custom-typing-module"
    ),
    "pyright": _PYRIGHT,
    "basedpyright": _PYRIGHT | _names("--writebaseline --baseline-file"),
    "pylint": _names(
        "--init-hook --load-plugins --rcfile --output --output-format -f --generate-rcfile --import-graph"
    ),
    "flake8": _names("--config --append-config --output-file --tee"),
    "bandit": _names("-o --output -c --configfile --ini"),
    "black": _names("--config"),
    "isort": _names("--settings-path --settings-file --sp"),
    "ruff": _names("-o --output-file --config --cache-dir --fix --fix-only --unsafe-fixes --add-noqa"),
    "coverage": _names("--rcfile -d --directory -o --data-file"),
    "jest": _names(
        "--config -c --globalSetup --globalTeardown --runner --testRunner --setupFiles --setupFilesAfterEnv "
        "--transform --resolver --reporters --env --testEnvironment --moduleNameMapper --outputFile "
        "--coverageDirectory --preset --projects --rootDir --watchPlugins --snapshotResolver --testSequencer "
        "--testResultsProcessor --snapshotSerializers --coverageReporters --modulePaths --init "
        "--prettierPath --filter --cacheDirectory --roots --haste --dependencyExtractor"
    ),
    "vitest": _names(
        "--config -c --globalSetup --setupFiles --environment --reporter --outputFile --root -r --dir --execArgv "
        "--typecheck.checker --typecheck.tsconfig --coverage.reportsDirectory --coverage.customProviderModule "
        "--browser.provider --browser.providerOptions --runner --snapshotSerializers --workspace --script"
    ),
    "mocha": _MOCHA,
    "tsc": _names(
        "--build -b -p --project --outDir --outFile --declarationDir --tsBuildInfoFile --generateTrace "
        "--generateCpuProfile --init --rootDir --plugins"
    ),
    "shellcheck": _names("-x --external-sources"),
    "hadolint": _names("-c --config"),
    "lint-imports": _names("--config --cache-dir"),
    "yamllint": _names("-c --config-file -d --config-data"),
    "markdownlint": _names("-f --fix -o --output -c --config -r --rules"),
    "phpunit": _names(
        "-c --configuration --bootstrap -d --prepend --extension --printer --loader --include-path --log-junit "
        "--log-teamcity --log-events-text --log-events-verbose-text --testdox-html --testdox-text --testdox-xml "
        "--coverage-clover --coverage-cobertura --coverage-crap4j --coverage-html --coverage-php --coverage-text "
        "--coverage-xml --coverage-openclover --cache-directory --generate-configuration --migrate-configuration "
        "--generate-baseline"
    ),
    "rspec": _names("-r --require -o --out -I -O --options --default-path -f --format --init"),
    "rubocop": _names("-r --require -o --out -c --config -a -A --autocorrect --autocorrect-all --plugin --init"),
    "golangci-lint": _names("-c --config --cpu-profile-path --mem-profile-path --trace-path --fix --output"),
}
"""Options with which a program of a prefix runs another program, loads code from elsewhere or writes a named file."""

GENERIC_ESCAPES = _names("--exec --command --shell --pager --editor --rootdir --to-command --use-compress-program")
"""Options that mean the same with any program."""

_WHOLE_NAMES = _names("jest vitest mocha eslint prettier tsc markdownlint go gofmt mypy clang-tidy cargo ruff")
"""Programs whose long options cannot be shortened, so that `--coverage` of jest is not its `--coverageDirectory`."""

_SHORTEST = 3
"""Characters of a shortened long option, its dashes included; a lone `--` ends the options."""


def is_escape(program: str, word: str) -> bool:
    """Return whether `word` is, or may be, one of the escape options of `program` (see `program_name`)."""
    if not word.startswith("-"):
        return False
    if word.split("=", 1)[0] == "--cov" and ESCAPES.get(program) is _PYTEST:
        return False  # an option of its own, and no short `--cov-config`
    own = ESCAPES.get(program, frozenset())
    may_shorten = program not in _WHOLE_NAMES
    return any(_matches(word, escape, may_shorten=may_shorten) for escape in own) or any(
        _matches(word, escape, may_shorten=True) for escape in GENERIC_ESCAPES
    )


def _matches(word: str, escape: str, *, may_shorten: bool) -> bool:
    if len(escape) == 2:
        return re.match(rf"-[A-Za-z0-9]*{escape[1]}", word) is not None
    given = word.split("=", 1)[0]
    # One dash or two, `--globalSetup` or `--global-setup`, any case: parsers differ in what they accept.
    if _plain(given) == _plain(escape):
        return True
    is_short_form = len(given) >= _SHORTEST and given.startswith("--") and may_shorten
    return is_short_form and _plain(escape).startswith(_plain(given))


@lru_cache(maxsize=4_096)
def _plain(option: str) -> str:
    return re.sub(r"[-_]", "", option).casefold()


_VERSIONED = re.compile(r"(python|pypy|ruby|perl|php|lua|node|bash)(?:[\d.][\w.-]*|w)")

_NUMBERED = re.compile(r"(.*?[a-z+])-?\d[\d.]*")
_KNOWN = (INTERPRETERS | WRAPPERS | PLAIN | RUNNERS.keys() | SUBCOMMANDS.keys() | EXECUTING.keys()) | _table(
    "pip pip3 gem composer gcc g++ cc clang clang++ make gmake gradle mvn helm kubectl terraform tofu openssl gpg svn "
    "patch tar zstd curl wget clickhouse-client"
)
"""Programs that tables know, and so also with a version behind their names."""


@lru_cache(maxsize=2_048)
def program_name(word: str) -> str:
    """The name of a program: no folder, no `.exe`, no version, lower case since file systems may ignore case."""
    name = re.split(r"[/\\]", word)[-1].casefold()
    name = re.sub(r"\.(?:exe|cmd|bat|com|ps1)$", "", name)
    if versioned := _VERSIONED.fullmatch(name):
        return versioned[1]
    # `gcc-12`, `tclsh8.6`, `clang++-15`; `base64` is a name of its own.
    numbered = _NUMBERED.fullmatch(name)
    return numbered[1] if numbered and name not in _KNOWN and numbered[1] in _KNOWN else name


def prefix_words(command: SimpleCommand) -> tuple[str, ...] | None:
    """The first words that say what a command does; None when a prefix would allow more than it says."""
    words = command.words
    if not words or not words[0] or words[0].startswith(("-", "~")) or 0 in command.changing:
        return None
    name = program_name(words[0])
    second = words[1] if len(words) > 1 else ""
    if second in RUNNERS.get(name, ()):
        return _runner_prefix(words)
    if name in SUBCOMMANDS or name in RUNNERS:
        return words[:2] if second in SUBCOMMANDS.get(name, ()) else None
    # Of any other program nobody knows what its options do.
    return words[:1] if name in PLAIN else None


def _runner_prefix(words: tuple[str, ...]) -> tuple[str, ...] | None:
    if len(words) < 3 or words[2].startswith("-") or "/" in words[2] or "." in words[2]:
        return None
    if program_name(words[0]) in SCRIPT_RUNNERS:
        return words[:3]
    return words[:3] if program_name(words[2]) in PLAIN else None


def gives_script_words(words: tuple[str, ...]) -> bool:
    """Return whether a script of the project gets more words: what its program does with them nobody knows."""
    if not words or program_name(words[0]) not in SCRIPT_RUNNERS:
        return False
    behind = 3 if words[1:2] and words[1] in RUNNERS[program_name(words[0])] else 2
    return any(word not in _QUIET_SCRIPT for word in words[behind:])


_QUIET_SCRIPT = _names("--silent -s --if-present --depth=0 --depth=1 --json --all --long --prod --dev")


@lru_cache(maxsize=1_024)
def has_escape_option(words: tuple[str, ...]) -> bool:
    """Return whether an option lets the command run or write more than its prefix says."""
    programs = tuple(dict.fromkeys(program_name(word) for word in words[:3]))
    if programs[:1] == ("clang-tidy",) and "--" in words:
        return True  # what follows are options of the compiler, which loads plug-ins
    # Many programs read more arguments from a file named after an `@`.
    return any(word.startswith("@") or any(is_escape(program, word) for program in programs) for word in words[1:])
