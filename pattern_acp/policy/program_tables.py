"""What is known about programs by name.

Owns: tables only. Must not know: how a line is read, grants, modes, paths. Names are lower case, without folder,
version and `.exe` (see `programs.program_name`).
"""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELLS = _names("sh bash dash zsh fish ksh mksh ash csh tcsh rbash busybox pwsh powershell cmd elvish nu xonsh osh")
"""Programs that run the text they are given or read as shell lines."""

INTERPRETERS = SHELLS | _names(
    "python pypy ipython node nodejs deno bun ruby irb perl raku php lua luajit r rscript julia tclsh wish "
    "expect guile racket sbcl ghci runghc runhaskell scala groovy jshell elixir iex erl escript osascript awk "
    "gawk mawk nawk sed ed ex vi vim nvim emacs emacsclient gdb lldb sqlite3 psql mysql mariadb mongosh "
    "redis-cli java dotnet m4 bc dc tsx ts-node"
)
"""Programs whose arguments or input are programs themselves, so that a prefix would allow anything."""

EVALUATORS = SHELLS | _names("eval watch ssh su trap parallel script xargs env entr hyperfine fakeroot nix-shell")
"""Programs that may read an argument as a shell line."""

WRAPPERS = EVALUATORS | _names(
    "sudo doas pkexec runuser run0 exec command builtin nohup nice ionice time timeout gtimeout stdbuf setsid "
    "chroot unshare nsenter flock strace ltrace perf valgrind chrt taskset prlimit setpriv setarch linux32 "
    "linux64 systemd-run systemd-inhibit caffeinate unbuffer rlwrap faketime proot firejail bwrap "
    "dbus-run-session xvfb-run find fd fdfind coproc start winpty op direnv doppler dotenv npx bunx uvx pipx "
    "pnpx corepack uv poetry pdm hatch pipenv rye bundle docker podman nerdctl toolbox distrobox arch numactl "
    "eatmydata runcon sg newgrp cgexec xterm daemon start-stop-daemon nsjail chpst"
)
"""Programs that run another program named in their words."""

STARTERS = _names(
    "env xargs sudo doas pkexec exec command builtin nohup nice ionice time timeout gtimeout stdbuf setsid strace "
    "ltrace chrt taskset coproc caffeinate unbuffer rlwrap faketime start numactl eatmydata"
)
"""Wrappers whose first plain word is the command they run."""

INSTALLERS = _names(
    "pip pip3 gem composer conda mamba twine nuget cabal stack rustup nvm pyenv asdf mise brew apt apt-get "
    "dnf yum pacman apk snap flatpak choco winget scoop port zypper emerge"
)
"""Programs that fetch and install other people's code."""

RUN_OTHERS = _names(
    "cross-env cross-env-shell env-cmd dotenvx nodemon watchexec chokidar concurrently npm-run-all run-s run-p pm2 "
    "forever vite-node swc-node babel-node esno jiti turbo nx lerna memray scalene py-spy kernprof debugpy pudb "
    "viztracer torchrun accelerate ssh-agent gpg-agent dbus-launch sshpass autossh mosh proxychains proxychains4 "
    "torsocks tsocks fakechroot cpulimit catchsegv rr heaptrack bpftrace chronic ifne sem tini dumb-init su-exec gosu "
    "setuidgid softlimit nix guix devbox volta fnm rbenv ccache distcc wsl adb ldd fzf skim sk rundll32 mshta wscript "
    "cscript certutil bitsadmin msiexec forfiles schtasks kotlin kotlinc swift swiftc dart crystal nim zig odin ocaml "
    "utop clojure clj lein bb janet fennel hy octave matlab maxima gp gnuplot tex latex pdflatex xelatex lualatex "
    "latexmk pandoc asciidoctor jupyter quarto gcc cc g++ c++ cpp clang clang++ rustc javac tcc ld duckdb "
    "sqlcmd clickhouse-client mycli pgcli litecli valkey-cli"
)
"""Programs that run, compile with or load whatever their words name: wrappers, compilers with plug-ins, consoles."""

