"""A session with many locks, at its client. Deterministic: time is an argument, and there is no I/O.

A node grants a lock to a session, not to a thread: what a session holds it is granted again at once. So requests for
one name are queued here, and only the first of them is at the node. The same rules as in the Rust client.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ._errors import (
    ClosedError,
    ConfigError,
    DeniedError,
    Error,
    Holder,
    NotAcquiredError,
    UnavailableError,
    UnreachableError,
)
from ._proto import locks_pb2 as pb

#: A silent node is left for another member after this long, in seconds.
SILENCE = 1.5
#: A node replies this much after the limit of a wait at the latest.
REPLY = 0.25
#: A node has this long to reply to a request that does not wait, as to `mutua lock -n`.
ANSWER = 1.0
NEVER = float("inf")


class Phase(enum.Enum):
    QUEUED = enum.auto()  # behind another request of this client for the same name
    SENT = enum.auto()  # at the node, or to be sent on the next stream
    CANCELLED = enum.auto()  # at the node, and no longer wanted
    GRANTED = enum.auto()  # not reported: the lease must first be known to last for a while
    HELD = enum.auto()  # granted and reported
    LOST = enum.auto()  # no longer held; its guard still exists


#: The phases in which a caller waits.
WAITS = (Phase.QUEUED, Phase.SENT, Phase.GRANTED)


@dataclass
class Request:
    """One request for a lock. The caller's functions are called under the client's mutex."""

    id: int
    name: bytes
    #: When the wait ends; 0 for a request that does not wait.
    limit: float
    #: When no reply is waited for any more.
    give_up_at: float
    granted: Callable[[int], None]
    failed: Callable[[Error], None]
    lost: Callable[[str], None]
    phase: Phase = Phase.QUEUED
    token: int = 0
    sent: bool = False
    #: Whether the limit is reached, and only the node's reply is waited for.
    late: bool = False
    #: The value of a candidate; None for a request that is none.
    value: bytes | None = None
    #: The last proclamation that the node has not confirmed: its number, and the caller's functions.
    proclaimed: int = 0
    confirmed: list[tuple[int, Callable[[bool], None]]] = field(default_factory=list)


@dataclass
class Unconfirmed:
    """A release that the node may not have received."""

    token: int
    renewals: int


@dataclass
class Session:
    """A session's state. `send` sends a request on the present stream."""

    ttl: float
    client: pb.Client
    patience: float
    cluster: str | None
    send_now: Callable[[pb.SessionRequest], None]
    now: float
    session: int = 0
    attached: bool = False
    closing: bool = False
    requests: dict[int, Request] = field(default_factory=dict)
    names: dict[bytes, deque[Request]] = field(default_factory=dict)
    unconfirmed: dict[bytes, Unconfirmed] = field(default_factory=dict)
    sent: list[tuple[int, float]] = field(default_factory=list)
    renewals: int = 0
    last_id: int = 0
    has_peers: bool = False
    #: Why the last connection has ended.
    why: str = "no node answers"

    def __post_init__(self) -> None:
        self.lease = self.ttl
        self.valid_until = self.replied_at = self.renew_at = self.now
        self.replied_here = False
        # Whether the stream is to be given up: it is said once.
        self.leaving = False

    # The lease.

    def good_until(self) -> float:
        """Until when locks count as held: a tenth earlier than the lease expires."""
        return self.valid_until - self.lease / 10

    def is_busy(self) -> bool:
        """Whether a connection is needed."""
        return bool(self.requests or self.unconfirmed)

    def is_closed(self, now: float) -> bool:
        """Whether the client has closed the session, and no node needs to be informed of it."""
        return self.closing and (not self.unconfirmed or self.valid_until <= now)

    def is_at_node(self) -> bool:
        """Whether a node would keep something for this session if it did not receive the close."""
        waits = any(one.sent and one.phase is not Phase.LOST for one in self.requests.values())
        return bool(self.unconfirmed) or waits

    def wake_at(self) -> float:
        """When to call `tick` at the latest: later than its last call, as that has cleared what was due."""
        times = (one.limit or one.give_up_at for one in self.requests.values())
        at = min(times, default=NEVER)
        if any(one.phase is Phase.HELD for one in self.requests.values()):
            at = min(at, self.good_until())
        if self.attached:
            return min(at, self.renew_at, self._leave_at())
        waits = any(one.phase in WAITS for one in self.requests.values())
        return min(at, self.replied_at + self.patience) if waits else at

    def tick(self, now: float) -> bool:
        """Time has passed. Returns whether the stream is to be given up from now on."""
        self._check_lease(now)
        if self.attached and now >= self.renew_at:
            self._renew(now)
        for request in list(self.requests.values()):
            if request.limit and request.limit <= now:
                self._limit_reached(now, request)
            elif request.give_up_at <= now:
                self._give_up(now, request)
        if not self.attached and now - self.replied_at >= self.patience:
            self._fail_waiting(now, self._unreachable)
        leave = self.attached and self._leave_at() <= now
        self.leaving = self.leaving or leave
        return leave

    def _leave_at(self) -> float:
        if self.leaving or not self.sent or not self.has_peers:
            return NEVER
        return self.sent[0][1] + SILENCE

    def _renew(self, now: float) -> None:
        self.renewals += 1
        self.sent.append((self.renewals, now))
        self.renew_at = now + self.lease / 3
        self._send(renew=pb.Renew(number=self.renewals))

    def _acknowledged(self, number: int, ttl_ms: int) -> None:
        """The lease counts from when the renewal was sent, not from when the reply arrived."""
        times = [sent for sent in self.sent if sent[0] == number]
        self.sent = [sent for sent in self.sent if sent[0] != number]
        if times and ttl_ms:
            self.lease = ttl_ms / 1000
            self.valid_until = times[0][1] + self.lease
            self.renew_at = min(self.renew_at, times[0][1] + self.lease / 3)

    def _check_lease(self, now: float) -> None:
        if self.good_until() <= now:
            self._lose_all("the lease was not renewed in time")
        if self.valid_until <= now and not self.attached:
            self._session_ended(now)

    def _session_ended(self, now: float) -> None:
        self.unconfirmed.clear()
        for request in [one for one in self.requests.values() if one.phase is Phase.CANCELLED]:
            self._remove(now, request)

    # Connections.

    def attach(self, now: float) -> None:
        """A stream is attached."""
        if self.valid_until <= now:
            self._lose_all("the lease expired: no node answered in time")
            self._request_unreported_again()
        self.attached, self.replied_here, self.leaving = True, False, False
        self.sent, self.renew_at = [(0, now)], now + self.lease / 3
        kept = (Phase.GRANTED, Phase.HELD)
        held = [one for one in self.requests.values() if one.phase in kept]
        reclaims = [pb.Reclaim(name=one.name, fencing_token=one.token) for one in held]
        # The lost node may not have received these releases. The next one must serve the holds to release them.
        for name, release in self.unconfirmed.items():
            reclaims.append(pb.Reclaim(name=name, fencing_token=release.token))
        ttl_ms = int(self.ttl * 1000)
        self._send(
            open=pb.Open(
                session=self.session, ttl_ms=ttl_ms, client=self.client, reclaims=reclaims
            )
        )
        if self.closing:
            self._send(close=pb.Close())
            return
        for name, release in self.unconfirmed.items():
            release.renewals = self.renewals
            self._send(release=pb.Release(name=name, fencing_token=release.token, quiet=True))
        for request in sorted((queue[0] for queue in self.names.values()), key=lambda one: one.id):
            self._send_acquire(now, request)
            # The node may not know the value, nor have received the last proclamation.
            self._send_proclaim(request)

    def broken(self, now: float, why: str) -> None:
        """The stream has ended, or there is no connection."""
        self.attached, self.why = False, why
        if self.replied_here:
            self.replied_at, self.replied_here = now, False
        self._check_lease(now)
        if now - self.replied_at >= self.patience:
            self._fail_waiting(now, self._unreachable)

    def _unreachable(self) -> Error:
        why = "the node does not answer" if self.attached else self.why
        return UnreachableError(f"no node can be reached: {why}")

    def close(self, now: float) -> None:
        """The client closes the session: its locks are released, so no guard counts as held from now on."""
        if self.closing:
            return
        self.closing = True
        if self.attached:
            # Unless this is answered, the node is left for another one. The answer says nothing of what is sent later.
            self._renew(now)
        # If the node is lost, another member serves these holds until the close has arrived there.
        for request in self.requests.values():
            if request.phase is Phase.HELD:
                self.unconfirmed[request.name] = Unconfirmed(request.token, self.renewals)
        self._lose_all("the client was closed")
        if self.attached:
            self._send(close=pb.Close())

    def end(self, now: float) -> None:
        """The driver has ended."""
        self.closing, self.attached = True, False
        self._lose_all("the client was closed")
        self._fail_waiting(now, lambda: ClosedError("the client is closed"))

    # Requests.

    def acquire(
        self,
        now: float,
        name: bytes,
        wait: float | None,
        granted: Callable[[int], None],
        failed: Callable[[Error], None],
        lost: Callable[[str], None],
        value: bytes | None = None,
    ) -> Request:
        """Requests a lock; one of the functions is called with the outcome. With a value the request is a candidate."""
        self.last_id += 1
        limit = NEVER if wait is None else now + wait if wait else 0
        give_up_at = NEVER if limit else now + ANSWER
        request = Request(self.last_id, name, limit, give_up_at, granted, failed, lost, value=value)
        if self.closing:
            failed(ClosedError("the client is closed"))
            return request
        if not self.attached and not self.is_busy():
            self.replied_at = max(self.replied_at, now)
        queue = self.names.setdefault(name, deque())
        if wait == 0 and queue:
            failed(NotAcquiredError("the lock is held or waited for by this client"))
            return request
        queue.append(request)
        self.requests[request.id] = request
        if len(queue) == 1:
            self._send_acquire(now, request)
        return request

    def release(self, now: float, request: Request) -> None:
        """The caller no longer wants the lock, whether it is held or not."""
        if request.id not in self.requests or request.phase is Phase.CANCELLED:
            return
        if request.phase is Phase.SENT and request.sent:
            request.phase = Phase.CANCELLED
            if self.attached:
                self._send(cancel=pb.Cancel(id=request.id))
            return
        if request.phase in (Phase.GRANTED, Phase.HELD, Phase.LOST):
            self._send_release(request.name, request.token)
        self._remove(now, request)

    def proclaim(self, request: Request, value: bytes, confirmed: Callable[[bool], None]) -> None:
        """Gives the leader of this request another value. The function is called with whether it led then."""
        if request.id not in self.requests or request.phase is not Phase.HELD:
            confirmed(False)
            return
        self.last_id += 1
        request.value, request.proclaimed = value, self.last_id
        request.confirmed.append((self.last_id, confirmed))
        self._send_proclaim(request)

    def _send_proclaim(self, request: Request) -> None:
        if not self.attached or request.value is None:
            return
        if request.phase in (Phase.GRANTED, Phase.HELD):
            self._send(
                proclaim=pb.Proclaim(
                    id=request.proclaimed,
                    name=request.name,
                    fencing_token=request.token,
                    value=request.value,
                )
            )

    def _proclaimed(self, last: int, held: bool) -> None:
        """The node has received this proclamation, and with it those of the same leader before."""
        for request in self.requests.values():
            if any(number == last for number, _ in request.confirmed):
                done = [one for one in request.confirmed if one[0] <= last]
                request.confirmed = [one for one in request.confirmed if one[0] > last]
                for _, confirmed in done:
                    confirmed(held)
                return

    def _send_release(self, name: bytes, token: int) -> None:
        self.unconfirmed[name] = Unconfirmed(token, self.renewals)
        if self.attached:
            self._send(release=pb.Release(name=name, fencing_token=token, quiet=True))

    def _send_acquire(self, now: float, request: Request) -> None:
        limit = request.limit
        if request.phase in (Phase.QUEUED, Phase.SENT):
            request.phase = Phase.SENT
        elif request.phase is Phase.CANCELLED:
            # If it was granted on a stream that has ended, it is granted again, and released.
            limit = 0
        else:
            return
        if not self.attached:
            return
        request.sent = True
        acquire = pb.Acquire(id=request.id, name=request.name, value=request.value)
        if limit != NEVER:
            acquire.wait_ms = max(1, int((limit - now) * 1000)) if limit else 0
        self._send(acquire=acquire)

    def _remove(self, now: float, request: Request) -> None:
        self.requests.pop(request.id, None)
        _end_proclamations(request)
        queue = self.names[request.name]
        was_first = queue[0] is request
        queue.remove(request)
        if not queue:
            del self.names[request.name]
        elif was_first:
            self._send_acquire(now, queue[0])

    def _limit_reached(self, now: float, request: Request) -> None:
        if request.phase is Phase.QUEUED:
            request.failed(NotAcquiredError("the lock was not granted in time"))
            self._remove(now, request)
        elif request.phase is Phase.SENT and self.attached and not request.late:
            # The node replies with the holder.
            request.late = True
            request.limit += REPLY
        elif request.phase is Phase.SENT:
            late = NotAcquiredError("the lock was not granted in time")
            request.failed(late if self.attached else self._unreachable())
            self.release(now, request)
            request.limit = NEVER
        else:
            request.limit = NEVER

    def _give_up(self, now: float, request: Request) -> None:
        request.give_up_at = NEVER
        if request.phase in (Phase.SENT, Phase.GRANTED):
            request.failed(self._unreachable())
            self.release(now, request)

    def _fail_waiting(self, now: float, error: Callable[[], Error]) -> None:
        # The last ones first, so that no request is sent because the one before it is gone.
        for request in reversed([one for one in self.requests.values() if one.phase in WAITS]):
            request.failed(error())
            self.release(now, request)

    def _lose_all(self, why: str) -> None:
        for request in self.requests.values():
            if request.phase is Phase.HELD:
                _lose(request, why)

    def _request_unreported_again(self) -> None:
        for request in self.requests.values():
            if request.phase is Phase.GRANTED:
                request.phase = Phase.SENT

    # Replies.

    def received(self, now: float, reply: pb.SessionReply) -> str | None:
        """A reply arrived. Returns why the stream is to be given up, if it is."""
        self.replied_at, self.replied_here = now, True
        # Callers have been informed by now, so no reply makes the lease valid again.
        self._check_lease(now)
        kind = reply.WhichOneof("reply")
        if kind == "opened":
            return self._opened(now, reply.opened)
        if kind == "granted":
            self._granted(now, reply.granted)
        elif kind == "refused":
            self._refused(now, reply.refused)
        elif kind == "renewed":
            number = reply.renewed.number
            self._acknowledged(number, reply.renewed.ttl_ms)
            # The stream keeps the order: the node has read what was sent before.
            kept = {n: one for n, one in self.unconfirmed.items() if one.renewals >= number}
            self.unconfirmed = kept
            self._report_grants(now)
        elif kind == "proclaimed":
            self._proclaimed(reply.proclaimed.id, reply.proclaimed.held)
        elif kind == "lost":
            self._lost(now, reply.lost.name, reply.lost.fencing_token, reply.lost.reason)
        elif kind == "failed":
            return str(reply.failed.text)
        elif kind == "closed":
            self._lose_all("the node closed the session")
            self._request_unreported_again()
            self._session_ended(now)
            return "the node closed the session"
        return None

    def _opened(self, now: float, opened: pb.Opened) -> str | None:
        is_member = opened.scope == pb.SCOPE_CLUSTER and opened.cluster == self.cluster
        if self.cluster is not None and not is_member:
            # The node was replaced since it reported its cluster.
            return f"node {opened.node} is not a member of cluster {self.cluster}"
        self.session = opened.session
        for refused in opened.refused:
            why = "the next node refused the reclaim"
            self._lost(now, refused.name, refused.fencing_token, why)
        self._acknowledged(0, opened.ttl_ms)
        self._report_grants(now)
        return None

    def _granted(self, now: float, granted: pb.Granted) -> None:
        token = granted.fencing_token
        request = self.requests.get(granted.id)
        if request is not None and request.phase is Phase.SENT:
            request.phase, request.token = Phase.GRANTED, token
            self._report_grants(now)
            if not self._lasts(now):
                self._renew(now)
        elif request is not None and request.phase is Phase.CANCELLED:
            request.phase, request.token = Phase.LOST, token
            self.release(now, request)
        elif not self._has(granted.name, token):
            # A grant without a caller.
            self._send_release(granted.name, token)

    def _has(self, name: bytes, token: int) -> bool:
        queue = self.names.get(name)
        held = queue is not None and queue[0].token == token
        released = self.unconfirmed.get(name)
        return held or (released is not None and released.token == token)

    def _lasts(self, now: float) -> bool:
        return self.valid_until - now >= self.lease / 2

    def _report_grants(self, now: float) -> None:
        if not self._lasts(now):
            return
        for request in list(self.requests.values()):
            if request.phase is Phase.GRANTED:
                request.phase = Phase.HELD
                # The grant shows that an earlier release has arrived.
                self.unconfirmed.pop(request.name, None)
                request.granted(request.token)

    def _refused(self, now: float, refused: pb.Refused) -> None:
        request = self.requests.get(refused.id)
        if request is None:
            return
        if request.phase is Phase.CANCELLED:
            self._remove(now, request)
        elif request.phase is Phase.SENT:
            if refused.reason == pb.TIMEOUT and request.limit == NEVER:
                # Its wait was cancelled with another stream of this session.
                self._send_acquire(now, request)
                return
            request.failed(_error(refused))
            self._remove(now, request)

    def _lost(self, now: float, name: bytes, token: int, why: str) -> None:
        queue = self.names.get(name)
        if queue is None or queue[0].token != token:
            return
        if queue[0].phase is Phase.HELD:
            _lose(queue[0], why)
        elif queue[0].phase is Phase.GRANTED:
            queue[0].phase = Phase.SENT
            self._send_acquire(now, queue[0])

    def _send(self, **request: Any) -> None:
        self.send_now(pb.SessionRequest(**request))


def _lose(request: Request, why: str) -> None:
    request.phase = Phase.LOST
    request.lost(why)
    _end_proclamations(request)


def _end_proclamations(request: Request) -> None:
    """The leader of this request leads no more."""
    ended, request.confirmed = request.confirmed, []
    for _, confirmed in ended:
        confirmed(False)


def holder_of(entry: pb.Entry) -> Holder:
    """A holder as a node describes it."""
    client = entry.client
    return Holder(
        owner=client.owner,
        host=client.host,
        pid=client.pid,
        command=client.command,
        node=entry.node,
        fencing_token=entry.fencing_token,
        held_for=entry.for_ms / 1000,
    )


def _error(refused: pb.Refused) -> Error:
    holder = holder_of(refused.holder) if refused.HasField("holder") else None
    if refused.reason == pb.BUSY:
        return NotAcquiredError("the lock is held or has waiters", holder)
    if refused.reason == pb.TIMEOUT:
        return NotAcquiredError("the lock was not granted in time", holder)
    if refused.reason == pb.INVALID:
        return ConfigError(refused.text)
    if refused.reason == pb.DENIED:
        return DeniedError(refused.text)
    return UnavailableError(refused.text)
