"""Accounts, sessions and tokens, on both databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import select

from steelyard.identity.actor import SYSTEM
from steelyard.identity.passwords import MIN_LENGTH
from steelyard.model.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnauthenticatedError,
)
from steelyard.model.organisation import Principal
from steelyard.model.units import HOUR, SECOND
from steelyard.services.attempts import RefusedAttempts
from steelyard.services.sessions import (
    CACHE_SECONDS,
    SESSION_LIFE,
    Logins,
    Principals,
    create_token,
    list_tokens,
    logout,
    revoke_token,
)
from steelyard.services.setup import first_start, reset_password
from steelyard.services.users import change_password, create_user, disable_user, list_users
from steelyard.store import tables as t
from steelyard.store.leaves import bodies, log_size
from steelyard.store.store import Store
from tests.support.stores import Clock, apply, doc


class House:
    """A store with its administrator and one user, and what signs them in."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.seconds = 0.0
        self.principals = Principals(store, lambda: self.seconds)
        self.attempts = RefusedAttempts(store)
        self.logins = Logins(store, self.attempts)
        self.admin_password = first_start(store) or ""
        self.ann_password = create_user(store, SYSTEM, "ann").password

    def sign_in(self, name: str, password: str) -> str:
        return self.logins.login(name, password).secret

    def who(self, secret: str) -> Principal:
        return self.principals.principal_of(secret)


@pytest.fixture
def house(store: Store) -> Iterator[House]:
    made = House(store)
    yield made
    made.attempts.close()


def test_the_first_start_makes_one_administrator_and_the_next_none(house: House) -> None:
    assert first_start(house.store) is None
    admin = house.who(house.sign_in("admin", house.admin_password))
    assert admin.is_administrator
    assert house.principals.identify(house.sign_in("admin", house.admin_password)).must_change


def test_only_digests_of_secrets_and_hashes_of_passwords_are_stored(house: House) -> None:
    secret = house.sign_in("ann", house.ann_password)
    with house.store.read() as view:
        stored = str(view.execute(select(t.credential)).all()) + str(view.execute(select(t.user)).all())
        stored += str(list(bodies(view, 0, log_size(view))))
    assert "$argon2id$" in stored
    for hidden in (secret, house.ann_password, house.admin_password):
        assert hidden not in stored
    assert len(secret) == 46


def test_a_wrong_name_and_a_wrong_password_give_the_same_answer(house: House) -> None:
    errors = []
    for name, password in (("ann", "wrong-password"), ("nobody", "wrong-password"), ("", "")):
        with pytest.raises(UnauthenticatedError) as caught:
            house.logins.login(name, password)
        errors.append((caught.value.code, caught.value.params))
    assert errors == [("login-refused", {})] * 3


def test_a_session_ends_after_its_time(house: House, clock: Clock) -> None:
    secret = house.sign_in("ann", house.ann_password)
    clock.forward(SESSION_LIFE - 1)
    assert house.who(secret).name == "ann"
    clock.forward(1)
    with pytest.raises(UnauthenticatedError):
        house.who(secret)


def test_a_session_ends_at_its_logout_at_once(house: House) -> None:
    secret = house.sign_in("ann", house.ann_password)
    logout(house.store, house.principals.identify(secret))
    with pytest.raises(UnauthenticatedError):
        house.who(secret)


def test_who_is_remembered_is_so_for_a_second_and_until_a_logout(house: House) -> None:
    secret = house.sign_in("ann", house.ann_password)
    assert house.principals.remembered(secret) is None  # nobody has looked yet
    who = house.principals.identify(secret)
    assert house.principals.remembered(secret) == who
    house.seconds += CACHE_SECONDS
    assert house.principals.remembered(secret) is None
    logout(house.store, house.principals.identify(secret))
    assert house.principals.remembered(secret) is None


@pytest.mark.requirement("I15")
def test_a_binding_that_is_taken_away_counts_for_nothing_at_once(house: House) -> None:
    apply(house.store, doc("Binding", "ann", user="ann", role="viewer"))
    secret = house.sign_in("ann", house.ann_password)
    assert len(house.who(secret).bindings) == 1
    apply(house.store, doc("Binding", "ann", user="admin", role="viewer"))
    assert house.who(secret).bindings == ()


