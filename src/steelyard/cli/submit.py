"""Submitting workloads: from files, or from the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli import page
from steelyard.cli.amounts import amounts
from steelyard.cli.choices import one_of
from steelyard.cli.documents import KINDS, Source, placed, read
from steelyard.cli.session import Session
from steelyard.model.errors import InvalidError
from steelyard.model.workloads import WorkloadKind

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
    tty: Annotated[bool, typer.Option("--tty", "-t")] = False,
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
        sources = _read(file)
    else:
        one_of(kind, "--kind", WorkloadKind)
        requests = {"cpu": cpu, "memory": memory, "gpu": gpu, "npu": npu}
        role = _role(words[1:], requests, count, flavor, cluster, env, image, port)
        role |= {"tty": True} if tty else {}
        options = {
            "queue": queue, "priorityClass": priority, "template": template, "timeLimit": time_limit,
            "hold": hold or None,
        }  # fmt: skip
        sources = [Source("", 0, _document(words[0] if words else None, namespace, kind, role, options))]
    if dry_run:
        return _try(session, sources)
    if key is not None and len(sources) > 1:
        raise InvalidError("argument-conflict", first="--key", second="--file")
    return _submit(session, sources, key, wait, timeout)


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


def _read(files: list[str]) -> list[Source]:
    """The workloads of files. Raises InvalidError for a document that is declared, not submitted."""
    sources = read(files)
    for source in sources:
        if source.kind in KINDS:
            raise InvalidError(
                "document-is-declared", kind=source.kind, file=source.file, number=source.number
            )
    return sources


def _try(session: Session, sources: list[Source]) -> int:
    answers = [_send(session, source, dry_run=True) for source in sources]

    def draw() -> None:
        for source, answer in zip(sources, answers, strict=True):
            session.say("cli.submit.would", name=str(source.name), decision=answer["would"])
            for reason in answer.get("reasons") or ():
                session.line(f"  - {session.reason(reason)}")

    session.emit(answers if len(answers) > 1 else answers[0], draw)
    return max(_WOULD.get(answer["would"], 1) for answer in answers)


def _send(session: Session, source: Source, **options: Any) -> dict[str, Any]:
    """Submits one; an error names the file that it stands in."""
    if not source.file:
        return session.client.submit(source.document, **options)
    with placed([source]):
        return session.client.submit(source.document, **options)


def _submit(
    session: Session, sources: list[Source], key: str | None, wait: bool, timeout: int | None
) -> int:
    views = []
    for source in sources:
        view = _send(session, source, key=key)
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
