"""What a wish for isolation comes to, what each mode enforces, and what covers and what is put back."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.engines.local import bubble, confine, launch
from steelyard.engines.local import isolation as iso
from steelyard.engines.local.ability import Abilities
from steelyard.engines.local.enclosure import PROJECT, hidden, of
from steelyard.engines.local.files import make_below
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.surroundings import COVER, READ, TEMPORARY, WRITE, Needs, Step, describe
from steelyard.engines.local.users import UserBook

reasons = st.dictionaries(st.sampled_from(iso.MODES), st.none() | st.just("no"), min_size=0)


@given(reasons)
def test_auto_is_the_strongest_that_can_be_had_and_can_always_be_had(why_not: dict[str, str | None]) -> None:
    mode = iso.choose(iso.AUTOMATIC, why_not).mode
    assert mode is not None
    assert mode == iso.NONE or why_not[mode] is None
    stronger = iso.PREFERENCE[: iso.PREFERENCE.index(mode)]
    assert all(why_not.get(one, "unknown") is not None for one in stronger)


@given(reasons)
def test_a_private_network_that_was_asked_for_is_never_left_out(why_not: dict[str, str | None]) -> None:
    mode = iso.choose(iso.Wish(network=iso.PRIVATE), why_not).mode
    assert mode is None or (mode != iso.NONE and why_not[mode] is None)


@given(st.sampled_from(iso.MODES), reasons)
def test_a_mode_that_was_named_is_never_replaced(mode: str, why_not: dict[str, str | None]) -> None:
    choice = iso.choose(iso.Wish(mode), why_not)
    assert choice.mode == (mode if why_not.get(mode, "unknown") is None else None)
    assert choice.mode is not None or mode in choice.text


@given(st.sampled_from(iso.MODES), st.sampled_from(iso.NETWORKS), st.booleans(), st.booleans())
def test_every_aspect_is_either_enforced_or_listed_as_not(
    mode: str, network: str, port: bool, devices: bool
) -> None:
    held = iso.enforced(mode, network, port=port, devices=devices)
    assert {*held, *iso.not_enforced(held)} == set(iso.ASPECTS)
    assert not set(held) & set(iso.not_enforced(held))
    assert (iso.NETWORK in held) == (mode != iso.NONE and network == iso.PRIVATE and not port)
    assert (iso.DEVICES in held) == (mode != iso.NONE and not devices)


def folders(tmp_path: Path, *names: str) -> list[str]:
    for name in names:
        (tmp_path / name).mkdir(parents=True)
    return [str(tmp_path / name) for name in names]


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is not below a temporary one, as far as surroundings are concerned."""
    monkeypatch.setattr("steelyard.engines.local.surroundings.TEMPORARY_FOLDERS", ())
    return tmp_path


def test_the_data_folder_is_covered_and_only_the_work_folder_is_put_back(outside: Path) -> None:
    data, work = folders(outside, "data", "data/work/at/mb")
    found = describe(Needs((data,), (work,), ()), lambda _path: True)
    assert found.steps == (Step(data, COVER), Step(work, WRITE))
    assert found.hides(f"{data}/log.key")
    assert not found.hides(f"{work}/x")
    assert not found.hides(str(outside / "data-of-others"))


def test_what_is_sealed_stays_covered_in_a_folder_that_is_shared(outside: Path) -> None:
    home, clone, data = folders(outside, "home", "home/clone", "home/clone/out/data")
    config, work = folders(outside, "home/.config/steelyard", "home/clone/out/data/work")
    found = describe(Needs((data, config), (work,), (home,), home=home), lambda _path: True)
    assert found.steps == (Step(config, COVER), Step(data, COVER), Step(work, WRITE))
    assert not found.hides(f"{clone}/train.py")
    assert found.hides(f"{data}/log.key")


def test_a_home_is_covered_but_for_what_is_shared(outside: Path) -> None:
    home, shared = folders(outside, "home", "home/data sets")
    found = describe(Needs((), (), (shared,), home=home), lambda _path: True)
    assert found.steps == (Step(home, COVER), Step(shared, READ))
    assert found.between(shared) == []
    assert found.hides(f"{home}/.ssh/id")


def test_a_folder_that_strangers_may_not_enter_is_covered_above_what_they_need(outside: Path) -> None:
    root, _, python = folders(outside, "root", "root/.pyenv", "root/.pyenv/versions/3")
    found = describe(Needs((), (), (python,)), lambda path: path != root)
    assert found.steps == (Step(root, COVER), Step(python, READ))
    assert found.between(python) == [f"{root}/.pyenv", f"{root}/.pyenv/versions"]


