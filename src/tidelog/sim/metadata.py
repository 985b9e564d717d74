"""Invariants of what the controller decides, checked when a node's committed image changes."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.metadata.image import Broker, MetadataImage, PartitionState, Topic
from tidelog.sim.counters import Counters
from tidelog.sim.history import Place
from tidelog.sim.isr_changes import IsrChangeInvariants
from tidelog.sim.plan import host
from tidelog.sim.replicas import ReplicaInvariants
from tidelog.sim.trace import Trace
from tidelog.sim.violation import Violation, require
from tidelog.types import Uuid

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
RECOVERING = 1


class MetadataInvariants:
    """Every state of every partition, by whom it was first seen."""

    def __init__(
        self,
        replicas: ReplicaInvariants,
        isr_changes: IsrChangeInvariants,
        counters: Counters,
        trace: Trace,
    ) -> None:
        self.is_unclean_asked_for = False
        """Whether an operator asks for unclean elections, which no topic need allow."""
        self._replicas = replicas
        self._isr_changes = isr_changes
        self._counters = counters
        self._trace = trace
        self._images: dict[str, MetadataImage] = {}
        self._states: dict[tuple[Place, int], PartitionState] = {}
        self._latest: dict[Place, PartitionState] = {}
        self._epochs: dict[int, tuple[int, Uuid]] = {}
        """The broker of each broker epoch, and its incarnation."""
        self._incarnations: dict[str, Uuid] = {}
        """Of the process that a machine runs."""
        self._unclean: dict[str, None] = {}
        """Machines that ended a process uncleanly, and have registered none since."""
        self._new_disks: dict[str, None] = {}
        """Machines that have had one."""
        self._given_up: dict[Place, None] = {}
        """Partitions that an operator brings back at any price."""

    def started(self, machine: str, incarnation_id: Uuid | None) -> None:
        self._images.pop(machine, None)
        if incarnation_id is not None:
            self._incarnations[machine] = incarnation_id

    def ended(self, machine: str, *, is_clean: bool) -> None:
        """What the metadata says of that process it says of one that is gone."""
        if self._incarnations.pop(machine, None) is not None and not is_clean:
            self._unclean[machine] = None

    def got_new_disk(self, machine: str) -> None:
        self._new_disks[machine] = None

    def hopeless(self) -> list[tuple[str, int]]:
        """Partitions that only an operator can bring back, in Kafka too: ISR and ELR are empty, and
        the last known leader came back with a new disk. When it is unfenced it is not elected,
        because its replica counts as being in the directory that is gone; and when it reports
        another directory, no election follows."""
        found = []
        image = max(self._images.values(), key=lambda one: one.offset)
        for place, state in self._latest.items():
            topic = image.topic_by_id(place.topic_id)
            is_left = state.leader >= 0 or state.isr or state.eligible_leader_replicas
            is_empty = any(host(last) in self._new_disks for last in state.last_known_elr)
            if topic is not None and not is_left and is_empty:
                self._given_up[place] = None
                found.append((topic.name, place.partition))
        return found

    def stepped(self, machine: str, image: MetadataImage) -> None:
        before = self._images.get(machine)
        if image is before:
            return
        self._images[machine] = image
        if before is not None:
            require(
                image.offset >= before.offset,
                "metadata is shown in the order of its log",
                lambda: f"{machine}: from {before.offset} to {image.offset}",
            )
        old_brokers = None if before is None else before.brokers
        if image.brokers is not old_brokers:
            for broker in image.brokers.values():
                old = None if old_brokers is None else old_brokers.get(broker.broker_id)
                if old is not broker:
                    self._check_epoch(machine, old, broker)
                    self._check_broker(machine, image, broker)
        if before is None or image.topics is not before.topics:
            for topic, index, state in _changed(before, image):
                self._check_partition(machine, image, topic, index, state)

    def _check_epoch(self, machine: str, old: Broker | None, broker: Broker) -> None:
        broker_id, epoch = broker.broker_id, broker.broker_epoch
        if epoch not in self._epochs:
            self._trace.show(f"broker {broker_id} registered, epoch {epoch}")
        known = self._epochs.setdefault(epoch, (broker_id, broker.incarnation_id))
        require(
            known == (broker_id, broker.incarnation_id),
            "a broker epoch is of one incarnation",
            lambda: f"{machine}: broker {broker_id}, epoch {epoch}",
        )
        require(
            old is None or old.broker_epoch <= epoch,
            "broker epochs rise",
            lambda: f"{machine}: broker {broker_id}, from {old and old.broker_epoch} to {epoch}",
        )

    def _check_broker(self, machine: str, image: MetadataImage, broker: Broker) -> None:
        name = host(broker.broker_id)
        if self._incarnations.get(name) == broker.incarnation_id:
            self._replicas.registered(name, broker.broker_epoch)
            if name in self._unclean and image.elr_is_on:
                del self._unclean[name]
                _check_registration(image, broker)
        if broker.fenced:
            self._counters.reached("a broker was fenced")
        if broker.in_controlled_shutdown:
            self._counters.reached("a broker handed its leaderships over")
        if not broker.is_active and image.elr_is_on:
            for place, state in image.partitions_of(broker.broker_id):
                if broker.broker_id in state.isr:
                    raise Violation(
                        "no fenced or stopping broker is in an ISR",
                        f"{machine}: broker {broker.broker_id}, {place}: {state}",
                    )

    def _check_partition(
        self, machine: str, image: MetadataImage, topic: Topic, index: int, state: PartitionState
    ) -> None:
        place, name = Place(topic.topic_id, index), f"{topic.name}-{index}"
        known = self._states.setdefault((place, state.partition_epoch), state)
        require(
            known == state,
            "nodes agree on the metadata",
            lambda: f"{machine}: {name} is {state}, elsewhere {known}",
        )
        latest = self._latest.get(place)
        if latest is not None and latest.partition_epoch >= state.partition_epoch:
            return
        self._latest[place] = state
        self._replicas.decided(place, state)
        self._isr_changes.decided(place, state, image)
        self._trace.show(f"{name} {_words(state)}")
        _check_sets(image, topic, name, state)
        if latest is not None:
            self._check_change(image, topic, place, latest, state)
        self._check_members(place, name, state)

    def _check_change(
        self,
        image: MetadataImage,
        topic: Topic,
        place: Place,
        before: PartitionState,
        state: PartitionState,
    ) -> None:
        require(
            state.leader_epoch >= before.leader_epoch,
            "the controller's leader epochs never fall",
            lambda: f"{topic.name}: from {before} to {state}",
        )
        if len(state.isr) < len(before.isr):
            self._counters.reached("an ISR shrank")
        if len(state.isr) > len(before.isr):
            self._counters.reached("an ISR grew")
        if before.is_reassigning and not state.is_reassigning:
            self._counters.reached("a reassignment ended")
            if not set(before.adding_replicas) & set(state.replicas) and before.adding_replicas:
                self._counters.reached("a reassignment was taken back")
        if state.leader < 0 <= before.leader:
            self._counters.reached("a partition lost its leader")
        if state.leader_epoch > before.leader_epoch:
            self._check_election(image, topic, place, before, state)

    def _check_election(
        self,
        image: MetadataImage,
        topic: Topic,
        place: Place,
        before: PartitionState,
        state: PartitionState,
    ) -> None:
        if before.eligible_leader_replicas and state.leader in before.eligible_leader_replicas:
            self._counters.reached("a leader was elected from the ELR")
        # Who joins the ISR may end a reassignment by that, and be elected in the same change.
        is_recovering = state.leader_recovery_state == RECOVERING
        has_ended = before.is_reassigning and not state.is_reassigning
        has_joined = has_ended and not is_recovering
        is_clean = has_joined or state.leader in (*before.isr, *before.eligible_leader_replicas)
        # A node may show several changes at once, and what lay between is not known: who was
        # elected uncleanly may be gone already, which is an epoch of its own.
        is_gap = state.partition_epoch > before.partition_epoch + 1
        if is_gap and is_recovering:
            self._replicas.elected_unclean(place, state.leader_epoch - (state.leader < 0))
        elif state.leader >= 0 and not is_clean and not is_gap:
            self._check_unclean(image, topic, place, before, state)

    def _check_unclean(
        self,
        image: MetadataImage,
        topic: Topic,
        place: Place,
        before: PartitionState,
        state: PartitionState,
    ) -> None:
        """Somebody leads who was neither in sync nor eligible."""
        is_configured = image.topic_configs(topic.name).get(UNCLEAN) == "true"
        is_allowed = is_configured or self.is_unclean_asked_for or place in self._given_up
        # By the same change the last one may have lost its place in the ELR.
        is_last_known = (
            not before.isr
            and not state.eligible_leader_replicas
            and before.last_known_elr == (state.leader,)
        )
        if not is_allowed and not is_last_known:
            raise Violation(
                "leaders come from ISR and ELR", f"{topic.name}: from {before} to {state}"
            )
        self._counters.reached(
            "an unclean election" if is_allowed else "the last known leader was elected"
        )
        self._replicas.elected_unclean(place, state.leader_epoch)

    def _check_members(self, place: Place, name: str, state: PartitionState) -> None:
        """Who may be elected has all that is committed."""
        ledger = self._replicas.ledgers.get(place)
        if ledger is None or not ledger.high_watermark:
            return
        if state.leader_recovery_state == RECOVERING and not self._replicas.is_led(
            place, state.leader_epoch
        ):
            return  # what its election costs is known when it leads
        for member in map(host, (*state.isr, *state.eligible_leader_replicas)):
            if not self._replicas.is_uncertain(member, place):
                ledger.check_below(
                    member, ledger.high_watermark, "who is in ISR or ELR has what is committed"
                )


def _check_registration(image: MetadataImage, broker: Broker) -> None:
    """The process before stopped uncleanly: nobody knows what this one has."""
    for place, state in image.partitions_of(broker.broker_id) if broker.fenced else ():
        if broker.broker_id in (*state.isr, *state.eligible_leader_replicas):
            raise Violation(
                "who stopped uncleanly is in no ISR or ELR",
                f"{broker.broker_id}, {place}: {state}",
            )


def _words(state: PartitionState) -> str:
    return (
        f"leader={state.leader} isr={state.isr} elr={state.eligible_leader_replicas}"
        f" replicas={state.replicas} leader_epoch={state.leader_epoch}"
        f" partition_epoch={state.partition_epoch} last_known_elr={state.last_known_elr}"
        f" recovery={state.leader_recovery_state}"
    )


def _changed(
    before: MetadataImage | None, image: MetadataImage
) -> Iterator[tuple[Topic, int, PartitionState]]:
    for topic in image.topics.values():
        old = None if before is None else before.topic(topic.name)
        if old is topic:
            continue
        for index, state in topic.partitions.items():
            if old is None or old.partitions.get(index) is not state:
                yield topic, index, state


def _check_sets(image: MetadataImage, topic: Topic, name: str, state: PartitionState) -> None:
    isr, elr = state.isr, state.eligible_leader_replicas
    configured = image.topic_configs(topic.name).get(MIN_ISR) or image.cluster_configs().get(
        MIN_ISR, "1"
    )
    min_isr = min(int(configured), len(state.replicas))
    for is_so, what in (
        (set(isr) <= set(state.replicas), "the ISR is among the replicas"),
        (set(elr) <= set(state.replicas), "the ELR is among the replicas"),
        (state.leader in isr or state.leader == -1, "the leader is in the ISR"),
        (not set(isr) & set(elr), "nobody is in both ISR and ELR"),
        (len(isr) < min_isr or not elr, "there is an ELR only below min.insync.replicas"),
        (len(set(state.replicas)) == len(state.replicas), "a broker is one replica"),
    ):
        require(is_so, what, lambda: f"{name}: {state}, min.insync.replicas {min_isr}")
    for member in isr if image.elr_is_on else ():
        if not image.is_active(member):
            raise Violation(
                "no fenced or stopping broker is in an ISR", f"{name}: broker {member}, {state}"
            )
