"""The acceptance story: one command, a server of its own, the public API, a verdict.

    main(out, keep, lang) -> exit status: 0 when everything was as expected, 1 when something was not,
    2 when the story could not be told (folder, server).

OUT/ then holds data/ (the server's folder), bundle/ (evidence that verifies without us), report.html,
report.json (what the report was made of) and server.log.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from steelyard.demo import folder, server
from steelyard.demo.context import Story
from steelyard.demo.door import Unexpected, get, wait
from steelyard.demo.expect import Result, judge_all
from steelyard.demo.report import write_report
from steelyard.demo.screen import Screen
from steelyard.demo.scripts import find_examples
from steelyard.demo.sdk import open_door
from steelyard.demo.steps import STEPS
from steelyard.locale import choose, error_text
from steelyard.model.errors import SteelyardError

EXIT_OK, EXIT_FAILED, EXIT_UNABLE = 0, 1, 2


def main(out: Path, keep: bool, lang: str | None) -> int:
    """Tells the whole story into the folder `out`. `keep`: the server stays up afterwards."""
    language = lang or choose([], os.environ)
    screen = Screen(language, len(STEPS))
    running: server.Server | None = None
    kept = False
    try:
        place = folder.prepare(out)
        screen.say("demo.begins", path=str(place))
        running = server.start(place, language, server.free_port(server.PORT if keep else 0))
        results = _tell(_story(place, running, language), screen)
        kept = keep
        return _close(results, screen, place, running if keep else None)
    except SteelyardError as error:
        screen.console.print(error_text(error.code, error.params, language), style="red", markup=False)
        return EXIT_UNABLE
    except KeyboardInterrupt:
        screen.say("demo.interrupted")
        return 130
    finally:
        if running is not None and not kept:
            running.stop()
            folder.end_processes(running.data)


def _story(place: Path, running: server.Server, lang: str) -> Story:
    return Story(
        out=place,
        data=running.data,
        examples=find_examples(),
        python=sys.executable,
        open_door=lambda user, password: open_door(running.url, user, password, lang),
        first_password=lambda: _when_ready(running, lang),
        keep_password=lambda own: folder.write_private(running.password_file, f"{own}\n"),
    )


def _when_ready(running: server.Server, lang: str) -> str:
    """The first password, once the server answers."""
    nobody = open_door(running.url, "", "", lang)

    def look() -> bool | None:
        running.check_alive()
        try:
            return get(nobody, "/readyz") is not None
        except (SteelyardError, Unexpected):
            return None

    wait("server", look, 40.0, 0.1)
    return running.first_password()


def _tell(story: Story, screen: Screen) -> list[Result]:
    """Every chapter in turn; one that fails does not keep the later ones from being tried."""
    results: list[Result] = []
    with screen.live():
        for step in STEPS:
            screen.begin(step.id)
            began, error = time.monotonic(), None
            try:
                step.run(story)
            except (
                SteelyardError,
                Unexpected,
                OSError,
                KeyError,
                ValueError,
                TypeError,
                IndexError,
            ) as problem:
                error = _told(problem, screen.lang)
                if not story.doors:  # nobody came in: there is no story
                    raise
            found = judge_all(step.expectations, story.seen, error)
            results += found
            story.seen.setdefault("steps", []).append(
                {"id": step.id, "seconds": round(time.monotonic() - began, 1), "error": error}
            )
            screen.end(step.id, time.monotonic() - began, found, error)
    write_report(story.out, story.seen, results, screen.lang, story.began)
    return results


def _told(problem: Exception, lang: str) -> str:
    if isinstance(problem, SteelyardError):
        return error_text(problem.code, problem.params, lang)
    return f"{type(problem).__name__}: {problem}"[:400]


def _close(results: list[Result], screen: Screen, place: Path, kept: server.Server | None) -> int:
    """The table, the verdict, where things are."""
    screen.table(results)
    bad = sum(1 for result in results if not result.ok)
    errors = [result.id for result in results if not result.ok]
    screen.say("demo.failed" if bad else "demo.passed", good=len(results) - bad, all=len(results), bad=bad,
               ids=", ".join(errors) or None)  # fmt: skip
    screen.say("demo.where", report=str(place / "report.html"), bundle=str(place / "bundle"))
    if kept is not None:
        screen.say(
            "demo.kept", url=kept.url, user="admin", password=str(kept.password_file), pid=kept.process.pid
        )
    return EXIT_FAILED if bad else EXIT_OK
