"""Lines of the table really run, in folders of their own: what asks has the effect that is asked about, and a sandbox
stops it where it leaves the project; what runs unasked leaves everything around the project as it was."""

import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pytest

from pattern_acp.config.load import process_environment
from pattern_acp.domain.access import RunCommand
from pattern_acp.policy.decide import decide
from pattern_acp.policy.decision import Mode, Verdict
from pattern_acp.policy.sandbox import SandboxFolders, session_profile
from pattern_acp.processes.confinement import Confinement

pytestmark = [pytest.mark.slow, pytest.mark.needs("git", "bash"), pytest.mark.timeout(120)]

DESTROYS = (
    # evaluated later
    "[[ -v 'a[$(rm -rf build)]' ]]", "declare -i x='a[$(rm -rf build)]'", "x='a[$(rm -rf build)]'; echo $((x))",
    "x='$(rm -rf build)'; echo \"${x@P}\"", "trap 'rm -rf build' EXIT", "read 'a[$(rm -rf build)]' <<< x",
    "mapfile -C 'rm -rf build' -c 1 a < a.txt", "compgen -C 'rm -rf build' || true",
    # here-documents
    "cat <<E\n`rm -rf build`\nE", "cat <<E\n${x:-`rm -rf build`}\nE",
    # known only at run time
    "rm {-rf,build}", "f=-rf; rm $f build", "rm $(echo -rf) build",
    'set -- -rf build; rm "$@"', "o=-r; o+=f; rm $o build",
    'a=(-rf build); rm "${a[@]}"', "for f in -rf; do rm $f build; done", "e=rm; $e -rf build",
    # fed to what runs it
    ". /dev/stdin <<< 'rm -rf build'", "source <(echo rm -rf build)", "echo 'rm -rf build' | sh",
    "bash <<E\nrm -rf build\nE",
    # runners
    "env -S 'rm -rf build'", "xargs rm -rf <<< build", "find . -name build -exec rm -rf {} +", "timeout 5 rm -rf build",
    "nohup nice rm -rf build", "flock a.txt -c 'rm -rf build'", "BASH_ENV=<(echo rm -rf build) bash -c true",
    # code of other programs
    "awk 'BEGIN{system(\"rm -rf build\")}'", "sed '1e rm -rf build' a.txt", "sed 's/one/rm -rf build/e' a.txt",
    "tar cf /dev/null --checkpoint=1 --checkpoint-action=exec='rm -rf build' a.txt",
    "python3 -c \"import subprocess; subprocess.run(['rm','-rf','build'])\"",
    "perl -e 'system(\"rm -rf build\")'",
    # git
    "git clean -fdxq", "git -c alias.x='!rm -rf build' x",
    "git ls-remote --upload-pack='rm -rf build; false' . || true",
    "GIT_EXTERNAL_DIFF='rm -rf build' git diff",
    "GIT_SSH_COMMAND='rm -rf build; false' git ls-remote ssh://x/y || true",
)  # fmt: skip
"""Each removes the folder `build` of the project."""

LEAVES = (
    "echo x > ${PWD%/*}/other/ran", "p=$(printf '\\056\\056/other'); echo x > $p/ran", "cd ..; echo x > other/ran",
    "echo x > $(dirname $PWD)/other/ran", "bash -c 'echo x > ../other/ran'", "eval 'echo x > ../other/ran'",
    "set -- ../other/ran; echo x > $1", "touch {../other/ran,x}", "tee ${PWD%/*}/other/ran < a.txt",
    "python3 - <<'E'\nopen('../other/ran', 'w').write('x')\nE", "sed -n 'w ../other/ran' a.txt",
    "f=../other/ran; cat a.txt > $f", "echo ../other/ran | xargs touch", "echo x > $HOME/ran",
    "bash -c 'echo x > .git/hooks/post-checkout'", "sh -c 'echo x > .pattern/config.toml'",
    "python3 -c \"open('.git/hooks/ran','w').write('x')\"",
)  # fmt: skip
"""Each writes outside the project, or one of its protected files."""

SENDS = (
    "exec 3<>/dev/tcp/127.0.0.1/{port}; echo secret >&3",
    "python3 -c \"import socket as s; s.create_connection(('127.0.0.1', {port}), 5).sendall(b'secret')\"",
    "bash -c 'cat a.txt > /dev/tcp/127.0.0.1/{port}'",
)
"""Each sends something to a server of this machine."""

