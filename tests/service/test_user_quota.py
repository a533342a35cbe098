"""The tree of users follows from limits and from who may submit where, for any of both."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steelyard.model.policy import USER_TREE, Limit
from steelyard.scheduling.quota import potential, shown
from steelyard.scheduling.subjects import own_node, user_path
from steelyard.services.kinds import EVERYBODY
from steelyard.services.user_quota import node_of, place_of, user_tree

USERS, PROJECTS = ("ann", "bob", "eve"), ("p", "q")
Key = tuple[str, str | None]
LIMITS: st.SearchStrategy[dict[Key, int]] = st.dictionaries(
    st.tuples(st.sampled_from((*USERS, EVERYBODY)), st.sampled_from((None, *PROJECTS))),
    st.integers(0, 9),
    max_size=8,
)
BOUND = st.sets(st.tuples(st.sampled_from(USERS), st.sampled_from((None, *PROJECTS))))


@given(LIMITS, BOUND)
def test_whoever_may_submit_is_held_to_the_own_limit_else_to_everybodys_at_each_level(
    hard: dict[Key, int], bound: set[Key]
) -> None:
    limits = {
        (node_of(*place), "gpu"): Limit(USER_TREE, node_of(*place), "gpu", 0, quantity)
        for place, quantity in hard.items()
    }
    tree = user_tree(limits, bound)
    if tree is None:
        assert not hard
        return
    for user in USERS:
        for project in PROJECTS:
            if not {(user, project), (user, None)} & bound:
                continue
            levels = [hard.get((user, at), hard.get((EVERYBODY, at))) for at in (project, None)]
            wanted = min((level for level in levels if level is not None), default=None)
            node = own_node(tree, user_path(user, project))
            found = None if node is None else shown(potential(tree, node, "gpu"))
            assert found == wanted


@given(LIMITS, BOUND)
def test_only_leaves_are_charged(hard: dict[Key, int], bound: set[Key]) -> None:
    limits = {
        (node_of(*place), "gpu"): Limit(USER_TREE, node_of(*place), "gpu", 0, quantity)
        for place, quantity in hard.items()
    }
    tree = user_tree(limits, bound)
    if tree is None:
        return
    for user in USERS:
        for project in PROJECTS:
            node = own_node(tree, user_path(user, project))
            assert node is None or tree.children(node) == ()


def test_a_place_is_read_back_from_its_node() -> None:
    for place in (("ann", "p"), ("ann", None), (EVERYBODY, "p"), (EVERYBODY, None)):
        assert place_of(node_of(*place)) == place
