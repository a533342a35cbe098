"""Puts the house together: the one module that knows everybody.

`up` is the embedded server: API and loops in one process on SQLite in one data folder, with a lock
that refuses a second server. `serve` is one of several on PostgreSQL.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from steelyard.api.app import create_app
from steelyard.api.audit import WHOLE_HOUSE
from steelyard.api.context import Services
from steelyard.api.lanes import QUESTIONS
from steelyard.client.requests import DEFAULT_URL
from steelyard.console.app import create_console, first_parts
from steelyard.console.context import Console
from steelyard.console.door import Door
from steelyard.control.collector import tune
from steelyard.control.loop import ControlLoop
from steelyard.data_folder import locked
from steelyard.devices.settings import settings_of
from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.isolation import wish_of
from steelyard.engines.local.member_logs import DEFAULT_MIB
from steelyard.engines.port import Engine
from steelyard.engines.simulated import SimulatedEngine, parse_simulation
from steelyard.locale import text
from steelyard.model.errors import InvalidError, UnavailableError
from steelyard.model.ids import render
from steelyard.model.units import parse_duration, parse_quantity
from steelyard.server_log import configure_log
from steelyard.services.audit import checkpoint
from steelyard.services.health import LEASE
from steelyard.services.keys import open_log_key
from steelyard.services.live_load import SnapshotSource
from steelyard.services.metrics import Loop as LoopNow
from steelyard.services.metrics import Meters
from steelyard.services.present import Present
from steelyard.services.retention import read_retention
from steelyard.services.setup import first_start, reset_password
from steelyard.services.workloads import Desk
from steelyard.store.archive import is_unfinished
from steelyard.store.clock import SteadyClock
from steelyard.store.database import SQLITE_NAME, sqlite_url
from steelyard.store.installation import read_lease
from steelyard.store.store import Store

PASSWORD_FILE = "initial-password"
#: Requests that are being answered when the server is told to stop have so long; its control loop, too.
DRAIN_SECONDS = 10
RELEASE_SECONDS = 10.0
#: One request passes from thread to thread (event loop, worker, writer, control); at the interpreter's 5 ms a
#: thread that computes keeps each of them waiting as long. Measured: a submit took 29 ms, now 8.
SWITCH_SECONDS = 0.0005
MIN_FREE_MIB = 256  # on the disk of work folders, where a cluster's document says nothing
MAX_SOCKET_MESSAGE = 256 * 1024  # bytes; what a door takes of it is its own affair


@dataclass(slots=True)
class House:
    """An open installation: store, loops and the services of its API."""

    folder: Path
    store: Store
    loop: ControlLoop
    services: Services

    _releasing: threading.Thread | None = None

    def stop(self) -> None:
        """Streams end, /readyz says no, and the control lease is given back at once, while requests are still
        answered. May be called in a signal's handler, and twice."""
        if self._releasing is None:
            self.services.stopping.set()
            self._releasing = threading.Thread(target=self.loop.close, name="release-lease", daemon=True)
            self._releasing.start()

    def close(self) -> None:
        """Stop the loops, flush, let go. Running work goes on."""
        self.stop()
        if self._releasing is not None:
            self._releasing.join(RELEASE_SECONDS)
        self.services.attempts.close()
        self.store.close()


def build(folder: Path, database: str) -> House:
    """Open everything, start the writer and the control loop."""
    clock = SteadyClock()
    store = Store(database, clock, wall=clock.wall)
    clock.not_before(store.writer.last_ts)
    with store.read() as view:
        if is_unfinished(view):
            store.close()
            raise UnavailableError("restore-unfinished")
    store.start()
    signer = open_log_key(store, folder)
    engines: dict[str, Engine] = {}

    def make_engine(name: str, spec: Mapping[str, Any]) -> Engine:
        engine = engines[name] = open_engine(name, spec, folder, store)
        return engine

    def seal(reason: str) -> None:
        if signer.able:
            checkpoint(store, signer, reason)

    def loop_now() -> LoopNow:
        ticked = time.monotonic() - loop.ticked_at if loop.ticked_at else None
        return LoopNow(loop.leading, ticked, loop.last_error is not None)

    meters = Meters(store, loop_now)
    store.writer.on_flush = meters.commit
    holder = render("server", store.ids.next())
    present = Present()
    loop = ControlLoop(
        store, make_engine, seal, holder,
        on_cycle=meters.cycle, present=present, kept=read_retention(folder),
    )  # fmt: skip
    desk = Desk(store, SnapshotSource(present))
    services = Services.over(store, desk=desk, engines=engines, signer=signer, meters=meters)
    services.extra["control"] = loop
    services.extra["folder"] = folder
    loop.start()
    return House(folder, store, loop, services)