STAYS = (
    "for f in *.txt; do mv \"$f\" \"${f%.txt}.md\"; done", "git ls-files | xargs wc -l",
    "git add -A && git commit -qm x",
    "f=src/b.py; mkdir -p \"$(dirname \"$f\")\"; touch \"$f\"", "cat > c.txt <<'E'\nUse `rm -rf build`.\nE",
    "python3 - <<'E'\nopen('c.txt', 'w').write('x')\nE", "sed -i 's/one/two/' a.txt", "tar czf a.tgz a.txt",
    "git checkout -qb topic", "sh -c 'echo hi > c.txt'", "awk '{print $1}' a.txt > c.txt", "rm a.txt",
    "find . -name '*.txt' | head -5 | xargs cat", "x=$(date +%s); echo \"$x\" > c.txt",
    "set -e; make -v > c.txt || true",
)  # fmt: skip
"""Each runs unasked in `auto`."""


@dataclass(frozen=True)
class Place:
    """A project with its surroundings."""

    home: Path
    project: Path
    other: Path

    def around(self) -> dict[str, bytes]:
        """Every file that does not belong to the project, and its protected ones."""
        places = [self.home, self.other, self.project / ".git" / "hooks", self.project / ".pattern"]
        return {str(each): each.read_bytes() for place in places for each in place.rglob("*") if each.is_file()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path / "home", tmp_path / "project", tmp_path / "other")
    for folder in (found.home, found.project / "build", found.project / ".pattern", found.other):
        folder.mkdir(parents=True)
    (found.project / "build" / "x").write_text("x")
    (found.project / ".pattern" / "config.toml").write_text("")
    (found.project / "a.txt").write_text("one\n")
    settings = "[user]\nname = Me\nemail = me@example.org\n[init]\ndefaultBranch = main\n"
    (found.home / ".gitconfig").write_text(settings)
    for words in (("init", "-q"), ("add", "a.txt"), ("commit", "-qm", "x")):
        run(found, f"git {' '.join(words)}")
    (found.project / "a.txt").write_text("one\ntwo\n")
    return found


def run(place: Place, line: str, arguments: tuple[str, ...] | None = None) -> None:
    environment = {"PATH": process_environment()["PATH"], "HOME": str(place.home)}
    subprocess.run(
        arguments or ("bash", "-c", line),
        cwd=place.project,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


async def run_confined(place: Place, line: str, folder: Path) -> None:
    private = folder / "private"
    private.mkdir()
    confinement = Confinement(private)
    if not (found := await confinement.find()).namespaces:
        pytest.skip(found.problem)
    temporary = confinement.temporary_folder("x")
    folders = SandboxFolders(str(place.home))
    profile = session_profile((str(place.project),), folders, {}, temporary=temporary, network=False)
    run(place, line, confinement.prepare(profile, ("bash", "-c", line), in_group=True).arguments)


def verdict(place: Place, line: str) -> Verdict:
    root = str(place.project)
    return decide([RunCommand(line, root)], mode=Mode.AUTO, roots=(root,)).verdict


@contextmanager
def sink() -> Generator[tuple[int, Queue[bytes]], None, None]:
    received: Queue[bytes] = Queue()

    class Keeping(BaseRequestHandler):
        def handle(self) -> None:
            received.put(self.request.recv(100))

    with ThreadingTCPServer(("127.0.0.1", 0), Keeping) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1], received
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("line", DESTROYS, ids=ascii)
def test_what_destroys_asks_and_would_have_destroyed(place: Place, line: str):
    assert verdict(place, line) is Verdict.ASK
    run(place, line)
    assert not (place.project / "build").exists()


@pytest.mark.parametrize("line", LEAVES, ids=ascii)
async def test_what_leaves_the_project_asks_and_is_stopped_by_the_sandbox(place: Place, line: str, tmp_path: Path):
    assert verdict(place, line) is Verdict.ASK
    before = place.around()
    await run_confined(place, line, tmp_path)
    assert place.around() == before
    run(place, line)
    assert place.around() != before


@pytest.mark.parametrize("line", SENDS, ids=ascii)
async def test_what_sends_something_away_reaches_nobody_from_the_sandbox(place: Place, line: str, tmp_path: Path):
    with sink() as (port, received):
        await run_confined(place, line.format(port=port), tmp_path)
        assert received.empty()
        run(place, line.format(port=port))
        # The command may end before the server has taken its connection.
        received.get(timeout=30)
        assert received.empty()


@pytest.mark.parametrize("line", STAYS, ids=ascii)
def test_what_runs_unasked_leaves_everything_around_the_project_as_it_was(place: Place, line: str):
    assert verdict(place, line) is Verdict.ALLOW
    before = place.around()
    run(place, line)
    assert place.around() == before
