from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Scope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCOPE_UNKNOWN: _ClassVar[Scope]
    SCOPE_LOCAL: _ClassVar[Scope]
    SCOPE_CLUSTER: _ClassVar[Scope]
    SCOPE_NODE: _ClassVar[Scope]

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN: _ClassVar[Reason]
    BUSY: _ClassVar[Reason]
    TIMEOUT: _ClassVar[Reason]
    UNAVAILABLE: _ClassVar[Reason]
    INVALID: _ClassVar[Reason]
    DENIED: _ClassVar[Reason]
SCOPE_UNKNOWN: Scope
SCOPE_LOCAL: Scope
SCOPE_CLUSTER: Scope
SCOPE_NODE: Scope
UNKNOWN: Reason
BUSY: Reason
TIMEOUT: Reason
UNAVAILABLE: Reason
INVALID: Reason
DENIED: Reason

class SessionRequest(_message.Message):
    __slots__ = ("open", "acquire", "cancel", "release", "renew", "close", "proclaim")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    ACQUIRE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    PROCLAIM_FIELD_NUMBER: _ClassVar[int]
    open: Open
    acquire: Acquire
    cancel: Cancel
    release: Release
    renew: Renew
    close: Close
    proclaim: Proclaim
    def __init__(self, open: _Optional[_Union[Open, _Mapping]] = ..., acquire: _Optional[_Union[Acquire, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., renew: _Optional[_Union[Renew, _Mapping]] = ..., close: _Optional[_Union[Close, _Mapping]] = ..., proclaim: _Optional[_Union[Proclaim, _Mapping]] = ...) -> None: ...

class SessionReply(_message.Message):
    __slots__ = ("opened", "waiting", "granted", "refused", "renewed", "lost", "released", "closed", "moved", "peers", "failed", "proclaimed", "promised")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    PROCLAIMED_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    opened: Opened
    waiting: Waiting
    granted: Granted
    refused: Refused
    renewed: Renewed
    lost: Lost
    released: Released
    closed: Closed
    moved: Moved
    peers: Peers
    failed: Failed
    proclaimed: Proclaimed
    promised: Promised
    def __init__(self, opened: _Optional[_Union[Opened, _Mapping]] = ..., waiting: _Optional[_Union[Waiting, _Mapping]] = ..., granted: _Optional[_Union[Granted, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., renewed: _Optional[_Union[Renewed, _Mapping]] = ..., lost: _Optional[_Union[Lost, _Mapping]] = ..., released: _Optional[_Union[Released, _Mapping]] = ..., closed: _Optional[_Union[Closed, _Mapping]] = ..., moved: _Optional[_Union[Moved, _Mapping]] = ..., peers: _Optional[_Union[Peers, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ..., proclaimed: _Optional[_Union[Proclaimed, _Mapping]] = ..., promised: _Optional[_Union[Promised, _Mapping]] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("session", "ttl_ms", "client", "supervised", "reclaims", "close_only")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SUPERVISED_FIELD_NUMBER: _ClassVar[int]
    RECLAIMS_FIELD_NUMBER: _ClassVar[int]
    CLOSE_ONLY_FIELD_NUMBER: _ClassVar[int]
    session: int
    ttl_ms: int
    client: Client
    supervised: bool
    reclaims: _containers.RepeatedCompositeFieldContainer[Reclaim]
    close_only: bool
    def __init__(self, session: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., client: _Optional[_Union[Client, _Mapping]] = ..., supervised: bool = ..., reclaims: _Optional[_Iterable[_Union[Reclaim, _Mapping]]] = ..., close_only: bool = ...) -> None: ...

class Client(_message.Message):
    __slots__ = ("owner", "host", "pid", "command", "version", "identity")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    owner: str
    host: str
    pid: int
    command: str
    version: str
    identity: str
    def __init__(self, owner: _Optional[str] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., command: _Optional[str] = ..., version: _Optional[str] = ..., identity: _Optional[str] = ...) -> None: ...

class Reclaim(_message.Message):
    __slots__ = ("name", "fencing_token", "promised")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROMISED_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    fencing_token: int
    promised: bool
    def __init__(self, name: _Optional[bytes] = ..., fencing_token: _Optional[int] = ..., promised: bool = ...) -> None: ...

class Acquire(_message.Message):
    __slots__ = ("id", "name", "wait_ms", "watch", "value", "promise")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    WATCH_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PROMISE_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: bytes
    wait_ms: int
    watch: bool
    value: bytes
    promise: bool
    def __init__(self, id: _Optional[int] = ..., name: _Optional[bytes] = ..., wait_ms: _Optional[int] = ..., watch: bool = ..., value: _Optional[bytes] = ..., promise: bool = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("name", "fencing_token", "quiet")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    QUIET_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    fencing_token: int
    quiet: bool
    def __init__(self, name: _Optional[bytes] = ..., fencing_token: _Optional[int] = ..., quiet: bool = ...) -> None: ...

class Proclaim(_message.Message):
    __slots__ = ("id", "name", "fencing_token", "value")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: bytes
    fencing_token: int
    value: bytes
    def __init__(self, id: _Optional[int] = ..., name: _Optional[bytes] = ..., fencing_token: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...

class Renew(_message.Message):
    __slots__ = ("number",)
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    number: int
    def __init__(self, number: _Optional[int] = ...) -> None: ...

class Close(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Opened(_message.Message):
    __slots__ = ("session", "ttl_ms", "version", "node", "refused", "quarantine_ms", "scope", "cluster")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_MS_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    session: int
    ttl_ms: int
    version: str
    node: str
    refused: _containers.RepeatedCompositeFieldContainer[Reclaim]
    quarantine_ms: int
    scope: Scope
    cluster: str
    def __init__(self, session: _Optional[int] = ..., ttl_ms: _Optional[int] = ..., version: _Optional[str] = ..., node: _Optional[str] = ..., refused: _Optional[_Iterable[_Union[Reclaim, _Mapping]]] = ..., quarantine_ms: _Optional[int] = ..., scope: _Optional[_Union[Scope, str]] = ..., cluster: _Optional[str] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("id", "position", "holder", "suspended", "waiting_at_peers")
    ID_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    WAITING_AT_PEERS_FIELD_NUMBER: _ClassVar[int]
    id: int
    position: int
    holder: Entry
    suspended: str
    waiting_at_peers: int
    def __init__(self, id: _Optional[int] = ..., position: _Optional[int] = ..., holder: _Optional[_Union[Entry, _Mapping]] = ..., suspended: _Optional[str] = ..., waiting_at_peers: _Optional[int] = ...) -> None: ...

class Granted(_message.Message):
    __slots__ = ("id", "name", "fencing_token", "waited_ms", "promised_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WAITED_MS_FIELD_NUMBER: _ClassVar[int]
    PROMISED_MS_FIELD_NUMBER: _ClassVar[int]
    id: int
    name: bytes
    fencing_token: int
    waited_ms: int
    promised_ms: int
    def __init__(self, id: _Optional[int] = ..., name: _Optional[bytes] = ..., fencing_token: _Optional[int] = ..., waited_ms: _Optional[int] = ..., promised_ms: _Optional[int] = ...) -> None: ...

class Promised(_message.Message):
    __slots__ = ("name", "fencing_token", "promised_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROMISED_MS_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    fencing_token: int
    promised_ms: int
    def __init__(self, name: _Optional[bytes] = ..., fencing_token: _Optional[int] = ..., promised_ms: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("id", "reason", "text", "holder")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    id: int
    reason: Reason
    text: str
    holder: Entry
    def __init__(self, id: _Optional[int] = ..., reason: _Optional[_Union[Reason, str]] = ..., text: _Optional[str] = ..., holder: _Optional[_Union[Entry, _Mapping]] = ...) -> None: ...

class Renewed(_message.Message):
    __slots__ = ("number", "ttl_ms")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    number: int
    ttl_ms: int
    def __init__(self, number: _Optional[int] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class Lost(_message.Message):
    __slots__ = ("name", "fencing_token", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    fencing_token: int
    reason: str
    def __init__(self, name: _Optional[bytes] = ..., fencing_token: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Released(_message.Message):
    __slots__ = ("name", "fencing_token", "held")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    fencing_token: int
    held: bool
    def __init__(self, name: _Optional[bytes] = ..., fencing_token: _Optional[int] = ..., held: bool = ...) -> None: ...

class Proclaimed(_message.Message):
    __slots__ = ("id", "held")
    ID_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    id: int
    held: bool
    def __init__(self, id: _Optional[int] = ..., held: bool = ...) -> None: ...

class Closed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Moved(_message.Message):
    __slots__ = ("node", "endpoints")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    node: str
    endpoints: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, node: _Optional[str] = ..., endpoints: _Optional[_Iterable[str]] = ...) -> None: ...

class Failed(_message.Message):
    __slots__ = ("code", "text")
    CODE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    code: int
    text: str
    def __init__(self, code: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class Peers(_message.Message):
    __slots__ = ("endpoints",)
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    endpoints: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, endpoints: _Optional[_Iterable[str]] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("session", "fencing_token", "for_ms", "client", "node", "value", "custody", "lease_left_ms")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FOR_MS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CUSTODY_FIELD_NUMBER: _ClassVar[int]
    LEASE_LEFT_MS_FIELD_NUMBER: _ClassVar[int]
    session: int
    fencing_token: int
    for_ms: int
    client: Client
    node: str
    value: bytes
    custody: bool
    lease_left_ms: int
    def __init__(self, session: _Optional[int] = ..., fencing_token: _Optional[int] = ..., for_ms: _Optional[int] = ..., client: _Optional[_Union[Client, _Mapping]] = ..., node: _Optional[str] = ..., value: _Optional[bytes] = ..., custody: bool = ..., lease_left_ms: _Optional[int] = ...) -> None: ...

class Lock(_message.Message):
    __slots__ = ("name", "holder", "waiting", "algorithm", "last_fencing_token", "unanswered", "left_out")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    LAST_FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    UNANSWERED_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    holder: Entry
    waiting: _containers.RepeatedCompositeFieldContainer[Entry]
    algorithm: str
    last_fencing_token: int
    unanswered: _containers.RepeatedScalarFieldContainer[str]
    left_out: int
    def __init__(self, name: _Optional[bytes] = ..., holder: _Optional[_Union[Entry, _Mapping]] = ..., waiting: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., algorithm: _Optional[str] = ..., last_fencing_token: _Optional[int] = ..., unanswered: _Optional[_Iterable[str]] = ..., left_out: _Optional[int] = ...) -> None: ...

class AcquireRequest(_message.Message):
    __slots__ = ("name", "lease", "wait_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    lease: int
    wait_ms: int
    def __init__(self, name: _Optional[bytes] = ..., lease: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class AcquireResponse(_message.Message):
    __slots__ = ("acquired", "fencing_token", "key", "holder")
    ACQUIRED_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    acquired: bool
    fencing_token: int
    key: bytes
    holder: Entry
    def __init__(self, acquired: bool = ..., fencing_token: _Optional[int] = ..., key: _Optional[bytes] = ..., holder: _Optional[_Union[Entry, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("name", "fencing_token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    fencing_token: int
    def __init__(self, name: _Optional[bytes] = ..., fencing_token: _Optional[int] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("held",)
    HELD_FIELD_NUMBER: _ClassVar[int]
    held: bool
    def __init__(self, held: bool = ...) -> None: ...

class VerifyRequest(_message.Message):
    __slots__ = ("name", "fencing_token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    fencing_token: int
    def __init__(self, name: _Optional[bytes] = ..., fencing_token: _Optional[int] = ...) -> None: ...

class VerifyResponse(_message.Message):
    __slots__ = ("current", "last_fencing_token")
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    LAST_FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    current: bool
    last_fencing_token: int
    def __init__(self, current: bool = ..., last_fencing_token: _Optional[int] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("prefix", "exact", "after")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    prefix: bytes
    exact: bool
    after: bytes
    def __init__(self, prefix: _Optional[bytes] = ..., exact: bool = ..., after: _Optional[bytes] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("locks", "suspended", "unanswered", "more")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    UNANSWERED_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[Lock]
    suspended: str
    unanswered: _containers.RepeatedScalarFieldContainer[str]
    more: bool
    def __init__(self, locks: _Optional[_Iterable[_Union[Lock, _Mapping]]] = ..., suspended: _Optional[str] = ..., unanswered: _Optional[_Iterable[str]] = ..., more: bool = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    def __init__(self, name: _Optional[bytes] = ...) -> None: ...

class TraceRequest(_message.Message):
    __slots__ = ("name", "after")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    after: _containers.RepeatedCompositeFieldContainer[TraceCursor]
    def __init__(self, name: _Optional[bytes] = ..., after: _Optional[_Iterable[_Union[TraceCursor, _Mapping]]] = ...) -> None: ...

class TraceCursor(_message.Message):
    __slots__ = ("node", "next")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    node: str
    next: int
    def __init__(self, node: _Optional[str] = ..., next: _Optional[int] = ...) -> None: ...

class TraceResponse(_message.Message):
    __slots__ = ("members", "unanswered", "now_ns")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    UNANSWERED_FIELD_NUMBER: _ClassVar[int]
    NOW_NS_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[MemberTrace]
    unanswered: _containers.RepeatedScalarFieldContainer[str]
    now_ns: int
    def __init__(self, members: _Optional[_Iterable[_Union[MemberTrace, _Mapping]]] = ..., unanswered: _Optional[_Iterable[str]] = ..., now_ns: _Optional[int] = ...) -> None: ...

class MemberTrace(_message.Message):
    __slots__ = ("node", "header", "events", "next", "missed", "now_ns", "ahead_ns", "grants", "messages", "lazy")
    NODE_FIELD_NUMBER: _ClassVar[int]
    HEADER_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    NOW_NS_FIELD_NUMBER: _ClassVar[int]
    AHEAD_NS_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LAZY_FIELD_NUMBER: _ClassVar[int]
    node: str
    header: str
    events: _containers.RepeatedScalarFieldContainer[str]
    next: int
    missed: int
    now_ns: int
    ahead_ns: int
    grants: int
    messages: int
    lazy: int
    def __init__(self, node: _Optional[str] = ..., header: _Optional[str] = ..., events: _Optional[_Iterable[str]] = ..., next: _Optional[int] = ..., missed: _Optional[int] = ..., now_ns: _Optional[int] = ..., ahead_ns: _Optional[int] = ..., grants: _Optional[int] = ..., messages: _Optional[int] = ..., lazy: _Optional[int] = ...) -> None: ...

class BreakRequest(_message.Message):
    __slots__ = ("name", "fencing_token", "reason", "by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    fencing_token: int
    reason: str
    by: str
    def __init__(self, name: _Optional[bytes] = ..., fencing_token: _Optional[int] = ..., reason: _Optional[str] = ..., by: _Optional[str] = ...) -> None: ...

class BreakResponse(_message.Message):
    __slots__ = ("broken", "quarantine_ms")
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_MS_FIELD_NUMBER: _ClassVar[int]
    broken: Entry
    quarantine_ms: int
    def __init__(self, broken: _Optional[_Union[Entry, _Mapping]] = ..., quarantine_ms: _Optional[int] = ...) -> None: ...

class PeerQuery(_message.Message):
    __slots__ = ("list", "verify", "session", "endpoints", "lease", "recipe", "trace", "member", "relay", "relayed")
    LIST_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    BREAK_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    RECIPE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    RELAY_FIELD_NUMBER: _ClassVar[int]
    RELAYED_FIELD_NUMBER: _ClassVar[int]
    list: ListRequest
    verify: VerifyRequest
    session: SessionQuery
    endpoints: EndpointsRequest
    lease: LeaseCall
    recipe: RecipeCall
    trace: TraceRequest
    member: MemberRequest
    relay: Relay
    relayed: RelayedReply
    def __init__(self, list: _Optional[_Union[ListRequest, _Mapping]] = ..., verify: _Optional[_Union[VerifyRequest, _Mapping]] = ..., session: _Optional[_Union[SessionQuery, _Mapping]] = ..., endpoints: _Optional[_Union[EndpointsRequest, _Mapping]] = ..., lease: _Optional[_Union[LeaseCall, _Mapping]] = ..., recipe: _Optional[_Union[RecipeCall, _Mapping]] = ..., trace: _Optional[_Union[TraceRequest, _Mapping]] = ..., member: _Optional[_Union[MemberRequest, _Mapping]] = ..., relay: _Optional[_Union[Relay, _Mapping]] = ..., relayed: _Optional[_Union[RelayedReply, _Mapping]] = ..., **kwargs) -> None: ...

class PeerReply(_message.Message):
    __slots__ = ("list", "verify", "session", "endpoints", "lease", "recipe", "trace", "member", "relay")
    LIST_FIELD_NUMBER: _ClassVar[int]
    VERIFY_FIELD_NUMBER: _ClassVar[int]
    BREAK_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    RECIPE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    RELAY_FIELD_NUMBER: _ClassVar[int]
    list: ListResponse
    verify: VerifyResponse
    session: SessionReport
    endpoints: EndpointsResponse
    lease: LeaseReply
    recipe: RecipeReply
    trace: MemberTrace
    member: MemberReport
    relay: RelayAnswer
    def __init__(self, list: _Optional[_Union[ListResponse, _Mapping]] = ..., verify: _Optional[_Union[VerifyResponse, _Mapping]] = ..., session: _Optional[_Union[SessionReport, _Mapping]] = ..., endpoints: _Optional[_Union[EndpointsResponse, _Mapping]] = ..., lease: _Optional[_Union[LeaseReply, _Mapping]] = ..., recipe: _Optional[_Union[RecipeReply, _Mapping]] = ..., trace: _Optional[_Union[MemberTrace, _Mapping]] = ..., member: _Optional[_Union[MemberReport, _Mapping]] = ..., relay: _Optional[_Union[RelayAnswer, _Mapping]] = ..., **kwargs) -> None: ...

class SessionQuery(_message.Message):
    __slots__ = ("session", "reclaims")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RECLAIMS_FIELD_NUMBER: _ClassVar[int]
    session: int
    reclaims: _containers.RepeatedCompositeFieldContainer[Reclaim]
    def __init__(self, session: _Optional[int] = ..., reclaims: _Optional[_Iterable[_Union[Reclaim, _Mapping]]] = ...) -> None: ...

class SessionReport(_message.Message):
    __slots__ = ("serves", "keeps", "settled")
    SERVES_FIELD_NUMBER: _ClassVar[int]
    KEEPS_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    serves: bool
    keeps: bool
    settled: bool
    def __init__(self, serves: bool = ..., keeps: bool = ..., settled: bool = ...) -> None: ...

class Relay(_message.Message):
    __slots__ = ("node", "number", "client", "request")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    node: str
    number: int
    client: RelayedClient
    request: SessionRequest
    def __init__(self, node: _Optional[str] = ..., number: _Optional[int] = ..., client: _Optional[_Union[RelayedClient, _Mapping]] = ..., request: _Optional[_Union[SessionRequest, _Mapping]] = ...) -> None: ...

class RelayedClient(_message.Message):
    __slots__ = ("identity", "admin")
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    ADMIN_FIELD_NUMBER: _ClassVar[int]
    identity: str
    admin: bool
    def __init__(self, identity: _Optional[str] = ..., admin: bool = ...) -> None: ...

class RelayedReply(_message.Message):
    __slots__ = ("number", "reply")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    number: int
    reply: SessionReply
    def __init__(self, number: _Optional[int] = ..., reply: _Optional[_Union[SessionReply, _Mapping]] = ...) -> None: ...

class RelayAnswer(_message.Message):
    __slots__ = ("taken",)
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    taken: bool
    def __init__(self, taken: bool = ...) -> None: ...

class EndpointsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EndpointsResponse(_message.Message):
    __slots__ = ("host", "anywhere", "on_host")
    HOST_FIELD_NUMBER: _ClassVar[int]
    ANYWHERE_FIELD_NUMBER: _ClassVar[int]
    ON_HOST_FIELD_NUMBER: _ClassVar[int]
    host: str
    anywhere: _containers.RepeatedScalarFieldContainer[str]
    on_host: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, host: _Optional[str] = ..., anywhere: _Optional[_Iterable[str]] = ..., on_host: _Optional[_Iterable[str]] = ...) -> None: ...

class LeaseCall(_message.Message):
    __slots__ = ("session", "call", "lease", "name", "identity")
    class Call(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[LeaseCall.Call]
        RENEW: _ClassVar[LeaseCall.Call]
        CLOSE: _ClassVar[LeaseCall.Call]
        TIME_TO_LIVE: _ClassVar[LeaseCall.Call]
        RELEASE: _ClassVar[LeaseCall.Call]
        LIST: _ClassVar[LeaseCall.Call]
    UNKNOWN: LeaseCall.Call
    RENEW: LeaseCall.Call
    CLOSE: LeaseCall.Call
    TIME_TO_LIVE: LeaseCall.Call
    RELEASE: LeaseCall.Call
    LIST: LeaseCall.Call
    SESSION_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    session: int
    call: LeaseCall.Call
    lease: bool
    name: bytes
    identity: str
    def __init__(self, session: _Optional[int] = ..., call: _Optional[_Union[LeaseCall.Call, str]] = ..., lease: bool = ..., name: _Optional[bytes] = ..., identity: _Optional[str] = ...) -> None: ...

class LeaseReply(_message.Message):
    __slots__ = ("done", "ttl_ms", "left_ms", "held", "keeps", "sessions")
    DONE_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    LEFT_MS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    KEEPS_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    done: bool
    ttl_ms: int
    left_ms: int
    held: _containers.RepeatedScalarFieldContainer[bytes]
    keeps: bool
    sessions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, done: bool = ..., ttl_ms: _Optional[int] = ..., left_ms: _Optional[int] = ..., held: _Optional[_Iterable[bytes]] = ..., keeps: bool = ..., sessions: _Optional[_Iterable[int]] = ...) -> None: ...

class RecipeCall(_message.Message):
    __slots__ = ("kind", "request", "known", "restamped", "identity")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[RecipeCall.Kind]
        TXN: _ClassVar[RecipeCall.Kind]
        RANGE: _ClassVar[RecipeCall.Kind]
        DELETE_RANGE: _ClassVar[RecipeCall.Kind]
        AWAIT: _ClassVar[RecipeCall.Kind]
    UNKNOWN: RecipeCall.Kind
    TXN: RecipeCall.Kind
    RANGE: RecipeCall.Kind
    DELETE_RANGE: RecipeCall.Kind
    AWAIT: RecipeCall.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    RESTAMPED_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    kind: RecipeCall.Kind
    request: bytes
    known: bytes
    restamped: bool
    identity: str
    def __init__(self, kind: _Optional[_Union[RecipeCall.Kind, str]] = ..., request: _Optional[bytes] = ..., known: _Optional[bytes] = ..., restamped: bool = ..., identity: _Optional[str] = ...) -> None: ...

class RecipeReply(_message.Message):
    __slots__ = ("done", "response", "code", "error", "keeps")
    DONE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    KEEPS_FIELD_NUMBER: _ClassVar[int]
    done: bool
    response: bytes
    code: int
    error: str
    keeps: bool
    def __init__(self, done: bool = ..., response: _Optional[bytes] = ..., code: _Optional[int] = ..., error: _Optional[str] = ..., keeps: bool = ...) -> None: ...

class Recorded(_message.Message):
    __slots__ = ("client", "supervised", "lease", "key", "granted_ms", "broken", "waiting")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    SUPERVISED_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    GRANTED_MS_FIELD_NUMBER: _ClassVar[int]
    BROKEN_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    client: Client
    supervised: bool
    lease: bool
    key: RecordedKey
    granted_ms: int
    broken: bool
    waiting: _containers.RepeatedCompositeFieldContainer[RecordedKey]
    def __init__(self, client: _Optional[_Union[Client, _Mapping]] = ..., supervised: bool = ..., lease: bool = ..., key: _Optional[_Union[RecordedKey, _Mapping]] = ..., granted_ms: _Optional[int] = ..., broken: bool = ..., waiting: _Optional[_Iterable[_Union[RecordedKey, _Mapping]]] = ...) -> None: ...

class RecordedKey(_message.Message):
    __slots__ = ("key", "value", "create_revision", "mod_revision")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CREATE_REVISION_FIELD_NUMBER: _ClassVar[int]
    MOD_REVISION_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., create_revision: _Optional[int] = ..., mod_revision: _Optional[int] = ...) -> None: ...

class AboutRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AboutResponse(_message.Message):
    __slots__ = ("version", "node", "scope", "cluster")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    version: str
    node: str
    scope: Scope
    cluster: str
    def __init__(self, version: _Optional[str] = ..., node: _Optional[str] = ..., scope: _Optional[_Union[Scope, str]] = ..., cluster: _Optional[str] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("members",)
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    members: bool
    def __init__(self, members: bool = ...) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("cluster", "node", "pid", "epoch", "suspended", "members", "locks", "held", "waiting", "entries", "messages", "lazy", "view", "lease_left_ms", "leader", "records", "notes", "level", "rules", "custodies", "begins_in_ms", "awaited")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LAZY_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    LEASE_LEFT_MS_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    CUSTODIES_FIELD_NUMBER: _ClassVar[int]
    BEGINS_IN_MS_FIELD_NUMBER: _ClassVar[int]
    AWAITED_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    node: str
    pid: int
    epoch: int
    suspended: str
    members: _containers.RepeatedCompositeFieldContainer[Member]
    locks: int
    held: int
    waiting: int
    entries: int
    messages: int
    lazy: int
    view: int
    lease_left_ms: int
    leader: str
    records: int
    notes: _containers.RepeatedScalarFieldContainer[str]
    level: int
    rules: int
    custodies: int
    begins_in_ms: int
    awaited: _containers.RepeatedCompositeFieldContainer[Awaited]
    def __init__(self, cluster: _Optional[str] = ..., node: _Optional[str] = ..., pid: _Optional[int] = ..., epoch: _Optional[int] = ..., suspended: _Optional[str] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., locks: _Optional[int] = ..., held: _Optional[int] = ..., waiting: _Optional[int] = ..., entries: _Optional[int] = ..., messages: _Optional[int] = ..., lazy: _Optional[int] = ..., view: _Optional[int] = ..., lease_left_ms: _Optional[int] = ..., leader: _Optional[str] = ..., records: _Optional[int] = ..., notes: _Optional[_Iterable[str]] = ..., level: _Optional[int] = ..., rules: _Optional[int] = ..., custodies: _Optional[int] = ..., begins_in_ms: _Optional[int] = ..., awaited: _Optional[_Iterable[_Union[Awaited, _Mapping]]] = ...) -> None: ...

class Awaited(_message.Message):
    __slots__ = ("name", "fencing_token", "left_ms")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEFT_MS_FIELD_NUMBER: _ClassVar[int]
    name: bytes
    fencing_token: int
    left_ms: int
    def __init__(self, name: _Optional[bytes] = ..., fencing_token: _Optional[int] = ..., left_ms: _Optional[int] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("name", "up", "for_ms", "backlog", "in_view", "votes", "reaches", "id", "incarnation", "address", "role", "becomes", "keeps", "report")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    FOR_MS_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    IN_VIEW_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    REACHES_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    BECOMES_FIELD_NUMBER: _ClassVar[int]
    KEEPS_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    name: str
    up: bool
    for_ms: int
    backlog: int
    in_view: bool
    votes: bool
    reaches: _containers.RepeatedScalarFieldContainer[str]
    id: int
    incarnation: int
    address: str
    role: str
    becomes: str
    keeps: bool
    report: MemberReport
    def __init__(self, name: _Optional[str] = ..., up: bool = ..., for_ms: _Optional[int] = ..., backlog: _Optional[int] = ..., in_view: bool = ..., votes: bool = ..., reaches: _Optional[_Iterable[str]] = ..., id: _Optional[int] = ..., incarnation: _Optional[int] = ..., address: _Optional[str] = ..., role: _Optional[str] = ..., becomes: _Optional[str] = ..., keeps: bool = ..., report: _Optional[_Union[MemberReport, _Mapping]] = ...) -> None: ...

class MemberReport(_message.Message):
    __slots__ = ("records", "custodies", "lease_left_ms", "suspended")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    CUSTODIES_FIELD_NUMBER: _ClassVar[int]
    LEASE_LEFT_MS_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    records: int
    custodies: int
    lease_left_ms: int
    suspended: str
    def __init__(self, records: _Optional[int] = ..., custodies: _Optional[int] = ..., lease_left_ms: _Optional[int] = ..., suspended: _Optional[str] = ...) -> None: ...

class MemberRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RulesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RulesResponse(_message.Message):
    __slots__ = ("rules", "number")
    RULES_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    rules: str
    number: int
    def __init__(self, rules: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class ChangeRulesRequest(_message.Message):
    __slots__ = ("rules", "file")
    RULES_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    rules: str
    file: str
    def __init__(self, rules: _Optional[str] = ..., file: _Optional[str] = ...) -> None: ...

class InviteRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InviteResponse(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class ChangeMemberRequest(_message.Message):
    __slots__ = ("name", "role")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    role: str
    def __init__(self, name: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class ChangeMemberResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StopRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StopResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
