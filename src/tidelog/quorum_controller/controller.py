"""A controller's state. One of them is active: it decides, one decision after the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar, cast

from tidelog.config.broker import BrokerConfig
from tidelog.controller.activation import activation_records
from tidelog.controller.decision import Decision, batches
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.events import ConnectionId
from tidelog.metadata.image import MetadataImage
from tidelog.quorum_controller.active import Active, report_unclean
from tidelog.quorum_controller.decisions import COMMIT_TIMEOUT_MS, Decider
from tidelog.quorum_controller.self_registration import SelfRegistration
from tidelog.quorum_controller.sessions import OWN_CONNECTION
from tidelog.runtime.answers import Answer
from tidelog.runtime.controller_channel import ControllerChannel
from tidelog.runtime.jobs import STEP_COST_MAX
from tidelog.runtime.metadata import Metadata
from tidelog.runtime.purgatory import Delayed
from tidelog.runtime.refusals import fitted, refuse
from tidelog.runtime.runtime import Runtime
from tidelog.slices import Slices
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.messages.update_features import UpdateFeaturesResponse
from tidelog.wire.request import Request, Served

log = logging.getLogger("tidelog.controller")

R = TypeVar("R")


class QuorumController:
    """Everything here changes inside `node.step` alone."""

    channel: ControllerChannel
    """The way to the active controller, set by whoever makes both."""

    def __init__(
        self,
        config: BrokerConfig,
        cluster_id: str,
        metadata: Metadata,
        runtime: Runtime,
        bootstrap: Sequence[Message],
    ) -> None:
        self.static_config = config
        self.cluster_id = cluster_id
        self.metadata = metadata
        self.runtime = runtime
        self.is_active = False
        self.listener = ""
        """By which the request came that is being handled."""
        self.connection: ConnectionId = OWN_CONNECTION
        """The same."""
        self.forwarder: int | None = None
        """The broker that handed it on, for a client of its own."""
        self.now = Now(0, 0)
        """When the decision that is being made was asked for."""
        self._is_deciding = False
        self._config = config
        self._configs: Any = None
        self._bootstrap = bootstrap
        """What the directory was formatted with: a new cluster's first records."""
        self._self_registration = SelfRegistration(self)
        self.active = Active(self)
        metadata.controller = self
        metadata.acted_upon_by(self)

    @property
    def node_id(self) -> int:
        return self.static_config.node_id

    @property
    def latest(self) -> MetadataImage:
        return self.metadata.latest

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    @property
    def config(self) -> BrokerConfig:
        """With what the metadata changed."""
        latest = self.metadata.latest
        if latest.configs is not self._configs:
            self._configs = latest.configs
            self._config = self.static_config.with_dynamic(
                latest.cluster_configs(), latest.broker_configs(self.node_id)
            )
        return self._config

    @property
    def served(self) -> Served:
        from tidelog.quorum_controller.router import CONTROLLER_SERVED

        return CONTROLLER_SERVED

    def handle(
        self, request: Request, now: Now, forwarder: int | None = None
    ) -> Answer | Slices[Answer]:
        """What somebody asked for, by itself or by way of a broker."""
        from tidelog.quorum_controller.router import CONTROLLER_HANDLERS

        self.forwarder = forwarder
        return CONTROLLER_HANDLERS[request.key](request, self, now)

    def ask(self, message: Message, then: Callable[[Message, Now], None], now: Now) -> None:
        """What the broker of this node asks for, without a socket between."""
        key = message.API_KEY
        assert key is not None
        version = APIS[key].versions[1] - APIS[key].latest_is_unstable
        self.connection = OWN_CONNECTION
        self.answer(self.handle(Request(key, version, 0, None, message), now), then, now)

    def answer(
        self, answer: Answer | Slices[Answer], then: Callable[[Message, Now], None], now: Now
    ) -> None:
        """Tell somebody here an answer, now or when there is one."""

        def done(answer: Answer) -> None:
            if isinstance(answer, Delayed):
                answer.then = then
                self.runtime.purgatory.add(answer)
            else:
                assert isinstance(answer, Message)
                then(answer, self.runtime.jobs.fresh(now))

        if isinstance(answer, Generator):
            self.runtime.jobs.start(answer, now, done)
        else:
            done(answer)

    def disconnected(self, connection: ConnectionId, now: Now) -> None:
        """A peer is gone: it may be a broker whose process is."""
        if self.is_active:
            self.active.disconnected(connection, now)

    # Metadata.

    def activate(self, now: Now) -> None:
        """Write what was left undone before anything else; only then is this the active one."""
        self.is_active = True
        log.info("the active controller is here, epoch %d", self.metadata.raft.epoch)
        self.runtime.jobs.start(self.in_turn(lambda: self._complete(now)), now)
        self.active.start(now)
        self.channel.leader_changed(now)

    def _complete(self, now: Now) -> Slices[None]:
        min_insync = self.static_config.min_insync_replicas
        records = activation_records(self.latest, self._bootstrap, min_insync)
        yield from self.metadata.append(records, now)

    def deactivate(self, now: Now) -> None:
        self.is_active = False
        self.active.stop()
        log.info("the active controller is not here any more")

    def apply(self, records: Sequence[Message], now: Now) -> Slices[None]:
        return
        yield

    def reload(self, now: Now) -> Slices[None]:
        return
        yield

    def caught_up(self, now: Now) -> None:
        self._self_registration.check(now)

    def leader_changed(self, now: Now) -> None:
        self.channel.leader_changed(now)

    # Decisions.

    def in_turn(self, decide: Callable[[], Slices[R]]) -> Slices[R]:
        """One decision at a time, from its look at the metadata until that has its records."""
        while self._is_deciding:
            yield STEP_COST_MAX  # the turn is another job's
        self._is_deciding = True
        try:
            return (yield from decide())
        finally:
            self._is_deciding = False

    def decide(
        self, decider: Decider, message: Any, now: Now, request: Request | None = None
    ) -> Slices[Message | Delayed]:
        """Answer when the records of a decision are committed."""
        forwarder = self.forwarder

        def decide() -> Slices[Message | Delayed]:
            self.forwarder, self.now = forwarder, now
            deciding = decider.decide(self, message)
            timeout_ms = getattr(message, "timeout_ms", COMMIT_TIMEOUT_MS)
            return self._commit(deciding, decider.results, timeout_ms, now, request)

        return (yield from self.in_turn(decide))

    def _commit(
        self,
        deciding: Slices[Decision[Any]],
        results: str,
        timeout_ms: int,
        now: Now,
        request: Request | None,
    ) -> Slices[Message | Delayed]:
        image = self.latest
        decision = yield from deciding
        if request is not None:
            decision = decision._replace(response=fitted(decision.response, request.version))
        report_unclean(image, decision.records)
        if not decision.records and not self.metadata.has_pending:
            return cast(Message, decision.response)
        deadline_ms = now.monotonic_ms + max(timeout_ms, 1)
        delayed = DelayedCommit(deadline_ms, decision.response, results, request)

        def told(error: ErrorCode, now: Now) -> None:
            is_done = error is ErrorCode.NONE
            answer = decision.response if is_done else delayed.failed(error)
            self.runtime.purgatory.complete(delayed, cast(Message, answer))

        *first, last = batches(decision) or [()]
        for batch in first:
            error = yield from self.metadata.append(batch, now)
            if error is not ErrorCode.NONE:
                return delayed.failed(error)
        error = yield from self.metadata.append(last, now, told)
        return delayed if error is ErrorCode.NONE else delayed.failed(error)


class DelayedCommit(Delayed):
    """An answer that is true once the metadata log has it."""

    waits_for_disk = True
    is_large = True

    def __init__(
        self, deadline_ms: int, response: Message, results: str, request: Request | None
    ) -> None:
        super().__init__(deadline_ms)
        self._response = response
        self._results = results
        self._request = request

    def expire(self, now: Now) -> Message:
        return self.failed(ErrorCode.REQUEST_TIMED_OUT)

    def failed(self, error: ErrorCode) -> Message:
        """The same answer, but what would have been done was not."""
        if self._request is not None and self._request.key == ApiKey.ELECT_LEADERS:
            return fitted(refuse(self._request.message, error), self._request.version)
        if not self._results:
            return self._response.replace(error_code=error)
        results = tuple(
            result if result.error_code else result.replace(error_code=error)
            for result in getattr(self._response, self._results)
        )
        failed = self._response.replace(**{self._results: results})
        if isinstance(failed, UpdateFeaturesResponse):
            return failed.replace(error_code=error)
        return failed