def open_engine(name: str, spec: Mapping[str, Any], folder: Path, store: Store) -> Engine:
    """The engine of a declared cluster."""
    kind = spec.get("engine")
    if kind == "local":
        reserve, folders = spec.get("reserve") or {}, spec.get("workFolder") or {}
        kept = spec.get("keep") or {}
        return LocalEngine(
            name,
            folder,
            store.install_id,
            now=store.now,
            reserve_cpu=parse_quantity("cpu", reserve.get("cpu", 0)),
            reserve_memory=parse_quantity("memory", reserve.get("memory", 0)),
            isolation=wish_of(spec.get("isolation")),
            work_limit=parse_quantity("memory", folders["sizeLimit"]) if "sizeLimit" in folders else None,
            min_free=parse_quantity("memory", folders.get("minFree", MIN_FREE_MIB)),
            keep_work=parse_duration(kept["work"]) if "work" in kept else None,
            log_limit=parse_quantity("memory", kept.get("logs", DEFAULT_MIB)),
            keep_artifacts=parse_duration(kept["artifacts"]) if "artifacts" in kept else None,
            devices=settings_of(spec.get("devices")),
        )
    if kind == "simulated":
        (folder / "simulated").mkdir(mode=0o700, exist_ok=True)
        simulation = parse_simulation(spec.get("simulation"))
        return SimulatedEngine(name, simulation, store.now, folder / "simulated" / f"{name}.jsonl")
    raise InvalidError("engine-unknown", engine=str(kind))


def up(
    data: Path, host: str, port: int, lang: str | None, log_format: str = "text", log_level: str = "info"
) -> int:
    """The embedded server, in the foreground until it is told to end."""
    configure_log(log_format, log_level)
    with locked(data) as folder:
        listener = listen(host, port)
        house = build(folder, sqlite_url(folder))
        try:
            _say_welcome(house, host, listener.getsockname()[1], lang or "en")
            run_http(house, listener)
        finally:
            house.close()
    return 0


def serve(
    database: str, data: Path, host: str, port: int, log_format: str = "text", log_level: str = "info"
) -> int:
    """One of several servers on a shared database; `data` is this server's own folder."""
    configure_log(log_format, log_level)
    with locked(data) as folder:
        listener = listen(host, port)
        house = build(folder, database)
        try:
            _say_welcome(house, host, listener.getsockname()[1], "en")
            run_http(house, listener)
        finally:
            house.close()
    return 0


@contextlib.contextmanager
def offline(data: Path, database: str | None = None) -> Iterator[tuple[Path, Store]]:
    """The store of a data folder, or a shared database, while no server runs on it.

    Raises InvalidError where there is no database, UnavailableError while a server has folder or lease.
    """
    if database is None and not (data / SQLITE_NAME).is_file():
        raise InvalidError("data-folder-empty", path=str(data))
    with locked(data) as folder:
        clock = SteadyClock()
        store = Store(database or sqlite_url(folder), clock, wall=clock.wall)
        try:
            clock.not_before(store.writer.last_ts)
            store.start()
            with store.read() as view:
                lease = read_lease(view, LEASE) if database is not None else None
            if lease is not None and lease.expires_at > clock.wall():
                raise UnavailableError("database-in-use", holder=lease.holder)
            yield folder, store
        finally:
            store.close()


def reset_user_password(user: str, data: Path, lang: str) -> int:
    """Give an account a one-time password, for whoever lost the last administrator's."""
    with offline(data) as (_, store):
        password = reset_password(store, user)
    print(text("password-reset", {"user": user, "password": password}, lang), flush=True)
    return 0


def listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises UnavailableError when the port is taken or the address is not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # the protocol is named: asyncio sets TCP_NODELAY only then, and without it every answer waits 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        cause = getattr(error, "strerror", None) or "0 … 65535"
        raise UnavailableError("port-unusable", host=host, port=port, cause=cause) from None
    return listener


class HttpServer(uvicorn.Server):
    """Ends with status 0 when it is asked to: being told to stop is not a failure. `on_stop` is called in the
    signal's handler, before connections are closed."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Told to stop; told again, it waits for nothing."""
        self._on_stop()
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals, and don't raise them again once everything is closed."""
        before = {
            number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def create_door(services: Services) -> Door:
    """API and console at one address. Raises UnavailableError on a server without a desk."""
    if services.desk is None:
        raise UnavailableError("not-served-here")
    console = Console(
        services.store,
        services.principals,
        services.logins,
        services.attempts,
        services.desk,
        WHOLE_HOUSE,
        QUESTIONS,
        services.engines,
        services.signer,
        services.extra,
    )
    return Door(create_app(services), create_console(console), first_parts())


def run_http(house: House, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT; then finish what is being answered, within DRAIN_SECONDS."""
    config = uvicorn.Config(
        create_door(house.services),
        log_config=None,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        ws_max_size=MAX_SOCKET_MESSAGE,
        server_header=False,
    )
    server = HttpServer(config, house.stop)
    sys.setswitchinterval(SWITCH_SECONDS)
    tune()
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    server.run(sockets=[listener])


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; a name that is none of its own may lead anywhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _say_welcome(house: House, host: str, port: int, lang: str) -> None:
    password = first_start(house.store)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}"
    print(text("server-listening", {"url": url}, lang), flush=True)
    if not _is_loopback(host):
        print(text("server-plain", {"url": url}, lang), file=sys.stderr, flush=True)
    if password is None:
        return
    path = house.folder / PASSWORD_FILE
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as out:
        out.write(f"{password}\n{text('first-password-file', {}, lang)}\n")
    away = url if url != DEFAULT_URL else None
    params = {"user": "admin", "password": password, "path": str(path), "url": away}
    print(text("first-start", params, lang), flush=True)
    sys.stdout.flush()
