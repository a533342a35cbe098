"""The tree of users, made of the limits on them and of who may submit where.

A user's work in a project is charged to `user/NAME@PROJECT`, which lies below `user/NAME`, or to
`user/NAME@*` where that project has no limit of its own. A limit on the user `*` is one for each by itself,
unless that user has one of its own on the same subject. Nodes are there only where some limit is: whoever has
none is charged nowhere in this tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from steelyard.model.organisation import RoleName
from steelyard.model.policy import USER_TREE, Limit, TreeNode
from steelyard.scheduling.quota import QuotaTree, with_unbounded_root
from steelyard.services.documents import Document
from steelyard.services.kinds import EVERYBODY, BindingSpec

USER_ROOT = "users"
ELSEWHERE = "*"  # all projects in which a user has no limit of its own
#: Roles with which somebody may submit.
_SUBMIT = frozenset({RoleName.MEMBER, RoleName.ADMINISTRATOR})
Place = tuple[str, str | None]  # user, and project; None: all projects


def node_of(user: str, project: str | None = None) -> str:
    """The node of a user, in a project or in all."""
    return f"user/{user}" if project is None else f"user/{user}@{project}"


def place_of(node: str) -> Place:
    """What `node_of` made a node of."""
    user, _, project = node.removeprefix("user/").partition("@")
    return user, project or None


def submitters(documents: Iterable[Document]) -> Iterator[Place]:
    """Who may submit where, by the declared bindings."""
    for document in documents:
        spec = document.spec
        if isinstance(spec, BindingSpec) and spec.role in _SUBMIT:
            yield spec.user, spec.project


def user_tree(limits: Mapping[tuple[str, str], Limit], who: Iterable[Place]) -> QuotaTree | None:
    """The tree; None where no user has a limit."""
    if not limits:
        return None
    wanted = {place_of(node) for node, _ in limits}
    bound = set(who)
    starred = {project for user, project in wanted if user == EVERYBODY}
    places = {place for place in wanted if place[0] != EVERYBODY}
    for project in starred:
        if project is None:
            places |= {(user, None) for user, _ in bound} | {(user, None) for user, _ in places}
        else:
            places |= {(user, project) for user, there in bound if there in (None, project)}
    found: dict[tuple[str, str], Limit] = {}
    nodes: dict[str, TreeNode] = {}
    for user, project in sorted(places, key=lambda place: (place[0], place[1] or "")):
        node, above = node_of(user, project), None
        if project is not None:
            above, elsewhere = node_of(user), node_of(user, ELSEWHERE)
            nodes.setdefault(above, TreeNode(USER_TREE, above, "user", None))
            nodes[elsewhere] = TreeNode(USER_TREE, elsewhere, "user", above)
        nodes[node] = TreeNode(USER_TREE, node, "user", above)
        found.update(_own_limits(limits, node, node_of(EVERYBODY, project)))
    return with_unbounded_root(USER_TREE, nodes, found, USER_ROOT)


def _own_limits(
    limits: Mapping[tuple[str, str], Limit], node: str, everybody: str
) -> Iterator[tuple[tuple[str, str], Limit]]:
    """Everybody's limits, over which the node's own go."""
    for owner in (everybody, node):
        for (named, subject), limit in limits.items():
            if named == owner:
                yield (node, subject), replace(limit, node=node)
