"""Submitting workloads: from files, or from the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli import page, table
from steelyard.cli.amounts import amounts
from steelyard.cli.session import Session
from steelyard.model.errors import InvalidError

Text = str | None
_WOULD = {"start": 0, "wait": 0, "refuse": 3}


def submit(
    session: Session,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[NAME] [-- COMMAND...]")] = None,
    file: Annotated[list[str] | None, typer.Option("--file", "-f", metavar="FILE")] = None,
    namespace: Annotated[Text, typer.Option("--namespace", "-n", metavar="NAME")] = None,
    kind: Annotated[str, typer.Option("--kind", "-k", metavar="KIND")] = "batch",
    cpu: Annotated[Text, typer.Option("--cpu", metavar="CORES")] = None,
    memory: Annotated[Text, typer.Option("--memory", metavar="SIZE")] = None,
    gpu: Annotated[Text, typer.Option("--gpu", metavar="N")] = None,
    npu: Annotated[Text, typer.Option("--npu", metavar="N")] = None,
    count: Annotated[int, typer.Option("--count", metavar="N")] = 1,
    flavor: Annotated[list[str] | None, typer.Option("--flavor", metavar="NAME")] = None,
    cluster: Annotated[list[str] | None, typer.Option("--cluster", metavar="NAME")] = None,
    env: Annotated[list[str] | None, typer.Option("--env", "-e", metavar="KEY=VALUE")] = None,
    image: Annotated[Text, typer.Option("--image", metavar="IMAGE")] = None,
    port: Annotated[bool, typer.Option("--port")] = False,
    queue: Annotated[Text, typer.Option("--queue", metavar="NAME")] = None,
    priority: Annotated[Text, typer.Option("--priority", metavar="CLASS")] = None,
    template: Annotated[Text, typer.Option("--template", metavar="NAME")] = None,
    time_limit: Annotated[Text, typer.Option("--time-limit", metavar="DURATION")] = None,
    hold: Annotated[bool, typer.Option("--hold")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run")] = False,
    wait: Annotated[bool, typer.Option("--wait")] = False,
    timeout: Annotated[int | None, typer.Option("--timeout", metavar="SECONDS")] = None,
    key: Annotated[Text, typer.Option("--key", metavar="KEY")] = None,
) -> int:
    """One workload from the arguments, or each of the files' documents."""
    words = list(arguments or ())
    if file:
        if words:
            raise InvalidError("argument-conflict", first="--file", second=words[0][:60])
        documents = _read(file)
    else:
        requests = {"cpu": cpu, "memory": memory, "gpu": gpu, "npu": npu}
        role = _role(words[1:], requests, count, flavor, cluster, env, image, port)
        options = {
            "queue": queue, "priorityClass": priority, "template": template, "timeLimit": time_limit,
            "hold": hold or None,
        }  # fmt: skip
        documents = [_document(words[0] if words else None, namespace, kind, role, options)]
    if dry_run:
        return _try(session, documents)
    if key is not None and len(documents) > 1:
        raise InvalidError("argument-conflict", first="--key", second="--file")
    return _submit(session, documents, key, wait, timeout)


def _document(
    name: str | None, namespace: str | None, kind: str, role: dict[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    for given, missing in ((name, "NAME"), (namespace, "--namespace")):
        if not given:
            raise InvalidError("argument-missing", name=missing)
    spec = {"kind": kind, **{key: value for key, value in options.items() if value is not None}}
    return {
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {**spec, "roles": [role]},
    }


def _role(
    command: list[str],
    requests: Mapping[str, str | None],
    count: int,
    flavors: list[str] | None,
    clusters: list[str] | None,
    env: list[str] | None,
    image: str | None,
    port: bool,
) -> dict[str, Any]:
    if not command:
        raise InvalidError("argument-missing", name="-- COMMAND")
    asked = {key: value for key, value in requests.items() if value is not None}
    role: dict[str, Any] = {"name": "main", "count": count, "command": command}
    role["requests"] = asked or {"cpu": "1", "memory": "256Mi"}
    optional = {"flavors": flavors, "clusters": clusters, "image": image, "port": port}
    role |= {key: value for key, value in optional.items() if value}
    if env:
        role["env"] = dict(_pair(text) for text in env)
    return role


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InvalidError("argument-invalid", name="--env", expected="KEY=VALUE")
    return key, value


def _read(files: list[str]) -> list[dict[str, Any]]:
    read = table.load("steelyard.client.documents:read_documents")
    found = [document for path in files for document in read(path)]
    if not found:
        raise InvalidError("documents-none", files=", ".join(files)[:200])
    return found


def _try(session: Session, documents: list[dict[str, Any]]) -> int:
    answers = [session.client.submit(document, dry_run=True) for document in documents]

    def draw() -> None:
        for document, answer in zip(documents, answers, strict=True):
            name = (document.get("metadata") or {}).get("name")
            session.say("cli.submit.would", name=str(name), decision=answer["would"])
            for reason in answer.get("reasons") or ():
                session.line(f"  - {session.reason(reason)}")

    session.emit(answers if len(answers) > 1 else answers[0], draw)
    return max(_WOULD.get(answer["would"], 1) for answer in answers)


def _submit(
    session: Session, documents: list[dict[str, Any]], key: str | None, wait: bool, timeout: int | None
) -> int:
    views = []
    for document in documents:
        view = session.client.submit(document, key=key)
        views.append(view)
        if session.output in (None, "table"):
            asked = amounts(session, view.get("requested"))
            session.say(
                "cli.submit.done", name=view["name"], id=view["id"], phase=view["phase"], amounts=asked
            )
    if wait:
        views = [_await(session, view["id"], timeout) for view in views]
    if session.output not in (None, "table"):
        session.emit(views if len(views) > 1 else views[0], lambda: None)
    if not wait:
        return 0
    return 0 if all(view["outcome"] == "succeeded" for view in views) else 1


def _await(session: Session, workload_id: str, timeout: int | None) -> dict[str, Any]:
    def changed(view: Any) -> None:
        if view["phase"] != "finished":
            session.note("cli.submit.now", name=view["name"], phase=view["phase"], stage=view["sub_stage"])

    view: Any = session.client.wait(workload_id, timeout=timeout, on_change=changed)
    if session.output in (None, "table"):
        session.line(page.headline(session, view, view.get("finished_at") or 0))
    return dict(view)