def test_links_are_followed_once_so_that_the_real_folder_is_put_back(outside: Path) -> None:
    data, real = folders(outside, "data", "data/real")
    (outside / "link").symlink_to(real)
    found = describe(Needs((data,), (), (str(outside / "link"),)), lambda _path: True)
    assert found.steps == (Step(data, COVER), Step(real, READ))


def test_a_data_folder_below_tmp_is_put_back_within_the_members_own(tmp_path: Path) -> None:
    data, work = folders(tmp_path, "data", "data/work")
    found = describe(Needs((data,), (work,), ()), lambda _path: True)
    assert Step("/tmp", TEMPORARY) in found.steps
    assert Step(work, WRITE) in found.steps
    assert Step(data, COVER) not in found.steps
    assert found.hides(data)
    assert found.hides("/tmp/script.py")
    assert not found.hides("/tmp/script.py", temporary=False)


names = st.sampled_from(["a", "b", "c", "a-b"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@given(st.lists(paths, max_size=4), st.lists(paths, max_size=4), st.lists(paths, max_size=4))
def test_outer_steps_come_first_and_nothing_sealed_is_ever_seen(
    tmp_path_factory: pytest.TempPathFactory, sealed: list[str], writable: list[str], readable: list[str]
) -> None:
    top = tmp_path_factory.mktemp("steps")
    places = [[str(top / path) for path in some] for some in (sealed, writable, readable)]
    for some in places:
        for path in some:
            os.makedirs(path, exist_ok=True)
    found = describe(Needs(*map(tuple, places)), lambda _path: True)
    order = [step.path for step in found.steps]
    for number, path in enumerate(order):
        assert not any(later != path and path.startswith(later + "/") for later in order[number:])
    assert all(found.hides(path) for path in places[0])


# ---- claims


def test_the_other_work_folders_of_the_same_project_are_put_back_and_of_no_other(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "data"))
    layout.make()
    for name, project in (("at_0", "mine"), ("at_1", "mine"), ("at_2", "theirs"), ("at_3", None)):
        os.mkdir(layout.attempt_work(name))
        text = "{}" if project is None else f'{{"{PROJECT}": "{project}"}}'
        Path(layout.attempt_work(name), "members.json").write_text(text)
    claim = {"attempt": "at_0", "project": "mine", "isolation": {"mode": "bubblewrap", "network": "host"}}
    told = [f"{layout.attempt_work(f'at_{number}')}/mb/model.json" for number in range(1, 4)]
    command = ["serve", f"--model={told[0]}", *told[1:], f"{layout.work}/../log.key"]
    one = {"member": "mb_0", "command": command, "port": None}
    os.makedirs(layout.member_work("at_0", "mb_0"))
    found = of(layout, claim, one, {"RESUME": layout.attempt_work("at_1")})
    assert found is not None
    there = [path for path in (*told, layout.member_work("at_0", "mb_0"))
             if not found.surroundings.hides(path)]  # fmt: skip
    assert there == [told[0], layout.member_work("at_0", "mb_0")]


def test_what_is_hidden_is_told_by_its_path_whether_it_exists_or_not(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "data"))
    layout.make()
    os.makedirs(layout.member_work("at_0", "mb_0"))
    claim = {"attempt": "at_0", "project": "p", "isolation": {"mode": "bubblewrap", "network": "host"}}
    found = of(layout, claim, {"member": "mb_0", "command": [], "port": None}, {})
    assert found is not None
    work = layout.member_work("at_0", "mb_0")
    assert hidden(found, work, ["/usr/bin/python3", "/tmp/is/made/later", "-x"], ["python:numpy"]) is None
    assert hidden(found, "/tmp", [], []) == "/tmp"
    assert hidden(found, work, [f"{layout.data}/no-such-program"], []) == f"{layout.data}/no-such-program"
    assert hidden(found, work, ["true"], [f"program:{layout.data}/x"]) == f"{layout.data}/x"


# ---- user ids


