"""The first start of an installation: its administrator."""

from __future__ import annotations

from steelyard.identity.actor import SYSTEM, actor_of
from steelyard.identity.passwords import hash_password, one_time_password
from steelyard.model.errors import ConflictError
from steelyard.services.declared import plan_apply
from steelyard.services.documents import parse_document
from steelyard.services.users import add_account, change_password, touch
from steelyard.store.accounts import account_by_name
from steelyard.store.declared import open_bindings
from steelyard.store.store import Store
from steelyard.store.unit import Unit

ADMINISTRATOR = "admin"


def first_start(store: Store) -> str | None:
    """Makes the account `admin`, bound as administrator, and returns its one-time password; None where
    an administrator is bound already. Account and binding are one unit, so a crash leaves neither."""
    binding = parse_document(
        {
            "kind": "Binding",
            "metadata": {"name": ADMINISTRATOR},
            "spec": {"user": ADMINISTRATOR, "role": "administrator"},
        }
    )
    password = one_time_password()
    unit = Unit(actor_of(SYSTEM))
    with store.read() as view:
        if any(row.binding.role == "administrator" for row in open_bindings(view)):
            return None
        account = account_by_name(view, ADMINISTRATOR)
        if account is None:
            add_account(unit, store, ADMINISTRATOR, None, password, None)
        else:
            touch(
                unit,
                account,
                "user.password-changed",
                origin=None,
                password_hash=hash_password(password),
                disabled=False,
                must_change=True,
                version=account.version + 1,
            )
        plan_apply(view, store, unit, [binding], extra_users=frozenset({ADMINISTRATOR}))
    try:
        store.writer.write(unit)
    except ConflictError:
        return None  # another server was faster
    return password


def reset_password(store: Store, name: str) -> str:
    """A new one-time password for an account, for operators on the data folder. Raises NotFoundError."""
    password = one_time_password()
    change_password(store, SYSTEM, name, password)
    return password