def test_what_another_server_changed_is_known_after_a_second(house: House) -> None:
    secret = house.sign_in("ann", house.ann_password)
    other = Principals(house.store, lambda: house.seconds)
    other._on_publish = lambda done: None  # type: ignore[method-assign]
    house.store.writer._listeners.remove(house.store.writer._listeners[-1])
    assert other.principal_of(secret).name == "ann"
    disable_user(house.store, SYSTEM, "ann")
    assert other.principal_of(secret).name == "ann"
    house.seconds += 1.0
    with pytest.raises(UnauthenticatedError):
        other.principal_of(secret)


def test_a_disabled_account_is_out_with_all_it_had(house: House) -> None:
    session = house.sign_in("ann", house.ann_password)
    token = create_token(house.store, house.who(session), "ci").secret
    disable_user(house.store, SYSTEM, "ann")
    for secret in (session, token):
        with pytest.raises(UnauthenticatedError):
            house.who(secret)
    with pytest.raises(UnauthenticatedError):
        house.sign_in("ann", house.ann_password)


def test_the_last_administrator_stays(house: House) -> None:
    with pytest.raises(ConflictError, match="last-administrator"):
        disable_user(house.store, SYSTEM, "admin")
    with pytest.raises(ConflictError, match="last-administrator"):
        apply(house.store, doc("Binding", "admin", user="admin", role="viewer"))


def test_a_password_is_changed_by_its_owner_with_the_old_one(house: House) -> None:
    first, other = house.sign_in("ann", house.ann_password), house.sign_in("ann", house.ann_password)
    who = house.principals.identify(first)
    with pytest.raises(ForbiddenError, match="old-password-wrong"):
        change_password(house.store, who.principal, "ann", "a-new-password", "wrong")
    with pytest.raises(InvalidError, match="password-too-short"):
        change_password(house.store, who.principal, "ann", "x" * (MIN_LENGTH - 1), house.ann_password)
    change_password(
        house.store,
        who.principal,
        "ann",
        "a-new-password",
        house.ann_password,
        keep_credential=who.credential_id,
    )
    assert not house.principals.identify(first).must_change
    with pytest.raises(UnauthenticatedError):
        house.who(other)
    with pytest.raises(UnauthenticatedError):
        house.sign_in("ann", house.ann_password)
    house.sign_in("ann", "a-new-password")
    assert house.sign_in("ann", reset_password(house.store, "ann"))


def test_tokens_are_ones_own_and_an_administrators(house: House, clock: Clock) -> None:
    ann = house.who(house.sign_in("ann", house.ann_password))
    admin = house.who(house.sign_in("admin", house.admin_password))
    token = create_token(house.store, ann, "ci", expires_in=HOUR)
    foreign = create_token(house.store, admin, "robot")
    assert [row.name for row in list_tokens(house.store, ann)] == ["ci"]
    assert {row.name for row in list_tokens(house.store, admin)} == {"ci", "robot"}
    with pytest.raises(NotFoundError):
        revoke_token(house.store, ann, foreign.id)
    with pytest.raises(ForbiddenError):
        create_token(house.store, ann, "x", user="admin")
    assert house.who(token.secret) == ann
    clock.forward(HOUR + SECOND)
    with pytest.raises(UnauthenticatedError):
        house.who(token.secret)
    revoke_token(house.store, admin, token.id)


def test_people_see_only_their_own_account(house: House) -> None:
    ann = house.who(house.sign_in("ann", house.ann_password))
    assert [user.name for user in list_users(house.store, ann)] == ["ann"]
    assert [user.name for user in list_users(house.store, SYSTEM)] == ["admin", "ann"]
    with pytest.raises(ForbiddenError):
        create_user(house.store, ann, "bob")
    with pytest.raises(ConflictError):
        create_user(house.store, SYSTEM, "ann")
    with pytest.raises(InvalidError):
        create_user(house.store, SYSTEM, "Ann Other")


@pytest.mark.parametrize(
    "secret", ["", "x", "sy_short", "sy_" + "a" * 43, "sy_" + "é" * 43, "sy_" + "a" * 10**6]
)
def test_what_is_no_secret_of_ours_is_refused(house: House, secret: str) -> None:
    with pytest.raises(UnauthenticatedError, match="credential-invalid"):
        house.who(secret)


def test_refused_logins_leave_a_bounded_number_of_leaves(house: House) -> None:
    with house.store.read() as view:
        before = log_size(view)
    for _ in range(14):
        with pytest.raises(UnauthenticatedError):
            house.logins.login("ann", "wrong-password")
    house.attempts.close()
    with house.store.read() as view:
        assert log_size(view) == before + 10