WRITE_NAMED = _names(
    "uniq xxd split csplit sponge gzip gunzip bzip2 bunzip2 xz unxz zstd unzstd lz4 ar strip objcopy iconv recode "
    "dos2unix unix2dos ffmpeg convert magick mogrify tidy rename mmv ssh-copy-id fallocate mktemp pax rcp"
)
"""Programs that overwrite, make or remove a file that is only another of their words."""

NO_PREFIX = (
    INTERPRETERS
    | INSTALLERS
    | _names(
        "source . alias unalias set shopt export unset declare typeset local readonly enable hash bind complete "
        "cd pushd popd printf mapfile readarray read let test [ [[ rm rmdir mv cp ln dd tee install truncate "
        "shred chmod chown chgrp chattr setfacl touch mkdir mkfifo mknod mount umount curl wget http https aria2c "
        "nc ncat netcat socat telnet ftp sftp scp rsync rclone tar unzip zip 7z cpio patch make gmake ninja cmake "
        "just task rake ant mvn mvnw gradle gradlew tox nox buildah kubectl helm terraform tofu pulumi ansible "
        "ansible-playbook vagrant aws gcloud az gh glab hub kill killall pkill shutdown reboot systemctl service "
        "launchctl crontab at batch tmux screen less more man view nano pico open xdg-open code pre-commit mail "
        "sendmail gpg openssl ssh-keygen ssh-add passwd useradd usermod del erase rd move copy xcopy robocopy reg "
        "wmic invoke-expression iex invoke-webrequest iwr remove-item set-content svn hg jj fossil tig lazygit "
        "pattern-acp"
    )
    | RUN_OTHERS
    | WRITE_NAMED
    | (WRAPPERS - _names("uv poetry pdm hatch pipenv rye bundle"))
)
"""Programs that never get a prefix: what they do lies in the rest of their words."""

PLAIN = _names(
    "pytest py.test mypy pyright basedpyright flake8 pylint black isort bandit tsc eslint prettier jest "
    "vitest mocha ls dir cat head tail wc sort rg grep egrep fgrep ag ack tree pwd echo which whoami date "
    "uname file stat du df diff cmp comm cut tr nl md5sum sha1sum sha256sum basename dirname realpath "
    "readlink jq ctest shellcheck shfmt hadolint yamllint markdownlint golangci-lint gofmt rustfmt "
    "clang-format clang-tidy rspec rubocop phpunit lint-imports ps nproc true false"
)
"""Programs that do one thing: their prefix is their name."""

RUNNERS = {
    "npm": _names("run run-script"),
    "pnpm": _names("run"),
    "yarn": _names("run"),
    "uv": _names("run"),
    "poetry": _names("run"),
    "pdm": _names("run"),
    "hatch": _names("run"),
    "pipenv": _names("run"),
    "rye": _names("run"),
    "bundle": _names("exec"),
}
"""Programs whose second word runs what the third word names: three words make their prefix."""

SCRIPT_RUNNERS = _names("npm pnpm yarn")
"""Runners whose third word is a script of the project and not a program."""

SUBCOMMANDS = {
    "npm": _names("test ls outdated"),
    "pnpm": _names("test ls lint build"),
    "yarn": _names("test lint build"),
    "cargo": _names("test build check clippy fmt doc tree bench"),
    "go": _names("test build vet fmt list doc version"),
    "ruff": _names("check format"),
    "coverage": _names("report html xml json lcov combine"),
    "git": _names(
        "status diff log show blame rev-parse ls-files ls-tree describe shortlog grep merge-base cat-file "
        "rev-list name-rev count-objects check-ignore add commit"
    ),
}
"""Programs with only these second words for a prefix; others of theirs install, publish, discard or run anything."""