def test_a_projects_user_id_is_its_own_and_outlives_the_runner(tmp_path: Path) -> None:
    path = str(tmp_path / "users.json")
    book = UserBook(path)
    found = {name: book.user_of(name) for name in ("a", "b", "c")}
    assert len(set(found.values())) == 3
    assert all(1_879_048_192 <= user < 2_147_483_647 for user in found.values())
    assert {name: UserBook(path).user_of(name) for name in found} == found
    assert book.spare() not in found.values()


def test_a_book_of_users_that_cannot_be_read_gives_no_ids(tmp_path: Path) -> None:
    (tmp_path / "users.json").write_text('{"a": 18790')
    with pytest.raises(OSError, match="can't be read"):
        UserBook(str(tmp_path / "users.json")).user_of("b")


@pytest.mark.parametrize(
    ("text", "lowest", "highest"),
    [
        ("0 0 4294967295", 1_879_048_192, 2_147_483_647),
        ("0 100000 65536", 32_768, 65_535),
        ("0 1000 1\n1 100000 65536", 32_769, 65_536),
    ],
)
def test_user_ids_are_those_that_the_user_namespace_maps(
    tmp_path: Path, text: str, lowest: int, highest: int
) -> None:
    (tmp_path / "map").write_text(text + "\n")
    book = UserBook(str(tmp_path / "users.json"), str(tmp_path / "map"))
    assert all(lowest <= book.user_of(str(number)) < highest for number in range(20))
    assert book.spare() == highest


def test_a_user_namespace_of_one_id_has_none_for_projects(tmp_path: Path) -> None:
    (tmp_path / "map").write_text("0 1000 1\n")
    book = UserBook(str(tmp_path / "users.json"), str(tmp_path / "map"))
    assert book.spare() is None
    with pytest.raises(OSError, match="too few"):
        book.user_of("a")


def test_a_machine_that_is_full_for_a_moment_makes_nothing_weaker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(str(tmp_path / "data"))
    layout.make()
    abilities = Abilities(layout, UserBook(layout.users))

    def full(_program: launch.Program) -> launch.Gated:
        raise OSError(errno.EAGAIN, "no processes left")

    if os.geteuid() != 0 and bubble.find() is None:
        pytest.skip("needs root or bubblewrap")
    with monkeypatch.context() as patch:
        patch.setattr(launch, "spawn", full)
        with pytest.raises(OSError, match="no processes left"):
            abilities.choose(iso.AUTOMATIC)
    found = abilities.choose(iso.AUTOMATIC).mode
    if found == iso.NONE:
        pytest.skip(f"needs another mode than none: {abilities.why_not(iso.BUBBLEWRAP)}")
    monkeypatch.setattr(launch, "spawn", full)
    assert abilities.choose(iso.AUTOMATIC).mode == found


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_kernel_that_cannot_hide_processes_from_one_program_enforces_all_but_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout(str(tmp_path / "data"))
    layout.make()
    mount = confine._mount

    def before_5_8(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
        if kind == "proc":
            raise OSError(errno.EINVAL, "unknown option")
        mount(source, target, kind, flags, data)

    monkeypatch.setattr(confine, "_mount", before_5_8)
    abilities = Abilities(layout, UserBook(layout.users))
    if (reason := abilities.why_not(iso.USER_ID)) is not None:
        pytest.skip(f"this machine can't do it: {reason}")
    assert abilities.choose(iso.AUTOMATIC) == iso.Choice(iso.USER_ID, hide=False)
    said = {"mode": "user-id", "network": "host", "shared": []}
    claim: dict[str, Any] = {"project": "p", "isolation": said}
    assert abilities.settle(claim) is None
    held = iso.of_member(claim, {"port": None})
    assert iso.not_enforced(held) == (iso.PROCESSES, iso.NETWORK)


# ---- folders


def test_a_relative_folder_is_made_below_and_never_through_a_link(tmp_path: Path) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    make_below(str(work), "a/./b", None)
    assert (work / "a/b").is_dir()
    (work / "link").symlink_to(elsewhere)
    with pytest.raises(OSError):
        make_below(str(work), "link/c", None)
    with pytest.raises(OSError):
        make_below(str(work), "../elsewhere/c", None)
    assert list(elsewhere.iterdir()) == []


def test_a_claim_of_a_server_that_knew_no_isolation_has_none() -> None:
    assert iso.wished({}) == (iso.NONE, iso.HOST, ())
    assert not iso.problem(None)
    assert iso.problem({"mode": "auto", "network": "host", "shared": []})
    assert iso.problem({"mode": "none", "network": "host", "shared": ["relative"]})
